"""`markovlens models`: what is in the library."""


def models(json: bool = False) -> None:
    """List the library of small POMDPs: their sizes, and what each hides from the agent.

    Any of these names, or the path of a file in Cassandra's POMDP format, is a MODEL for the
    other commands. tmaze-20 is a T-maze with a corridor of 20.

    Example: markovlens models --json

    Args:
        json: print JSON instead of a table.
    """
    from markovlens.cli.output import print_json, print_table
    from markovlens.pomdp import library

    rows = []
    for name, entry in library.entries().items():
        pomdp = entry.build()
        rows.append(
            {
                "name": name,
                "states": pomdp.n_states,
                "actions": pomdp.n_actions,
                "observations": pomdp.n_observations,
                "gamma": float(pomdp.gamma),
                "hidden": entry.hidden,
            }
        )
    if json:
        print_json(rows)
    else:
        print_table(rows)

"""`markovlens evaluate`: how well a trained agent does."""

from pathlib import Path
from typing import Annotated

import tyro

from markovlens.cli.output import print_json, print_table


def evaluate(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    episodes: int = 100,
    greedy: bool = False,
    seed: int = 1_000_000,
    json: bool = False,
) -> None:
    """Play whole episodes with the agents of a run folder; means with 95% intervals.

    Example: markovlens evaluate runs/tmaze-5-ld --episodes 500 --greedy

    Args:
        run: the run folder.
        episodes: how many episodes each run plays.
        greedy: take the most likely action instead of drawing one.
        seed: of the episodes.
        json: print the result as JSON.
    """
    from markovlens.cli.runtime import prepare_jax

    prepare_jax()

    from markovlens.agents.evaluate import estimate
    from markovlens.agents.evaluate import evaluate as play
    from markovlens.agents.run import load_run

    loaded = load_run(run)
    played = play(loaded, episodes, greedy=greedy, seed=seed)
    rows = []
    for (index,), of_run in played.group_by("run", maintain_order=True):
        row: dict[str, object] = {"run": index, "seed": of_run["seed"][0]}
        for name in ("return", "discounted_return", "length"):
            mean, low, high = estimate(of_run[name])
            row |= {name: mean, f"{name}_low": low, f"{name}_high": high}
        rows.append(row)
    if json:
        print_json({"folder": str(run), "episodes": episodes, "greedy": greedy, "runs": rows})
    else:
        chosen = "greedy" if greedy else "sampled"
        print_table(rows, title=f"{run}: {episodes} episodes each, {chosen} actions")

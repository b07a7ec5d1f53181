"""Tells Gymnasium our environments' names.

Gymnasium gave up its plugin entry points in 1.0: a package must be imported
before `gymnasium.make` knows its environments. `import markovlens` registers
ours if Gymnasium is installed; the environments themselves, and JAX, are
imported when one is made.
"""

NAMESPACE = "markovlens"

IDS = {
    "RockSample-11-11-v0": "rocksample-11-11",
    "RockSample-15-15-v0": "rocksample-15-15",
    "Battleship-10-v0": "battleship-10",
    "PocMan-v0": "pocman",
    "TMaze-5-v0": "tmaze-5",
    "Tiger-v0": "tiger",
    "Paint-v0": "paint",
    "PaintEpisodic-v0": "paint-episodic",
    "Cheese-v0": "cheese",
    "CheeseEpisodic-v0": "cheese-episodic",
    "Network-v0": "network",
    "NetworkEpisodic-v0": "network-episodic",
    "Shuttle-v0": "shuttle",
    "ShuttleEpisodic-v0": "shuttle-episodic",
    "Maze4x3-v0": "maze4x3",
    "Maze4x3Episodic-v0": "maze4x3-episodic",
    "ParityCheck-v0": "parity_check",
    "EquivalentMdp-v0": "equivalent_mdp",
    "EquivalentMdpCollapsed-v0": "equivalent_mdp_collapsed",
}
"""Gymnasium's name (after `markovlens/`) -> ours."""

_FOLDER = "markovlens.envs.adapters.to_gymnasium"


def register() -> None:
    """Register every environment of `IDS`, and `markovlens/Env-v0` for any name `make` knows and
    for any `Env`.

    >>> import gymnasium
    >>> register()
    >>> env = gymnasium.make("markovlens/Env-v0", name="rocksample-5-3")
    """
    import gymnasium

    for gymnasium_id, name in [*IDS.items(), ("Env-v0", None)]:
        full = f"{NAMESPACE}/{gymnasium_id}"
        if full not in gymnasium.registry:
            gymnasium.register(
                full,
                entry_point=f"{_FOLDER}:GymnasiumEnv",
                vector_entry_point=f"{_FOLDER}:GymnasiumVectorEnv",
                kwargs={} if name is None else {"name": name},
            )

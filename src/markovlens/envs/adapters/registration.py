"""Tells Gymnasium our environments' names, without importing Gymnasium.

Gymnasium gave up its plugin entry points in 1.0: a package must be imported
before `gymnasium.make` knows its environments. Ours are registered when both
packages have been imported, in whichever order.
"""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

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
    """Register every environment of `IDS`, and `markovlens/Env-v0` for any name `make` knows.

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


def register_once_imported() -> None:
    """Register now if Gymnasium has been imported, else as soon as it is."""
    if "gymnasium" in sys.modules:
        register()
    elif not any(isinstance(finder, _Watcher) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watcher())


class _Watcher(MetaPathFinder):
    """Finds nothing by itself; has Gymnasium's own loader followed by `register`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenRegister(spec.loader)
        return spec


class _ThenRegister(Loader):
    def __init__(self, loader: Loader):
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # From here on the module has its own loader again, for whoever asks for its resources.
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        register()

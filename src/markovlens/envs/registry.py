"""Environments by name."""

import re
from collections.abc import Callable
from typing import NamedTuple

from markovlens.envs.env import Env, TimeLimit
from markovlens.names import unknown_name

TIME_LIMIT = 1000
GYMNASIUM_GAMMA = 0.99  # Gymnasium's environments name no discount


class _Family(NamedTuple):
    """Environments that differ by the whole numbers in their name."""

    pattern: str
    ends: bool  # whether every episode ends by the rules
    members: tuple[str, ...]  # the ones that `names` lists
    build: Callable[[tuple[int, ...], int], Env]  # (numbers in the name, seed)


def make(name: str, seed: int = 0, time_limit: int = TIME_LIMIT) -> Env:
    """The environment called `name`: `rocksample-N-K`, `battleship-N`, `pocman`, `tmaze-L`, or any
    POMDP of the library or of a `.POMDP` file.

    `seed` draws what is fixed for the life of an environment: RockSample's rock map. All others
    are the same for every seed. Every episode ends: Battleship's by its rules, the others' are
    truncated after `time_limit` steps if they have not ended before.

    >>> make("rocksample-11-11", seed=3).action_space
    Discrete(n=16)
    """
    for family in _FAMILIES:
        match = re.fullmatch(family.pattern, name, re.IGNORECASE)
        if match:
            env = family.build(tuple(int(number) for number in match.groups() if number), seed)
            return env if family.ends else TimeLimit(env, time_limit)
    return TimeLimit(_tabular(name), time_limit)


def is_gymnasium_id(name: str) -> bool:
    """Whether this names a Gymnasium environment: it ends in a version, or begins with a module.

    >>> is_gymnasium_id("CartPole-v1"), is_gymnasium_id("tmaze-5")
    (True, False)
    """
    return re.fullmatch(r"\S+:\S+|(\S+/)?[\w.-]+-v\d+", name) is not None


def names() -> list[str]:
    """The names that `make` knows, one or two of each family of any size."""
    from markovlens.pomdp import library

    members = [member for family in _FAMILIES for member in family.members]
    return members + [name for name in library.names() if not name.startswith("tmaze")]


def _rocksample(numbers: tuple[int, ...], seed: int) -> Env:
    from markovlens.envs.rocksample import RockSample

    size, rocks = numbers
    return RockSample(size, rocks, seed=seed)


def _battleship(numbers: tuple[int, ...], seed: int) -> Env:
    from markovlens.envs.battleship import Battleship

    (size,) = numbers
    return Battleship(size, size)


def _pocman(numbers: tuple[int, ...], seed: int) -> Env:
    from markovlens.envs.pocman import PocMan

    return PocMan()


def _tmaze(numbers: tuple[int, ...], seed: int) -> Env:
    from markovlens.envs.tmaze import TMaze

    return TMaze(*numbers)


def _tabular(name: str) -> Env:
    from markovlens.envs.tabular import Tabular
    from markovlens.pomdp import library

    if library.knows(name):
        return Tabular(library.load(name))
    if name.lower().endswith(".pomdp"):
        return Tabular(library.resolve(name))
    unknown = unknown_name("environment", name, names())
    raise ValueError(f"{unknown}; Gymnasium's go by name and version, like CartPole-v1")


_FAMILIES = (
    _Family(
        r"rocksample-(\d+)-(\d+)", False, ("rocksample-11-11", "rocksample-15-15"), _rocksample
    ),
    _Family(r"battleship-(\d+)", True, ("battleship-10",), _battleship),
    _Family(r"pocman", False, ("pocman",), _pocman),
    _Family(r"tmaze(?:-(\d+))?", False, ("tmaze-5",), _tmaze),
)

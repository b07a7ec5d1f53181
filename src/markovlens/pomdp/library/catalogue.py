"""The library by name: what there is, what each hides, and loading it."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from markovlens.names import unknown_name
from markovlens.pomdp.cassandra import read_pomdp
from markovlens.pomdp.library.machines import network, paint, shuttle, tiger
from markovlens.pomdp.library.mazes import cheese, maze4x3, tmaze
from markovlens.pomdp.library.theory import (
    equivalent_mdp,
    equivalent_mdp_collapsed,
    parity_check,
)
from markovlens.pomdp.model import Pomdp


class Entry(NamedTuple):
    """One model of the library: how to build it, and in a few words what it hides."""

    build: Callable[[], Pomdp]
    hidden: str


def _variants(name: str, build: Callable[..., Pomdp], hidden: str, end: str) -> dict[str, Entry]:
    """A model that goes on for ever, and the same with an end."""
    return {
        name: Entry(build, hidden),
        f"{name}-episodic": Entry(partial(build, episodic=True), f"{hidden}; ends {end}"),
    }


_ENTRIES: dict[str, Entry] = {
    "tmaze": Entry(tmaze, "where the goal is, after the first square"),
    "tiger": Entry(tiger, "which door the tiger is behind"),
    **_variants(
        "paint", paint, "whether the part is flawed, whether it is painted", "with the part"
    ),
    **_variants("cheese", cheese, "which of the cells with these walls", "at the cheese"),
    **_variants("network", network, "the load", "with a crash"),
    **_variants(
        "shuttle", shuttle, "how far the stations are, what is behind", "when docked at lrv"
    ),
    **_variants("maze4x3", maze4x3, "the row, which of the cells with these walls", "at a goal"),
    "parity_check": Entry(parity_check, "the colours seen before; zero λ-discrepancy"),
    "equivalent_mdp": Entry(equivalent_mdp, "an aliased state, to no effect: observations Markov"),
    "equivalent_mdp_collapsed": Entry(equivalent_mdp_collapsed, "nothing: an MDP"),
}


def entries() -> dict[str, Entry]:
    """Every model of the library by name."""
    return dict(_ENTRIES)


def names() -> list[str]:
    """The names that `load` knows; besides these, `tmaze-20` is a T-maze with a corridor of 20."""
    return list(_ENTRIES)


def knows(name: str) -> bool:
    """Whether `load` does."""
    return _builder(name) is not None


def load(name: str) -> Pomdp:
    """The model of that name, as its builder makes it by default.

    >>> load("cheese-episodic")
    Pomdp(11 states, 4 actions, 7 observations, gamma=0.95)
    """
    build = _builder(name)
    if build is None:
        raise unknown_name("model", name, _ENTRIES)
    return build()


def resolve(model: str) -> Pomdp:
    """The model that a command was given: a name of the library, or the path of a POMDP file.

    >>> resolve("tiger")
    Pomdp(5 states, 3 actions, 4 observations, gamma=0.95)
    """
    build = _builder(model)
    if build is not None:
        return build()
    path = Path(model)
    if path.is_file():
        return read_pomdp(path)
    if path.suffix or len(path.parts) > 1:
        raise ValueError(
            f"no file {model!r}; give the path of a POMDP file, or a name of the library "
            f"({', '.join(_ENTRIES)})"
        )
    raise unknown_name("model or file", model, _ENTRIES)


def _builder(name: str) -> Callable[[], Pomdp] | None:
    """Names are folded: `parity-check` is as good as `parity_check`."""
    folded = name.lower().replace("_", "-")
    if corridor := re.fullmatch(r"tmaze-(\d+)", folded):
        return partial(tmaze, corridor=int(corridor[1]))
    for known, entry in _ENTRIES.items():
        if known.replace("_", "-") == folded:
            return entry.build
    return None

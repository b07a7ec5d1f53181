"""The library by name: what there is, what each hides, and loading it."""

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from markovlens.names import unknown_name
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


def load(name: str) -> Pomdp:
    """The model of that name, as its builder makes it by default.

    >>> load("cheese-episodic")
    Pomdp(11 states, 4 actions, 7 observations, gamma=0.95)
    """
    if corridor := re.fullmatch(r"tmaze-(\d+)", name):
        return tmaze(corridor=int(corridor[1]))
    known = {_folded(key): entry for key, entry in _ENTRIES.items()}
    if _folded(name) not in known:
        raise unknown_name("model", name, _ENTRIES)
    return known[_folded(name)].build()


def _folded(name: str) -> str:
    return name.lower().replace("_", "-")


def resolve(model: str) -> Pomdp:
    """The model that a command was given: a name of the library."""
    return load(model)

"""The small POMDPs of the literature by name, and builders for all of them.

Each is built from its geometry and rules, with names for states, actions and observations, and a
docstring that says what is hidden. Those that go on for ever also come with an absorbing end:
`cheese(episodic=True)`, or `load("cheese-episodic")`.

>>> from markovlens.pomdp import library
>>> library.load("tiger")
Pomdp(5 states, 3 actions, 4 observations, gamma=0.95)
>>> library.load("tmaze-20").n_states
45
"""

from markovlens.pomdp.library.catalogue import Entry, entries, knows, load, names, resolve
from markovlens.pomdp.library.machines import network, paint, shuttle, tiger
from markovlens.pomdp.library.mazes import cheese, maze4x3, tmaze
from markovlens.pomdp.library.random_models import random_block_mdp, random_pomdp
from markovlens.pomdp.library.theory import (
    equivalent_mdp,
    equivalent_mdp_collapsed,
    parity_check,
)

__all__ = [
    "Entry",
    "cheese",
    "entries",
    "equivalent_mdp",
    "equivalent_mdp_collapsed",
    "knows",
    "load",
    "maze4x3",
    "names",
    "network",
    "paint",
    "parity_check",
    "random_block_mdp",
    "random_pomdp",
    "resolve",
    "shuttle",
    "tiger",
    "tmaze",
]

"""A learned memory in words: what is done on each observation, and what is remembered then."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from markovlens.memory.learned import LearnedMemory
from markovlens.pomdp.model import Pomdp
from markovlens.values.chain import Chain

# Rarer than this is left out of what people read.
SELDOM = 0.01


class Move(NamedTuple):
    """Seeing `observation` in memory state `memory`, the agent does `action` and goes to `then`.

    `share` is how often that happens, of all discounted steps before the end; `chance` how likely
    it is given observation and memory.
    """

    observation: str
    memory: int
    action: str
    then: int
    chance: float
    share: float


def moves(pomdp: Pomdp, learned: LearnedMemory, seldom: float = SELDOM) -> list[Move]:
    """What the agent does, the unlikely left out, in the order of memory states and observations.

    >>> from markovlens.memory.learn import learn_memory
    >>> from markovlens.pomdp import library
    >>> tmaze = library.tmaze(corridor=1)
    >>> found = learn_memory(tmaze, 2, recipe="best")  # doctest: +SKIP
    >>> {m.action for m in moves(tmaze, found) if m.observation == "blue"}  # doctest: +SKIP
    {'right'}
    """
    shares = flow(pomdp, learned)
    visits = shares.sum(axis=(2, 3))
    found = []
    for m, o in np.ndindex(learned.n_memory, pomdp.n_observations):
        if visits[o, m] <= 0.0:
            continue
        for a, then in np.ndindex(shares.shape[2:]):
            chance = shares[o, m, a, then] / visits[o, m]
            if chance >= seldom:
                move = (pomdp.observations[o], m, pomdp.actions[a], int(then))
                found.append(Move(*move, float(chance), float(shares[o, m, a, then])))
    return found


def flow(pomdp: Pomdp, learned: LearnedMemory) -> Float[np.ndarray, "O M A M"]:
    """Pr(o, m) π(a|o,m) μ(m'|o,a,m): the share of steps that each move makes up."""
    with jax.enable_x64(True):
        visits = np.asarray(Chain(pomdp, learned.policy, learned.memory).visits)
    policy, memory = np.asarray(learned.policy), np.asarray(learned.memory)
    return np.einsum("om,oma,oamn->oman", visits, policy, memory)

"""The POMDP as the solver sees it: equal states merged, observations on the arrows."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from markovlens.pomdp.model import Pomdp

SAME = 12  # digits to which two states' futures must agree to be one


@dataclass(frozen=True)
class Lumped:
    """A POMDP over classes `c` of states with the same future.

    What the agent sees on arriving depends on the state, what happens then only
    on its class, so observations move to the arrows:
    `joint[a, o, c, c'] = Pr(c', o | c, a)`. A model whose states were split by
    the arriving action shrinks back to the size it had before.

    Attributes:
        joint: probabilities of the next class and observation.
        reward: expected rewards.
        gamma: discount.
        terminal: classes where the episode is over, or might as well be.
        roots: beliefs after each possible first observation.
        root_weights: probabilities of those first observations.
        class_of: the class of each state of the POMDP.
    """

    joint: Float[np.ndarray, "A O C C"]
    reward: Float[np.ndarray, "A C"]
    gamma: float
    terminal: np.ndarray
    roots: Float[np.ndarray, "W C"]
    root_weights: Float[np.ndarray, "W"]
    class_of: Int[np.ndarray, "S"]


def lump(pomdp: Pomdp) -> Lumped:
    """Merge states that no sequence of actions can tell apart from now on.

    The coarsest partition in which all states of a class have the same rewards
    and the same `Pr(c', o | s, a)`, found by splitting classes until none splits.
    """
    T, R, Phi, p0 = (np.asarray(x) for x in (pomdp.T, pomdp.R, pomdp.Phi, pomdp.p0))
    class_of = _number_rows(_significant(R))
    while True:
        joint = _joint(T, Phi, class_of)
        futures = joint.transpose(2, 0, 1, 3).reshape(len(R), -1)
        finer = _number_rows(np.column_stack([class_of, np.round(futures, SAME)]))
        if finer.max() == class_of.max():
            break
        class_of = finer
    members = np.unique(class_of, return_index=True)[1]
    seen = p0 @ Phi
    roots = (p0[:, None] * Phi)[:, seen > 0.0] / seen[seen > 0.0]
    return Lumped(
        joint=joint[:, :, members],
        reward=R[members].T.copy(),
        gamma=float(pomdp.gamma),
        terminal=np.isin(np.arange(len(members)), class_of[np.asarray(pomdp.terminal)]),
        roots=_merge_columns(roots.T, class_of),
        root_weights=seen[seen > 0.0],
        class_of=class_of,
    )


def _joint(T: np.ndarray, Phi: np.ndarray, class_of: np.ndarray) -> Float[np.ndarray, "A O S C"]:
    arrivals = T[:, None] * Phi.T[None, :, None, :]
    return _merge_columns(arrivals, class_of)


def _merge_columns(x: np.ndarray, class_of: np.ndarray) -> np.ndarray:
    merge = np.zeros((len(class_of), class_of.max() + 1))
    merge[np.arange(len(class_of)), class_of] = 1.0
    return x @ merge


def _significant(x: np.ndarray) -> np.ndarray:
    """Rounded to so many digits of each number, whatever the size of the others."""
    unit = 10.0 ** np.floor(np.log10(np.maximum(np.abs(x), np.finfo(float).tiny)))
    return np.asarray(np.round(x / unit, SAME) * unit)


def _number_rows(rows: np.ndarray) -> Int[np.ndarray, "S"]:
    rows = rows + 0.0  # -0.0 and 0.0 are the same number
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)

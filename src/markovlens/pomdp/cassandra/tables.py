"""From the assignments in a file to the arrays of a model."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from markovlens.pomdp.cassandra.writes import Writes
from markovlens.pomdp.model import EXACT_ENOUGH

ROW_SUM_TOLERANCE = 1e-5
CELLS_AT_ONCE = 1 << 20  # how many cells of R are looked up together


class ActionPomdp(NamedTuple):
    """What a file says: a POMDP whose observation may depend on the action that led to a state."""

    T: Float[np.ndarray, "A S S"]  # T[a, s, s']
    R: Float[np.ndarray, "S A"]  # expected reward, the observation averaged out
    O: Float[np.ndarray, "A S O"]  # noqa: E741  O[a, s', o]
    p0: Float[np.ndarray, "S"]
    gamma: float
    states: tuple[str, ...]
    actions: tuple[str, ...]
    observations: tuple[str, ...]


def expected_reward(
    writes: Writes,
    T: Float[np.ndarray, "A S S"],
    O: Float[np.ndarray, "A S O"],  # noqa: E741
) -> Float[np.ndarray, "S A"]:
    """R[s, a] = Σ_s' T[a, s, s'] Σ_o O[a, s', o] R[a, s, s', o], cell by possible cell."""
    n_actions, n_states, n_observations = O.shape
    a, s = np.meshgrid(np.arange(n_actions), np.arange(n_states))
    R = writes.sparse()
    if not writes.names_axis(2) and not writes.names_axis(3):
        return R.at(a, s)
    seen_matters = writes.names_axis(3)
    result = np.zeros((n_states, n_actions))
    for action in range(n_actions):
        froms, tos = np.nonzero(T[action])
        step = max(1, CELLS_AT_ONCE // (n_observations if seen_matters else 1))
        for start in range(0, len(froms), step):
            s, t = froms[start : start + step], tos[start : start + step]
            if seen_matters:
                o = np.arange(n_observations)
                paid = R.at(np.array(action), s[:, None], t[:, None], o[None, :])
                paid = (paid * O[action, t]).sum(axis=1)
            else:
                paid = R.at(np.array(action), s, t)
            weighted = T[action, s, t] * paid
            result[:, action] += np.bincount(s, weighted, minlength=n_states)
    return result


def fill_resets(T: Float[np.ndarray, "A S S"], p0: Float[np.ndarray, "S"]) -> None:
    """Put the start distribution where a `reset` left NaN, an action at a time: T may be large."""
    for of_action in T:
        froms, tos = np.nonzero(np.isnan(of_action))
        of_action[froms, tos] = p0[tos]


def normalise(rows: Float[np.ndarray, "*more S n"]) -> None:
    """Divide rows that are slightly off by their sums, in place."""
    for table in rows.reshape(-1, *rows.shape[-2:]):
        sums = table.sum(axis=1)
        off = np.flatnonzero(np.abs(sums - 1.0) > EXACT_ENOUGH)
        table[off] /= sums[off, None]


def is_probability(values: np.ndarray) -> np.ndarray:
    return (values >= 0.0) & (values <= 1.0 + ROW_SUM_TOLERANCE)

"""Ridge regressions on many features of many rows, from sums over portions of the rows."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import cho_factor, cho_solve

PRESENT_RIDGES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
PROBE_RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


class Regression:
    """Regresses columns on features of the present, and what is left on features of the past too.

    The rows belong to groups 0…3: halves for cross-fitting (`group // 2`), each in two halves to
    choose penalties by (`group % 2`). Only products of features are kept, one matrix for each
    group; features are made again, a portion of the rows at a time, when rows are predicted.
    """

    def __init__(
        self,
        present: Callable[[slice], Float[np.ndarray, "n k"]],
        past: Callable[[slice], Float[np.ndarray, "n p"]],
        columns: Float[np.ndarray, "N c"],
        group: Int[np.ndarray, "N"],
        portions: Sequence[slice],
    ):
        """`group` is negative for rows to leave out; `portions` together are all the rows."""
        self._present, self._past, self._columns = present, past, columns
        self._portions = portions
        self._n_present = present(slice(0, 1)).shape[1]
        self._n_past = past(slice(0, 1)).shape[1]
        size = self._n_present + self._n_past + columns.shape[1]
        self._products = np.zeros((4, size, size))
        for rows in self._portions:
            everything = np.hstack([present(rows), past(rows), columns[rows]])
            for g in range(4):
                chosen = everything[group[rows] == g]
                self._products[g] += chosen.T @ chosen

    def residuals(self, fold: int, column: int) -> Float[np.ndarray, "N"]:
        """A column less its mean given the present, as learnt from one fold."""
        halves = self._products[2 * fold : 2 * fold + 2]
        k, at = self._n_present, self._n_present + self._n_past + column
        penalty = _best_penalty(halves[:, :k, :k], halves[:, :k, at], PRESENT_RIDGES)
        both = halves.sum(axis=0)
        weights = _ridge(both[:k, :k], both[:k, at], penalty)
        fitted = [self._present(rows) @ weights for rows in self._portions]
        return self._columns[:, column] - np.concatenate(fitted)

    def probe(self, fold: int, column: int) -> Float[np.ndarray, "N"]:
        """What present and past say about a column beyond its mean given the present.

        All features of the past are first taken less their own mean given the present.
        """
        halves = self._products[2 * fold : 2 * fold + 2]
        k, p = self._n_present, self._n_past
        at = k + p + column
        both = halves.sum(axis=0)
        penalty = _best_penalty(halves[:, :k, :k], halves[:, :k, at], PRESENT_RIDGES)
        mean = _ridge(both[:k, :k], both[:k, at], penalty)
        means = _ridge(both[:k, :k], both[:k, k : k + p], PRESENT_RIDGES[0])
        square, cross = np.zeros((2, p, p)), np.zeros((2, p))
        for i, m in enumerate(halves):
            left = m[k : k + p, :k] - means.T @ m[:k, :k]
            square[i] = m[k : k + p, k : k + p] - means.T @ m[:k, k : k + p] - left @ means
            cross[i] = m[k : k + p, at] - means.T @ m[:k, at] - left @ mean
        weights = _ridge(square.sum(0), cross.sum(0), _best_penalty(square, cross, PROBE_RIDGES))
        through_present = means @ weights
        fitted = [
            self._past(rows) @ weights - self._present(rows) @ through_present
            for rows in self._portions
        ]
        return np.concatenate(fitted)


def _best_penalty(
    square: Float[np.ndarray, "2 k k"], cross: Float[np.ndarray, "2 k"], among: tuple[float, ...]
) -> float:
    """The penalty under which the weights of each half make the smallest error on the other."""

    def error(penalty: float) -> float:
        total = 0.0
        for mine, other in ((0, 1), (1, 0)):
            w = _ridge(square[mine], cross[mine], penalty)
            total += w @ square[other] @ w - 2.0 * w @ cross[other]
        return total

    return min(among, key=error)


def _ridge(square: np.ndarray, cross: np.ndarray, penalty: float) -> np.ndarray:
    """Penalises each feature in proportion to its own size."""
    diagonal = np.maximum(np.diag(square), 0.0)
    jitter = penalty * diagonal + 1e-12 * diagonal.mean() + 1e-300
    return cho_solve(cho_factor(square + np.diag(jitter)), cross)

"""Weights of going from sources to targets, for many replications, and values that follow them."""

import abc

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse
from scipy.sparse.linalg import splu

from markovlens.evidence.finding import TooThin

ENDLESS = (
    "with gamma = 1 values are finite only if every observation leads to the end of an episode, "
    "and in these data one does not; say 0.99"
)
LARGEST_DENSE = 200  # targets; beyond, the linear systems are solved as sparse ones


class Flow(abc.ABC):
    """F[r, s, x]: in replication r, how much goes from source s to target x.

    Sources are steps from a cell with an action, targets are cells; `cell[s]` is the cell that
    source s belongs to.
    """

    def __init__(self, replications: int, cell: Int[np.ndarray, "S"], targets: int):
        self.replications, self.cell, self.targets = replications, cell, targets

    @abc.abstractmethod
    def add(
        self,
        replication: Int[np.ndarray, "N"],
        source: Int[np.ndarray, "N"],
        target: Int[np.ndarray, "N"],
        weight: Float[np.ndarray, "N"],
    ) -> None:
        """F[replication, source, target] += weight, row by row."""

    @abc.abstractmethod
    def carried(self, values: Float[np.ndarray, "R X"]) -> Float[np.ndarray, "R S"]:
        """Σ_x F[r, s, x] V[r, x]."""

    @abc.abstractmethod
    def _solve(
        self, diagonal: Float[np.ndarray, "R X"], right: Float[np.ndarray, "R X"]
    ) -> Float[np.ndarray, "R X"]: ...

    def values(
        self,
        visits: Float[np.ndarray, "R S"],
        totals: Float[np.ndarray, "R S"],
        typical: Float[np.ndarray, "R"],
    ) -> Float[np.ndarray, "R X"]:
        """V with `Σ_{s of x} (totals[s] + Σ_y F[s, y] V[y] − visits[s] V[x]) = 0` for every cell x.

        Cells that were never visited get a typical value, as there is nothing better.
        """
        seen, total = self._over_sources(visits), self._over_sources(totals)
        unseen = seen == 0.0
        right = np.where(unseen, typical[:, None], total)
        try:
            return self._solve(np.where(unseen, 1.0, seen), right)
        except (np.linalg.LinAlgError, RuntimeError):  # singular, as NumPy and SciPy say it
            raise TooThin(ENDLESS) from None

    def _over_sources(self, values: Float[np.ndarray, "R S"]) -> Float[np.ndarray, "R X"]:
        key = np.arange(self.replications)[:, None] * self.targets + self.cell
        summed = np.bincount(key.ravel(), values.ravel(), self.replications * self.targets)
        return summed.reshape(self.replications, self.targets)


class DenseFlow(Flow):
    """All of F as one array."""

    def __init__(self, replications: int, cell: Int[np.ndarray, "S"], targets: int):
        super().__init__(replications, cell, targets)
        self.weights = np.zeros((replications, len(cell), targets))

    def add(
        self, replication: np.ndarray, source: np.ndarray, target: np.ndarray, weight: np.ndarray
    ) -> None:
        first, beyond = replication.min(), replication.max() + 1
        here = self.weights[first:beyond]
        key = ((replication - first) * len(self.cell) + source) * self.targets + target
        here += np.bincount(key, weight, here.size).reshape(here.shape)

    def carried(self, values: Float[np.ndarray, "R X"]) -> Float[np.ndarray, "R S"]:
        return (self.weights @ values[:, :, None])[:, :, 0]

    def _solve(self, diagonal: np.ndarray, right: np.ndarray) -> Float[np.ndarray, "R X"]:
        system = np.zeros((self.replications, self.targets, self.targets))
        # Sources of one cell are not neighbours when there is memory: add them cell by cell.
        order = np.argsort(self.cell, kind="stable")
        cells, first = np.unique(self.cell[order], return_index=True)
        system[:, cells] = -np.add.reduceat(self.weights[:, order], first, axis=1)
        index = np.arange(self.targets)
        system[:, index, index] += diagonal
        return np.linalg.solve(system, right[:, :, None])[:, :, 0]


class SparseFlow(Flow):
    """F as one sparse matrix with a block for each replication, solved in one go."""

    def __init__(self, replications: int, cell: Int[np.ndarray, "S"], targets: int):
        super().__init__(replications, cell, targets)
        self._shape = (replications * len(cell), replications * targets)
        self.weights = sparse.csr_matrix(self._shape)

    def add(
        self, replication: np.ndarray, source: np.ndarray, target: np.ndarray, weight: np.ndarray
    ) -> None:
        at = (replication * len(self.cell) + source, replication * self.targets + target)
        self.weights = self.weights + sparse.csr_matrix((weight, at), shape=self._shape)

    def carried(self, values: Float[np.ndarray, "R X"]) -> Float[np.ndarray, "R S"]:
        return (self.weights @ values.ravel()).reshape(self.replications, len(self.cell))

    def _solve(self, diagonal: np.ndarray, right: np.ndarray) -> Float[np.ndarray, "R X"]:
        cells = (np.arange(self.replications)[:, None] * self.targets + self.cell).ravel()
        at = (cells, np.arange(len(cells)))
        to_cells = sparse.csr_matrix((np.ones(len(cells)), at), shape=self._shape[::-1])
        system = sparse.diags(diagonal.ravel()) - to_cells @ self.weights
        return splu(system.tocsc()).solve(right.ravel()).reshape(right.shape)


def new_flow(replications: int, cell: Int[np.ndarray, "S"], targets: int) -> Flow:
    kind = DenseFlow if targets <= LARGEST_DENSE else SparseFlow
    return kind(replications, cell, targets)

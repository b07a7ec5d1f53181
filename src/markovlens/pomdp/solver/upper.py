"""The upper bound: a number at each belief, the lower hull of the nodes' in between."""

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from markovlens.pomdp.solver.fixpoint import fixpoint
from markovlens.pomdp.solver.graph import BeliefGraph
from markovlens.pomdp.solver.hull import lower_hull, mixtures
from markovlens.pomdp.solver.initial import fast_informed_bound
from markovlens.pomdp.solver.lump import Lumped

SWEEPS = 100
GROWTH = 1.2  # of the nodes since the bound was last settled: time to do it again
AS_LOW = 1e-11  # of the largest value: differences that are rounding
PIVOTS = 8  # a round; the next one goes on from there
CHUNK = 2_000_000  # numbers in a temporary array


class UpperBound:
    """`values[i] ≥ V*(beliefs[i])` for every belief of the graph; they only ever decrease.

    Starts from the fast informed bound. The optimal value is convex, so a belief's value is also
    bounded by mixing the values of nodes that mix to it; the nodes always include the corners
    (the beliefs that are certain of a state), so that some mixture always exists.
    """

    values: Float[np.ndarray, "B"]

    def __init__(self, model: Lumped, graph: BeliefGraph, corners: Int[np.ndarray, "C"]):
        self._informed = fast_informed_bound(model)
        self._gamma = model.gamma
        self._graph = graph
        self._corners = corners
        self._n_nodes = 0
        self._n_settled = 0  # nodes when the bound was last settled
        self.values = np.zeros(0)
        self._vertex = np.zeros(0, dtype=bool)  # nodes that other beliefs' values may lean on
        self._basis = np.zeros((0, len(corners)), dtype=np.int64)  # beliefs each was mixed from
        self._mixed = np.zeros(0, dtype=bool)  # beliefs whose mixture is what bounds them
        self.add_new()

    def add_new(self) -> None:
        """Values for beliefs that have come to the graph since."""
        fresh = self._graph.beliefs[len(self.values) :]
        self.values = np.concatenate([self.values, (fresh @ self._informed.T).max(axis=1)])
        start = np.tile(self._corners, (len(fresh), 1))
        inside_first = np.argsort(fresh == 0.0, axis=1, kind="stable")
        start = np.take_along_axis(start, inside_first, axis=1)
        self._basis = np.concatenate([self._basis, start])
        none = np.zeros(len(fresh), dtype=bool)
        self._vertex = np.concatenate([self._vertex, none])
        self._mixed = np.concatenate([self._mixed, none])
        self._vertex[self._graph.belief_of[self._n_nodes :]] = True
        self._n_nodes = len(self._graph.belief_of)

    def lower(self, tolerance: float) -> None:
        """Bellman updates of all nodes together until none moves by more than `tolerance`.

        Where that would take long, and from time to time, it goes on to where they would end.
        """
        nodes = self._graph.belief_of
        before = self.values[nodes]
        at_rest = self._sweep(tolerance)
        if self._gamma < 1.0 and not (at_rest and len(nodes) < GROWTH * self._n_settled):
            self._settle()
            self._n_settled = len(nodes)
        self._vertex[nodes[self.values[nodes] < before]] = True

    def _sweep(self, tolerance: float) -> bool:
        nodes = self._graph.belief_of
        for _ in range(SWEEPS):
            old = self.values[nodes]
            new = np.minimum(old, self._graph.q_values(self.values).max(axis=1))
            self.values[nodes] = new
            if (old - new).max() <= tolerance:
                return True
        return False

    def _settle(self) -> None:
        beliefs = self._graph.beliefs
        mixed = np.flatnonzero(self._mixed)
        mixing = sparse.csr_array((len(beliefs), len(beliefs)))
        for support, group in _same_support(beliefs[mixed] > 0.0):
            numbers = mixed[group]
            basis = self._basis[numbers, : len(support)]
            weights, exact = mixtures(
                beliefs[np.ix_(numbers, support)], beliefs[basis][:, :, support]
            )
            self._mixed[numbers[~exact]] = False
            where = np.repeat(numbers[exact], len(support)), basis[exact].ravel()
            mixing += sparse.csr_array((weights[exact].ravel(), where), shape=mixing.shape)
        self.values = fixpoint(self._graph, self._gamma, self.values, self._mixed, mixing)

    def interpolate(self, numbers: Int[np.ndarray, "n"]) -> None:
        """Lower the values of these beliefs to the hull of all nodes' values."""
        beliefs = self._graph.beliefs
        for support, group in _same_support(beliefs[numbers] > 0.0):
            outside = np.setdiff1d(np.arange(beliefs.shape[1]), support)
            vertices = np.flatnonzero(self._vertex)
            vertices = vertices[~(beliefs[vertices][:, outside] > 0.0).any(axis=1)]
            some = numbers[group]
            vertices = np.union1d(vertices, self._basis[some, : len(support)])
            step = max(1, CHUNK // len(vertices))
            for start in range(0, len(some), step):
                self._interpolate(some[start : start + step], vertices, support)

    def _interpolate(self, numbers: np.ndarray, nodes: np.ndarray, support: np.ndarray) -> None:
        beliefs = self._graph.beliefs
        column_of = np.zeros(len(beliefs), dtype=np.int64)
        column_of[nodes] = np.arange(len(nodes))
        values, basis = lower_hull(
            queries=beliefs[np.ix_(numbers, support)],
            points=beliefs[np.ix_(nodes, support)],
            heights=self.values[nodes],
            basis=column_of[self._basis[numbers, : len(support)]],
            pivots=PIVOTS,
        )
        self._basis[numbers, : len(support)] = nodes[basis]
        spoilt = np.isinf(values)
        self._basis[np.ix_(numbers[spoilt], np.arange(len(support)))] = self._corners[support]
        self._vertex[numbers] &= values >= self.values[numbers]
        rounding = AS_LOW * np.abs(self.values).max()
        of_others = (self._basis[numbers, : len(support)] != numbers[:, None]).all(axis=1)
        self._mixed[numbers] = of_others & (values <= self.values[numbers] + rounding)
        self.values[numbers] = np.minimum(self.values[numbers], values)


def _same_support(
    support: np.ndarray,
) -> list[tuple[Int[np.ndarray, "k"], Int[np.ndarray, "m"]]]:
    """Rows with the same support: pairs of (the classes in it, the rows that have it)."""
    patterns, group = np.unique(support, axis=0, return_inverse=True)
    group = group.reshape(-1)
    return [
        (np.flatnonzero(pattern), np.flatnonzero(group == i))
        for i, pattern in enumerate(patterns)
        if pattern.sum() > 1
    ]

"""Where to look next: the frontier beliefs that keep the bounds apart."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from markovlens.pomdp.solver.graph import BeliefGraph
from markovlens.pomdp.solver.lower import LowerBound
from markovlens.pomdp.solver.lump import Lumped
from markovlens.pomdp.solver.plans import Plans
from markovlens.pomdp.solver.upper import UpperBound

FEWEST, MOST = 16, 500  # nodes added in a round
SHARE = 0.03  # of the nodes there are already
REPEATS = 2  # of improving each bound in a round
STEPS = 1000  # how far the probability of visits is followed
NEGLIGIBLE = 0.01  # of the gap aimed for: not worth looking at


@dataclass(frozen=True)
class Bounds:
    """What is known after a round: the value lies between, and `plans` reach the lower one."""

    lower: float
    upper: float
    plans: Plans


class Search:
    """Best-first search of the beliefs reachable from the first observations.

    In each round both bounds are improved on the graph so far. Then the frontier is extended where
    it matters: with `c(f)` the discounted probability of leaving the graph at the frontier belief
    `f` when acting by the upper bound, `U(root) − L(root) ≤ Σ_f c(f) (U(f) − L(f))`, and the
    beliefs with the largest terms become nodes.
    """

    bounds: Bounds

    def __init__(self, model: Lumped):
        self._model = model
        self._graph = BeliefGraph(model)
        self._roots = self._graph.add(model.roots)
        corners = self._graph.add(np.eye(model.reward.shape[1]))
        self._upper = UpperBound(model, self._graph, corners)
        self._lower = LowerBound(model, self._graph)
        self._expand(np.union1d(self._roots, corners))
        self.bounds = self._look_at_roots()

    @property
    def n_beliefs(self) -> int:
        """Beliefs whose successors have been looked at."""
        return len(self._graph.belief_of)

    def round(self, target: float) -> None:
        """Improve the bounds, then extend the graph, on the way to a gap of `target`."""
        graph, upper = self._graph, self._upper
        settled = 0.1 * NEGLIGIBLE * target * max(1.0 - self._model.gamma, 1e-3)
        for _ in range(REPEATS):
            visited = self._visits(target) > 0.0
            frontier = np.flatnonzero(visited & (graph.node_of < 0))
            upper.interpolate(np.concatenate([graph.belief_of, frontier]))
            upper.lower(settled)
        visits = self._visits(target)
        self._lower.follow(self._roots, self._model.root_weights)
        for _ in range(REPEATS):
            self._lower.back_up(settled)
        self.bounds = self._look_at_roots()
        self._extend(visits, target)

    def _extend(self, visits: Float[np.ndarray, "B"], target: float) -> None:
        terms = visits * (self._upper.values - self._lower.values)
        terms[self._graph.node_of >= 0] = 0.0
        n_new = int(np.clip(SHARE * self.n_beliefs, FEWEST, MOST))
        chosen = np.argsort(-terms)[:n_new]
        worthwhile = NEGLIGIBLE * target / np.count_nonzero(visits)
        chosen = chosen[terms[chosen] > worthwhile]
        if len(chosen) > 0:
            self._expand(chosen)

    def _expand(self, numbers: Int[np.ndarray, "n"]) -> None:
        self._graph.expand(numbers)
        self._upper.add_new()
        self._lower.add_new()

    def _look_at_roots(self) -> Bounds:
        weights = self._model.root_weights
        return Bounds(
            lower=float(weights @ self._lower.values[self._roots]),
            upper=float(weights @ self._upper.values[self._roots]),
            plans=self._lower.plans,
        )

    def _visits(self, target: float) -> Float[np.ndarray, "B"]:
        """Discounted probability of visiting each belief when acting by the upper bound."""
        graph = self._graph
        gaps = np.maximum(self._upper.values - self._lower.values, 0.0)[graph.belief_of]
        action = graph.q_values(self._upper.values).argmax(axis=1)
        rows = np.arange(len(action))
        probs = self._model.gamma * graph.probs[rows, action]
        to = graph.successors[rows, action].ravel()
        flow = np.bincount(self._roots, self._model.root_weights, minlength=len(graph.beliefs))
        visits = flow.copy()
        for _ in range(STEPS):
            leaving = flow[graph.belief_of]
            if leaving @ gaps <= NEGLIGIBLE * target:
                break
            flow = np.bincount(to, (leaving[:, None] * probs).ravel(), minlength=len(flow))
            visits += flow
        return visits

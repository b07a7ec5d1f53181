"""The lower bound: plans that are best somewhere, and their values as alpha vectors."""

import numpy as np
from jaxtyping import Float, Int

from markovlens.pomdp.solver.graph import BeliefGraph
from markovlens.pomdp.solver.lump import Lumped
from markovlens.pomdp.solver.plans import Plans, best_plan, blind_plans, evaluated, joined

BLIND = -1  # the owner of plans that were made for no node


class LowerBound:
    """`values[i] ≤ V*(beliefs[i])` for every belief of the graph; they only ever increase.

    Every plan goes on with plans that are also kept, so that all vectors are exact values of
    something that can be carried out.
    """

    values: Float[np.ndarray, "B"]
    best: Int[np.ndarray, "B"]  # the plan that gives the value
    plans: Plans

    def __init__(self, model: Lumped, graph: BeliefGraph):
        self._model, self._graph = model, graph
        self.plans = blind_plans(model)
        self._owner = np.full(len(self.plans.action), BLIND)  # the node a plan was made for
        self.values = np.zeros(0)
        self.best = np.zeros(0, dtype=np.int64)
        self.add_new()

    def add_new(self) -> None:
        """Values for beliefs that have come to the graph since."""
        values, best = best_plan(self.plans.vectors, self._graph.beliefs[len(self.values) :])
        self.values = np.concatenate([self.values, values])
        self.best = np.concatenate([self.best, best])

    def back_up(self, least: float) -> None:
        """Add a plan for each node where one step of looking ahead gains more than `least`."""
        action, then = self._greedy()
        new = Plans.backed_up(self._model, action, then, self.plans.vectors)
        where = self._graph.belief_of
        gains = new.worth(self._graph.beliefs[where]) > self.values[where] + least
        nodes = np.flatnonzero(gains)
        if len(nodes) == 0:
            return
        _, first = np.unique(
            np.column_stack([action[nodes], then[nodes]]), axis=0, return_index=True
        )
        self._add(new.take(nodes[first]), nodes[first])

    def follow(self, roots: Int[np.ndarray, "W"], weights: Float[np.ndarray, "W"]) -> None:
        """Improve all plans at once, each going on with the improved ones, and see what that gives.

        A step of policy iteration: it makes the loops that backing up would need for ever to
        unroll. The plans are kept if they gain at these beliefs.
        """
        action, then = self._greedy()
        n_plans = len(self.plans.action)
        owner = self._owner[then]
        improved = Plans(
            vectors=np.zeros((len(action), self.plans.vectors.shape[1])),
            action=action,
            then=np.where(owner == BLIND, then, n_plans + owner),
        )
        both = joined(self.plans, improved)
        rows = both.reached_from(n_plans + self._graph.node_of[roots])
        exact = evaluated(self._model, both.only(rows))
        gained, _ = best_plan(exact.vectors, self._graph.beliefs[roots])
        if weights @ gained > weights @ self.values[roots]:
            owners = np.concatenate([self._owner, np.arange(len(action))])[rows]
            self._add(Plans(exact.vectors, exact.action, n_plans + exact.then), owners)

    def _add(self, new: Plans, owner: Int[np.ndarray, "n"]) -> None:
        """Take in new plans, and let go of all that are of no use any more."""
        beliefs = self._graph.beliefs
        n_plans = len(self.plans.action)
        plans, owner = joined(self.plans, new), np.concatenate([self._owner, owner])
        values, best = best_plan(new.vectors, beliefs)
        better = values > self.values
        best = np.where(better, n_plans + best, self.best)
        blind = np.arange(len(self._model.joint))  # stay in front: they are always kept
        rows = plans.reached_from(np.concatenate([blind, best]))
        number = np.zeros(len(owner), dtype=np.int64)
        number[rows] = np.arange(len(rows))
        self.values = np.maximum(self.values, values)
        self.plans, self._owner, self.best = plans.only(rows), owner[rows], number[best]

    def _greedy(self) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N O"]]:
        """At each node the best action, then the best plan at each successor."""
        graph = self._graph
        action = graph.q_values(self.values).argmax(axis=1)
        nodes = np.arange(len(action))
        # For what cannot be seen from the node's belief, though perhaps from others nearby.
        arrivals = self._model.joint.sum(axis=2)
        _, elsewhere = best_plan(self.plans.vectors, arrivals.reshape(-1, arrivals.shape[-1]))
        elsewhere = elsewhere.reshape(arrivals.shape[:2])[action]
        seen = graph.probs[nodes, action] > 0.0
        return action, np.where(seen, self.best[graph.successors[nodes, action]], elsewhere)

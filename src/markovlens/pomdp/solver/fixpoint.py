"""Where the upper bound would end if it were swept for ever."""

import numpy as np
from jaxtyping import Bool, Float
from scipy import sparse
from scipy.sparse.linalg import splu

from markovlens.pomdp.solver.graph import BeliefGraph

POLICIES = 30  # tried at most; a handful is usual
ROUNDING = 1e-10  # of the largest value: an action must be better by more


def fixpoint(
    graph: BeliefGraph,
    gamma: float,
    values: Float[np.ndarray, "B"],
    mixed: Bool[np.ndarray, "B"],
    mixing: sparse.csr_array,
) -> Float[np.ndarray, "B"]:
    """The values at which nothing moves any more, with γ < 1.

    A mixed belief has the value of its mixture (a row of `mixing`), any other node the best of its
    actions, and all other beliefs keep theirs. By policy iteration: for a choice of actions all
    that is a linear system. Whatever the mixtures are, the result bounds the optimal value from
    above as long as `values` do, for that is convex. If no policy is found to be the best, the
    values come back as they are.
    """
    nodes = graph.belief_of[~mixed[graph.belief_of]]
    unknown = np.concatenate([nodes, np.flatnonzero(mixed)])
    known = values.copy()
    known[unknown] = 0.0
    rows = graph.node_of[nodes]
    reward, probs, successors = graph.reward[rows], graph.probs[rows], graph.successors[rows]
    each, n_observations = np.arange(len(nodes)), probs.shape[2]
    starts = n_observations * np.arange(len(nodes) + 1)
    below = mixing[unknown[len(nodes) :]]
    action = graph.q_values(values)[rows].argmax(axis=1)
    for _ in range(POLICIES):
        to = successors[each, action].ravel()
        onward = sparse.csr_array(
            (gamma * probs[each, action].ravel(), to, starts), shape=(len(nodes), len(values))
        )
        follow = sparse.vstack([onward, below], format="csc")
        paid = np.append(reward[each, action], np.zeros(below.shape[0])) + follow @ known
        system = sparse.eye_array(len(paid), format="csc") - follow[:, unknown]
        found = known.copy()
        found[unknown] = splu(system).solve(paid)
        q = graph.q_values(found)[rows]
        better = q.max(axis=1) - found[nodes]
        improved = better > ROUNDING * np.abs(found).max()
        if not improved.any():
            # What rounding left: lifted by this much, no action is better anywhere.
            found[unknown] += max(better.max(initial=0.0), 0.0) / (1.0 - gamma)
            return np.minimum(values, found)
        action = np.where(improved, q.argmax(axis=1), action)
    return values

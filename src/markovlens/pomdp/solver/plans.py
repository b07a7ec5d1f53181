"""Plans: an action now, another plan for each observation, and what that is worth."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse
from scipy.sparse.linalg import spsolve

from markovlens.pomdp.solver.initial import blind_values
from markovlens.pomdp.solver.lump import Lumped

CHUNK = 4_000_000  # numbers in a temporary array


@dataclass(frozen=True)
class Plans:
    """A finite-state controller: plan `k` takes `action[k]`, then goes on with `then[k, o]`.

    `vectors[k, c]` is what carrying out plan `k` from state class `c` is worth.
    """

    vectors: Float[np.ndarray, "K C"]
    action: Int[np.ndarray, "K"]
    then: Int[np.ndarray, "K O"]

    @staticmethod
    def backed_up(
        model: Lumped, action: np.ndarray, then: np.ndarray, vectors: Float[np.ndarray, "K C"]
    ) -> "Plans":
        """Plans one step longer: `α(c) = R(c,a) + γ Σ_o Σ_c' Pr(c',o|c,a) α_then(o)(c')`."""
        result = np.empty((len(action), model.reward.shape[1]))
        for a in np.unique(action):
            rows = np.flatnonzero(action == a)
            arrivals = model.joint[a].transpose(1, 0, 2).reshape(result.shape[1], -1)
            after = vectors[then[rows]].reshape(len(rows), -1)
            result[rows] = model.reward[a] + model.gamma * after @ arrivals.T
        return Plans(result, action, then)

    def worth(self, beliefs: Float[np.ndarray, "K C"]) -> Float[np.ndarray, "K"]:
        """Each plan's value at its own belief."""
        return np.einsum("kc,kc->k", self.vectors, beliefs)

    def take(self, rows: np.ndarray) -> "Plans":
        return Plans(self.vectors[rows], self.action[rows], self.then[rows])

    def reached_from(self, start: Int[np.ndarray, "n"]) -> Int[np.ndarray, "m"]:
        """The plans that can ever be followed after starting with one of these."""
        reached = np.unique(start)
        while True:
            more = np.union1d(reached, self.then[reached])
            if len(more) == len(reached):
                return reached
            reached = more

    def only(self, rows: Int[np.ndarray, "n"]) -> "Plans":
        """These plans, renumbered; none may go on with one that is left out."""
        number = np.zeros(len(self.action), dtype=np.int64)
        number[rows] = np.arange(len(rows))
        return Plans(self.vectors[rows], self.action[rows], number[self.then[rows]])


def joined(first: Plans, second: Plans) -> Plans:
    """One list of plans; `then` of the second must already count from the first's beginning."""
    return Plans(
        np.concatenate([first.vectors, second.vectors]),
        np.concatenate([first.action, second.action]),
        np.concatenate([first.then, second.then]),
    )


def blind_plans(model: Lumped) -> Plans:
    """One plan for each action: repeat it."""
    n_actions, n_observations = model.joint.shape[:2]
    each = np.arange(n_actions)
    return Plans(blind_values(model), each, np.repeat(each[:, None], n_observations, axis=1))


def best_plan(
    vectors: Float[np.ndarray, "K C"], beliefs: Float[np.ndarray, "n C"]
) -> tuple[Float[np.ndarray, "n"], Int[np.ndarray, "n"]]:
    """`max_k α_k·b` for each belief, and the `k` that gives it."""
    values, which = np.empty(len(beliefs)), np.empty(len(beliefs), dtype=np.int64)
    step = max(1, CHUNK // len(vectors))
    for start in range(0, len(beliefs), step):
        scores = beliefs[start : start + step] @ vectors.T
        which[start : start + step] = scores.argmax(axis=1)
        values[start : start + step] = scores.max(axis=1)
    return values, which


def evaluated(model: Lumped, plans: Plans) -> Plans:
    """The same plans with their exact values, `α_k = R_a + γ Σ_o J_ao α_then(k,o)`.

    Acting by the best of these vectors at each belief is then worth at least what they say.
    """
    n_plans, n_classes = plans.vectors.shape
    live = np.where(model.terminal, 0.0, model.gamma) * model.joint  # after the end comes nothing
    blocks = live[plans.action].transpose(0, 2, 1, 3)
    plan, now, seen, next_ = np.nonzero(blocks)
    follow = sparse.coo_array(
        (
            blocks[plan, now, seen, next_],
            (plan * n_classes + now, plans.then[plan, seen] * n_classes + next_),
        ),
        shape=(n_plans * n_classes, n_plans * n_classes),
    )
    system = sparse.eye_array(n_plans * n_classes) - follow
    values = spsolve(system.tocsc(), model.reward[plans.action].ravel())
    return Plans(values.reshape(n_plans, n_classes), plans.action, plans.then)

"""The beliefs met so far and how actions and observations lead from one to the next."""

import numpy as np
from jaxtyping import Float, Int

from markovlens.pomdp.solver.lump import Lumped

SAME_BELIEF = 10  # decimals to which two beliefs must agree to be one


class BeliefGraph:
    """Numbered beliefs; some are *nodes* (expanded: all their successors are numbered too).

    A belief is an index into `beliefs`, a node an index into `belief_of`.
    """

    beliefs: Float[np.ndarray, "B C"]
    node_of: Int[np.ndarray, "B"]  # -1: not expanded, on the frontier
    belief_of: Int[np.ndarray, "N"]
    reward: Float[np.ndarray, "N A"]
    probs: Float[np.ndarray, "N A O"]
    successors: Int[np.ndarray, "N A O"]  # belief 0 stands in where the probability is 0

    def __init__(self, model: Lumped):
        n_actions, n_observations, n_classes, _ = model.joint.shape
        self._model = model
        self._flat = model.joint.transpose(2, 0, 1, 3).reshape(n_classes, -1)
        self._number: dict[bytes, int] = {}
        self.beliefs = np.zeros((0, n_classes))
        self.node_of = np.zeros(0, dtype=np.int64)
        self.belief_of = np.zeros(0, dtype=np.int64)
        self.reward = np.zeros((0, n_actions))
        self.probs = np.zeros((0, n_actions, n_observations))
        self.successors = np.zeros((0, n_actions, n_observations), dtype=np.int64)

    def add(self, beliefs: Float[np.ndarray, "n C"]) -> Int[np.ndarray, "n"]:
        """The numbers of these beliefs, new ones for those not met before."""
        rounded = np.round(beliefs, SAME_BELIEF) + 0.0
        keys = rounded.view(f"V{8 * rounded.shape[1]}").ravel().tolist()
        first_new = len(self._number)
        numbers = np.array([self._number.setdefault(key, len(self._number)) for key in keys])
        fresh, rows = np.unique(numbers, return_index=True)
        rows = rows[fresh >= first_new]
        self.beliefs = np.concatenate([self.beliefs, beliefs[rows]])
        self.node_of = np.concatenate([self.node_of, np.full(len(rows), -1)])
        return numbers

    def expand(self, numbers: Int[np.ndarray, "n"]) -> None:
        """Make nodes of these frontier beliefs."""
        model = self._model
        n_actions, n_observations, n_classes, _ = model.joint.shape
        beliefs = self.beliefs[numbers]
        arriving = (beliefs @ self._flat).reshape(-1, n_classes)
        probs = arriving.sum(axis=1)
        possible = probs > 1e-14
        successors = np.zeros(len(probs), dtype=np.int64)
        successors[possible] = self.add(arriving[possible] / probs[possible, None])
        shape = (len(numbers), n_actions, n_observations)
        probs = np.where(possible, probs, 0.0).reshape(shape)
        self.node_of[numbers] = len(self.belief_of) + np.arange(len(numbers))
        self.belief_of = np.concatenate([self.belief_of, numbers])
        self.reward = np.concatenate([self.reward, beliefs @ model.reward.T])
        self.probs = np.concatenate([self.probs, probs])
        self.successors = np.concatenate([self.successors, successors.reshape(shape)])

    def q_values(self, values: Float[np.ndarray, "B"]) -> Float[np.ndarray, "N A"]:
        """`R(b,a) + γ Σ_o Pr(o|b,a) values(b')` at each node."""
        after = np.einsum("nao,nao->na", self.probs, values[self.successors])
        return self.reward + self._model.gamma * after

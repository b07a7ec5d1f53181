"""Beliefs, and policies that act on them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from markovlens.pomdp.model import Pomdp


@dataclass(frozen=True, eq=False)
class BeliefPolicy:
    """Acts by the alpha vector that is best at the belief.

    Everything takes one belief `[S]` or any number of them at once `[..., S]`, with observations
    and actions of shape `[...]`.

        belief = policy.start(o)
        while True:
            a = policy.act(belief)
            o = ...                                  # what the world shows next
            belief = policy.update(belief, a, o)

    Attributes:
        pomdp: the model that beliefs are about.
        alphas: values of plans, `alphas[k, s]`.
        actions: the first action of each plan.
    """

    pomdp: Pomdp
    alphas: Float[np.ndarray, "K S"]
    actions: Int[np.ndarray, "K"]

    def start(self, o: int | Int[np.ndarray, "..."]) -> Float[np.ndarray, "... S"]:
        """`Pr(s | o) ∝ p0(s) Φ(o|s)`: the belief after the first observation."""
        return self._normalised(np.asarray(self.pomdp.p0) * self._likelihood(o), o)

    def act(self, belief: Float[np.ndarray, "... S"]) -> Int[np.ndarray, "..."]:
        """The action to take at this belief."""
        return self.actions[np.argmax(belief @ self.alphas.T, axis=-1)]

    def value(self, belief: Float[np.ndarray, "... S"]) -> Float[np.ndarray, "..."]:
        """`max_k α_k·b`: what the policy is worth from this belief on, at least."""
        return np.max(belief @ self.alphas.T, axis=-1)

    def update(
        self,
        belief: Float[np.ndarray, "... S"],
        a: int | Int[np.ndarray, "..."],
        o: int | Int[np.ndarray, "..."],
    ) -> Float[np.ndarray, "... S"]:
        """`b'(s') ∝ Φ(o|s') Σ_s T(s'|s,a) b(s)`: the belief after acting and looking again."""
        T, belief = np.asarray(self.pomdp.T), np.asarray(belief, dtype=np.float64)
        arriving, taken = np.empty_like(belief), np.broadcast_to(a, belief.shape[:-1])
        for each in np.unique(taken):  # T[taken] would be a matrix for each belief
            here = taken == each
            arriving[here] = belief[here] @ T[each]
        return self._normalised(arriving * self._likelihood(o), o)

    def _likelihood(self, o: int | np.ndarray) -> Float[np.ndarray, "... S"]:
        return np.asarray(self.pomdp.Phi).T[o]

    def _normalised(self, weights: np.ndarray, o: int | np.ndarray) -> np.ndarray:
        total = weights.sum(axis=-1, keepdims=True)
        if (total <= 0.0).any():
            first = int(np.broadcast_to(o, total.shape[:-1])[total[..., 0] <= 0.0].flat[0])
            raise ValueError(
                f"observation {self.pomdp.observations[first]!r} cannot be seen here: its "
                "probability is 0; was it drawn from the same model, and the action right?"
            )
        return weights / total


def simulate(
    policy: BeliefPolicy, episodes: int, steps: int, seed: int = 0
) -> Float[np.ndarray, "episodes"]:
    """Discounted returns of sampled episodes, each cut after `steps` steps if it has not ended.

    >>> from markovlens.pomdp.solve import solve
    >>> coin = Pomdp(T=np.ones((1, 1, 1)), R=[[1.0]], Phi=[[1.0]], p0=[1.0], gamma=0.5)
    >>> print(simulate(solve(coin).policy, episodes=2, steps=3))
    [1.75 1.75]
    """
    rng = np.random.default_rng(seed)
    pomdp = policy.pomdp
    T, R, Phi = np.asarray(pomdp.T), np.asarray(pomdp.R), np.asarray(pomdp.Phi)
    terminal = np.asarray(pomdp.terminal)
    state = _draw(rng, np.tile(np.asarray(pomdp.p0), (episodes, 1)))
    belief = policy.start(_draw(rng, Phi[state]))
    returns, discount = np.zeros(episodes), 1.0
    for _ in range(steps):
        if terminal[state].all():
            break
        action = policy.act(belief)
        returns += discount * R[state, action]
        discount *= float(pomdp.gamma)
        state = _draw(rng, T[action, state])
        belief = policy.update(belief, action, _draw(rng, Phi[state]))
    return returns


def _draw(rng: np.random.Generator, probs: Float[np.ndarray, "n k"]) -> Int[np.ndarray, "n"]:
    """One outcome for each row; never one of probability 0."""
    totals = np.cumsum(probs, axis=1)
    return (totals <= rng.random((len(probs), 1)) * totals[:, -1:]).sum(axis=1)

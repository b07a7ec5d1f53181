"""Any finite POMDP as an environment."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from markovlens.envs.env import Env, Step
from markovlens.envs.spaces import Discrete
from markovlens.pomdp.model import Pomdp


class Tabular(Env[Int[Array, ""], Float[Array, "2"]]):
    """Samples a `Pomdp`: the state is its index, the observation an index too.

    Entering a terminal state of the POMDP ends the episode. A POMDP without
    terminal states goes on for ever; wrap it in `TimeLimit` to cut it.
    """

    transition_cdf: Float[Array, "A S S"]
    observation_cdf: Float[Array, "S O"]
    start_cdf: Float[Array, "S"]
    rewards: Float[Array, "S A"]
    terminal: Bool[Array, "S"]
    discount: float = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    # For pictures only: what a run was trained on is told by its repr, and does not depend on them.
    action_names: tuple[str, ...] = eqx.field(static=True, repr=False)
    state_names: tuple[str, ...] = eqx.field(static=True, repr=False)

    def __init__(self, pomdp: Pomdp):
        self.transition_cdf = _cdf(pomdp.T)
        self.observation_cdf = _cdf(pomdp.Phi)
        self.start_cdf = _cdf(pomdp.p0)
        self.rewards = jnp.asarray(np.asarray(pomdp.R), dtype=jnp.float32)
        self.terminal = pomdp.terminal
        self.discount = float(pomdp.gamma)
        self.names = pomdp.observations
        self.action_names = pomdp.actions
        self.state_names = pomdp.states

    @property
    def gamma(self) -> float:
        return self.discount

    @property
    def observation_space(self) -> Discrete:
        return Discrete(self.observation_cdf.shape[1])

    @property
    def action_space(self) -> Discrete:
        return Discrete(self.transition_cdf.shape[0])

    @property
    def observation_names(self) -> tuple[str, ...]:
        return self.names

    @property
    def full_observation_space(self) -> Discrete:
        return Discrete(self.transition_cdf.shape[1])

    def full_observation(self, state: Int[Array, ""]) -> Int[Array, ""]:
        return state

    def reset(self, key: PRNGKeyArray) -> tuple[Int[Array, ""], Int[Array, ""]]:
        which, seen = jax.random.uniform(key, (2,))
        state = _draw(self.start_cdf, which)
        return state, _draw(self.observation_cdf[state], seen)

    def noise(self, key: PRNGKeyArray) -> Float[Array, "2"]:
        return jax.random.uniform(key, (2,))

    def transition(
        self, state: Int[Array, ""], action: Int[Array, ""], noise: Float[Array, "2"]
    ) -> tuple[Int[Array, ""], Step]:
        after = _draw(self.transition_cdf[action, state], noise[0])
        observation = _draw(self.observation_cdf[after], noise[1])
        ended = self.terminal[after]
        step = Step(observation, self.rewards[state, action], ended, jnp.zeros_like(ended))
        return after, step


def _cdf(probabilities: Array) -> Float[Array, "... n"]:
    """Running sums that reach 1 at the last possible outcome and stay there.

    A draw of u then never falls past the outcomes that have probability.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    totals = np.cumsum(p, axis=-1)
    totals /= totals[..., -1:]
    beyond = np.flip(np.cumsum(np.flip(p, -1), axis=-1), -1) - p <= 0.0
    return jnp.asarray(np.where(beyond, 1.0, totals), dtype=jnp.float32)


def _draw(cdf: Float[Array, "n"], u: Float[Array, ""]) -> Int[Array, ""]:
    """The outcome whose share of [0, 1) holds u."""
    return jnp.sum(cdf <= u, dtype=jnp.int32)

"""The random policies: what acts when nothing else is asked for."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from markovlens.envs.spaces import Space


class Uniform(eqx.Module):
    """Every action that is allowed is as likely."""

    space: Space

    def check(self, observation_size: int, action_size: int) -> None:
        """It is made from the environment's own space."""

    def actions(
        self, key: PRNGKeyArray, observation: Array, allowed: Bool[Array, "N A"] | None
    ) -> Array:
        if allowed is not None:
            return jax.random.categorical(key, jnp.where(allowed, 0.0, -jnp.inf))
        return jax.vmap(self.space.sample)(jax.random.split(key, len(observation)))


class Table(eqx.Module):
    """Probabilities `[o, a]` of each action, by observation."""

    probs: Float[Array, "O A"]

    def check(self, observation_size: int, action_size: int) -> None:
        """Checked where it came in, by `policies.check_table`."""

    def actions(
        self, key: PRNGKeyArray, observation: Array, allowed: Bool[Array, "N A"] | None
    ) -> Array:
        logits = jnp.log(self.probs[observation])
        if allowed is not None:
            logits = jnp.where(allowed, logits, -jnp.inf)
        return jax.random.categorical(key, logits)

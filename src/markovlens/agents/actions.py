"""Distributions over actions, computed from the numbers the actor puts out."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from markovlens.envs.spaces import Box, Discrete, Space

FORBIDDEN = -1e9  # the logit of a masked action: its probability is exactly 0 in float32


class ActionDistribution(eqx.Module):
    """How the actor's outputs, [..., P], become actions; noise is drawn ahead of a rollout."""

    @property
    @abc.abstractmethod
    def n_outputs(self) -> int:
        """P."""

    @abc.abstractmethod
    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        """What `sample` needs."""

    @abc.abstractmethod
    def sample(self, outputs: Float[Array, "... P"], noise: Array) -> Array: ...

    @abc.abstractmethod
    def mode(self, outputs: Float[Array, "... P"]) -> Array:
        """The most likely action."""

    @abc.abstractmethod
    def log_prob(self, outputs: Float[Array, "... P"], action: Array) -> Float[Array, "..."]: ...

    @abc.abstractmethod
    def entropy(self, outputs: Float[Array, "... P"]) -> Float[Array, "..."]: ...


class Categorical(ActionDistribution):
    """One of n actions; the outputs are logits."""

    n: int = eqx.field(static=True)

    @property
    def n_outputs(self) -> int:
        return self.n

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "... A"]:
        return jax.random.gumbel(key, (*shape, self.n))

    def sample(
        self, outputs: Float[Array, "... A"], noise: Float[Array, "... A"]
    ) -> Int[Array, "..."]:
        return jnp.argmax(outputs + noise, axis=-1)

    def mode(self, outputs: Float[Array, "... A"]) -> Int[Array, "..."]:
        return jnp.argmax(outputs, axis=-1)

    def log_prob(
        self, outputs: Float[Array, "... A"], action: Int[Array, "..."]
    ) -> Float[Array, "..."]:
        log_probs = jax.nn.log_softmax(outputs)
        taken = jax.nn.one_hot(action, self.n, dtype=bool)  # its derivative needs no scatter
        return jnp.where(taken, log_probs, 0.0).sum(-1)

    def entropy(self, outputs: Float[Array, "... A"]) -> Float[Array, "..."]:
        log_probs = jax.nn.log_softmax(outputs)
        return -(jnp.exp(log_probs) * log_probs).sum(-1)


class Gaussian(ActionDistribution):
    """Independent normals; the outputs are n means and n log standard deviations."""

    shape: tuple[int, ...] = eqx.field(static=True)

    @property
    def n_outputs(self) -> int:
        size = 2
        for length in self.shape:
            size *= length
        return size

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "... n"]:
        return jax.random.normal(key, (*shape, self.n_outputs // 2))

    def sample(self, outputs: Float[Array, "... P"], noise: Float[Array, "... n"]) -> Array:
        mean, log_sd = jnp.split(outputs, 2, axis=-1)
        return self._shaped(mean + jnp.exp(log_sd) * noise)

    def mode(self, outputs: Float[Array, "... P"]) -> Array:
        return self._shaped(jnp.split(outputs, 2, axis=-1)[0])

    def log_prob(self, outputs: Float[Array, "... P"], action: Array) -> Float[Array, "..."]:
        mean, log_sd = jnp.split(outputs, 2, axis=-1)
        z = (action.reshape(mean.shape) - mean) / jnp.exp(log_sd)
        return (-0.5 * z**2 - log_sd - 0.5 * jnp.log(2 * jnp.pi)).sum(-1)

    def entropy(self, outputs: Float[Array, "... P"]) -> Float[Array, "..."]:
        _, log_sd = jnp.split(outputs, 2, axis=-1)
        return (log_sd + 0.5 * jnp.log(2 * jnp.pi * jnp.e)).sum(-1)

    def _shaped(self, flat: Float[Array, "... n"]) -> Array:
        return flat.reshape(*flat.shape[:-1], *self.shape)


def action_distribution(space: Space) -> ActionDistribution:
    """The distribution an actor uses for actions in `space`."""
    if isinstance(space, Discrete):
        return Categorical(space.n)
    if isinstance(space, Box):
        return Gaussian(space.shape)
    raise ValueError(f"agents act in Discrete or Box spaces, got {space}")


def forbid(outputs: Float[Array, "... A"], allowed: Bool[Array, "... A"] | None) -> Array:
    """The logits with those of forbidden actions pushed down to probability 0."""
    return outputs if allowed is None else jnp.where(allowed, outputs, FORBIDDEN)

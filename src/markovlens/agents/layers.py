"""Dense layers and their initialisation."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


class Dense(eqx.Module):
    """x W + b, on the last axis of x."""

    weight: Float[Array, "I O"]
    bias: Float[Array, "O"]

    def __call__(self, x: Float[Array, "... I"]) -> Float[Array, "... O"]:
        flat = x.reshape(-1, x.shape[-1]) @ self.weight + self.bias[None]
        return flat.reshape(*x.shape[:-1], -1)


def dense(n_in: int, n_out: int, key: PRNGKeyArray, gain: float, blocks: int = 1) -> Dense:
    """`blocks` layers side by side, each of `n_out` outputs and orthogonal in itself; no bias."""
    weights = [orthogonal(k, n_in, n_out, gain) for k in jax.random.split(key, blocks)]
    return Dense(jnp.concatenate(weights, axis=1), jnp.zeros(blocks * n_out))


def orthogonal(
    key: PRNGKeyArray, n_in: int, n_out: int, gain: float = 1.0
) -> Float[Array, "{n_in} {n_out}"]:
    """A matrix with orthogonal rows or columns, times `gain`."""
    return jax.nn.initializers.orthogonal(gain)(key, (n_in, n_out), jnp.float32)

"""Dense layers and their initialisation, which NumPy draws: it needs no compiling."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from markovlens.agents.native.dense import dense_layer, many


class Dense(eqx.Module):
    """x W + b, on the last axis of x."""

    weight: Float[Array, "I O"]
    bias: Float[Array, "O"]

    def __call__(self, x: Float[Array, "... I"]) -> Float[Array, "... O"]:
        return self._rows(x, positive=False)

    def relu(self, x: Float[Array, "... I"]) -> Float[Array, "... O"]:
        """The positive part of it."""
        return self._rows(x, positive=True)

    def _rows(self, x: Float[Array, "... I"], positive: bool) -> Float[Array, "... O"]:
        rows = x.reshape(-1, x.shape[-1])
        if many(len(rows)):
            y = dense_layer(positive, rows, self.weight, self.bias)
        else:
            y = rows @ self.weight + self.bias[None]
            y = jax.nn.relu(y) if positive else y
        return y.reshape(*x.shape[:-1], -1)


def dense(n_in: int, n_out: int, rng: np.random.Generator, gain: float, blocks: int = 1) -> Dense:
    """`blocks` layers side by side, each of `n_out` outputs and orthogonal in itself; no bias."""
    weights = [orthogonal(n_in, n_out, rng, gain) for _ in range(blocks)]
    return Dense(jnp.concatenate(weights, axis=1), jnp.zeros(blocks * n_out))


def orthogonal(
    n_in: int, n_out: int, rng: np.random.Generator, gain: float = 1.0
) -> Float[Array, "{n_in} {n_out}"]:
    """A matrix with orthogonal rows or columns, uniform among those, times `gain`."""
    tall = (max(n_in, n_out), min(n_in, n_out))
    q, r = np.linalg.qr(rng.normal(size=tall))
    q *= np.sign(np.diag(r))
    return jnp.asarray(gain * (q if n_in >= n_out else q.T), dtype=jnp.float32)

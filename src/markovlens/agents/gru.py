"""The gated recurrent unit."""

from functools import partial

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from markovlens.agents.cell import Cell, gate_weights
from markovlens.agents.layers import Dense
from markovlens.agents.recurrence import Rule, recur, sigmoid


class GRU(Cell):
    """The gated recurrent unit, the paper's cell.

    r, z = σ(x W + h U),  n = tanh(x W_n + r (h U_n + b_n)),  h' = (1 - z) n + z h

    The reset gate acts on the product h U_n, so that all of h U is one matrix product.
    """

    inputs: Dense  # D -> 3H: reset, update, candidate
    recurrent: Float[Array, "H K"]
    bias: Float[Array, "H"]

    def __init__(self, n_in: int, n_hidden: int, rng: np.random.Generator):
        self.inputs, self.recurrent = gate_weights(n_in, n_hidden, 3, rng)
        self.bias = jnp.zeros(n_hidden)

    @property
    def memory_size(self) -> int:
        return self.recurrent.shape[0]

    def project(self, x: Float[Array, "... D"]) -> Float[Array, "... K"]:
        return self.inputs(x)

    def step(self, projected: Float[Array, "N K"], memory: Float[Array, "N H"]) -> Array:
        return _gru(projected, memory @ self.recurrent + self.recurrent_bias[None], memory)

    def sequence(
        self,
        projected: Float[Array, "T N K"],
        memory: Float[Array, "N H"],
        first: Bool[Array, "T N"],
    ) -> Float[Array, "T N H"]:
        return recur(GRU_RULE, projected, memory, first, self.recurrent, self.recurrent_bias)

    @property
    def recurrent_bias(self) -> Float[Array, "K"]:
        """Of all gates: only the candidate has one."""
        return jnp.pad(self.bias, (2 * self.bias.shape[0], 0))


def _gru(
    x: Float[Array, "... K"], gates: Float[Array, "... K"], memory: Float[Array, "... H"]
) -> Float[Array, "... H"]:
    _, update, candidate = _gru_gates(x, gates)
    return candidate + update * (memory - candidate)


def _gru_gates(x: Float[Array, "... K"], gates: Float[Array, "... K"]) -> tuple[Array, ...]:
    x_r, x_z, x_n = jnp.split(x, 3, axis=-1)
    g_r, g_z, g_n = jnp.split(gates, 3, axis=-1)
    reset, update = sigmoid(x_r + g_r), sigmoid(x_z + g_z)
    return reset, update, jnp.tanh(x_n + reset * g_n)


def _gru_slopes(
    x: Float[Array, "... K"], gates: Float[Array, "... K"], memory: Float[Array, "... H"]
) -> Float[Array, "... 5H"]:
    """∂h'/∂ of g_r, g_z, g_n, x_n and h."""
    reset, update, candidate = _gru_gates(x, gates)
    g_n = jnp.split(gates, 3, axis=-1)[2]
    by_x_n = (1.0 - update) * (1.0 - candidate**2)
    by_g_r = by_x_n * g_n * reset * (1.0 - reset)
    by_g_z = (memory - candidate) * update * (1.0 - update)
    return jnp.concatenate([by_g_r, by_g_z, by_x_n * reset, by_x_n, update], axis=-1)


def _gru_pull(
    which: tuple[int, ...], slopes: Float[Array, "... 5H"], d: Float[Array, "... H"]
) -> Array:
    parts = jnp.split(slopes, 5, axis=-1)
    return jnp.concatenate([parts[i] * d for i in which], axis=-1)


GRU_RULE = Rule(
    cell="gru",
    forward=_gru,
    slopes=_gru_slopes,
    pull_gates=partial(_gru_pull, (0, 1, 2)),
    pull_memory=partial(_gru_pull, (4,)),
    pull_input=partial(_gru_pull, (0, 1, 3)),
)

"""Long short-term memory."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from markovlens.agents.cell import Cell, gate_weights
from markovlens.agents.layers import Dense
from markovlens.agents.recurrence import Rule, recur, sigmoid


class LSTM(Cell):
    """Long short-term memory; its memory is the cell state and the hidden state, [c, h].

    i, f, o = σ(x W + h U),  c' = f c + i tanh(x W_c + h U_c),  h' = o tanh(c')

    The forget gate's bias starts at 1.
    """

    inputs: Dense  # D -> 4H: input, forget, output, candidate
    recurrent: Float[Array, "H K"]

    def __init__(self, n_in: int, n_hidden: int, rng: np.random.Generator):
        inputs, self.recurrent = gate_weights(n_in, n_hidden, 4, rng)
        remember = inputs.bias.at[n_hidden : 2 * n_hidden].set(1.0)
        self.inputs = eqx.tree_at(lambda layer: layer.bias, inputs, remember)

    @property
    def memory_size(self) -> int:
        return 2 * self.recurrent.shape[0]

    def project(self, x: Float[Array, "... D"]) -> Float[Array, "... K"]:
        return self.inputs(x)

    def step(self, projected: Float[Array, "N K"], memory: Float[Array, "N M"]) -> Array:
        return _lstm(projected, self.output(memory) @ self.recurrent, memory)

    def sequence(
        self,
        projected: Float[Array, "T N K"],
        memory: Float[Array, "N M"],
        first: Bool[Array, "T N"],
    ) -> Float[Array, "T N M"]:
        no_bias = jnp.zeros(self.recurrent.shape[1])
        return recur(LSTM_RULE, projected, memory, first, self.recurrent, no_bias)

    def output(self, memory: Float[Array, "... M"]) -> Float[Array, "... H"]:
        return memory[..., self.recurrent.shape[0] :]


def _lstm(
    x: Float[Array, "... K"], gates: Float[Array, "... K"], memory: Float[Array, "... M"]
) -> Float[Array, "... M"]:
    kept, _ = jnp.split(memory, 2, axis=-1)
    admit, keep, show, candidate = _lstm_gates(x, gates)
    kept = keep * kept + admit * candidate
    return jnp.concatenate([kept, show * jnp.tanh(kept)], axis=-1)


def _lstm_gates(x: Float[Array, "... K"], gates: Float[Array, "... K"]) -> tuple[Array, ...]:
    admit, keep, show, candidate = jnp.split(x + gates, 4, axis=-1)
    return sigmoid(admit), sigmoid(keep), sigmoid(show), jnp.tanh(candidate)


def _lstm_slopes(
    x: Float[Array, "... K"], gates: Float[Array, "... K"], memory: Float[Array, "... M"]
) -> Float[Array, "... 6H"]:
    """∂c'/∂ of the gates but `show`, ∂h'/∂ of `show`, ∂h'/∂c' and ∂c'/∂c."""
    kept, _ = jnp.split(memory, 2, axis=-1)
    admit, keep, show, candidate = _lstm_gates(x, gates)
    shown = jnp.tanh(keep * kept + admit * candidate)
    by_admit = candidate * admit * (1.0 - admit)
    by_keep = kept * keep * (1.0 - keep)
    by_show = shown * show * (1.0 - show)
    by_candidate = admit * (1.0 - candidate**2)
    through = show * (1.0 - shown**2)
    return jnp.concatenate([by_admit, by_keep, by_show, by_candidate, through, keep], axis=-1)


def _lstm_pull_gates(slopes: Float[Array, "... 6H"], d: Float[Array, "... M"]) -> Array:
    by_admit, by_keep, by_show, by_candidate, through, _ = jnp.split(slopes, 6, axis=-1)
    d_kept, d_hidden = jnp.split(d, 2, axis=-1)
    d_kept = d_kept + d_hidden * through
    return jnp.concatenate(
        [by_admit * d_kept, by_keep * d_kept, by_show * d_hidden, by_candidate * d_kept], axis=-1
    )


def _lstm_pull_memory(slopes: Float[Array, "... 6H"], d: Float[Array, "... M"]) -> Array:
    *_, through, keep = jnp.split(slopes, 6, axis=-1)
    d_kept, d_hidden = jnp.split(d, 2, axis=-1)
    return jnp.concatenate(
        [keep * (d_kept + d_hidden * through), jnp.zeros_like(d_hidden)], axis=-1
    )


LSTM_RULE = Rule(
    cell="lstm",
    forward=_lstm,
    slopes=_lstm_slopes,
    pull_gates=_lstm_pull_gates,
    pull_memory=_lstm_pull_memory,
    pull_input=_lstm_pull_gates,
)

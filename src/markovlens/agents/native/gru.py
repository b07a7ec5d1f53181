"""The GRU's loop over a sequence in C++ (`gru.cc`), with its derivative."""

from typing import Any

import jax
from jaxtyping import Array, Bool, Float

from markovlens.agents.native.dense import by_parameters
from markovlens.agents.native.library import available, call

UNITS = 16  # the loop goes through the units so many at a time


def fits(n_hidden: int) -> bool:
    """Whether there is a native loop for so many units."""
    return n_hidden % UNITS == 0 and available()


@jax.custom_vjp
def gru_sequence(
    projected: Float[Array, "T N K"],
    memory: Float[Array, "N H"],
    first: Bool[Array, "T N"],
    weight: Float[Array, "H K"],
    bias: Float[Array, "H"],
) -> Float[Array, "T N H"]:
    """The memories after each step of a GRU, whose gates are reset, update, candidate."""
    return _forward(projected, memory, first, weight, bias)[0]


def _forward(
    projected: Array, memory: Array, first: Array, weight: Array, bias: Array
) -> tuple[Array, Any]:
    (length, n), n_hidden = first.shape, bias.size
    memories, before, gates = call(
        "markovlens_gru_forward",
        [(length, n, n_hidden), (length, n, n_hidden), (length, n, 4 * n_hidden)],
        *(projected, memory, first, weight, bias),
    )
    return memories, (before, gates, first, weight)


def _backward(saved: Any, d_memories: Array) -> tuple[Any, ...]:
    before, gates, first, weight = saved
    length, n, n_hidden = before.shape
    d_projected, d_gates, d_memory = call(
        "markovlens_gru_backward",
        [(length, n, 3 * n_hidden), (length, n, 3 * n_hidden), (n, n_hidden)],
        *(d_memories, before, gates, first, weight),
    )
    rows = d_gates.reshape(length * n, -1)
    d_weight, d_bias = by_parameters(False, before.reshape(length * n, -1), rows, rows)
    return d_projected, d_memory, None, d_weight, d_bias[2 * n_hidden :]


gru_sequence.defvjp(_forward, _backward)

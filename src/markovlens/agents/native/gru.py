"""The GRU's loop over a sequence in C++ (`gru.cc`), with its derivative."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from markovlens.agents.native import library

UNITS = 16  # the loop goes through the units so many at a time


def fits(n_hidden: int) -> bool:
    """Whether there is a native loop for so many units."""
    return n_hidden % UNITS == 0 and library.available()


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
    memories, before, gates = _call(
        "markovlens_gru_forward",
        [(length, n, n_hidden), (length, n, n_hidden), (length, n, 4 * n_hidden)],
        *(projected, memory, first, weight, bias),
    )
    return memories, (before, gates, first, weight)


def _backward(saved: Any, d_memories: Array) -> tuple[Any, ...]:
    before, gates, first, weight = saved
    length, n, n_hidden = before.shape
    d_projected, d_gates, d_memory = _call(
        "markovlens_gru_backward",
        [(length, n, 3 * n_hidden), (length, n, 3 * n_hidden), (n, n_hidden)],
        *(d_memories, before, gates, first, weight),
    )
    d_weight = jnp.einsum("tnh,tnk->hk", before, d_gates)
    return d_projected, d_memory, None, d_weight, d_gates[..., 2 * n_hidden :].sum((0, 1))


gru_sequence.defvjp(_forward, _backward)


def _call(target: str, shapes: list[tuple[int, ...]], *arrays: Array) -> list[Array]:
    results = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return jax.ffi.ffi_call(target, results, vmap_method="sequential")(*arrays)

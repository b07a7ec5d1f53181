"""The loop of a recurrent cell over a sequence in C++ (`recurrence.cc`), with its derivative."""

from functools import partial
from typing import Any, Literal

import jax
from jaxtyping import Array, Bool, Float

from markovlens.agents.native.dense import by_parameters
from markovlens.agents.native.library import available, call

UNITS = 16  # the loop goes through the units so many at a time
SAVED = {"gru": 4, "lstm": 6}  # numbers a unit that the way back needs of each step

NativeCell = Literal["gru", "lstm"]


def fits(n_hidden: int) -> bool:
    """Whether there is a native loop for so many units."""
    return n_hidden % UNITS == 0 and available()


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def native_sequence(
    cell: NativeCell,
    projected: Float[Array, "T N K"],
    memory: Float[Array, "N M"],
    first: Bool[Array, "T N"],
    weight: Float[Array, "H K"],
    bias: Float[Array, "K"],
) -> Float[Array, "T N M"]:
    """The memories after each step. Gates are in the order of the cell's own module, and the last
    H numbers of the memory are what the weight multiplies."""
    return _forward(cell, projected, memory, first, weight, bias)[0]


def _forward(
    cell: NativeCell, projected: Array, memory: Array, first: Array, weight: Array, bias: Array
) -> tuple[Array, Any]:
    n_hidden = weight.shape[0]
    sizes = memory.shape[1], n_hidden, SAVED[cell] * n_hidden
    memories, before, saved = call(
        f"markovlens_{cell}_forward",
        [(*first.shape, size) for size in sizes],
        *(projected, memory, first, weight, bias),
    )
    return memories, (before, saved, first, weight)


def _backward(cell: NativeCell, kept: Any, d_memories: Array) -> tuple[Any, ...]:
    before, saved, first, weight = kept
    n_hidden, n_gates = weight.shape
    gates = (*first.shape, n_gates)
    d_projected, d_gates, d_memory = call(
        f"markovlens_{cell}_backward",
        [gates, gates, (first.shape[1], d_memories.shape[2])],
        *(d_memories, before, saved, first, weight),
    )
    rows = d_gates.reshape(-1, n_gates)
    d_weight, d_bias = by_parameters(False, before.reshape(-1, n_hidden), rows, rows)
    return d_projected, d_memory, None, d_weight, d_bias


native_sequence.defvjp(_forward, _backward)

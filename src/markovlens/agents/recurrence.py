"""The one hot loop: a recurrent cell over a sequence, with its derivative written by hand.

Cells here have the form

    m_t = f(x_t, h_{t-1} U + b, m_{t-1}),      h = the last H entries of the memory m

with f elementwise and cheap, and the memory set to zero wherever an episode
starts. The loop holds nothing but the product with U and f. The gradient of U
needs the whole sequence only once, after the loop:

    dU = Σ_t h_{t-1}ᵀ dg_t  =  one [H, T·N] × [T·N, K] matrix product,

where automatic differentiation would add an [H, K] matrix at every step.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Pointwise = Callable[[Array, Array, Array], Array]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def recur(
    pointwise: Pointwise,
    projected: Float[Array, "T N K"],
    memory: Float[Array, "N M"],
    first: Bool[Array, "T N"],
    weight: Float[Array, "H K"],
    bias: Float[Array, "K"],
) -> Float[Array, "T N M"]:
    """The memories after each of T steps, starting from `memory`, zeroed where `first`."""
    memories, _ = _forward(pointwise, projected, memory, first, weight, bias)
    return memories


def _forward(
    pointwise: Pointwise, projected: Array, memory: Array, first: Array, weight: Array, bias: Array
) -> tuple[Array, Array]:
    def step(memory: Array, now: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        x, keep = now
        memory = memory * keep
        gates = _hidden(memory, weight) @ weight + bias[None]
        memory = pointwise(x, gates, memory)
        return memory, (memory, gates)

    return jax.lax.scan(step, memory, (projected, _keep(first)))[1]


def _forward_saving(
    pointwise: Pointwise, projected: Array, memory: Array, first: Array, weight: Array, bias: Array
) -> tuple[Array, Any]:
    memories, gates = _forward(pointwise, projected, memory, first, weight, bias)
    before = jnp.concatenate([memory[None], memories[:-1]]) * _keep(first)
    return memories, (projected, before, first, weight, gates)


def _backward(pointwise: Pointwise, saved: Any, d_memories: Array) -> tuple[Any, ...]:
    projected, before, first, weight, gates = saved
    n_other = before.shape[-1] - weight.shape[0]

    def step(d_memory: Array, now: tuple[Array, ...]) -> tuple[Array, tuple[Array, Array]]:
        d_out, x, gate, memory, keep = now
        _, pull = jax.vjp(pointwise, x, gate, memory)
        d_x, d_gate, d_before = pull(d_memory + d_out)
        d_hidden = jnp.pad(d_gate @ weight.T, ((0, 0), (n_other, 0)))
        return (d_before + d_hidden) * keep, (d_x, d_gate)

    d_memory, (d_projected, d_gates) = jax.lax.scan(
        step,
        jnp.zeros_like(before[0]),
        (d_memories, projected, gates, before, _keep(first)),
        reverse=True,
    )
    d_weight = jnp.einsum("tnh,tnk->hk", _hidden(before, weight), d_gates)
    return d_projected, d_memory, None, d_weight, d_gates.sum((0, 1))


recur.defvjp(_forward_saving, _backward)


def _hidden(memory: Float[Array, "... M"], weight: Float[Array, "H K"]) -> Float[Array, "... H"]:
    return memory[..., memory.shape[-1] - weight.shape[0] :]


def _keep(first: Bool[Array, "T N"]) -> Float[Array, "T N 1"]:
    return (~first).astype(jnp.float32)[..., None]

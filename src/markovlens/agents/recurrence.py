"""The one hot loop: a recurrent cell over a sequence, with its derivative written by hand.

Cells here have the form

    m_t = f(x_t, g_t, m_{t-1}),   g_t = h_{t-1} U + b,   h = the last H entries of the memory m

with f elementwise and cheap, and the memory set to zero wherever an episode
starts. Forwards, the loop holds nothing but the product with U and f. Backwards,
the slopes of f are known for all steps before the loop starts, and the gradient
of U is summed over all steps after it ended,

    dU = Σ_t h_{t-1}ᵀ dg_t  =  one [H, T·N] × [T·N, K] matrix product,

where automatic differentiation would add an [H, K] matrix at every step. On a CPU the loops are
native code where they can be.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from markovlens.agents.native.recurrence import NativeCell, fits, native_sequence


class Rule(NamedTuple):
    """f and its derivative, in the pieces that the loop needs apart."""

    cell: NativeCell  # which native loop does the same
    forward: Callable[[Array, Array, Array], Array]  # x, g, m -> m'
    slopes: Callable[[Array, Array, Array], Array]  # x, g, m -> whatever the pulls need, [..., P]
    pull_gates: Callable[[Array, Array], Array]  # slopes, dm' -> dg
    pull_memory: Callable[[Array, Array], Array]  # slopes, dm' -> dm, but for what g passes on
    pull_input: Callable[[Array, Array], Array]  # slopes, dm' -> dx


def recur(
    rule: Rule,
    projected: Float[Array, "T N K"],
    memory: Float[Array, "N M"],
    first: Bool[Array, "T N"],
    weight: Float[Array, "H K"],
    bias: Float[Array, "K"],
) -> Float[Array, "T N M"]:
    """The memories after each of T steps, starting from `memory`, zeroed where `first`."""
    if fits(weight.shape[0]):
        return native_sequence(rule.cell, projected, memory, first, weight, bias)
    return _recur(rule, projected, memory, first, weight, bias)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _recur(rule: Rule, *arrays: Array) -> Array:
    return _forward(rule, *arrays)[0]


def _forward(
    rule: Rule, projected: Array, memory: Array, first: Array, weight: Array, bias: Array
) -> tuple[Array, Any]:
    def step(memory: Array, now: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array, Array]]:
        x, keep = now
        before = memory * keep
        gates = _hidden(before, weight.shape[0]) @ weight + bias[None]
        memory = rule.forward(x, gates, before)
        return memory, (memory, before, gates)

    _, (memories, before, gates) = jax.lax.scan(step, memory, (projected, _keep(first)))
    return memories, (projected, before, first, weight, gates)


def _backward(rule: Rule, saved: Any, d_memories: Array) -> tuple[Any, ...]:
    projected, before, first, weight, gates = saved
    slopes = rule.slopes(projected, gates, before)
    n_hidden = weight.shape[0]
    n_other = before.shape[-1] - n_hidden
    transposed = weight.T

    def step(d_later: Array, now: tuple[Array, ...]) -> tuple[Array, tuple[Array, Array]]:
        d_out, slope, keep = now
        d_memory = d_later + d_out
        d_gate = rule.pull_gates(slope, d_memory)
        d_hidden = jnp.pad(d_gate @ transposed, ((0, 0), (n_other, 0)))
        return (rule.pull_memory(slope, d_memory) + d_hidden) * keep, (d_memory, d_gate)

    end = jnp.zeros_like(before[0])
    inputs = d_memories, slopes, _keep(first)
    d_start, (d_after, d_gates) = jax.lax.scan(step, end, inputs, reverse=True)
    d_weight = jnp.einsum("tnh,tnk->hk", _hidden(before, n_hidden), d_gates)
    d_projected = rule.pull_input(slopes, d_after)
    return d_projected, d_start, None, d_weight, d_gates.sum((0, 1))


_recur.defvjp(_forward, _backward)


def _hidden(memory: Float[Array, "... M"], n_hidden: int) -> Float[Array, "... {n_hidden}"]:
    return memory[..., memory.shape[-1] - n_hidden :]


def _keep(first: Bool[Array, "..."]) -> Float[Array, "... 1"]:
    return (~first).astype(jnp.float32)[..., None]


def sigmoid(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """1 / (1 + e^-x) as ½ + ½ tanh(x/2), which XLA computes a good deal faster on a CPU."""
    return 0.5 + 0.5 * jnp.tanh(0.5 * x)

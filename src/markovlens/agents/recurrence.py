"""The one hot loop: a recurrent cell over a sequence, with its derivative written by hand.

Cells here have the form

    m_t = f(x_t, g_t, m_{t-1}),   g_t = h_{t-1} U + b,   h = the last H entries of the memory m

with f elementwise and cheap, and the memory set to zero wherever an episode
starts. Forwards, the loop holds nothing but the product with U and f. Backwards,
the slopes of f are known for all steps before the loop starts, and the gradient
of U is summed over all steps after it ended,

    dU = Σ_t h_{t-1}ᵀ dg_t  =  one [H, T·N] × [T·N, K] matrix product,

where automatic differentiation would add an [H, K] matrix at every step.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from markovlens.agents.kernel import one_kernel
from markovlens.agents.lanes import how_many, travel, unweave, weave


class Rule(NamedTuple):
    """f and its derivative, in the pieces that the loop needs apart."""

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
    length, n = first.shape
    lanes = how_many(length, n, weight.shape[0])
    return _recur(rule, lanes, projected, memory, first, weight, bias)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _recur(rule: Rule, lanes: int, *arrays: Array) -> Array:
    return _forward(rule, lanes, *arrays)[0]


def _forward(
    rule: Rule,
    lanes: int,
    projected: Array,
    memory: Array,
    first: Array,
    weight: Array,
    bias: Array,
) -> tuple[Array, Any]:
    projected, first = weave(projected, lanes), weave(first, lanes)

    def step(weights: tuple[Array, Array], memory: Array, x: Array) -> tuple[Array, Array, Array]:
        weight, bias = weights
        gates = _hidden(memory, weight.shape[0]) @ weight + bias[None]
        memory = one_kernel(rule.forward)(x, gates, memory)
        return memory, memory, gates

    memories, gates = travel(step, (weight, bias), (projected,), memory, first, bias.size, lanes)
    before = jnp.concatenate([memory[None], memories[-lanes:-1], memories[:-lanes]])
    saved = projected, before * _keep(first), first, weight, gates
    return unweave(memories, lanes), saved


def _backward(rule: Rule, lanes: int, saved: Any, d_memories: Array) -> tuple[Any, ...]:
    projected, before, first, weight, gates = saved
    slopes = rule.slopes(projected, gates, before)
    n_hidden, n_gates = weight.shape
    n_other = before.shape[-1] - n_hidden

    def pull(slope: Array, d_memory: Array) -> tuple[Array, Array]:
        return rule.pull_gates(slope, d_memory), rule.pull_memory(slope, d_memory)

    def pull_hidden(d_gate: Array, transposed: Array) -> Array:
        return jnp.pad(d_gate @ transposed, ((0, 0), (n_other, 0)))

    def step(
        transposed: Array, d_later: Array, d_out: Array, slope: Array
    ) -> tuple[Array, Array, Array]:
        d_memory = d_later + d_out
        d_gate, d_before = one_kernel(pull)(slope, d_memory)
        return d_before + pull_hidden(d_gate, transposed), d_memory, d_gate

    end = jnp.zeros_like(before[0])
    # Backwards, nothing comes in from the next step if that one starts an episode.
    cut = jnp.concatenate([first[lanes:], first[1:lanes], jnp.ones_like(first[:1])])
    inputs = weave(d_memories, lanes), slopes
    d_after, d_gates = travel(step, weight.T, inputs, end, cut, n_gates, lanes, back=True)
    d_start = rule.pull_memory(slopes[0], d_after[0]) + pull_hidden(d_gates[0], weight.T)
    d_projected = unweave(rule.pull_input(slopes, d_after), lanes)
    d_weight = jnp.einsum("tnh,tnk->hk", _hidden(before, n_hidden), d_gates)
    return d_projected, d_start * _keep(first[0]), None, d_weight, d_gates.sum((0, 1))


_recur.defvjp(_forward, _backward)


def _hidden(memory: Float[Array, "... M"], n_hidden: int) -> Float[Array, "... {n_hidden}"]:
    return memory[..., memory.shape[-1] - n_hidden :]


def _keep(first: Bool[Array, "..."]) -> Float[Array, "... 1"]:
    return (~first).astype(jnp.float32)[..., None]


def sigmoid(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """1 / (1 + e^-x) as ½ + ½ tanh(x/2), which XLA computes a good deal faster on a CPU."""
    return 0.5 + 0.5 * jnp.tanh(0.5 * x)

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
from typing import Any, NamedTuple, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from markovlens.agents.kernel import one_kernel

P = ParamSpec("P")
R = TypeVar("R")


class Rule(NamedTuple):
    """f and its derivative, in the pieces that the loop needs apart."""

    forward: Callable[[Array, Array, Array], Array]  # x, g, m -> m'
    slopes: Callable[[Array, Array, Array], Array]  # x, g, m -> whatever the pulls need, [..., P]
    pull_gates: Callable[[Array, Array], Array]  # slopes, dm' -> dg
    pull_memory: Callable[[Array, Array], Array]  # slopes, dm' -> dm, but for what g passes on
    pull_input: Callable[[Array, Array], Array]  # slopes, dm' -> dx


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def recur(
    rule: Rule,
    projected: Float[Array, "T N K"],
    memory: Float[Array, "N M"],
    first: Bool[Array, "T N"],
    weight: Float[Array, "H K"],
    bias: Float[Array, "K"],
) -> Float[Array, "T N M"]:
    """The memories after each of T steps, starting from `memory`, zeroed where `first`."""
    memories, _ = _forward(rule, projected, memory, first, weight, bias)
    return memories


def _forward(
    rule: Rule, projected: Array, memory: Array, first: Array, weight: Array, bias: Array
) -> tuple[Array, Array]:
    def loop(
        projected: Array, memory: Array, keep: Array, weight: Array, bias: Array
    ) -> tuple[Array, Array]:
        def step(memory: Array, now: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
            x, keep = now
            memory = memory * keep
            gates = _hidden(memory, weight.shape[0]) @ weight + bias[None]
            memory = rule.forward(x, gates, memory)
            return memory, (memory, gates)

        return jax.lax.scan(step, memory, (projected, keep))[1]

    return _compiled(loop, memory)(projected, memory, _keep(first), weight, bias)


def _forward_saving(
    rule: Rule, projected: Array, memory: Array, first: Array, weight: Array, bias: Array
) -> tuple[Array, Any]:
    memories, gates = _forward(rule, projected, memory, first, weight, bias)
    before = jnp.concatenate([memory[None], memories[:-1]]) * _keep(first)
    return memories, (projected, before, first, weight, gates)


def _backward(rule: Rule, saved: Any, d_memories: Array) -> tuple[Any, ...]:
    projected, before, first, weight, gates = saved
    slopes = rule.slopes(projected, gates, before)
    n_hidden = weight.shape[0]
    n_other = before.shape[-1] - n_hidden

    def loop(
        d_memories: Array, slopes: Array, keep: Array, transposed: Array
    ) -> tuple[Array, tuple[Array, Array]]:
        def step(d_later: Array, now: tuple[Array, ...]) -> tuple[Array, tuple[Array, Array]]:
            d_out, slope, keep = now
            d_memory = d_later + d_out
            d_gate = rule.pull_gates(slope, d_memory)
            d_hidden = jnp.pad(d_gate @ transposed, ((0, 0), (n_other, 0)))
            return (rule.pull_memory(slope, d_memory) + d_hidden) * keep, (d_memory, d_gate)

        end = jnp.zeros_like(d_memories[0])
        return jax.lax.scan(step, end, (d_memories, slopes, keep), reverse=True)

    d_start, (d_after, d_gates) = _compiled(loop, before[0])(
        d_memories, slopes, _keep(first), weight.T
    )
    d_projected = rule.pull_input(slopes, d_after)
    d_weight = jnp.einsum("tnh,tnk->hk", _hidden(before, n_hidden), d_gates)
    return d_projected, d_start, None, d_weight, d_gates.sum((0, 1))


recur.defvjp(_forward_saving, _backward)


def _compiled(loop: Callable[P, R], memory: Float[Array, "N M"]) -> Callable[P, R]:
    """With one sequence the product is of a matrix and a vector, which needs no library."""
    return one_kernel(loop) if memory.shape[0] == 1 else loop


def _hidden(memory: Float[Array, "... M"], n_hidden: int) -> Float[Array, "... {n_hidden}"]:
    return memory[..., memory.shape[-1] - n_hidden :]


def _keep(first: Bool[Array, "T N"]) -> Float[Array, "T N 1"]:
    return (~first).astype(jnp.float32)[..., None]


def sigmoid(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """1 / (1 + e^-x) as ½ + ½ tanh(x/2), which XLA computes a good deal faster on a CPU."""
    return 0.5 + 0.5 * jnp.tanh(0.5 * x)

"""The actor's and the critics' last layers in C++ (`outputs.cc`), with their derivative."""

from typing import Any

import jax
from jaxtyping import Array, Float

from markovlens.agents.native.library import call


@jax.custom_vjp
def output_layers(
    hidden: Float[Array, "n D"],
    weight: Float[Array, "H A"],
    bias: Float[Array, "A"],
    critics: Float[Array, "C H"],
    critics_bias: Float[Array, "C"],
) -> tuple[Float[Array, "n A"], Float[Array, "n C"]]:
    """What the actor puts out, from the first H numbers of each row, and every critic's value, from
    the next H each."""
    return _forward(hidden, weight, bias, critics, critics_bias)[0]


def _forward(
    hidden: Array, weight: Array, bias: Array, critics: Array, critics_bias: Array
) -> tuple[tuple[Array, Array], Any]:
    n = len(hidden)
    shapes = [(n, bias.size), (n, critics_bias.size)]
    arrays = hidden, weight, bias, critics, critics_bias
    action, value = call("markovlens_outputs_forward", shapes, *arrays)
    return (action, value), (hidden, weight, critics)


def _backward(saved: Any, d_out: tuple[Array, Array]) -> tuple[Array, ...]:
    hidden, weight, critics = saved
    (n_critics, _), n_actions = critics.shape, weight.shape[1]
    shapes = [hidden.shape, weight.shape, (n_actions,), critics.shape, (n_critics,)]
    return tuple(call("markovlens_outputs_backward", shapes, hidden, *d_out, weight, critics))


output_layers.defvjp(_forward, _backward)

"""Dense layers of many rows in C++ (`dense.cc`), with their derivatives."""

from functools import partial
from typing import Any

import jax
from jaxtyping import Array, Float

from markovlens.agents.native.library import available, call

ROWS = 16  # with fewer, packing the weights takes longer than the product


def many(n_rows: int) -> bool:
    """Whether there are native layers, for so many rows."""
    return n_rows >= ROWS and available()


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def dense_layer(
    positive: bool, x: Float[Array, "n I"], weight: Float[Array, "I O"], bias: Float[Array, "O"]
) -> Float[Array, "n O"]:
    """x W + b, or its `positive` part."""
    return _forward(positive, x, weight, bias)[0]


def _forward(positive: bool, x: Array, weight: Array, bias: Array) -> tuple[Array, Any]:
    shape = (x.shape[0], bias.size)
    (y,) = call("markovlens_dense_forward", [shape], x, weight, bias, positive=positive)
    return y, (x, weight, y if positive else None)


def _backward(positive: bool, saved: Any, d_y: Array) -> tuple[Array, Array, Array]:
    x, weight, y = saved
    seen = y if positive else d_y  # where it does not matter, something that is there
    (d_x,) = call("markovlens_dense_by_input", [x.shape], d_y, seen, weight, positive=positive)
    return d_x, *by_parameters(positive, x, d_y, seen)


dense_layer.defvjp(_forward, _backward)


def by_parameters(
    positive: bool, x: Float[Array, "n I"], d_y: Float[Array, "n O"], y: Float[Array, "n O"]
) -> tuple[Float[Array, "I O"], Float[Array, "O"]]:
    """xᵀ dy and the sum of dy's rows; if `positive`, dy counts only where y is."""
    width = d_y.shape[1]
    shapes = [(x.shape[1], width), (width,)]
    d_weight, d_bias = call("markovlens_dense_by_parameters", shapes, x, d_y, y, positive=positive)
    return d_weight, d_bias

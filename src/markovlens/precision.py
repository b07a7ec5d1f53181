"""64-bit floats for the closed form, in a scope of its own.

The closed form solves linear systems that are nearly singular as γ → 1, so it
computes in float64 whatever the caller's JAX settings are. Nothing global is
switched: the scope is entered around each call and left after it.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

P = ParamSpec("P")
T = TypeVar("T")


def is_traced(*trees: object) -> bool:
    """Whether any array in `trees` is a tracer, so that its numbers cannot be looked at."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def as_float64(tree: T) -> T:
    """The same tree with every real number and real array as a float64 JAX array."""

    def convert(leaf: object) -> object:
        if isinstance(leaf, bool) or not isinstance(leaf, float | int | np.ndarray | jax.Array):
            return leaf
        if jnp.issubdtype(jnp.result_type(leaf), jnp.bool_):
            return leaf
        return jnp.asarray(leaf, dtype=jnp.float64)

    with jax.enable_x64(True):
        return jax.tree.map(convert, tree)


def in_float64(fn: Callable[P, T]) -> Callable[P, T]:
    """Run `fn` with float64 switched on and its numeric arguments converted to it."""

    @wraps(fn)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        with jax.enable_x64(True):
            return fn(*as_float64(args), **as_float64(kwargs))

    return wrapped

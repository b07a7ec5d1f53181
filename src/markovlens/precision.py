"""64-bit floats for the closed form, in a scope of its own.

The closed form solves linear systems that are nearly singular as γ → 1, so it
computes in float64 whatever the caller's JAX settings are. Nothing global is
switched: the scope is entered around each call and left after it.
"""

from collections.abc import Callable
from functools import cache, partial, wraps
from typing import Any, ParamSpec, TypeVar

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
        if isinstance(leaf, jax.Array) and leaf.dtype == np.float64:
            return leaf
        if isinstance(leaf, bool) or not isinstance(leaf, float | int | np.ndarray | jax.Array):
            return leaf
        if jnp.issubdtype(jnp.result_type(leaf), jnp.bool_):
            return leaf
        return jnp.asarray(leaf, dtype=jnp.float64)

    with jax.enable_x64(True):
        return jax.tree.map(convert, tree)


def in_float64(fn: Callable[P, T]) -> Callable[P, T]:
    """Run `fn(*arrays, **static)`, and its gradient, in float64.

    JAX runs the backward pass of a function wherever `jax.grad` was called, which
    may be outside the scope; so forward and backward each enter it themselves.
    Keyword arguments are static.
    """

    @wraps(fn)
    def wrapped(*args: P.args, **static: P.kwargs) -> T:
        run = _with_scoped_gradient(fn, tuple(sorted(static.items())))
        return run(*as_float64(args))

    return wrapped


@cache
def _with_scoped_gradient(fn: Callable[..., Any], static: tuple[tuple[str, Any], ...]) -> Any:
    call = partial(fn, **dict(static))

    @jax.custom_vjp
    def run(*args: Any) -> Any:
        with jax.enable_x64(True):
            return call(*args)

    def forward(*args: Any) -> tuple[Any, Any]:
        with jax.enable_x64(True):
            return jax.vjp(call, *args)

    def backward(pull_back: Any, cotangents: Any) -> Any:
        with jax.enable_x64(True):
            return pull_back(cotangents)

    run.defvjp(forward, backward)
    return run

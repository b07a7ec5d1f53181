"""Loops whose steps are so small that starting kernels would take most of the time.

On a CPU, XLA runs a loop's body as a list of kernels and looks each of them up again at every step.
A call that it is told to keep whole becomes a single compiled function instead, loop and all. That
pays where a step takes a few microseconds, and has two conditions. The body must need nothing from
a library: a matrix times a vector is fine, a matrix times a matrix is not. And no argument may be
known when compiling (a network that a jitted function closes over, say): this XLA then aborts the
process. So nothing is kept whole but inside `whole_loops`, which a caller enters who knows.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jax.custom_batching import sequential_vmap
from jax.experimental.xla_metadata import set_xla_metadata
from jaxtyping import Array

P = ParamSpec("P")
R = TypeVar("R")

_ALLOWED: ContextVar[bool] = ContextVar("_ALLOWED", default=False)


@contextmanager
def whole_loops() -> Iterator[None]:
    """What is traced inside may use `one_kernel`: all its arguments are unknown when compiling."""
    token = _ALLOWED.set(True)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def one_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, compiled to one function inside `whole_loops` on a CPU; else as it is.

    Under `vmap` it is called for one item after the other. It cannot be differentiated.

    >>> float(one_kernel(lambda x: jax.lax.fori_loop(0, 3, lambda i, y: 2 * y, x))(jnp.ones(())))
    8.0
    """
    return _whole(function) if kernels_allowed() else function


def kernels_allowed() -> bool:
    """Whether `one_kernel` does anything here."""
    return _ALLOWED.get() and _works(jax.default_backend())


def _whole(function: Callable[P, R]) -> Callable[P, R]:
    @jax.jit
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        # The marks are for the call, not for what is in it.
        with set_xla_metadata(xla_cpu_small_call=None, inlineable=None):
            return function(*args, **kwargs)

    @sequential_vmap
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with set_xla_metadata(xla_cpu_small_call="true", inlineable="false"):
            return inside(*args, **kwargs)

    return call


@cache
def _works(platform: str) -> bool:
    """Whether this XLA can do it: the marks are its own, and promised to nobody."""
    if platform != "cpu":
        return False

    def loop(x: Array, w: Array) -> Array:
        return jax.lax.scan(lambda x, _: (jnp.tanh(x @ w), None), x, length=4)[0]

    shapes = jax.ShapeDtypeStruct((1, 8), jnp.float32), jax.ShapeDtypeStruct((8, 8), jnp.float32)
    try:
        jax.jit(_whole(loop)).lower(*shapes).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True

"""Going through a sequence step by step, or in lanes side by side.

What a step of a recurrent cell costs is to read the cell's weights, be it for one memory or for
four. So a sequence is cut into lanes of equal length that go side by side, twice. At first every
lane but the foremost starts from zeros, wrong up to where the memory is set to zero anyway,
and right from there on. Then each starts again with what the lane before it ended with, and goes
only as far as it was wrong. That needs a new episode in every lane; where there is none, all steps
are taken one by one. The numbers are the same up to rounding.

Rows lie *woven*: step 0 of every lane, then step 1 of every lane, ...
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from markovlens.agents.kernel import kernels_allowed, one_kernel

LANES = 4
LANES_FROM = 64  # units: the weights of fewer are in the nearest cache and read in no time

Found = tuple[Float[Array, "T N M"], Float[Array, "T N K"]]


def how_many(length: int, n: int, n_hidden: int) -> int:
    """The lanes for each of n sequences: a few if that is faster, else one."""
    lanes = max(1, LANES // n)
    return lanes if kernels_allowed() and n_hidden >= LANES_FROM and length % lanes == 0 else 1


def weave(x: Float[Array, "T ..."], lanes: int) -> Float[Array, "T ..."]:
    """From the order of time to the order of lanes.

    >>> weave(jnp.arange(6), 2).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    return x.reshape(lanes, -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)


def unweave(x: Float[Array, "T ..."], lanes: int) -> Float[Array, "T ..."]:
    """Back to the order of time."""
    return weave(x, len(x) // lanes)


def travel(
    step: Callable[..., tuple[Array, Array, Array]],
    weights: Any,
    inputs: tuple[Float[Array, "T N _"], ...],
    start: Float[Array, "N M"],
    cut: Bool[Array, "T N"],
    n_gates: int,
    lanes: int,
    back: bool = False,
) -> Found:
    """What `step(weights, carry, *rows of the inputs) -> carry, [n, M], [n, K]` finds in all rows.

    It is carried on from `start`, from zeros wherever `cut`, forwards in time or `back`. All is
    woven.
    """
    length, n = cut.shape
    in_lanes = cut.reshape(-1, lanes, n)
    if back:
        in_lanes = in_lanes[::-1, ::-1]
    behind = in_lanes[:, 1:]  # all but the foremost lane

    def nothing() -> Found:
        return jnp.zeros((length, *start.shape)), jnp.zeros((length, n, n_gates))

    def go(
        width: int,
        row: Callable[[Array], Array],
        n_steps: int | Int[Array, ""],
        weights: Any,
        inputs: tuple[Array, ...],
        carry: Array,
        found: Found,
    ) -> tuple[Array, Found]:
        def one(i: Array, state: tuple[Array, Found]) -> tuple[Array, Found]:
            carry, found = state
            at = length - width - row(i) if back else row(i)
            slices = (jax.lax.dynamic_slice_in_dim(array, at, width) for array in inputs)
            keep, *now = (rows.reshape(width * n, -1) for rows in slices)
            carry, *here = step(weights, carry * keep, *now)

            def put(whole: Array, rows: Array) -> Array:
                rows = rows.reshape(width, n, -1)
                return jax.lax.dynamic_update_slice_in_dim(whole, rows, at, axis=0)

            return carry, (put(found[0], here[0]), put(found[1], here[1]))

        return jax.lax.fori_loop(0, n_steps, one, (carry, found))

    def one_by_one(weights: Any, inputs: tuple[Array, ...], start: Array) -> Found:
        def row(t: Array) -> Array:
            return t % len(in_lanes) * lanes + t // len(in_lanes)

        return go(1, row, length, weights, inputs, start, nothing())[1]

    def side_by_side(weights: Any, inputs: tuple[Array, ...], start: Array) -> Found:
        walk = partial(go, lanes, lambda i: i * lanes)

        def carries(behind: Array) -> Array:
            return jnp.concatenate([behind, start] if back else [start, behind])

        zeros = jnp.zeros(((lanes - 1) * n, start.shape[1]))
        ends, found = walk(len(in_lanes), weights, inputs, carries(zeros), nothing())
        wrong = jnp.argmax(behind, axis=0).max()
        ends = ends[n:] if back else ends[:-n]
        return walk(wrong, weights, inputs, carries(ends), found)[1]

    # With one sequence the product is of a matrix and a vector, which needs no library.
    alone = one_kernel(one_by_one) if n == 1 else one_by_one
    arrays = weights, (1.0 - cut[..., None], *inputs), start
    if lanes == 1:
        return alone(*arrays)
    return jax.lax.cond(behind.any(axis=0).all(), side_by_side, alone, *arrays)

"""A matrix factored once and solved with many times, forwards, transposed, and in gradients."""

from collections.abc import Callable
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float, Int

Operator = Callable[[Float[Array, "n"]], Float[Array, "n"]]

# Multiplications in one call, above which jaxlib shares a batch between the threads of XLA's pool
# and waits for them. Two such calls at once, each on a thread that the other waits for, wait for
# ever; so batches are cut up to stay below it.
MOST_WORK = 200_000


class Solver(Protocol):
    """A matrix A that is ready to solve with."""

    def solve(self, b: Float[Array, "n"]) -> Float[Array, "n"]: ...

    def solve_transposed(self, b: Float[Array, "n"]) -> Float[Array, "n"]: ...


class Factored(eqx.Module):
    """A square matrix that is ready to solve with, and to differentiate.

    Derivatives reuse the factors: differentiating `A x = b` is one more solve with A or Aᵀ, and
    then goes through `apply`, the product x ↦ A x written in terms of what A was made of. That is
    cheaper than through the entries of A, and it is why the matrix itself has no derivative here.
    """

    factors: Solver
    apply: Operator  # a `jax.tree_util.Partial`

    def solve(self, b: Float[Array, "n"]) -> Float[Array, "n"]:
        """x with A x = b."""
        return jax.lax.custom_linear_solve(
            self.apply,
            b,
            solve=lambda _, rhs: self.factors.solve(rhs),
            transpose_solve=lambda _, rhs: self.factors.solve_transposed(rhs),
        )

    def solve_transposed(self, b: Float[Array, "n"]) -> Float[Array, "n"]:
        """x with Aᵀ x = b."""
        transposed = jax.linear_transpose(self.apply, b)
        return jax.lax.custom_linear_solve(
            lambda x: transposed(x)[0],
            b,
            solve=lambda _, rhs: self.factors.solve_transposed(rhs),
            transpose_solve=lambda _, rhs: self.factors.solve(rhs),
        )


class Lu(eqx.Module):
    """A dense matrix as the LU factors of its transpose.

    Why the transpose: the rows of I - γP are diagonally dominant, so the columns of its transpose
    are, and elimination finds each pivot where it already is. Sorting out the row swaps of a
    general matrix is a loop over its rows, which for small matrices costs more than the rest.
    """

    factors: Float[Array, "n n"]  # Lᵀ and Uᵀ in one, where Aᵀ[rows] = L U
    rows: Int[Array, "n"]

    def __init__(self, matrix: Float[Array, "n n"]):
        self.factors, pivots = _factors(jax.lax.stop_gradient(matrix))
        self.rows = _order(pivots)

    def solve(self, b: Float[Array, "n"]) -> Float[Array, "n"]:
        """A x = b, where A[:, rows] = Uᵀ Lᵀ."""
        y = self._triangular(b, lower=False, transposed=True)
        z = self._triangular(y, lower=True, transposed=True)
        return jnp.zeros_like(z).at[self.rows].set(z)

    def solve_transposed(self, b: Float[Array, "n"]) -> Float[Array, "n"]:
        """Aᵀ x = b, where Aᵀ[rows] = L U."""
        y = self._triangular(b[self.rows], lower=True, transposed=False)
        return self._triangular(y, lower=False, transposed=False)

    def _triangular(self, b: Float[Array, "n"], lower: bool, transposed: bool) -> Array:
        return _TRIANGULAR[lower, transposed](self.factors, b[:, None])[:, 0]


def _in_small_batches(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function(matrices[..., n, n], columns[..., n, k]…)`, under `vmap` in batches that stay below
    `MOST_WORK`, one after the other."""

    @custom_vmap
    def call(*args: Array) -> Any:
        return function(*args)

    @call.def_vmap
    def batched(axis_size: int, in_batched: list[bool], *args: Array) -> tuple[Any, Any]:
        if in_batched == [False, True] and args[0].ndim == 2:
            return _as_columns(call, *args), True
        args = tuple(
            x if has_axis else jnp.broadcast_to(x, (axis_size, *x.shape))
            for x, has_axis in zip(args, in_batched, strict=True)
        )
        work = (args[0].size // axis_size) * args[-1].shape[-1]
        size = max(1, -(-MOST_WORK // work))
        if axis_size <= size:
            found = call(*args)
        else:
            found = jax.lax.map(lambda some: call(*some), args, batch_size=size)
        return found, jax.tree.map(lambda _: True, found)

    return call


def _as_columns(
    solve: Callable[[Array, Array], Array], matrix: Float[Array, "n n"], b: Float[Array, "B n k"]
) -> Float[Array, "B n k"]:
    """Many right-hand sides with one matrix: side by side."""
    beside = jnp.moveaxis(b, 0, -1)
    found = solve(matrix, beside.reshape(beside.shape[0], -1))
    return jnp.moveaxis(found.reshape(beside.shape), -1, 0)


@_in_small_batches
def _factors(matrix: Float[Array, "... n n"]) -> tuple[Array, Array]:
    """The LU factors of the transpose, transposed, and the row that each row was swapped with.

    LAPACK reads and writes by columns, so both transposes are free: no entry is moved.
    """
    lu, pivots, _ = jax.lax.linalg.lu(matrix.mT)
    return lu.mT, pivots


def _triangular(lower: bool, transposed: bool) -> Callable[..., Any]:
    @_in_small_batches
    def solve(
        factors: Float[Array, "... n n"], b: Float[Array, "... n k"]
    ) -> Float[Array, "... n k"]:
        return jax.lax.linalg.triangular_solve(
            factors.mT, b, left_side=True, lower=lower, transpose_a=transposed, unit_diagonal=lower
        )

    return solve


_TRIANGULAR = {(i, j): _triangular(i, j) for i in (False, True) for j in (False, True)}


def _order(pivots: Int[Array, "n"]) -> Int[Array, "n"]:
    """The order of the rows after the swaps i ↔ pivots[i]; the loop ends with the last swap."""
    identity = jnp.arange(pivots.shape[0], dtype=pivots.dtype)
    swaps = jnp.where(pivots == identity, 0, identity + 1).max(initial=0)

    def swap(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        i, order = carry
        here, there = order[i], order[pivots[i]]
        return i + 1, order.at[i].set(there).at[pivots[i]].set(here)

    return jax.lax.while_loop(lambda carry: carry[0] < swaps, swap, (swaps * 0, identity))[1]

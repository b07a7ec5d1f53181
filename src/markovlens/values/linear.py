"""A matrix factored once and solved with many times, forwards, transposed, and in gradients."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class Factored(eqx.Module):
    """A square matrix with its LU factors.

    Derivatives reuse the factors: differentiating `A x = b` is one more solve with A or Aᵀ.
    """

    matrix: Float[Array, "n n"]
    lu: Float[Array, "n n"]
    pivots: Array

    def __init__(self, matrix: Float[Array, "n n"]):
        self.matrix = matrix
        self.lu, self.pivots = jax.scipy.linalg.lu_factor(jax.lax.stop_gradient(matrix))

    def solve(self, b: Float[Array, "n"]) -> Float[Array, "n"]:
        """x with A x = b."""
        return self._solve(self.matrix, b, transposed=False)

    def solve_transposed(self, b: Float[Array, "n"]) -> Float[Array, "n"]:
        """x with Aᵀ x = b."""
        return self._solve(self.matrix.T, b, transposed=True)

    def _solve(
        self, matrix: Float[Array, "n n"], b: Float[Array, "n"], transposed: bool
    ) -> Float[Array, "n"]:
        def with_factors(trans: bool, rhs: Array) -> Array:
            return jax.scipy.linalg.lu_solve((self.lu, self.pivots), rhs, trans=int(trans))

        return jax.lax.custom_linear_solve(
            lambda x: jnp.dot(matrix, x),
            b,
            solve=lambda _, rhs: with_factors(transposed, rhs),
            transpose_solve=lambda _, rhs: with_factors(not transposed, rhs),
        )

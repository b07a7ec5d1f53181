"""Systems I - γP over (node, memory) in which few nodes are linked, solved by elimination.

The nodes are states, or observations, and the matrix has a block of M×M numbers for every link.
Nodes no two of which are linked, every other cell of a corridor or a grid, go at once: with these
first,

    A = [D E; F C],   D block-diagonal,   G = D⁻¹ E,   S = C - F G,

and S is such a system again, over the other nodes. What is left when too few can go is solved as
a dense matrix. The rows of A are diagonally dominant, hence those of S, so no pivots are needed.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from markovlens.values.linear import Lu, Solver
from markovlens.values.links import Links, Places, elimination_pays, pairs, plan


class Eliminated(eqx.Module):
    """A system without some of its nodes, and what it takes to bring them back."""

    links: Links = eqx.field(static=True)
    inverse: Float[Array, "I M M"]  # D⁻¹
    left: Float[Array, "e M M"]  # F
    right: Float[Array, "f M M"]  # G
    rest: Solver  # S

    def __init__(self, blocks: Float[Array, "E M M"], links: Links):
        self.links, how = links, plan(links)
        self.inverse = _inverse(blocks[how.diagonal])
        self.left = blocks[how.left.block]
        self.right = self.inverse[how.right.row] @ blocks[how.right.block]
        paths = self.left[how.path_left] @ self.right[how.path_right]
        rest = _blocks_at(how.direct, blocks) - _sum_by(how.path_link, len(how.direct), paths)
        self.rest = _solver(rest, how.rest)

    def solve(self, b: Float[Array, "NM"]) -> Float[Array, "NM"]:
        """A x = b: first S x_R = b_R - F D⁻¹ b_I, then x_I = D⁻¹ b_I - G x_R."""
        how, b = plan(self.links), b.reshape(len(self.links), -1)
        alone = _times(self.inverse, b[how.eliminated])
        x = b[how.kept] - _sparse_times(how.left, self.left, alone, len(how.kept))
        x = self.rest.solve(x.reshape(-1)).reshape(x.shape)
        alone = alone - _sparse_times(how.right, self.right, x, len(how.eliminated))
        return jnp.concatenate([alone, x])[how.order].reshape(-1)

    def solve_transposed(self, b: Float[Array, "NM"]) -> Float[Array, "NM"]:
        """Aᵀ x = b: first Sᵀ x_R = b_R - Gᵀ b_I, then x_I = D⁻ᵀ (b_I - Fᵀ x_R)."""
        how, b = plan(self.links), b.reshape(len(self.links), -1)
        alone = b[how.eliminated]
        x = b[how.kept] - _sparse_times(*_transposed(how.right, self.right), alone, len(how.kept))
        x = self.rest.solve_transposed(x.reshape(-1)).reshape(x.shape)
        left = _transposed(how.left, self.left)
        alone = alone - _sparse_times(*left, x, len(how.eliminated))
        return jnp.concatenate([_times(self.inverse.mT, alone), x])[how.order].reshape(-1)


def without_next(moves: Float[Array, "E M M"], gamma: Float[Array, ""], links: Links) -> Solver:
    """I - γP, ready to solve with; `moves` has a block of P for each of `pairs(links)`."""
    nodes, following = pairs(links)
    same = (nodes == following)[:, None, None] * np.eye(moves.shape[-1])
    return _solver(jax.lax.stop_gradient(same - gamma * moves), links)


def _solver(blocks: Float[Array, "E M M"], links: Links) -> Solver:
    n_nodes, n_memory = len(links), blocks.shape[-1]
    if elimination_pays(links):
        return Eliminated(blocks, links)
    index = np.full((n_nodes, n_nodes), -1)
    index[pairs(links)] = np.arange(len(blocks))
    dense = _blocks_at(index, blocks).swapaxes(1, 2)
    return Lu(dense.reshape(n_nodes * n_memory, -1))


def _blocks_at(index: Int[np.ndarray, "..."], blocks: Float[Array, "E M M"]) -> Array:
    """Blocks by number; zeros for -1."""
    return jnp.where((index < 0)[..., None, None], 0.0, blocks[index])


def _sum_by(
    group: Int[np.ndarray, "e"], n_groups: int, values: Float[Array, "e ..."]
) -> Float[Array, "g ..."]:
    """The sum over each group: the first of every group, the second of those that have one, …"""
    counts = np.bincount(group, minlength=n_groups)
    members, first = np.argsort(group, kind="stable"), np.cumsum(counts) - counts
    total = jnp.zeros((n_groups, *values.shape[1:]))
    for n in range(counts.max(initial=0)):
        has = np.expand_dims(n < counts, tuple(range(1, values.ndim)))
        nth = members[np.minimum(first + n, len(members) - 1)]
        total = total + jnp.where(has, values[nth], 0.0)
    return total


def _sparse_times(
    places: Places, blocks: Float[Array, "e M M"], x: Float[Array, "k M"], n_rows: int
) -> Float[Array, "n M"]:
    return _sum_by(places.row, n_rows, _times(blocks, x[places.column]))


def _transposed(places: Places, blocks: Float[Array, "e M M"]) -> tuple[Places, Array]:
    return places._replace(row=places.column, column=places.row), blocks.mT


def _times(blocks: Float[Array, "e M M"], x: Float[Array, "e M"]) -> Float[Array, "e M"]:
    return jnp.einsum("emn,en->em", blocks, x)


def _inverse(A: Float[Array, "e M M"]) -> Float[Array, "e M M"]:
    """Gauss-Jordan in place: with Y = A but for column k, which is that of I, A becomes
    Y - (A[:, k] - I[:, k]) Y[k] / A[k, k], for one k after the other."""
    identity = jnp.eye(A.shape[-1])

    def eliminate(k: Int[Array, ""], A: Float[Array, "e M M"]) -> Float[Array, "e M M"]:
        unit = identity[k]
        Y = jnp.where(unit[None, None, :] > 0.0, unit[None, :, None], A)
        row = Y[:, k] / A[:, k, k, None]
        return Y - (A[:, :, k] - unit[None])[:, :, None] * row[:, None, :]

    return jax.lax.fori_loop(0, A.shape[-1], eliminate, A)

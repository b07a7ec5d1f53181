"""Linear systems over (node, memory) in which few nodes are linked, solved by elimination.

The nodes are states, or observations; I - γP has a block of M×M numbers for every linked pair. Nodes
no two of which are linked, and there are many in a corridor or a grid, can be eliminated together:
with those first,

    A = [D E; F C],  D block by block on its diagonal,    S = C - F G,  G = D⁻¹ E,

the rest is a system S of the same kind over the other nodes, and so on. What is left when this no
longer pays is solved as a dense matrix. Rows of I - γP are diagonally dominant, and those of S are
again, so nothing is lost by not looking for pivots.
"""

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from markovlens.values.linear import Lu

# For each node those that can follow it, itself included; hashable, as a program depends on it.
Links = tuple[tuple[int, ...], ...]

# Fewer nodes than this at once are not worth the kernels that it takes to eliminate them.
FEWEST = 2


class Eliminated(eqx.Module):
    """The system with some of its nodes eliminated, and what is left of it."""

    links: Links = eqx.field(static=True)
    inverse: Float[Array, "I M M"]  # D⁻¹
    right: Float[Array, "IR M M"]  # G
    left: Float[Array, "RI M M"]  # F
    rest: "Eliminated | Lu"  # S

    def __init__(self, blocks: Float[Array, "E M M"], links: Links):
        self.links, plan = links, plan_of(links)
        self.inverse = _inverse(blocks[plan.diagonal])
        self.left = blocks[plan.left.block]
        self.right = _product(self.inverse[plan.right.row], blocks[plan.right.block])
        through = _product(self.left[plan.into], self.right[plan.out_of])
        kept = jnp.where(plan.kept[:, None, None] < 0, 0.0, blocks[plan.kept])
        rest = kept - _sum_by(plan.link, len(plan.kept), through)
        self.rest = factored_blocks(rest, plan.rest)

    def solve(self, b: Float[Array, "NM"]) -> Float[Array, "NM"]:
        """x with A x = b: x_R = S⁻¹ (b_R - F D⁻¹ b_I), x_I = D⁻¹ b_I - G x_R."""
        plan, b = plan_of(self.links), b.reshape(len(self.links), -1)
        alone = _times(self.inverse, b[plan.gone])
        x = b[plan.left_over] - plan.left.times(self.left, alone)
        x = self.rest.solve(x.reshape(-1)).reshape(x.shape)
        return jnp.concatenate([alone - plan.right.times(self.right, x), x])[plan.order].reshape(-1)

    def solve_transposed(self, b: Float[Array, "NM"]) -> Float[Array, "NM"]:
        """x with Aᵀ x = b: x_R = S⁻ᵀ (b_R - Gᵀ b_I), x_I = D⁻ᵀ (b_I - Fᵀ x_R)."""
        plan, b = plan_of(self.links), b.reshape(len(self.links), -1)
        alone = b[plan.gone]
        x = b[plan.left_over] - plan.right.transposed.times(self.right.mT, alone)
        x = self.rest.solve_transposed(x.reshape(-1)).reshape(x.shape)
        alone = _times(self.inverse.mT, alone - plan.left.transposed.times(self.left.mT, x))
        return jnp.concatenate([alone, x])[plan.order].reshape(-1)


def factored_blocks(blocks: Float[Array, "E M M"], links: Links) -> Eliminated | Lu:
    """The system with these blocks, one for each link in the order of `pairs`, ready to solve."""
    blocks = jax.lax.stop_gradient(blocks)
    if pays(links):
        return Eliminated(blocks, links)
    index = np.full((len(links), len(links)), -1)
    rows, columns = pairs(links)
    index[rows, columns] = np.arange(len(rows))
    dense = jnp.where(index[:, :, None, None] < 0, 0.0, blocks[index])
    size = len(links) * blocks.shape[-1]
    return Lu(dense.swapaxes(1, 2).reshape(size, size))


def pays(links: Links) -> bool:
    return len(links) > 1 and len(plan_of(links).gone) >= FEWEST


def links_of(connected: np.ndarray) -> Links:
    """The links of a matrix whose entry (i, j) says whether j can follow i."""
    connected = connected.astype(bool) | np.eye(len(connected), dtype=bool)
    return tuple(tuple(int(j) for j in np.flatnonzero(row)) for row in connected)


def pairs(links: Links) -> tuple[Int[np.ndarray, "E"], Int[np.ndarray, "E"]]:
    """All (node, node that can follow), as two arrays."""
    rows = np.repeat(np.arange(len(links)), [len(row) for row in links])
    return rows, np.concatenate([np.array(row) for row in links])


class Couplings(NamedTuple):
    """Where the blocks of E or F are: in which row and column, and in which of A's blocks."""

    row: Int[np.ndarray, "e"]
    column: Int[np.ndarray, "e"]
    block: Int[np.ndarray, "e"]
    n_rows: int
    n_columns: int

    @property
    def transposed(self) -> "Couplings":
        return Couplings(self.column, self.row, self.block, self.n_columns, self.n_rows)

    def times(self, blocks: Float[Array, "e M M"], x: Float[Array, "n M"]) -> Float[Array, "m M"]:
        return _sum_by(self.row, self.n_rows, _times(blocks, x[self.column]))


class Plan(NamedTuple):
    """How nodes are eliminated: all that is known from the links alone."""

    gone: Int[np.ndarray, "I"]
    left_over: Int[np.ndarray, "R"]
    order: Int[np.ndarray, "N"]  # where each node is in (gone, left_over)
    diagonal: Int[np.ndarray, "I"]  # D's among A's blocks
    right: Couplings  # E, and so G
    left: Couplings  # F
    rest: Links  # S
    kept: Int[np.ndarray, "e"]  # C's among A's blocks, for each link of S; -1 if there was none
    into: Int[np.ndarray, "p"]  # F G is a sum over paths R → I → R: the block of F,
    out_of: Int[np.ndarray, "p"]  # the block of G,
    link: Int[np.ndarray, "p"]  # and the link of S


@cache
def plan_of(links: Links) -> Plan:
    rows, columns = pairs(links)
    gone = np.array(independent(links))
    left_over = np.setdiff1d(np.arange(len(links)), gone)
    order = np.argsort(np.concatenate([gone, left_over]))
    goes = np.isin(np.arange(len(links)), gone)
    place = np.where(goes, order, order - len(gone))

    def couplings(chosen: np.ndarray, n_rows: int, n_columns: int) -> Couplings:
        block = np.flatnonzero(chosen)
        return Couplings(place[rows[block]], place[columns[block]], block, n_rows, n_columns)

    right = couplings(goes[rows] & ~goes[columns], len(gone), len(left_over))
    left = couplings(~goes[rows] & goes[columns], len(left_over), len(gone))
    into, out_of = np.nonzero(left.column[:, None] == right.row[None, :])
    old = couplings(~goes[rows] & ~goes[columns], len(left_over), len(left_over))
    before = np.full((len(left_over), len(left_over)), -1)
    before[old.row, old.column] = old.block
    after = before >= 0
    after[left.row[into], right.column[out_of]] = True
    number = np.cumsum(after).reshape(after.shape) - 1
    return Plan(
        gone=gone,
        left_over=left_over,
        order=order,
        diagonal=np.flatnonzero(goes[rows] & (rows == columns)),
        right=right,
        left=left,
        rest=links_of(after),
        kept=before[after],
        into=into,
        out_of=out_of,
        link=number[left.row[into], right.column[out_of]],
    )


def independent(links: Links) -> list[int]:
    """Nodes no two of which are linked, as many as one finds by taking the least linked first."""
    near = [set(row) - {node} for node, row in enumerate(links)]
    for node, row in enumerate(links):
        for other in set(row) - {node}:
            near[other].add(node)
    free, found = set(range(len(links))), []
    while free:
        node = min(free, key=lambda node: (len(near[node] & free), node))
        found.append(node)
        free -= {node, *near[node]}
    return sorted(found)


def _sum_by(
    group: Int[np.ndarray, "e"], n_groups: int, values: Float[Array, "e ..."]
) -> Float[Array, "g ..."]:
    """The sum of the values of each group: the first of every group, the second, and so on."""
    counts = np.bincount(group, minlength=n_groups)
    members, first = np.argsort(group, kind="stable"), np.cumsum(counts) - counts
    total = jnp.zeros((n_groups, *values.shape[1:]))
    for nth in range(counts.max(initial=0)):
        there = (nth < counts).reshape(-1, *[1] * (values.ndim - 1))
        value = values[members[np.minimum(first + nth, len(group) - 1)]]
        total = total + jnp.where(there, value, 0.0)
    return total


def _times(blocks: Float[Array, "e M M"], x: Float[Array, "e M"]) -> Float[Array, "e M"]:
    return jnp.einsum("emn,en->em", blocks, x)


def _product(a: Float[Array, "... m k"], b: Float[Array, "... k n"]) -> Float[Array, "... m n"]:
    """a b, written so that XLA makes one kernel of it: its products of small matrices are slow."""
    terms: Iterable[Array] = (
        a[..., :, k, None] * b[..., k, None, :] for k in range(a.shape[-1])
    )
    return sum(terms, start=jnp.zeros(()))


def _inverse(matrix: Float[Array, "... n n"]) -> Float[Array, "... n n"]:
    """By halves, with the same formula: A⁻¹ = [D⁻¹ + G S⁻¹ H, -G S⁻¹; -S⁻¹ H, S⁻¹], H = F D⁻¹."""
    half = matrix.shape[-1] // 2
    if half == 0:
        return 1.0 / matrix
    D, E = matrix[..., :half, :half], matrix[..., :half, half:]
    F, C = matrix[..., half:, :half], matrix[..., half:, half:]
    inverse = _inverse(D)
    G, H = _product(inverse, E), _product(F, inverse)
    rest = _inverse(C - _product(H, E))
    below = -_product(rest, H)
    above = jnp.concatenate([inverse - _product(G, below), -_product(G, rest)], axis=-1)
    return jnp.concatenate([above, jnp.concatenate([below, rest], axis=-1)], axis=-2)

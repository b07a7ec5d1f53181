"""Fleets of ships on a board, placed at random one after the other."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from markovlens.envs import bits


class Fleet(eqx.Module):
    """Ships of given lengths, straight lines of cells on a board.

    The ships are placed in order, each uniform over its placements (horizontal or vertical) that
    overlap none of the ships before it:

        Pr(z_1, …, z_k) = Π_i 1 / #{z : z does not overlap z_1, …, z_{i-1}}

    This is close to, but not, uniform over all legal fleets: where the earlier ships leave little
    room, each of the few ways to go on is a little likelier. On a board so tight that the earlier
    ships can leave no room at all, such a draw is thrown away and the whole fleet drawn anew.
    Ships may touch.
    """

    placements: tuple[UInt32[Array, "P W"], ...]  # for each ship, the sets of cells it can take
    rows: int = eqx.field(static=True)
    columns: int = eqx.field(static=True)
    lengths: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, rows: int, columns: int, lengths: Sequence[int]):
        if rows < 1 or columns < 1:
            raise ValueError(f"a board needs at least one cell, got {rows}×{columns}")
        if not lengths or min(lengths) < 1:
            raise ValueError(f"a fleet is a list of ship lengths, each at least 1; got {lengths}")
        self.rows, self.columns, self.lengths = rows, columns, tuple(lengths)
        placements = [_placements(rows, columns, length) for length in lengths]
        self.placements = tuple(jnp.asarray(bits.pack(cells)) for cells in placements)
        # A fleet that fits less often than this would keep `place` busy for ever.
        if not self.always_fits and not _some_fit(placements, tries=1000):
            raise ValueError(
                f"a fleet of ships of {', '.join(map(str, lengths))} does not fit on a board of "
                f"{rows}×{columns} (none of 1000 tries found room); use a larger board, fewer or "
                "shorter ships, or put the longest first"
            )

    @property
    def always_fits(self) -> bool:
        """Whether there is room for each ship wherever the earlier ones are.

        A cell is part of at most 2·length placements of a ship, so the earlier ships rule out at
        most that many for each of their cells.
        """
        before = np.cumsum((0, *self.lengths[:-1]))
        return all(
            2 * length * cells < len(sets)
            for length, cells, sets in zip(self.lengths, before, self.placements, strict=True)
        )

    def place(self, key: PRNGKeyArray) -> UInt32[Array, "W"]:
        """The set of cells that a randomly placed fleet takes."""
        n_ships = len(self.lengths)
        if self.always_fits:
            return self._place_in_order(jax.random.uniform(key, (n_ships,)))[0]

        def draw(last: tuple[PRNGKeyArray, Array, Array]) -> tuple[PRNGKeyArray, Array, Array]:
            key, now = jax.random.split(last[0])
            return key, *self._place_in_order(jax.random.uniform(now, (n_ships,)))

        nothing = jnp.zeros(bits.n_words(self.rows * self.columns), dtype=jnp.uint32)
        _, taken, _ = jax.lax.while_loop(
            lambda last: ~last[2], draw, (key, nothing, jnp.array(False))
        )
        return taken

    def _place_in_order(self, u: Float[Array, "k"]) -> tuple[UInt32[Array, "W"], Bool[Array, ""]]:
        """The cells taken, and whether every ship found room; ship i goes where u[i] says."""
        taken = jnp.zeros(bits.n_words(self.rows * self.columns), dtype=jnp.uint32)
        fits = jnp.array(True)
        for placements, u_ship in zip(self.placements, u, strict=True):
            free = (placements & taken[None] == 0).all(axis=1)
            ship, room = _uniform_member(free, u_ship)
            taken = taken | placements[ship]
            fits = fits & room
        return taken, fits


def _uniform_member(
    members: Bool[Array, "n"], u: Float[Array, ""]
) -> tuple[Int[Array, ""], Bool[Array, ""]]:
    """The member at fraction u of the set, and whether there is any."""
    rank = jnp.cumsum(members, dtype=jnp.int32)
    count = rank[-1]
    wanted = jnp.minimum((u * count).astype(jnp.int32), count - 1)
    return jnp.sum(rank <= wanted, dtype=jnp.int32), count > 0


def _placements(rows: int, columns: int, length: int) -> Bool[np.ndarray, "P C"]:
    """Every way a ship can lie: across, and (unless it is a single cell) down."""
    cells = np.arange(rows * columns).reshape(rows, columns)
    lines = [
        cells[row, column : column + length]
        for row in range(rows)
        for column in range(columns - length + 1)
    ]
    if length > 1:
        lines += [
            cells[row : row + length, column]
            for row in range(rows - length + 1)
            for column in range(columns)
        ]
    taken = np.zeros((len(lines), rows * columns), dtype=bool)
    for placement, line in zip(taken, lines, strict=True):
        placement[line] = True
    return taken


def _some_fit(placements: Sequence[Bool[np.ndarray, "P C"]], tries: int) -> bool:
    """Whether any of `tries` fleets, placed in order at random, found room for every ship."""
    rng = np.random.default_rng(0)
    for _ in range(tries):
        taken = np.zeros(placements[0].shape[1], dtype=bool)
        for cells in placements:
            free = cells[~cells[:, taken].any(axis=1)]
            if len(free) == 0:
                break
            taken |= rng.choice(free)
        else:
            return True
    return False

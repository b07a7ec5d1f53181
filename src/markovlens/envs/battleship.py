"""Battleship for one player: sink a hidden fleet, told only whether the last shot hit."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from markovlens.envs import bits
from markovlens.envs.env import Env, Step
from markovlens.envs.fleet import Fleet
from markovlens.envs.spaces import Binary, Discrete

FLEET = (5, 4, 3, 2)


class BattleshipState(eqx.Module):
    ships: UInt32[Array, "W"]  # the set of cells with a ship
    shots: UInt32[Array, "W"]  # the set of cells shot at


class Battleship(Env[BattleshipState, None]):
    """Battleship on any board with any fleet; the paper's is 10×10 with ships of 5, 4, 3 and 2.

    An action is a cell, `row * columns + column`; cells already shot at are masked. The observation
    is one bit, whether the last shot hit a ship (0 at the start). Every shot pays -1, and the one
    that sinks the last of the fleet pays rows × columns on top and ends the episode: the return is
    the number of cells that were never shot at. Undiscounted. A shot against the mask, at a
    cell shot at before, misses.

    Ships are placed in the order given, each uniform over the placements, horizontal or vertical,
    that do not overlap the ships before it (see `Fleet`).

    >>> Battleship().action_space
    Discrete(n=100)
    """

    fleet: Fleet

    def __init__(self, rows: int = 10, columns: int = 10, fleet: Sequence[int] = FLEET):
        self.fleet = Fleet(rows, columns, fleet)

    @property
    def rows(self) -> int:
        return self.fleet.rows

    @property
    def columns(self) -> int:
        return self.fleet.columns

    @property
    def n_cells(self) -> int:
        return self.fleet.rows * self.fleet.columns

    @property
    def gamma(self) -> float:
        return 1.0

    @property
    def observation_space(self) -> Binary:
        return Binary(1)

    @property
    def action_space(self) -> Discrete:
        return Discrete(self.n_cells)

    @property
    def shortest_episode(self) -> int:
        return sum(self.fleet.lengths)

    @property
    def masks_actions(self) -> bool:
        return True

    def action_mask(self, state: BattleshipState) -> Bool[Array, "A"]:
        """The cells not shot at yet."""
        return ~bits.unpack(state.shots, self.n_cells)

    @property
    def full_observation_space(self) -> Binary:
        return Binary(2 * self.n_cells)

    def full_observation(self, state: BattleshipState) -> Float[Array, "2C"]:
        """Where the ships are, and where shots went."""
        both = [bits.unpack(state.ships, self.n_cells), bits.unpack(state.shots, self.n_cells)]
        return jnp.concatenate(both).astype(jnp.float32)

    def reset(self, key: PRNGKeyArray) -> tuple[BattleshipState, Float[Array, "1"]]:
        ships = self.fleet.place(key)
        return BattleshipState(ships, jnp.zeros_like(ships)), jnp.zeros(1, dtype=jnp.float32)

    def noise(self, key: PRNGKeyArray) -> None:
        return None

    def transition(
        self, state: BattleshipState, action: Int[Array, ""], noise: None
    ) -> tuple[BattleshipState, Step]:
        shot = bits.single(action, state.shots.shape[0])
        hit = (shot & state.ships & ~state.shots != 0).any()
        after = BattleshipState(state.ships, state.shots | shot)
        sunk = (state.ships & ~after.shots == 0).all()
        reward = self.n_cells * sunk.astype(jnp.float32) - 1.0
        observation = hit.astype(jnp.float32)[None]
        return after, Step(observation, reward, sunk, jnp.zeros_like(sunk))

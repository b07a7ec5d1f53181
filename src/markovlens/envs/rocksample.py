"""RockSample: a rover among good and bad rocks, with a sensor that fades with distance."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

from markovlens.envs import bits
from markovlens.envs.env import Env, Step
from markovlens.envs.spaces import Binary, Discrete

NORTH, EAST, SOUTH, WEST, SAMPLE, CHECK = range(6)  # CHECK + i checks rock i
GOOD_REWARD, BAD_REWARD, EXIT_REWARD = 10.0, -10.0, 10.0


class RockSampleState(eqx.Module):
    row: Int[Array, ""]
    column: Int[Array, ""]
    good: UInt32[Array, "W"]  # the set of good rocks
    shown: UInt32[Array, "W"]  # the set of rocks whose observation bit is 1


class RockSample(Env[RockSampleState, Float[Array, ""]]):
    """RockSample on an n×n grid with k rocks, as the paper has it.

    Actions: 0 … 3 move north, east, south, west (staying put at a wall), 4 samples the rock
    underfoot, 5 + i checks rock i. Entering the east column ends the episode and pays +10. Sampling
    pays +10 for a good rock and -10 for a bad one, and leaves the rock bad; where there is no rock
    it pays nothing. The check of a rock at distance d is right with probability
    ½ (1 + 2^(-d / half_efficiency_distance)).

    The observation has 2n + k bits: the row one-hot, the column one-hot, and a bit for each rock.
    A positive reading sets the rock's bit, which stays set until the rock is sampled. A negative
    reading leaves no trace: it does not set the bit, nor does it clear one set before ("remains 1
    until sampled").

    The rock map is drawn once, from `seed`, or given; the rocks' qualities are drawn at every
    start, and so is the start cell, from all cells but those of the exit column.

    Arguments:
        size: n, rows and columns.
        n_rocks: k; not needed when `rocks` is given.
        rocks: (row, column) of each rock, none in the east column.
        half_efficiency_distance: by default the largest distance between two cells, (n-1)√2.
        seed: draws the rock map.

    >>> RockSample(11, 11).observation_space
    Binary(n=33)
    """

    rock_cells: Int[Array, "k 2"]  # (row, column)
    rock_at: UInt32[Array, "C W"]  # the set of the rocks in a cell: one rock, or none
    accuracy: Float[Array, "C k"]
    size: int = eqx.field(static=True)
    discount: float = eqx.field(static=True)

    def __init__(
        self,
        size: int,
        n_rocks: int | None = None,
        rocks: tuple[tuple[int, int], ...] | None = None,
        half_efficiency_distance: float | None = None,
        gamma: float = 0.99,
        seed: int = 0,
    ):
        if size < 2:
            raise ValueError(f"the grid needs at least 2 columns, one of them the exit; got {size}")
        if (n_rocks is None) == (rocks is None):
            raise ValueError("give either the number of rocks or their cells")
        cells = _draw_rocks(size, n_rocks, seed) if rocks is None else _check_rocks(size, rocks)
        reach = half_efficiency_distance
        reach = np.sqrt(2.0) * (size - 1) if reach is None else reach
        if not reach > 0:
            raise ValueError(f"half_efficiency_distance must be positive, got {reach:g}")
        rows, columns = np.divmod(np.arange(size * size), size)
        apart = np.hypot(rows[:, None] - cells[:, 0], columns[:, None] - cells[:, 1])
        self.rock_cells = jnp.asarray(cells, dtype=jnp.int32)
        self.rock_at = jnp.asarray(bits.pack(apart == 0))
        self.accuracy = jnp.asarray((1.0 + 2.0 ** (-apart / reach)) / 2.0, dtype=jnp.float32)
        self.size = size
        self.discount = gamma

    @property
    def n_rocks(self) -> int:
        return self.rock_cells.shape[0]

    @property
    def gamma(self) -> float:
        return self.discount

    @property
    def observation_space(self) -> Binary:
        return Binary(2 * self.size + self.n_rocks)

    @property
    def observation_names(self) -> tuple[str, ...]:
        cells = range(self.size)
        places = [f"row {i}" for i in cells] + [f"column {i}" for i in cells]
        return (*places, *(f"rock {i}" for i in range(self.n_rocks)))

    @property
    def action_space(self) -> Discrete:
        return Discrete(CHECK + self.n_rocks)

    @property
    def full_observation_space(self) -> Binary:
        return Binary(2 * self.size + 2 * self.n_rocks)

    def full_observation(self, state: RockSampleState) -> Float[Array, "2n+2k"]:
        """The observation, and which rocks are good."""
        good = bits.unpack(state.good, self.n_rocks).astype(jnp.float32)
        return jnp.concatenate([self._observe(state), good])

    def reset(self, key: PRNGKeyArray) -> tuple[RockSampleState, Float[Array, "2n+k"]]:
        words = bits.n_words(self.n_rocks)
        drawn = jax.random.bits(key, (1 + words,), dtype=jnp.uint32)
        # 32 random bits for at most a few thousand cells: uniform to one in a million.
        cell = (drawn[0] % (self.size * (self.size - 1))).astype(jnp.int32)
        row, column = cell // (self.size - 1), cell % (self.size - 1)
        rocks = bits.pack(np.ones(self.n_rocks, dtype=bool))
        state = RockSampleState(row, column, drawn[1:] & rocks, jnp.zeros_like(drawn[1:]))
        return state, self._observe(state)

    def noise(self, key: PRNGKeyArray) -> Float[Array, ""]:
        return jax.random.uniform(key)

    def transition(
        self, state: RockSampleState, action: Int[Array, ""], noise: Float[Array, ""]
    ) -> tuple[RockSampleState, Step]:
        cell = state.row * self.size + state.column
        # Checking: the reading is the rock's quality, turned round where the sensor errs.
        rock = action - CHECK  # negative for the other actions: an empty set below
        errs = noise >= self.accuracy[cell, jnp.maximum(rock, 0)]
        reading = jnp.where(errs, ~state.good, state.good)
        positive = reading & bits.single(rock, state.good.shape[0])
        # Sampling.
        sampled = jnp.where(action == SAMPLE, self.rock_at[cell], jnp.uint32(0))
        got_good = (sampled & state.good != 0).any()
        got_bad = (sampled & ~state.good != 0).any()
        # Moving.
        last = self.size - 1
        down = (action == SOUTH).astype(jnp.int32) - (action == NORTH)
        right = (action == EAST).astype(jnp.int32) - (action == WEST)
        after = RockSampleState(
            row=jnp.clip(state.row + down, 0, last),
            column=jnp.clip(state.column + right, 0, last),
            good=state.good & ~sampled,
            shown=(state.shown | positive) & ~sampled,
        )
        out = after.column == last
        reward = GOOD_REWARD * got_good + BAD_REWARD * got_bad + EXIT_REWARD * out
        reward = reward.astype(jnp.float32)
        return after, Step(self._observe(after), reward, out, jnp.zeros_like(out))

    def _observe(self, state: RockSampleState) -> Float[Array, "2n+k"]:
        cells = np.arange(self.size)
        seen = [
            cells == state.row,
            cells == state.column,
            bits.unpack(state.shown, self.n_rocks),
        ]
        return jnp.concatenate(seen).astype(jnp.float32)


def _draw_rocks(size: int, n_rocks: int | None, seed: int) -> Int[np.ndarray, "k 2"]:
    free = size * (size - 1)
    if n_rocks is None or not 1 <= n_rocks <= free:
        raise ValueError(
            f"{n_rocks} rocks do not fit: at least one is needed, a {size}×{size} grid has {free} "
            "cells outside the exit column, and a cell holds at most one rock"
        )
    chosen = np.random.default_rng(seed).choice(free, size=n_rocks, replace=False)
    return np.stack(np.divmod(np.sort(chosen), size - 1), axis=-1)


def _check_rocks(size: int, rocks: tuple[tuple[int, int], ...]) -> Int[np.ndarray, "k 2"]:
    cells = np.asarray(rocks, dtype=np.int64).reshape(-1, 2)
    if not len(cells):
        raise ValueError("there must be at least one rock, got none")
    for index, (row, column) in enumerate(cells):
        if not (0 <= row < size and 0 <= column < size - 1):
            raise ValueError(
                f"rock {index} is at row {row}, column {column}; on a {size}×{size} grid rows run "
                f"from 0 to {size - 1} and columns, without the exit, from 0 to {size - 2}"
            )
        if (cells[:index] == (row, column)).all(axis=1).any():
            raise ValueError(f"two rocks are at row {row}, column {column}; a cell holds one")
    return cells

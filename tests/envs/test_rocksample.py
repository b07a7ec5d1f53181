"""RockSample: every rule by hand, the sensor's frequencies, a second implementation."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from markovlens.envs import bits
from markovlens.envs.rocksample import (
    CHECK,
    EAST,
    NORTH,
    SAMPLE,
    SOUTH,
    WEST,
    RockSample,
    RockSampleState,
)

RIGHT, WRONG = jnp.float32(0.0), jnp.float32(1.0 - 2**-24)  # a reading is right with chance >= ½


def at(row, column, good=(), shown=(), rocks=2) -> RockSampleState:
    def words(members):
        return jnp.asarray(bits.pack(np.isin(np.arange(rocks), list(members))))

    return RockSampleState(jnp.int32(row), jnp.int32(column), words(good), words(shown))


def seen(row, column, shown=(), size=4, rocks=2) -> list[float]:
    hot = [0.0] * (2 * size + rocks)
    for index in (row, size + column, *(2 * size + rock for rock in shown)):
        hot[index] = 1.0
    return hot


@pytest.fixture
def env() -> RockSample:
    return RockSample(4, rocks=((1, 1), (2, 0)))


@pytest.mark.parametrize(
    ("start", "action", "end"),
    [
        ((1, 1), NORTH, (0, 1)),
        ((1, 1), EAST, (1, 2)),
        ((1, 1), SOUTH, (2, 1)),
        ((1, 1), WEST, (1, 0)),
        ((0, 0), NORTH, (0, 0)),
        ((0, 0), WEST, (0, 0)),
        ((3, 0), SOUTH, (3, 0)),
    ],
)
def test_moves_and_walls(env, start, action, end):
    after, step = env.transition(at(*start, good=(0,)), jnp.int32(action), RIGHT)
    assert (int(after.row), int(after.column)) == end
    assert step.observation.tolist() == seen(*end)
    assert (float(step.reward), bool(step.terminated)) == (0.0, False)


def test_the_east_column_is_the_exit(env):
    _, step = env.transition(at(3, 2, shown=(1,)), jnp.int32(EAST), RIGHT)
    assert (float(step.reward), bool(step.terminated), bool(step.truncated)) == (10.0, True, False)
    assert step.observation.tolist() == seen(3, 3, shown=(1,))


def test_sampling_pays_by_quality_once_and_clears_the_bit(env):
    state, step = env.transition(at(1, 1, good=(0, 1), shown=(0, 1)), jnp.int32(SAMPLE), RIGHT)
    assert float(step.reward) == 10.0
    assert step.observation.tolist() == seen(1, 1, shown=(1,))
    state, step = env.transition(state, jnp.int32(SAMPLE), RIGHT)  # now it is bad
    assert float(step.reward) == -10.0
    assert bits.unpack(state.good, 2).tolist() == [False, True]
    _, step = env.transition(at(2, 0, good=(0,)), jnp.int32(SAMPLE), RIGHT)  # rock 1, bad
    assert float(step.reward) == -10.0


def test_sampling_where_there_is_no_rock_does_nothing(env):
    before = at(0, 1, good=(0, 1), shown=(0,))
    after, step = env.transition(before, jnp.int32(SAMPLE), WRONG)
    assert float(step.reward) == 0.0
    assert step.observation.tolist() == seen(0, 1, shown=(0,))
    np.testing.assert_array_equal(after.good, before.good)


def test_a_positive_reading_shows_until_the_rock_is_sampled(env):
    state = at(0, 2, good=(1,))
    state, step = env.transition(state, jnp.int32(CHECK + 0), RIGHT)  # bad, and read so
    assert step.observation.tolist() == seen(0, 2)
    state, step = env.transition(state, jnp.int32(CHECK + 1), RIGHT)  # good, and read so
    assert step.observation.tolist() == seen(0, 2, shown=(1,))
    state, step = env.transition(state, jnp.int32(CHECK + 1), WRONG)  # a negative reading clears
    assert step.observation.tolist() == seen(0, 2, shown=(1,))  # nothing
    state, step = env.transition(state, jnp.int32(CHECK + 0), WRONG)  # bad, read as good
    assert step.observation.tolist() == seen(0, 2, shown=(0, 1))
    assert float(step.reward) == 0.0
    state, step = env.transition(state, jnp.int32(WEST), RIGHT)
    assert step.observation.tolist() == seen(0, 1, shown=(0, 1))
    assert env.full_observation(state).tolist() == [*seen(0, 1, shown=(0, 1)), 0.0, 1.0]


def test_underfoot_the_sensor_is_never_wrong(env):
    _, step = env.transition(at(1, 1, good=(0,)), jnp.int32(CHECK), WRONG)
    assert step.observation.tolist() == seen(1, 1, shown=(0,))


@pytest.mark.parametrize("reach", [None, 1.5])
def test_the_sensor_is_right_as_often_as_its_distance_says(reach):
    env = RockSample(4, rocks=((1, 1),), half_efficiency_distance=reach)
    places = [(1, 1), (1, 2), (3, 0), (3, 2)]
    draws = 20_000

    @jax.jit
    def readings(key, row, column, good):
        state = RockSampleState(row, column, good, jnp.zeros_like(good))
        keys = jax.random.split(key, draws)
        return jax.vmap(lambda key: env.step(key, state, jnp.int32(CHECK)))(keys)[1].observation

    for i, (row, column) in enumerate(places):
        far = math.dist((row, column), (1, 1)) / (math.sqrt(18) if reach is None else reach)
        chance = (1 + 2**-far) / 2
        for good in (0, 1):
            key = jax.random.key(10 * i + good)
            quality = jnp.full(1, good, dtype=jnp.uint32)
            read = np.asarray(readings(key, jnp.int32(row), jnp.int32(column), quality))[:, -1]
            error = np.mean(read == good) - chance
            assert abs(error) <= 4 * math.sqrt(chance * (1 - chance) / draws)


def test_starts_are_uniform_and_rocks_are_fair_coins():
    env = RockSample(5, 3, seed=4)
    draws = 20_000
    keys = jax.random.split(jax.random.key(0), draws)
    states, observations = jax.jit(jax.vmap(env.reset))(keys)
    cells = np.bincount(np.asarray(states.row * 5 + states.column), minlength=25).reshape(5, 5)
    assert (cells[:, -1] == 0).all()
    sd = math.sqrt(draws * 0.05 * 0.95)
    assert (np.abs(cells[:, :-1] - draws / 20) < 4.5 * sd).all()
    good = np.asarray(states.good) >> np.arange(3) & 1
    assert (np.abs(good.mean(axis=0) - 0.5) < 4.5 * 0.5 / math.sqrt(draws)).all()
    assert (np.abs(np.corrcoef(good.T)[np.triu_indices(3, 1)]) < 4.5 / math.sqrt(draws)).all()
    assert (np.asarray(observations)[:, 10:] == 0).all()


def test_rock_maps_differ_by_seed_and_avoid_the_exit():
    maps = [np.asarray(RockSample(6, 30, seed=seed).rock_cells) for seed in range(3)]
    for cells in maps:  # 30 rocks fill all of a 6×6 grid but its exit
        assert len({tuple(cell) for cell in cells.tolist()}) == 30
        assert cells[:, 1].max() == 4
    few = [np.asarray(RockSample(11, 11, seed=seed).rock_cells).tolist() for seed in range(20)]
    assert len({str(cells) for cells in few}) == 20


class PlainRockSample:
    """The rules once more, with tuples and sets."""

    def __init__(self, size, rocks, place, good):
        self.size, self.rocks, self.place = size, rocks, place
        self.good, self.shown = set(good), set()

    def step(self, action: int, u: float) -> tuple[list[float], float, bool]:
        row, column = self.place
        reward = 0.0
        if action < 4:
            down, right = [(-1, 0), (0, 1), (1, 0), (0, -1)][action]
            row = min(max(row + down, 0), self.size - 1)
            column = min(max(column + right, 0), self.size - 1)
            self.place = row, column
            reward = 10.0 if column == self.size - 1 else 0.0
        elif action == 4 and self.place in self.rocks:
            rock = self.rocks.index(self.place)
            reward = 10.0 if rock in self.good else -10.0
            self.good.discard(rock)
            self.shown.discard(rock)
        elif action > 4:
            rock = action - 5
            reach = math.sqrt(2) * (self.size - 1)
            right = u < 0.5 * (1 + 2 ** (-math.dist(self.place, self.rocks[rock]) / reach))
            if (rock in self.good) == right:
                self.shown.add(rock)
        sight = seen(row, column, self.shown, self.size, len(self.rocks))
        return sight, reward, column == self.size - 1


@pytest.mark.parametrize(("size", "n_rocks"), [(11, 11), (4, 2), (8, 40)])
def test_lockstep_with_plain_python(size, n_rocks):
    env = RockSample(size, n_rocks, seed=2)
    rocks = [tuple(cell) for cell in np.asarray(env.rock_cells).tolist()]

    @jax.jit
    @jax.vmap
    def play(key, actions):
        """Steps from a fresh start; nobody looks at those after the end."""
        start, _ = env.reset(key)

        def one_step(state, now):
            key, action = now
            u = env.noise(key)
            after, step = env.transition(state, action, u)
            return after, (u, step)

        _, played = jax.lax.scan(one_step, start, (jax.random.split(key, len(actions)), actions))
        return start, played

    # Half of the time not a check, so that every part of the grid is visited.
    rng = np.random.default_rng(0)
    games, length = 40, 150
    shape = (games, length)
    actions = np.where(rng.random(shape) < 0.5, rng.integers(5, size=shape), 0)
    actions = np.where(actions, actions, rng.integers(5 + n_rocks, size=shape)).astype(np.int32)
    keys = jax.random.split(jax.random.key(0), games)
    starts, (us, steps) = jax.tree.map(np.asarray, play(keys, jnp.asarray(actions)))
    compared = paid = 0
    for game in range(games):
        words = starts.good[game]
        good = [rock for rock in range(n_rocks) if words[rock // 32] >> (rock % 32) & 1]
        place = (int(starts.row[game]), int(starts.column[game]))
        plain = PlainRockSample(size, rocks, place, good)
        for t in range(length):
            sight, reward, over = plain.step(int(actions[game, t]), float(us[game, t]))
            assert steps.observation[game, t].tolist() == sight
            assert float(steps.reward[game, t]) == reward
            assert bool(steps.terminated[game, t]) == over
            compared += 1
            paid += reward != 0
            if over:
                break
    assert compared > 500
    assert paid > 40


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 4, "n_rocks": 13}, "13 rocks do not fit.* a 4×4 grid has 12 cells outside"),
        ({"size": 4, "n_rocks": -1}, "-1 rocks do not fit"),
        ({"size": 1, "n_rocks": 0}, "at least 2 columns"),
        ({"size": 4}, "either the number of rocks or their cells"),
        ({"size": 4, "n_rocks": 1, "rocks": ((0, 0),)}, "either the number of rocks or their"),
        ({"size": 4, "rocks": ((0, 3),)}, "rock 0 is at row 0, column 3"),
        ({"size": 4, "rocks": ((0, 1), (0, 1))}, "two rocks are at row 0, column 1"),
        ({"size": 4, "n_rocks": 1, "half_efficiency_distance": 0.0}, "must be positive, got 0"),
    ],
)
def test_impossible_maps_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        RockSample(**arguments)

"""Restarts: every start fresh, independent, handed out once, however often episodes end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, UInt32
from scipy.stats import chisquare, kstest

from markovlens.envs.env import Env, Step
from markovlens.envs.registry import make
from markovlens.envs.spaces import Box, Discrete
from markovlens.envs.starts import draw_starts, stock_size
from markovlens.envs.vector import unroll, vector_reset


class Tagged(Env[UInt32[Array, "2"], Array]):
    """Each start carries 32 random bits, and ends at every step with a given probability."""

    ends: Array | float

    @property
    def gamma(self) -> float:
        return 1.0

    @property
    def observation_space(self) -> Box:
        return Box((2,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def reset(self, key):
        tag = jnp.stack([jax.random.bits(key), jnp.uint32(0)])
        return tag, tag

    def noise(self, key):
        return jax.random.uniform(key)

    def transition(self, state, action, noise):
        after = state + jnp.array([0, 1], dtype=jnp.uint32)
        ended = noise < self.ends
        return after, Step(after, jnp.float32(1.0), ended, jnp.array(False))


def tags_of_starts(env: Env, n: int, length: int, seed: int = 0):
    """The tags of all episodes that a rollout begins, in order, for each copy."""

    @jax.jit
    def run(key):
        state = vector_reset(env, key, n)

        def act(carry, state, _):
            return carry, jnp.zeros(n, dtype=jnp.int32), None

        return unroll(env, act, None, state, jax.random.fold_in(key, 1), length)[2]

    seen = jax.tree.map(np.asarray, run(jax.random.key(seed)))
    return [seen.observation[seen.first[:, i], i, 0] for i in range(n)], seen


@pytest.mark.parametrize("ends", [1.0, 0.5, 0.03])
def test_starts_are_independent_and_never_used_twice(ends):
    n, length = 64, 200
    tags, seen = tags_of_starts(Tagged(ends), n, length)
    ended = seen.terminated
    assert [len(t) for t in tags] == (1 + ended[:-1].sum(axis=0)).tolist()
    every = np.concatenate(tags)
    assert len(every) > 250
    # 32 random bits: of 12,800 starts two agree by chance about 0.02 times.
    assert len(set(every.tolist())) == len(every)
    # Uniform, overall and bit by bit; the start after an end knows nothing of the one before it.
    u = every / 2.0**32
    assert kstest(u, "uniform").pvalue > 1e-3
    ones = np.array([(every >> np.uint32(bit) & 1).sum() for bit in range(32)])
    assert (np.abs(ones - len(every) / 2) < 4.5 * np.sqrt(len(every)) / 2).all()
    pairs = np.concatenate([np.stack([t[:-1], t[1:]], -1) for t in tags if len(t) > 1])
    quarters = (pairs >> np.uint32(30)).astype(int)
    assert chisquare(np.bincount(4 * quarters[:, 0] + quarters[:, 1], minlength=16)).pvalue > 1e-3


def test_within_an_episode_the_tag_stays_and_time_runs():
    _, seen = tags_of_starts(Tagged(0.2), 16, 100)
    for i in range(16):
        tag, time = seen.observation[0, i]
        for t in range(100):
            if seen.first[t, i]:
                tag, time = seen.observation[t, i, 0], 0
            assert seen.observation[t, i].tolist() == [tag, time]
            time += 1
            assert seen.next_observation[t, i].tolist() == [tag, time]


def test_an_episode_goes_on_from_rollout_to_rollout():
    env, n = Tagged(0.0), 3

    def act(carry, state, _):
        return carry, jnp.zeros(n, dtype=jnp.int32), None

    start = vector_reset(env, jax.random.key(0), n)
    _, middle, _, _ = unroll(env, act, None, start, jax.random.key(1), 5)
    _, last, seen, _ = unroll(env, act, None, middle, jax.random.key(2), 5)
    assert not seen.first.any()
    np.testing.assert_array_equal(last.observation[:, 0], start.observation[:, 0])
    np.testing.assert_array_equal(last.observation[:, 1], [10, 10, 10])


def test_under_vmap_each_gets_what_it_would_get_alone():
    n, length = 3, 60

    def run(seed, ends):
        env = Tagged(ends)
        state = vector_reset(env, jax.random.key(seed), n)

        def act(carry, state, _):
            return carry, jnp.zeros(n, dtype=jnp.int32), None

        return unroll(env, act, None, state, jax.random.key(seed + 100), length)[2]

    seeds = jnp.arange(6).reshape(2, 3)
    ends = jnp.linspace(0.1, 0.9, 3)  # the copies of a batch run out at different times
    together = jax.jit(jax.vmap(jax.vmap(run), (0, None)))(seeds, ends)
    alone = jax.jit(run)
    for i in range(2):
        for j in range(3):
            for a, b in zip(
                jax.tree.leaves(alone(seeds[i, j], ends[j])),
                jax.tree.leaves(together),
                strict=True,
            ):
                np.testing.assert_array_equal(np.asarray(a), np.asarray(b[i, j]))


def test_a_stock_is_drawn_under_vmap_only_when_needed():
    """The branch that draws stays a branch: vmap must not make it a select."""

    def run(key):
        env = Tagged(0.1)
        state = vector_reset(env, key, 2)

        def act(carry, state, _):
            return carry, jnp.zeros(2, dtype=jnp.int32), None

        return unroll(env, act, None, state, key, 8)[2]

    text = str(jax.make_jaxpr(jax.vmap(run))(jax.random.split(jax.random.key(0), 5)))
    assert "cond[" in text


def test_the_stock_is_no_larger_than_a_rollout_can_use():
    battleship, rocks = make("battleship-10"), make("rocksample-11-11")
    assert stock_size(battleship, 4096, 10) == 1
    assert stock_size(battleship, 4096, 128) == 2
    assert stock_size(rocks, 4, 128) == 3
    assert stock_size(rocks, 4096, 1) == 1
    starts = draw_starts(rocks, jax.random.key(0), 4, 3)
    assert starts.observation.shape == (3, 4, 33)

"""What every environment promises, checked over the whole registry."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from markovlens.envs import registry
from markovlens.envs.env import Env
from markovlens.envs.tmaze import TMaze
from markovlens.envs.vector import unroll, vector_reset
from markovlens.pomdp import library
from markovlens.pomdp.cassandra import write_pomdp

N, LENGTH = 5, 60

NAMES = [*registry.names(), "rocksample-3-2", "rocksample-7-40", "battleship-5", "tmaze-1"]


def compiled(env: Env, n: int):
    """Random legal play of n copies from a seed: last state, transitions, masks, what is amiss."""

    def act(key, state, _):
        key, now = jax.random.split(key)
        masks = jax.vmap(env.action_mask)(state.env_state)
        return key, jax.random.categorical(now, jnp.where(masks, 0.0, -jnp.inf)), masks

    @jax.jit
    def roll(seed):
        start, actions, rest = jax.random.split(jax.random.key(seed), 3)
        state = vector_reset(env, start, n)
        _, last, seen, masks = unroll(env, act, actions, state, rest, LENGTH)
        all_seen = jnp.stack([seen.observation, seen.next_observation])
        full = jax.vmap(env.full_observation)(last.env_state)
        in_space = {
            "observation": jax.vmap(jax.vmap(jax.vmap(env.observation_space.contains)))(all_seen),
            "action": jax.vmap(jax.vmap(env.action_space.contains))(seen.action),
            "full": jax.vmap(env.full_observation_space.contains)(full),
            "reward": jnp.isfinite(seen.reward),
        }
        return last, seen, masks, {name: inside.all() for name, inside in in_space.items()}

    return roll


@cache
def made(name: str):
    """The environment of that name, and its compiled play: compiling is what takes time here."""
    env = registry.make(name)
    return env, compiled(env, N)


@pytest.mark.parametrize("name", ["rocksample-3-2", "battleship-5", "tmaze-1", "tiger"])
def test_an_action_may_be_a_plain_number(name):
    env = registry.make(name)
    key = jax.random.key(0)
    state, _ = env.reset(key)
    plain, array = env.step(key, state, 1), env.step(key, state, jnp.array(1))
    assert jax.tree.all(jax.tree.map(np.array_equal, plain, array))


@pytest.mark.parametrize("name", NAMES)
def test_rollouts_keep_the_contract(name):
    env, roll = made(name)
    last, seen, masks, in_space = jax.tree.map(np.asarray, roll(1))
    assert all(in_space.values()), in_space
    assert seen.reward.dtype == np.float32
    assert not (seen.terminated & seen.truncated).any()
    assert 0.0 <= env.gamma <= 1.0
    # The mask says which actions are allowed, and some action always is.
    assert masks.any(axis=-1).all()
    assert env.masks_actions or masks.all()
    assert np.take_along_axis(masks, seen.action[..., None], -1).all()
    # What follows a step is what it led to, or a fresh start where it ended.
    ended = seen.terminated | seen.truncated
    assert seen.first[0].all()
    np.testing.assert_array_equal(seen.first[1:], ended[:-1])
    goes_on = ~ended[:-1]
    np.testing.assert_array_equal(
        seen.observation[1:][goes_on], seen.next_observation[:-1][goes_on]
    )
    np.testing.assert_array_equal(last.first, ended[-1])


@pytest.mark.parametrize("name", NAMES)
def test_a_step_keeps_every_type_so_that_one_trace_serves_all(name):
    env = registry.make(name)

    def two_steps(key):
        state, observation = env.reset(key)
        action = env.action_space.sample(key)
        after, step = env.step(key, state, action)
        return (state, observation), (after, step.observation), env.step(key, after, action)[0]

    start, once, twice = jax.eval_shape(two_steps, jax.random.key(0))
    assert start == once
    assert once[0] == twice


def test_steps_of_a_loop_are_traced_once():
    env = registry.make("rocksample-3-2")
    traces = []

    @jax.jit
    def step(key, state, action):
        traces.append(None)
        return env.step(key, state, action)

    state, _ = env.reset(jax.random.key(0))
    for t in range(4):
        state, _ = step(jax.random.key(t), state, jnp.int32(t))
    assert len(traces) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_gives_the_same_rollout_and_another_seed_another(name):
    _, roll = made(name)
    once, again, other = (roll(seed)[1] for seed in (3, 3, 4))
    for a, b in zip(jax.tree.leaves(once), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    assert not np.array_equal(np.asarray(once.action), np.asarray(other.action))


@pytest.mark.parametrize("name", ["rocksample-11-11", "tiger"])
def test_the_time_limit_is_a_truncation_and_exact(name):
    env = registry.make(name, time_limit=9)
    assert env.time_limit == 9
    _, seen, _, _ = compiled(env, 64)(0)
    ended = np.asarray(seen.terminated | seen.truncated)
    for copy in range(64):
        ends = np.flatnonzero(ended[:, copy])
        lengths = np.diff(np.concatenate([[-1], ends]))
        assert (lengths <= 9).all()
        truncated = np.asarray(seen.truncated)[ends, copy]
        assert (lengths[truncated] == 9).all()
    assert np.asarray(seen.truncated).any()


@pytest.mark.parametrize("name", ["parity-check", "Parity_Check", "PARITY_CHECK"])
def test_names_of_the_library_are_as_free_as_there(name):
    meant = registry.make("parity_check")
    assert registry.make(name).observation_space == meant.observation_space


def test_names_are_found_or_suggested():
    with pytest.raises(ValueError, match="unknown environment 'battelship-10'; did you mean 'batt"):
        registry.make("battelship-10")
    with pytest.raises(ValueError, match="unknown environment 'rocksample'"):
        registry.make("rocksample")
    assert registry.make("tmaze").env.corridor == 5
    assert registry.make("tmaze-1000").env.corridor == 1000
    assert registry.make("battleship-12").action_space.n == 144
    assert registry.make("RockSample-4-2").env.n_rocks == 2
    assert isinstance(registry.make("TMaze-5").env, TMaze)


def test_a_file_may_be_called_like_an_environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pomdp(library.load("tiger"), "battleship.POMDP")
    assert registry.make("battleship.POMDP").time_limit == registry.TIME_LIMIT


def test_the_seed_draws_the_rock_map():
    maps = [np.asarray(registry.make("rocksample-11-11", seed=s).env.rock_cells) for s in (0, 0, 1)]
    np.testing.assert_array_equal(maps[0], maps[1])
    assert not np.array_equal(maps[0], maps[2])


def test_a_time_limit_must_be_positive():
    with pytest.raises(ValueError, match="at least 1 step, got 0"):
        registry.make("tiger", time_limit=0)

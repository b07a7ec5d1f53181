"""gymnax environments under our contract, against gymnax itself."""

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from markovlens.envs.adapters.from_gymnax import from_gymnax
from markovlens.envs.check import check_env
from markovlens.envs.spaces import Box, Discrete
from markovlens.envs.vector import unroll, vector_reset

KINDS = ["CartPole-v1", "Pendulum-v1", "Catch-bsuite", "FourRooms-misc", "FrozenLake-misc"]


@pytest.fixture(autouse=True)
def _gymnax_promotes_ranks():
    with jax.numpy_rank_promotion("allow"):
        yield


def random_rollout(env, n, length, seed=0):
    state = vector_reset(env, jax.random.key(seed), n)
    keys = jax.random.split(jax.random.key(seed + 1), length)

    def act(carry, state, key):
        return carry, jax.vmap(env.action_space.sample)(jax.random.split(key, n)), None

    run = jax.jit(lambda state: unroll(env, act, None, state, jax.random.key(2), length, keys)[2])
    return run(state)


@pytest.mark.parametrize("name", KINDS)
def test_rolls_out_in_its_spaces(name):
    env = from_gymnax(*gymnax.make(name))
    rollout = random_rollout(env, 3, 40)
    flat = rollout.next_observation.reshape(120, *rollout.next_observation.shape[2:])
    assert jax.vmap(env.observation_space.contains)(flat).all()
    assert jnp.isfinite(rollout.reward).all()
    assert not (rollout.terminated & rollout.truncated).any()


@pytest.mark.parametrize("name", [*KINDS, "MemoryChain-bsuite", "GaussianBandit-misc"])
def test_keeps_the_contract(name):
    check_env(from_gymnax(*gymnax.make(name)))


def test_agrees_with_gymnax_step_by_step():
    inner, params = gymnax.make("CartPole-v1")
    env = from_gymnax(inner, params)
    state, observation = env.reset(jax.random.key(3))
    theirs_seen, theirs = inner.reset(jax.random.key(3), params)
    assert (observation == theirs_seen).all()
    for t in range(12):
        action = jnp.int32(t % 2)
        step_key, _ = jax.random.split(jax.random.key(t))  # gymnax keeps half for its reset
        state, step = env.step(step_key, state, action)
        seen, theirs, reward, terminated, truncated, _ = inner.step(
            jax.random.key(t), theirs, action, params
        )
        assert np.allclose(step.observation, seen, atol=1e-6)
        assert (float(step.reward), bool(step.terminated)) == (float(reward), bool(terminated))
        assert bool(step.truncated) == bool(truncated)


def test_its_time_limit_is_a_truncation():
    inner, params = gymnax.make("Pendulum-v1")
    env = from_gymnax(inner, params)
    assert env.time_limit == 200
    rollout = random_rollout(env, 2, 401)
    assert np.flatnonzero(np.asarray(rollout.truncated[:, 0])).tolist() == [199, 399]
    assert not rollout.terminated.any()


def test_spaces_and_discount():
    env = from_gymnax(*gymnax.make("CartPole-v1"), gamma=0.9)
    assert env.gamma == 0.9
    assert env.action_space == Discrete(2)
    assert isinstance(env.observation_space, Box)
    assert env.observation_space.shape == (4,)


def test_anything_else_is_refused():
    with pytest.raises(ValueError, match=r"not an environment of gymnax 1\.0"):
        from_gymnax(object())

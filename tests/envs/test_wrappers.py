"""Views of an environment, and the statistics of rollouts, against plain computations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from markovlens.envs.battleship import Battleship
from markovlens.envs.env import TimeLimit, innermost, innermost_state
from markovlens.envs.rocksample import RockSample
from markovlens.envs.spaces import Binary, Box
from markovlens.envs.statistics import EpisodeStatistics, RewardScale
from markovlens.envs.tmaze import RIGHT, TMaze
from markovlens.envs.wrappers import FullyObserved, MaskObservation, PreviousAction, PreviousReward


def test_the_previous_action_is_appended():
    env = PreviousAction(TMaze(2))
    assert env.observation_space == Binary(5 + 4)
    state, observation = env.reset(jax.random.key(0))
    colour = int(env.env.reset(jax.random.key(0))[1])
    assert observation.tolist() == [float(i == colour) for i in range(5)] + [0.0] * 4
    _, step = env.step(jax.random.key(1), state, jnp.int32(RIGHT))
    assert step.observation.tolist() == [*(0, 0, 1, 0, 0), *(0, 0, 1, 0)]


def test_the_previous_reward_is_appended():
    env = PreviousReward(PreviousAction(TMaze(1)))
    assert env.observation_space == Box((5 + 4 + 1,))
    state, observation = env.reset(jax.random.key(0))
    assert observation[5:].tolist() == [0.0] * 5
    colour = int(observation.argmax())
    for action in (RIGHT, RIGHT, colour):  # up for the first colour, down for the second
        state, step = env.step(jax.random.key(1), state, jnp.int32(action))
    assert step.terminated
    assert step.observation[-1] == step.reward == 4.0


def test_masked_entries_are_gone():
    env = RockSample(3, 2)
    blind = MaskObservation(env, hidden=(0, 6))
    assert blind.observation_space == Binary(6)
    key = jax.random.key(2)
    state, observation = env.reset(key)
    blind_state, shown = blind.reset(key)
    np.testing.assert_array_equal(shown, np.delete(np.asarray(observation), [0, 6]))
    _, step = env.step(key, state, jnp.int32(6))
    _, blind_step = blind.step(key, blind_state, jnp.int32(6))
    np.testing.assert_array_equal(
        blind_step.observation, np.delete(np.asarray(step.observation), [0, 6])
    )


def test_masks_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="cannot hide entry 8: the observation has 8 entries"):
        MaskObservation(RockSample(3, 2), hidden=(8,))
    with pytest.raises(ValueError, match="keep at least 1"):
        MaskObservation(Battleship(), hidden=(0,))
    with pytest.raises(ValueError, match=r"hidden once each, got \[1, 1\]"):
        MaskObservation(RockSample(3, 2), hidden=(1, 1))


def test_full_view_of_a_wrapped_environment():
    env = FullyObserved(TimeLimit(Battleship(2, 2, (2,)), 3))
    assert env.observation_space == Binary(8)
    assert env.masks_actions
    state, observation = env.reset(jax.random.key(0))
    assert observation[:4].sum() == 2
    assert observation[4:].sum() == 0
    state, step = env.step(jax.random.key(0), state, jnp.int32(3))
    assert step.observation[4:].tolist() == [0, 0, 0, 1]
    assert env.action_mask(state).tolist() == [True, True, True, False]
    game, inner = innermost(env), innermost_state(env, state)
    assert isinstance(game, Battleship)
    assert inner.shots.tolist() == [8]


def test_wrappers_forward_what_they_do_not_change():
    inner = TimeLimit(TMaze(3, gamma=0.8), 7)
    views = PreviousAction(inner), PreviousReward(inner), MaskObservation(inner, (0,))
    for env in (*views, FullyObserved(inner)):
        assert (env.gamma, env.time_limit, env.shortest_episode) == (0.8, 7, 5)
        assert env.action_space == inner.action_space
        assert env.full_observation_space == Box((7,), 0.0, 1.0)
        assert not env.masks_actions
    assert TimeLimit(inner, 9).time_limit == 7


@pytest.fixture
def rollouts():
    rng = np.random.default_rng(0)
    rewards = rng.normal(1.0, 3.0, size=(3, 20, 4)).astype(np.float32)
    return rewards, rng.random((3, 20, 4)) < 0.15


def test_reward_scale_is_the_running_sd_of_the_discounted_return(rollouts):
    gamma, scale = 0.9, RewardScale(n=4, gamma=0.9)
    g, everything = np.zeros(4), []
    assert float(scale.sd) == 1.0
    for rewards, ended in zip(*rollouts, strict=True):
        for reward, end in zip(rewards, ended, strict=True):
            g = reward + gamma * g
            everything.append(g)
            g = np.where(end, 0.0, g)
        scale, scaled = scale.update(jnp.asarray(rewards), jnp.asarray(ended))
        sd = np.std(everything)
        assert float(scale.sd) == pytest.approx(sd, rel=1e-5)
        np.testing.assert_allclose(scaled, rewards / sd, rtol=1e-5)


def test_rewards_that_are_all_zero_stay_zero():
    _, scaled = RewardScale(n=2, gamma=0.9).update(jnp.zeros((3, 2)), jnp.zeros((3, 2), dtype=bool))
    assert (np.asarray(scaled) == 0).all()


def test_episodes_are_followed_across_rollouts(rollouts):
    gamma, statistics = 0.9, EpisodeStatistics(n=4, gamma=0.9)
    rewards_of = [[] for _ in range(4)]
    for rewards, ended in zip(*rollouts, strict=True):
        expected = []
        for reward, end in zip(rewards, ended, strict=True):
            for i in range(4):
                rewards_of[i].append(float(reward[i]))
                if end[i]:
                    episode, rewards_of[i] = rewards_of[i], []
                    discounted = sum(gamma**t * r for t, r in enumerate(episode))
                    expected.append((sum(episode), discounted, len(episode)))
        statistics, episodes = statistics.update(jnp.asarray(rewards), jnp.asarray(ended))
        over = np.asarray(episodes.ended)
        columns = (episodes.total, episodes.discounted, episodes.length)
        found = np.stack([np.asarray(column)[over] for column in columns], axis=-1)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        assert int(episodes.count) == len(expected)

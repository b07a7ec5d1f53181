"""Tabular environments sample the POMDP they are given."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from markovlens.envs.env import TimeLimit
from markovlens.envs.statistics import EpisodeStatistics
from markovlens.envs.tabular import Tabular
from markovlens.envs.vector import unroll, vector_reset
from markovlens.pomdp import library
from markovlens.pomdp.model import Pomdp
from markovlens.pomdp.policies import random_policy


def start_value(pomdp: Pomdp, policy: np.ndarray) -> float:
    """p0 · V with V = (I - γ P)^-1 r, from the definition."""
    T, R, Phi, p0 = (np.asarray(x) for x in (pomdp.T, pomdp.R, pomdp.Phi, pomdp.p0))
    action = Phi @ policy
    P = np.einsum("sa,ast->st", action, T)
    return float(
        p0 @ np.linalg.solve(np.eye(len(p0)) - float(pomdp.gamma) * P, (action * R).sum(1))
    )


@pytest.mark.parametrize("name", ["tmaze", "tiger", "cheese", "paint-episodic"])
def test_simulated_returns_agree_with_the_closed_form(name):
    pomdp = library.load(name)
    policy = np.asarray(random_policy(pomdp, seed=1))
    logits = jnp.log(jnp.asarray(policy, dtype=jnp.float32))
    horizon, n = 250, 4000
    env = TimeLimit(Tabular(pomdp), horizon)  # γ^250 < 3e-6: what comes after does not show

    @jax.jit
    def returns(key):
        state = vector_reset(env, key, n)

        def act(key, state, _):
            key, now = jax.random.split(key)
            return key, jax.random.categorical(now, logits[state.observation]), None

        _, _, seen, _ = unroll(env, act, key, state, jax.random.fold_in(key, 1), horizon)
        ended = seen.terminated | seen.truncated
        _, episodes = EpisodeStatistics(n, env.gamma).update(seen.reward, ended)
        return episodes

    episodes = jax.tree.map(np.asarray, returns(jax.random.key(0)))
    # Each copy's first episode: all of them end within the horizon, so short ones count no more.
    firsts = episodes.discounted[episodes.ended.argmax(axis=0), np.arange(n)]
    error = firsts.mean() - start_value(pomdp, policy)
    assert abs(error) < 4 * firsts.std() / np.sqrt(n)


def test_frequencies_are_the_probabilities_and_the_impossible_never_happens():
    pomdp = library.random_pomdp(seed=3, n_states=4, n_actions=2, n_observations=3)
    T = np.asarray(pomdp.T).copy()
    T[:, :, 1] = 0.0
    T[:, :, 3] = 0.0  # also the last state, where a draw near 1 might fall
    T /= T.sum(axis=2, keepdims=True)
    env = Tabular(Pomdp(T=T, R=pomdp.R, Phi=pomdp.Phi, p0=pomdp.p0, gamma=0.9))
    draws = 20_000
    keys = jax.random.split(jax.random.key(0), draws)

    @jax.jit
    def outcomes(state, action):
        return jax.vmap(lambda key: env.step(key, state, action))(keys)

    for s, a in [(0, 0), (2, 1)]:
        after, step = outcomes(jnp.int32(s), jnp.int32(a))
        share = np.bincount(np.asarray(after), minlength=4) / draws
        assert (share[[1, 3]] == 0).all()
        np.testing.assert_allclose(share, T[a, s], atol=4 * 0.5 / np.sqrt(draws))
        seen = np.bincount(np.asarray(step.observation), minlength=3) / draws
        np.testing.assert_allclose(seen, T[a, s] @ np.asarray(pomdp.Phi), atol=2 / np.sqrt(draws))
        assert float(step.reward[0]) == pytest.approx(float(pomdp.R[s, a]), rel=1e-6)
    # The largest number below 1 that a uniform draw can be.
    u = jnp.full(2, 1.0 - 2**-24, dtype=jnp.float32)
    assert int(env.transition(jnp.int32(0), jnp.int32(0), u)[0]) == 2

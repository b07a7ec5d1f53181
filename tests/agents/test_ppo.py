from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from markovlens.agents import ppo
from markovlens.agents.actions import action_distribution
from markovlens.agents.config import HYPERPARAMETERS, PPOConfig
from markovlens.agents.networks import actor_critic
from markovlens.agents.ppo import Hyperparameters, Passes, hyperparameters, new_learner
from markovlens.agents.rollout import collect, max_truncations
from markovlens.envs.registry import make
from markovlens.envs.vector import vector_reset
from tests.agents.probes import Steady, remember

N, L = 3, 20
judge, learn = eqx.filter_jit(ppo.judge), eqx.filter_jit(ppo.learn)


@cache
def remembered(cell="gru"):
    return lived(remember(), cell)


def lived(env, cell="gru", length=L, latent=8):
    """A network, and a rollout it acted in, from the middle of episodes."""
    distribution = action_distribution(env.action_space)
    rng = np.random.default_rng(0)
    size = env.observation_space.flat_size
    network = actor_critic(size, distribution.n_outputs, latent, 2, cell, rng)
    return network, distribution, eqx.filter_jit(_live)(env, network, length)


def _live(env, network, length):
    keys = jax.random.split(jax.random.key(0), 3)
    state, memory = vector_reset(env, keys[0], N), network.memory(N)
    memory, state, _ = collect(env, network, memory, state, keys[1], 5)
    _, _, rollout = collect(env, network, memory, state, keys[2], length)
    return rollout


def hyper(**changes):
    config = PPOConfig(steps=51200, gamma=0.5, **changes).resolve()
    return hyperparameters(config)


@pytest.mark.parametrize("cell", ["gru", "lstm", "mingru", "none"])
def test_memories_of_the_rollout_equal_those_recomputed(cell):
    network, _, rollout = remembered(cell)
    assert rollout.first.any()
    sequence = jax.jit(type(network).sequence)
    again = sequence(network, rollout.observation, rollout.start_memory, rollout.first)
    np.testing.assert_allclose(again, rollout.memories, atol=1e-6)


def test_memory_starts_afresh_with_every_episode():
    """What an agent remembers after k steps of an episode is the same in every such episode."""
    network, _, rollout = remembered()
    step = jax.jit(type(network).step)
    for t, n in zip(*np.nonzero(np.asarray(rollout.first)), strict=True):
        alone = step(
            network, rollout.observation[t, n][None], jnp.full((1, 8), 9.0), jnp.ones(1, dtype=bool)
        )
        np.testing.assert_allclose(rollout.memories[t, n], alone[0], atol=1e-6)


def test_log_probs_belong_to_the_acting_policy():
    """Before any learning the ratio of policies is 1: nothing is clipped, and the KL is 0."""
    network, distribution, rollout = remembered()
    batch = judge(network, distribution, hyper(), rollout, max_truncations(remember(), L))
    still = eqx.tree_at(lambda h: h.learning_rate, hyper(), jnp.float32(0.0))
    _, progress = learn(
        new_learner(network),
        distribution,
        still,
        Passes(1, N),
        batch,
        rollout.start_memory,
        jax.random.key(0),
    )
    np.testing.assert_allclose(progress.kl, 0.0, atol=1e-6)
    assert progress.clip_fraction == 0.0


@pytest.mark.parametrize("terminates", [True, False])
def test_truncated_episodes_bootstrap_and_terminated_ones_do_not(terminates):
    env = Steady(length=4, terminates=terminates)
    network, distribution, rollout = lived(env, "none", length=11)
    batch = judge(network, distribution, hyper(lam1=1.0, lam2=0.0), rollout, 3)
    v = float(batch.value[0, 0, 0])  # the network is memoryless and sees one observation: constant
    v2 = float(batch.value[0, 0, 1])
    ended = np.asarray(rollout.ended)
    want = np.zeros((11, N, 2))
    for n in range(N):
        after = v
        for t in reversed(range(11)):
            if ended[t, n]:
                after = 0.0 if terminates else v
            after = 1.0 + 0.5 * after
            want[t, n] = after, 1.0 + 0.5 * (0.0 if ended[t, n] and terminates else v2)
    np.testing.assert_allclose(batch.target, want, rtol=1e-5)
    assert ended.sum(axis=0).max() == 3  # as many as were allowed for


def test_values_after_truncation_know_the_past():
    """The final observation is judged by the memory that led to it, not by an empty one."""
    env = make("tmaze-5", time_limit=6)
    network, distribution, rollout = lived(env)
    batch = judge(network, distribution, hyper(lam1=0.0), rollout, max_truncations(env, L))
    t, n = (index[0] for index in np.nonzero(np.asarray(rollout.truncated)))
    memory = network.step(
        rollout.next_observation[t, n][None], rollout.memories[t, n][None], jnp.zeros(1, dtype=bool)
    )
    want = rollout.reward[t, n] + 0.5 * network.outputs(memory).value[0, 0]
    np.testing.assert_allclose(batch.target[t, n, 0], want, rtol=1e-5)


def test_advantages_are_the_first_critics():
    network, distribution, rollout = remembered()
    batch = judge(network, distribution, hyper(lam1=0.3, lam2=0.9), rollout, 2)
    np.testing.assert_allclose(batch.advantage, (batch.target - batch.value)[..., 0], atol=1e-6)


def test_a_gradient_that_is_not_finite_leaves_the_network_alone():
    network, distribution, rollout = remembered()
    batch = judge(network, distribution, hyper(), rollout, 2)
    broken = eqx.tree_at(lambda b: b.target, batch, batch.target.at[0, 0, 0].set(jnp.nan))
    learner, _ = learn(
        new_learner(network),
        distribution,
        hyper(),
        Passes(2, N),
        broken,
        rollout.start_memory,
        jax.random.key(0),
    )
    assert learner.diverged
    assert learner.update == 0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(learner.network))


def test_every_hyperparameter_is_declared_once():
    traced = set(Hyperparameters.__dataclass_fields__) - {"n_updates"}
    assert traced == set(HYPERPARAMETERS) <= set(PPOConfig.__dataclass_fields__)


def test_the_step_size_falls_to_zero():
    network, distribution, rollout = remembered()
    batch = judge(network, distribution, hyper(), rollout, 2)
    last = eqx.tree_at(lambda s: s.update, new_learner(network), hyper().n_updates)
    learner, _ = learn(
        last, distribution, hyper(), Passes(1, N), batch, rollout.start_memory, jax.random.key(0)
    )
    jax.tree.map(np.testing.assert_array_equal, learner.network, network)


@pytest.mark.parametrize("native", ["0", "1"])
def test_steps_are_optaxs_adam(native, monkeypatch):
    monkeypatch.setenv("MARKOVLENS_NATIVE", native)
    rng = np.random.default_rng(3)
    reference = optax.chain(optax.clip_by_global_norm(2.0), optax.adam(0.01, eps=ppo.ADAM_EPS))
    params = {"a": jnp.float32(rng.normal(size=50)), "b": jnp.float32(rng.normal(size=(3, 2)))}
    expected = params
    moments, state = optax.scale_by_adam().init(params), reference.init(params)
    step = jax.jit(ppo._adam_step)

    def move(params, moments, gradient, diverged=False):
        return step(params, moments, gradient, 2.0, 0.01, jnp.bool_(diverged))

    for size in (0.1, 10.0, 1.0):
        gradient = jax.tree.map(lambda p: jnp.float32(rng.normal(size=p.shape) * size), params)  # noqa: B023
        change, state = reference.update(gradient, state)
        expected = optax.apply_updates(expected, change)
        params, moments, norm = move(params, moments, gradient)
        assert float(norm) == pytest.approx(float(optax.tree.norm(gradient)), rel=1e-5)
    for name in params:
        np.testing.assert_allclose(params[name], expected[name], rtol=1e-5, atol=1e-6)
    broken = gradient | {"b": gradient["b"].at[1, 0].set(jnp.nan)}
    for still in (move(params, moments, broken), move(params, moments, gradient, diverged=True)):
        jax.tree.map(np.testing.assert_array_equal, still[0], params)
        jax.tree.map(np.testing.assert_array_equal, still[1].mu, moments.mu)


@pytest.mark.parametrize("cell", ["gru", "lstm", "none"])
def test_native_code_learns_what_xla_learns(cell, monkeypatch):
    network, distribution, rollout = lived(remember(), cell, latent=16)

    def learnt(native):
        monkeypatch.setenv("MARKOVLENS_NATIVE", native)

        @jax.jit
        def update(network, rollout, key):
            batch = ppo.judge(network, distribution, hyper(), rollout, 2)
            arguments = (Passes(2, N), batch, rollout.start_memory, key)
            return ppo.learn(new_learner(network), distribution, hyper(), *arguments)

        learner, progress = update(network, rollout, jax.random.key(1))
        return jax.tree.leaves((learner.network, progress))

    for a, b in zip(learnt("1"), learnt("0"), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-6)

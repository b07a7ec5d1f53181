"""The critics' fixed points are the closed form's: what PPO measures is what theory speaks of."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from markovlens.agents.actions import Categorical
from markovlens.agents.config import PPOConfig
from markovlens.agents.networks import ActorCritic, actor_critic
from markovlens.agents.ppo import Passes, hyperparameters, judge, learn, new_learner
from markovlens.agents.rollout import Rollout
from markovlens.envs.tabular import Tabular
from markovlens.envs.vector import unroll, vector_reset
from markovlens.pomdp import library
from markovlens.pomdp.model import Pomdp
from markovlens.values.discrepancy import lambda_discrepancy
from markovlens.values.td_lambda import start_value, v_values

N, L = 16, 512
UPDATES = 150
LAMS = (0.0, 0.9)


def with_killing(pomdp: Pomdp) -> Pomdp:
    """Discounting as dying: the process ends with probability 1 - γ at every step, undiscounted.

    Values are the same, and so is where time is spent: the closed form weighs a visit at time t by
    γ^t, and here that is how often there is one.
    """
    gamma, n = float(pomdp.gamma), pomdp.T.shape[1]
    T = np.zeros((pomdp.T.shape[0], n + 1, n + 1))
    T[:, :n, :n] = gamma * np.asarray(pomdp.T)
    T[:, :n, n] = 1.0 - gamma
    T[:, n, n] = 1.0
    R = np.vstack([np.asarray(pomdp.R), np.zeros((1, T.shape[0]))])
    Phi = np.zeros((n + 1, pomdp.Phi.shape[1] + 1))
    Phi[:n, :-1] = np.asarray(pomdp.Phi)
    Phi[n, -1] = 1.0
    return Pomdp(T=T, R=R, Phi=Phi, p0=np.append(np.asarray(pomdp.p0), 0.0), gamma=1.0)


def train_critics(pomdp: Pomdp, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values [O, 2] by PPO's value losses alone, and how often each observation was seen."""
    env = Tabular(with_killing(pomdp))
    n_seen, n_actions = env.observation_space.n, policy.shape[1]
    logits = jnp.vstack([jnp.log(jnp.float32(policy)), jnp.zeros((1, n_actions))])
    network = actor_critic(n_seen, n_actions, 32, 2, "none", np.random.default_rng(0))
    config = PPOConfig(
        algo="ld",
        steps=UPDATES * N * L,
        lam1=LAMS[0],
        lam2=LAMS[1],
        beta=0.0,
        gamma=1.0,
        entropy_weight=0.0,
        learning_rate=3e-3,
        n_envs=N,
        n_steps=L,
    )
    hyper = hyperparameters(config.resolve())

    def act(carry, state, noise):
        return carry, jnp.argmax(logits[state.observation] + noise, axis=-1), None

    def rollout_of(network: ActorCritic, seen) -> Rollout:
        flatten = jax.vmap(jax.vmap(env.observation_space.flatten))
        memory, x = network.memory(N), flatten(seen.observation)
        return Rollout(
            x,
            seen.first,
            seen.action,
            None,
            seen.reward,
            seen.terminated,
            seen.truncated,
            flatten(seen.next_observation),
            memory,
            network.sequence(x, memory, seen.first),
        )

    def one_update(carry, key):
        learner, state, counts, averaged = carry
        keys = jax.random.split(key, 3)
        noise = jax.random.gumbel(keys[0], (L, N, n_actions))
        _, state, seen, _ = unroll(env, act, None, state, keys[1], L, noise)
        rollout = rollout_of(learner.network, seen)
        batch = judge(learner.network, Categorical(n_actions), hyper, rollout, 0)
        still = eqx.tree_at(lambda b: b.advantage, batch, jnp.zeros((L, N)))  # no policy gradient
        learner, _ = learn(
            learner,
            Categorical(n_actions),
            hyper,
            Passes(4, 4),
            still,
            rollout.start_memory,
            keys[2],
        )
        counts = counts + jax.nn.one_hot(seen.observation, n_seen).sum((0, 1))
        late = learner.update > UPDATES // 2
        averaged = averaged + jnp.where(late, values_of(learner.network), 0.0)
        return (learner, state, counts, averaged), late

    def values_of(network: ActorCritic):
        x = jnp.eye(n_seen)
        first = jnp.ones(n_seen, dtype=bool)
        return network.outputs(network.step(x, network.memory(n_seen), first)).value

    start = (
        new_learner(network),
        vector_reset(env, jax.random.key(1), N),
        jnp.zeros(n_seen),
        jnp.zeros((n_seen, 2)),
    )
    keys = jax.random.split(jax.random.key(2), UPDATES)
    (_, _, counts, averaged), late = jax.jit(lambda c: jax.lax.scan(one_update, c, keys))(start)
    return np.asarray(averaged / late.sum())[:-1], np.asarray(counts)[:-1]


def random_case(seed: int) -> tuple[Pomdp, np.ndarray]:
    """Rewards are centred, so that the random lengths of episodes add no noise to their returns."""
    pomdp = library.random_pomdp(seed, n_states=6, n_actions=2, n_observations=3, gamma=0.9)
    policy = np.random.default_rng(seed).dirichlet(np.ones(2), size=3)
    average = (1 - 0.9) * float(start_value(pomdp, policy))
    parts = {name: np.asarray(getattr(pomdp, name)) for name in ("T", "R", "Phi", "p0")}
    return Pomdp(**parts | {"R": parts["R"] - average}, gamma=0.9), policy


def tmaze_case() -> tuple[Pomdp, np.ndarray]:
    pomdp = library.tmaze(corridor=5)
    policy = np.tile([0.2, 0.1, 0.6, 0.1], (5, 1))
    return pomdp, policy


@pytest.mark.slow
@pytest.mark.parametrize("case", [tmaze_case, lambda: random_case(1), lambda: random_case(2)])
def test_critics_converge_to_the_closed_form(case, optimised):
    """Rollouts of 512 steps cut a λ-return short now and then, and sampling leaves some noise:
    2% of the range of values is allowed for both."""
    pomdp, policy = case()
    got, counts = train_critics(pomdp, policy)
    want = np.stack([np.asarray(v_values(pomdp, policy, lam)) for lam in LAMS], axis=1)
    visited = counts > 0.005 * counts.sum()
    scale = np.ptp(want[visited])
    np.testing.assert_allclose(got[visited], want[visited], atol=0.02 * scale)
    measured = np.sqrt((counts * (got[:, 0] - got[:, 1]) ** 2).sum() / counts.sum())
    exact = lambda_discrepancy(pomdp, policy, *LAMS, norm="l2", weighting="occupancy", of="v")
    np.testing.assert_allclose(measured, exact, atol=0.02 * scale)

"""The compiled part of training: many runs, some updates each, in one call."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, UInt32

from markovlens.agents.actions import Gaussian, action_distribution
from markovlens.agents.config import PPOConfig, RunSpec
from markovlens.agents.networks import ActorCritic, actor_critic
from markovlens.agents.ppo import (
    Hyperparameters,
    Learner,
    Passes,
    Progress,
    hyperparameters,
    judge,
    learn,
    new_learner,
)
from markovlens.agents.rollout import Rollout, collect, max_truncations
from markovlens.envs.env import Env
from markovlens.envs.registry import make
from markovlens.envs.spaces import Space
from markovlens.envs.statistics import Episodes, EpisodeStatistics, RewardScale
from markovlens.envs.vector import VectorState, vector_reset
from markovlens.envs.wrappers import FullyObserved, MaskObservation, PreviousAction, PreviousReward

RUNS = PartitionSpec("run")  # the first axis of everything is over the runs


class Tally(eqx.Module):
    """Sums since the last row of metrics was written."""

    updates: Int[Array, ""]
    progress: Progress
    episodes: Int[Array, ""]
    total: Float[Array, ""]  # undiscounted returns of the episodes that ended
    discounted: Float[Array, ""]
    length: Float[Array, ""]

    def add(self, progress: Progress, episodes: Episodes) -> "Tally":
        def over_ended(values: Array) -> Float[Array, ""]:
            return jnp.where(episodes.ended, values, 0).sum().astype(jnp.float32)

        return Tally(
            self.updates + 1,
            jax.tree.map(jnp.add, self.progress, progress),
            self.episodes + episodes.count.astype(jnp.int32),
            self.total + over_ended(episodes.total),
            self.discounted + over_ended(episodes.discounted),
            self.length + over_ended(episodes.length),
        )


class Watch(eqx.Module):
    """What is followed from rollout to rollout beside the agent."""

    scale: RewardScale | None
    statistics: EpisodeStatistics
    tally: Tally


class RunState(eqx.Module):
    """All of a run that changes: with it, and the spec, training goes on bit for bit."""

    learner: Learner
    memory: Float[Array, "N M"]
    vector: VectorState
    watch: Watch
    key: UInt32[Array, "2"]


def agent_env(config: PPOConfig, seed: int, env: Env | None = None) -> Env:
    """The environment (`env`, or the one called `config.env`) as the agent sees it."""
    if env is None:
        env = make(config.env, seed=seed)
    if config.full_view:
        env = FullyObserved(env)
    if config.hide:
        env = MaskObservation(env, config.hide)
    if config.previous_action:
        env = PreviousAction(env)
    return PreviousReward(env) if config.previous_reward else env


def new_network(
    config: PPOConfig, observation_space: Space, action_space: Space, seed: int
) -> ActorCritic:
    """A fresh network for a resolved config."""
    distribution = action_distribution(action_space)
    assert config.latent is not None
    assert config.feed_again is not None
    return actor_critic(
        observation_space.flat_size,
        distribution.n_outputs,
        config.latent,
        config.n_critics,
        config.memory_cell,
        np.random.default_rng(seed),
        again=config.feed_again,
        continuous=isinstance(distribution, Gaussian),
    )


def new_watch(config: PPOConfig, hyper: Hyperparameters, gamma: float) -> Watch:
    zero, zeros = jnp.float32(0.0), jnp.zeros(config.n_critics)
    progress = Progress(zero, zeros, zero, zero, zero, zero, zero, zeros, zero)
    return Watch(
        RewardScale(config.n_envs, hyper.gamma) if config.scale_rewards else None,
        EpisodeStatistics(config.n_envs, gamma),
        Tally(jnp.int32(0), progress, jnp.int32(0), zero, zero, zero),
    )


def observe(watch: Watch, rollout: Rollout) -> tuple[Watch, Rollout, Episodes, Array]:
    """Follow the episodes in a rollout and scale its rewards; the last item is the scale."""
    statistics, episodes = watch.statistics.update(rollout.reward, rollout.ended)
    sd = jnp.float32(1.0)
    scale = watch.scale
    if scale is not None:
        scale, scaled = scale.update(rollout.reward, rollout.ended)
        rollout = eqx.tree_at(lambda r: r.reward, rollout, scaled)
        sd = scale.sd
    return Watch(scale, statistics, watch.tally), rollout, episodes, sd


def note(watch: Watch, progress: Progress, episodes: Episodes, sd: Array) -> Watch:
    """The update's figures added to the tally, the discrepancy in units of reward."""
    progress = eqx.tree_at(
        lambda p: p.squared_difference, progress, progress.squared_difference * sd**2
    )
    return Watch(watch.scale, watch.statistics, watch.tally.add(progress, episodes))


def start(
    env: Env,
    config: PPOConfig,
    hyper: Hyperparameters,
    network: ActorCritic,
    key: UInt32[Array, "2"],
) -> RunState:
    """A run before its first step."""
    env_key, run_key = jax.random.split(jax.random.wrap_key_data(key))
    return RunState(
        new_learner(network),
        network.memory(config.n_envs),
        vector_reset(env, env_key, config.n_envs),
        new_watch(config, hyper, env.gamma),
        jax.random.key_data(run_key),
    )


def update(env: Env, config: PPOConfig, hyper: Hyperparameters, state: RunState) -> RunState:
    """One rollout, and what is learnt from it."""
    run_key = jax.random.wrap_key_data(state.key)
    act_key, learn_key = jax.random.split(jax.random.fold_in(run_key, state.learner.update))
    distribution = action_distribution(env.action_space)
    network = state.learner.network
    memory, vector, rollout = collect(
        env, network, state.memory, state.vector, act_key, config.n_steps
    )
    watch, rollout, episodes, sd = observe(state.watch, rollout)
    cuts = max_truncations(env, config.n_steps)
    batch = judge(network, distribution, hyper, rollout, cuts)
    learner, progress = learn(
        state.learner,
        distribution,
        hyper,
        Passes(config.epochs, config.minibatches),
        batch,
        state.memory,
        learn_key,
    )
    watch = note(watch, progress, episodes, sd)
    return RunState(learner, memory, vector, watch, state.key)


class Program:
    """Runs of one structure, compiled once: `state = program(state, n)` does n updates of each.

    Runs are laid out over the devices; on a CPU each device goes through its runs one after the
    other (their matrix products would not get larger together), elsewhere all at once.
    """

    def __init__(self, specs: Sequence[RunSpec], env: Env | None = None):
        self.devices = jax.local_devices()[: len(specs)]
        self.n_runs = len(specs)
        padding = -len(specs) % len(self.devices)
        padded = [*specs, *[specs[-1]] * padding]
        envs = [agent_env(spec.config, spec.seed, env) for spec in padded]
        self.config = specs[0].config
        self.env = envs[0]
        arrays = [eqx.filter(env, eqx.is_array) for env in envs]
        self._env_rules = eqx.filter(envs[0], eqx.is_array, inverse=True)
        self._envs = stack_trees(arrays)
        self._hyper = stack_trees([hyperparameters(spec.config) for spec in padded])
        self._seeds = [spec.seed for spec in padded]
        self._mesh = jax.make_mesh(
            (len(self.devices),), ("run",), axis_types=(AxisType.Auto,), devices=self.devices
        )
        self._advance = self._compile(self._some_updates, donate=True)

    def start(self) -> RunState:
        """All runs before their first step; leaves [runs, ...]."""
        spaces = self.env.observation_space, self.env.action_space
        networks = stack_trees([new_network(self.config, *spaces, seed) for seed in self._seeds])
        keys = jnp.stack([jax.random.key_data(jax.random.key(seed)) for seed in self._seeds])
        begin = self._compile(self._start, donate=False)
        return begin(self._envs, self._hyper, networks, keys)

    def __call__(self, state: RunState, n: int) -> RunState:
        """Up to n more updates of every run that has not diverged."""
        counts = jnp.full(len(self._seeds), n, dtype=jnp.int32)
        return self._advance(self._envs, self._hyper, counts, state)

    def trim(self, state: RunState) -> RunState:
        """Without the runs that only fill up the devices."""
        return jax.tree.map(lambda leaf: leaf[: self.n_runs], state)

    def fill(self, state: RunState) -> RunState:
        """The opposite of `trim`; laid out like what `start` gives, so that nothing is compiled
        anew."""
        whole = np.minimum(np.arange(len(self._seeds)), self.n_runs - 1)
        filled = jax.tree.map(lambda leaf: leaf[whole], state)
        return jax.device_put(filled, NamedSharding(self._mesh, RUNS))

    def _start(
        self,
        env_arrays: Env,
        hyper: Hyperparameters,
        network: ActorCritic,
        key: UInt32[Array, "2"],
    ) -> RunState:
        return start(eqx.combine(env_arrays, self._env_rules), self.config, hyper, network, key)

    def _some_updates(
        self, env_arrays: Env, hyper: Hyperparameters, n: Int[Array, ""], state: RunState
    ) -> RunState:
        env = eqx.combine(env_arrays, self._env_rules)
        end = state.learner.update + n

        def more(state: RunState) -> Array:
            return (state.learner.update < end) & ~state.learner.diverged

        return jax.lax.while_loop(more, lambda state: update(env, self.config, hyper, state), state)

    def _compile(self, one_run: Callable[..., Any], donate: bool) -> Callable[..., Any]:
        on_cpu = self.devices[0].platform == "cpu"

        def all_runs(*args: Any) -> Any:
            return (
                jax.lax.map(lambda xs: one_run(*xs), args) if on_cpu else jax.vmap(one_run)(*args)
            )

        sharded = jax.shard_map(
            all_runs, mesh=self._mesh, in_specs=RUNS, out_specs=RUNS, check_vma=False
        )
        return jax.jit(sharded, donate_argnums=(3,) if donate else ())


def stack_trees(trees: Sequence[Any]) -> Any:
    """One tree of the same shape, whose leaves have a new first axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)

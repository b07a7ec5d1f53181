"""Agents on environments that Python steps, such as Gymnasium's: the same learning, slower acting.

What an outside environment does cannot be saved, so a run that is continued
starts its episodes anew; everything else goes on as it was.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from markovlens.agents.acting import choose, within
from markovlens.agents.actions import ActionDistribution, action_distribution
from markovlens.agents.config import PPOConfig, RunSpec
from markovlens.agents.networks import Actor, ActorCritic
from markovlens.agents.ppo import (
    Hyperparameters,
    Learner,
    Passes,
    hyperparameters,
    judge,
    learn,
    new_learner,
)
from markovlens.agents.program import (
    Program,
    Watch,
    agent_env,
    new_network,
    new_watch,
    note,
    observe,
    stack_trees,
)
from markovlens.agents.rollout import Rollout
from markovlens.envs.check import check_env, check_is_env
from markovlens.envs.env import Env
from markovlens.envs.registry import GYMNASIUM_GAMMA, is_gymnasium_id
from markovlens.envs.spaces import Space

OWN = "own "  # begins the names of environments that were given, not named

Made = TypeVar("Made")

if TYPE_CHECKING:
    from markovlens.envs.adapters.from_gymnasium import HostVectorEnv


class HostState(eqx.Module):
    """All of the runs that can be saved; leaves [runs, ...]."""

    learner: Learner
    watch: Watch


def program_for(specs: Sequence[RunSpec], env: Env | None) -> "Program | HostProgram":
    """The program that trains these runs."""
    _check_alike([spec.config.structure() for spec in specs])
    if _is_outside(specs[0].config, env):
        return HostProgram(specs)
    _check_own(specs[0].config, env)
    if env is not None:
        check_env(env)
    return Program(specs, env)


def _check_alike(structures: Sequence[dict[str, Any]]) -> None:
    first = structures[0]
    for other in structures:
        odd = next((name for name, value in other.items() if value != first[name]), None)
        if odd is not None:
            raise ValueError(
                f"runs that train together must agree in all but their hyperparameters: "
                f"{odd} is {first[odd]!r} and {other[odd]!r}"
            )


def problem(config: PPOConfig, seed: int, env: Env | None) -> "Env | HostVectorEnv":
    """What the agent of this config meets: its spaces and its discount, wherever it is stepped."""
    if _is_outside(config, env):
        return host_env(config)
    _check_own(config, env)
    return agent_env(config, seed, env)


def own_gamma(config: PPOConfig, env: Env | None) -> float:
    """The environment's own discount."""
    if env is not None:
        return env.gamma
    return GYMNASIUM_GAMMA if _is_outside(config, env) else problem(config, 0, env).gamma


@contextmanager
def closing(made: Made) -> Iterator[Made]:
    """An environment or a program for the length of a block: what Python steps is closed then."""
    try:
        yield made
    finally:
        if not isinstance(made, Env | Program):
            outside: Any = made
            outside.close()


def _is_outside(config: PPOConfig, env: Env | None) -> bool:
    """Whether Python steps the environment."""
    return env is None and is_gymnasium_id(config.env)


def _check_own(config: PPOConfig, env: Env | None) -> None:
    """What was trained on an environment without a name needs that environment."""
    if config.env.startswith(OWN) and (env is None or own_name(env) != config.env):
        raise ValueError(
            f"this agent was trained on an environment of its trainer's own, {config.env!r}: "
            "in Python, load_run(folder, env=that environment)"
        )


def own_name(env: Env) -> str:
    """What a config calls an environment that it was given: its class, a mark of its contents."""
    check_is_env(env)
    arrays = [np.asarray(x).tobytes() for x in jax.tree.leaves(eqx.filter(env, eqx.is_array))]
    text = re.sub("0x[0-9a-f]+", "", repr(env))  # where something is in memory says nothing
    mark = hashlib.sha256(b"".join([text.encode(), *arrays])).hexdigest()[:8]
    return f"{OWN}{type(env).__name__} {mark}"


def host_env(config: PPOConfig) -> "HostVectorEnv":
    """The N copies that a run steps."""
    if config.full_view:
        raise ValueError("Gymnasium environments have no full_view: they do not show their state")
    try:
        from markovlens.envs.adapters.from_gymnasium import GymnasiumVector, WithPrevious
    except ImportError:
        raise ValueError(f"{config.env} needs Gymnasium: pip install 'markovlens[gym]'") from None
    try:
        gamma = GYMNASIUM_GAMMA if config.gamma is None else config.gamma
        env = GymnasiumVector(config.env, config.n_envs, gamma, config.hide)
    except ValueError:
        raise
    except Exception as error:  # whatever looking for it, importing it and making it come upon
        raise ValueError(f"Gymnasium cannot make {config.env!r}: {error}") from error
    if not (config.previous_action or config.previous_reward):
        return env
    return WithPrevious(env, bool(config.previous_action), bool(config.previous_reward))


class HostProgram:
    """Like `Program`, for environments that Python steps: `state = program(state, n)`."""

    def __init__(self, specs: Sequence[RunSpec]):
        self.specs = list(specs)
        self.n_runs = len(specs)
        self.config = specs[0].config
        self._envs = [host_env(self.config)]  # whose spaces are all runs'
        self._hyper = [hyperparameters(spec.config) for spec in specs]

    @cached_property
    def _players(self) -> list["Player"]:
        """Made when the first step is: who only asks for shapes needs no more environments."""
        for spec in self.specs[1:]:
            self._envs.append(host_env(spec.config))
        return [Player(env, spec.seed) for env, spec in zip(self._envs, self.specs, strict=True)]

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def start(self) -> HostState:
        return stack_trees([self._start(i) for i in range(self.n_runs)])

    def _start(self, i: int) -> HostState:
        env, (config, seed) = self._envs[0], self.specs[i]
        network = new_network(config, env.observation_space, env.action_space, seed)
        return HostState(new_learner(network), new_watch(config, self._hyper[i], env.gamma))

    def __call__(self, state: HostState, n: int) -> HostState:
        runs = [jax.tree.map(lambda leaf, i=i: leaf[i], state) for i in range(self.n_runs)]
        for i, player in enumerate(self._players):
            for _ in range(n):
                learner = runs[i].learner
                if not learner.diverged:
                    update = int(learner.update)
                    rollout, key = player.live(learner.network, update, self.config.n_steps)
                    runs[i] = _learn(
                        player.distribution, self.config, self._hyper[i], runs[i], rollout, key
                    )
        return stack_trees(runs)

    def trim(self, state: HostState) -> HostState:
        return state

    def fill(self, state: HostState) -> HostState:
        """A saved state to go on from: its environments, and so its episodes, begin anew."""
        watch = state.watch
        scale = None if watch.scale is None else watch.scale.restarted()
        return HostState(state.learner, Watch(scale, watch.statistics.restarted(), watch.tally))


class Player:
    """One run's environments, and where they and the agent's memory stand."""

    def __init__(self, env: "HostVectorEnv", seed: int, greedy: bool = False):
        self.env = env
        self.seed = seed
        self.greedy = greedy
        self.distribution = action_distribution(env.action_space)
        self.observation: np.ndarray | None = None  # as the environment gives it, not yet flat
        self.first = np.ones(env.n, dtype=bool)
        self.memory: Array | None = None

    def live(self, network: ActorCritic, update: int, length: int) -> tuple[Rollout, Array]:
        """`length` steps of every environment, and a key for learning from them. What is random
        is drawn anew for every `update`."""
        key = jax.random.fold_in(jax.random.key(self.seed), update)
        act_key, learn_key = jax.random.split(key)
        if self.observation is None or self.memory is None:
            seeds = _seeds(self.seed, update, self.env.n)
            self.observation = self.env.reset(seed=seeds)
            self.memory = network.memory(self.env.n)
        noise = np.asarray(self.distribution.noise(act_key, (length, self.env.n)))
        actor = network.without_critics()
        space, start_memory = self.env.observation_space, self.memory
        steps = []
        for t in range(length):
            seen, first = self.observation, self.first
            chance = None if self.greedy else noise[t]
            self.memory, action, shown = _choose(
                actor, space, self.env.action_space, seen, self.memory, first, chance
            )
            after = self.env.step(np.asarray(shown))
            led_to = after.next_observation
            flags = after.reward, after.terminated, after.truncated
            steps.append((seen, first, np.asarray(action), *flags, led_to, np.asarray(self.memory)))
            self.observation = after.observation
            self.first = after.terminated | after.truncated
        columns = [jnp.asarray(np.stack(column)) for column in zip(*steps, strict=True)]
        observed, starts, actions, reward, terminated, truncated, after_it, memories = columns
        flatten = jax.vmap(jax.vmap(space.flatten))
        rollout = Rollout(
            observation=flatten(observed),
            first=starts,
            action=actions,
            allowed=None,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            next_observation=flatten(after_it),
            start_memory=start_memory,
            memories=memories,
        )
        return rollout, learn_key


def _seeds(seed: int, update: int, n: int) -> list[int]:
    """For each copy its own: Gymnasium would give neighbouring runs' copies the same ones."""
    return np.random.SeedSequence([seed, update]).generate_state(n).tolist()


@eqx.filter_jit
def _choose(
    actor: Actor,
    space: Space,
    action_space: Space,
    observation: np.ndarray,
    memory: Array,
    first: np.ndarray,
    noise: np.ndarray | None,
) -> tuple[Array, Array, Array]:
    seen = jax.vmap(space.flatten)(jnp.asarray(observation))
    starts, chance = jnp.asarray(first), None if noise is None else jnp.asarray(noise)
    memory, _, action = choose(actor, action_space, seen, memory, starts, None, chance)
    return memory, action, within(action_space, action)


@eqx.filter_jit
def _learn(
    distribution: ActionDistribution,
    config: PPOConfig,
    hyper: Hyperparameters,
    state: HostState,
    rollout: Rollout,
    key: Array,
) -> HostState:
    watch, rollout, episodes, sd = observe(state.watch, rollout)
    # An outside environment does not say when it truncates: allow for every step.
    batch = judge(state.learner.network, distribution, hyper, rollout, config.n_steps - 1)
    passes = Passes(config.epochs, config.minibatches)
    learner, progress = learn(
        state.learner, distribution, hyper, passes, batch, rollout.start_memory, key
    )
    return HostState(learner, note(watch, progress, episodes, sd))

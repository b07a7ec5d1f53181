"""A trained agent, to look at and to use."""

import os
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
from jaxtyping import Array, Bool

from markovlens.agents.acting import choose, within
from markovlens.agents.actions import action_distribution
from markovlens.agents.config import PPOConfig, RunSpec
from markovlens.agents.folder import RunFolder
from markovlens.agents.host import closing, problem, program_for
from markovlens.agents.networks import Actor, ActorCritic
from markovlens.envs.env import Env
from markovlens.envs.spaces import Discrete, Space, is_whole
from markovlens.precision import is_traced


class Run:
    """One or several runs that trained together.

    `specs[i]` says what run i was, `metrics` has its rows under run = i.
    """

    def __init__(
        self,
        specs: Sequence[RunSpec],
        networks: ActorCritic,
        metrics: pl.DataFrame,
        diverged: Bool[np.ndarray, "runs"],
        env: Env | None = None,
    ):
        self.specs = list(specs)
        self.metrics = metrics
        self.diverged = diverged
        self._networks = networks  # leaves [runs, ...]
        self._env = env  # None: the one that the config names
        self._actors: dict[int, tuple[Actor, Any]] = {}

    def __len__(self) -> int:
        return len(self.specs)

    def network(self, index: int = 0) -> ActorCritic:
        """The network of one run."""
        self.spec(index)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf[index]), self._networks)

    def env(self, index: int = 0) -> Any:
        """The environment as this run's agent sees it: an `Env`, or a `HostVectorEnv`, made anew
        and yours to close."""
        return problem(*self.spec(index), self._env)

    def spec(self, index: int = 0) -> RunSpec:
        """What run `index` was: its config and its seed."""
        if not 0 <= index < len(self):
            raise ValueError(f"runs are numbered from 0 to {len(self) - 1} here, got {index}")
        return self.specs[index]

    def act(
        self,
        observation: Any,
        memory: Array | None = None,
        *,
        index: int = 0,
        greedy: bool = True,
        allowed: Any = None,
        key: Array | None = None,
    ) -> tuple[Any, Array]:
        """An action, and what to remember: pass that in with the next observation.

        `memory` None starts an episode. `allowed[a]` says whether action a, counted from 0, may be
        taken. Unless `greedy`, the action is drawn with `key`. The observation is one of
        `run.env().observation_space`; for a Gymnasium environment, observation and action are as
        that gives and takes them. An agent that was trained with its previous action or reward sees
        one vector: the observation, flat and without what is hidden from the agent, then those,
        zeros at the start.

        >>> action, memory = run.act(observation)  # doctest: +SKIP
        >>> action, memory = run.act(next_observation, memory)  # doctest: +SKIP
        """
        if not greedy and key is None:
            raise ValueError("drawing an action needs a key: act(..., greedy=False, key=...)")
        network, env = self._actor(index)
        before = network.memory(1)
        if memory is not None:
            before = _checked_memory(memory, before.shape[1])[None]
        noise_key = jax.random.key(0) if key is None else key
        spaces = env.observation_space, env.action_space
        seen = observation if isinstance(env, Env) else env.inside(observation)
        seen = _checked(spaces[0], seen, self.spec(index).config)
        mask = None if allowed is None else _checked_mask(spaces[1], allowed)
        action, after = _act(network, *spaces, greedy, seen, before, mask, noise_key)
        return action if isinstance(env, Env) else env.outside(np.asarray(action)), after

    def _actor(self, index: int) -> tuple[Actor, Any]:
        """What acting needs, made once: the network, and the environment for its spaces only."""
        if index not in self._actors:
            with closing(self.env(index)) as env:
                self._actors[index] = self.network(index).without_critics(), env
        return self._actors[index]


def _checked(space: Space, observation: Any, config: PPOConfig) -> Array:
    shape = () if isinstance(space, Discrete) else getattr(space, "shape", (space.flat_size,))
    if np.shape(observation) != shape:
        raise ValueError(
            f"this agent sees one observation of {space} at a time, of shape {list(shape)}: "
            f"got shape {list(np.shape(observation))}{_layout(config)}"
        )
    known = isinstance(space, Discrete) and not is_traced(observation)
    if known and not (is_whole(observation) and 0 <= int(observation) < space.flat_size):
        raise ValueError(
            f"this agent sees whole numbers from 0 to {space.flat_size - 1}: got {observation}"
        )
    if not _is_finite(observation):
        raise ValueError(f"this agent sees numbers that are finite in 32 bits: got {observation}")
    return jnp.asarray(observation)


def _checked_memory(memory: Any, size: int) -> Array:
    if np.shape(memory) != (size,) or not _is_finite(memory):
        what = "others" if np.shape(memory) == (size,) else f"shape {list(np.shape(memory))}"
        raise ValueError(
            f"this agent remembers {size} finite numbers: got {what}; give what the last act "
            "returned, or None to start an episode"
        )
    return jnp.asarray(memory)


def _checked_mask(space: Space, allowed: Any) -> Array:
    if not isinstance(space, Discrete):
        raise ValueError(f"only numbered actions can be masked, not {space}: leave out allowed")
    if np.shape(allowed) != (space.n,):
        raise ValueError(
            f"allowed says of each of {space.n} actions whether it may be taken, so it has shape "
            f"[{space.n}]: got shape {list(np.shape(allowed))}"
        )
    if not is_traced(allowed) and not np.isin(np.asarray(allowed), (0, 1)).all():
        raise ValueError(f"allowed must hold true and false only: got {allowed}")
    if not is_traced(allowed) and not np.any(allowed):
        raise ValueError("allowed forbids every action: allow at least one")
    return jnp.asarray(allowed, dtype=bool)


def _is_finite(values: Any) -> bool:
    """Whether all are finite as the network sees them; what is traced cannot be looked at."""
    if is_traced(values):
        return True
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.asarray(values, dtype=np.float32)).all())


def _layout(config: PPOConfig) -> str:
    """What to make of an observation, where that is not obvious."""
    parts = ["the observation, flat" + (" and without what is hidden" if config.hide else "")]
    parts += ["the previous action, flat"] if config.previous_action else []
    parts += ["the previous reward"] if config.previous_reward else []
    return f"; it is one vector: {', then '.join(parts)}" if len(parts) > 1 else ""


@eqx.filter_jit
def _act(
    network: Actor,
    seen_space: Space,
    action_space: Space,
    greedy: bool,
    observation: Array,
    memory: Array,
    allowed: Bool[Array, "A"] | None,
    key: Array,
) -> tuple[Array, Array]:
    seen, first = seen_space.flatten(observation)[None], jnp.zeros(1, dtype=bool)
    mask = None if allowed is None else allowed[None]
    noise = None if greedy else action_distribution(action_space).noise(key, (1,))
    memory, _, action = choose(network, action_space, seen, memory, first, mask, noise)
    return within(action_space, action[0]), memory[0]


def load_run(path: str | os.PathLike[str], env: Env | None = None) -> Run:
    """Open a run folder, finished or not. What was trained on an environment of your own needs that
    environment again.

    >>> run = load_run("runs/tmaze")  # doctest: +SKIP
    """
    folder = RunFolder(path)
    specs = folder.specs()
    with closing(program_for(specs, env)) as made:
        program: Any = made
        like = jax.eval_shape(lambda: program.trim(program.start()))
    found = folder.load(like)
    if found is None:
        raise ValueError(f"{folder.path} has no checkpoint yet: train further, then open it")
    state, _ = found
    metrics = folder.metrics()
    assert metrics is not None
    return Run(specs, state.learner.network, metrics, state.learner.diverged, env)

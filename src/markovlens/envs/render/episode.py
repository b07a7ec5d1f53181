"""One episode, moment by moment, for whoever wants to draw it."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray

from markovlens.envs.env import Env, Step
from markovlens.envs.render.stage import Stage
from markovlens.envs.spaces import Discrete


class Policy(Protocol):
    """Who plays. What it needs to remember it returns, and gets back with the next observation."""

    def start(self) -> Any:
        """What it remembers at the start of an episode."""

    def act(
        self, observation: Array, memory: Any, allowed: Bool[Array, "A"] | None, key: PRNGKeyArray
    ) -> tuple[Array, Any]:
        """The action, and what to remember."""


class RandomPolicy:
    """All allowed actions alike."""

    def __init__(self, env: Env):
        self._space = env.action_space

    def start(self) -> None:
        return None

    def act(
        self, observation: Array, memory: None, allowed: Bool[Array, "A"] | None, key: PRNGKeyArray
    ) -> tuple[Array, None]:
        if allowed is None or not isinstance(self._space, Discrete):
            return self._space.sample(key), None
        return jax.random.categorical(key, jnp.where(allowed, 0.0, -jnp.inf)), None


class Moment(NamedTuple):
    """The stage as it is now. Look before the next moment comes: the stage moves on."""

    stage: Stage
    state: Any
    time: int
    ended: bool


def play(
    env: Env, policy: Policy, title: str, seed: int = 0, steps: int = 1000
) -> Iterator[Moment]:
    """The start of an episode and what each action led to, until it ends or `steps` have been made.

    >>> from markovlens.envs.registry import make
    >>> env = make("tmaze-5")
    >>> frames = [m.stage.picture(m.state) for m in play(env, RandomPolicy(env), "T", steps=5)]
    """
    start_key, loop_key = jax.random.split(jax.random.key(seed))
    state, observation = _reset(env, start_key)
    stage, memory = Stage(env, title), policy.start()
    stage.begin(observation)
    yield Moment(stage, state, 0, ended=False)
    for time, key in enumerate(jax.random.split(loop_key, steps), start=1):
        act_key, step_key = jax.random.split(key)
        allowed = env.action_mask(state) if env.masks_actions else None
        action, memory = policy.act(observation, memory, allowed, act_key)
        state, step = _step(env, step_key, state, jnp.asarray(action))
        observation = step.observation
        stage.follow(np.asarray(action), step)
        yield Moment(stage, state, time, bool(step.ended))
        if step.ended:
            return


@eqx.filter_jit
def _reset(env: Env, key: PRNGKeyArray) -> tuple[Any, Array]:
    return env.reset(key)


@eqx.filter_jit
def _step(env: Env, key: PRNGKeyArray, state: Any, action: Array) -> tuple[Any, Step]:
    return env.step(key, state, action)

"""The contract every environment keeps.

An environment is an immutable module; what changes is its state, a PyTree. A
step is a pure function of (key, state, action). Its randomness is drawn apart
from its rules, so that a rollout can draw all of it at once, ahead of the loop:

    step(key, state, action) = transition(state, action, noise(key))

`terminated` means the process is over and the value from here on is 0;
`truncated` means only that we stopped watching, so a learner bootstraps from
the final observation. Never both.
"""

import abc
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from markovlens.envs.spaces import Discrete, Space

State = TypeVar("State")
Noise = TypeVar("Noise")


class Step(eqx.Module):
    """What an action led to. At the end of an episode, `observation` is the final one."""

    observation: Array
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]

    @property
    def ended(self) -> Bool[Array, ""]:
        return self.terminated | self.truncated


class Env(eqx.Module, Generic[State, Noise]):
    """An environment. Subclasses are final: to change one, wrap it."""

    @property
    @abc.abstractmethod
    def gamma(self) -> float:
        """The discount: part of the problem, not of the agent."""

    @property
    @abc.abstractmethod
    def observation_space(self) -> Space: ...

    @property
    @abc.abstractmethod
    def action_space(self) -> Space: ...

    @abc.abstractmethod
    def reset(self, key: PRNGKeyArray) -> tuple[State, Array]:
        """A fresh start: the state, and the first observation."""

    @abc.abstractmethod
    def noise(self, key: PRNGKeyArray) -> Noise:
        """All the randomness of one step, whatever the state and action will be."""

    @abc.abstractmethod
    def transition(self, state: State, action: Array, noise: Noise) -> tuple[State, Step]:
        """One step, given its randomness."""

    def step(self, key: PRNGKeyArray, state: State, action: ArrayLike) -> tuple[State, Step]:
        """One step."""
        return self.transition(state, jnp.asarray(action), self.noise(key))

    @property
    def masks_actions(self) -> bool:
        """Whether some actions are forbidden in some states (see `action_mask`)."""
        return False

    def action_mask(self, state: State) -> Bool[Array, "A"]:
        """Which actions are allowed now."""
        if not isinstance(self.action_space, Discrete):
            raise TypeError("only discrete actions have a mask")
        return jnp.ones(self.action_space.n, dtype=bool)

    @property
    def shortest_episode(self) -> int:
        """No episode has fewer steps than this: bounds how many starts a rollout can need."""
        return 1

    @property
    def time_limit(self) -> int | None:
        """Episodes are truncated after this many steps; None if never."""
        return None

    @property
    def observation_names(self) -> tuple[str, ...]:
        """What the observations of a discrete space, or the entries of a flattened one, are called;
        empty if they have no names."""
        return ()

    @property
    def full_observation_space(self) -> Space:
        """The space of `full_observation`."""
        raise TypeError(f"{type(self).__name__} does not show its full state")

    def full_observation(self, state: State) -> Array:
        """Everything there is to know: what an agent with perfect memory could work from."""
        raise TypeError(f"{type(self).__name__} does not show its full state")


class Wrapped(eqx.Module, Generic[State]):
    """The state of a wrapped environment, and what the wrapper itself remembers beside it."""

    inner: State
    memory: Any


class Wrapper(Env[Wrapped[State], Noise]):
    """An environment seen through another one: everything is forwarded but what `begin` and
    `follow` change, and `observation_names`. A wrapper that changes a space says so in that space's
    property; one that leaves the observations as they are forwards their names.
    """

    env: eqx.AbstractVar[Env[State, Noise]]

    def begin(self, inner: State, observation: Array) -> tuple[Any, Array]:
        """At a start: what the wrapper remembers, and the observation it shows."""
        return None, observation

    @abc.abstractmethod
    def follow(self, memory: Any, inner: State, action: Array, step: Step) -> tuple[Any, Step]:
        """After a step into `inner`: what the wrapper remembers, and the step it shows."""

    def reset(self, key: PRNGKeyArray) -> tuple[Wrapped[State], Array]:
        inner, observation = self.env.reset(key)
        memory, observation = self.begin(inner, observation)
        return Wrapped(inner, memory), observation

    def transition(
        self, state: Wrapped[State], action: Array, noise: Noise
    ) -> tuple[Wrapped[State], Step]:
        inner, step = self.env.transition(state.inner, action, noise)
        memory, step = self.follow(state.memory, inner, action, step)
        return Wrapped(inner, memory), step

    def noise(self, key: PRNGKeyArray) -> Noise:
        return self.env.noise(key)

    def action_mask(self, state: Wrapped[State]) -> Bool[Array, "A"]:
        return self.env.action_mask(state.inner)

    def full_observation(self, state: Wrapped[State]) -> Array:
        return self.env.full_observation(state.inner)

    @property
    def gamma(self) -> float:
        return self.env.gamma

    @property
    def observation_space(self) -> Space:
        return self.env.observation_space

    @property
    def action_space(self) -> Space:
        return self.env.action_space

    @property
    def masks_actions(self) -> bool:
        return self.env.masks_actions

    @property
    def shortest_episode(self) -> int:
        return self.env.shortest_episode

    @property
    def time_limit(self) -> int | None:
        return self.env.time_limit

    @property
    def full_observation_space(self) -> Space:
        return self.env.full_observation_space


def innermost(env: Env) -> Env:
    """The environment without its wrappers."""
    while isinstance(env, Wrapper):
        env = env.env
    return env


def innermost_state(env: Env, state: Any) -> Any:
    """The part of the state that is the innermost environment's: what there is to draw."""
    while isinstance(env, Wrapper):
        env, state = env.env, state.inner
    return state


class TimeLimit(Wrapper[State, Noise]):
    """Truncates episodes after `limit` steps."""

    env: Env[State, Noise]
    limit: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"the time limit must be at least 1 step, got {self.limit}")

    @property
    def shortest_episode(self) -> int:
        return min(self.limit, self.env.shortest_episode)

    @property
    def observation_names(self) -> tuple[str, ...]:
        return self.env.observation_names

    @property
    def time_limit(self) -> int:
        return self.limit if self.env.time_limit is None else min(self.limit, self.env.time_limit)

    def begin(self, inner: State, observation: Array) -> tuple[Int[Array, ""], Array]:
        return jnp.int32(0), observation

    def follow(
        self, memory: Int[Array, ""], inner: State, action: Array, step: Step
    ) -> tuple[Int[Array, ""], Step]:
        time = memory + 1
        late = (time >= self.limit) & ~step.terminated
        step = Step(step.observation, step.reward, step.terminated, step.truncated | late)
        return time, step

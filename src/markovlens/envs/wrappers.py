"""Views of an environment: more in the observation, less of it, or all there is to see."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from markovlens.envs.env import Env, Noise, State, Step, Wrapper
from markovlens.envs.spaces import Binary, Box, Discrete, Space, kept_entries


class PreviousAction(Wrapper[State, Noise]):
    """Appends the action that led here to the flattened observation; zeros at the start.

    Discrete actions are one-hot: an observation of `o` numbers becomes one of `o + A`.
    """

    env: Env[State, Noise]

    @property
    def observation_space(self) -> Space:
        inner, action = self.env.observation_space, self.env.action_space
        size = inner.flat_size + action.flat_size
        bits = isinstance(inner, Binary | Discrete) and isinstance(action, Binary | Discrete)
        return Binary(size) if bits else Box((size,))

    def begin(self, inner: State, observation: Array) -> tuple[Any, Array]:
        no_action = jnp.zeros(self.env.action_space.flat_size, dtype=jnp.float32)
        return None, jnp.concatenate([self.env.observation_space.flatten(observation), no_action])

    def follow(self, memory: Any, inner: State, action: Array, step: Step) -> tuple[Any, Step]:
        seen = self.env.observation_space.flatten(step.observation)
        both = jnp.concatenate([seen, self.env.action_space.flatten(action)])
        return None, _showing(step, both)


class PreviousReward(Wrapper[State, Noise]):
    """Appends the last reward to the flattened observation; zero at the start.

    For where something is hidden that only rewards show, as which arm of a bandit is the good one.
    """

    env: Env[State, Noise]

    @property
    def observation_space(self) -> Space:
        return Box((self.env.observation_space.flat_size + 1,))

    def begin(self, inner: State, observation: Array) -> tuple[Any, Array]:
        return None, self._beside(observation, jnp.float32(0.0))

    def follow(self, memory: Any, inner: State, action: Array, step: Step) -> tuple[Any, Step]:
        return None, _showing(step, self._beside(step.observation, step.reward))

    def _beside(self, observation: Array, reward: Float[Array, ""]) -> Float[Array, "n"]:
        return jnp.append(self.env.observation_space.flatten(observation), reward)


class MaskObservation(Wrapper[State, Noise]):
    """Hides some of the observation: drops the entries `hidden` of the flattened observation.

    >>> from markovlens.envs.registry import make
    >>> blind = MaskObservation(make("rocksample-4-2"), hidden=(8, 9))  # without its rock sensors
    >>> blind.observation_space.flat_size
    8
    """

    env: Env[State, Noise]
    kept: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, env: Env[State, Noise], hidden: tuple[int, ...]):
        self.env = env
        self.kept = kept_entries(env.observation_space.flat_size, hidden)

    @property
    def observation_space(self) -> Space:
        if isinstance(self.env.observation_space, Box):
            return Box(
                (len(self.kept),), self.env.observation_space.low, self.env.observation_space.high
            )
        return Binary(len(self.kept))

    @property
    def observation_names(self) -> tuple[str, ...]:
        names = self.env.observation_names
        return tuple(names[i] for i in self.kept) if names else ()

    def begin(self, inner: State, observation: Array) -> tuple[Any, Array]:
        return None, self._keep(observation)

    def follow(self, memory: Any, inner: State, action: Array, step: Step) -> tuple[Any, Step]:
        return None, _showing(step, self._keep(step.observation))

    def _keep(self, observation: Array) -> Float[Array, "k"]:
        return self.env.observation_space.flatten(observation)[np.array(self.kept)]


class FullyObserved(Wrapper[State, Noise]):
    """Shows the whole state: an agent that needs no memory here bounds what memory can gain."""

    env: Env[State, Noise]

    @property
    def observation_space(self) -> Space:
        return self.env.full_observation_space

    def begin(self, inner: State, observation: Array) -> tuple[Any, Array]:
        return None, self.env.full_observation(inner)

    def follow(self, memory: Any, inner: State, action: Array, step: Step) -> tuple[Any, Step]:
        return None, _showing(step, self.env.full_observation(inner))


def _showing(step: Step, observation: Array) -> Step:
    return Step(observation, step.reward, step.terminated, step.truncated)

"""Any Gymnasium environment as one stepped on the host, with our meaning of an episode's end."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from jaxtyping import Bool, Float

from markovlens.envs.adapters.gymnasium_spaces import (
    action_space_from_gymnasium,
    actions_to_gymnasium,
    observation_from_gymnasium,
    observation_space_from_gymnasium,
    observations_from_gymnasium,
)
from markovlens.envs.registry import GYMNASIUM_GAMMA
from markovlens.envs.spaces import Binary, Box, Discrete, Space, kept_entries


class HostStep(NamedTuple):
    """What N actions led to.

    `next_observation` is what each action led to; `observation` is what is seen
    now. They differ where an episode ended: there the latter opens a new one.
    """

    observation: np.ndarray  # [N, ...]
    reward: Float[np.ndarray, "N"]
    terminated: Bool[np.ndarray, "N"]
    truncated: Bool[np.ndarray, "N"]
    next_observation: np.ndarray  # [N, ...]


class HostVectorEnv(Protocol):
    """N environments that are stepped by Python, not inside a compiled loop."""

    @property
    def n(self) -> int: ...

    @property
    def gamma(self) -> float: ...

    @property
    def observation_space(self) -> Space: ...

    @property
    def action_space(self) -> Space: ...

    def reset(self, seed: int | Sequence[int] | None = None) -> np.ndarray:
        """Fresh starts of all N: what is seen. The copies' seeds may be given one by one."""

    def step(self, actions: Any) -> HostStep:
        """One step of all N; those that end start again."""

    def outside(self, actions: Any) -> np.ndarray:
        """Actions of `action_space` as the environment itself takes them; also once closed."""

    def inside(self, observation: Any) -> np.ndarray:
        """One observation as it is had outside, as one of `observation_space`; also once closed."""

    def close(self) -> None:
        """Let go of the environments: no more resets and steps."""


class GymnasiumVector:
    """A Gymnasium environment as a `HostVectorEnv`.

    `source` is a name, a function that makes an environment, or a vector
    environment; the first two are copied `n` times. Of the flattened
    observation the entries `mask` are dropped, which makes most environments
    partially observable. An end by both reasons at once counts as terminated. Numbers that are
    not finite in 32 bits are refused.

    >>> blind = GymnasiumVector("CartPole-v1", n=4, mask=(1, 3))   # without the two velocities
    >>> blind.reset(seed=0).shape
    (4, 2)
    """

    def __init__(
        self,
        source: str | Callable[[], gymnasium.Env] | VectorEnv,
        n: int = 1,
        gamma: float = GYMNASIUM_GAMMA,
        mask: tuple[int, ...] = (),
    ):
        self._envs = source if isinstance(source, VectorEnv) else _copies(source, n)
        self._mode = _restart_mode(self._envs)
        self._space = self._envs.single_observation_space
        self._actions = self._envs.single_action_space
        self.n = int(self._envs.num_envs)
        self.gamma = gamma
        inner = observation_space_from_gymnasium(self._space)
        self._kept = kept_entries(inner.flat_size, mask) if mask else None
        self._inner_space = inner
        self.observation_space = inner if self._kept is None else _without(inner, len(self._kept))
        self.action_space = action_space_from_gymnasium(self._actions)
        self._time = 0  # steps of each copy since the reset

    def reset(self, seed: int | Sequence[int] | None = None) -> np.ndarray:
        seeds: Any = seed  # a list too, which the base class does not say
        self._time = 0
        with self._blamed():
            observation, _ = self._envs.reset(seed=seeds)
        return self._checked(self._seen(observation))

    def outside(self, actions: Any) -> np.ndarray:
        return actions_to_gymnasium(self._actions, actions)

    def inside(self, observation: Any) -> np.ndarray:
        """As the Gymnasium environment gives it: numbered as there, in parts, with all entries."""
        return self._shown(observation_from_gymnasium(self._space, observation)[None])[0]

    def step(self, actions: Any) -> HostStep:
        self._time += 1
        taken = self.outside(actions)
        with self._blamed():
            raw, reward, terminated, truncated, info = self._envs.step(taken)
        terminated, truncated = np.asarray(terminated), np.asarray(truncated) & ~terminated
        ended = terminated | truncated
        if self._mode == AutoresetMode.SAME_STEP:
            observation = self._seen(raw)
            led_to = observation.copy()
            for i in np.flatnonzero(ended):
                final = gymnasium.vector.utils.concatenate(
                    self._space,
                    [info["final_obs"][i]],
                    gymnasium.vector.utils.create_empty_array(self._space, 1),
                )
                led_to[i] = self._seen(final)[0]
        else:
            led_to = observation = self._seen(raw).copy()
            if ended.any():
                with self._blamed():
                    raw, _ = self._envs.reset(options={"reset_mask": ended})
                observation = self._seen(raw)
        paid = self._checked_reward(reward)
        observation, led_to = self._checked(observation), self._checked(led_to)
        return HostStep(observation, paid, terminated, truncated, led_to)

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        """Says of an error that it is the environment's."""
        try:
            yield
        except Exception as error:
            name = type(error).__name__
            raise ValueError(
                f"the environment raised at step {self._time}: {name}: {error}"
            ) from error

    def _checked(self, observation: np.ndarray) -> np.ndarray:
        if not np.isfinite(observation).all():
            flat = observation.reshape(self.n, -1)
            copy, place = np.argwhere(~np.isfinite(flat))[0]
            entry = place if self._kept is None else self._kept[place]
            what = f"{flat[copy, place]} in entry {entry} of the observation"
            raise self._not_finite(what, copy)
        return observation

    def _checked_reward(self, reward: Any) -> Float[np.ndarray, "N"]:
        with np.errstate(over="ignore"):
            paid = np.asarray(reward, dtype=np.float32)
        if not np.isfinite(paid).all():
            copy = np.flatnonzero(~np.isfinite(paid))[0]
            raise self._not_finite(f"a reward of {reward[copy]}", copy)
        return paid

    def _not_finite(self, what: str, copy: int) -> ValueError:
        return ValueError(
            f"the environment gave {what} at step {self._time} (copy {copy} of {self.n}): numbers "
            "must be finite in 32 bits; correct the environment, or wrap it"
        )

    def _seen(self, raw: Any) -> np.ndarray:
        return self._shown(observations_from_gymnasium(self._space, raw))

    def _shown(self, observation: np.ndarray) -> np.ndarray:
        """Without the entries that are hidden."""
        if self._kept is None:
            return observation
        return _flat(self._inner_space, observation)[:, self._kept]

    def close(self) -> None:
        self._envs.close()


class WithPrevious:
    """A `HostVectorEnv` whose flat observations end with what was done and paid before.

    That is the action (one-hot if it is a number), its reward, or both; zeros at the start.

    >>> env = WithPrevious(GymnasiumVector("CartPole-v1", n=4), action=True, reward=True)
    >>> env.reset(seed=0).shape
    (4, 7)
    """

    def __init__(self, env: HostVectorEnv, action: bool, reward: bool):
        self._env, self._action, self._reward = env, action, reward
        self.n, self.gamma, self.action_space = env.n, env.gamma, env.action_space
        self._extra = action * env.action_space.flat_size + reward
        self.observation_space: Space = Box((env.observation_space.flat_size + self._extra,))

    def reset(self, seed: int | Sequence[int] | None = None) -> np.ndarray:
        return self._beside(self._env.reset(seed), np.zeros((self.n, self._extra)))

    def step(self, actions: Any) -> HostStep:
        step = self._env.step(actions)
        columns = [self._done(np.asarray(actions))] if self._action else []
        columns += [step.reward[:, None]] if self._reward else []
        before = np.hstack(columns)
        ended = step.terminated | step.truncated
        return step._replace(
            observation=self._beside(step.observation, np.where(ended[:, None], 0.0, before)),
            next_observation=self._beside(step.next_observation, before),
        )

    def outside(self, actions: Any) -> np.ndarray:
        return self._env.outside(actions)

    def inside(self, observation: Any) -> np.ndarray:
        """The flat vector itself: who acts outside appends what was done and paid."""
        return np.asarray(observation)

    def close(self) -> None:
        self._env.close()

    def _done(self, actions: np.ndarray) -> Float[np.ndarray, "N a"]:
        """Actions as the environment took them: vectors are clipped to its bounds."""
        taken = actions if isinstance(self.action_space, Discrete) else self.outside(actions)
        return _flat(self.action_space, taken)

    def _beside(self, observation: np.ndarray, before: np.ndarray) -> Float[np.ndarray, "N n"]:
        seen = _flat(self._env.observation_space, observation)
        return np.hstack([seen, before.astype(np.float32)])


def _flat(space: Space, values: np.ndarray) -> Float[np.ndarray, "N n"]:
    """What `space.flatten` makes of each, by NumPy."""
    if isinstance(space, Discrete):
        return np.eye(space.n, dtype=np.float32)[values]
    return values.reshape(len(values), -1).astype(np.float32)


def _copies(source: str | Callable[[], gymnasium.Env], n: int) -> VectorEnv:
    make = source if callable(source) else (lambda: gymnasium.make(source))
    return SyncVectorEnv([make] * n, autoreset_mode=AutoresetMode.SAME_STEP)


def _restart_mode(envs: VectorEnv) -> AutoresetMode:
    """How the copies that end are started again within the step.

    Where Gymnasium's own vector environments would wait for the next step, they
    can be told at once; anyone else's cannot, and would waste that step.
    """
    innermost = envs.unwrapped
    if isinstance(innermost, SyncVectorEnv | AsyncVectorEnv):
        # Not from the metadata, a dictionary that vector environments of one class share.
        return innermost.autoreset_mode
    mode: Any = envs.metadata.get("autoreset_mode")
    if mode in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED):
        return mode
    raise ValueError(
        f"{type(envs).__name__} restarts its copies in mode {mode}; make it with "
        "autoreset_mode=AutoresetMode.SAME_STEP"
    )


def _without(space: Space, size: int) -> Space:
    return Box((size,), space.low, space.high) if isinstance(space, Box) else Binary(size)

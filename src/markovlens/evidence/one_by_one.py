"""Steps taken one at a time, by Python: Gymnasium environments, and policies that are callables."""

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from markovlens.evidence.inputs import MOST_COMPONENTS
from markovlens.evidence.policies import BatchPolicy, Policy
from markovlens.evidence.trajectories import ARRAYS, Trajectories
from markovlens.progress import Advance

ADVANCE_EVERY = 1000
MOST_BYTES = 10**9  # of observations too wide to be tested, unless a few come again and again


class GymnasiumStepper:
    """Steps a Gymnasium environment."""

    def __init__(self, env: Any):
        from gymnasium import spaces

        self.env = env
        seen, done = env.observation_space, env.action_space
        plain = isinstance(seen, spaces.Discrete) and isinstance(done, spaces.Discrete)
        plain = plain and seen.start == 0 and done.start == 0
        self.n_observations = int(seen.n) if plain else 0
        self.n_actions = int(done.n) if plain else 0

    def run(self, policy: Policy, steps: int, seed: int, advance: Advance) -> Trajectories:
        self.env.action_space.seed(seed)
        return host_loop(self.env, self._callable(policy, seed), steps, seed, advance)

    def _callable(self, policy: Policy, seed: int) -> Callable[[Any], Any]:
        if policy is None:
            return lambda _: self.env.action_space.sample()
        if isinstance(policy, BatchPolicy):
            return self._one_by_one(policy, seed)
        if callable(policy):
            return policy
        rng, running = np.random.default_rng(seed), np.cumsum(policy, axis=1)
        running[:, -1] = 1.0
        return lambda o: int(np.searchsorted(running[o], rng.random(), side="right"))

    def _one_by_one(self, policy: Any, seed: int) -> Callable[[Any], Any]:
        import equinox as eqx
        import jax
        from gymnasium.vector import utils

        from markovlens.envs.adapters import gymnasium_spaces as between

        seen, done = self.env.observation_space, self.env.action_space
        policy.check(
            between.observation_space_from_gymnasium(seen).flat_size,
            between.action_space_from_gymnasium(done).flat_size,
        )
        draw = eqx.filter_jit(lambda key, t, o: policy.actions(jax.random.fold_in(key, t), o, None))
        key, time = jax.random.key(seed), count()

        def act(observation: Any) -> Any:
            batch = utils.concatenate(seen, [observation], utils.create_empty_array(seen, 1))
            batch = between.observations_from_gymnasium(seen, batch)
            return between.actions_to_gymnasium(done, draw(key, np.uint32(next(time)), batch))[0]

        return act


class OneByOne:
    """One of our environments, stepped in Gymnasium's manner."""

    def __init__(self, env: Any):
        import equinox as eqx
        import jax

        self._split, self._key = jax.random.split, jax.random.key(0)
        self._reset, self._step = eqx.filter_jit(env.reset), eqx.filter_jit(env.step)
        self._state: Any = None

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, dict]:
        import jax

        if seed is not None:
            self._key = jax.random.key(seed)
        self._key, now = self._split(self._key)
        self._state, observation = self._reset(now)
        return np.asarray(observation), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._key, now = self._split(self._key)
        self._state, step = self._step(now, self._state, np.asarray(action))
        ends = bool(step.terminated), bool(step.truncated)
        return np.asarray(step.observation), float(step.reward), *ends, {}


def host_loop(
    env: Any,
    act: Callable[[Any], Any],
    steps: int,
    seed: int,
    advance: Advance,
    names: tuple[str, ...] = (),
) -> Trajectories:
    """Steps an environment one step at a time."""
    rows = []
    observation, _ = env.reset(seed=seed)
    _check_width(_flat(observation), steps)
    for t in range(steps):
        action = act(observation)
        before = _flat(observation)
        try:
            observation, reward, terminated, truncated, _ = env.step(action)
            after = _flat(observation)
            if terminated or truncated:
                observation, _ = env.reset()
        except Exception as error:
            raise ValueError(
                f"the environment raised at step {t}: {type(error).__name__}: {error}"
            ) from error
        rows.append((before, _flat(action), reward, terminated, truncated, after))
        if t % ADVANCE_EVERY == 0:
            advance(t)
    columns: dict[str, Any] = dict(zip(ARRAYS, map(list, zip(*rows, strict=True)), strict=True))
    return Trajectories(**columns, names=names)


def _check_width(observation: np.ndarray, steps: int) -> None:
    """Before they are collected: steps that show nothing, or that would fill the memory and then
    be refused."""
    if not observation.size:
        raise ValueError("the environment's observations are empty: there is nothing to see")
    taken = 2 * steps * observation.nbytes  # each is held before and after a step
    if observation.size > MOST_COMPONENTS and taken > MOST_BYTES:
        raise ValueError(
            f"{steps:,} steps with observations of {observation.size:,} components would take "
            f"{taken / 1e9:.1f} GB, and at most {MOST_COMPONENTS:,} components can be tested: "
            "downscale or embed them"
        )


def _flat(value: Any) -> np.ndarray:
    """An observation or action, dictionaries and tuples as one vector.

    A copy: an environment may write what comes next in its place.
    """
    if isinstance(value, dict):
        value = [value[name] for name in sorted(value)]
    if isinstance(value, tuple | list):
        parts = [np.ravel(_flat(part)) for part in value]
        return np.concatenate(parts) if parts else np.zeros(0)
    return np.array(value)

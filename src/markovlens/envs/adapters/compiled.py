"""An environment's functions compiled for stepping from Python."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PRNGKeyArray

from markovlens.envs.check import check_env
from markovlens.envs.env import Env, Step, TimeLimit
from markovlens.envs.registry import make


class Compiled:
    """One environment, or N, with keys that advance by themselves.

    The environment is closed over: handing its tables to every call would cost
    as much as the step.
    """

    def __init__(self, env: Env):
        self.env = env
        self.reset_one = jax.jit(lambda key: self._reset_one(key))
        self.step_one = jax.jit(lambda key, state, action: self._step_one(key, state, action))
        self.reset_many = jax.jit(lambda key, n: self._reset_many(key, n), static_argnums=1)
        self.step_many = jax.jit(lambda key, states, act: self._step_many(key, states, act))
        self.restart = jax.jit(lambda *arguments: self._restart(*arguments))

    def _reset_one(self, key: PRNGKeyArray) -> tuple[Array, Any, Array, Array | None]:
        key, reset_key = jax.random.split(key)
        state, observation = self.env.reset(reset_key)
        return key, state, observation, self._mask(state)

    def _step_one(
        self, key: PRNGKeyArray, state: Any, action: Array
    ) -> tuple[Array, Any, Step, Array | None]:
        key, step_key = jax.random.split(key)
        state, step = self.env.step(step_key, state, action)
        return key, state, step, self._mask(state)

    def _reset_many(self, key: PRNGKeyArray, n: int) -> tuple[Array, Any, Array, Array | None]:
        key, reset_key = jax.random.split(key)
        states, observation = jax.vmap(self.env.reset)(jax.random.split(reset_key, n))
        return key, states, observation, jax.vmap(self._mask)(states)

    def _step_many(
        self, key: PRNGKeyArray, states: Any, actions: Array
    ) -> tuple[Array, Any, Step, Array | None]:
        key, step_key = jax.random.split(key)
        keys = jax.random.split(step_key, len(actions))
        states, step = jax.vmap(self.env.step)(keys, states, actions)
        return key, states, step, jax.vmap(self._mask)(states)

    def _restart(
        self, key: PRNGKeyArray, states: Any, observation: Array, ended: Bool[Array, "N"]
    ) -> tuple[Array, Any, Array, Array | None]:
        """Fresh starts for those that ended, the others as they are."""
        key, *fresh, _ = self._reset_many(key, len(ended))

        def choose(new: Array, old: Array) -> Array:
            return jnp.where(ended.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

        states, observation = jax.tree.map(choose, tuple(fresh), (states, observation))
        return key, states, observation, jax.vmap(self._mask)(states)

    def _mask(self, state: Any) -> Bool[Array, "A"] | None:
        return self.env.action_mask(state) if self.env.masks_actions else None


def compiled(name: str | Env, seed: int) -> Compiled:
    """The environment by name, or by file, shared by all who ask for the same; or one's own.

    Battleship ends by itself only for players who keep to the mask. Not all do, so here it is cut
    off after as many shots as there are cells.
    """
    if not isinstance(name, str):
        if seed:
            raise ValueError(
                f"seed {seed} is for an environment by name, whose fixed parts it draws: leave it "
                "out for one that is made already"
            )
        check_env(name)
        return Compiled(name)
    file = Path(name)
    return _compiled(name, seed, file.stat().st_mtime_ns if file.is_file() else None)


@lru_cache(maxsize=16)
def _compiled(name: str, seed: int, written: int | None) -> Compiled:
    env = make(name, seed)
    return Compiled(env if env.time_limit else TimeLimit(env, env.action_space.flat_size))

"""Any gymnax environment (1.0 or newer) as one of ours."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from markovlens.envs.env import Env, Step
from markovlens.envs.spaces import Box, Discrete, Space


class GymnaxEnv(Env[Any, PRNGKeyArray]):
    """A gymnax environment under our contract; made by `from_gymnax`.

    What it draws in a step it draws itself, so the noise of a step is its key.
    gymnax's own resetting at every step is left out.
    """

    params: Any
    seen: Space
    done: Space
    inner: Any = eqx.field(static=True)
    discount: float = eqx.field(static=True)

    @property
    def gamma(self) -> float:
        return self.discount

    @property
    def observation_space(self) -> Space:
        """Without gymnax's bounds, which not all its environments keep: MemoryChain names 0 and 2,
        and shows -1."""
        return Box(self.seen.shape) if isinstance(self.seen, Box) else self.seen

    @property
    def action_space(self) -> Space:
        return self.done

    @property
    def time_limit(self) -> int | None:
        limit = getattr(self.params, "max_steps_in_episode", None)
        return None if limit is None else int(limit)

    def reset(self, key: PRNGKeyArray) -> tuple[Any, Array]:
        observation, state = self.inner.reset_env(key, self.params)
        return _strong(state), _typed(self.observation_space, observation)

    def noise(self, key: PRNGKeyArray) -> PRNGKeyArray:
        return key

    def transition(self, state: Any, action: Array, noise: PRNGKeyArray) -> tuple[Any, Step]:
        observation, after, reward, terminated, _ = self.inner.step_env(
            noise, state, action, self.params
        )
        terminated = jnp.asarray(terminated, dtype=bool)
        truncated = jnp.asarray(self.inner.is_truncated(after, self.params), dtype=bool)
        step = Step(
            _typed(self.observation_space, observation),
            jnp.asarray(reward, dtype=jnp.float32),
            terminated,
            truncated & ~terminated,
        )
        return jax.tree.map(_as_before, after, state), step


def from_gymnax(env: Any, params: Any = None, gamma: float = 0.99) -> GymnaxEnv:
    """The gymnax environment `env` with `params` (its defaults if None).

    >>> import gymnax
    >>> env = from_gymnax(*gymnax.make("CartPole-v1"))
    >>> env.action_space
    Discrete(n=2)
    """
    if not hasattr(env, "is_truncated"):
        raise ValueError(
            f"{type(env).__name__} is not an environment of gymnax 1.0 or newer: "
            "it does not tell truncation from termination"
        )
    params = env.default_params if params is None else params
    seen, done = _space(env.observation_space(params)), _space(env.action_space(params))
    return GymnaxEnv(params, seen, done, env, gamma)


def _strong(tree: Any) -> Any:
    """Python numbers as arrays whose type no longer depends on what they meet."""

    return jax.tree.map(lambda leaf: _as_before(leaf, jnp.asarray(leaf)), tree)


def _as_before(new: Any, old: Array) -> Array:
    """With the type it had: gymnax lets a state's whole numbers become floats and back."""
    return jax.lax.convert_element_type(jnp.asarray(new), old.dtype)


def _typed(space: Space, observation: Any) -> Array:
    return jnp.asarray(observation, jnp.int32 if isinstance(space, Discrete) else jnp.float32)


def _space(space: Any) -> Space:
    kind = type(space).__name__
    if kind == "Discrete":
        return Discrete(int(space.n))
    if kind == "Box":
        low, high = float(jnp.min(space.low)), float(jnp.max(space.high))
        return Box(tuple(space.shape), low, high)
    raise ValueError(f"gymnax space {kind} is not supported: only Discrete and Box are")

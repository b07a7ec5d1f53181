"""Our environments as Gymnasium's: one at a time, or many at once."""

from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, Bool, PRNGKeyArray

from markovlens.envs.adapters.gymnasium_spaces import to_gymnasium, value_to_gymnasium
from markovlens.envs.env import Env, Step
from markovlens.envs.registry import make
from markovlens.envs.render.stage import Stage

FRAMES_PER_SECOND = 8


class GymnasiumEnv(gymnasium.Env[Any, Any]):
    """An environment by name, stepped one at a time.

    With actions that can be forbidden, `action_masks()` and `info["action_mask"]` say which are
    allowed. `seed` draws what is fixed for the life of the environment (RockSample's rock map);
    the seed given to `reset` draws everything else.

    >>> import gymnasium, markovlens
    >>> env = gymnasium.make("markovlens/PocMan-v0", render_mode="rgb_array")
    >>> observation, info = env.reset(seed=0)
    """

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": FRAMES_PER_SECOND}  # noqa: RUF012

    def __init__(self, name: str, seed: int = 0, render_mode: str | None = None):
        self.env = make(name, seed)
        self.render_mode = render_mode
        self.observation_space = to_gymnasium(self.env.observation_space)
        self.action_space = to_gymnasium(self.env.action_space)
        self._stage = Stage(self.env, name)
        self._key = jax.random.key(0)
        self._state: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        key = jax.random.key(int(self.np_random.integers(2**31)))
        self._key, self._state, observation, mask = _reset_one(self.env, key)
        self._stage.begin(observation)
        return self._shown(observation, mask)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        action = np.asarray(action)
        self._key, self._state, step, mask = _step_one(self.env, self._key, self._state, action)
        self._stage.follow(action, step)
        observation, info = self._shown(step.observation, mask)
        return observation, float(step.reward), bool(step.terminated), bool(step.truncated), info

    def _shown(self, observation: Array, mask: Array | None) -> tuple[Any, dict[str, Any]]:
        if self.render_mode == "human":
            self._stage.show(self._state)
        info = {} if mask is None else {"action_mask": np.asarray(mask, dtype=np.int8)}
        return value_to_gymnasium(self.env.observation_space, observation), info

    def action_masks(self) -> Bool[np.ndarray, "A"]:
        """Which actions are allowed now: the name sb3-contrib's MaskablePPO looks for."""
        return np.asarray(self.env.action_mask(self._state))

    def render(self) -> np.ndarray | None:
        if self.render_mode == "rgb_array":
            return self._stage.picture(self._state)
        return None

    def close(self) -> None:
        self._stage.close()


class GymnasiumVectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Many copies of an environment by name, stepped together by one compiled function.

    Copies that end are restarted within the same step (`AutoresetMode.SAME_STEP`); what their last
    action led to is then in `info["final_obs"][i]`.

    >>> import gymnasium, markovlens
    >>> envs = gymnasium.make_vec("markovlens/PocMan-v0", num_envs=64)
    """

    metadata = {  # noqa: RUF012
        "render_modes": ["rgb_array"],
        "render_fps": FRAMES_PER_SECOND,
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(self, num_envs: int, name: str, seed: int = 0, render_mode: str | None = None):
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode {render_mode!r}: many at once can only be rgb_array")
        self.env = make(name, seed)
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.single_observation_space = to_gymnasium(self.env.observation_space)
        self.single_action_space = to_gymnasium(self.env.action_space)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._stages = [Stage(self.env, name) for _ in range(num_envs)]
        self._key = jax.random.key(0)
        self._states: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        key = jax.random.key(int(self.np_random.integers(2**31)))
        self._key, self._states, observation = _reset_many(self.env, key, self.num_envs)
        if self.render_mode is not None:
            for i, stage in enumerate(self._stages):
                stage.begin(observation[i])
        return value_to_gymnasium(self.env.observation_space, observation), self._info()

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        actions = np.asarray(actions)
        self._key, self._states, step = _step_many(self.env, self._key, self._states, actions)
        ended = np.asarray(step.ended)
        if self.render_mode is not None:
            for i, stage in enumerate(self._stages):
                stage.follow(actions[i], jax.tree.map(lambda leaf, i=i: leaf[i], step))
        led_to = value_to_gymnasium(self.env.observation_space, step.observation)
        observation, last = led_to, self._info()
        info: dict[str, Any] = {}
        if ended.any():
            # A restart is computed only when there is one to make: here that is cheap to know.
            self._key, self._states, restarted = _restart(
                self.env, self._key, self._states, step.observation, jnp.asarray(ended)
            )
            if self.render_mode is not None:
                for i in np.flatnonzero(ended).tolist():
                    self._stages[i].begin(restarted[i])
            observation = value_to_gymnasium(self.env.observation_space, restarted)
            for i in np.flatnonzero(ended).tolist():
                final = {key: value[i] for key, value in last.items() if not key.startswith("_")}
                info = self._add_info(info, {"final_obs": led_to[i], "final_info": final}, i)
        outcome = (np.asarray(step.reward), np.asarray(step.terminated), np.asarray(step.truncated))
        return observation, *outcome, info | self._info()

    def _info(self) -> dict[str, Any]:
        if not self.env.masks_actions:
            return {}
        masks = self.action_masks()
        return {"action_mask": masks.astype(np.int8), "_action_mask": np.ones(len(masks), bool)}

    def action_masks(self) -> Bool[np.ndarray, "N A"]:
        """Which actions are allowed now, for each copy."""
        return np.asarray(_masks(self.env, self._states))

    def render(self) -> tuple[np.ndarray, ...] | None:
        if self.render_mode is None:
            return None
        states = [
            jax.tree.map(lambda leaf, i=i: leaf[i], self._states) for i in range(self.num_envs)
        ]
        return tuple(
            stage.picture(state) for stage, state in zip(self._stages, states, strict=True)
        )


@eqx.filter_jit
def _reset_one(env: Env, key: PRNGKeyArray) -> tuple[Array, Any, Array, Array | None]:
    key, reset_key = jax.random.split(key)
    state, observation = env.reset(reset_key)
    return key, state, observation, env.action_mask(state) if env.masks_actions else None


@eqx.filter_jit
def _step_one(
    env: Env, key: PRNGKeyArray, state: Any, action: Array
) -> tuple[Array, Any, Step, Array | None]:
    key, step_key = jax.random.split(key)
    state, step = env.step(step_key, state, action)
    return key, state, step, env.action_mask(state) if env.masks_actions else None


@eqx.filter_jit
def _reset_many(env: Env, key: PRNGKeyArray, n: int) -> tuple[Array, Any, Array]:
    key, reset_key = jax.random.split(key)
    return key, *jax.vmap(env.reset)(jax.random.split(reset_key, n))


@eqx.filter_jit
def _step_many(env: Env, key: PRNGKeyArray, states: Any, actions: Array) -> tuple[Array, Any, Step]:
    key, step_key = jax.random.split(key)
    keys = jax.random.split(step_key, len(actions))
    return key, *jax.vmap(env.step)(keys, states, jnp.asarray(actions))


@eqx.filter_jit
def _restart(
    env: Env, key: PRNGKeyArray, states: Any, observation: Array, ended: Bool[Array, "N"]
) -> tuple[Array, Any, Array]:
    key, reset_key = jax.random.split(key)
    fresh = jax.vmap(env.reset)(jax.random.split(reset_key, len(ended)))

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(ended.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

    return key, *jax.tree.map(choose, fresh, (states, observation))


@eqx.filter_jit
def _masks(env: Env, states: Any) -> Bool[Array, "N A"]:
    return jax.vmap(env.action_mask)(states)

"""Our environments as Gymnasium's: one at a time, or many at once."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, Bool

from markovlens.envs.adapters.compiled import compiled
from markovlens.envs.adapters.gymnasium_spaces import to_gymnasium, value_to_gymnasium
from markovlens.envs.env import Env, innermost
from markovlens.envs.render.stage import Stage

FRAMES_PER_SECOND = 8


class GymnasiumEnv(gymnasium.Env[Any, Any]):
    """An environment by name, or of one's own, stepped one at a time.

    With actions that can be forbidden, `action_masks()` and `info["action_mask"]` say which are
    allowed. `seed` draws what is fixed for the life of an environment by name (RockSample's rock
    map); the seed given to `reset` draws everything else.

    >>> import gymnasium, markovlens
    >>> env = gymnasium.make("markovlens/PocMan-v0", render_mode="rgb_array")
    >>> observation, info = env.reset(seed=0)
    """

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": FRAMES_PER_SECOND}  # noqa: RUF012

    def __init__(self, name: str | Env, seed: int = 0, render_mode: str | None = None):
        self._run = compiled(name, seed)
        self.env = self._run.env
        self.gamma = self.env.gamma
        self.render_mode = render_mode
        self.observation_space = to_gymnasium(self.env.observation_space)
        self.action_space = to_gymnasium(self.env.action_space)
        self._stage = Stage(self.env, _title(name))
        self._key = jax.random.key(0)
        self._state: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        key = jax.random.key(int(self.np_random.integers(2**31)))
        self._key, self._state, observation, self._mask = self._run.reset_one(key)
        self._stage.begin(observation)
        return self._shown(observation)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        action = _checked(self.action_space, action)
        self._key, self._state, step, self._mask = self._run.step_one(
            self._key, self._state, action
        )
        step = jax.device_get(step)
        self._stage.follow(action, step)
        observation, info = self._shown(step.observation)
        return observation, float(step.reward), bool(step.terminated), bool(step.truncated), info

    def _shown(self, observation: Array) -> tuple[Any, dict[str, Any]]:
        if self.render_mode == "human":
            self._stage.show(self._state)
        info = {}
        if self._mask is not None:
            info["action_mask"] = np.asarray(self._mask, dtype=np.int8)
        return value_to_gymnasium(self.env.observation_space, observation), info

    def action_masks(self) -> Bool[np.ndarray, "A"]:
        """Which actions are allowed now: the name sb3-contrib's MaskablePPO looks for."""
        return np.asarray(self.env.action_mask(self._state) if self._mask is None else self._mask)

    def render(self) -> np.ndarray | None:
        if self.render_mode == "rgb_array":
            return self._stage.picture(self._state)
        return None

    def close(self) -> None:
        self._stage.close()


class GymnasiumVectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Many copies of an environment, by name or of one's own, stepped together by one compiled
    function.

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

    def __init__(
        self, num_envs: int, name: str | Env, seed: int = 0, render_mode: str | None = None
    ):
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode {render_mode!r}: many at once can only be rgb_array")
        self._run = compiled(name, seed)
        self.env = self._run.env
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.single_observation_space = to_gymnasium(self.env.observation_space)
        self.single_action_space = to_gymnasium(self.env.action_space)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        watched = num_envs if render_mode else 0
        self._stages = [Stage(self.env, _title(name)) for _ in range(watched)]
        self._key = jax.random.key(0)
        self._states: Any = None

    def reset(
        self,
        *,
        seed: int | Sequence[int] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        if isinstance(seed, Sequence):  # one for each copy: all are drawn from one
            seed = int(np.random.SeedSequence(seed).generate_state(1)[0])
        super().reset(seed=seed)
        key = jax.random.key(int(self.np_random.integers(2**31)))
        reset = self._run.reset_many(key, self.num_envs)
        self._key, self._states, observation, self._masks = reset
        for i, stage in enumerate(self._stages):
            stage.begin(observation[i])
        return value_to_gymnasium(self.env.observation_space, observation), self._info()

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        if self._states is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        actions = _checked(self.action_space, actions)
        self._key, self._states, step, self._masks = self._run.step_many(
            self._key, self._states, actions
        )
        step = jax.device_get(step)
        ended = step.terminated | step.truncated
        for i, stage in enumerate(self._stages):
            stage.follow(actions[i], jax.tree.map(lambda leaf, i=i: leaf[i], step))
        observation = value_to_gymnasium(self.env.observation_space, step.observation)
        info: dict[str, Any] = {}
        # A restart is computed only when there is one to make: here that is cheap to know.
        if ended.any():
            observation, info = self._restart(step.observation, ended)
        return observation, step.reward, step.terminated, step.truncated, info | self._info()

    def _restart(self, led_to: np.ndarray, ended: np.ndarray) -> tuple[Any, dict[str, Any]]:
        """Starts again the copies that ended; what they last saw goes into the info."""
        space, last = self.env.observation_space, self._info()
        restart = self._run.restart(self._key, self._states, led_to, ended)
        self._key, self._states, observation, self._masks = restart
        info: dict[str, Any] = {}
        for i in np.flatnonzero(ended).tolist():
            final = {key: value[i] for key, value in last.items() if not key.startswith("_")}
            seen = value_to_gymnasium(space, led_to[i])
            info = self._add_info(info, {"final_obs": seen, "final_info": final}, i)
            if self._stages:
                self._stages[i].begin(observation[i])
        return value_to_gymnasium(space, observation), info

    def _info(self) -> dict[str, Any]:
        if self._masks is None:
            return {}
        masks = np.asarray(self._masks, dtype=np.int8)
        return {"action_mask": masks, "_action_mask": np.ones(len(masks), dtype=bool)}

    def action_masks(self) -> Bool[np.ndarray, "N A"]:
        """Which actions are allowed now, for each copy."""
        if self._masks is None:
            return np.ones((self.num_envs, self.env.action_space.flat_size), dtype=bool)
        return np.asarray(self._masks)

    def render(self) -> tuple[np.ndarray, ...] | None:
        if self.render_mode is None:
            return None
        pictures = []
        for i, stage in enumerate(self._stages):
            state = jax.tree.map(lambda leaf, i=i: leaf[i], self._states)
            pictures.append(stage.picture(state))
        return tuple(pictures)


def _title(name: str | Env) -> str:
    return name if isinstance(name, str) else type(innermost(name)).__name__


def _checked(space: gymnasium.Space[Any], action: Any) -> np.ndarray:
    action = np.asarray(action)
    if not space.contains(action):
        raise ValueError(f"got the action {action.tolist()}, expected one of {space}")
    return action

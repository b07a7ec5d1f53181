"""Spaces and their values, between Gymnasium and here."""

import contextlib
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box as GymnasiumBox
from gymnasium.spaces import Discrete as GymnasiumDiscrete
from gymnasium.spaces import MultiBinary

from markovlens.envs.spaces import Binary, Box, Discrete, Space, is_whole


def to_gymnasium(space: Space) -> gymnasium.Space:
    """Our space as Gymnasium has it: bits become MultiBinary."""
    if isinstance(space, Discrete):
        return GymnasiumDiscrete(space.n)
    if isinstance(space, Binary):
        return MultiBinary(space.n)
    return GymnasiumBox(space.low, space.high, space.shape, dtype=np.float32)


def value_to_gymnasium(space: Space, values: Any) -> Any:
    """One value, or a batch, in the type that Gymnasium's space asks for."""
    values = np.asarray(values)
    if isinstance(space, Discrete):
        return np.int64(values) if values.ndim == 0 else values.astype(np.int64)
    return values.astype(np.int8 if isinstance(space, Binary) else np.float32)


def observation_space_from_gymnasium(space: gymnasium.Space) -> Space:
    """Numbers and bits as they are; whatever else Gymnasium can flatten, flattened."""
    if space.is_np_flattenable and gymnasium.spaces.flatdim(space) == 0:
        raise ValueError(f"observations in {space} are empty: there is nothing to see")
    if isinstance(space, GymnasiumDiscrete):
        return Discrete(int(space.n))
    if isinstance(space, MultiBinary):
        return Binary(int(np.prod(space.shape)))
    if isinstance(space, GymnasiumBox):
        return Box(space.shape, float(space.low.min()), float(space.high.max()))
    flat = gymnasium.spaces.flatten_space(space)
    if not isinstance(flat, GymnasiumBox | MultiBinary):
        raise ValueError(
            f"observations in {space} have no fixed size; wrap the environment so that they do"
        )
    return observation_space_from_gymnasium(flat)


def observations_from_gymnasium(space: gymnasium.Space, batch: Any) -> np.ndarray:
    """A batch of the vector environment's observations, [N, ...]."""
    if isinstance(space, GymnasiumDiscrete):
        return (np.asarray(batch) - space.start).astype(np.int32)
    if isinstance(space, GymnasiumBox):
        return _float32(batch)
    if isinstance(space, MultiBinary):
        return _float32(batch).reshape(len(batch), -1)
    return _float32([gymnasium.spaces.flatten(space, one) for one in _rows(space, batch)])


def observation_from_gymnasium(space: gymnasium.Space, observation: Any) -> np.ndarray:
    """One observation as an environment gives it, checked; else as in a batch."""
    if isinstance(space, GymnasiumDiscrete):
        first = int(space.start)
        last = first + int(space.n) - 1
        if not (is_whole(observation) and first <= int(observation) <= last):
            raise ValueError(
                f"the environment gives whole numbers from {first} to {last}: got {observation!r}"
            )
    if space.shape is not None and np.shape(observation) != space.shape:
        raise ValueError(
            f"expected one observation of {space}, of shape {list(space.shape)}, as the "
            f"environment gives it: got shape {list(np.shape(observation))}"
        )
    if isinstance(space, GymnasiumDiscrete | GymnasiumBox | MultiBinary):
        return observations_from_gymnasium(space, np.asarray(observation)[None])[0]
    flat: Any = None
    with contextlib.suppress(KeyError, IndexError, TypeError, ValueError):
        flat = gymnasium.spaces.flatten(space, observation)
    if np.shape(flat) != gymnasium.spaces.flatten_space(space).shape:
        raise ValueError(
            f"expected one observation of {space}, as the environment gives it: got {observation!r}"
        )
    return _float32(flat)


def action_space_from_gymnasium(space: gymnasium.Space) -> Space:
    if isinstance(space, GymnasiumDiscrete):
        return Discrete(int(space.n))
    if isinstance(space, GymnasiumBox):
        return Box(space.shape, float(space.low.min()), float(space.high.max()))
    raise ValueError(f"actions must be Discrete or Box, got {space}; wrap the environment")


def actions_to_gymnasium(space: gymnasium.Space, actions: Any) -> np.ndarray:
    """Our actions, [N, ...], as the vector environment takes them; boxes are clipped to bounds."""
    actions = np.asarray(actions)
    if isinstance(space, GymnasiumDiscrete):
        return actions.astype(np.int64) + space.start
    assert isinstance(space, GymnasiumBox)
    return np.clip(actions, space.low, space.high).astype(space.dtype)


def _float32(values: Any) -> np.ndarray:
    """What is too large becomes infinite, for the caller to refuse."""
    with np.errstate(over="ignore"):
        return np.asarray(values, dtype=np.float32)


def _rows(space: gymnasium.Space, batch: Any) -> Any:
    n = len(next(iter(batch.values()))) if isinstance(batch, dict) else len(batch)
    if isinstance(space, gymnasium.spaces.Tuple):
        n = len(batch[0])
    return gymnasium.vector.utils.iterate(gymnasium.vector.utils.batch_space(space, n), batch)

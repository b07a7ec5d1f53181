"""Whether an environment keeps the contract of `env.py`: asked of one's own before it is used."""

from collections.abc import Callable
from numbers import Real
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray

from markovlens.envs.env import Env, Step, Wrapper, innermost
from markovlens.envs.spaces import Binary, Box, Discrete, Space

EPISODES, STEPS = 4, 32  # of random play
ROUNDING = 1e-5


def check_env(env: Env) -> None:
    """Refuse, in a line, an environment that does not keep the contract of `markovlens.envs.env`.

    Types and shapes are checked without running anything, then values over a few random steps. An
    error inside the environment's own code is left as it is.

    >>> from markovlens.envs.registry import make
    >>> check_env(make("tmaze-5"))
    """
    check_is_env(env)
    _check_layers(env)
    _check_values(env)


def check_is_env(env: Any) -> None:
    """Refuse what is no environment of ours at all, and say what to give instead."""
    env = innermost(env)
    if isinstance(env, Env):
        return
    if isinstance(env, str):
        raise ValueError(
            f"env must be an Env of markovlens.envs.env, got the name {env!r}: give names in the "
            f"config, PPOConfig(env={env!r})"
        )
    if isinstance(env, type):
        raise ValueError(
            f"env must be an Env of markovlens.envs.env, got the class {env.__name__}: give an "
            "instance of it"
        )
    if any(kind.__module__.split(".")[0] == "gymnasium" for kind in type(env).__mro__):
        spec = getattr(env, "spec", None)
        name = repr(spec.id) if spec else "the name it is registered under"
        raise ValueError(
            f"env must be an Env of markovlens.envs.env, got Gymnasium's {type(env).__name__}: "
            f"give its name in the config instead, PPOConfig(env={name})"
        )
    raise ValueError(
        f"env must be an Env of markovlens.envs.env, got {type(env).__name__}: derive its class "
        "from Env"
    )


def _check_layers(env: Env) -> None:
    """What can be told without a step, from the inside out: wrappers trust what they wrap."""
    if isinstance(env, Wrapper):
        _check_layers(env.env)
    _check_problem(env)
    _check_types(env)


def _check_problem(env: Env) -> None:
    if not isinstance(env.gamma, Real) or not 0.0 <= env.gamma <= 1.0:
        _refuse(env, "gamma", "a number from 0 to 1", repr(env.gamma))
    for which in ("observation_space", "action_space"):
        space = getattr(env, which)
        if not isinstance(space, Space):
            expected = "a Discrete, Binary or Box of markovlens.envs.spaces"
            _refuse(env, which, expected, f"a {type(space).__module__}.{type(space).__name__}")


def _check_types(env: Env) -> None:
    key = jax.random.key(0)
    state, seen = _abstract(env, "reset", "a pair (state, observation)", env.reset, key)
    _check_observation(env, "reset", seen)
    noise = jax.eval_shape(lambda key: _arrays(env, "noise", env.noise(key)), key)
    action = jax.eval_shape(env.action_space.sample, key)
    after, step = _abstract(
        env, "transition", "a pair (state, Step)", env.transition, state, action, noise
    )
    if not isinstance(step, Step):
        got = f"a {type(step).__name__} in its second place"
        _refuse(env, "transition", "a pair (state, Step)", got)
    _check_same(env, state, after)
    _check_observation(env, "transition", step.observation)
    if step.observation.dtype != seen.dtype:
        expected = f"observations of {seen.dtype}, as reset does"
        _refuse(env, "transition", expected, str(step.observation.dtype))
    if not _is(step.reward, (), jnp.number):
        _refuse(env, "transition", "a reward that is one number", _kind(step.reward))
    for flag in ("terminated", "truncated"):
        if not _is(getattr(step, flag), (), jnp.bool_):
            _refuse(env, "transition", f"{flag} as one bool", _kind(getattr(step, flag)))
    if env.masks_actions:
        mask = jax.eval_shape(env.action_mask, state)
        size = env.action_space.flat_size
        if not _is(mask, (size,), jnp.bool_):
            _refuse(env, "action_mask", f"bool of shape {[size]}", _kind(mask))


def _abstract(env: Env, method: str, expected: str, function: Callable, *args: Any) -> Any:
    """The shapes and dtypes of what a method returns, which must be a pair of trees of arrays."""

    def pair(*args: Any) -> Any:
        result = function(*args)
        if not isinstance(result, tuple) or len(result) != 2:
            size = f" of {len(result)}" if isinstance(result, tuple) else ""
            _refuse(env, method, expected, f"a {type(result).__name__}{size}")
        return _arrays(env, method, result)

    return jax.eval_shape(pair, *args)


def _arrays(env: Env, method: str, tree: Any) -> Any:
    """The tree with its plain numbers as arrays."""

    def as_array(leaf: Any) -> Array:
        if not isinstance(leaf, jax.Array | np.ndarray | np.generic | Real):
            _refuse(env, method, "only arrays and numbers", f"a {type(leaf).__name__}, {leaf!r}")
        return jnp.asarray(leaf)

    return jax.tree.map(as_array, tree)


def _check_observation(env: Env, method: str, seen: Any) -> None:
    space = env.observation_space
    shape, dtype = _form(space)
    if not _is(seen, shape, dtype):
        name = "integers" if dtype is jnp.integer else "floats"
        expected = f"observations that are {name} of shape {list(shape)}, to fit {space}"
        _refuse(env, method, expected, _kind(seen))


def _form(space: Space) -> tuple[tuple[int, ...], Any]:
    """The shape and the kind of number that a space's values have."""
    if isinstance(space, Discrete):
        return (), jnp.integer
    return (space.n,) if isinstance(space, Binary) else space.shape, jnp.floating


def _check_same(env: Env, state: Any, after: Any) -> None:
    """A loop carries the state, so it must look the same after every step."""
    expected: Any = jax.tree.structure(state)
    got: Any = jax.tree.structure(after)
    if got != expected:
        _refuse(env, "transition", f"a state like reset's, {expected}", str(got))
    old_leaves = jax.tree_util.tree_leaves_with_path(state)
    for (path, old), new in zip(old_leaves, jax.tree.leaves(after), strict=True):
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            where = f"state{jax.tree_util.keystr(path)}"
            _refuse(env, "transition", f"{where} like reset's, {_kind(old)}", _kind(new))


def _is(value: Any, shape: tuple[int, ...], dtype: Any) -> bool:
    known = isinstance(value, jax.ShapeDtypeStruct)
    return known and value.shape == shape and jnp.issubdtype(value.dtype, dtype)


def _kind(value: Any) -> str:
    if isinstance(value, jax.ShapeDtypeStruct):
        return f"{value.dtype} of shape {list(value.shape)}"
    return "None" if value is None else f"a {type(value).__name__}"


def _refuse(env: Env, what: str, expected: str, got: str) -> NoReturn:
    raise ValueError(f"{_name(env)}.{what}: expected {expected}, got {got}")


def _name(env: Any) -> str:
    name = type(env).__name__
    return f"{name}({_name(env.env)})" if isinstance(env, Wrapper) else name


def _check_values(env: Env) -> None:
    """Random play. Two small programs compile in a moment, one that plays by itself does not."""
    reset = jax.jit(lambda key: env.reset(key))
    move = jax.jit(lambda key, state: _random_move(env, key, state))
    for episode in range(EPISODES):
        start_key, *keys = jax.random.split(jax.random.key(episode), 1 + STEPS)
        state, seen = reset(start_key)
        _check_seen(env, "reset", jax.device_get(seen))
        for time, key in enumerate(keys, start=1):
            allowed, state, step = move(key, state)
            step = jax.device_get(step)
            _check_step(env, time, allowed, step)
            if step.ended:
                break


def _random_move(
    env: Env, key: PRNGKeyArray, state: Any
) -> tuple[Bool[Array, "A"] | None, Any, Step]:
    """What was allowed, and what one of these actions led to."""
    act_key, step_key = jax.random.split(key)
    allowed, action = None, env.action_space.sample(act_key)
    if env.masks_actions:
        allowed = env.action_mask(state)
        action = jax.random.categorical(act_key, jnp.where(allowed, 0.0, -jnp.inf))
    return allowed, *env.step(step_key, state, action)


def _check_step(env: Env, time: int, allowed: Array | None, step: Step) -> None:
    if allowed is not None and not allowed.any():
        _refuse(env, "action_mask", "at least one action that is allowed", "none")
    _check_seen(env, "transition", step.observation)
    if not np.isfinite(step.reward):
        _refuse(env, "transition", "a finite reward", str(step.reward))
    if step.terminated and step.truncated:
        _refuse(env, "transition", "terminated or truncated or neither", "both at once")
    # Learning bootstraps from as many truncated episodes as the time limit allows for.
    if step.truncated and (env.time_limit is None or time < env.time_limit):
        expected = f"at most {time}, after which an episode was truncated"
        _refuse(env, "time_limit", expected, f"{env.time_limit}; or leave that to TimeLimit")


def _check_seen(env: Env, method: str, observation: Array) -> None:
    value, space = np.asarray(observation), _but_for_rounding(env.observation_space)
    if not np.isfinite(value).all() or not space.contains(observation):
        got = f"values from {value.min():g} to {value.max():g}" if value.ndim else str(value)
        _refuse(env, method, f"finite observations in {env.observation_space}", got)


def _but_for_rounding(space: Space) -> Space:
    """The space, and what arithmetic in 32 bits makes of values at its bounds."""
    if not isinstance(space, Box):
        return space
    low, high = (ROUNDING * max(1.0, abs(bound)) for bound in (space.low, space.high))
    return Box(space.shape, space.low - low, space.high + high)

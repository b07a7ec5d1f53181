"""Many copies of an environment, stepped together, restarted when they end.

Restarting does not compute a reset for every copy at every step. Before a
rollout of L steps, as many fresh starts are drawn for each copy as it can use
up, at most 1 + (L-1) // shortest_episode; they are handed out in order, each
once, and what is left over is thrown away.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from markovlens.envs.env import Env

Carry = TypeVar("Carry")


class VectorState(eqx.Module):
    """N copies between two steps."""

    env_state: Any  # leaves [N, ...]
    observation: Array  # [N, ...], what is seen now
    first: Bool[Array, "N"]  # whether that observation opens an episode


class Supplies(eqx.Module):
    """Everything random that a rollout can need."""

    noise: Any  # leaves [L, N, ...]
    start_state: Any  # leaves [N, K, ...]
    start_observation: Array  # [N, K, ...]


class Transitions(eqx.Module):
    """A rollout; leaves [L, N, ...].

    `next_observation` is what the action led to: at the end of an episode the
    final observation, not the first one of the next.
    """

    observation: Array
    first: Bool[Array, "L N"]
    action: Array
    reward: Float[Array, "L N"]
    terminated: Bool[Array, "L N"]
    truncated: Bool[Array, "L N"]
    next_observation: Array


def vector_reset(env: Env, key: PRNGKeyArray, n: int) -> VectorState:
    """N independent fresh starts."""
    env_state, observation = jax.vmap(env.reset)(jax.random.split(key, n))
    return VectorState(env_state, observation, jnp.ones(n, dtype=bool))


def draw_supplies(env: Env, key: PRNGKeyArray, n: int, length: int) -> Supplies:
    """The noise of every step and the starts after every possible end, drawn at once."""
    noise_key, start_key = jax.random.split(key)
    n_starts = 1 + (length - 1) // env.shortest_episode
    noise = jax.vmap(jax.vmap(env.noise))(jax.random.split(noise_key, (length, n)))
    starts = jax.vmap(jax.vmap(env.reset))(jax.random.split(start_key, (n, n_starts)))
    return Supplies(noise, *starts)


def unroll(
    env: Env,
    act: Callable[[Carry, VectorState, Any], tuple[Carry, Array, Any]],
    carry: Carry,
    state: VectorState,
    key: PRNGKeyArray,
    length: int,
    inputs: Any = None,
) -> tuple[Carry, VectorState, Transitions, Any]:
    """Step N environments `length` times with automatic restarts.

    `act(carry, state, inputs_t) -> carry, action[N], extra` chooses the actions;
    `inputs` (leaves [L, ...]) is handed to it step by step. Returns the last carry
    and state, the transitions, and what `act` gave as extra, stacked over time.
    """
    n = state.first.shape[0]
    supplies = draw_supplies(env, key, n, length)

    def one_step(
        loop: tuple[Carry, VectorState, Int[Array, "N"]], xs: tuple[Any, Any]
    ) -> tuple[tuple[Carry, VectorState, Int[Array, "N"]], tuple[Transitions, Any]]:
        carry, state, used = loop
        noise, inputs_t = xs
        carry, action, extra = act(carry, state, inputs_t)
        env_state, step = jax.vmap(env.transition)(state.env_state, action, noise)
        ended = step.ended
        start_state, start_observation = jax.vmap(_pick)(
            (supplies.start_state, supplies.start_observation), used
        )
        after = VectorState(
            _where(ended, start_state, env_state),
            _where(ended, start_observation, step.observation),
            ended,
        )
        transition = Transitions(
            state.observation,
            state.first,
            action,
            step.reward,
            step.terminated,
            step.truncated,
            step.observation,
        )
        return (carry, after, used + ended), (transition, extra)

    loop = (carry, state, jnp.zeros(n, dtype=jnp.int32))
    (carry, state, _), (transitions, extras) = jax.lax.scan(
        one_step, loop, (supplies.noise, inputs), length=length
    )
    return carry, state, transitions, extras


def _pick(starts: Any, index: Int[Array, ""]) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], starts)


def _where(condition: Bool[Array, "N"], if_true: Any, if_false: Any) -> Any:
    def select(a: Array, b: Array) -> Array:
        return jnp.where(condition.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(select, if_true, if_false)

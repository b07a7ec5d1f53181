"""Many copies of an environment, stepped together, restarted when they end.

Everything random is drawn outside the loop over time: the noise of every step at once, and the
starts of new episodes as a stock to hand out from (`starts.py`), so that no reset is computed for
an environment that goes on.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from markovlens.envs.env import Env
from markovlens.envs.packed import Packed
from markovlens.envs.starts import Starts, draw_starts, pack, restock, stock_size, where

Carry = TypeVar("Carry")


class VectorState(eqx.Module):
    """N copies between two steps."""

    env_state: Any  # leaves [N, ...]
    observation: Array  # [N, ...], what is seen now
    first: Bool[Array, "N"]  # whether that observation opens an episode


class Supplies(eqx.Module):
    """Everything random that a rollout begins with."""

    noise: Any  # leaves [L, N, ...]
    starts: Starts


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
    """The noise of every step, and a stock of starts for the episodes to come."""
    noise_key, start_key = jax.random.split(key)
    noise = jax.vmap(jax.vmap(env.noise))(jax.random.split(noise_key, (length, n)))
    return Supplies(noise, draw_starts(env, start_key, n, stock_size(env, n, length)))


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
    copies = jnp.arange(n)
    supplies = draw_supplies(env, key, n, length)

    def one_step(
        loop: tuple[Carry, Packed, Array, Starts], xs: tuple[Any, Any]
    ) -> tuple[tuple[Carry, Packed, Array, Starts], tuple[Transitions, Any]]:
        carry, packed, observation, starts = loop
        noise, inputs_t = xs
        state = _unpacked(packed, observation)
        carry, action, extra = act(carry, state, inputs_t)
        env_state, step = jax.vmap(env.transition)(state.env_state, action, noise)
        starts = restock(env, starts)
        gone_on = pack(env_state, jnp.zeros(n, dtype=bool)), step.observation
        packed, observation = where(step.ended, starts.of(copies), gone_on)
        starts = eqx.tree_at(lambda s: s.used, starts, starts.used + step.ended)
        transition = Transitions(
            state.observation,
            state.first,
            action,
            step.reward,
            step.terminated,
            step.truncated,
            step.observation,
        )
        return (carry, packed, observation, starts), (transition, extra)

    packed = pack(state.env_state, state.first)
    (carry, packed, observation, _), (transitions, extras) = jax.lax.scan(
        one_step,
        (carry, packed, state.observation, supplies.starts),
        (supplies.noise, inputs),
        length=length,
    )
    return carry, _unpacked(packed, observation), transitions, extras


def _unpacked(packed: Packed, observation: Array) -> VectorState:
    env_state, first = packed.unpack()
    return VectorState(env_state, observation, first)

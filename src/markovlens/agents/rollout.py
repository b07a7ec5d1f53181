"""Collecting experience: the network acts, and remembers what it will be trained on."""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from markovlens.agents.acting import choose, within
from markovlens.agents.actions import action_distribution
from markovlens.agents.networks import ActorCritic
from markovlens.envs.env import Env
from markovlens.envs.vector import VectorState, unroll


class Rollout(eqx.Module):
    """L steps of N environments, as the agent lived them; observations are flat."""

    observation: Float[Array, "L N I"]
    first: Bool[Array, "L N"]
    action: Array  # [L, N, ...], as sampled, before any clipping to the action space
    allowed: Bool[Array, "L N A"] | None
    reward: Float[Array, "L N"]
    terminated: Bool[Array, "L N"]
    truncated: Bool[Array, "L N"]
    next_observation: Float[Array, "L N I"]  # the final one where an episode ended
    start_memory: Float[Array, "N M"]  # before the first step
    memories: Float[Array, "L N M"]  # after each observation

    @property
    def ended(self) -> Bool[Array, "L N"]:
        return self.terminated | self.truncated


def collect(
    env: Env,
    network: ActorCritic,
    memory: Float[Array, "N M"],
    state: VectorState,
    key: PRNGKeyArray,
    length: int,
    greedy: bool = False,
) -> tuple[Float[Array, "N M"], VectorState, Rollout]:
    """Act for `length` steps; the last memory and state go into the next call."""
    distribution = action_distribution(env.action_space)
    noise_key, env_key = jax.random.split(key)
    noise = distribution.noise(noise_key, (length, state.first.shape[0]))
    actor = network.without_critics()
    flatten = jax.vmap(env.observation_space.flatten)

    def act(memory: Array, state: VectorState, noise_t: Array) -> tuple[Array, Array, Any]:
        allowed = jax.vmap(env.action_mask)(state.env_state) if env.masks_actions else None
        seen, chance = flatten(state.observation), None if greedy else noise_t
        memory, _, action = choose(
            actor, env.action_space, seen, memory, state.first, allowed, chance
        )
        return memory, within(env.action_space, action), (memory, action, allowed)

    last_memory, state, seen, (memories, action, allowed) = unroll(
        env, act, memory, state, env_key, length, noise
    )
    rollout = Rollout(
        observation=jax.vmap(flatten)(seen.observation),
        first=seen.first,
        action=action,
        allowed=allowed,
        reward=seen.reward,
        terminated=seen.terminated,
        truncated=seen.truncated,
        next_observation=jax.vmap(flatten)(seen.next_observation),
        start_memory=memory,
        memories=memories,
    )
    return last_memory, state, rollout


def max_truncations(env: Env, length: int) -> int:
    """How often one environment's episodes can be truncated in `length` steps."""
    return 0 if env.time_limit is None else 1 + (length - 1) // env.time_limit

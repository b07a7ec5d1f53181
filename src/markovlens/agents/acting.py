"""One step of acting, wherever an agent acts: in training, outside, or watched."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from markovlens.agents.actions import action_distribution, forbid
from markovlens.agents.networks import Actor, Outputs
from markovlens.envs.spaces import Box, Space


def choose(
    network: Actor,
    space: Space,
    seen: Float[Array, "N I"],
    memory: Float[Array, "N M"],
    first: Bool[Array, "N"],
    allowed: Bool[Array, "N A"] | None,
    noise: Array | None,
) -> tuple[Float[Array, "N M"], Outputs, Array]:
    """The memory with what is seen in it, what the network says, and an action in `space`: drawn
    with the noise, the most likely one without."""
    distribution = action_distribution(space)
    memory, said = network.act(seen, memory, first)
    outputs = forbid(said.action, allowed)
    action = distribution.mode(outputs) if noise is None else distribution.sample(outputs, noise)
    return memory, Outputs(outputs, said.value), action


def within(space: Space, action: Array) -> Array:
    """The action as the environment may see it: clipped to a bounded space."""
    return jnp.clip(action, space.low, space.high) if isinstance(space, Box) else action

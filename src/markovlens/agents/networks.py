"""The agent's network: encoder, memory, and heads for the actor and one or two critics.

    observation → dense → ReLU → cell → dense → z,   z → actor,   z → critic 1 (, critic 2)

The actor and every critic are two dense layers with a ReLU between them; their
first layers lie side by side in one matrix.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from markovlens.agents.cell import Cell
from markovlens.agents.cells import CELLS
from markovlens.agents.config import CellName
from markovlens.agents.layers import Dense, dense, orthogonal

HIDDEN_GAIN, HEAD_GAIN, VALUE_GAIN, LOGIT_GAIN = 2**0.5, 2.0, 1.0, 0.01


class Outputs(eqx.Module):
    """What the network says of each step."""

    action: Float[Array, "... P"]  # logits, or means and log standard deviations
    value: Float[Array, "... C"]  # of each critic


class Encoder(eqx.Module):
    """Dense and ReLU; with `again`, twice as wide, those entries of the input are then appended to
    it and a second dense layer with ReLU follows."""

    first: Dense
    second: Dense | None
    again: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, n_in: int, n_hidden: int, again: tuple[int, ...], rng: np.random.Generator):
        if any(not 0 <= i < n_in for i in again):
            raise ValueError(
                f"feed_again names entries of an observation that has {n_in}: got {list(again)}"
            )
        width = 2 * n_hidden if again else n_hidden
        self.first = dense(n_in, width, rng, HIDDEN_GAIN)
        self.second = dense(width + len(again), n_hidden, rng, HIDDEN_GAIN) if again else None
        self.again = again

    def __call__(self, x: Float[Array, "... I"]) -> Float[Array, "... H"]:
        features = self.first.relu(x)
        if self.second is None:
            return features
        repeated = jnp.stack([x[..., i] for i in self.again], axis=-1)
        return self.second.relu(jnp.concatenate([features, repeated], axis=-1))


class ActorCritic(eqx.Module):
    """Everything the agent learns."""

    encoder: Encoder
    cell: Cell
    latent: Dense
    heads: Dense  # H -> (1 + C) H: the actor's hidden layer, then each critic's
    actor: Dense
    value_weight: Float[Array, "C H"]
    value_bias: Float[Array, "C"]
    log_sd: Float[Array, "n"] | None  # continuous actions only

    def memory(self, n: int) -> Float[Array, "{n} M"]:
        """What an agent remembers before it has seen anything."""
        return jnp.zeros((n, self.cell.memory_size))

    def step(
        self, x: Float[Array, "N I"], memory: Float[Array, "N M"], first: Bool[Array, "N"]
    ) -> Float[Array, "N M"]:
        """The memory with one more observation in it."""
        memory = jnp.where(first[:, None], 0.0, memory)
        return self.cell.step(self.cell.project(self.encoder(x)), memory)

    def sequence(
        self, x: Float[Array, "T N I"], memory: Float[Array, "N M"], first: Bool[Array, "T N"]
    ) -> Float[Array, "T N M"]:
        """The memories after each step: `step` in a loop, but fast."""
        return self.cell.sequence(self.cell.project(self.encoder(x)), memory, first)

    def outputs(self, memory: Float[Array, "... M"]) -> Outputs:
        """The actor's and the critics' outputs, given what is remembered."""
        hidden = self.heads.relu(self.latent(self.cell.output(memory)))
        n_critics, size = self.value_weight.shape
        action = self.actor(hidden[..., :size])
        if self.log_sd is not None:
            spread = jnp.broadcast_to(self.log_sd, action.shape)
            action = jnp.concatenate([action, spread], axis=-1)
        by_critic = hidden[..., size:].reshape(*hidden.shape[:-1], n_critics, size)
        value = jnp.einsum("...ch,ch->...c", by_critic, self.value_weight)
        return Outputs(action, value + jnp.broadcast_to(self.value_bias, value.shape))

    def without_critics(self) -> "ActorCritic":
        """The same actor, for use where values are not needed."""
        size = self.actor.weight.shape[0]
        heads = Dense(self.heads.weight[:, :size], self.heads.bias[:size])
        return eqx.tree_at(
            lambda net: (net.heads, net.value_weight, net.value_bias),
            self,
            (heads, self.value_weight[:0], self.value_bias[:0]),
        )


def actor_critic(
    n_in: int,
    n_outputs: int,
    n_hidden: int,
    n_critics: int,
    cell: CellName,
    rng: np.random.Generator,
    again: tuple[int, ...] = (),
    continuous: bool = False,
) -> ActorCritic:
    """A fresh network: orthogonal weights, zero biases.

    Gains are √2 for hidden layers, 2 for the heads' first layers, 1 for values, 0.01 for logits.
    """
    n_actor = n_outputs // 2 if continuous else n_outputs
    values = [orthogonal(n_hidden, 1, rng, VALUE_GAIN)[:, 0] for _ in range(n_critics)]
    return ActorCritic(
        encoder=Encoder(n_in, n_hidden, again, rng),
        cell=CELLS[cell](n_hidden, n_hidden, rng),
        latent=dense(n_hidden, n_hidden, rng, HIDDEN_GAIN),
        heads=dense(n_hidden, n_hidden, rng, HEAD_GAIN, blocks=1 + n_critics),
        actor=dense(n_hidden, n_actor, rng, LOGIT_GAIN),
        value_weight=jnp.stack(values),
        value_bias=jnp.zeros(n_critics),
        log_sd=jnp.zeros(n_actor) if continuous else None,
    )

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
from markovlens.agents.gru import GRU
from markovlens.agents.layers import Dense, dense, orthogonal
from markovlens.agents.native.actor import actor_step, pack_layers
from markovlens.agents.native.dense import many
from markovlens.agents.native.outputs import output_layers
from markovlens.agents.native.recurrence import fits

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
        rows = hidden.reshape(-1, hidden.shape[-1])
        if many(len(rows)):
            action, value = output_layers(
                rows, self.actor.weight, self.actor.bias, self.value_weight, self.value_bias
            )
        else:
            action = self.actor(rows[:, :size])
            by_critic = rows[:, size:].reshape(len(rows), n_critics, size)
            value = jnp.einsum("nch,ch->nc", by_critic, self.value_weight) + self.value_bias[None]
        action = _with_spread(action, self.log_sd)
        shape = hidden.shape[:-1]
        return Outputs(action.reshape(*shape, -1), value.reshape(*shape, n_critics))

    def act(
        self, x: Float[Array, "N I"], memory: Float[Array, "N M"], first: Bool[Array, "N"]
    ) -> tuple[Float[Array, "N M"], Outputs]:
        """A step, and what the network says then."""
        memory = self.step(x, memory, first)
        return memory, self.outputs(memory)

    def without_critics(self) -> "Actor":
        """The same actor, to `act` with for many steps where values are not needed."""
        size = self.actor.weight.shape[0]
        heads = Dense(self.heads.weight[:, :size], self.heads.bias[:size])
        if isinstance(self.cell, GRU) and fits(size):
            return NativeActor(self.encoder, self.cell, self.latent, heads, self.actor, self.log_sd)
        return eqx.tree_at(
            lambda net: (net.heads, net.value_weight, net.value_bias),
            self,
            (heads, self.value_weight[:0], self.value_bias[:0]),
        )


class NativeActor(eqx.Module):
    """An actor with a GRU, whose steps are native code."""

    packed: Float[Array, "W"]
    log_sd: Float[Array, "n"] | None
    memory_size: int = eqx.field(static=True)
    encoder_width: int = eqx.field(static=True)
    again: tuple[int, ...] = eqx.field(static=True)
    n_outputs: int = eqx.field(static=True)

    def __init__(
        self,
        encoder: Encoder,
        cell: GRU,
        latent: Dense,
        heads: Dense,
        actor: Dense,
        log_sd: Float[Array, "n"] | None,
    ):
        recurrent = Dense(cell.recurrent, cell.recurrent_bias)
        second = [] if encoder.second is None else [encoder.second]
        layers = [encoder.first, *second, cell.inputs, recurrent, latent, heads, actor]
        self.packed = pack_layers([(layer.weight, layer.bias) for layer in layers])
        self.log_sd, self.memory_size = log_sd, cell.memory_size
        self.encoder_width, self.again = encoder.first.bias.size, encoder.again
        self.n_outputs = actor.bias.size

    def memory(self, n: int) -> Float[Array, "{n} M"]:
        """What an agent remembers before it has seen anything."""
        return jnp.zeros((n, self.memory_size))

    def act(
        self, x: Float[Array, "N I"], memory: Float[Array, "N M"], first: Bool[Array, "N"]
    ) -> tuple[Float[Array, "N M"], Outputs]:
        """A step, and what the actor says then; no values."""
        memory, action = actor_step(
            self.packed, self.encoder_width, self.again, self.n_outputs, x, memory, first
        )
        return memory, Outputs(_with_spread(action, self.log_sd), jnp.zeros((len(memory), 0)))


Actor = ActorCritic | NativeActor  # what can `act`


def _with_spread(
    action: Float[Array, "... n"], log_sd: Float[Array, "n"] | None
) -> Float[Array, "... P"]:
    """Logits as they are; means with their log standard deviations behind them."""
    if log_sd is None:
        return action
    return jnp.concatenate([action, jnp.broadcast_to(log_sd, action.shape)], axis=-1)


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

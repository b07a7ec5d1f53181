"""What an agent remembers with: one small interface, four cells.

A cell splits its work in two: `project`, all that depends on the input alone
and is therefore done for a whole sequence in one matrix product, and the
recurrence, which must go step by step (or, for `MinGRU`, in parallel).
"""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from markovlens.agents.config import CellName
from markovlens.agents.layers import Dense, dense, orthogonal
from markovlens.agents.recurrence import recur


class Cell(eqx.Module):
    """A memory of `memory_size` numbers that takes in D numbers a step and puts out H.

    Time goes first, environments second: `[T, N, …]`.
    """

    @property
    @abc.abstractmethod
    def memory_size(self) -> int: ...

    @abc.abstractmethod
    def project(self, x: Float[Array, "... D"]) -> Float[Array, "... K"]:
        """What the input contributes, whatever the memory is."""

    @abc.abstractmethod
    def step(self, projected: Float[Array, "N K"], memory: Float[Array, "N M"]) -> Array:
        """The memory after one step, [N, M]."""

    @abc.abstractmethod
    def sequence(
        self,
        projected: Float[Array, "T N K"],
        memory: Float[Array, "N M"],
        first: Bool[Array, "T N"],
    ) -> Float[Array, "T N M"]:
        """The memories after each step; `step` in a loop, from zeros wherever `first`."""

    def output(self, memory: Float[Array, "... M"]) -> Float[Array, "... H"]:
        """What the rest of the network sees of the memory."""
        return memory


class GRU(Cell):
    """The gated recurrent unit, the paper's cell.

    r, z = σ(x W + h U),  n = tanh(x W_n + r (h U_n + b_n)),  h' = (1 - z) n + z h

    The reset gate acts on the product h U_n, so that all of h U is one matrix product.
    """

    inputs: Dense  # D -> 3H: reset, update, candidate
    recurrent: Float[Array, "H K"]
    bias: Float[Array, "H"]

    def __init__(self, n_in: int, n_hidden: int, rng: np.random.Generator):
        self.inputs, self.recurrent = _gates(n_in, n_hidden, 3, rng)
        self.bias = jnp.zeros(n_hidden)

    @property
    def memory_size(self) -> int:
        return self.recurrent.shape[0]

    def project(self, x: Float[Array, "... D"]) -> Float[Array, "... K"]:
        return self.inputs(x)

    def step(self, projected: Float[Array, "N K"], memory: Float[Array, "N H"]) -> Array:
        return _gru(projected, memory @ self.recurrent + self._bias[None], memory)

    def sequence(
        self,
        projected: Float[Array, "T N K"],
        memory: Float[Array, "N H"],
        first: Bool[Array, "T N"],
    ) -> Float[Array, "T N H"]:
        return recur(_gru, projected, memory, first, self.recurrent, self._bias)

    @property
    def _bias(self) -> Float[Array, "K"]:
        return jnp.pad(self.bias, (2 * self.bias.shape[0], 0))


def _gru(
    x: Float[Array, "N K"], gates: Float[Array, "N K"], memory: Float[Array, "N H"]
) -> Float[Array, "N H"]:
    x_r, x_z, x_n = jnp.split(x, 3, axis=-1)
    g_r, g_z, g_n = jnp.split(gates, 3, axis=-1)
    reset, update = jax.nn.sigmoid(x_r + g_r), jax.nn.sigmoid(x_z + g_z)
    candidate = jnp.tanh(x_n + reset * g_n)
    return candidate + update * (memory - candidate)


class LSTM(Cell):
    """Long short-term memory; its memory is the cell state and the hidden state, [c, h].

    i, f, o = σ(x W + h U),  c' = f c + i tanh(x W_c + h U_c),  h' = o tanh(c')

    The forget gate's bias starts at 1.
    """

    inputs: Dense  # D -> 4H: input, forget, output, candidate
    recurrent: Float[Array, "H K"]

    def __init__(self, n_in: int, n_hidden: int, rng: np.random.Generator):
        inputs, self.recurrent = _gates(n_in, n_hidden, 4, rng)
        remember = inputs.bias.at[n_hidden : 2 * n_hidden].set(1.0)
        self.inputs = eqx.tree_at(lambda layer: layer.bias, inputs, remember)

    @property
    def memory_size(self) -> int:
        return 2 * self.recurrent.shape[0]

    def project(self, x: Float[Array, "... D"]) -> Float[Array, "... K"]:
        return self.inputs(x)

    def step(self, projected: Float[Array, "N K"], memory: Float[Array, "N M"]) -> Array:
        return _lstm(projected, self.output(memory) @ self.recurrent, memory)

    def sequence(
        self,
        projected: Float[Array, "T N K"],
        memory: Float[Array, "N M"],
        first: Bool[Array, "T N"],
    ) -> Float[Array, "T N M"]:
        no_bias = jnp.zeros(self.recurrent.shape[1])
        return recur(_lstm, projected, memory, first, self.recurrent, no_bias)

    def output(self, memory: Float[Array, "... M"]) -> Float[Array, "... H"]:
        return memory[..., self.recurrent.shape[0] :]


def _lstm(
    x: Float[Array, "N K"], gates: Float[Array, "N K"], memory: Float[Array, "N M"]
) -> Float[Array, "N M"]:
    kept, _ = jnp.split(memory, 2, axis=-1)
    admit, keep, show, candidate = jnp.split(x + gates, 4, axis=-1)
    kept = jax.nn.sigmoid(keep) * kept + jax.nn.sigmoid(admit) * jnp.tanh(candidate)
    return jnp.concatenate([kept, jax.nn.sigmoid(show) * jnp.tanh(kept)], axis=-1)


class MinGRU(Cell):
    """The minimal GRU, whose gate does not look at the memory: all steps at once, in log T.

    z = σ(x W_z),  h' = (1 - z) h + z (x W_n)
    """

    inputs: Dense  # D -> 2H: update, candidate

    def __init__(self, n_in: int, n_hidden: int, rng: np.random.Generator):
        self.inputs, _ = _gates(n_in, n_hidden, 2, rng)

    @property
    def memory_size(self) -> int:
        return self.inputs.bias.shape[0] // 2

    def project(self, x: Float[Array, "... D"]) -> Float[Array, "... K"]:
        return self.inputs(x)

    def step(self, projected: Float[Array, "N K"], memory: Float[Array, "N H"]) -> Array:
        keep, add = self._keep_and_add(projected)
        return keep * memory + add

    def sequence(
        self,
        projected: Float[Array, "T N K"],
        memory: Float[Array, "N H"],
        first: Bool[Array, "T N"],
    ) -> Float[Array, "T N H"]:
        keep, add = self._keep_and_add(projected)
        keep = jnp.where(first[..., None], 0.0, keep)
        add = add.at[0].add(keep[0] * memory)
        return jax.lax.associative_scan(_compose, (keep, add))[1]

    def _keep_and_add(self, projected: Float[Array, "... K"]) -> tuple[Array, Array]:
        gate, candidate = jnp.split(projected, 2, axis=-1)
        update = jax.nn.sigmoid(gate)
        return 1.0 - update, update * candidate


def _compose(early: tuple[Array, Array], late: tuple[Array, Array]) -> tuple[Array, Array]:
    """h -> a h + b, one after the other."""
    (a, b), (c, d) = early, late
    return a * c, b * c + d


class NoMemory(Cell):
    """A dense layer in place of a memory: it forgets all but the present input."""

    inputs: Dense

    def __init__(self, n_in: int, n_hidden: int, rng: np.random.Generator):
        self.inputs = dense(n_in, n_hidden, rng, gain=2**0.5)

    @property
    def memory_size(self) -> int:
        return self.inputs.bias.shape[0]

    def project(self, x: Float[Array, "... D"]) -> Float[Array, "... K"]:
        return jax.nn.relu(self.inputs(x))

    def step(self, projected: Float[Array, "N H"], memory: Float[Array, "N H"]) -> Array:
        return projected

    def sequence(
        self,
        projected: Float[Array, "T N H"],
        memory: Float[Array, "N H"],
        first: Bool[Array, "T N"],
    ) -> Float[Array, "T N H"]:
        return projected


CELLS: dict[CellName, Callable[[int, int, np.random.Generator], Cell]] = {
    "gru": GRU,
    "lstm": LSTM,
    "mingru": MinGRU,
    "none": NoMemory,
}


def _gates(n_in: int, n_hidden: int, n: int, rng: np.random.Generator) -> tuple[Dense, Array]:
    """The input layer of n gates (LeCun normal) and their recurrent weights (orthogonal blocks)."""
    weight = jnp.asarray(rng.normal(size=(n_in, n * n_hidden)) / n_in**0.5, dtype=jnp.float32)
    blocks = [orthogonal(n_hidden, n_hidden, rng) for _ in range(n)]
    return Dense(weight, jnp.zeros(n * n_hidden)), jnp.concatenate(blocks, axis=1)

"""What an agent remembers with: the interface that every memory cell keeps.

A cell splits its work in two: `project`, all that depends on the input alone
and is therefore done for a whole sequence in one matrix product, and the
recurrence, which must go step by step (or, for `MinGRU`, in parallel).
"""

import abc

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from markovlens.agents.layers import Dense, orthogonal


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


def gate_weights(n_in: int, n_hidden: int, n: int, rng: np.random.Generator) -> tuple[Dense, Array]:
    """The input layer of n gates (LeCun normal) and their recurrent weights (orthogonal blocks)."""
    weight = jnp.asarray(rng.normal(size=(n_in, n * n_hidden)) / n_in**0.5, dtype=jnp.float32)
    blocks = [orthogonal(n_hidden, n_hidden, rng) for _ in range(n)]
    return Dense(weight, jnp.zeros(n * n_hidden)), jnp.concatenate(blocks, axis=1)

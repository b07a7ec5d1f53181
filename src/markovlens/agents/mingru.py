"""The minimal GRU: a memory that is computed for all steps at once."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from markovlens.agents.cell import Cell, gate_weights
from markovlens.agents.layers import Dense


class MinGRU(Cell):
    """The minimal GRU, whose gate does not look at the memory: all steps at once, in log T.

    z = σ(x W_z),  h' = (1 - z) h + z (x W_n)
    """

    inputs: Dense  # D -> 2H: update, candidate

    def __init__(self, n_in: int, n_hidden: int, rng: np.random.Generator):
        self.inputs, _ = gate_weights(n_in, n_hidden, 2, rng)

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

"""The memory cells by name."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Array, Bool, Float

from markovlens.agents.cell import Cell
from markovlens.agents.config import CellName
from markovlens.agents.gru import GRU
from markovlens.agents.layers import Dense, dense
from markovlens.agents.lstm import LSTM
from markovlens.agents.mingru import MinGRU


class NoMemory(Cell):
    """A dense layer in place of a memory: it forgets all but the present input."""

    inputs: Dense

    def __init__(self, n_in: int, n_hidden: int, rng: np.random.Generator):
        self.inputs = dense(n_in, n_hidden, rng, gain=2**0.5)

    @property
    def memory_size(self) -> int:
        return self.inputs.bias.shape[0]

    def project(self, x: Float[Array, "... D"]) -> Float[Array, "... K"]:
        return self.inputs.relu(x)

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

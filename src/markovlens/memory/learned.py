"""What memory learning gives back."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Array, Float

from markovlens.memory.config import MemoryConfig


@dataclass(frozen=True, eq=False)
class LearnedMemory:
    """A memory, the policy that uses it, and how they came about.

    Attributes:
        memory: `memory[o, a, m, m']`, probabilities; it starts in state 0.
        policy: `policy[o, m, a]`, probabilities.
        value: expected discounted return of the two.
        revealing_policy: `[o, a]`, or `[o, m, a]` if it was chosen with a random memory: the
            policy whose λ-discrepancy the memory was fitted to.
        initial_discrepancy: its λ-discrepancy before the memory was learned.
        discrepancy: its λ-discrepancy with `memory`. The policy-weighted norm sums over memory
            states, so that a useless memory of n states would raise it by a factor of √n.
        history: for each stage that was run, the squared λ-discrepancy (reveal, memory) or the
            return (policy, joint, polish) at the end of every 250 steps.
        restart: which of the restarts this is.
        seed, config: what it was learned with.
    """

    memory: Float[Array, "O A M M"]
    policy: Float[Array, "O M A"]
    value: float
    revealing_policy: Float[Array, "O A"] | Float[Array, "O M A"]
    initial_discrepancy: float
    discrepancy: float
    history: dict[str, Float[np.ndarray, "T"]]
    restart: int
    seed: int
    config: MemoryConfig

    @property
    def n_memory(self) -> int:
        return self.memory.shape[-1]

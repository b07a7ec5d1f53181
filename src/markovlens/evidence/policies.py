"""What can act: callables, tables, and policies that are compiled into the loop they act in."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from markovlens.values.inputs import check_distributions


@runtime_checkable
class BatchPolicy(Protocol):
    """A policy without memory that JAX can compile: it acts on what it sees now."""

    def check(self, observation_size: int, action_size: int) -> None:
        """ValueError if it is not for observations and actions of these sizes, flattened."""

    def actions(self, key: Any, observation: Any, allowed: Any) -> Any:
        """An action for each of N observations; `allowed[N, A]`, or None, says which may be."""


def check_table(policy: object, n_observations: int, n_actions: int) -> Float[np.ndarray, "O A"]:
    """A table `policy[o, a]` of probabilities, for an environment of so many of each."""
    if isinstance(policy, str) or hasattr(policy, "specs"):
        raise ValueError(
            "a policy is a function of the observation, a table, or RunPolicy(load_run(folder)) of "
            f"markovlens.agents.policy for a trained run; got {type(policy).__name__}"
        )
    if not (n_observations and n_actions):
        raise ValueError(
            "a policy table needs observations and actions that are numbered from 0; "
            "give a function of the observation instead"
        )
    table = np.asarray(policy, dtype=np.float64)
    if table.shape != (n_observations, n_actions):
        raise ValueError(
            f"a policy table here has shape [{n_observations}, {n_actions}], observations by "
            f"actions; got {list(table.shape)}"
        )
    check_distributions(table, "policy")
    return table


Policy = Callable[[Any], Any] | Float[np.ndarray, "O A"] | BatchPolicy | None

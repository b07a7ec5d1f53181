"""What can act: callables, tables, and policies that are compiled into the loop they act in."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float


@runtime_checkable
class BatchPolicy(Protocol):
    """A policy without memory that JAX can compile: it acts on what it sees now."""

    def check(self, observation_size: int, action_size: int) -> None:
        """ValueError if it is not for observations and actions of these sizes, flattened."""

    def actions(self, key: Any, observation: Any, allowed: Any) -> Any:
        """An action for each of N observations; `allowed[N, A]`, or None, says which may be."""


Policy = Callable[[Any], Any] | Float[np.ndarray, "O A"] | BatchPolicy | None

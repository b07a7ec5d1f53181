"""The door of the closed form: policies, memories and λ, checked before any work is done."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from markovlens.pomdp.model import ROW_SUM_TOLERANCE, Pomdp, normalised
from markovlens.precision import as_float64, is_traced


def check_policy_and_memory(
    pomdp: Pomdp, policy: ArrayLike, memory: ArrayLike | None
) -> tuple[Float[Array, "O M A"], Float[Array, "O A M M"]]:
    """Checked arrays with a memory axis; without a memory, the trivial one of a single state."""
    n_observations, n_actions = pomdp.n_observations, pomdp.n_actions
    if memory is None:
        policy = _checked(policy, (n_observations, n_actions), "policy", "[observation, action]")
        with jax.enable_x64(True):
            trivial = jnp.ones((n_observations, n_actions, 1, 1), dtype=jnp.float64)
            return jax.lax.expand_dims(policy, (1,)), trivial
    memory = check_memory(pomdp, memory)
    policy = _checked(
        policy,
        (n_observations, memory.shape[-1], n_actions),
        "policy",
        "[observation, memory, action]",
    )
    return policy, memory


def check_memory(pomdp: Pomdp, memory: ArrayLike) -> Float[Array, "O A M M"]:
    """μ(m'|o,a,m) as a checked array."""
    n_memory = np.shape(memory)[-1] if np.ndim(memory) else 0
    if n_memory == 0:
        raise ValueError("a memory needs at least one memory state")
    return _checked(
        memory,
        (pomdp.n_observations, pomdp.n_actions, n_memory, n_memory),
        "memory",
        "[observation, action, memory, next memory]",
    )


def check_lambda(lam: ArrayLike, name: str = "lam") -> Float[Array, ""]:
    """λ as a float64 scalar in [0, 1]."""
    if np.shape(lam) != ():
        raise ValueError(
            f"{name} must be a single number, got shape {list(np.shape(lam))}; "
            "use jax.vmap to sweep over λ"
        )
    if not is_traced(lam) and not 0.0 <= float(lam) <= 1.0:  # type: ignore[arg-type]
        raise ValueError(f"{name} must be in [0, 1], got {float(lam):g}")  # type: ignore[arg-type]
    return as_float64(lam)  # type: ignore[return-value]


def _checked(value: ArrayLike, shape: tuple[int, ...], name: str, axes: str) -> Array:
    value = value if isinstance(value, jax.Array) else np.asarray(value)
    if np.shape(value) != shape:
        raise ValueError(
            f"{name} must have shape {axes} = {list(shape)}, got {list(np.shape(value))}"
        )
    if is_traced(value):
        return as_float64(value)  # type: ignore[return-value]
    rows = np.asarray(value, dtype=np.float64)
    check_distributions(rows, name)
    return as_float64(normalised(rows))  # type: ignore[return-value]


def check_distributions(rows: np.ndarray, name: str) -> None:
    """Rows of probabilities: finite, not negative, summing to 1."""
    hint = "pass probabilities (for logits: jax.nn.softmax of them)"
    if not np.isfinite(rows).all():
        index = _first(~np.isfinite(rows))
        raise ValueError(f"{name}{list(index)} is not a finite number; {hint}")
    if (rows < 0.0).any():
        index = _first(rows < 0.0)
        raise ValueError(f"{name}{list(index)} is {rows[index]:g}, below 0; {hint}")
    sums = rows.sum(axis=-1)
    bad = np.abs(sums - 1.0) > ROW_SUM_TOLERANCE
    if bad.any():
        index = _first(bad)
        raise ValueError(f"{name}{list(index)} sums to {sums[index]:.6g}, expected 1; {hint}")


def _first(bad: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(bad)[0])

"""Where an agent spends its time, and what an observation says about the state."""

import jax
from jaxtyping import Array, ArrayLike, Float

from markovlens.pomdp.model import Pomdp
from markovlens.precision import in_float64
from markovlens.values.chain import Chain
from markovlens.values.inputs import check_policy_and_memory


def occupancy(
    pomdp: Pomdp, policy: ArrayLike, memory: ArrayLike | None = None
) -> Float[Array, "S"] | Float[Array, "S M"]:
    """Discounted expected visits c(s) = Σ_t γᵗ Pr(s_t = s), solving (I - γPᵀ) c = p0.

    They sum to 1 / (1 - γ). With γ = 1, terminal states count the visit that ends the episode.
    With `memory[o, a, m, m']` and `policy[o, m, a]`: c(s, m).
    """
    found = _occupancy(pomdp, *check_policy_and_memory(pomdp, policy, memory))
    return found[:, 0] if memory is None else found


def state_weights(
    pomdp: Pomdp, policy: ArrayLike, memory: ArrayLike | None = None
) -> Float[Array, "O S"] | Float[Array, "O M S"]:
    """W(s | o) ∝ c(s) Φ(o|s): how the hidden states share an observation.

    Rows of observations that are never seen are zero. With a memory: W(s | o, m).
    """
    found = _state_weights(pomdp, *check_policy_and_memory(pomdp, policy, memory))
    return found[:, 0] if memory is None else found


@in_float64
@jax.jit
def _occupancy(pomdp: Pomdp, policy: Array, memory: Array) -> Array:
    return Chain(pomdp, policy, memory).occupancy


@in_float64
@jax.jit
def _state_weights(pomdp: Pomdp, policy: Array, memory: Array) -> Array:
    return Chain(pomdp, policy, memory).weights

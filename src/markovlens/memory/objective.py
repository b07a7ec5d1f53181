"""What memory learning minimises and raises, for one policy and one memory; all differentiable.

Traced code: call it inside a float64 scope, with float64 arrays.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from markovlens.memory.config import MemoryConfig, View
from markovlens.memory.expand import fold_memory
from markovlens.pomdp.model import Pomdp
from markovlens.values.chain import Chain
from markovlens.values.discrepancy import discrepancy_weights
from markovlens.values.links import DENSE, ChainLinks
from markovlens.values.td_lambda import arrival_values, q_difference, td_arrival_values


def squared_discrepancy(
    pomdp: Pomdp,
    policy: Float[Array, "O M A"],
    memory: Float[Array, "O A M M"],
    config: MemoryConfig,
    links: ChainLinks = DENSE,
) -> Float[Array, ""]:
    """Λ², the square of `lambda_discrepancy`: Σ w Δ², or (max w |Δ|)².

    Without the root the gradient is smooth at zero. λ = 0 costs a solve over (o, m) only, and
    λ = 1 shares its factors with the occupancy.
    """
    chain = chain_of(pomdp, policy, memory, config.view, links)
    difference = q_difference(chain, _arrivals(chain, config.lam1) - _arrivals(chain, config.lam2))
    weights = discrepancy_weights(chain, config.weighting, of="q")
    if config.norm == "max":
        return (weights * jnp.abs(difference)).max() ** 2
    return (weights * difference**2).sum()


def discounted_return(
    pomdp: Pomdp,
    policy: Float[Array, "O M A"],
    memory: Float[Array, "O A M M"],
    view: View = "exact",
    links: ChainLinks = DENSE,
) -> Float[Array, ""]:
    """J = p0 · V_S(·, m = 0)."""
    chain = chain_of(pomdp, policy, memory, view, links)
    return (chain.pomdp.p0 * chain.state_values[:, 0]).sum()


def chain_of(
    pomdp: Pomdp,
    policy: Float[Array, "O M A"],
    memory: Float[Array, "O A M M"],
    view: View,
    links: ChainLinks = DENSE,
) -> Chain:
    """The chain of a real agent, or of the paper's P_μ, whose (o, m) are plain observations."""
    if view == "exact":
        return Chain(pomdp, policy, memory, links)
    folded = fold_memory(pomdp, memory)
    trivial = jnp.ones((folded.n_observations, folded.n_actions, 1, 1))
    return Chain(folded, policy.reshape(folded.n_observations, 1, folded.n_actions), trivial)


def _arrivals(chain: Chain, lam: float) -> Float[Array, "S M"]:
    if lam == 0.0:
        return td_arrival_values(chain)
    if lam == 1.0:
        return chain.state_values
    return arrival_values(chain, jnp.asarray(lam))

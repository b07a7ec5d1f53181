"""Memoryless policies to start from: `policy[o, a]`, probabilities."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from markovlens.pomdp.model import Pomdp


def uniform_policy(pomdp: Pomdp) -> Float[Array, "O A"]:
    """Every action equally likely whatever is seen."""
    with jax.enable_x64(True):
        shape = (pomdp.n_observations, pomdp.n_actions)
        return jnp.full(shape, 1.0 / pomdp.n_actions, dtype=jnp.float64)


def random_policy(pomdp: Pomdp, seed: int | Array = 0) -> Float[Array, "O A"]:
    """A policy drawn uniformly from the simplex, independently for each observation."""
    with jax.enable_x64(True):
        key = jax.random.key(seed)
        weights = jnp.ones(pomdp.n_actions, dtype=jnp.float64)
        return jax.random.dirichlet(key, weights, (pomdp.n_observations,), dtype=jnp.float64)

"""Memoryless policies to start from: `policy[o, a]`, probabilities."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from markovlens.pomdp.model import Pomdp


def uniform_policy(pomdp: Pomdp) -> Float[Array, "O A"]:
    """Every action equally likely whatever is seen."""
    with jax.enable_x64(True):
        shape = (pomdp.n_observations, pomdp.n_actions)
        return jnp.full(shape, 1.0 / pomdp.n_actions, dtype=jnp.float64)


def random_policy(pomdp: Pomdp, seed: int | Array = 0) -> Float[Array, "O A"]:
    """A policy drawn uniformly from the simplex, independently for each observation."""
    return random_distributions(jax.random.key(seed), (pomdp.n_observations, pomdp.n_actions))


def random_distributions(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Distributions over the last axis, uniform on the simplex: normalised exponentials."""
    with jax.enable_x64(True):
        weights = jax.random.exponential(key, shape, dtype=jnp.float64)
        return weights / weights.sum(axis=-1, keepdims=True)

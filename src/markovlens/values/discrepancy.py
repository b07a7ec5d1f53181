"""The λ-discrepancy: how far apart two TD(λ) value functions of the same policy are."""

from functools import partial
from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from markovlens.names import unknown_name
from markovlens.pomdp.model import Pomdp
from markovlens.precision import in_float64
from markovlens.values.chain import Chain
from markovlens.values.inputs import check_lambda, check_policy_and_memory
from markovlens.values.td_lambda import q_of_chain

Norm = Literal["l2", "max"]
Weighting = Literal["policy", "occupancy"]
Of = Literal["q", "v"]


def lambda_discrepancy(
    pomdp: Pomdp,
    policy: ArrayLike,
    lam1: ArrayLike = 0.0,
    lam2: ArrayLike = 1.0,
    norm: Norm = "l2",
    weighting: Weighting = "policy",
    of: Of = "q",
    memory: ArrayLike | None = None,
) -> Float[Array, ""]:
    """Λ = ‖Q^λ1 - Q^λ2‖: zero for every Markov observation, almost never for others.

    `norm`: "l2" is (Σ w Δ²)^½, "max" is max w |Δ|. `weighting`: "policy" has
    w = π(a|o), "occupancy" has w = Pr(o) π(a|o) with the discounted visits Pr(o)
    of non-terminal states. `of`: "q" compares action values, "v" observation
    values (w without its π).

    >>> import markovlens as ml
    >>> tmaze = ml.library.tmaze()
    >>> float(ml.lambda_discrepancy(tmaze, ml.random_policy(tmaze, seed=0))) > 0.01
    True
    """
    _check_choices(norm, weighting, of)
    return _norm_of_difference(
        pomdp,
        *check_policy_and_memory(pomdp, policy, memory),
        check_lambda(lam1, "lam1"),
        check_lambda(lam2, "lam2"),
        norm=norm,
        weighting=weighting,
        of=of,
        by_observation=False,
    )


def discrepancy_by_observation(
    pomdp: Pomdp,
    policy: ArrayLike,
    lam1: ArrayLike = 0.0,
    lam2: ArrayLike = 1.0,
    norm: Norm = "l2",
    weighting: Weighting = "policy",
) -> Float[Array, "O"]:
    """The norm over the actions of each observation: of "l2" the squares add up to the squared
    λ-discrepancy, of "max" the largest is the λ-discrepancy."""
    _check_choices(norm, weighting, "q")
    return _norm_of_difference(
        pomdp,
        *check_policy_and_memory(pomdp, policy, None),
        check_lambda(lam1, "lam1"),
        check_lambda(lam2, "lam2"),
        norm=norm,
        weighting=weighting,
        of="q",
        by_observation=True,
    )


def _check_choices(norm: str, weighting: str, of: str) -> None:
    choices = (("norm", norm, Norm), ("weighting", weighting, Weighting), ("of", of, Of))
    for kind, got, known in choices:
        if got not in get_args(known):
            raise unknown_name(kind, str(got), get_args(known))


def weighted_norm(
    difference: Float[Array, "..."], weights: Float[Array, "..."], norm: Norm
) -> Float[Array, ""]:
    """(Σ w Δ²)^½ or max w |Δ|; the root's derivative at 0 is taken as 0."""
    if norm == "max":
        return (weights * jnp.abs(difference)).max()
    square = (weights * difference**2).sum()
    positive = square > 0.0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1.0)), 0.0)


def discrepancy_weights(chain: Chain, weighting: Weighting, of: Of) -> Float[Array, "O M A"]:
    """w(o, m, a), or w(o, m) for V."""
    visits = chain.visits if weighting == "occupancy" else jnp.ones(chain.policy.shape[:2])
    return visits if of == "v" else visits[:, :, None] * chain.policy


@in_float64
@partial(jax.jit, static_argnames=("norm", "weighting", "of", "by_observation"))
def _norm_of_difference(
    pomdp: Pomdp,
    policy: Array,
    memory: Array,
    lam1: Array,
    lam2: Array,
    norm: Norm,
    weighting: Weighting,
    of: Of,
    by_observation: bool,
) -> Array:
    chain = Chain(pomdp, policy, memory)
    difference = q_of_chain(chain, lam1) - q_of_chain(chain, lam2)
    if of == "v":
        difference = jnp.einsum("oma,oma->om", policy, difference)
    taken = partial(weighted_norm, norm=norm)
    if by_observation:
        taken = jax.vmap(taken)
    return taken(difference, discrepancy_weights(chain, weighting, of))

"""λ-returns and the losses of PPO with the λ-discrepancy."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def lambda_returns(
    reward: Float[Array, "T"],
    value: Float[Array, "T"],
    next_value: Float[Array, "T"],
    ended: Bool[Array, "T"],
    gamma: Float[Array, ""] | float,
    lam: Float[Array, ""] | float,
) -> Float[Array, "T"]:
    """The truncated λ-returns of one sequence,

        G_t = r_t + γ ((1 - λ) v_{t+1} + λ G_{t+1})     within an episode,
        G_t = r_t + γ v_{t+1}                           at its end and at the sequence's.

    `next_value` is v_{t+1}: 0 where the episode terminated, and the value of the final observation
    where it was truncated. Computed as in GAE, G_t = v_t + Σ_k (γλ)^k δ_{t+k}.

    >>> r, v = jnp.array([0.0, 1.0]), jnp.zeros(2)
    >>> lambda_returns(r, v, v, jnp.array([False, True]), 0.9, 1.0)
    Array([0.9, 1. ], dtype=float32)
    """
    delta = reward + gamma * next_value - value
    decay = gamma * lam * (~ended).astype(jnp.float32)

    def step(after: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        delta_t, decay_t = now
        advantage = delta_t + decay_t * after
        return advantage, advantage

    _, advantage = jax.lax.scan(step, jnp.zeros(()), (delta, decay), reverse=True)
    return value + advantage


class Losses(eqx.Module):
    """The parts of the objective, each averaged over the minibatch."""

    policy: Float[Array, ""]  # -L_CLIP
    value: Float[Array, "C"]  # of each critic
    discrepancy: Float[Array, ""]  # mean (v1 - v2)²; 0 with one critic
    entropy: Float[Array, ""]

    def total(
        self,
        beta: Float[Array, ""] | float,
        value_weight: Float[Array, ""] | float,
        entropy_weight: Float[Array, ""] | float,
    ) -> Float[Array, ""]:
        """-L_CLIP + c_V (β L_Λ + (1 - β) mean_i L_V,i) - c_Ent H.

        The critics' losses are averaged, where the paper prints their sum: its tuned β and c_V
        belong to the average.
        """
        critics = beta * self.discrepancy + (1.0 - beta) * self.value.mean()
        return self.policy + value_weight * critics - entropy_weight * self.entropy


def clipped_policy_loss(
    log_ratio: Float[Array, "..."], advantage: Float[Array, "..."], clip: Float[Array, ""] | float
) -> Float[Array, ""]:
    """-E[min(ρ Â, clip(ρ, 1-ε, 1+ε) Â)] with the advantages normalised over what is given."""
    ratio = jnp.exp(log_ratio)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    clipped = jnp.clip(ratio, 1.0 - clip, 1.0 + clip)
    return -jnp.minimum(ratio * advantage, clipped * advantage).mean()


def clipped_value_loss(
    value: Float[Array, "... C"],
    old_value: Float[Array, "... C"],
    target: Float[Array, "... C"],
    clip: Float[Array, ""] | float,
) -> Float[Array, "C"]:
    """E[max((v - G)², (v_old + clip(v - v_old, -ε, ε) - G)²)] for each critic."""
    near = old_value + jnp.clip(value - old_value, -clip, clip)
    worst = jnp.maximum((value - target) ** 2, (near - target) ** 2)
    return worst.mean(axis=tuple(range(worst.ndim - 1)))


def discrepancy_loss(value: Float[Array, "... C"]) -> Float[Array, ""]:
    """L_Λ = E[(v_1 - v_2)²]; 0 with one critic."""
    return ((value[..., 0] - value[..., -1]) ** 2).mean()

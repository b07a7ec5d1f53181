"""One update of PPO: judge a rollout, then a few passes of minibatches over it."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from markovlens.agents.actions import ActionDistribution, forbid
from markovlens.agents.config import HYPERPARAMETERS, PPOConfig
from markovlens.agents.losses import (
    Losses,
    clipped_policy_loss,
    clipped_value_loss,
    discrepancy_loss,
    lambda_returns,
)
from markovlens.agents.native.adam import adam_step
from markovlens.agents.native.library import available
from markovlens.agents.networks import ActorCritic
from markovlens.agents.rollout import Rollout

ADAM_DECAY, ADAM_EPS = (0.9, 0.999), 1e-5


class Hyperparameters(eqx.Module):
    """The numbers that are traced, so that a sweep over them is one program."""

    learning_rate: Float[Array, ""]
    lam1: Float[Array, ""]
    lam2: Float[Array, ""]
    beta: Float[Array, ""]
    entropy_weight: Float[Array, ""]
    value_weight: Float[Array, ""]
    clip: Float[Array, ""]
    max_gradient_norm: Float[Array, ""]
    gamma: Float[Array, ""]
    n_updates: Int[Array, ""]  # over which the step size falls to 0


def hyperparameters(config: PPOConfig) -> Hyperparameters:
    """The traced part of a resolved config."""
    traced = {name: jnp.float32(getattr(config, name)) for name in HYPERPARAMETERS}
    return Hyperparameters(**traced, n_updates=jnp.int32(config.n_updates))


@dataclass(frozen=True)
class Passes:
    """How a batch is gone over: structure, so static."""

    epochs: int
    minibatches: int


class Learner(eqx.Module):
    """What learning changes."""

    network: ActorCritic
    moments: optax.ScaleByAdamState
    update: Int[Array, ""]  # updates done
    diverged: Bool[Array, ""]  # a gradient was not finite; the network is the last good one


class Batch(eqx.Module):
    """A rollout with what is to be learnt from it."""

    observation: Float[Array, "L N I"]
    first: Bool[Array, "L N"]
    action: Array
    allowed: Bool[Array, "L N A"] | None
    log_prob: Float[Array, "L N"]
    value: Float[Array, "L N C"]
    target: Float[Array, "L N C"]
    advantage: Float[Array, "L N"]


class Progress(eqx.Module):
    """What one update has to say about itself; averages over its minibatches or its batch."""

    policy_loss: Float[Array, ""]
    value_loss: Float[Array, "C"]
    discrepancy_loss: Float[Array, ""]
    entropy: Float[Array, ""]
    kl: Float[Array, ""]  # from the acting policy to the learnt one, estimated
    clip_fraction: Float[Array, ""]
    gradient_norm: Float[Array, ""]
    explained_variance: Float[Array, "C"]
    squared_difference: Float[Array, ""]  # mean (v1 - v2)² over the batch, before learning from it


def new_learner(network: ActorCritic) -> Learner:
    return Learner(network, optax.scale_by_adam().init(network), jnp.int32(0), jnp.bool_(False))


def judge(
    network: ActorCritic,
    distribution: ActionDistribution,
    hyper: Hyperparameters,
    rollout: Rollout,
    max_truncations: int,
) -> Batch:
    """Values, λ-returns of every critic, and the advantages of the first, for a rollout."""
    said = network.outputs(rollout.memories)
    next_value = _next_values(network, rollout, said.value, max_truncations)
    lams = jnp.stack([hyper.lam1, hyper.lam2])[: said.value.shape[-1]]
    over_critics = jax.vmap(lambda_returns, in_axes=(None, 1, 1, None, None, 0), out_axes=1)
    over_envs = jax.vmap(over_critics, in_axes=(1, 1, 1, 1, None, None), out_axes=1)
    target = over_envs(rollout.reward, said.value, next_value, rollout.ended, hyper.gamma, lams)
    outputs = forbid(said.action, rollout.allowed)
    return Batch(
        observation=rollout.observation,
        first=rollout.first,
        action=rollout.action,
        allowed=rollout.allowed,
        log_prob=distribution.log_prob(outputs, rollout.action),
        value=said.value,
        target=target,
        advantage=target[..., 0] - said.value[..., 0],
    )


def _next_values(
    network: ActorCritic, rollout: Rollout, value: Float[Array, "L N C"], max_truncations: int
) -> Float[Array, "L N C"]:
    """v_{t+1} as returns need it: 0 after termination; after truncation and at the rollout's end
    the value of what was seen last, by a memory that has taken it in. Only those few are computed.
    """
    length, n = rollout.first.shape
    cut = rollout.truncated.at[-1].set(~rollout.terminated[-1])

    def cut_times(column: Bool[Array, "L"]) -> Int[Array, "K"]:
        return jnp.nonzero(column, size=max_truncations + 1, fill_value=length - 1)[0]

    times = jax.vmap(cut_times, in_axes=1, out_axes=1)(cut)
    envs = jnp.broadcast_to(jnp.arange(n), times.shape)
    seen = rollout.next_observation[times, envs].reshape(times.size, -1)
    memory = rollout.memories[times, envs].reshape(times.size, -1)
    memory = network.step(seen, memory, jnp.zeros(times.size, dtype=bool))
    cut_value = network.outputs(memory).value.reshape(*times.shape, -1)
    following = jnp.concatenate([value[1:], jnp.zeros_like(value[:1])])
    following = following.at[times, envs].set(cut_value)
    return jnp.where(rollout.terminated[..., None], 0.0, following)


def learn(
    learner: Learner,
    distribution: ActionDistribution,
    hyper: Hyperparameters,
    passes: Passes,
    batch: Batch,
    start_memory: Float[Array, "N M"],
    key: PRNGKeyArray,
) -> tuple[Learner, Progress]:
    """Several passes over the batch, one step of Adam for each minibatch of whole sequences."""
    n = batch.first.shape[1]
    orders = jax.vmap(lambda k: jax.random.permutation(k, n))(jax.random.split(key, passes.epochs))
    groups = orders.reshape(passes.epochs * passes.minibatches, n // passes.minibatches)
    rate = hyper.learning_rate * (1.0 - learner.update / hyper.n_updates)

    def step(
        loop: tuple[ActorCritic, optax.ScaleByAdamState, Bool[Array, ""]], envs: Int[Array, "n"]
    ) -> tuple[Any, tuple[Losses, Array, Array]]:
        network, moments, diverged = loop
        part = jax.tree.map(lambda leaf: leaf[:, envs], batch)

        def objective(network: ActorCritic) -> tuple[Array, tuple[Losses, Array]]:
            return _objective(network, distribution, hyper, part, start_memory[envs])

        (_, (losses, log_ratio)), gradient = jax.value_and_grad(objective, has_aux=True)(network)
        network, moments, norm = _adam_step(
            network, moments, gradient, hyper.max_gradient_norm, rate, diverged
        )
        return (network, moments, diverged | ~jnp.isfinite(norm)), (losses, norm, log_ratio)

    (network, moments, diverged), (losses, norm, log_ratio) = jax.lax.scan(
        step, (learner.network, learner.moments, learner.diverged), groups
    )
    mean = jax.tree.map(lambda leaf: leaf.mean(axis=0), losses)
    progress = Progress(
        policy_loss=mean.policy,
        value_loss=mean.value,
        discrepancy_loss=mean.discrepancy,
        entropy=mean.entropy,
        kl=(jnp.expm1(log_ratio) - log_ratio).mean(),
        clip_fraction=(jnp.abs(jnp.expm1(log_ratio)) > hyper.clip).mean(),
        gradient_norm=norm.mean(),
        explained_variance=_explained_variance(batch.value, batch.target),
        squared_difference=discrepancy_loss(batch.value),
    )
    done = learner.update + (~diverged).astype(jnp.int32)
    return Learner(network, moments, done, diverged), progress


def _adam_step(
    network: ActorCritic,
    moments: optax.ScaleByAdamState,
    gradient: ActorCritic,
    longest: Float[Array, ""],
    rate: Float[Array, ""],
    diverged: Bool[Array, ""],
) -> tuple[ActorCritic, optax.ScaleByAdamState, Float[Array, ""]]:
    """Adam as `optax.scale_by_adam` has it, along a gradient that is shortened to `longest`, and
    the gradient's length. Nothing moves if that is not finite, or once the run has diverged.
    """
    count = moments.count + 1
    mu_scale, nu_scale = (1.0 / (1.0 - decay**count) for decay in ADAM_DECAY)
    if available():
        scales = jnp.stack([rate, mu_scale, nu_scale, longest, (~diverged).astype(jnp.float32)])
        network, mu, nu, norm = adam_step(
            ADAM_DECAY, ADAM_EPS, scales, network, moments.mu, moments.nu, gradient
        )
        return network, optax.ScaleByAdamState(count, mu, nu), norm
    norm = optax.tree.norm(gradient)
    shrink = jnp.minimum(1.0, longest / (norm + 1e-12))
    moves = ~diverged & jnp.isfinite(norm)

    def averages(decay: float, power: int, old: ActorCritic) -> ActorCritic:
        def one(average: Array, g: Array) -> Array:
            new = decay * average + (1.0 - decay) * (g * shrink) ** power
            return jnp.where(moves, new, average)

        return jax.tree.map(one, old, gradient)

    def moved(p: Array, m: Array, v: Array) -> Array:
        return jnp.where(moves, p - rate * m * mu_scale / (jnp.sqrt(v * nu_scale) + ADAM_EPS), p)

    mu = averages(ADAM_DECAY[0], 1, moments.mu)
    nu = averages(ADAM_DECAY[1], 2, moments.nu)
    return (
        jax.tree.map(moved, network, mu, nu),
        optax.ScaleByAdamState(count, mu, nu),
        norm,
    )


def _objective(
    network: ActorCritic,
    distribution: ActionDistribution,
    hyper: Hyperparameters,
    batch: Batch,
    memory: Float[Array, "n M"],
) -> tuple[Float[Array, ""], tuple[Losses, Float[Array, "L n"]]]:
    said = network.outputs(network.sequence(batch.observation, memory, batch.first))
    outputs = forbid(said.action, batch.allowed)
    log_ratio = distribution.log_prob(outputs, batch.action) - batch.log_prob
    losses = Losses(
        policy=clipped_policy_loss(log_ratio, batch.advantage, hyper.clip),
        value=clipped_value_loss(said.value, batch.value, batch.target, hyper.clip),
        discrepancy=discrepancy_loss(said.value),
        entropy=distribution.entropy(outputs).mean(),
    )
    total = losses.total(hyper.beta, hyper.value_weight, hyper.entropy_weight)
    return total, (losses, log_ratio)


def _explained_variance(
    value: Float[Array, "L N C"], target: Float[Array, "L N C"]
) -> Float[Array, "C"]:
    """1 - Var(G - v) / Var(G)."""
    left = (target - value).var(axis=(0, 1))
    return 1.0 - left / jnp.maximum(target.var(axis=(0, 1)), 1e-8)

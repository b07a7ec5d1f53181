"""Gradient steps for many runs at once: which logits a stage moves, and towards what."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from markovlens.memory.config import MemoryConfig, Stage, View
from markovlens.memory.objective import discounted_return, squared_discrepancy
from markovlens.pomdp.model import Pomdp
from markovlens.values.links import DENSE, ChainLinks, links_of_pomdp

# The solves inside are far too small to share between threads, and XLA's pool has been seen to
# wait for itself for ever when batches of them are handed to it; so each program runs on one.
COMPILER_OPTIONS = {"xla_cpu_multi_thread_eigen": False}
# Runs go through their steps in groups of at most so many, whose largest arrays fit into the cache.
GROUP = 8
CACHED_NUMBERS = 32_000
# States times memory states, from which on elimination saves more than it takes to compile.
SMALLEST_ELIMINATED = 50


class Logits(NamedTuple):
    """A policy and a memory per run, before the softmax over their last axis."""

    policy: Float[Array, "B O M A"]
    memory: Float[Array, "B O A M M"]


MOVES: dict[Stage, tuple[str, ...]] = {
    "reveal": ("policy",),
    "memory": ("memory",),
    "policy": ("policy",),
    "joint": ("policy", "memory"),
    "polish": ("policy", "memory"),
}


def links_for(pomdp: Pomdp, n_memory: int, view: View) -> ChainLinks:
    """The links that `advance` is compiled with for memories of this size; what is computed only
    once is not worth the compiling."""
    large = pomdp.n_states * n_memory >= SMALLEST_ELIMINATED
    return links_of_pomdp(pomdp) if large and view == "exact" else DENSE


def loss(
    stage: Stage,
    config: MemoryConfig,
    links: ChainLinks,
    pomdp: Pomdp,
    policy_logits: Float[Array, "O M A"],
    memory_logits: Float[Array, "O A M M"],
) -> Float[Array, ""]:
    """Λ² for the memory, -Λ² for the revealing policy, -J for everything after."""
    policy, memory = jax.nn.softmax(policy_logits), jax.nn.softmax(memory_logits)
    if stage == "reveal":
        return -squared_discrepancy(pomdp, policy, memory, config, links)
    if stage == "memory":
        return squared_discrepancy(pomdp, policy, memory, config, links)
    return -discounted_return(pomdp, policy, memory, config.view, links)


@partial(jax.jit, static_argnames=("stage", "config"), compiler_options=COMPILER_OPTIONS)
def losses(stage: Stage, config: MemoryConfig, pomdp: Pomdp, logits: Logits) -> Float[Array, "B"]:
    """The loss of every run."""
    return jax.vmap(partial(loss, stage, config, DENSE, pomdp))(*logits)


@partial(jax.jit, static_argnames=("config",), compiler_options=COMPILER_OPTIONS)
def most_discrepant(
    config: MemoryConfig,
    pomdp: Pomdp,
    keys: Array,
    memory_logits: Float[Array, "B O A M M"],
) -> Float[Array, "B O M A"]:
    """For each run the policy with the largest Λ of `n_policies` uniform on the simplex."""
    n_memory = memory_logits.shape[-1]
    shape = (config.n_policies, pomdp.n_observations, n_memory, pomdp.n_actions)

    def of_run(run: tuple[Array, Array]) -> Array:
        key, memory = run
        drawn = jax.random.exponential(key, shape)
        many = jnp.log(jnp.maximum(drawn, 1e-30))  # its softmax is uniform on the simplex
        squares = jax.vmap(lambda policy: loss("memory", config, DENSE, pomdp, policy, memory))(
            many
        )
        return many[squares.argmax()]

    return jax.lax.map(of_run, (keys, memory_logits))


@partial(jax.jit, static_argnames=("stage", "config"))
def start(stage: Stage, config: MemoryConfig, logits: Logits) -> Any:
    """The optimiser's state at the first step of a stage."""
    return jax.vmap(_optimiser(config).init)(_moving(stage, logits))


@partial(jax.jit, static_argnames=("stage", "config", "links"), compiler_options=COMPILER_OPTIONS)
def advance(
    stage: Stage,
    config: MemoryConfig,
    links: ChainLinks,
    pomdp: Pomdp,
    logits: Logits,
    optimiser_state: Any,
    steps: Int[Array, ""],
) -> tuple[Logits, Any, Float[Array, "B"]]:
    """`steps` gradient steps of every run, and the loss at the last of them.

    The number of steps is traced: any of them compiles once. The runs go through it in groups, one
    group after the other, so that a group's matrices stay in the cache for all of its steps.
    """
    optimiser = _optimiser(config)

    def step_of_run(still: Logits, moving: dict[str, Array], state: Any) -> tuple[Any, Any, Array]:
        def of_moving(moving: dict[str, Array]) -> Array:
            return loss(stage, config, links, pomdp, *still._replace(**moving))

        value, gradient = jax.value_and_grad(of_moving)(moving)
        updates, state = optimiser.update(gradient, state, moving)
        return optax.apply_updates(moving, updates), state, value

    def steps_of_group(group: tuple[Logits, Any]) -> tuple[Any, Any, Array]:
        still, state = group
        carry = (_moving(stage, still), state, jnp.zeros(still.policy.shape[0]))
        return jax.lax.fori_loop(
            jnp.zeros_like(steps),
            steps,
            lambda _, carry: jax.vmap(step_of_run)(still, carry[0], carry[1]),
            carry,
        )

    n_runs, _, n_memory, n_actions = logits.policy.shape
    per_state = n_actions if links.states is not None else pomdp.n_states  # or a dense matrix
    group = _group_size(n_runs, pomdp.n_states * per_state * n_memory**2)
    groups = jax.tree.map(partial(_split, group), (logits, optimiser_state))
    found = jax.lax.map(steps_of_group, groups)
    moving, optimiser_state, values = jax.tree.map(_join, found)
    return logits._replace(**moving), optimiser_state, values


def _group_size(n_runs: int, size: int) -> int:
    """The largest divisor of the number of runs whose arrays of that size fit into the cache."""
    most = max(1, min(GROUP, CACHED_NUMBERS // size))
    return max(group for group in range(1, most + 1) if n_runs % group == 0)


def _split(size: int, x: Array) -> Array:
    return x.reshape(-1, size, *x.shape[1:])


def _join(x: Array) -> Array:
    return x.reshape(-1, *x.shape[2:])


def _moving(stage: Stage, logits: Logits) -> dict[str, Array]:
    return {name: getattr(logits, name) for name in MOVES[stage]}


def _optimiser(config: MemoryConfig) -> optax.GradientTransformation:
    return getattr(optax, config.optimizer)(config.learning_rate)

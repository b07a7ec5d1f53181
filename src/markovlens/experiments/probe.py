"""What does an agent remember of PocMan's pellets? A probe that reads them off its memory.

Both agents play; every game is then shown to both, so that their memories are of the same games.
For each agent a small network learns to tell from its memory, cell by cell, whether there is food:

    p(food | h) = σ(W3 relu(W2 relu(W1 h + b1) + b2) + b3),  binary cross-entropy

Games of a tenth of the environments are kept for judging. The bar to clear is a probe that ignores
the memory and says how often each cell has food at all.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from markovlens.agents.acting import choose
from markovlens.agents.actions import action_distribution
from markovlens.agents.layers import Dense, dense
from markovlens.agents.networks import ActorCritic
from markovlens.agents.run import Run
from markovlens.envs.env import Env, innermost, innermost_state
from markovlens.envs.pocman import PocMan
from markovlens.envs.vector import VectorState, unroll, vector_reset
from markovlens.progress import Advance, silent

CHUNK = 250  # steps of a rollout, and of probe training, in one compiled call


class ProbeConfig(NamedTuple):
    """How much to collect and to learn; the defaults are the paper's."""

    steps: int = 2_000_000  # of play, half by each agent
    n_envs: int = 40  # side by side, for each agent
    hidden: int = 1024
    learning_rate: float = 1e-4
    batch: int = 32
    updates: int = 10_000_000
    seed: int = 0


QUICK = ProbeConfig(
    steps=40_000, n_envs=20, hidden=256, learning_rate=1e-3, batch=256, updates=2000
)


class Games(NamedTuple):
    """Games, as an agent lives them: T steps of N environments."""

    observation: Float[np.ndarray, "T N I"]
    first: Bool[np.ndarray, "T N"]
    food: Bool[np.ndarray, "T N C"]  # of the cells that can have any


class Probe(eqx.Module):
    """Three dense layers from a memory to the logit of food in every cell."""

    layers: tuple[Dense, Dense, Dense]

    def __init__(self, n_in: int, hidden: int, n_cells: int, rng: np.random.Generator):
        self.layers = (
            dense(n_in, hidden, rng, 2**0.5),
            dense(hidden, hidden, rng, 2**0.5),
            dense(hidden, n_cells, rng, 1.0),
        )

    def __call__(self, memory: Float[Array, "... M"]) -> Float[Array, "... C"]:
        first, second, third = self.layers
        return third(jax.nn.relu(second(jax.nn.relu(first(memory)))))


class Reading(NamedTuple):
    """How well a memory can be read, on games the probe has not seen; by cell."""

    accuracy: Float[np.ndarray, "C"]
    chance: Float[np.ndarray, "C"]  # accuracy of always giving the cell's more frequent answer
    cross_entropy: Float[np.ndarray, "C"]
    chance_cross_entropy: Float[np.ndarray, "C"]  # of giving the cell's frequency


def play_games(run: Run, index: int, n_envs: int, steps: int, key: PRNGKeyArray) -> Games:
    """`steps` steps of play by run `index`, over `n_envs` environments, with the food there was."""
    env, network = run.env(index), run.network(index)
    cells = food_cells(env)
    start_key, key = jax.random.split(key)
    state, memory = vector_reset(env, start_key, n_envs), network.memory(n_envs)
    parts = []
    for i in range(-(-steps // (n_envs * CHUNK))):
        memory, state, part = _play(env, network, memory, state, jax.random.fold_in(key, i))
        parts.append(jax.tree.map(np.asarray, part))
    observation, first, words = (np.concatenate(leaves) for leaves in zip(*parts, strict=True))
    food = words[..., cells >> 5] >> (cells & 31).astype(np.uint32) & 1
    return Games(observation, first, food.astype(bool))


def food_cells(env: Env) -> Int[np.ndarray, "C"]:
    """The cells of PocMan's maze that can hold food, in reading order."""
    game = pocman_of(env)
    return np.flatnonzero(game.maze.pellets | game.maze.pills)


def pocman_of(env: Env) -> PocMan:
    inner = innermost(env)
    if not isinstance(inner, PocMan):
        raise ValueError(f"the pellet probe is for PocMan, and this is {type(inner).__name__}")
    return inner


@eqx.filter_jit
def _play(env: Env, network: ActorCritic, memory: Array, state: VectorState, key: Array) -> Any:
    distribution = action_distribution(env.action_space)
    noise_key, env_key = jax.random.split(key)
    noise = distribution.noise(noise_key, (CHUNK, state.first.shape[0]))
    flatten = jax.vmap(env.observation_space.flatten)

    def act(memory: Array, state: VectorState, noise_t: Array) -> tuple[Array, Array, Array]:
        seen = flatten(state.observation)
        memory, _, action = choose(
            network, env.action_space, seen, memory, state.first, None, noise_t
        )
        return memory, action, innermost_state(env, state.env_state).food

    memory, state, seen, food = unroll(env, act, memory, state, env_key, CHUNK, noise)
    return memory, state, (jax.vmap(flatten)(seen.observation), seen.first, food)


def memories(network: ActorCritic, games: Games) -> Float[np.ndarray, "T N M"]:
    """What an agent remembers at every step of games, its own or another's; half precision."""
    memory = network.memory(games.first.shape[1])
    sequence = eqx.filter_jit(lambda x, m, first: network.sequence(x, m, first))
    parts = []
    for i in range(0, len(games.first), CHUNK):
        part = slice(i, i + CHUNK)
        seen = sequence(
            jnp.asarray(games.observation[part]), memory, jnp.asarray(games.first[part])
        )
        memory = seen[-1]
        parts.append(np.asarray(seen, dtype=np.float16))
    return np.concatenate(parts)


def train_probe(
    memory: Float[np.ndarray, "B M"],
    food: Bool[np.ndarray, "B C"],
    config: ProbeConfig,
    progress: Advance = silent,
) -> Probe:
    """Minimise the cross-entropy over uniformly drawn steps; progress in updates."""
    key, rng = jax.random.key(config.seed), np.random.default_rng(config.seed)
    probe = Probe(memory.shape[-1], config.hidden, food.shape[-1], rng)
    optimiser = optax.adam(config.learning_rate)
    moments = optimiser.init(probe)
    inputs, targets = jnp.asarray(memory), jnp.asarray(food)

    def loss(probe: Probe, x: Array, y: Array) -> Float[Array, ""]:
        logits = probe(x.astype(jnp.float32))
        return optax.sigmoid_binary_cross_entropy(logits, y.astype(jnp.float32)).mean()

    @jax.jit
    def some_updates(loop: tuple[Probe, Any], key: Array) -> tuple[tuple[Probe, Any], Array]:
        rows = jax.random.randint(key, (CHUNK, config.batch), 0, inputs.shape[0])

        def update(loop: tuple[Probe, Any], chosen: Array) -> tuple[tuple[Probe, Any], Array]:
            probe, moments = loop
            value, gradient = jax.value_and_grad(loss)(probe, inputs[chosen], targets[chosen])
            direction, moments = optimiser.update(gradient, moments)
            return (optax.apply_updates(probe, direction), moments), value

        return jax.lax.scan(update, loop, rows)

    loop = (probe, moments)
    for i in range(-(-config.updates // CHUNK)):
        loop, losses = some_updates(loop, jax.random.fold_in(key, i))
        progress(min((i + 1) * CHUNK, config.updates), f"cross-entropy {losses.mean():.3f}")
    return loop[0]


def judge_probe(
    probe: Probe, memory: Float[np.ndarray, "B M"], food: Bool[np.ndarray, "B C"]
) -> Reading:
    """The probe on games that it has not seen."""
    right = np.zeros(food.shape[1])
    surprise = np.zeros(food.shape[1])
    read = jax.jit(lambda x: probe(x.astype(jnp.float32)))
    for i in range(0, len(memory), 10_000):
        logits = np.asarray(read(jnp.asarray(memory[i : i + 10_000])), dtype=np.float64)
        truth = food[i : i + 10_000]
        right += ((logits > 0) == truth).sum(axis=0)
        surprise += np.logaddexp(0.0, np.where(truth, -logits, logits)).sum(axis=0)
    often = food.mean(axis=0)  # of these very games: a baseline that could not be beaten by chance
    return Reading(
        accuracy=right / len(memory),
        chance=np.maximum(often, 1 - often),
        cross_entropy=surprise / len(memory),
        chance_cross_entropy=_entropy(often),
    )


def _entropy(p: Float[np.ndarray, "C"]) -> Float[np.ndarray, "C"]:
    safe = np.clip(p, 1e-12, 1 - 1e-12)
    return -safe * np.log(safe) - (1 - safe) * np.log1p(-safe)

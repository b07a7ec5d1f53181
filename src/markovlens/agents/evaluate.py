"""How well a trained agent does, over whole episodes."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
import polars as pl
from jaxtyping import Array, PRNGKeyArray

from markovlens.agents.host import Player, closing
from markovlens.agents.interval import Estimate, mean_interval
from markovlens.agents.networks import ActorCritic
from markovlens.agents.rollout import collect
from markovlens.agents.run import Run
from markovlens.agents.seeds import check_seed
from markovlens.envs.env import Env
from markovlens.envs.statistics import Episodes, EpisodeStatistics
from markovlens.envs.vector import VectorState, vector_reset

AT_ONCE = 256  # environments side by side
CHUNK = 128  # steps
LONGEST = 200_000  # steps of an episode, unless its environment states a longer time limit


def evaluate(
    run: Run, episodes: int = 100, *, greedy: bool = False, seed: int = 0, index: int | None = None
) -> pl.DataFrame:
    """Play `episodes` whole episodes with every run (or with run `index` alone).

    One row an episode: run, seed (the training's), return, discounted_return, length. Every
    environment plays one episode, so short episodes are not counted more often than long ones.

    >>> estimate(evaluate(load_run("runs/tmaze"), episodes=100)["return"])  # doctest: +SKIP
    """
    if not isinstance(run, Run):
        raise ValueError(
            f"run must be a Run, as train and load_run give it, got {run!r}: a folder is opened by "
            "load_run(folder)"
        )
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, got {episodes}")
    which, seed = range(len(run)) if index is None else [index], check_seed(seed)
    tables = []
    for i in which:
        spec, key = run.spec(i), jax.random.fold_in(jax.random.key(seed), i)
        with closing(run.env(i)) as env:
            play = _play if isinstance(env, Env) else _play_host
            played = play(run.network(i), env, episodes, greedy, key)
        which_run = {"run": np.full(episodes, i), "seed": np.full(episodes, spec.seed)}
        tables.append(pl.DataFrame(which_run | played))
    return pl.concat(tables)


def estimate(values: pl.Series) -> Estimate:
    """The mean, with Student's 95% interval."""
    return Estimate(*map(float, mean_interval(values.to_numpy())))


def _play(
    network: ActorCritic, env: Env, episodes: int, greedy: bool, key: PRNGKeyArray
) -> dict[str, np.ndarray]:
    n = min(AT_ONCE, episodes)
    parts: list[dict[str, np.ndarray]] = []
    for batch in range(-(-episodes // n)):
        parts.append(_one_each(network, env, n, greedy, jax.random.fold_in(key, batch)))
    return {name: np.concatenate([part[name] for part in parts])[:episodes] for name in parts[0]}


def _play_host(
    network: ActorCritic, env: Any, episodes: int, greedy: bool, key: PRNGKeyArray
) -> dict[str, np.ndarray]:
    """Each of the N environments plays the same number of episodes, one after the other."""
    player = Player(env, int(jax.random.randint(key, (), 0, 2**31 - 1)), greedy)
    statistics = EpisodeStatistics(env.n, env.gamma)
    each = -(-episodes // env.n)
    done: list[list[tuple[float, float, float]]] = [[] for _ in range(env.n)]
    update = 0
    while (fewest := min(map(len, done))) < each:
        if update * CHUNK > LONGEST * (1 + fewest):
            raise _endless(LONGEST, "gymnasium.wrappers.TimeLimit")
        rollout, _ = player.live(network, update, CHUNK)
        update += 1
        statistics, seen = statistics.update(rollout.reward, rollout.ended)
        columns = [np.asarray(x) for x in (seen.total, seen.discounted, seen.length)]
        for t, n in zip(*np.nonzero(np.asarray(seen.ended)), strict=True):
            done[n].append(tuple(float(x[t, n]) for x in columns))
    table = np.array([of_env[:each] for of_env in done]).transpose(1, 0, 2).reshape(-1, 3)
    names = ("return", "discounted_return", "length")
    return {name: table[:episodes, i] for i, name in enumerate(names)}


def _one_each(
    network: ActorCritic, env: Env, n: int, greedy: bool, key: PRNGKeyArray
) -> dict[str, np.ndarray]:
    """The first episode of each of n environments."""
    start_key, key = jax.random.split(key)
    state, memory = vector_reset(env, start_key, n), network.memory(n)
    statistics = EpisodeStatistics(n, env.gamma)
    found: dict[str, np.ndarray] = {}
    missing = np.ones(n, dtype=bool)
    longest, steps = max(LONGEST, env.time_limit or 0), 0
    while missing.any():
        if steps > longest:
            raise _endless(longest, "markovlens.envs.env.TimeLimit")
        steps += CHUNK
        key, chunk_key = jax.random.split(key)
        memory, state, statistics, seen = _chunk(
            network, env, memory, state, statistics, greedy, chunk_key
        )
        ended = np.asarray(seen.ended)
        now = missing & ended.any(axis=0)
        when = (ended.argmax(axis=0), np.arange(n))
        for name, values in (
            ("return", seen.total),
            ("discounted_return", seen.discounted),
            ("length", seen.length),
        ):
            first = np.asarray(values)[when]
            found[name] = np.where(now, first, found.get(name, np.zeros_like(first)))
        missing &= ~now
    return found


def _endless(steps: int, wrapper: str) -> ValueError:
    return ValueError(
        f"an episode has not ended after {steps:,} steps, so it cannot be scored: give the "
        f"environment a time limit ({wrapper})"
    )


@eqx.filter_jit
def _chunk(
    network: ActorCritic,
    env: Env,
    memory: Array,
    state: VectorState,
    statistics: EpisodeStatistics,
    greedy: bool,
    key: PRNGKeyArray,
) -> tuple[Array, VectorState, EpisodeStatistics, Episodes]:
    memory, state, rollout = collect(env, network, memory, state, key, CHUNK, greedy)
    statistics, episodes = statistics.update(rollout.reward, rollout.ended)
    return memory, state, statistics, episodes

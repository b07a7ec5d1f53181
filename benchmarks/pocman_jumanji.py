"""PocMan against jumanji's PacMan on the same maze: random policy inside a scan, steps a second.

    pip install jumanji
    python benchmarks/pocman_jumanji.py

Both restart by themselves: ours from starts drawn ahead, jumanji through its
own `VmapAutoResetWrapper`. Ours also computes the eleven senses, which
jumanji's does not have. Runs are interleaved; the best of several counts.
"""

import argparse
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jumanji.environments import PacMan
from jumanji.environments.routing.pac_man.generator import AsciiGenerator
from jumanji.wrappers import VmapAutoResetWrapper

from markovlens.envs.env import TimeLimit
from markovlens.envs.pocman import PocMan
from markovlens.envs.pocman_maze import DEFAULT_MAZE
from markovlens.envs.vector import unroll, vector_reset


def ours(n: int, length: int) -> Callable[[int], jax.Array]:
    env = TimeLimit(PocMan(), 1000)

    @jax.jit
    def run(state, key):
        action_key, key = jax.random.split(key)
        actions = jax.random.randint(action_key, (length, n), 0, 4)
        act = lambda carry, state, action: (carry, action, None)  # noqa: E731
        _, state, transitions, _ = unroll(env, act, None, state, key, length, actions)
        return state, transitions.reward.sum() + transitions.next_observation.sum()

    return _keep_going(run, vector_reset(env, jax.random.key(0), n))


def jumanji(n: int, length: int) -> Callable[[int], jax.Array]:
    rows = DEFAULT_MAZE.translate(str.maketrans("#osP1234.", "XOSPGGGG ")).strip("\n").split("\n")
    rows[7] = "XXXX XTTG GTTX XXXX"  # it also wants four cells to which its ghosts first go
    env = VmapAutoResetWrapper(PacMan(AsciiGenerator([list(row) for row in rows])))

    @jax.jit
    def run(state, key):
        actions = jax.random.randint(key, (length, n), 0, 4)

        def one_step(state, action):
            state, timestep = env.step(state, action)
            return state, timestep.reward.sum() + timestep.observation.pellet_locations.sum()

        state, totals = jax.lax.scan(one_step, state, actions)
        return state, totals.sum()

    state, _ = jax.jit(env.reset)(jax.random.split(jax.random.key(0), n))
    return _keep_going(run, state)


def _keep_going(run: Callable, state: object) -> Callable[[int], jax.Array]:
    def once(seed: int) -> jax.Array:
        nonlocal state
        state, total = run(state, jax.random.key(seed))
        return jnp.asarray(total).block_until_ready()

    return once


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    print(f"{'environments':>12} {'PocMan':>12} {'jumanji':>12} {'ratio':>7}")
    for n, length in ((4, 1000), (256, 128), (4096, 16)):
        best = {}
        runs = {"ours": ours(n, length), "jumanji": jumanji(n, length)}
        for repeat in range(repeats + 1):  # the first compiles
            for name, once in runs.items():
                begun = time.perf_counter()
                once(repeat)
                took = time.perf_counter() - begun
                if repeat:
                    best[name] = min(took, best.get(name, took))
        rate = {name: n * length / took for name, took in best.items()}
        ratio = rate["ours"] / rate["jumanji"]
        print(f"{n:>12} {rate['ours']:>12,.0f} {rate['jumanji']:>12,.0f} {ratio:>7.1f}")


if __name__ == "__main__":
    main()

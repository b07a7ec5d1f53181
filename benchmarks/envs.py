"""Environment steps a second: random policy inside a scan, against resetting at every step.

    python benchmarks/envs.py
    python benchmarks/envs.py --envs battleship-10 --copies 256 --seconds 30

Both forms run the same environment, policy and rollouts of 128 steps, many in one call. "reset
every step" draws what it needs inside the loop, computes a fresh start for every copy at every step
and keeps it where an episode ended, as automatic resets usually do. The forms take turns; the best
call of each counts. The last columns compare with 3 times what the paper's public release does on a
machine of 150 GFLOP/s, scaled to the matrix product measured in the same run.
"""

import argparse
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from markovlens.cli.output import print_table
from markovlens.envs.env import Env
from markovlens.envs.registry import make
from markovlens.envs.starts import where
from markovlens.envs.vector import Transitions, VectorState, unroll, vector_reset

Clock = Callable[[], float]

LENGTH = 128
RELEASE_GFLOPS = 150.0
RELEASE = {
    ("battleship-10", 4): 44e3,
    ("battleship-10", 256): 143e3,
    ("pocman", 4): 122e3,
    ("pocman", 256): 296e3,
    ("rocksample-11-11", 4): 306e3,
    ("rocksample-11-11", 256): 1.77e6,
    ("rocksample-15-15", 4): 337e3,
    ("rocksample-15-15", 256): 1.17e6,
}
ENVS = ("battleship-10", "rocksample-11-11", "rocksample-15-15", "pocman", "tmaze-5", "tiger")


def random_actions(env: Env, state: VectorState, bits: jax.Array) -> jax.Array:
    """Random actions, legal where there is a mask, from 32 random bits for each copy."""
    if not env.masks_actions:
        return (bits % env.action_space.n).astype(jnp.int32)
    mask = jax.vmap(env.action_mask)(state.env_state)
    # The action with the largest hash wins; its number sits in the hash's last bits.
    number = jnp.arange(env.action_space.n, dtype=jnp.uint32)[None]
    last = np.uint32(2 ** env.action_space.n.bit_length() - 1)
    mixed = (bits[:, None] + number) * np.uint32(0x9E3779B1)
    mixed = (mixed ^ (mixed >> 15)) * np.uint32(0x85EBCA6B)
    largest = jnp.max(jnp.where(mask, (mixed & ~last) | number, 0), axis=1)
    return (largest & last).astype(jnp.int32)


def stocked(env: Env, state: VectorState, key: jax.Array) -> tuple[VectorState, Transitions]:
    n = state.first.shape[0]
    action_key, key = jax.random.split(key)

    def act(carry, state, bits):
        return carry, random_actions(env, state, bits), None

    inputs = jax.random.bits(action_key, (LENGTH, n))
    _, state, transitions, _ = unroll(env, act, None, state, key, LENGTH, inputs)
    return state, transitions


def resetting(env: Env, state: VectorState, key: jax.Array) -> tuple[VectorState, Transitions]:
    n = state.first.shape[0]

    def one_step(state, key):
        action_key, step_key, reset_key = jax.random.split(key, 3)
        action = random_actions(env, state, jax.random.bits(action_key, (n,)))
        env_state, step = jax.vmap(env.step)(jax.random.split(step_key, n), state.env_state, action)
        starts = jax.vmap(env.reset)(jax.random.split(reset_key, n))
        env_state, observation = where(step.ended, starts, (env_state, step.observation))
        after = VectorState(env_state, observation, step.ended)
        return after, Transitions(
            state.observation,
            state.first,
            action,
            step.reward,
            step.terminated,
            step.truncated,
            step.observation,
        )

    return jax.lax.scan(one_step, state, jax.random.split(key, LENGTH))


def runner(form: Callable, env: Env, n: int, rollouts: int) -> Callable[[], None]:
    """A call steps n copies for that many rollouts and reads every one of them."""

    @jax.jit
    def run(state, key):
        def one_rollout(state, key):
            state, seen = form(env, state, key)
            return state, sum(leaf.astype(jnp.float32).sum() for leaf in jax.tree.leaves(seen))

        return jax.lax.scan(one_rollout, state, jax.random.split(key, rollouts))

    held = [vector_reset(env, jax.random.key(0), n), jax.random.key(1)]

    def call() -> None:
        held[1], key = jax.random.split(held[1])
        held[0], total = run(held[0], key)
        assert np.isfinite(np.asarray(total)).all()

    return call


def best_times(calls: dict[str, Callable[[], object]], seconds: float, clock: Clock) -> dict:
    """The shortest time of each call; they take turns until the time is up."""
    for call in calls.values():
        call()
    best = dict.fromkeys(calls, float("inf"))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, call in calls.items():
            start = clock()
            call()
            best[name] = min(best[name], clock() - start)
    return best


def gflops(seconds: float) -> float:
    """Billions of float32 operations a second in a 2048×2048 matrix product."""
    x = jnp.ones((2048, 2048))
    product = jax.jit(lambda x: x @ x)
    calls = {"product": lambda: product(x).block_until_ready()}
    best = best_times(calls, seconds, time.perf_counter)
    return 2 * 2048**3 / best["product"] / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--envs", nargs="+", default=ENVS)
    parser.add_argument("--copies", nargs="+", type=int, default=[4, 256, 4096])
    parser.add_argument("--seconds", type=float, default=5.0, help="for each row of the table")
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="count the process's CPU time, not the time that passes: for a machine others use too",
    )
    arguments = parser.parse_args()
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    speed = gflops(arguments.seconds)
    rows = []
    for name in arguments.envs:
        env = make(name)
        for n in arguments.copies:
            rollouts = max(1, 4096 // (n * 4))
            forms = {"stocked": stocked, "resetting": resetting}
            calls = {label: runner(form, env, n, rollouts) for label, form in forms.items()}
            steps = rollouts * LENGTH * n
            best = best_times(calls, arguments.seconds, clock)
            target = 3 * RELEASE.get((name, n), float("nan")) * speed / RELEASE_GFLOPS
            rows.append(
                {
                    "environment": name,
                    "copies": n,
                    "steps/s": round(steps / best["stocked"]),
                    "reset every step": round(steps / best["resetting"]),
                    "times": round(best["resetting"] / best["stocked"], 1),
                    "3 x release, scaled": None if np.isnan(target) else round(target),
                }
            )
    print_table(rows, f"random policy, rollouts of {LENGTH} steps; {speed:.0f} GFLOP/s")


if __name__ == "__main__":
    main()

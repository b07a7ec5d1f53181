"""The recurrent loop of one minibatch, forwards and backwards: in lanes, and one step at a time.

    PJRT_NPROC=1 taskset -c 0 python benchmarks/recurrence.py

A GRU over 128 steps, with its weights' gradients; episodes of so many steps each, cut anywhere. In
turns in one process; the best of several rounds counts.
"""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from markovlens.agents import lanes
from markovlens.agents.gru import GRU
from markovlens.agents.kernel import whole_loops

LENGTH, ROUNDS, REPEATS = 128, 6, 20


def main() -> None:
    print("sequences  units  episodes  one by one µs  in lanes µs  ratio")
    for n in (1, 2):
        for n_hidden in (32, 128, 256, 512):
            for episodes in (7, 40, 1000):
                args = example(n, n_hidden, episodes)
                slow, fast = fastest(compiled(10**9, args), compiled(0, args))
                print(
                    f"{n:>9}  {n_hidden:>5}  {episodes:>8}  {slow:13.0f}  {fast:11.0f}  "
                    f"{slow / fast:5.2f}",
                    flush=True,
                )


def example(n: int, n_hidden: int, episodes: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> jax.Array:
        return jnp.float32(rng.normal(size=shape))

    cell = GRU(n_hidden, n_hidden, rng)
    first = (jnp.arange(LENGTH)[:, None] + rng.integers(episodes, size=n)) % episodes == 0
    projected = normal(LENGTH, n, 3 * n_hidden)
    return cell, projected, normal(n, n_hidden), first, normal(LENGTH, n, n_hidden)


def compiled(lanes_from: int, args: tuple[Any, ...]) -> Callable[[], Any]:
    @jax.jit
    def both(cell: GRU, projected: Any, memory: Any, first: Any, d_memories: Any) -> Any:
        def memories(cell: GRU, projected: Any, memory: Any) -> Any:
            return cell.sequence(projected, memory, first)

        found, pull = jax.vjp(memories, cell, projected, memory)
        return found, pull(d_memories)

    lanes.LANES_FROM = lanes_from
    with whole_loops():
        jax.block_until_ready(both(*args))
    return lambda: both(*args)


def fastest(*programs: Callable[[], Any]) -> list[float]:
    """Microseconds a call."""
    best = [float("inf")] * len(programs)
    for _ in range(ROUNDS):
        for i, program in enumerate(programs):
            began = time.perf_counter()
            for _ in range(REPEATS):
                found = program()
            jax.block_until_ready(found)
            best[i] = min(best[i], (time.perf_counter() - began) / REPEATS * 1e6)
    return best


if __name__ == "__main__":
    main()

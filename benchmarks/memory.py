"""How fast memory learning is: a step of gradient descent on the λ-discrepancy, per seed.

    taskset -c 0 python benchmarks/memory.py    # T-maze, 2, 4 and 8 memory states
    taskset -c 0 python benchmarks/memory.py cheese shuttle     # other problems
    taskset -c 0 python benchmarks/memory.py --ours     # all of figure 4, without the tensor

`here` is the package's own chunk of steps, `tensor` the same Adam step on the paper's formula as
printed (the policy over pairs of observations, an inverse over state-action pairs), both compiled,
on the same memories, interleaved, best of several. Times are of the processor, not of the clock, so
that other work on the machine counts little; on one core, since threads that wait for work are
counted too.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import optax
from closed_form import _tensor_q

import markovlens as ml
from markovlens.experiments.memory_runs import PROBLEMS
from markovlens.memory.config import RECIPES, Stage
from markovlens.memory.descent import Logits, advance, links_for, start
from markovlens.pomdp.model import Pomdp

N_SEEDS = 8
CONFIG = RECIPES["paper"].of_one_step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", default=["tmaze"])
    parser.add_argument("--ours", action="store_true", help="every problem, without the tensor")
    args = parser.parse_args()
    with jax.enable_x64(True):
        if args.ours:
            every_problem()
        else:
            for name in args.problems:
                against_the_tensor(name)


def against_the_tensor(name: str) -> None:
    print(f"{name}: seconds per seed per 1000 memory steps")
    print("memory states      here    tensor   ratio   largest difference after a step")
    pomdp = ml.library.load(name)
    for n_memory, few in ((2, 20), (4, 8), (8, 3)):
        logits = random_logits(pomdp, n_memory)
        many = 1600 // n_memory
        ours = partial(our_steps, "memory", pomdp, logits, many)
        theirs = partial(tensor_steps, pomdp, logits, few)
        here, tensor = best_of(ours, theirs)
        here, tensor = here / many / N_SEEDS, tensor / few / N_SEEDS
        apart = jnp.abs(our_steps("memory", pomdp, logits, 1) - tensor_steps(pomdp, logits, 1))
        print(
            f"{n_memory:13d} {1e3 * here:9.4f} {1e3 * tensor:9.3f} {tensor / here:6.0f}x"
            f"   {float(apart.max()):.1e}",
            flush=True,
        )


def every_problem() -> None:
    print("milliseconds per seed and step: memory stage / policy stage")
    for name in PROBLEMS:
        pomdp = ml.library.load(name)
        line = []
        for n_memory in (2, 4, 8):
            logits = random_logits(pomdp, n_memory)
            many = 800 // n_memory
            memory, policy = best_of(
                partial(our_steps, "memory", pomdp, logits, many),
                partial(our_steps, "policy", pomdp, logits, many),
            )
            each = [1e3 * seconds / many / N_SEEDS for seconds in (memory, policy)]
            line.append(f"{n_memory}: {each[0]:.4f} / {each[1]:.4f}")
        print(f"  {name:10s} " + ",  ".join(line), flush=True)


def random_logits(pomdp: Pomdp, n_memory: int) -> Logits:
    keys = jax.random.split(jax.random.key(0))
    sizes = (pomdp.n_observations, pomdp.n_actions)
    policy = jax.random.normal(keys[0], (N_SEEDS, sizes[0], 1, sizes[1]))
    memory = 0.5 * jax.random.normal(keys[1], (N_SEEDS, *sizes, n_memory, n_memory))
    return Logits(jnp.repeat(policy, n_memory, axis=2), memory)


def our_steps(stage: Stage, pomdp: Pomdp, logits: Logits, steps: int) -> jax.Array:
    state = start(stage, CONFIG, logits)
    links = links_for(pomdp, logits.memory.shape[-1], CONFIG.view)
    moved, _, _ = advance(stage, CONFIG, links, pomdp, logits, state, jnp.asarray(steps))
    return moved.memory


@partial(jax.jit, static_argnames="steps")
def tensor_steps(pomdp: Pomdp, logits: Logits, steps: int) -> jax.Array:
    optimiser = optax.adam(CONFIG.learning_rate)

    def objective(memory_logits: jax.Array, policy: jax.Array) -> jax.Array:
        memory = jax.nn.softmax(memory_logits)
        low, high = (_tensor_q(pomdp, policy, memory, lam) for lam in (0.0, 1.0))
        return (policy.reshape(low.shape) * (low - high) ** 2).sum()

    def of_seed(memory_logits: jax.Array, policy_logits: jax.Array) -> jax.Array:
        policy = jax.nn.softmax(policy_logits)

        def step(carry, _):  # type: ignore[no-untyped-def]
            x, state = carry
            updates, state = optimiser.update(jax.grad(objective)(x, policy), state)
            return (optax.apply_updates(x, updates), state), None

        first = (memory_logits, optimiser.init(memory_logits))
        return jax.lax.scan(step, first, None, length=steps)[0][0]

    return jax.lax.map(lambda x: of_seed(*x), (logits.memory, logits.policy))


def best_of(*functions: Callable[[], jax.Array], repeats: int = 6) -> list[float]:
    """Processor seconds of each, after a first call that compiles it."""
    best = [float("inf")] * len(functions)
    for repeat in range(repeats + 1):
        for i, function in enumerate(functions):
            started = time.process_time()
            jax.block_until_ready(function())
            if repeat:
                best[i] = min(best[i], time.process_time() - started)
    return best


if __name__ == "__main__":
    main()

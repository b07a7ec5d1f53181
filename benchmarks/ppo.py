"""Speed of training, beside a plain baseline in the same run.

    python benchmarks/ppo.py                          # all environments, one seed each
    python benchmarks/ppo.py rocksample-11-11 --seeds 8 --devices 2
    python benchmarks/ppo.py tmaze-5 --algo ld rnn     # two critics against one, in turns

Machines differ and so do their moments, so what is reported is environment steps per second divided
by the GFLOP/s of a 2048² float32 matrix product, both the best of several interleaved rounds. The
baseline is the same update with a GRU whose six matrix products are inside the loop, differentiated
by JAX, and with a reset computed at every step. The last line is the peak memory of the process.
"""

import argparse
import resource
import time
from functools import partial

import jax

PAPER_RELEASE = {  # steps/s per GFLOP/s of the paper's public release, for `ld`
    "battleship-10": 1.75,
    "pocman": 1.5,
    "rocksample-15-15": 8.2,
    "rocksample-11-11": 25.0,
    "tmaze-5": 210.0,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("envs", nargs="*", default=list(PAPER_RELEASE))
    parser.add_argument("--algo", nargs="+", default=["ld"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="a round, about")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-baseline", action="store_true")
    args = parser.parse_args()
    if args.devices > 1:
        jax.config.update("jax_num_cpu_devices", args.devices)
    print(
        "environment        program          compile s  steps/s  GFLOP/s  ratio  × release  numbers"
    )
    for env in args.envs:
        compare(env, args)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")


def compare(env: str, args: argparse.Namespace) -> None:
    import plain

    from markovlens.agents.config import PPOConfig, RunSpec
    from markovlens.agents.program import Program
    from markovlens.agents.training import complete

    programs = {}
    for algo in args.algo:
        config = complete(PPOConfig(env=env, algo=algo))
        specs = [RunSpec(config, seed) for seed in range(args.seeds)]
        programs[f"{algo} fast"] = Program(specs)
        if not args.no_baseline:
            programs[f"{algo} plain"] = plain.PlainProgram(specs[:1])
    timed = {name: Timed(program) for name, program in programs.items()}
    flops = 0.0
    for _ in range(args.rounds):
        flops = max(flops, gflops())
        for program in timed.values():
            program.go(args.seconds)
    for name, program in timed.items():
        steps = program.best * programs[name].config.batch_steps * programs[name].n_runs
        ratio = steps / flops
        comparable = env in PAPER_RELEASE and name.startswith("ld")
        against = f"{ratio / PAPER_RELEASE[env]:9.2f}" if comparable else ""
        print(
            f"{env:<18} {name:<16} {program.compile_seconds:9.1f} {steps:8.0f} {flops:8.0f} "
            f"{ratio:6.2f}  {against} {program.parameters():9d}",
            flush=True,
        )


class Timed:
    """A program's compile time and its best rate, in updates per second of each run."""

    def __init__(self, program):
        self.program = program
        began = time.perf_counter()
        self.state = jax.block_until_ready(program(program.start(), 1))
        self.compile_seconds = time.perf_counter() - began
        began = time.perf_counter()
        self.state = jax.block_until_ready(program(self.state, 1))
        self.one = time.perf_counter() - began
        self.best = 0.0

    def parameters(self) -> int:
        """Of one run's network."""
        leaves = jax.tree.leaves(self.state.learner.network)
        return sum(leaf.size // leaf.shape[0] for leaf in leaves)

    def go(self, seconds: float) -> None:
        n = max(1, round(seconds / self.one))
        began = time.perf_counter()
        self.state = jax.block_until_ready(self.program(self.state, n))
        took = time.perf_counter() - began
        self.one = took / n
        self.best = max(self.best, n / took)


@partial(jax.jit, static_argnums=0)
def _product(n: int, x: jax.Array) -> jax.Array:
    return x @ x


def gflops(n: int = 2048, tries: int = 3) -> float:
    """Of an n × n float32 matrix product."""
    x = jax.numpy.ones((n, n)) / n
    jax.block_until_ready(_product(n, x))
    best = float("inf")
    for _ in range(tries):
        began = time.perf_counter()
        jax.block_until_ready(_product(n, x))
        best = min(best, time.perf_counter() - began)
    return 2 * n**3 / best / 1e9


if __name__ == "__main__":
    main()

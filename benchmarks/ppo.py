"""Speed of training, beside a plain baseline in the same run.

    python benchmarks/ppo.py                          # all environments, one seed each
    python benchmarks/ppo.py rocksample-11-11 tmaze-5 --seeds 8 --processes 2   # as a sweep has it
    python benchmarks/ppo.py rocksample-11-11 --seeds 8 --devices 2     # as `train --seeds` has it
    python benchmarks/ppo.py tmaze-5 --algo ld rnn     # two critics against one, in turns

Machines differ and so do their moments, so what is reported is environment steps per second divided
by the GFLOP/s of a 2048² float32 matrix product on all cores, both the best of several interleaved
rounds. The baseline is the same update with a GRU whose six matrix products are inside the loop,
differentiated by JAX, and with a reset computed at every step.

Every program runs in processes of its own, with the threads that the package would give it: one for
a small network and for each of several processes, else a second for the native code. They wait
while others are measured.
"""

import argparse
import os
import resource
import subprocess
import sys
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
    parser.add_argument("--seeds", type=int, default=1, help="in all")
    parser.add_argument("--processes", type=int, default=1, help="that share the seeds")
    parser.add_argument("--devices", type=int, default=1, help="of each process")
    parser.add_argument("--seconds", type=float, default=2.0, help="a round, about")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-baseline", action="store_true")
    parser.add_argument("--serve", choices=["fast", "plain"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args)
        return
    print(
        "environment        program          compile s  steps/s  GFLOP/s  ratio  × release  numbers"
        "  peak GB"
    )
    for env in args.envs:
        compare(env, args)


def compare(env: str, args: argparse.Namespace) -> None:
    programs = {}
    for algo in args.algo:
        programs[f"{algo} fast"] = Running(env, algo, "fast", args)
        if not args.no_baseline:
            programs[f"{algo} plain"] = Running(env, algo, "plain", args)
    flops = 0.0
    for _ in range(args.rounds):
        flops = max(flops, gflops())
        for program in programs.values():
            program.go(args.seconds)
    for name, program in programs.items():
        ratio = program.best / flops
        comparable = env in PAPER_RELEASE and name.startswith("ld")
        against = f"{ratio / PAPER_RELEASE[env]:9.2f}" if comparable else " " * 9
        parameters, gigabytes = program.end()
        print(
            f"{env:<18} {name:<16} {program.compile_seconds:9.1f} {program.best:8.0f} "
            f"{flops:8.0f} {ratio:6.2f}  {against} {parameters:9.0f} {gigabytes:8.2f}",
            flush=True,
        )


class Running:
    """A program in its processes, and the best rate that they had together."""

    def __init__(self, env: str, algo: str, kind: str, args: argparse.Namespace):
        from markovlens.agents.config import PPOConfig
        from markovlens.cli.train import SMALL_LATENT
        from markovlens.cores import ONE_THREAD, training_threads

        n = args.processes if kind == "fast" else 1
        seeds = args.seeds // n if kind == "fast" else 1
        small = PPOConfig(env=env, algo=algo).resolve().latent <= SMALL_LATENT
        threads = training_threads(small) if args.devices == 1 else {}
        command = [sys.executable, __file__, env, "--algo", algo, "--serve", kind]
        command += ["--seeds", str(seeds), "--devices", str(args.devices)]
        self.processes = [
            subprocess.Popen(
                command,
                env=os.environ | (ONE_THREAD if n > 1 else threads),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(n)
        ]
        self.compile_seconds = max(float(answer) for answer in self._answers())
        self.best = 0.0

    def go(self, seconds: float) -> None:
        self._say(f"{seconds}")
        self.best = max(self.best, sum(float(rate) for rate in self._answers()))

    def end(self) -> tuple[float, float]:
        """A network's parameters, and the peak memory of all processes in GB."""
        self._say("end")
        parameters, gigabytes = zip(*(answer.split() for answer in self._answers()), strict=True)
        return float(parameters[0]), sum(map(float, gigabytes))

    def _say(self, line: str) -> None:
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()

    def _answers(self) -> list[str]:
        lines = [process.stdout.readline() for process in self.processes if process.stdout]
        if not all(lines):
            sys.exit("a process died; its message is above")
        return lines


def serve(args: argparse.Namespace) -> None:
    """Compile; then, for every line with a number of seconds, train for about as long and say how
    many steps a second that were."""
    if args.devices > 1:
        jax.config.update("jax_num_cpu_devices", args.devices)
    import plain

    from markovlens.agents.config import PPOConfig, RunSpec
    from markovlens.agents.program import Program
    from markovlens.agents.training import complete

    config = complete(PPOConfig(env=args.envs[0], algo=args.algo[0]))
    kind = plain.PlainProgram if args.serve == "plain" else Program
    program = kind([RunSpec(config, seed) for seed in range(args.seeds)])
    began = time.perf_counter()
    state = jax.block_until_ready(program(program.start(), 1))
    print(time.perf_counter() - began, flush=True)
    one = None
    for line in sys.stdin:
        if line == "end\n":
            break
        n = 1 if one is None else max(1, round(float(line) / one))
        began = time.perf_counter()
        state = jax.block_until_ready(program(state, n))
        took = time.perf_counter() - began
        one = took / n
        print(n * config.batch_steps * args.seeds / took, flush=True)
    leaves = jax.tree.leaves(state.learner.network)
    parameters = sum(leaf.size // leaf.shape[0] for leaf in leaves)
    print(parameters, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, flush=True)


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

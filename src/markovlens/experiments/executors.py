"""Where units of work are done: processes on this machine, or a Ray cluster.

Both only start workers and watch. What is done and what is not is decided by the results folder,
so a worker that dies is a unit that somebody else takes up from its last checkpoint.
"""

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from markovlens.cores import ONE_THREAD, available_cores
from markovlens.experiments.units import Unit
from markovlens.experiments.worker import is_over
from markovlens.progress import Advance

POLL_SECONDS = 0.5


class Executor(Protocol):
    """Returns when every unit is over: done, or failed with its error written down."""

    def __call__(self, results: Path, units: Sequence[Unit], progress: Advance) -> None: ...


class LocalExecutor:
    """`workers` processes on this machine, each with one core; by default one a core."""

    def __init__(self, workers: int | None = None):
        if workers is not None and workers < 1:
            raise ValueError(f"at least one worker is needed, got {workers}")
        self.workers = workers or available_cores()

    def __call__(self, results: Path, units: Sequence[Unit], progress: Advance) -> None:
        pending = [unit for unit in units if not is_over(unit)]
        with self._started(results, pending) as processes:
            while any(process.poll() is None for process in processes):
                progress(*status(units))
                time.sleep(POLL_SECONDS)
            progress(*status(units))
        left = [unit for unit in units if not is_over(unit)]
        if left:
            codes = sorted({process.returncode for process in processes})
            raise ChildProcessError(
                f"all workers died (exit codes {codes}) with {len(left)} of {len(units)} units "
                "left; what is finished is saved, run the same command to go on"
            )

    @contextmanager
    def _started(
        self, results: Path, pending: Sequence[Unit]
    ) -> Iterator[list["subprocess.Popen[str]"]]:
        command = [sys.executable, "-m", "markovlens.experiments.worker", str(results)]
        names = json.dumps([unit.name for unit in pending]) + "\n"
        environment = os.environ | _jax_settings() | ONE_THREAD
        processes = []
        try:
            for _ in range(min(self.workers, len(pending))):
                process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, text=True, env=environment
                )
                processes.append(process)
                assert process.stdin is not None
                process.stdin.write(names)
                process.stdin.flush()
            yield processes
        finally:
            for process in processes:
                if process.poll() is None:
                    process.terminate()  # they save a checkpoint and leave
            for process in processes:
                process.wait()
                if process.stdin is not None:
                    process.stdin.close()


class RayExecutor:
    """Ray tasks, one a unit, on the cluster that `RAY_ADDRESS` names or on a local one.

    The results folder must be one that all machines share. A task whose worker or machine dies is
    started again by Ray, and goes on from the unit's checkpoint.
    """

    def __init__(self, cpus: float = 1.0, gpus: float = 0.0):
        try:
            import ray
        except ImportError as error:
            raise ValueError("the ray executor needs Ray: pip install 'markovlens[ray]'") from error
        self._ray = ray
        self.cpus, self.gpus = cpus, gpus

    def __call__(self, results: Path, units: Sequence[Unit], progress: Advance) -> None:
        ray = self._ray
        started = not ray.is_initialized()
        if started:
            ray.init(log_to_driver=False, include_dashboard=False, logging_level=logging.WARNING)
        try:
            task = ray.remote(
                num_cpus=self.cpus,
                num_gpus=self.gpus,
                max_retries=-1,
                runtime_env={"env_vars": _jax_settings() | (ONE_THREAD if self.cpus <= 1 else {})},
            )(_ray_task)
            folder = str(results.resolve())
            running = [task.remote(folder, unit.name) for unit in units if not is_over(unit)]
            while running:
                finished, running = ray.wait(running, timeout=POLL_SECONDS)
                ray.get(finished)
                progress(*status(units))
        finally:
            if started:
                ray.shutdown()


def status(units: Sequence[Unit]) -> tuple[float, str]:
    """Steps done by all units together, by whoever works on them, and a word on it."""
    over = sum(is_over(unit) for unit in units)
    return sum(unit.progress * unit.steps for unit in units), f"{over}/{len(units)} units"


def _ray_task(results: str, name: str) -> None:
    from markovlens.experiments.runs import train_unit
    from markovlens.experiments.worker import work

    work(Path(results), [name], train_unit)


def _jax_settings() -> dict[str, str]:
    """What workers need to share this process's cache of compiled programs."""
    import jax

    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    values = {name.upper(): getattr(jax.config, name) for name in names}
    return {name: str(value) for name, value in values.items() if value is not None}

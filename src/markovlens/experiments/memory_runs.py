"""Figure 4 and the right of figure 5 as a grid of cells, each learned once and kept.

A cell is one problem, recipe and memory size, with all its seeds, in one parquet file. Processes
that share the folder claim cells, and a cell that was stopped half-way goes on where it was.
"""

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import jax
import polars as pl

from markovlens.experiments.claims import claimed, try_claim
from markovlens.experiments.items import Scale
from markovlens.files import write_parquet
from markovlens.memory.config import RECIPES, MemoryConfig
from markovlens.memory.learn import learn_memories
from markovlens.pomdp import library
from markovlens.pomdp.policies import uniform_policy
from markovlens.pomdp.solve import solve
from markovlens.progress import Advance, silent
from markovlens.values.td_lambda import start_value

PROBLEMS = ("tmaze", "tiger", "paint", "cheese", "network", "shuttle", "maze4x3")
PARITY = "parity_check"
N_SEEDS: dict[Scale, int] = {"quick": 5, "paper": 30}
# Memory states; 1 is the memoryless baseline, policy gradient alone.
SIZES: dict[Scale, tuple[int, ...]] = {"quick": (1, 2, 4), "paper": (1, 2, 4, 8)}
# A tenth of the steps, each three times as large.
QUICK_CHANGES: dict[str, dict[str, float]] = {
    "paper": {"memory_steps": 2_000, "policy_steps": 1_000, "learning_rate": 0.03},
    "best": {"restarts": 4, "polish_steps": 1_000},
}
SOLVE_TOLERANCE, SOLVE_SECONDS = 1e-3, 300.0


class Cell(NamedTuple):
    """One bar of the figure."""

    problem: str
    recipe: str
    n_memory: int

    @property
    def name(self) -> str:
        return f"{self.problem}-{self.recipe}-{self.n_memory}"

    @property
    def cost(self) -> float:
        """How long it takes, in units that only compare cells: the solves grow with the square of
        the states that they are over, until they fill the cache."""
        return 100.0 + float(library.load(self.problem).n_states * self.n_memory) ** 2

    def file(self, folder: Path) -> Path:
        return folder / "cells" / f"{self.name}.parquet"

    def config(self, scale: Scale) -> MemoryConfig:
        """The recipe; Parity Check hides its discrepancy, so there the memory comes first."""
        changes = QUICK_CHANGES[self.recipe] if scale == "quick" else {}
        config = replace(RECIPES[self.recipe], **changes)  # type: ignore[arg-type]
        return replace(config, random_memory=self.problem == PARITY)


class Job(NamedTuple):
    """A cell with what its scale makes of it."""

    cell: Cell
    config: MemoryConfig
    n_seeds: int


def cells(scale: Scale, problems: tuple[str, ...] = (*PROBLEMS, PARITY)) -> list[Cell]:
    """All of them, small memories first: a stopped run has whole columns."""
    return [
        Cell(problem, recipe, n_memory)
        for n_memory in SIZES[scale]
        for recipe in RECIPES
        for problem in problems
    ]


def run_cells(
    folder: Path,
    scale: Scale,
    problems: tuple[str, ...] = (*PROBLEMS, PARITY),
    workers: int = 1,
    progress: Advance = silent,
) -> pl.DataFrame:
    """Learn every cell that is not in `folder` yet; then the table of all of them.

    `workers` processes share the cells, this one among them; more, on this machine or another, may
    do the same with one folder at the same time. `progress` counts up to 1.
    """
    jobs = [Job(cell, cell.config(scale), N_SEEDS[scale]) for cell in cells(scale, problems)]
    spawn = multiprocessing.get_context("spawn")
    others = [
        spawn.Process(target=_help, args=(folder, jobs), daemon=True) for _ in range(workers - 1)
    ]
    for process in others:
        process.start()
    try:
        _work(folder, jobs, progress)
    finally:
        for process in others:
            process.terminate()
            process.join()
    return read_table(folder)


def _help(folder: Path, jobs: list[Job]) -> None:
    """What the other processes do, for as long as the one that started them lives."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def leave_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=leave_with_parent, daemon=True).start()
    _work(folder, jobs, silent)


def _work(folder: Path, jobs: list[Job], progress: Advance) -> None:
    for problem in {job.cell.problem: None for job in jobs}:
        _scale_of(folder, problem)
    costs = {job.cell: job.cell.cost for job in jobs}

    def within(cell: Cell) -> Advance:
        finished = sum(cost for other, cost in costs.items() if other.file(folder).exists())

        def report(done: float, status: str = "") -> None:
            share = (finished + done * costs[cell]) / sum(costs.values())
            progress(share, f"{cell.name}: {status}")

        return report

    for job in jobs:
        claim = try_claim(folder / "claims", job.cell.name)
        if claim is None:
            continue
        try:
            _learn(folder, job, within(job.cell))
        finally:
            claim.release()
    for job in jobs:  # what others had claimed, if they did not finish it
        with claimed(folder / "claims", job.cell.name):
            _learn(folder, job, within(job.cell))
    progress(1.0)


def read_table(folder: Path) -> pl.DataFrame:
    """Every finished cell of a folder, one row a seed, with its normalised score.

    `score` is 0 for the uniform random policy and 1 for the belief optimum's upper bound.
    """
    files = sorted((folder / "cells").glob("*.parquet"))
    if not files:
        raise ValueError(f"{folder} has no finished cells of the memory experiment")
    scales = pl.concat(pl.read_parquet(file) for file in (folder / "scales").glob("*.parquet"))
    table = pl.concat(pl.read_parquet(file) for file in files).join(scales, on="problem")
    score = (pl.col("value") - pl.col("uniform")) / (pl.col("optimum") - pl.col("uniform"))
    return table.with_columns(score=score).sort("problem", "recipe", "n_memory", "seed")


def _learn(folder: Path, job: Job, progress: Advance) -> None:
    cell, config, n_seeds = job
    file = cell.file(folder)
    if file.exists():
        return
    half_way = file.with_suffix(".npz")
    total = n_seeds * config.gradient_steps(cell.n_memory)

    def within_cell(done: float, status: str = "") -> None:
        progress(done / total, status)

    started = time.process_time()
    found = learn_memories(
        library.load(cell.problem),
        cell.n_memory,
        range(n_seeds),
        config,
        checkpoint=half_way,
        progress=within_cell,
    )
    rows = [
        {
            **cell._asdict(),
            "seed": learned.seed,
            "value": learned.value,
            "initial_discrepancy": learned.initial_discrepancy,
            "discrepancy": learned.discrepancy,
            "restart": learned.restart,
            "gradient_steps": config.gradient_steps(cell.n_memory),
            "cpu_seconds": (time.process_time() - started) / n_seeds,
        }
        for learned in found
    ]
    write_parquet(file, pl.DataFrame(rows))
    half_way.unlink(missing_ok=True)
    # No other cell has use for this one's programs, and of forty cells' together the operating
    # system runs out of memory maps.
    jax.clear_caches()


def _scale_of(folder: Path, problem: str) -> None:
    """What 0 and 1 are for a problem: solved once and kept."""
    file = folder / "scales" / f"{problem}.parquet"
    with claimed(folder / "claims", f"scale-{problem}"):
        if file.exists():
            return
        pomdp = library.load(problem)
        solution = solve(pomdp, tol=SOLVE_TOLERANCE, time=SOLVE_SECONDS)
        if solution.interrupted:
            raise KeyboardInterrupt  # these bounds are good enough for people, not for a yardstick
        row = {
            "problem": problem,
            "uniform": float(start_value(pomdp, uniform_policy(pomdp))),
            "optimum_reached": solution.lower,
            "optimum": solution.upper,
        }
        write_parquet(file, pl.DataFrame([row]))


def summary(table: pl.DataFrame) -> Iterator[dict[str, object]]:
    """One row a bar: the mean score over seeds and its 95% interval."""
    from markovlens.agents.interval import mean_interval

    keys = ["problem", "recipe", "n_memory"]
    for (problem, recipe, n_memory), rows in table.group_by(keys, maintain_order=True):
        mean = mean_interval(rows["score"].to_numpy())
        yield {
            "problem": problem,
            "recipe": recipe,
            "n_memory": n_memory,
            "seeds": rows.height,
            "score": float(mean.value),
            "low": float(mean.low),
            "high": float(mean.high),
        }

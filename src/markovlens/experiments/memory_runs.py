"""Figure 4 and the right of figure 5 as a grid of cells, each learned once and kept.

A cell is one problem, recipe and memory size, with all its seeds, in one parquet file. Processes
that share the folder claim cells, and a cell that was stopped half-way goes on where it was.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl

from markovlens.experiments.claims import claimed, try_claim
from markovlens.files import write_parquet
from markovlens.memory.config import RECIPES, MemoryConfig
from markovlens.memory.learn import learn_memories
from markovlens.pomdp import library
from markovlens.pomdp.policies import uniform_policy
from markovlens.pomdp.solve import solve
from markovlens.progress import Advance, silent
from markovlens.values.td_lambda import start_value

Scale = Literal["quick", "paper"]

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

    def config(self, scale: Scale) -> MemoryConfig:
        """The recipe; Parity Check hides its discrepancy, so there the memory comes first."""
        changes = QUICK_CHANGES[self.recipe] if scale == "quick" else {}
        config = replace(RECIPES[self.recipe], **changes)  # type: ignore[arg-type]
        return replace(config, random_memory=self.problem == PARITY)


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
    progress: Advance = silent,
) -> pl.DataFrame:
    """Learn every cell that is not in `folder` yet; then the table of all of them.

    Several processes may do this with one folder at the same time.
    """
    todo = cells(scale, problems)
    for problem in problems:
        _scale_of(folder, problem)
    for done, cell in enumerate(todo):
        progress(done, cell.name)
        _learn_if_free(folder, cell, scale, progress, done)
    for done, cell in enumerate(todo):  # what others had claimed, if they did not finish it
        with claimed(folder / "claims", cell.name):
            _learn(folder, cell, scale, progress, done)
    progress(len(todo))
    return read_table(folder)


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


def _learn_if_free(folder: Path, cell: Cell, scale: Scale, progress: Advance, index: int) -> None:
    claim = try_claim(folder / "claims", cell.name)
    if claim is None:
        return
    try:
        _learn(folder, cell, scale, progress, index)
    finally:
        claim.release()


def _learn(folder: Path, cell: Cell, scale: Scale, progress: Advance, index: int) -> None:
    file = folder / "cells" / f"{cell.name}.parquet"
    if file.exists():
        return
    config, n_seeds = cell.config(scale), N_SEEDS[scale]
    half_way = folder / "cells" / f"{cell.name}.npz"
    total = n_seeds * config.gradient_steps

    def within_cell(done: float, status: str = "") -> None:
        progress(index + done / total, f"{cell.name}: {status}")

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
            "gradient_steps": config.gradient_steps,
            "cpu_seconds": (time.process_time() - started) / n_seeds,
        }
        for learned in found
    ]
    write_parquet(file, pl.DataFrame(rows))
    half_way.unlink(missing_ok=True)


def _scale_of(folder: Path, problem: str) -> None:
    """What 0 and 1 are for a problem: solved once and kept."""
    file = folder / "scales" / f"{problem}.parquet"
    with claimed(folder / "claims", f"scale-{problem}"):
        if file.exists():
            return
        pomdp = library.load(problem)
        solution = solve(pomdp, tol=SOLVE_TOLERANCE, time=SOLVE_SECONDS)
        row = {
            "problem": problem,
            "uniform": float(start_value(pomdp, uniform_policy(pomdp))),
            "optimum_reached": solution.lower,
            "optimum": solution.upper,
        }
        write_parquet(file, pl.DataFrame([row]))


def summary(table: pl.DataFrame) -> Iterator[dict[str, object]]:
    """One row a bar: the mean score over seeds and its 95% interval."""
    from markovlens.experiments.stats import mean_interval

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

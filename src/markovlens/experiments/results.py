"""What came out of an experiment: learning curves by task, agent, setting and seed.

A results folder holds the curves of its finished units; a committed copy may be one parquet file
with the same columns. Both are read here, and everything that draws or counts starts from them.
"""

import json
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from jaxtyping import Float

from markovlens.experiments.config import Experiment, Setting
from markovlens.experiments.stats import area_under_curve
from markovlens.experiments.units import Unit, load_units
from markovlens.files import write_parquet

COLUMNS = (
    "stage",
    "task",
    "agent",
    "options",
    "seed",
    "step",
    "return",
    "discounted_return",
    "discrepancy",
    "diverged",
)
FINAL_SHARE = 0.1  # a final score is the mean over this last part of training


class Results:
    """The curves in a results folder, or in a parquet file of them."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        if not self.path.exists():
            raise FileNotFoundError(f"there are no results at {self.path}")

    @cached_property
    def curves(self) -> pl.DataFrame:
        """A row per run and point of its curve; `options` is the setting's, as JSON."""
        if self.path.is_file():
            return _read(self.path)
        done = [unit for unit in load_units(self.path) if unit.done]
        if done:
            return pl.concat([_read(unit.curves) for unit in done], how="diagonal")
        single = self.path / "curves.parquet"
        if single.exists():
            return _read(single)
        raise ValueError(f"{self.path} holds no finished runs yet")

    @property
    def units(self) -> list[Unit]:
        return load_units(self.path) if self.path.is_dir() else []

    @property
    def reported(self) -> pl.DataFrame:
        """The runs to show: those with report seeds, or the sweep's while there are none."""
        reported = self.curves.filter(pl.col("stage") == "report")
        return reported if reported.height else self.curves

    def scores(
        self, experiment: Experiment, task: str, agent: str
    ) -> dict[Setting, Float[np.ndarray, "seeds"]]:
        """The area under the curve of every setting swept with all its seeds, seed by seed."""
        wanted = {
            setting: set(experiment.task(task).sweep_seeds)
            for setting in experiment.candidates()
            if (setting.task, setting.agent) == (task, agent)
        }
        if not any(unit.done for unit in self.units) and self.path.is_dir():
            return {}
        rows = self.curves.filter(
            (pl.col("task") == task) & (pl.col("agent") == agent) & (pl.col("stage") == "sweep")
        )
        found: dict[Setting, dict[int, float]] = {}
        for (options, seed), run in rows.group_by("options", "seed"):
            setting = Setting(task, agent, json.loads(str(options)))
            found.setdefault(setting, {})[int(str(seed))] = area(run, experiment.score)
        return {
            setting: np.array([found[setting][seed] for seed in sorted(seeds)])
            for setting, seeds in wanted.items()
            if seeds and seeds <= set(found.get(setting, {}))
        }

    def save(self, path: str | Path) -> None:
        """All curves as one small parquet file."""
        write_parquet(path, self.curves)


def area(run: pl.DataFrame, metric: str) -> float:
    """The area under one run's curve, in units of the metric; NaN if the run diverged."""
    if run["diverged"].any():
        return float("nan")
    run = run.sort("step")
    return float(area_under_curve(run["step"].to_numpy(), run[metric].to_numpy()))


def matrix(rows: pl.DataFrame, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps[T] and curves[seeds, T] of the runs in `rows`, at the steps that all of them have.

    Steps at which a run finished no episode hold its last value from before (NaN if none).
    """
    runs = [run.sort("step") for _, run in sorted(rows.group_by("options", "seed"), key=_order)]
    common = sorted(set.intersection(*(set(run["step"].to_list()) for run in runs)))
    filled = [
        run.with_columns(pl.col(metric).fill_nan(None).forward_fill())
        .filter(pl.col("step").is_in(common))[metric]
        .cast(pl.Float64)
        .fill_null(float("nan"))
        .to_numpy()
        for run in runs
    ]
    return np.array(common), np.stack(filled)


def final_scores(rows: pl.DataFrame, metric: str) -> Float[np.ndarray, "seeds"]:
    """Each run's mean over the last tenth of its training."""
    steps, curves = matrix(rows, metric)
    late = steps > (1 - FINAL_SHARE) * steps[-1]
    return np.nanmean(curves[:, late], axis=1)


def _order(item: tuple[tuple[object, ...], pl.DataFrame]) -> tuple[str, int]:
    (options, seed), _ = item
    return str(options), int(str(seed))


def _read(path: Path) -> pl.DataFrame:
    table = pl.read_parquet(path)
    missing = [column for column in COLUMNS if column not in table.columns]
    if missing:
        raise ValueError(
            f"{path} was not written by this version: it has no column {missing[0]!r}; "
            "it is left as it is"
        )
    return table

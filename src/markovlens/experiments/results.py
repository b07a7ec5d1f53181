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

from markovlens.experiments.config import Agent, Experiment, Setting, Stage, Task, read_experiment
from markovlens.experiments.selection import best_setting
from markovlens.experiments.stats import area_under_curve
from markovlens.experiments.units import Unit, load_units

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
SINGLE = "curves.parquet"  # all curves of a folder whose units are not kept
FINAL_SHARE = 0.1  # a final score is the mean over this last part of training


class Results:
    """The curves in a results folder, or in a parquet file of them."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        if not self.path.exists():
            raise FileNotFoundError(f"there are no results at {self.path}")

    @property
    def known(self) -> bool:
        """Whether anything is finished."""
        if self.path.is_file() or (self.path / SINGLE).exists():
            return True
        return any(unit.done for unit in self.units)

    @cached_property
    def curves(self) -> pl.DataFrame:
        """A row per run and point of its curve; `options` is the setting's, as JSON."""
        if self.path.is_file():
            return _read(self.path)
        done = [unit for unit in load_units(self.path) if unit.done]
        if done:
            return pl.concat([_read(unit.curves) for unit in done], how="diagonal")
        single = self.path / SINGLE
        if single.exists():
            return _read(single)
        inside = sorted(p.parent.name for p in self.path.glob(f"*/{SINGLE}"))
        hint = f", but {', '.join(inside)} in it do" if inside else " yet"
        raise ValueError(f"{self.path} holds no finished runs{hint}")

    @cached_property
    def experiment(self) -> Experiment | None:
        """What was asked for, if these are the results of a sweep."""
        file, scale = self.path / "experiment.toml", self.path / "scale.json"
        if not (file.exists() and scale.exists()):
            return None
        return read_experiment(file, json.loads(scale.read_text(encoding="utf-8")))

    @property
    def units(self) -> list[Unit]:
        return load_units(self.path) if self.path.is_dir() else []

    @cached_property
    def reported(self) -> pl.DataFrame:
        """The runs to show: those with report seeds, or the sweep's best while there are none.

        Of a folder with an experiment, what that reports as it stands now. Elsewhere an agent that
        was reported with several settings becomes several agents, named after them. The column
        `stage` says which of both they are, whatever they were once made for: see `shows`.
        """
        reported = self.curves.filter(pl.col("stage") == "report")
        if self.experiment is not None:
            current = self._reported_by(self.experiment)
            reported = current if current.height else reported
        if reported.height:
            return told_apart(reported).with_columns(stage=pl.lit("report"))
        score = self.experiment.score if self.experiment else "return"
        return _best_of_sweep(self.curves, score).with_columns(stage=pl.lit("sweep"))

    @property
    def shows(self) -> Stage:
        """Whether `reported` is the report stage, or the best of the sweep by its own seeds."""
        return "sweep" if "sweep" in self.reported["stage"] else "report"

    def _reported_by(self, experiment: Experiment) -> pl.DataFrame:
        """Without the settings and seeds that an earlier form of the experiment asked for."""
        wanted = {}
        for task in experiment.tasks:
            for agent in experiment.agents:
                setting = self.choice(experiment, task, agent)
                if setting is not None:
                    wanted[setting] = list(task.report_seeds)
        parts = [self.curves.clear()]
        for (task_name, agent_name, options), runs in self.curves.group_by(
            "task", "agent", "options", maintain_order=True
        ):
            setting = Setting(str(task_name), str(agent_name), json.loads(str(options)))
            parts.append(runs.filter(pl.col("seed").is_in(wanted.get(setting, []))))
        return pl.concat(parts)

    def choice(self, experiment: Experiment, task: Task, agent: Agent) -> Setting | None:
        """The setting to report: the one that is given, or the sweep's best; None if not known."""
        given = experiment.given(task, agent)
        if given is not None:
            return given
        scores = self.scores(experiment, task.name, agent.name)
        return best_setting(scores) if scores else None

    def scores(
        self, experiment: Experiment, task: str, agent: str
    ) -> dict[Setting, Float[np.ndarray, "seeds"]]:
        """The area under the curve of every setting swept with all its seeds, seed by seed.

        Whatever a run was once made for, its seed says what it serves now.
        """
        wanted = {
            setting: set(experiment.task(task).sweep_seeds)
            for setting in experiment.candidates()
            if (setting.task, setting.agent) == (task, agent)
        }
        if not self.known:
            return {}
        rows = self.curves.filter(
            (pl.col("task") == task)
            & (pl.col("agent") == agent)
            & pl.col("seed").is_in(list(experiment.task(task).sweep_seeds))
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


def told_apart(rows: pl.DataFrame) -> pl.DataFrame:
    """The same runs, where an agent with several settings on a task has a name for each.

    The name says what differs: `ld` becomes `ld (beta 0.5)` and `ld (beta 0.25)`.
    """
    parts = []
    for (_, agent), part in rows.group_by("task", "agent", maintain_order=True):
        settings = {text: json.loads(text) for text in part["options"].unique().to_list()}
        keys = sorted({key for options in settings.values() for key in options})
        odd = [k for k in keys if len({json.dumps(o.get(k)) for o in settings.values()}) > 1]
        names = {
            text: f"{agent} ({', '.join(f'{k} {options.get(k)}' for k in odd)})" if odd else agent
            for text, options in settings.items()
        }
        parts.append(part.with_columns(pl.col("options").replace_strict(names).alias("agent")))
    return pl.concat(parts)


def _best_of_sweep(rows: pl.DataFrame, score: str) -> pl.DataFrame:
    parts = []
    for _, part in rows.group_by("task", "agent", maintain_order=True):
        settings = [setting for _, setting in part.group_by("options", maintain_order=True)]
        by_setting = {
            i: np.array([area(run, score) for _, run in setting.group_by("seed")])
            for i, setting in enumerate(settings)
        }
        parts.append(settings[best_setting(by_setting)])
    return pl.concat(parts)


def area(run: pl.DataFrame, metric: str) -> float:
    """The area under one run's curve, in units of the metric; NaN if it diverged or is empty."""
    if run["diverged"].any() or not run[metric].is_finite().any():
        return float("nan")
    run = run.sort("step")
    return float(area_under_curve(run["step"].to_numpy(), run[metric].to_numpy()))


def matrix(rows: pl.DataFrame, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps[T] and curves[seeds, T] of the runs in `rows`, at the steps that all of them have.

    Steps at which a run finished no episode hold its last value from before (NaN if none). Runs
    that diverged are left out, unless all did: their curves stop short.
    """
    kept = rows.filter(~_diverged())
    runs = _runs(kept if kept.height else rows)
    common = sorted(set.intersection(*(set(run["step"].to_list()) for run in runs)))
    filled = [_filled(run, metric)[run["step"].is_in(common).to_numpy()] for run in runs]
    return np.array(common), np.stack(filled)


def final_scores(rows: pl.DataFrame, metric: str) -> Float[np.ndarray, "seeds"]:
    """Each run's mean over the last tenth of its training; NaN if no episode had ended by then.

    Runs that diverged have no final score: see `n_diverged`.
    """
    scores = []
    for run in _runs(rows.filter(~_diverged())):
        step = run["step"].to_numpy()
        late = _filled(run, metric)[step > (1 - FINAL_SHARE) * step[-1]]
        known = late[np.isfinite(late)]
        scores.append(known.mean() if known.size else np.nan)
    return np.array(scores)


def n_diverged(rows: pl.DataFrame) -> int:
    """How many of the runs diverged."""
    return rows.filter(_diverged()).select("options", "seed").unique().height


def _diverged() -> pl.Expr:
    return pl.col("diverged").any().over("options", "seed")


def _runs(rows: pl.DataFrame) -> list[pl.DataFrame]:
    return [run.sort("step") for _, run in sorted(rows.group_by("options", "seed"), key=_order)]


def _filled(run: pl.DataFrame, metric: str) -> Float[np.ndarray, "T"]:
    """A run's curve, with its last value from before where there is none."""
    filled = run.select(pl.col(metric).fill_nan(None).forward_fill().cast(pl.Float64))
    return filled[metric].fill_null(float("nan")).to_numpy()


def _order(item: tuple[tuple[object, ...], pl.DataFrame]) -> tuple[str, int]:
    (options, seed), _ = item
    return str(options), int(str(seed))


def _read(path: Path) -> pl.DataFrame:
    try:
        table = pl.read_parquet(path)
    except pl.exceptions.PolarsError as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"{path} cannot be read as parquet ({reason}): put a copy back, or delete it and run "
            "the sweep again"
        ) from None
    missing = [column for column in COLUMNS if column not in table.columns]
    if missing:
        raise ValueError(
            f"{path} was not written by this version: it has no column {missing[0]!r}; "
            "it is left as it is"
        )
    return table

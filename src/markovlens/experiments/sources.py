"""What a report is made of: results folders, run folders, parquet files, in any mixture."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import NamedTuple

import polars as pl

from markovlens.agents.config import PPOConfig
from markovlens.agents.folder import RunFolder
from markovlens.agents.run import Run, load_run
from markovlens.experiments.config import Setting
from markovlens.experiments.results import Results, told_apart
from markovlens.experiments.runs import curves_of
from markovlens.experiments.tables import Row, table_budgets
from markovlens.experiments.units import PlannedRun, Unit

PICTURES = (".png", ".gif", ".webp")

Load = Callable[[], tuple[Run, int]]
Loads = dict[tuple[str, str, str], Load]  # (task, agent, options) -> its first run


class Player(NamedTuple):
    """An agent that can play an episode: `load` opens its run, and says which in its folder."""

    task: str
    agent: str
    load: Load


class Source(NamedTuple):
    """Everything that was found."""

    title: str
    curves: pl.DataFrame
    budgets: list[Row]  # what the sweeps say with the whole grids, and with equal budgets
    players: list[Player]
    pictures: list[Path]


def gather(paths: Sequence[Path]) -> Source:
    """Read them all; agents that come with several settings are told apart."""
    if not paths:
        raise ValueError("nothing to report: give results folders, run folders or parquet files")
    tables: list[pl.DataFrame] = []
    loads: Loads = {}
    titles: list[str] = []
    pictures: list[Path] = []
    budgets: list[Row] = []
    for path in paths:
        folder = RunFolder(path)
        if folder.exists:
            table, own = _run_folder(folder)
        else:
            results = Results(path)
            table = results.reported
            own = _units(results.units)
            if results.experiment:
                titles.append(results.experiment.title)
                budgets += table_budgets(results.experiment, results)
        tables.append(table)
        loads = own | loads
        pictures += [p for p in sorted(path.glob("pictures/*")) if p.suffix.lower() in PICTURES]
    joined = pl.concat(tables, how="diagonal_relaxed")
    # Names that `reported` has already made longer stay as they are.
    curves = told_apart(joined)
    players = _players(curves, loads)
    title = " and ".join(dict.fromkeys(titles)) or "Training runs"
    return Source(title, curves, budgets, players, pictures)


def find_players(results: Results) -> list[Player]:
    """The trained agents behind the runs that results show."""
    return _players(results.reported, _units(results.units))


def _run_folder(folder: RunFolder) -> tuple[pl.DataFrame, Loads]:
    specs, metrics = folder.specs(), folder.metrics()
    if metrics is None or not metrics.height:
        raise ValueError(f"{folder.path} has no metrics yet: train further, then report")
    runs = [PlannedRun("report", _setting(spec.config), spec.seed) for spec in specs]
    diverged = folder.meta().get("diverged", [False] * len(runs))
    return curves_of(runs, metrics, diverged), _loads(folder.path, runs)


def _setting(config: PPOConfig) -> Setting:
    agent = "perfect" if config.full_view else config.algo
    return Setting(config.env, agent, asdict(config))


def _units(units: Sequence[Unit]) -> Loads:
    loads: Loads = {}
    for unit in units:
        if unit.done and unit.run_folder.exists():
            loads = _loads(unit.run_folder, unit.runs) | loads
    return loads


def _loads(folder: Path, runs: Sequence[PlannedRun]) -> Loads:
    """How to open the runs in a run folder, the first of each setting."""
    loads: Loads = {}
    for i, run in enumerate(runs):
        setting = run.setting
        key = (setting.task, setting.agent, setting.options_text)
        loads.setdefault(key, partial(_open, folder, i))
    return loads


def _open(path: Path, index: int) -> tuple[Run, int]:
    return load_run(path), index


def _players(curves: pl.DataFrame, loads: Loads) -> list[Player]:
    shown = curves.select("task", "agent", "options").unique(maintain_order=True)
    found = []
    for task, agent, options in shown.sort("task", "agent").iter_rows():
        name = agent.partition(" (")[0]
        if (task, name, options) in loads:
            found.append(Player(task, agent, loads[task, name, options]))
    return found

"""The paper's items that need trained agents, made from earlier results or by training now.

Each is `make(out, scale, results, progress)`: with `results` it only draws; without, it first runs
the experiment of that name at that scale, into a folder beside the pictures, resumable as ever.
"""

from collections.abc import Callable
from pathlib import Path

import polars as pl

from markovlens.experiments.config import Stage, find_experiment, read_experiment
from markovlens.experiments.items import Make, Scale
from markovlens.experiments.ppo_figures import fig_ppo, fig_ppo_discounted, fig_ppo_small
from markovlens.experiments.probe_figure import fig_pocman_memory
from markovlens.experiments.results import Results
from markovlens.experiments.sweep import sweep, total_steps
from markovlens.experiments.tables import Row, table_best, table_hyperparameters, to_markdown
from markovlens.files import write_parquet, write_text
from markovlens.progress import Advance


def _figure(experiment: str, draw: Callable[[Results, Path], list[Path]]) -> Make:
    def make(out: Path, scale: Scale, results: Path | None, progress: Advance) -> list[Path]:
        folder = results or _train(experiment, out, scale, progress)
        return draw(Results(folder), out)

    return make


def _train(name: str, out: Path, scale: Scale, progress: Advance) -> Path:
    """Run what the figure shows: the report alone where the file says what to report."""
    file = find_experiment(name)
    experiment = read_experiment(file, scale)
    chosen = all(experiment.given(t, a) for t in experiment.tasks for a in experiment.agents)
    stages: tuple[Stage, ...] = ("report",) if chosen else ("sweep", "report")
    total = total_steps(experiment, stages)
    folder = out / f"{name}-{scale}"

    def share(done: float, status: str = "") -> None:
        progress(done / total, status)

    outcome = sweep(file, folder, stages, scale, progress=share)
    if outcome.failed:
        raise ValueError(
            f"{len(outcome.failed)} of {len(outcome.units)} units failed, the first with: "
            f"{outcome.first_error()}"
        )
    return folder


def _make_hyperparameters(
    out: Path, scale: Scale, results: Path | None, progress: Advance
) -> list[Path]:
    rows = table_hyperparameters(read_experiment(find_experiment("fig-ppo")))
    return _write_table(rows, out, "table-hyperparameters")


def _make_best(out: Path, scale: Scale, results: Path | None, progress: Advance) -> list[Path]:
    found = None if results is None else Results(results)
    experiment = (found and found.experiment) or read_experiment(find_experiment("fig-ppo"))
    rows = table_best(experiment, found)
    return _write_table(rows, out, "table-best")


def _write_table(rows: list[Row], out: Path, name: str) -> list[Path]:
    paths = [out / f"{name}.md", out / f"{name}.parquet"]
    write_text(paths[0], to_markdown(rows))
    write_parquet(paths[1], pl.DataFrame(rows))
    return paths


def _make_memory(out: Path, scale: Scale, results: Path | None, progress: Advance) -> list[Path]:
    def first_half(done: float, status: str = "") -> None:
        progress(done / 2.0, status)

    def second_half(done: float, status: str = "") -> None:
        progress(0.5 + done / 2.0, status)

    folder = results or _train("fig-pocman-memory", out, scale, first_half)
    return fig_pocman_memory(Results(folder), out, scale, second_half)


MAKERS: dict[str, Make] = {
    "fig-ppo": _figure("fig-ppo", fig_ppo),
    "fig-ppo-discounted": _figure("fig-ppo", fig_ppo_discounted),
    "fig-ppo-small": _figure("fig-ppo-small", fig_ppo_small),
    "table-hyperparameters": _make_hyperparameters,
    "table-best": _make_best,
    "fig-pocman-memory": _make_memory,
}

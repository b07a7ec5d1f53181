"""One page for people: curves, scores, settings, and an episode to step through.

The page is a single file that opens offline: styles, script, numbers and pictures are inside.
"""

import base64
import html
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from markovlens.agents.config import config_from
from markovlens.agents.interval import Estimate, mean_interval
from markovlens.experiments.labels import agent_colours, agent_label, in_order, task_label
from markovlens.experiments.results import final_scores, matrix
from markovlens.experiments.sources import Source, gather
from markovlens.experiments.stats import FEW_SEEDS
from markovlens.experiments.tables import CHOSEN_BY_THE_SAME, Row, table_comparison
from markovlens.files import fill, write_text
from markovlens.progress import Advance, silent

METRICS = {
    "return": "return",
    "discounted_return": "discounted return",
    "length": "episode length",
    "entropy": "policy entropy",
    "explained_variance_1": "explained variance",
}
DISCREPANCY = "discrepancy"
NEVER_NEGATIVE = (DISCREPANCY, "length")
POINTS = 150  # of a curve on the page


class Page(NamedTuple):
    """Where the page is, and what it shows."""

    path: Path
    n_runs: int
    n_episodes: int


def write_report(
    paths: Sequence[str | Path],
    out: str | Path,
    title: str | None = None,
    max_steps: int = 200,
    progress: Advance = silent,
) -> Page:
    """Write the page for results folders, run folders and parquet files of curves.

    Each agent plays one episode of at most `max_steps` steps on each task for which its network is
    at hand; 0 leaves the player out. Pictures in a results folder's `pictures` folder are shown.

    Example: `write_report(["results/mine"], "report.html")`.
    """
    source = gather([Path(path) for path in paths])
    episodes = _episodes(source, max_steps, progress) if max_steps > 0 else []
    data = page_data(source.curves) | {
        "budgets": [_cells(row) for row in source.budgets],
        "episodes": episodes,
        "pictures": [
            {"title": path.stem.replace("-", " "), "src": data_uri(path)}
            for path in source.pictures
        ],
    }
    title = title or source.title
    write_text(out, render(title, data))
    return Page(Path(out), _n_runs(source.curves), len(episodes))


def page_data(curves: pl.DataFrame) -> dict[str, Any]:
    """Everything on the page that comes from numbers."""
    names = in_order(curves["agent"].unique().to_list())
    colours = agent_colours(names)
    shown = [m for m in METRICS if m in curves.columns and curves[m].is_not_null().any()]
    return {
        "agents": [
            {"name": name, "label": agent_label(name), "colour": colours[name]} for name in names
        ],
        "metrics": [{"name": name, "label": METRICS[name]} for name in shown],
        "tasks": [
            _task(task, curves.filter(task=task), [*shown, DISCREPANCY])
            for task in sorted(curves["task"].unique().to_list())
        ],
        "summary": _summary(curves),
        "settings": _settings(curves),
    }


def render(title: str, data: dict[str, Any]) -> str:
    """The page's text."""
    folder = files("markovlens.experiments") / "page"
    parts = {
        "title": html.escape(title),
        "css": (folder / "report.css").read_text(encoding="utf-8"),
        "js": (folder / "report.js").read_text(encoding="utf-8"),
        # A script ends at the first "</", wherever it stands.
        "data": json.dumps(data, allow_nan=False).replace("</", "<\\/"),
        "footer": f"Written by markovlens {version('markovlens')}.",
    }
    return fill((folder / "report.html").read_text(encoding="utf-8"), **parts)


def data_uri(path: Path) -> str:
    kinds = {".png": "image/png", ".gif": "image/gif", ".webp": "image/webp"}
    return as_data_uri(kinds[path.suffix.lower()], path.read_bytes())


def as_data_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _task(name: str, rows: pl.DataFrame, metrics: Sequence[str]) -> dict[str, Any]:
    agents = in_order(rows["agent"].unique().to_list())
    curves: dict[str, dict[str, Any]] = {}
    for metric in metrics:
        for agent in agents:
            part = rows.filter(agent=agent)
            if metric in part.columns and part[metric].is_not_null().any():
                curves.setdefault(metric, {})[agent] = _curve(part, metric)
    finals = []
    for agent in agents:
        scores = final_scores(rows.filter(agent=agent), "return")
        known = scores[np.isfinite(scores)]
        if len(known):
            mean = mean_interval(known)
            seen = {"agent": agent, "scores": _plain(known), "few": len(known) < FEW_SEEDS}
            finals.append(seen | _named(mean))
    return {"name": name, "label": task_label(name), "curves": curves, "finals": finals}


def _curve(rows: pl.DataFrame, metric: str) -> dict[str, Any]:
    steps, seeds = matrix(rows, metric)
    every = max(1, -(-len(steps) // POINTS))
    keep = np.arange(len(steps) - 1, -1, -every)[::-1]
    steps, seeds = steps[keep], seeds[:, keep]
    mean, low, high = mean_interval(seeds)
    if metric in NEVER_NEGATIVE:
        low = np.maximum(low, 0.0)
    curve = {
        "steps": steps.tolist(),
        "seeds": [_plain(seed) for seed in seeds],
        "few": len(seeds) < FEW_SEEDS,
    }
    return curve | _named(Estimate(mean, low, high))


def _named(estimate: Estimate) -> dict[str, Any]:
    names = ("mean", "low", "high")
    return {name: _plain(value) for name, value in zip(names, estimate, strict=True)}


def _plain(values: Any) -> Any:
    """Numbers as JSON has them: five digits, and null for what is not known."""
    if np.ndim(values):
        return [_plain(value) for value in values]
    return float(f"{float(values):.5g}") if math.isfinite(values) else None


def _summary(curves: pl.DataFrame) -> list[str]:
    n_runs, n_tasks = _n_runs(curves), curves["task"].n_unique()
    lines = [f"{n_runs} run{'s' * (n_runs > 1)} on {n_tasks} task{'s' * (n_tasks > 1)}."]
    swept = sorted(curves.filter(stage="sweep")["task"].unique())
    if swept:
        tasks = ", ".join(task_label(task) for task in swept)
        lines.append(f"{tasks}: {CHOSEN_BY_THE_SAME}.")
    for row in table_comparison(curves):
        if row["difference"] is None:  # every run of one of them diverged
            continue
        apart = f"{row['difference']:+.3g}"
        if row["low"] is not None:
            apart += f" [{row['low']:.3g}, {row['high']:.3g}]"
        verdict = {
            "better": "the λ-discrepancy loss helps",
            "worse": "the λ-discrepancy loss hurts",
        }.get(row["verdict"], "can't tell LD and RNN apart")
        lines.append(f"{row['task']}: {verdict} (final return, LD minus RNN: {apart}).")
    return lines


def _n_runs(curves: pl.DataFrame) -> int:
    return curves.select("task", "agent", "options", "seed").unique().height


def _settings(curves: pl.DataFrame) -> list[dict[str, Any]]:
    settings = (
        curves.select("task", "agent", "options").unique(maintain_order=True).sort("task", "agent")
    )
    read = [_whole_config(json.loads(options)) for options in settings["options"]]
    off = ("None", "False", "[]", "()")  # as texts, for 0 == False
    said = {k for options in read for k, v in options.items() if repr(v) not in off}
    # What is off or empty for all needs no column; the environment is the task.
    keys = sorted(said - {"env"}, key=lambda name: (name != "algo", name))
    return [
        _cells({"task": task, "agent": agent} | {key: options.get(key) for key in keys})
        for (task, agent, _), options in zip(settings.iter_rows(), read, strict=True)
    ]


def _whole_config(options: dict[str, Any]) -> dict[str, Any]:
    """With what an option is when nobody sets it; as it stands if that can't be told."""
    if "env" not in options:
        return options
    try:
        config = config_from(options).resolve()
    except ValueError:
        return options
    return asdict(config) | ({"cell": None} if config.memory_cell == "none" else {})


def _cells(row: Row) -> Row:
    return {name: _cell(value) for name, value in row.items()}


def _cell(value: Any) -> Any:
    """What a table shows, as JSON has it: null for what is not known, a text for ±∞."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _episodes(source: Source, max_steps: int, progress: Advance) -> list[dict[str, Any]]:
    from markovlens.envs.registry import is_gymnasium_id
    from markovlens.experiments.episode import PANEL_SIZE, record

    told = []
    for i, (task, agent, load) in enumerate(source.players):
        progress(i / len(source.players), f"{task} {agent}")
        try:
            run, index = load()
        except ValueError:  # no checkpoint yet, or an environment that is not at hand
            continue
        spec = run.specs[index]
        if is_gymnasium_id(spec.config.env):  # stepped by Python: nothing here can draw it
            continue
        episode = record(run, index, max_steps=max_steps)
        pictures = list(dict.fromkeys(moment.picture for moment in episode.moments))
        frames = {picture: i for i, picture in enumerate(pictures)}
        length = f"{len(episode.moments) - 1} steps" + ("" if episode.ended else " and more")
        lams = [spec.config.lam1, spec.config.lam2]
        told.append(
            {
                "label": f"{task_label(task)}: {agent_label(agent)}, seed {spec.seed}, {length}",
                "actions": episode.actions,
                "critics": [
                    f"critic {c + 1}" + ("" if lam is None else f" (λ = {lam:g})")
                    for c, lam in enumerate(lams[: spec.config.n_critics])
                ],
                "frames": [as_data_uri("image/webp", picture) for picture in pictures],
                "size": {"frame": episode.size, "panel": PANEL_SIZE},
                "moments": [
                    moment._asdict() | {"picture": None, "frame": frames[moment.picture]}
                    for moment in episode.moments
                ],
            }
        )
    return told

"""The paper's tables, and the one it lacks: who is better, by how much, and how sure that is.

Tables are lists of rows (dictionaries with the same keys), for a terminal, JSON or Markdown.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from markovlens.agents.interval import mean_interval
from markovlens.experiments.config import Experiment
from markovlens.experiments.labels import agent_label, in_order, task_label
from markovlens.experiments.results import Results, final_scores, n_diverged
from markovlens.experiments.selection import best_setting, equal_budget
from markovlens.experiments.stats import (
    difference_interval,
    interquartile_mean,
    probability_of_improvement,
    stratified_bootstrap,
)

Row = dict[str, Any]

# What is to be said of scores before the report stage: see `Results.shows`.
CHOSEN_BY_THE_SAME = "the sweep's best settings on the seeds that chose them, not on fresh ones"


def table_hyperparameters(experiment: Experiment) -> list[Row]:
    """What each agent's sweep tries, and how many settings that makes."""
    options = dict.fromkeys(key for agent in experiment.agents for key in agent.grid)
    return [
        {
            "agent": agent_label(agent.name),
            **{key: _listed(agent.grid.get(key)) for key in options},
            "settings": len(agent.points()),
        }
        for agent in experiment.agents
    ]


def table_best(experiment: Experiment, results: Results | None = None) -> list[Row]:
    """The settings that are reported: the file's, and beside them those that our sweep prefers."""
    swept = list(dict.fromkeys(key for agent in experiment.agents for key in agent.grid))
    rows = []
    for task in experiment.tasks:
        for agent in experiment.agents:
            given = experiment.given(task, agent)
            scores = results.scores(experiment, task.name, agent.name) if results else {}
            found = best_setting(scores) if scores else None
            for source, setting in (("file", given), ("sweep", found)):
                if setting is not None:
                    values = {key: setting.options.get(key) for key in swept}
                    row: Row = {"task": task.name, "agent": agent.name, "chosen by": source}
                    rows.append(row | values)
    return rows


def table_budgets(experiment: Experiment, results: Results) -> list[Row]:
    """The sweep judged with the whole grid, and with no more settings than the smallest grid.

    Scores are areas under the curve, on seeds that took no part in the choice. Tasks that were
    swept with a single seed are left out.
    """
    rows = []
    for task in experiment.tasks:
        by_agent = {
            agent.name: results.scores(experiment, task.name, agent.name)
            for agent in experiment.agents
            if agent.grid
        }
        known = {name: scores for name, scores in by_agent.items() if scores}
        if len(task.sweep_seeds) < 2:  # choosing and judging need different seeds
            continue
        budget = min((len(scores) for scores in known.values()), default=0)
        for name in in_order(list(known)):
            scores = np.stack(list(known[name].values()))
            for settings in sorted({budget, len(scores)}):
                estimate = equal_budget(scores, settings)
                rows.append(
                    {
                        "task": task_label(task.name),
                        "agent": name,
                        "settings": settings,
                        "area": float(estimate.value),
                        "low": float(estimate.low),
                        "high": float(estimate.high),
                        "seeds": scores.shape[1],
                    }
                )
    return rows


def table_scores(runs: pl.DataFrame, metric: str = "return") -> list[Row]:
    """Final scores of every agent on every task: the mean of the last tenth of training.

    `runs` are curves, such as `Results(folder).reported`. Runs that diverged are counted apart. The
    interquartile mean, of the middle half of the seeds, says what the mean owes to a few of them.
    """
    rows = []
    lost = {key: n_diverged(part) for key, part in runs.group_by("task", "agent")}
    for task, by_agent in _finals(runs, metric).items():
        for agent in in_order(list(by_agent)):
            scores = by_agent[agent]
            row: Row = {"task": task_label(task), "agent": agent, "seeds": len(scores)}
            numbers = mean_interval(scores)._asdict() if len(scores) else {}
            row |= {"mean": numbers.get("value"), "low": numbers.get("low")}
            row |= {"high": numbers.get("high")}
            row |= {"interquartile mean": interquartile_mean(scores) if len(scores) else None}
            row |= {"diverged": lost[task, agent]}
            rows.append({k: float(v) if isinstance(v, np.generic) else v for k, v in row.items()})
    return rows


def table_comparison(
    runs: pl.DataFrame, metric: str = "return", first: str = "ld", second: str = "rnn"
) -> list[Row]:
    """Whether the final scores of `first` beat those of `second`, task by task.

    `verdict` goes by the 95% interval of the difference: better, worse, or "can't tell". Beside it
    stands how often a run of `first` beats one of `second`, with its bootstrapped 95% interval.
    """
    rows = []
    for task, by_agent in _finals(runs, metric).items():
        if not {first, second} <= by_agent.keys():
            continue
        x, y = by_agent[first], by_agent[second]
        row: Row = {"task": task_label(task), "seeds": f"{len(x)} and {len(y)}"}
        if min(len(x), len(y)) < 2:
            rows.append(row | _unknown(float(x.mean() - y.mean()) if len(x) and len(y) else None))
            continue
        apart = difference_interval(x, y)
        chance = stratified_bootstrap(probability_of_improvement, [x], [y])
        verdict = "better" if apart.low > 0 else "worse" if apart.high < 0 else "can't tell"
        rows.append(
            row
            | {"difference": float(apart.value), "low": float(apart.low)}
            | {"high": float(apart.high), "P(better run)": float(chance.value)}
            | {"P low": float(chance.low), "P high": float(chance.high), "verdict": verdict}
        )
    return rows


def to_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a Markdown table."""
    if not rows:
        return ""
    lines = [list(rows[0]), ["---"] * len(rows[0])]
    lines += [[_cell(value) for value in row.values()] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _finals(runs: pl.DataFrame, metric: str) -> dict[str, dict[str, np.ndarray]]:
    """Task -> agent -> final scores by seed, as tasks are listed."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for (task, agent), rows in runs.group_by("task", "agent", maintain_order=True):
        found.setdefault(str(task), {})[str(agent)] = final_scores(rows, metric)
    return dict(sorted(found.items()))


def _unknown(difference: float | None) -> Row:
    nothing = dict.fromkeys(("low", "high", "P(better run)", "P low", "P high"))
    return {"difference": difference} | nothing | {"verdict": "too few seeds: can't tell"}


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _listed(values: Sequence[Any] | None) -> str | None:
    return None if values is None else ", ".join(f"{value:g}" for value in values)

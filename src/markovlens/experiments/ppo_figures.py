"""The paper's learning curves: the mean over seeds with its 95% interval, task by task.

Where seeds are few, they are drawn one by one instead of the interval, which would be all one saw.
Each figure is a function from results to a picture; `Results` says where the numbers come from.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from markovlens.agents.interval import mean_interval
from markovlens.experiments.labels import agent_colours, agent_label, in_order, task_label
from markovlens.experiments.pictures import paper_style, save_figure
from markovlens.experiments.results import Results, matrix
from markovlens.experiments.stats import FEW_SEEDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRIC_LABELS = {
    "return": "undiscounted return",
    "discounted_return": "discounted return",
    "discrepancy": "λ-discrepancy (rms over steps)",
}
# Bounds, not rivals: drawn thinner and dashed.
BOUNDS = ("memoryless", "perfect")


def fig_ppo(results: Results, out: Path) -> list[Path]:
    """Figure 6, left: undiscounted returns, memoryless and full-state agents as bounds."""
    return _figure(results, "return", out, "fig-ppo")


def fig_ppo_discounted(results: Results, out: Path) -> list[Path]:
    """The same runs by their discounted returns."""
    return _figure(results, "discounted_return", out, "fig-ppo-discounted")


def fig_ppo_small(results: Results, out: Path) -> list[Path]:
    """The small POMDPs, four panels a row, by what is optimised: discounted returns."""
    return _figure(results, "discounted_return", out, "fig-ppo-small", columns=4)


def _figure(results: Results, metric: str, out: Path, name: str, columns: int = 2) -> list[Path]:
    figure = learning_curves(results, metric, columns)
    numbers = results.reported.select("task", "agent", "options", "seed", "step", metric)
    return save_figure(figure, numbers, out, name)


def learning_curves(results: Results, metric: str, columns: int = 2) -> "Figure":
    """One panel a task, one line an agent, a band for its 95% interval or a line for each seed."""
    with paper_style():
        return _panels(results, metric, columns)


def _panels(results: Results, metric: str, columns: int) -> "Figure":
    from matplotlib.figure import Figure

    rows = results.reported
    tasks = sorted(rows["task"].unique().to_list())
    columns = min(columns, len(tasks))
    lines = -(-len(tasks) // columns)
    figure = Figure(figsize=(3.4 * columns, 2.7 * lines + 0.7), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    agents = in_order(rows["agent"].unique().to_list())
    colours = agent_colours(agents)
    counts = set()  # of seeds
    for panel, task in zip(panels, tasks, strict=False):
        for agent in agents:
            part = rows.filter(task=task, agent=agent)
            if part.height:
                steps, curves = matrix(part, metric)
                _draw(panel, steps, curves, agent, colours[agent])
                counts.add(len(curves))
        panel.set_title(task_label(task))
        panel.set_xlabel("environment steps")
        panel.xaxis.set_major_formatter(_millions)
    for panel in panels[len(tasks) :]:
        panel.set_visible(False)
    for panel in panels[::columns]:
        panel.set_ylabel(METRIC_LABELS.get(metric, metric))
    figure.suptitle(_around_the_means(counts), fontsize="small")
    _legend(figure, panels, columns)
    return figure


def _around_the_means(counts: set[int]) -> str:
    """What the figure shows beside the means, given the numbers of seeds."""
    said = []
    if max(counts) >= FEW_SEEDS:
        said.append("bands: 95% intervals of the mean over seeds")
    if min(counts) < FEW_SEEDS:
        said.append("thin lines: single seeds")
    return "; ".join(said)


def _draw(panel: "Axes", steps: np.ndarray, curves: np.ndarray, agent: str, colour: str) -> None:
    seen = ~np.isnan(curves).any(axis=0)
    steps, curves = steps[seen], curves[:, seen]
    mean, low, high = mean_interval(curves)
    bound = agent in BOUNDS
    label = f"{agent_label(agent)}, {len(curves)} seed{'s' * (len(curves) != 1)}"
    style: dict[str, Any] = {"linestyle": "--", "linewidth": 1.2} if bound else {"linewidth": 1.8}
    panel.plot(steps, mean, color=colour, label=label, **style)
    if len(curves) < FEW_SEEDS:
        panel.plot(steps, curves.T, color=colour, alpha=0.45, linewidth=0.6)
    else:
        panel.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)


def _legend(figure: "Figure", panels: Any, columns: int) -> None:
    """One legend for all panels where they agree on the numbers of seeds; else one each."""
    said = [panel.get_legend_handles_labels() for panel in panels if panel.get_visible()]
    if all(labels == said[0][1] for _, labels in said):
        handles, labels = said[0]
        width = min(len(labels), columns)
        figure.legend(handles, labels, loc="outside lower center", ncols=width)
    else:
        for panel in panels:
            if panel.get_visible():
                panel.legend(fontsize="x-small")


def _millions(steps: float, _: object) -> str:
    if steps >= 1e6:
        return f"{steps / 1e6:g}M"
    return f"{steps / 1e3:g}k" if steps >= 1e3 else f"{steps:g}"

"""Figure 4, and figure 5 on the right: what a learned memory is worth."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from markovlens.cores import available_cores
from markovlens.experiments.items import Make, Scale
from markovlens.experiments.labels import task_label
from markovlens.experiments.memory_runs import PARITY, PROBLEMS, read_table, run_cells, summary
from markovlens.experiments.pictures import BLACK, BLUE, ORANGE, SKY, paper_style, save_figure
from markovlens.progress import Advance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREY = "#8a8a8a"
SIZE_COLOURS = {1: GREY, 2: SKY, 4: BLUE, 8: ORANGE}
SIZE_LABELS = {1: "memoryless", 2: "2 memory states", 4: "4 memory states", 8: "8 memory states"}


def fig_memory(table: pl.DataFrame, out: Path) -> list[Path]:
    """Figure 4 from the table of `run_cells`: scores with 95% intervals, by problem and memory.

    Each problem has the paper's recipe in the upper row and the best in the lower.
    """
    bars = pl.DataFrame(list(summary(table.filter(pl.col("problem") != PARITY))))
    problems = [problem for problem in PROBLEMS if problem in set(bars["problem"])]
    with paper_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.0, 4.6), layout="constrained")
        panels = figure.subplots(2, 1, sharex=True)
        for panel, recipe in zip(panels, ("paper", "best"), strict=True):
            _bars(panel, bars.filter(pl.col("recipe") == recipe), problems)
            panel.set_title(f"recipe: {recipe}", loc="left")
            panel.set_ylabel("normalised score")
        panels[1].set_xticks(range(len(problems)), [task_label(name) for name in problems])
        handles, labels = panels[0].get_legend_handles_labels()
        if not handles:
            handles, labels = panels[1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=5, title=_spread(bars))
    return save_figure(figure, bars, out, "fig-memory")


def fig_parity_memory(table: pl.DataFrame, out: Path) -> list[Path]:
    """Figure 5, right: Parity Check, where no memoryless policy beats the uniform one."""
    bars = pl.DataFrame(list(summary(table.filter(pl.col("problem") == PARITY))))
    recipes = [name for name in ("paper", "best") if name in set(bars["recipe"])]
    with paper_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4.6, 3.0), layout="constrained")
        panel = figure.add_subplot()
        _bars(panel, bars.with_columns(problem=pl.col("recipe")), recipes)
        panel.set_xticks(range(len(recipes)), [f"recipe: {name}" for name in recipes])
        panel.set_ylabel("normalised score")
        figure.legend(loc="outside upper center", ncols=2, title=_spread(bars))
    return save_figure(figure, bars, out, "fig-parity-memory")


def _bars(panel: "Axes", bars: pl.DataFrame, groups: list[str]) -> None:
    """A group of bars for each problem, one for each size of memory."""
    sizes = sorted(set(bars["n_memory"]))
    width = 0.8 / max(len(sizes), 1)
    for i, size in enumerate(sizes):
        rows = bars.filter(pl.col("n_memory") == size)
        found = {row["problem"]: row for row in rows.iter_rows(named=True)}
        places = [g for g, name in enumerate(groups) if name in found]
        heights = [found[groups[g]]["score"] for g in places]
        errors = [
            [found[groups[g]]["score"] - found[groups[g]]["low"] for g in places],
            [found[groups[g]]["high"] - found[groups[g]]["score"] for g in places],
        ]
        panel.bar(
            [g + (i - (len(sizes) - 1) / 2.0) * width for g in places],
            heights,
            width,
            yerr=errors,
            color=SIZE_COLOURS.get(size, BLACK),
            label=SIZE_LABELS.get(size, f"{size} memory states"),
            error_kw={"lw": 1.0, "capsize": 1.5},
        )
    panel.axhline(1.0, color=BLACK, lw=0.8, ls="--", label="optimal")
    panel.spines["bottom"].set_position("zero")  # the bars' baseline, also if one goes below it
    panel.set_ylim(min([0.0, *bars["score"]]), 1.08)


def _spread(bars: pl.DataFrame) -> str:
    """What bars and whiskers are."""
    counts = sorted(set(bars["seeds"].to_list()))
    seeds = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    return f"mean of {seeds} seeds, with its 95% interval"


def _maker(problems: tuple[str, ...], draw: Callable[[pl.DataFrame, Path], list[Path]]) -> Make:
    """Draw from `results`, or from cells that are learned into a folder beside the picture."""

    def make(out: Path, scale: Scale, results: Path | None, progress: Advance) -> list[Path]:
        if results is not None:
            return draw(read_table(results), out)
        folder = out / f"memory-{scale}"
        return draw(run_cells(folder, scale, problems, available_cores(), progress), out)

    return make


MAKERS: dict[str, Make] = {
    "fig-memory": _maker(PROBLEMS, fig_memory),
    "fig-parity-memory": _maker((PARITY,), fig_parity_memory),
}

"""A picture of an answer: the size of the discrepancy, what carries it, what would remove it."""

from pathlib import Path
from typing import TYPE_CHECKING

from markovlens.evidence.answer import Detection, Remedy
from markovlens.files import atomic_open

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {True: "#2a9d8f", False: "#d1495b", None: "#8d99ae"}
MOST_BARS = 8


def plot_detection(found: Detection, path: str | Path) -> None:
    """Writes a picture (`.png`, `.svg`, `.pdf`) of the answer."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    path = Path(path)
    kind = path.suffix.lower().lstrip(".")
    if kind not in ("png", "svg", "pdf"):
        raise ValueError(f"a picture is .png, .svg or .pdf; got {path.name!r}")
    height = max(3.6, 1.2 + 0.24 * len(found.remedies))
    figure = Figure(figsize=(10.0, height), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(
        f"{found.verdict}{', by past rewards' if found.revealed_by == 'rewards' else ''}"
        f"   (p = {found.p_value:.3g}, {found.steps:,} steps, γ = {found.gamma:g})",
        color=COLOURS[found.markov],
        fontweight="bold",
    )
    if found.markov is False and len(found.shares) > 1:  # otherwise they are shares of noise
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        _draw_shares(found, right)
    else:
        left = figure.subplots()
    _draw_sizes(found, left)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    with atomic_open(path) as file:
        figure.savefig(file, format=kind, dpi=150)


def _draw_sizes(found: Detection, axes: "Axes") -> None:
    """The discrepancy as it is and with every remedy, without and with memory."""
    names = ["as it is", *(_short(remedy) for remedy in found.remedies)]
    sizes = [found.discrepancy, *(remedy.discrepancy for remedy in found.remedies)]
    remembered = [found.remembered, *(remedy.remembered for remedy in found.remedies)]
    verdicts = [found.markov, *(remedy.markov for remedy in found.remedies)]
    rows = range(len(names))
    axes.barh(rows, sizes, color=[COLOURS[verdict] for verdict in verdicts], height=0.6)
    axes.plot(
        remembered, rows, "D", color="black", markersize=4, label="with memory", clip_on=False
    )
    axes.hlines(0, *found.interval, color="black", linewidth=1.5)
    if found.scale > 0.0:
        bound = found.tolerance * found.scale
        axes.axvline(bound, color="black", linewidth=0.8, linestyle=":")
        axes.text(bound, 0.01, " tolerance", fontsize=8, transform=axes.get_xaxis_transform())
    axes.set_yticks(rows, names)
    for tick, verdict in zip(axes.get_yticklabels(), verdicts, strict=True):
        tick.set_color(COLOURS[verdict])  # a size of 0 has no bar to colour
    axes.invert_yaxis()
    axes.set_xlim(left=0.0)
    paid = "of a reward made from the observations" if found.surrogate else "of the return"
    axes.set_xlabel(f"λ-discrepancy (units {paid})")
    axes.locator_params(axis="x", nbins=6)
    for verdict, label in ((True, "Markov"), (False, "not Markov"), (None, "cannot tell")):
        if verdict in verdicts:
            axes.barh([0], [0], color=COLOURS[verdict], label=label)
    axes.legend(
        fontsize=8,
        frameon=False,
        ncols=4,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.02),
        borderpad=0,
    )


def _short(remedy: Remedy) -> str:
    """What a remedy holds, for a narrow place."""
    parts = (("frame", remedy.frames), ("action", remedy.actions), ("reward", remedy.rewards))
    return " + ".join(f"{n} {what}{'s' if n > 1 else ''}" for what, n in parts if n)


def _draw_shares(found: Detection, axes: "Axes") -> None:
    """What carries the discrepancy, or what of the past reveals it."""
    bars = list(found.shares.items())[:MOST_BARS]
    axes.barh(range(len(bars)), [share for _, share in bars], color="#495867", height=0.6)
    axes.set_yticks(
        range(len(bars)), [name if len(name) < 36 else name[:33] + "…" for name, _ in bars]
    )
    axes.invert_yaxis()
    axes.set_xlabel("share of it")
    axes.set_title("carried by" if found.method == "discrete" else "revealed by", fontsize=10)

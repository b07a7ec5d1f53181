"""Every figure and table of the paper by name: what it is, what it costs, how it is made."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Literal, NamedTuple

from markovlens.names import unknown_name
from markovlens.progress import Advance

Scale = Literal["quick", "paper"]


class Item(NamedTuple):
    """One figure or table. `make(out, scale, results, progress)` writes it and returns the files.

    Costs are for two cores.
    """

    shows: str
    in_paper: str
    cost: dict[Scale, str]
    make: Callable[[Path, Scale, Path | None, Advance], list[Path]]


def _closed_form(name: str) -> Callable[[Path, Scale, Path | None, Advance], list[Path]]:
    """These need neither scale nor earlier results: seconds of linear algebra."""

    def make(out: Path, scale: Scale, results: Path | None, progress: Advance) -> list[Path]:
        figures = import_module("markovlens.experiments.closed_form_figures")
        return getattr(figures, name)(out)

    return make


_SECONDS: dict[Scale, str] = {"quick": "seconds", "paper": "seconds"}

ITEMS: dict[str, Item] = {
    "fig-tmaze-sweep": Item(
        "λ-discrepancy between full and partial observability",
        "figure 3",
        _SECONDS,
        _closed_form("fig_tmaze_sweep"),
    ),
    "fig-mc-vs-td": Item(
        "values of the T-maze's squares by Monte Carlo and by TD",
        "appendix H.1",
        _SECONDS,
        _closed_form("fig_mc_vs_td"),
    ),
    "fig-parity": Item(
        "Parity Check, and what a random bit of memory reveals",
        "figure 5, left and centre",
        _SECONDS,
        _closed_form("fig_parity"),
    ),
    "fig-parity-sweeps": Item(
        "Parity Check loses its symmetry under slight changes",
        "appendix H.5",
        _SECONDS,
        _closed_form("fig_parity_sweeps"),
    ),
    "fig-tk-equality": Item(
        "a POMDP that is an MDP in disguise",
        "appendix F",
        _SECONDS,
        _closed_form("fig_tk_equality"),
    ),
}


def item(name: str) -> Item:
    """The item of that name."""
    if name not in ITEMS:
        raise unknown_name("item", name, ITEMS)
    return ITEMS[name]


def closed_form_names() -> list[str]:
    """The items that take seconds at any scale."""
    return [name for name, entry in ITEMS.items() if entry.cost is _SECONDS]

"""Every figure and table of the paper by name: what it is, what it costs, who makes it."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Literal, NamedTuple

from markovlens.names import unknown_name
from markovlens.progress import Advance

Scale = Literal["quick", "paper"]
# make(out, scale, results, progress) writes an item's files and returns their paths; given results,
# a folder of finished runs, it only draws; `progress` counts up to 1.
Make = Callable[[Path, Scale, Path | None, Advance], list[Path]]


class Item(NamedTuple):
    """One figure or table; its maker is in the `MAKERS` of its module. Costs are for two cores."""

    shows: str
    in_paper: str
    cost: dict[Scale, str]
    module: str


def _cost(quick: str, paper: str) -> dict[Scale, str]:
    return {"quick": quick, "paper": paper}


_SECONDS = _cost("seconds", "seconds")
_CLOSED_FORM = "closed_form_figures"
_MEMORY = "memory_figures"
_PPO = "ppo_items"

ITEMS: dict[str, Item] = {
    "fig-tmaze-sweep": Item(
        "λ-discrepancy between full and partial observability", "figure 3", _SECONDS, _CLOSED_FORM
    ),
    "fig-mc-vs-td": Item(
        "values of the T-maze by Monte Carlo and by TD", "appendix H.1", _SECONDS, _CLOSED_FORM
    ),
    "fig-parity": Item(
        "Parity Check, and what a random bit of memory reveals",
        "figure 5, left and centre",
        _SECONDS,
        _CLOSED_FORM,
    ),
    "fig-parity-sweeps": Item(
        "Parity Check loses its symmetry under slight changes",
        "appendix H.5",
        _SECONDS,
        _CLOSED_FORM,
    ),
    "fig-tk-equality": Item(
        "a POMDP that is an MDP in disguise", "appendix F", _SECONDS, _CLOSED_FORM
    ),
    "fig-memory": Item(
        "what learned memories of 2, 4 and 8 states are worth",
        "figure 4",
        _cost("minutes", "an hour"),
        _MEMORY,
    ),
    "fig-parity-memory": Item(
        "a memory learned for Parity Check",
        "figure 5, right",
        _cost("a minute", "minutes"),
        _MEMORY,
    ),
    "fig-ppo": Item(
        "learning curves of the three agents, undiscounted",
        "figure 6, left",
        _cost("minutes", "months"),
        _PPO,
    ),
    "fig-ppo-discounted": Item(
        "the same runs, discounted", "appendix I.3", _cost("minutes", "months"), _PPO
    ),
    "fig-ppo-small": Item(
        "learning curves on the small POMDPs", "appendix I.7", _cost("minutes", "days"), _PPO
    ),
    "table-hyperparameters": Item("the grid that was swept", "appendix I.4", _SECONDS, _PPO),
    "table-best": Item("the settings selected", "appendix I.4", _SECONDS, _PPO),
    "fig-pocman-memory": Item(
        "the pellets an agent remembers, against the true maze",
        "figure 6, right",
        _cost("minutes", "days"),
        _PPO,
    ),
}


def item(name: str) -> Item:
    """The item of that name."""
    if name not in ITEMS:
        raise unknown_name("item", name, ITEMS)
    return ITEMS[name]


def make(name: str, out: Path, scale: Scale, results: Path | None, progress: Advance) -> list[Path]:
    """Write the item's files into `out`."""
    module = import_module(f"markovlens.experiments.{item(name).module}")
    maker: Make = module.MAKERS[name]
    return maker(out, scale, results, progress)


def closed_form_names() -> list[str]:
    """The items that need nothing but seconds of linear algebra."""
    return [name for name, entry in ITEMS.items() if entry.module == _CLOSED_FORM]

"""`markovlens reproduce`: a figure or table of the paper."""

from pathlib import Path
from typing import Annotated, Literal

import tyro


def reproduce(
    item: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[ITEM]")] = None,
    scale: Literal["quick", "paper"] = "quick",
    results: Annotated[Path | None, tyro.conf.arg(name="from")] = None,
    out: Path = Path("out"),
    list: bool = False,
    json: bool = False,
) -> None:
    """Make a figure or table of the paper: PNG and SVG, with its numbers as parquet.

    Example: markovlens reproduce fig-tmaze-sweep

    Args:
        item: which one; `--list` shows them all. `all-closed-form` makes those that take seconds.
        scale: quick shows the shape in minutes, paper uses the paper's seeds and steps.
        results: a folder of finished runs to draw from, instead of running anything.
        out: folder to write to.
        list: show every item of the paper and what it costs.
        json: with --list, print JSON.
    """
    from markovlens.cli.output import print_json, print_table
    from markovlens.cli.runtime import prepare_jax
    from markovlens.experiments import items
    from markovlens.progress import progress_bar

    if list:
        rows = [
            {"item": name, "shows": i.shows, "in the paper": i.in_paper, **i.cost}
            for name, i in items.ITEMS.items()
        ]
        print_json(rows) if json else print_table(rows)
        return
    if item is None:
        raise ValueError("say which item to make; `markovlens reproduce --list` shows them all")
    names = items.closed_form_names() if item == "all-closed-form" else [item]
    for name in names:
        if results is not None and name in items.closed_form_names():
            raise ValueError(
                f"{name} is computed in seconds and draws from no runs: leave out --from"
            )
        items.item(name)
    prepare_jax()
    for name in names:
        with progress_bar(name, total=1.0) as advance:
            paths = items.make(name, out, scale, results, advance)
        for path in paths:
            print(path)

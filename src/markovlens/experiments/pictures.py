"""How every figure looks and is saved: PNG and SVG beside the numbers as parquet."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from markovlens.files import atomic_open, write_parquet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# After Okabe and Ito: told apart by people who see few colours.
BLACK, ORANGE, SKY, GREEN, BLUE, RED, PINK = (
    "#000000",
    "#e69f00",
    "#56b4e9",
    "#009e73",
    "#0072b2",
    "#d55e00",
    "#cc79a7",
)

_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "svg.hashsalt": "markovlens",
}


@contextmanager
def paper_style() -> Iterator[None]:
    """Matplotlib settings of all figures, for the block only."""
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        yield


def save_figure(figure: "Figure", numbers: pl.DataFrame, out: Path, name: str) -> list[Path]:
    """Write `name`.png, .svg and .parquet into `out`; returns their paths."""
    paths = [out / f"{name}.{kind}" for kind in ("png", "svg", "parquet")]
    with paper_style():
        for path, kind in zip(paths[:2], ("png", "svg"), strict=True):
            metadata = {"Date": None} if kind == "svg" else None
            with atomic_open(path) as file:
                figure.savefig(file, format=kind, metadata=metadata)
    write_parquet(paths[2], numbers)
    return paths

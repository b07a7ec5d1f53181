"""How commands print: tables for people, JSON for programs, pictures by path."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

PICTURES = (".png", ".svg", ".pdf")


def print_json(value: object) -> None:
    """One JSON document on stdout; NaN and infinities, which JSON lacks, become null."""
    print(json.dumps(_plain(value), indent=2, allow_nan=False))


def print_table(rows: Sequence[Mapping[str, object]], title: str = "") -> None:
    """A table of rows that share their keys: rich on a terminal, plain columns in a pipe."""
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False)
    columns = list(rows[0]) if rows else []
    if not console.is_terminal:
        _print_plain(rows, columns, title)
        return
    table = Table(title=title or None, title_justify="left")
    for column in columns:
        numeric = all(isinstance(row[column], int | float) for row in rows)
        table.add_column(column, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(format_cell(row[column]) for column in columns))
    console.print(table)


def check_picture_name(path: Path) -> None:
    """Refuses a --plot that cannot be drawn, before any work is done for it."""
    if path.suffix.lower() not in PICTURES:
        raise ValueError(f"--plot must end in .png, .svg or .pdf, got {str(path)!r}")


def format_cell(value: object) -> str:
    """Numbers to six significant digits, None as a dash."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def _print_plain(rows: Sequence[Mapping[str, object]], columns: list[str], title: str) -> None:
    if title:
        print(title)
    cells = [columns, *([format_cell(row[c]) for c in columns] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    for line in cells:
        print("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip())


def _plain(value: object) -> object:
    import math

    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value

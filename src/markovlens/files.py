"""Files that are either whole or not there: write beside, flush, rename."""

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import polars as pl


@contextmanager
def atomic_open(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary file beside `path` that replaces it only when the block succeeds.

    A crash, a kill or a full disk leaves the old file (or none) as it was.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    encoding = None if "b" in mode else "utf-8"
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        os.fchmod(descriptor, 0o666 & ~_umask())
        with os.fdopen(descriptor, mode, encoding=encoding) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def cache_folder() -> Path | None:
    """Where compiled programs are kept between calls: the user's cache folder, or what
    `MARKOVLENS_CACHE` says; nowhere if that is empty."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    named = os.environ.get("MARKOVLENS_CACHE", str(Path(home) / "markovlens"))
    return Path(named) if named else None


def write_text(path: str | os.PathLike[str], text: str) -> None:
    with atomic_open(path, "w") as file:
        file.write(text)


def write_json(path: str | os.PathLike[str], value: object) -> None:
    write_text(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def write_parquet(path: str | os.PathLike[str], table: pl.DataFrame) -> None:
    with atomic_open(path) as file:
        table.write_parquet(file)


def fill(template: str, **parts: str) -> str:
    """The template with each {{name}} replaced by that part, whatever is written in the parts.

    >>> fill("{{a}} and {{b}}", a="{{b}}", b="c")
    '{{b}} and c'
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark[1]], template)


def _umask() -> int:
    mask = os.umask(0o077)  # can only be read by setting it
    os.umask(mask)
    return mask

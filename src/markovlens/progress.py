"""One progress bar for long work: a live bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

SECONDS_BETWEEN_LINES = 30.0


class Advance(Protocol):
    """Reports that `done` of the total is finished, and what there is to say about it."""

    def __call__(self, done: float, status: str = "") -> None: ...


def silent(done: float, status: str = "") -> None:
    """Progress that nobody watches: the default of every library function."""


@contextmanager
def progress_bar(title: str, total: float) -> Iterator[Advance]:
    """A bar on stderr with the time to go; plain lines, half a minute apart, when not a terminal.

    >>> with progress_bar("count", total=3) as advance:
    ...     for i in range(3):
    ...         advance(i + 1)
    """
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[status]}", markup=False),
        )
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(title, total=total, status="")
            yield lambda done, status="": bar.update(task, completed=done, status=status)
    else:
        yield _PlainLines(title, total)


class _PlainLines:
    def __init__(self, title: str, total: float):
        self._title, self._total = title, total
        self._first: tuple[float, float] | None = None
        self._last = time.monotonic()

    def __call__(self, done: float, status: str = "") -> None:
        now = time.monotonic()
        if self._first is None:  # what came before it, compiling above all, says nothing of pace
            self._first = now, done
        started, at_first = self._first
        if now - self._last < SECONDS_BETWEEN_LINES or done <= at_first:
            return
        self._last = now
        left = (now - started) * (self._total - done) / (done - at_first)
        share = 100.0 * done / self._total
        print(f"{self._title}: {share:.0f}%, {left:.0f} s to go {status}", file=sys.stderr)

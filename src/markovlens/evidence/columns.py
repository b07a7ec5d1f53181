"""Columns of numbers, one row for each step, that are made when they are asked for."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int

ROWS_AT_ONCE = 4096  # to make features of: hundreds of them stay near the caches; more is slower
BEFORE_START = -1.0

Rows: TypeAlias = slice | Int[np.ndarray, "n"]


@dataclass(frozen=True)
class Made:
    """Stands for an array [N, d], of which only the rows in use are held."""

    make: Callable[[Rows], Float[np.ndarray, "n d"]]

    def __getitem__(self, rows: Rows) -> Float[np.ndarray, "n d"]:
        return self.make(rows)

    @property
    def width(self) -> int:
        return self[:1].shape[1]

    def at(self, some: Int[np.ndarray, "M"]) -> "Made":
        """Only some of the rows, numbered anew."""
        return Made(lambda rows: self[some[rows]])


Column: TypeAlias = np.ndarray | Made  # [N, ...]


def beside(columns: Sequence[Column]) -> Made:
    """All of them flattened, in one row for each step."""
    return Made(lambda rows: np.hstack([_flat(column[rows]) for column in columns]))


def lag(column: Column, time: Int[np.ndarray, "N"], steps: int) -> Made:
    """Each row's value `steps` earlier; -1 before the start of the episode.

    `time` counts the steps since then.
    """

    def make(rows: Rows) -> Float[np.ndarray, "n d"]:
        index = np.arange(*rows.indices(len(time))) if isinstance(rows, slice) else rows
        values = _flat(column[np.maximum(index - steps, 0)])
        return np.where((time[index] >= steps)[:, None], values, BEFORE_START)

    return Made(make)


def _flat(values: np.ndarray) -> Float[np.ndarray, "n d"]:
    return values.reshape(len(values), math.prod(values.shape[1:])).astype(np.float64, copy=False)

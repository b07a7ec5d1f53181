"""A table that is filled by assignments, with wildcards, where the last assignment wins."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

ANY = -1  # a wildcard: the assignment holds for every index of this axis


class _Batch(NamedTuple):
    """Assignments in a row that name the same axes: `table[named[:, k]] = value[k]`."""

    axes: tuple[int, ...]  # the axes that are named; the others are wildcards
    named: Int[np.ndarray, "n k"]  # [named axis, assignment]
    value: Float[np.ndarray, "k"]
    offset: Int[np.ndarray, "k"]  # where in the text each was made
    row_axis: int | None = None  # for a matrix in the text: the axis that its rows run along


class Writes:
    """The assignments to one table in the order of the text, unexpanded.

    Memory grows with the text, not with the table: a table `R[a, s, s', o]` of a model with a
    thousand states has no place in memory, the lines that define it do.

    >>> writes = Writes((2, 3))
    >>> writes.assign((ANY, ANY), 1.0, offset=0)
    >>> writes.assign((1, ANY), 2.0, offset=10)
    >>> writes.assign((1, 2), 3.0, offset=20)
    >>> writes.dense()
    array([[1., 1., 1.],
           [2., 2., 3.]])
    """

    def __init__(self, shape: tuple[int, ...]):
        self.shape = shape
        self._batches: list[_Batch] = []

    def assign(self, index: Sequence[int], value: float, offset: int) -> None:
        """One assignment; ANY in `index` stands for every index of that axis."""
        self.assign_many(np.array(index)[:, None], np.array([value]), np.array([offset]))

    def assign_many(
        self,
        index: Int[np.ndarray, "axes k"],
        values: Float[np.ndarray, "k"],
        offsets: Int[np.ndarray, "k"],
    ) -> None:
        """Many assignments, one a column, in the order of the text."""
        is_named = index != ANY
        changes = np.flatnonzero((is_named[:, 1:] != is_named[:, :-1]).any(axis=0)) + 1
        for start, stop in pairwise([0, *changes.tolist(), len(values)]):
            axes = tuple(np.flatnonzero(is_named[:, start]).tolist())
            run = slice(start, stop)
            named = index[is_named[:, start], run]
            self._batches.append(_Batch(axes, named, values[run], offsets[run]))

    def assign_block(self, index: Sequence[int], block: np.ndarray, offset: int) -> None:
        """Assign an array to the trailing axes: a row or a matrix. Only nonzeros take space."""
        row_axis = len(index) if block.ndim == 2 else None
        named = np.array([i for i in index if i != ANY], dtype=np.int64)[:, None]
        axes = tuple(axis for axis, i in enumerate(index) if i != ANY)
        at = np.array([offset])
        self._batches.append(_Batch(axes, named, np.zeros(1), at, row_axis))
        places = np.stack(np.nonzero(block))
        values = block[tuple(places)]
        whole = np.concatenate([named.repeat(len(values), axis=1), places])
        axes += tuple(range(len(index), len(self.shape)))
        self._batches.append(_Batch(axes, whole, values, at.repeat(len(values)), row_axis))

    def names_axis(self, axis: int) -> bool:
        """Whether the table may vary along this axis: some assignment names an index of it."""
        return any(axis in batch.axes for batch in self._batches)

    def dense(self) -> np.ndarray:
        """The table as an array; what was never assigned is 0."""
        table = np.zeros(self.shape)
        for batch in self._batches:
            if not batch.axes:
                table[...] = batch.value[-1]
                continue
            view = np.moveaxis(table, batch.axes, range(len(batch.axes)))
            wild = view.ndim - len(batch.axes)
            view[tuple(batch.named)] = batch.value.reshape(-1, *[1] * wild)
        return table

    def sparse(self) -> "SparseTable":
        """The table to be asked cell by cell."""
        return SparseTable(self.shape, self._batches)

    def last_write(self, index: Sequence[int]) -> tuple[int, int] | None:
        """Where in the text this row was assigned last, and as which row of a matrix there."""
        for batch in reversed(self._batches):
            touches = np.ones(len(batch.value), dtype=bool)
            for axis, here in zip(batch.axes, batch.named, strict=True):
                if axis < len(index):
                    touches &= here == index[axis]
            if touches.any():
                row = 0 if batch.row_axis is None else index[batch.row_axis]
                return int(batch.offset[np.flatnonzero(touches)[-1]]), row
        return None


class _Pattern(NamedTuple):
    """The last assignment to each key, of all that name the same axes."""

    axes: tuple[int, ...]
    keys: Int[np.ndarray, "k"]  # ravelled over the named axes, increasing
    value: Float[np.ndarray, "k"]
    offset: Int[np.ndarray, "k"]


class SparseTable:
    """Looks cells up: for each set of named axes the last fitting assignment, of those the last.

    There are at most 2^axes such sets, however the assignments alternate in the text.
    """

    def __init__(self, shape: tuple[int, ...], batches: Sequence[_Batch]):
        self.shape = shape
        groups: dict[tuple[int, ...], list[_Batch]] = defaultdict(list)
        for batch in batches:
            if len(batch.value):
                groups[batch.axes].append(batch)
        # A matrix clears its place (few named axes) and fills it (all named) at the same offset:
        # with the fewer named axes first, the fill wins.
        self._patterns = [self._pattern(axes, groups[axes]) for axes in sorted(groups, key=len)]

    def at(self, *index: Int[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """The table at these cells: one array per axis, broadcast. Trailing axes may be left out
        if no assignment names them. What was never assigned is 0."""
        cells = np.broadcast_arrays(*index)
        result, newest = np.zeros(cells[0].shape), np.full(cells[0].shape, -1)
        for pattern in self._patterns:
            asked = self._keys(pattern.axes, [cells[axis] for axis in pattern.axes], result.shape)
            place = np.minimum(np.searchsorted(pattern.keys, asked), len(pattern.keys) - 1)
            newer = (pattern.keys[place] == asked) & (pattern.offset[place] >= newest)
            result = np.where(newer, pattern.value[place], result)
            newest = np.where(newer, pattern.offset[place], newest)
        return result

    def _pattern(self, axes: tuple[int, ...], batches: Sequence[_Batch]) -> _Pattern:
        named = np.concatenate([batch.named for batch in batches], axis=1)
        value = np.concatenate([batch.value for batch in batches])
        offset = np.concatenate([batch.offset for batch in batches])
        every_key = self._keys(axes, list(named), value.shape)
        keys, from_the_end = np.unique(every_key[::-1], return_index=True)
        return _Pattern(axes, keys, value[::-1][from_the_end], offset[::-1][from_the_end])

    def _keys(
        self, axes: Sequence[int], index: Sequence[np.ndarray], shape: tuple[int, ...]
    ) -> Int[np.ndarray, "..."]:
        keys = np.zeros(shape, dtype=np.int64)
        for axis, i in zip(axes, index, strict=True):
            keys = keys * self.shape[axis] + i
        return keys

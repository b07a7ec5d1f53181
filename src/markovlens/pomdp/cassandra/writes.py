"""A table that is filled by assignments, with wildcards, where the last assignment wins."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

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
        self._pending_axes: tuple[int, ...] | None = None
        self._pending: list[tuple[int, ...]] = []
        self._pending_values: list[float] = []
        self._pending_offsets: list[int] = []

    def assign(self, index: Sequence[int], value: float, offset: int) -> None:
        """One assignment; ANY in `index` stands for every index of that axis."""
        axes = tuple(axis for axis, i in enumerate(index) if i != ANY)
        if axes != self._pending_axes:
            self._flush()
            self._pending_axes = axes
        self._pending.append(tuple(i for i in index if i != ANY))
        self._pending_values.append(value)
        self._pending_offsets.append(offset)

    def assign_block(self, index: Sequence[int], block: np.ndarray, offset: int) -> None:
        """Assign an array to the trailing axes: a row or a matrix. Only nonzeros take space."""
        self._flush()
        row_axis = len(index) if block.ndim == 2 else None
        named = np.array([i for i in index if i != ANY], dtype=np.int64)[:, None]
        axes = tuple(axis for axis, i in enumerate(index) if i != ANY)
        at = np.array([offset])
        self._batches.append(_Batch(axes, named, np.zeros(1), at, row_axis))
        places = np.stack(np.nonzero(block))
        values = block[tuple(places)]
        whole = np.concatenate([np.repeat(named, len(values), axis=1), places])
        axes += tuple(range(len(index), len(self.shape)))
        self._batches.append(_Batch(axes, whole, values, at.repeat(len(values)), row_axis))

    def dense(self) -> np.ndarray:
        """The table as an array; what was never assigned is 0."""
        table = np.zeros(self.shape)
        for batch in self._all():
            if not batch.axes:
                table[...] = batch.value[-1]
                continue
            view = np.moveaxis(table, batch.axes, range(len(batch.axes)))
            wild = view.ndim - len(batch.axes)
            view[tuple(batch.named)] = batch.value.reshape(-1, *[1] * wild)
        return table

    def names_axis(self, axis: int) -> bool:
        """Whether the table may vary along this axis: some assignment names an index of it."""
        return any(axis in batch.axes for batch in self._all())

    def at(self, *index: Int[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """The table at these cells: one array per axis, broadcast; trailing axes may be left out
        if no assignment names them."""
        cells = np.broadcast_arrays(*index)
        result = np.zeros(cells[0].shape)
        for batch in self._all():
            hit, value = _look_up(batch, cells, self.shape)
            result = np.where(hit, value, result)
        return result

    def last_write(self, index: Sequence[int]) -> tuple[int, int] | None:
        """Where in the text this row was assigned last, and as which row of a matrix there."""
        for batch in reversed(list(self._all())):
            touches = np.ones(len(batch.value), dtype=bool)
            for axis, here in zip(batch.axes, batch.named, strict=True):
                if axis < len(index):
                    touches &= here == index[axis]
            if touches.any():
                row = 0 if batch.row_axis is None else index[batch.row_axis]
                return int(batch.offset[np.flatnonzero(touches)[-1]]), row
        return None

    def _all(self) -> Iterator[_Batch]:
        self._flush()
        yield from self._batches

    def _flush(self) -> None:
        if self._pending:
            assert self._pending_axes is not None
            index = np.array(self._pending, dtype=np.int64).T
            value, offset = np.array(self._pending_values), np.array(self._pending_offsets)
            index = index.reshape(len(self._pending_axes), len(value))
            self._batches.append(_Batch(self._pending_axes, index, value, offset))
        self._pending, self._pending_values, self._pending_offsets = [], [], []
        self._pending_axes = None


def _look_up(
    batch: _Batch, cells: Sequence[np.ndarray], shape: tuple[int, ...]
) -> tuple[Bool[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """Which cells the batch assigns, and what."""
    if not len(batch.value):
        return np.zeros(cells[0].shape, dtype=bool), np.zeros(cells[0].shape)
    if not batch.axes:
        return np.ones(cells[0].shape, dtype=bool), np.full(cells[0].shape, batch.value[-1])
    sizes = tuple(shape[axis] for axis in batch.axes)
    keys = np.ravel_multi_index(tuple(batch.named), sizes)
    keys, last = np.unique(keys[::-1], return_index=True)
    values = batch.value[::-1][last]
    asked = np.ravel_multi_index(tuple(cells[axis] for axis in batch.axes), sizes)
    place = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return keys[place] == asked, values[place]

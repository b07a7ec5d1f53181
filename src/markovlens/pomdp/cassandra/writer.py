"""A `Pomdp` as text in Cassandra's format."""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from markovlens.pomdp.cassandra.scanner import RESERVED
from markovlens.pomdp.model import Pomdp

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")  # what the format allows
DENSE = 0.5  # from this share of nonzeros on, a matrix is shorter than its entries


def format_pomdp(pomdp: Pomdp) -> str:
    """The text of a POMDP file. Numbers are written so that reading gives the same floats.

    Names that the format does not allow are changed to the nearest that it does; a comment says
    what they were.
    """
    states, actions, observations = (
        writable_names(names) for names in (pomdp.states, pomdp.actions, pomdp.observations)
    )
    T, R, Phi, p0 = (np.asarray(x) for x in (pomdp.T, pomdp.R, pomdp.Phi, pomdp.p0))
    lines = [
        *_renamed("state", pomdp.states, states),
        *_renamed("action", pomdp.actions, actions),
        *_renamed("observation", pomdp.observations, observations),
        f"discount: {float(pomdp.gamma)!r}",
        "values: reward",
        f"states: {' '.join(states)}",
        f"actions: {' '.join(actions)}",
        f"observations: {' '.join(observations)}",
        "",
        f"start: {_numbers(p0)}",
        "",
    ]
    for action, matrix in zip(actions, T, strict=True):
        lines += [*_matrix(f"T: {action}", matrix, states, states), ""]
    lines += [*_matrix("O: *", Phi, states, observations), ""]
    lines += [
        f"R: {actions[a]} : {states[s]} : * : * {float(R[s, a])!r}" for s, a in np.argwhere(R)
    ]
    return "\n".join(lines) + "\n"


def writable_names(names: Sequence[str]) -> list[str]:
    """Names that the format allows, each as near to the given one as can be, all different.

    >>> writable_names(["s0", "(s0, m1)", "(s0, m2)", "uniform", "7"])
    ['s0', 's0-m1', 's0-m2', 'uniform_', 'x7']
    """
    allowed = {name for name in names if _NAME.fullmatch(name) and name not in RESERVED}
    result = []
    for name in names:
        if name not in allowed:
            name = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")
            name = name if _NAME.fullmatch(name) else f"x{name}"
            while name in allowed or name in RESERVED:
                name += "_"
            allowed.add(name)
        result.append(name)
    return result


def _renamed(kind: str, old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    for before, after in zip(old, new, strict=True):
        if before != after:
            yield f"# {kind} {after} is {before!r}"


def _matrix(
    head: str, matrix: np.ndarray, rows: Sequence[str], columns: Sequence[str]
) -> Iterator[str]:
    """A matrix in the shortest of the format's ways: a word, its entries, or all its numbers."""
    square = matrix.shape[0] == matrix.shape[1]
    if square and (matrix == np.eye(len(matrix))).all() and head.startswith("T"):
        yield from (head, "identity")
    elif np.count_nonzero(matrix) >= DENSE * matrix.size:
        yield head
        yield from (_numbers(row) for row in matrix)
    else:
        for i, j in np.argwhere(matrix):
            yield f"{head} : {rows[i]} : {columns[j]} {float(matrix[i, j])!r}"


def _numbers(values: np.ndarray) -> str:
    return " ".join(f"{value:g}" if value in (0, 1) else repr(value) for value in values.tolist())

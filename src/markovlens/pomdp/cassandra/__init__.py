"""Cassandra's POMDP file format, both ways."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from markovlens.files import write_text
from markovlens.pomdp.cassandra.grammar import Parser
from markovlens.pomdp.cassandra.writer import format_pomdp
from markovlens.pomdp.model import Pomdp, never_left
from markovlens.pomdp.splitting import split_on_action

__all__ = ["format_pomdp", "parse_pomdp", "read_pomdp", "write_pomdp"]


def read_pomdp(path: str | os.PathLike[str]) -> Pomdp:
    """The POMDP in a file of Cassandra's format; see `parse_pomdp`."""
    data = Path(path).read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # old files: comments only, the grammar is ASCII
    return parse_pomdp(text, name=str(path))


def parse_pomdp(text: str, name: str = "<text>") -> Pomdp:
    """The POMDP that a text in Cassandra's format describes.

    - Where the observation depends on the action (`O: listen`, `O: open`), states are split on
      the arriving action; see `markovlens.pomdp.splitting`.
    - A reward that depends on the observation is averaged over it.
    - A state that is entered and never left is the end of an episode: it pays nothing. If the file
      says otherwise, there is a warning.
    - Rows that sum to 1 within 1e-5 are normalised.

    Anything wrong is a `ValueError` that starts with `name:line:column:`.

    >>> parse_pomdp('''
    ... discount: 0.9   states: left right   actions: look   observations: 2
    ... start: uniform  T: look identity     O: look identity
    ... R: look : left : * : * 1
    ... ''')
    Pomdp(2 states, 1 action, 2 observations, gamma=0.9)
    """
    model = Parser(text, name).parse()
    ends = _ends(model.T)
    R = np.where(ends[:, None], 0.0, model.R)
    paying = np.flatnonzero(ends & (model.R != 0.0).any(axis=1))
    if len(paying):
        warnings.warn(
            f"{name}: {_these(model.states, paying)} never left: the end of an episode, so what is "
            "paid there for ever is left out; to keep it, build the model with markovlens.Pomdp",
            stacklevel=2,
        )
    try:
        return split_on_action(**(model._replace(R=R))._asdict())
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def write_pomdp(pomdp: Pomdp, path: str | os.PathLike[str]) -> None:
    """Write the POMDP to a file that `read_pomdp` and other programs can read."""
    write_text(path, format_pomdp(pomdp))


def _these(states: Sequence[str], some: np.ndarray) -> str:
    """The first of them by name."""
    first = ", ".join(repr(states[s]) for s in some[:3])
    if len(some) == 1:
        return f"state {first} is"
    return f"states {first} are" if len(some) <= 3 else f"{len(some)} states ({first}, …) are"


def _ends(T: np.ndarray) -> np.ndarray:
    """States that some other state leads to and that no action leaves."""
    n_states = T.shape[1]
    leads = (T > 0.0).any(axis=0) & ~np.eye(n_states, dtype=bool)
    return np.asarray(never_left(T) & leads.any(axis=0))

"""A half-finished run in one .npz file, whole or not there."""

import os
from collections.abc import Mapping
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from markovlens.files import atomic_open


def save_arrays(
    path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray], made_by: str
) -> None:
    """Write the arrays by name, and `made_by`, which says what they belong to."""
    with atomic_open(path) as file:
        np.savez(file, **{**arrays, "made_by": np.array(made_by)})  # type: ignore[arg-type]


def load_arrays(path: str | os.PathLike[str], made_by: str) -> dict[str, np.ndarray] | None:
    """The arrays by name, or None if there is no file.

    A file that was written by something else is refused: going on with it would mix two runs.
    """
    if not Path(path).exists():
        return None
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as saved:
            arrays = dict(saved)
            belongs_to = str(arrays.pop("made_by"))
    except (OSError, ValueError, TypeError, KeyError, EOFError, BadZipFile) as error:
        raise ValueError(f"{path} is not a saved run ({error}); remove it to start anew") from None
    if belongs_to != made_by:
        raise ValueError(f"{path} belongs to a different run; remove it, or name another file")
    return arrays

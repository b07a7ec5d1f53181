"""Logged data in files: NumPy archives, parquet, JSON lines, and Minari data sets.

One row per step, in order, with the columns

| column | holds | also called |
|---|---|---|
| `observation` | number or vector | `observations`, `obs` |
| `action` | number or vector | `actions` |
| `reward` | number | `rewards` |
| `terminated` | true at the last step of an episode that is over | `terminations`, `terminals` |
| `truncated` | true at the last step of one that was cut; optional | `truncations`, `timeouts` |
| `next_observation` | what the step led to; optional | `next_observations`, `next_obs` |

In parquet a vector is a list column, or columns `observation_0`, `observation_1`, …; in JSON lines
a line is a step, or a whole episode when its values are lists.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from markovlens.evidence.trajectories import Trajectories
from markovlens.names import unknown_name

ALIASES = {
    "observation": ("observations", "obs"),
    "action": ("actions",),
    "reward": ("rewards",),
    "terminated": ("terminations", "terminals"),
    "truncated": ("truncations", "timeouts"),
    "next_observation": ("next_observations", "next_obs"),
}
REQUIRED = ("observation", "action", "reward", "terminated")


def load(path: str | Path) -> Trajectories:
    """Trajectories from a `.npz`, `.parquet` or `.jsonl` file."""
    path = Path(path)
    if not path.exists():
        raise ValueError(f"there is no file {str(path)!r}")
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise unknown_name("kind of data file", suffix, READERS)
    columns = _known(READERS[suffix](path), path)
    try:
        return Trajectories(**columns)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def load_minari(name: str) -> Trajectories:
    """Trajectories from a Minari data set, downloaded if need be."""
    try:
        import minari
    except ImportError:
        raise ValueError(
            "Minari data sets need the extra: pip install 'markovlens[minari]'"
        ) from None
    try:
        episodes = list(minari.load_dataset(name, download=True).iterate_episodes())
    except (ImportError, ValueError, OSError) as error:  # downloads may need more packages
        raise ValueError(f"Minari cannot load {name!r}: {error}") from None
    seen = [_vectors(episode.observations) for episode in episodes]
    return Trajectories(
        observation=np.concatenate([o[:-1] for o in seen]),
        next_observation=np.concatenate([o[1:] for o in seen]),
        action=np.concatenate([_vectors(episode.actions) for episode in episodes]),
        reward=np.concatenate([episode.rewards for episode in episodes]),
        terminated=np.concatenate([episode.terminations for episode in episodes]),
        truncated=np.concatenate([_ending_cut(episode) for episode in episodes]),
    )


def _ending_cut(episode: Any) -> np.ndarray:
    """An episode that neither ended nor says it was cut, was cut."""
    truncated = np.asarray(episode.truncations).astype(bool)
    truncated[-1] |= not episode.terminations[-1]
    return truncated


def _vectors(value: object) -> np.ndarray:
    """Dictionaries and tuples of arrays as one array [steps, ...]."""
    if isinstance(value, Mapping):
        value = tuple(value[name] for name in sorted(value))
    if isinstance(value, tuple):
        parts = [_vectors(part) for part in value]
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
    return np.asarray(value)


def _read_npz(path: Path) -> dict[str, object]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} is not a NumPy archive of plain arrays: {error}") from None


def _read_parquet(path: Path) -> dict[str, object]:
    import polars as pl

    try:
        table = pl.read_parquet(path)
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{path} is not a parquet file: {error}") from None
    columns: dict[str, object] = {}
    numbered: dict[str, list[tuple[int, np.ndarray]]] = {}
    for name in table.columns:
        if table[name].null_count():
            raise ValueError(f"{path}: column {name} has empty cells; every step needs a value")
        match = re.fullmatch(r"(.*)_(\d+)", name)
        if match:
            part = (int(match[2]), table[name].to_numpy())
            numbered.setdefault(match[1], []).append(part)
        elif isinstance(table[name].dtype, pl.List | pl.Array):
            columns[name] = table[name].to_list()
        else:
            columns[name] = table[name].to_numpy()
    for name, parts in numbered.items():
        columns[name] = np.column_stack([values for _, values in sorted(parts, key=lambda p: p[0])])
    return columns


def _read_json_lines(path: Path) -> dict[str, object]:
    columns: dict[str, list] = {}
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}, line {number}: not JSON: {error}") from None
            if not isinstance(record, dict):
                raise ValueError(f"{path}, line {number}: expected an object with a key per column")
            if columns and set(record) != set(columns):
                odd = sorted(set(record) ^ set(columns))[0]
                raise ValueError(
                    f"{path}, line {number}: {odd!r} is in some lines but not in others"
                )
            _append(columns, record, f"{path}, line {number}")
    return dict(columns)


def _append(columns: dict[str, list], record: Mapping[str, object], where: str) -> None:
    """One step, or a whole episode if its rewards are a list."""
    rewards = record.get("reward", record.get("rewards"))
    whole = isinstance(rewards, list)
    for name, value in record.items():
        column = columns.setdefault(name, [])
        if not whole:
            column.append(value)
        elif isinstance(value, list) and isinstance(rewards, list) and len(value) == len(rewards):
            column.extend(value)
        else:
            raise ValueError(
                f"{where}: {name} must be a list as long as the rewards, which are {len(rewards)}"  # type: ignore[arg-type]
            )


def _known(columns: Mapping[str, Any], path: Path) -> dict[str, Any]:
    found = {}
    for name, aliases in ALIASES.items():
        present = [key for key in (name, *aliases) if key in columns]
        if len(present) > 1:
            raise ValueError(f"{path} has both {present[0]} and {present[1]}; keep one")
        if present:
            found[name] = columns[present[0]]
    missing = [name for name in REQUIRED if name not in found]
    if missing:
        has = ", ".join(sorted(map(str, columns))) or "nothing"
        hint = ""
        if missing == ["terminated"] and {"done", "dones"} & set(columns):
            hint = "; 'done' does not say whether an episode was over or only cut"
        raise ValueError(f"{path} has no column {missing[0]!r}{hint} (it has: {has})")
    return found


READERS: dict[str, Callable[[Path], dict[str, object]]] = {
    ".npz": _read_npz,
    ".parquet": _read_parquet,
    ".jsonl": _read_json_lines,
}

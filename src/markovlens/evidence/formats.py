"""Logged data in files: NumPy archives, parquet, CSV, JSON lines, and Minari data sets.

One row per step, in order, with the columns

| column | holds | also called |
|---|---|---|
| `observation` | number or vector | `observations`, `obs` |
| `action` | number or vector | `actions` |
| `reward` | number | `rewards` |
| `terminated` | true at the last step of an episode that is over | `terminations`, `terminals` |
| `truncated` | true at the last step of one that was cut; optional | `truncations`, `timeouts` |
| `next_observation` | what the step led to; optional | `next_observations`, `next_obs` |
| `episode` | a number that changes with every episode; optional | `episode_id` |

A vector can also be given entry by entry, as `observation_0`, `observation_1`, … or by name, as
`observation_angle`, `observation_speed`, …; in parquet also as a struct. Numbers that do not run
from 0 count as names: `observation_1`, `observation_2` are the entries 1 and 2. Where `episode`
changes without `terminated`, one was cut; where `terminated`, `next_observation` may be left open.
In JSON lines a line is a step, or a whole episode when its values are lists; one that is not over
at the end of its line was cut there. Other columns are left alone.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from markovlens.evidence.trajectories import OBSERVATION, Trajectories, one_each
from markovlens.names import unknown_name

ALIASES = {
    "observation": OBSERVATION[1:],
    "action": ("actions",),
    "reward": ("rewards",),
    "terminated": ("terminations", "terminals"),
    "truncated": ("truncations", "timeouts"),
    "next_observation": ("next_observations", "next_obs"),
    "episode": ("episode_id",),
}
REQUIRED = ("observation", "action", "reward", "terminated")
WHOLE = ""  # the entry of a column that is not an entry of a vector
VECTORS = ("observation", "action", "next_observation")


def load(path: str | Path) -> Trajectories:
    """Trajectories from a `.npz`, `.parquet`, `.csv` or `.jsonl` file."""
    path = Path(path)
    if not path.exists():
        raise ValueError(f"there is no file {str(path)!r}")
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise unknown_name("kind of data file", suffix, READERS)
    try:
        return _trajectories(READERS[suffix](path))
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
    except (ImportError, ValueError, TypeError, OSError) as error:  # downloads may need packages
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


def _read_npz(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, TypeError, OSError, EOFError, BadZipFile) as error:
        raise ValueError(f"not a NumPy archive of plain arrays: {error}") from None


def _read_parquet(path: Path) -> dict[str, Any]:
    import polars as pl

    try:
        return _columns(_unnested(pl.read_parquet(path)))
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"not a parquet file: {error}") from None


def _unnested(table: Any) -> Any:
    """Structs entry by entry, as `observation_angle` and so on."""
    import polars as pl

    needed = _needed(table.columns)
    structs = [name for name in needed if isinstance(table[name].dtype, pl.Struct)]
    if not structs:
        return table
    others = [name for name in table.columns if _kind(name) and name not in needed]
    named = [pl.col(name).name.prefix_fields(f"{name}_") for name in structs]
    return _unnested(table.drop(others).with_columns(named).unnest(structs))


def _read_csv(path: Path) -> dict[str, Any]:
    import polars as pl

    _check_header(path)
    try:
        table = pl.read_csv(path, infer_schema_length=None)
        if any(text.str.starts_with(" ").any() for text in table if text.dtype == pl.String):
            tight = re.sub(rb" *, *", b",", path.read_bytes())  # or numbers are taken for texts
            table = pl.read_csv(tight, infer_schema_length=None)
        return _columns(table.rename(str.strip))
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"not a table with a line of column names: {error}") from None


def _check_header(path: Path) -> None:
    """What would be read otherwise than it is meant: other separators, columns of one name."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        header = next((line for line in csv.reader(file) if line), [])
    separator = next((mark for mark in (";", "\t") if mark in "".join(header)), None)
    if len(header) == 1 and separator is not None:
        raise ValueError(
            f"the first line is a single column, {header[0]!r}: is it separated by {separator!r}? "
            "separate columns by commas"
        )
    counts = Counter(name.strip() for name in header)
    twice = [name for name, count in counts.items() if count > 1 and _kind(name)]
    if twice:
        raise ValueError(f"there are {counts[twice[0]]} columns {twice[0]!r}; keep one")


def _columns(table: Any) -> dict[str, Any]:
    """The columns of a data frame."""
    import polars as pl

    if not table.height:
        raise ValueError("there are no steps in the data")
    needed = _needed(table.columns)
    columns: dict[str, Any] = {}
    for column in table:
        if column.name not in needed:
            columns[column.name] = column
            continue
        if column.dtype == pl.Int128:
            raise ValueError(
                f"column {column.name} holds whole numbers of 2⁶³ and more, which do not fit; "
                "number its values anew, from 0"
            )
        if isinstance(column.dtype, pl.Decimal):
            column = column.cast(pl.Float64)
        after = _kind(column.name) == "next_observation"
        if after and column.null_count() and column.dtype.is_numeric():  # open, as at an end
            column = column.cast(pl.Float64).fill_null(float("nan"))
        if column.null_count():
            raise ValueError(f"column {column.name} has empty cells; every step needs a value")
        nested = isinstance(column.dtype, pl.List | pl.Array)
        columns[column.name] = column.to_list() if nested else column.to_numpy()
    return columns


def _read_json_lines(path: Path) -> dict[str, Any]:
    columns: dict[str, list] = {}
    first: set[str] = set()  # what the first line has
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"line {number}: not JSON: {error}") from None
            if not isinstance(record, dict):
                raise ValueError(f"line {number}: expected an object with a key per column")
            needed = set(_needed(record))
            first = first or needed
            if needed != first:
                odd = sorted(needed ^ first)[0]
                raise ValueError(f"line {number}: {odd!r} is in some lines but not in others")
            for name, values in _steps_of(record, needed, f"line {number}").items():
                columns.setdefault(name, []).extend(values)
    return {name: _filled(name, values) for name, values in columns.items()}


def _filled(name: str, values: list) -> list:
    """What follows an end may be null: not a number, or a vector of such."""
    if _kind(name) != "next_observation" or None not in values:
        return values
    shape = np.shape(next((value for value in values if value is not None), 0.0))
    return [np.full(shape, np.nan) if value is None else value for value in values]


def _steps_of(record: Mapping[str, Any], needed: set[str], where: str) -> dict[str, list]:
    """The values of one step, or of a whole episode if its rewards are a list."""
    rewards = record.get("reward", record.get("rewards"))
    if not isinstance(rewards, list):
        return {name: [value] for name, value in record.items()}
    steps, found = len(rewards), {}
    for name, value in record.items():
        found[name] = value if isinstance(value, list) else [value] * steps
        one_for_all = name not in needed or _meaning(name) == ("episode", WHOLE)
        if not one_for_all and (not isinstance(value, list) or len(value) != steps):
            raise ValueError(
                f"{where}: {name} must be a list as long as the rewards, which are {steps}"
            )
    spelt = {_meaning(name): name for name in record}
    over = found.get(spelt.get(("terminated", WHOLE), ""))
    if over:  # an episode that is not over at the end of its line was cut there
        cut = spelt.get(("truncated", WHOLE), "truncated")
        flags = [_single(flag) for flag in found.get(cut, [False] * steps)]
        found[cut] = [*flags[:-1], flags[-1] or not _single(over[-1])]
    return found


def _single(value: Any) -> Any:
    """What a list of one holds."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _trajectories(columns: Mapping[str, Any]) -> Trajectories:
    """From columns that may go by other names, with vectors whole or entry by entry."""
    spelt = _spellings(columns)
    missing = [kind for kind in REQUIRED if kind not in spelt]
    if missing:
        has = ", ".join(sorted(map(str, columns))) or "nothing"
        hint = ""
        if missing == ["terminated"] and {"done", "dones"} & set(columns):
            hint = "; 'done' does not say whether an episode was over or only cut"
        meant = [name for name in columns if _kind(name.lower()) == missing[0]]
        if meant:
            small = meant[0].lower()
            hint = f"; did you mean {small!r} by {meant[0]!r}? write it in small letters"
        raise ValueError(f"no column {missing[0]!r}{hint} (there are: {has})")
    entries = list(spelt["observation"])
    following = list(spelt.get("next_observation", entries))
    if following != entries and WHOLE not in (*following, *entries):
        raise ValueError(
            f"next_observation has the entries {', '.join(following)}, but observation has "
            f"{', '.join(entries)}: they must be the same, in the same order"
        )
    found: dict[str, Any] = {}
    for kind, parts in spelt.items():
        values = [columns[column] for column in parts.values()]
        found[kind] = values[0] if WHOLE in parts else np.column_stack(values)
    for kind in ("terminated", "truncated"):
        if kind in found:
            _check_flags(spelt[kind][WHOLE], found[kind])
    if "episode" in found:
        found["truncated"] = _cut(found.pop("episode"), found)
    return Trajectories(**found, names=_names(entries))


def _names(entries: list[str]) -> list[str]:
    """What entries are called, unless by their place."""
    if entries == [WHOLE] or entries == [str(i) for i in range(len(entries))]:
        return []
    if all(entry.isdecimal() for entry in entries):  # from 1, or with gaps
        return [f"entry {entry}" for entry in entries]
    return entries


def _spellings(columns: Iterable[str]) -> dict[str, dict[str, str]]:
    """For each kind of column, those that hold it: one for every entry, or one that is whole."""
    found: dict[str, dict[str, str]] = {}
    for column in columns:
        meaning = _meaning(column)
        if meaning is None:
            continue
        kind, entry = meaning
        parts = found.setdefault(kind, {})
        if entry in parts:
            raise ValueError(f"there are both {parts[entry]} and {column}; keep one")
        parts[entry] = column
    for kind, parts in found.items():
        if WHOLE in parts:  # what else begins with its name is something else
            found[kind] = {WHOLE: parts[WHOLE]}
        elif all(entry.isdecimal() for entry in parts):
            found[kind] = dict(sorted(parts.items(), key=lambda part: int(part[0])))
    return found


def _needed(columns: Iterable[str]) -> list[str]:
    """The columns that hold something known."""
    return [column for parts in _spellings(columns).values() for column in parts.values()]


def _meaning(column: str) -> tuple[str, str] | None:
    """Which kind of column it is, and which entry of a vector."""
    for kind, others in ALIASES.items():
        for name in (kind, *others):
            if column == name:
                return kind, WHOLE
            if kind in VECTORS and column.startswith(f"{name}_"):
                return kind, column.removeprefix(f"{name}_")
    return None


def _kind(column: str) -> str:
    """Which kind of column it is; empty if none."""
    kind, _ = _meaning(column) or ("", WHOLE)
    return kind


def _check_flags(column: str, flags: Any) -> None:
    """Any text would count as true, "False" too."""
    each = np.asarray(flags, dtype=object).ravel()
    odd = sorted({repr(flag) for flag in each if flag is None or isinstance(flag, str)})
    if odd:
        raise ValueError(
            f"column {column} must hold true and false, or 1 and 0; got {', '.join(odd[:3])}"
        )


def _cut(episode: Any, columns: Mapping[str, Any]) -> np.ndarray:
    """Where episodes are truncated, given also to which episode each step belongs."""
    number = one_each(np.asarray(episode))
    terminated = one_each(np.asarray(columns["terminated"])).astype(bool)
    if number.ndim != 1 or number.shape != terminated.shape:
        raise ValueError(
            f"episode has shape {list(number.shape)} and terminated {list(terminated.shape)}; both "
            "must be [steps]"
        )
    truncated = one_each(np.asarray(columns.get("truncated", np.zeros(len(number), dtype=bool))))
    if truncated.shape != number.shape:
        raise ValueError(
            f"truncated has {len(truncated)} steps but episode has {len(number)}; they must agree"
        )
    last = np.append(number[1:] != number[:-1], True)
    _check_order(number, last, terminated | truncated.astype(bool))
    goes_on = np.flatnonzero(terminated & ~last)
    if len(goes_on):
        raise ValueError(
            f"step {goes_on[0]} is terminated, but the next belongs to the same episode, "
            f"{number[goes_on[0]]}"
        )
    return np.where(last & ~terminated, True, truncated)


def _check_order(number: np.ndarray, last: np.ndarray, ended: np.ndarray) -> None:
    """An episode that goes on after others were written in between has no last step to find."""
    ends = np.flatnonzero(last)
    begins = np.append(0, ends[:-1] + 1)
    _, stretch = np.unique(number[begins], return_inverse=True)
    order = np.argsort(stretch, kind="stable")  # stretches of one episode, one after the other
    again = order[1:][(stretch[order[1:]] == stretch[order[:-1]]) & ~ended[ends[order[:-1]]]]
    if len(again):
        step = begins[again.min()]
        raise ValueError(
            f"episode {number[step]} goes on at step {step}, after steps of others: sort the rows "
            "by episode, or give every episode a number of its own"
        )


READERS: dict[str, Callable[[Path], dict[str, Any]]] = {
    ".npz": _read_npz,
    ".parquet": _read_parquet,
    ".csv": _read_csv,
    ".jsonl": _read_json_lines,
}

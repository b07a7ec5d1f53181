"""A run folder: config.toml, metrics.parquet, checkpoint.npz, meta.json.

Every file is written whole or not at all. A checkpoint is arrays by name, so it
opens wherever NumPy does; nothing is pickled.
"""

import json
import os
import platform
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import jax
import numpy as np
import polars as pl

from markovlens.agents.config import HYPERPARAMETERS, RunSpec, config_from
from markovlens.agents.native.library import available
from markovlens.files import atomic_open, write_json, write_parquet, write_text

FORMAT = 1
CONFIG, METRICS, CHECKPOINT, META, LOCK = (
    "config.toml",
    "metrics.parquet",
    "checkpoint.npz",
    "meta.json",
    ".lock",
)

REPAIR = "put a copy of it back, or train in another folder"

Tree = TypeVar("Tree")


class FolderInUse(ValueError):
    """Another process trains in the folder."""


class RunFolder:
    """The files of runs that train together.

    >>> folder = RunFolder("runs/tmaze")           # doctest: +SKIP
    >>> folder.specs()[0].config.env               # doctest: +SKIP
    'tmaze-5'
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)

    @property
    def exists(self) -> bool:
        return (self.path / CONFIG).exists()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else trains here meanwhile. The lock goes with the process, however it ends."""
        import fcntl

        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / LOCK, "w", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FolderInUse(
                    f"{self.path} is in use by another process: wait, or choose another folder"
                ) from None
            yield

    def claim(self, specs: Sequence[RunSpec]) -> None:
        """Write the config into a new folder; in an old one, make sure that it is the same."""
        if not self.exists:
            others = [p.name for p in self.path.iterdir() if p.name != LOCK]
            if others:
                raise ValueError(
                    f"{self.path} is not empty and holds no run (found {others[0]}): "
                    "choose another folder"
                )
            write_text(self.path / CONFIG, _to_toml(specs))
            return
        for i, (ours, theirs) in enumerate(zip(specs, self.specs(), strict=False)):
            for name, value in [*asdict(ours.config).items(), ("seed", ours.seed)]:
                found = theirs.seed if name == "seed" else getattr(theirs.config, name)
                if found != value:
                    raise ValueError(
                        f"{self.path} holds another run: its {name} is {found!r}, not {value!r} "
                        f"(run {i}); choose another folder"
                    )
        n = len(self.specs())
        if len(specs) != n:
            raise ValueError(f"{self.path} holds {n} runs, not {len(specs)}: choose another folder")

    def specs(self) -> list[RunSpec]:
        """The runs in this folder."""
        file = self.path / CONFIG
        if not file.exists():
            raise ValueError(f"{self.path} is not a run folder: it has no {CONFIG}")
        try:
            table = tomllib.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:  # no TOML, or no text
            raise ValueError(f"{file} cannot be read: {error}; {REPAIR}") from None
        if table.get("format") != FORMAT:
            raise ValueError(
                f"{file} has format {table.get('format')!r}, this version of markovlens reads "
                f"{FORMAT}: open it with the version that meta.json names"
            )
        try:
            return _from_toml(table)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{file} does not say what was run: {error}; {REPAIR}") from None

    def save(self, state: Any, done: int) -> None:
        """The checkpoint: every array of `state` by its name, and the number of updates done."""
        arrays: dict[str, Any] = {name: np.asarray(leaf) for name, leaf in _named(state)}
        arrays |= {"done": np.int64(done), "format": np.int64(FORMAT)}
        with atomic_open(self.path / CHECKPOINT) as file:
            np.savez(file, **arrays)

    def load(self, like: Tree) -> tuple[Tree, int] | None:
        """The checkpoint in the shape of `like`, and the updates done; None if there is none."""
        file = self.path / CHECKPOINT
        if not file.exists():
            return None
        with open(file, "rb") as stream:
            try:
                with np.load(stream, allow_pickle=False) as saved:
                    arrays = dict(saved)
            except (ValueError, TypeError, OSError, EOFError, BadZipFile):
                # NumPy's own words would be to trust the file and unpickle it.
                raise ValueError(
                    f"{file} cannot be read as a checkpoint: put a copy of it back, or delete it "
                    "to train from the start"
                ) from None
        wanted = _named(like)
        for name in ("done", *(name for name, _ in wanted)):
            if name not in arrays:
                raise self._other_version(f"it lacks {name}")
        for name, leaf in wanted:
            found = arrays[name]
            if found.shape != leaf.shape or found.dtype != leaf.dtype:
                raise self._other_version(
                    f"{name} is {found.dtype}{list(found.shape)}, "
                    f"expected {leaf.dtype}{list(leaf.shape)}"
                )
        leaves = [arrays[name] for name, _ in wanted]
        return jax.tree.unflatten(jax.tree.structure(like), leaves), int(arrays["done"])

    def _other_version(self, difference: str) -> ValueError:
        """That the checkpoint does not fit, and what would."""
        commit = self.meta().get("commit")
        which = (
            f"the version that made it (commit {commit})" if commit else "the version that made it"
        )
        return ValueError(
            f"{self.path / CHECKPOINT} is of another config or version: {difference}; open it with "
            f"{which}, or train in another folder"
        )

    def write_metrics(self, table: pl.DataFrame) -> None:
        write_parquet(self.path / METRICS, table)

    def metrics(self) -> pl.DataFrame | None:
        """The metrics so far; None if there are none yet."""
        file = self.path / METRICS
        if not file.exists():
            if (self.path / CHECKPOINT).exists():  # which is never written before the metrics
                raise ValueError(f"{file} is missing beside {CHECKPOINT}: {REPAIR}")
            return None
        try:
            table = pl.read_parquet(file)
        except pl.exceptions.PolarsError as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"{file} cannot be read as parquet ({reason}): {REPAIR}") from None
        for column in ("run", "step"):
            if column not in table.columns:
                raise ValueError(f"{file} holds no metrics, it has no column {column!r}: {REPAIR}")
        return table

    def write_meta(self, **facts: Any) -> None:
        """What made these files: versions, machine, and the given facts."""
        known = {
            "versions": {name: version(name) for name in ("markovlens", "jax", "numpy", "optax")},
            "python": platform.python_version(),
            "machine": {
                "system": platform.system(),
                "processor": platform.machine(),
                "cores": os.cpu_count(),
                "devices": [str(device) for device in jax.local_devices()],
                "native_code": available(),
            },
            "commit": _commit(),
        }
        write_json(self.path / META, known | facts)

    def meta(self) -> dict[str, Any]:
        """What `write_meta` wrote; nothing if it has not yet."""
        file = self.path / META
        if not file.exists():
            return {}
        try:
            known = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(
                f"{file} is not JSON ({error}): put a copy back, or delete it"
            ) from None
        if not isinstance(known, dict):
            raise ValueError(f"{file} must hold a JSON object: put a copy back, or delete it")
        return known


def _named(tree: Any) -> list[tuple[str, Any]]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator="/"), x) for path, x in leaves]


def _to_toml(specs: Sequence[RunSpec]) -> str:
    """The first run's config, then what each run has of its own: its seed, its hyperparameters."""
    base = specs[0].config
    lines = [f"format = {FORMAT}", "", "[config]"]
    lines += [f"{k} = {_toml(v)}" for k, v in asdict(base).items() if v is not None]
    for spec in specs:
        lines += ["", "[[runs]]", f"seed = {spec.seed}"]
        for name in HYPERPARAMETERS:
            if getattr(spec.config, name) != getattr(base, name):
                lines.append(f"{name} = {_toml(getattr(spec.config, name))}")
    return "\n".join(lines) + "\n"


def _from_toml(table: dict[str, Any]) -> list[RunSpec]:
    """What `_to_toml` wrote down."""
    config, runs = table.get("config"), table.get("runs")
    if not isinstance(config, dict):
        raise ValueError("it has no table [config]")
    if not isinstance(runs, list) or not runs or not all(isinstance(run, dict) for run in runs):
        raise ValueError("it has no tables [[runs]]")
    base = config_from(config).resolve()  # what an older version did not know
    specs = []
    for run in runs:
        own = {name: value for name, value in run.items() if name != "seed"}
        seed = run.get("seed")
        if type(seed) is not int:
            raise ValueError(f"seed must be a whole number, got {seed!r}")
        specs.append(RunSpec(config_from(asdict(base) | own), seed))
    return specs


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float):
        return repr(value)  # inf, not Infinity
    return json.dumps(value, ensure_ascii=False)  # TOML has no escapes for surrogate pairs


def _commit() -> str | None:
    """The commit of the source tree this package runs from, if it runs from one."""
    here = Path(__file__).resolve().parent
    try:
        done = subprocess.run(
            ["git", "-C", str(here), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None

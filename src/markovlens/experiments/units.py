"""An experiment cut into units of work, and the folder that keeps them.

    results/
      experiment.toml          what was asked for, and in scale.json at which scale
      units/NAME/unit.json     the runs of a unit, which train together in one program
      units/NAME/run/          their run folder: config, metrics, checkpoint
      units/NAME/progress.json how far it is, for whoever watches
      units/NAME/curves.parquet   what came out; here when the unit is done
      claims/                  who works on what

Units are written down once, when they are planned. Asking again for more seeds or a larger grid
plans only what is missing.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from markovlens.experiments.claims import claimed
from markovlens.experiments.config import Setting, Stage
from markovlens.files import write_json


@dataclass(frozen=True)
class PlannedRun:
    """One setting, trained once."""

    stage: Stage
    setting: Setting
    seed: int

    @property
    def key(self) -> str:
        """Equal for runs that would come out equal; the stage they serve is no part of it."""
        return json.dumps([self.setting.key, self.seed])

    def to_json(self) -> dict[str, Any]:
        setting = self.setting
        return {
            "stage": self.stage,
            "task": setting.task,
            "agent": setting.agent,
            "options": dict(setting.options),
            "seed": self.seed,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> "PlannedRun":
        setting = Setting(data["task"], data["agent"], data["options"])
        return PlannedRun(data["stage"], setting, data["seed"])


@dataclass(frozen=True)
class Unit:
    """Runs that share all but numbers, and so train together."""

    folder: Path
    runs: tuple[PlannedRun, ...]

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def steps(self) -> int:
        """Environment steps of all its runs."""
        return sum(run.setting.config.steps or 0 for run in self.runs)

    @property
    def done(self) -> bool:
        return self.curves.exists()

    @property
    def curves(self) -> Path:
        return self.folder / "curves.parquet"

    @property
    def run_folder(self) -> Path:
        return self.folder / "run"

    @property
    def progress(self) -> float:
        """The share of its steps that are done."""
        if self.done:
            return 1.0
        try:
            return float(json.loads((self.folder / "progress.json").read_text())["share"])
        except (OSError, ValueError):
            return 0.0

    def report(self, share: float, status: str) -> None:
        write_json(self.folder / "progress.json", {"share": share, "status": status})


def load_units(results: Path) -> list[Unit]:
    """Every unit that was ever planned in a results folder, in a fixed order."""
    return sorted(_load(results), key=lambda unit: unit.name)


def _load(results: Path) -> Iterator[Unit]:
    for path in (results / "units").glob("*/unit.json"):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            yield Unit(path.parent, tuple(PlannedRun.from_json(run) for run in data["runs"]))
        except (ValueError, KeyError) as error:
            raise ValueError(
                f"{path} is not a unit of work this version can read ({error!r}); "
                "it is left as it is: use another folder, or the version that wrote it"
            ) from error


def plan(results: Path, runs: Iterable[PlannedRun], batch: int) -> list[Unit]:
    """The units that hold `runs`: those already planned, and new ones of at most `batch` runs.

    Runs go together if their settings have the same structure. Safe to call from several
    processes at once.
    """
    with claimed(results / "claims", "plan"):
        wanted = {run.key: run for run in runs}
        before = load_units(results)
        held = {run.key for unit in before for run in unit.runs}
        groups: dict[str, list[PlannedRun]] = {}
        for key, run in wanted.items():
            if key not in held:
                structure = json.dumps(run.setting.config.structure(), sort_keys=True, default=str)
                groups.setdefault(structure, []).append(run)
        for group in groups.values():
            for part in _even_parts(group, batch):
                _write(results, tuple(part))
        return [unit for unit in load_units(results) if any(run.key in wanted for run in unit.runs)]


def _even_parts(runs: list[PlannedRun], most: int) -> list[list[PlannedRun]]:
    """As few parts as `most` allows, of nearly equal size."""
    n = -(-len(runs) // most)
    return [runs[i * len(runs) // n : (i + 1) * len(runs) // n] for i in range(n)]


def _write(results: Path, runs: tuple[PlannedRun, ...]) -> None:
    digest = hashlib.sha256("\n".join(run.key for run in runs).encode()).hexdigest()[:12]
    first = runs[0]
    name = f"{first.stage}-{first.setting.task}-{first.setting.agent}-{digest}".replace("/", "-")
    write_json(results / "units" / name / "unit.json", {"runs": [run.to_json() for run in runs]})

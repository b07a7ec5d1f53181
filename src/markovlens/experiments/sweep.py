"""Running an experiment: try the grid, choose, and judge what was chosen on fresh seeds."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from markovlens.agents.host import closing, problem
from markovlens.experiments.config import Experiment, Setting, Stage, read_experiment
from markovlens.experiments.executors import Executor, LocalExecutor
from markovlens.experiments.results import Results
from markovlens.experiments.units import PlannedRun, Unit, plan
from markovlens.experiments.worker import error_file
from markovlens.files import write_json, write_text
from markovlens.progress import Advance, silent

BATCH = 6  # runs that train together: enough to share a compilation, few enough to share the work


class Outcome(NamedTuple):
    """What became of the units of a sweep."""

    units: tuple[Unit, ...]
    failed: tuple[Unit, ...]

    def first_error(self) -> str:
        """The last line of the first failure's traceback."""
        return error_file(self.failed[0]).read_text().strip().splitlines()[-1]


def sweep(
    file: str | Path,
    out: str | Path,
    stages: Sequence[Stage] = ("sweep", "report"),
    scale: str | None = None,
    executor: Executor | None = None,
    batch: int = BATCH,
    progress: Advance = silent,
    tasks: Sequence[str] = (),
    agents: Sequence[str] = (),
) -> Outcome:
    """Run the experiment in a TOML file and keep what comes in the folder `out`.

    The stage `sweep` trains every setting of every grid with the sweep seeds; `report` trains, with
    the report seeds, the setting with the largest area under the curve, or the one that the file
    selects. Finished work is never repeated, and several processes may work in one folder. With
    `tasks` or `agents`, only theirs is done, and the rest can be later.

    Example: `sweep("my-experiment.toml", "results/mine")`.
    """
    if batch < 1:
        raise ValueError(f"at least one run must train at a time, got {batch}")
    experiment, results = read_experiment(file, scale).only(tasks, agents), Path(out)
    executor = LocalExecutor() if executor is None else executor
    units: list[Unit] = []
    failed: list[Unit] = []
    _check_problems(file, experiment)
    if tuple(stages) == ("sweep",) and not experiment.candidates():
        raise ValueError(f"{file}: there is nothing to sweep: no agent has a grid")
    keep_experiment(Path(file), scale, results)
    for stage in stages:
        runs = runs_of(experiment, stage, results)
        new = plan(results, runs, batch) if runs else []
        for unit in new:
            error_file(unit).unlink(missing_ok=True)  # a failure gets another chance
        executor(results, new, _after(sum(unit.steps for unit in units), progress))
        units += new
        failed = [unit for unit in units if error_file(unit).exists()]
        if failed:  # nothing is chosen from half a sweep
            break
    return Outcome(tuple(units), tuple(failed))


def _check_problems(file: str | Path, experiment: Experiment) -> None:
    """An environment that cannot be made for some agent is found out now, not after the others."""
    settings = experiment.candidates()
    settings += filter(
        None, (experiment.given(t, a) for t in experiment.tasks for a in experiment.agents)
    )
    structures = {repr(setting.config.structure()): setting for setting in settings}
    for setting in structures.values():
        try:
            with closing(problem(setting.config, 0, None)):
                pass
        except (ValueError, OSError) as error:
            where = f"{file}: task {setting.task!r}, agent {setting.agent!r}"
            raise ValueError(f"{where}: {error}") from error


def _after(steps: int, progress: Advance) -> Advance:
    """Progress that goes on from what an earlier stage has done."""
    return lambda done, status="": progress(steps + done, status)


def total_steps(experiment: Experiment, stages: Sequence[Stage]) -> int:
    """Environment steps of an experiment, with those of settings that are still to be chosen."""
    total = 0
    for task in experiment.tasks:
        for agent in experiment.agents:
            settings = [experiment.setting(task, agent, point) for point in agent.points()]
            steps = settings[0].config.steps or 0
            if "sweep" in stages and agent.grid:
                total += steps * len(settings) * len(task.sweep_seeds)
            if "report" in stages:
                total += steps * len(task.report_seeds)
    return total


def runs_of(experiment: Experiment, stage: Stage, results: Path) -> list[PlannedRun]:
    """Every run that a stage consists of; the report's depend on what the sweep found."""
    if stage == "sweep":
        settings = experiment.candidates()
    else:
        settings = _settings_to_report(experiment, results)
    return [
        PlannedRun(stage, setting, seed)
        for setting in settings
        for seed in experiment.task(setting.task).seeds(stage)
    ]


def _settings_to_report(experiment: Experiment, results: Path) -> list[Setting]:
    found = Results(results)  # once: it reads every curve
    settings = []
    for task in experiment.tasks:
        if not task.report_seeds:
            continue
        for agent in experiment.agents:
            chosen = found.choice(experiment, task, agent)
            if chosen is None:
                raise ValueError(
                    f"nothing is known of agent {agent.name!r} on task {task.name!r} yet: "
                    "run the sweep first, or write its settings under [selected]"
                )
            settings.append(chosen)
    return settings


def keep_experiment(file: Path, scale: str | None, results: Path) -> None:
    """Put a copy of the experiment, and the scale it is run at, beside its results."""
    results.mkdir(parents=True, exist_ok=True)
    copy = results / "experiment.toml"
    if not (copy.exists() and copy.samefile(file)):
        write_text(copy, file.read_text(encoding="utf-8"))
    write_json(results / "scale.json", scale)

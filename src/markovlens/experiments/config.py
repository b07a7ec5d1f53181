"""An experiment is data: a TOML file of tasks, agents, grids and seeds.

    title = "Does memory pay in the T-maze?"

    [seeds]                     # how many, a list, or a text like "0..4"
    sweep = "0..4"              # choose settings
    report = "100..129"         # judge the chosen ones

    [options]                   # of every run: any option of `markovlens train`
    steps = 1_000_000

    [tasks.tmaze-5]             # the key is the environment's name, unless `env` says otherwise

    [agents.ld]
    grid.learning_rate = [2.5e-3, 2.5e-4]
    grid.beta = [0, 0.25, 0.5]

    [selected.tmaze-5.ld]       # report these settings instead of what the sweep prefers
    learning_rate = 2.5e-4

    [scale.quick]               # `--scale quick` overrides
    options.steps = 20_000
    seeds.sweep = "0..1"

Where an option is given several times, the more special place wins: options, then the task's,
then the agent's, then the grid or `selected`, then the scale's.
"""

import itertools
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from markovlens.agents.config import PPOConfig, config_from
from markovlens.agents.seeds import parse_seeds
from markovlens.names import unknown_name

Options = Mapping[str, Any]
Stage = Literal["sweep", "report"]
STAGES: tuple[Stage, ...] = get_args(Stage)
SCORES = ("return", "discounted_return")

_TOP = ("title", "about", "score", "seeds", "options", "tasks", "agents", "selected", "scale")
_SCALE = ("options", "seeds", "tasks", "agents", "grid")
# What settings of a grid must share to be compared, and where it can be given instead.
_NOT_SWEPT = {"env": "a task", "steps": "[options] or a task", "algo": "an agent"}


@dataclass(frozen=True)
class Setting:
    """One point of the experiment: what to train on what, with which options. Seeds come apart."""

    task: str
    agent: str
    options: Options

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> str:
        """The setting as text: equal settings have equal keys, in whatever order they are given."""
        return json.dumps([self.task, self.agent, self.options], sort_keys=True)

    @property
    def options_text(self) -> str:
        """The options as the column `options` of curves has them."""
        return json.dumps(self.options, sort_keys=True)

    @property
    def config(self) -> PPOConfig:
        """The training run this describes, with nothing left open."""
        return config_from(dict(self.options)).resolve()


@dataclass(frozen=True)
class Agent:
    """A way of learning, and the settings to choose from; an empty grid has one point."""

    name: str
    options: Options
    grid: Mapping[str, Sequence[Any]]

    def points(self) -> list[dict[str, Any]]:
        """Every combination of the grid's values."""
        combinations = itertools.product(*self.grid.values())
        return [dict(zip(self.grid, values, strict=True)) for values in combinations]


@dataclass(frozen=True)
class Task:
    """Something to learn, and the seeds it is learnt with."""

    name: str
    options: Options
    sweep_seeds: tuple[int, ...]
    report_seeds: tuple[int, ...]

    def seeds(self, stage: Stage) -> tuple[int, ...]:
        return self.sweep_seeds if stage == "sweep" else self.report_seeds


@dataclass(frozen=True)
class Experiment:
    """What a TOML file says, checked, with one scale applied."""

    title: str
    about: str
    score: str  # the metric whose area under the curve chooses settings
    options: Options
    tasks: tuple[Task, ...]
    agents: tuple[Agent, ...]
    selected: Mapping[str, Mapping[str, Options]]  # task -> agent -> options
    last: Options = field(default_factory=dict)  # the scale's options, stronger than all others

    def task(self, name: str) -> Task:
        return next(task for task in self.tasks if task.name == name)

    def only(self, tasks: Sequence[str], agents: Sequence[str]) -> "Experiment":
        """The part with these tasks and agents; where none are named, with all."""
        for kind, names, known in (("task", tasks, self.tasks), ("agent", agents, self.agents)):
            for name in names:
                if name not in (one.name for one in known):
                    raise unknown_name(kind, name, (one.name for one in known))
        return replace(
            self,
            tasks=tuple(task for task in self.tasks if task.name in tasks or not tasks),
            agents=tuple(agent for agent in self.agents if agent.name in agents or not agents),
        )

    def setting(self, task: Task, agent: Agent, chosen: Options) -> Setting:
        """One point: the task's and the agent's options with `chosen` on top."""
        merged = {**self.options, **task.options, **agent.options, **chosen, **self.last}
        return Setting(task.name, agent.name, merged)

    def candidates(self) -> list[Setting]:
        """What the sweep tries: the whole grid of every agent that has one, on every task."""
        return [
            self.setting(task, agent, point)
            for task in self.tasks
            for agent in self.agents
            if agent.grid
            for point in agent.points()
        ]

    def given(self, task: Task, agent: Agent) -> Setting | None:
        """What to report where it needs no sweep: `selected`, or the only setting there is."""
        chosen = self.selected.get(task.name, {}).get(agent.name)
        if chosen is None and agent.grid:
            return None
        return self.setting(task, agent, chosen or {})


def paper_experiments() -> dict[str, Path]:
    """The experiments that come with the package, by name."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "paper").glob("*.toml"))}


def find_experiment(name: str) -> Path:
    """The file of that path, or the experiment of that name."""
    known = paper_experiments()
    if Path(name).is_file():
        return Path(name)
    if name in known:
        return known[name]
    if name.endswith(".toml"):
        raise FileNotFoundError(f"there is no experiment file {name}")
    raise unknown_name("experiment", name, known)


def read_experiment(path: str | Path, scale: str | None = None) -> Experiment:
    """The experiment in a TOML file; a ValueError names what is wrong in it, and the nearest key.

    `scale` is one of the file's `[scale.…]` tables, `"paper"` or None for the file as it stands.
    """
    path = Path(path)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return parse_experiment(data, scale)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def parse_experiment(data: Mapping[str, Any], scale: str | None = None) -> Experiment:
    """The experiment in an already parsed TOML document."""
    _check_keys("key", data, _TOP)
    for name in ("title", "tasks", "agents"):
        if not data.get(name):
            raise ValueError(f"an experiment needs a {name!r} entry, and this one has none")
    for name in ("title", "about"):
        if not isinstance(data.get(name, ""), str):
            raise ValueError(f"{name!r} must be a text, got {data[name]!r}")
    for name in ("seeds", "options", "tasks", "agents", "selected", "scale"):
        _check_table(name, data.get(name, {}))
    for name in ("tasks", "agents", "scale"):
        for key, table in data.get(name, {}).items():
            _check_table(f"{name}.{key}", table)
    for name, table in data["agents"].items():
        _check_table(f"agents.{name}.grid", table.get("grid", {}))
        _check_options(f"[agents.{name}.grid]", table.get("grid", {}))
        _check_grid(f"the grid of agent {name!r}", table.get("grid", {}))
    for name, table in data.get("scale", {}).items():
        _check_scale(name, table, data)
    change = _scale(data, scale)
    seeds = data.get("seeds", {})
    _check_keys("key in [seeds]", seeds, STAGES)
    options = data.get("options", {})
    last = change.get("options", {})
    _check_options("[options]", options)
    tasks = tuple(
        _task(name, table, seeds, change)
        for name, table in _chosen(data["tasks"], change.get("tasks")).items()
    )
    agents = tuple(
        _agent(name, table, change.get("grid", {}))
        for name, table in _chosen(data["agents"], change.get("agents")).items()
    )
    score = data.get("score", "return")
    if score not in SCORES:
        raise unknown_name("score", str(score), SCORES)
    selected = data.get("selected", {})
    _check_keys("task in [selected]", selected, data["tasks"])
    for task, by_agent in selected.items():
        _check_table(f"selected.{task}", by_agent)
        _check_keys(f"agent in [selected.{task}]", by_agent, data["agents"])
        for agent, chosen in by_agent.items():
            _check_table(f"selected.{task}.{agent}", chosen)
            _check_options(f"[selected.{task}.{agent}]", chosen)
    experiment = Experiment(
        title=data["title"],
        about=data.get("about", ""),
        score=score,
        options=options,
        tasks=tasks,
        agents=agents,
        selected=selected,
        last=last,
    )
    for task in tasks:
        for agent in agents:
            _check_seeds(experiment, task, agent)
            _check_values(experiment, task, agent)
    return experiment


def _seeds(value: int | str | Sequence[int]) -> tuple[int, ...]:
    """Seeds as a file writes them: how many, a list, or a text as on the command line."""
    if isinstance(value, str):
        return parse_seeds(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return tuple(range(value))
    if isinstance(value, Sequence) and all(type(seed) is int and seed >= 0 for seed in value):
        if len(set(value)) < len(value):
            raise ValueError(f"the same seed twice in {list(value)}")
        return tuple(int(seed) for seed in value)
    raise ValueError(
        f'seeds are a number, a list of whole numbers or a text like "0..4", got {value!r}'
    )


def _scale(data: Mapping[str, Any], name: str | None) -> Mapping[str, Any]:
    scales = data.get("scale", {})
    if name in scales:
        return scales[name]
    if name in (None, "paper"):
        return {}
    raise unknown_name("scale", str(name), [*scales, "paper"])


def _chosen(tables: Mapping[str, Any], names: list[str] | None) -> Mapping[str, Any]:
    return tables if names is None else {name: tables[name] for name in names}


def _task(name: str, table: Mapping[str, Any], seeds: Options, change: Options) -> Task:
    own, scaled = table.get("seeds", {}), change.get("seeds", {})
    _check_table(f"tasks.{name}.seeds", own)
    _check_keys(f"key in [tasks.{name}.seeds]", own, STAGES)
    use = {**seeds, **own, **scaled}
    sweep, report = (_seeds(use.get(stage, 0)) for stage in STAGES)
    both = set(sweep) & set(report)
    if both:
        raise ValueError(
            f"task {name!r} chooses and judges by the same seed {min(both)}: keep them apart"
        )
    options = {"env": name, **{key: table[key] for key in table if key != "seeds"}}
    _check_options(f"[tasks.{name}]", options)
    return Task(name, options, sweep, report)


def _agent(name: str, table: Mapping[str, Any], smaller: Mapping[str, list[Any]]) -> Agent:
    grid = dict(table.get("grid", {}))
    grid.update({key: values for key, values in smaller.items() if key in grid})
    options = {"algo": name, **{key: table[key] for key in table if key != "grid"}}
    _check_options(f"[agents.{name}]", options)
    return Agent(name, options, grid)


def _check_grid(whose: str, grid: Mapping[str, Any]) -> None:
    for key, values in grid.items():
        if key in _NOT_SWEPT:
            raise ValueError(
                f"{whose} has {key}, but only settings that share their {key} can be compared: "
                f"give it in {_NOT_SWEPT[key]}"
            )
        if not isinstance(values, list):
            raise ValueError(f"{whose}: {key} must be a list of values, got {values!r}")
        if not values:
            raise ValueError(f"{whose} is empty: {key} must be a list of values, got []")
        if any(value in values[:i] for i, value in enumerate(values)):
            raise ValueError(f"{whose} has a value of {key} twice: {values}")


def _check_scale(name: str, change: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    """Mistakes are found in every scale, not only in the one that is asked for."""
    _check_keys(f"key in [scale.{name}]", change, _SCALE)
    for key in ("seeds", "options", "grid"):
        _check_table(f"scale.{name}.{key}", change.get(key, {}))
    _check_options(f"[scale.{name}.options]", change.get("options", {}))
    swept = {key for table in data["agents"].values() for key in table.get("grid", {})}
    _check_keys(f"key in [scale.{name}.grid]", change.get("grid", {}), swept)
    _check_grid(f"the grid of scale {name!r}", change.get("grid", {}))
    _check_keys(f"key in [scale.{name}.seeds]", change.get("seeds", {}), STAGES)
    for stage, seeds in change.get("seeds", {}).items():
        try:
            _seeds(seeds)
        except ValueError as error:
            raise ValueError(f"[scale.{name}.seeds] {stage}: {error}") from error
    for kind in ("task", "agent"):
        if f"{kind}s" in change:
            names = change[f"{kind}s"]
            if not isinstance(names, list) or not names:
                raise ValueError(f"a scale's {kind}s must be a list of names, got {names!r}")
            _check_keys(f"{kind} in [scale.{name}]", dict.fromkeys(names), data[f"{kind}s"])


def _check_seeds(experiment: Experiment, task: Task, agent: Agent) -> None:
    """There must be something to run, and something to choose by."""
    if not (task.sweep_seeds or task.report_seeds):
        raise ValueError(f'task {task.name!r} has no seeds: give [seeds], say report = "100..109"')
    if experiment.given(task, agent) is None and not task.sweep_seeds:
        raise ValueError(
            f"agent {agent.name!r} has a grid and task {task.name!r} no seeds.sweep to choose from "
            f"it by: give some, or say in [selected.{task.name}] what was chosen"
        )


def _check_values(experiment: Experiment, task: Task, agent: Agent) -> None:
    """Every setting must be one that can be trained: found out now, not after a day of sweeping."""
    given = experiment.given(task, agent)
    settings = [experiment.setting(task, agent, point) for point in agent.points()]
    for setting in settings if given is None else [*settings, given]:
        try:
            _ = setting.config
        except (ValueError, TypeError) as error:
            raise ValueError(f"task {task.name!r}, agent {agent.name!r}: {error}") from error


def _check_table(name: str, got: Any) -> None:
    if not isinstance(got, Mapping):
        raise ValueError(f"[{name}] must be a table of keys and values, got {got!r}")


def _check_keys(kind: str, got: Mapping[str, Any], known: Any) -> None:
    for key in got:
        if key not in known:
            raise unknown_name(kind, key, known)


def _check_options(where: str, options: Options) -> None:
    _check_keys(f"option in {where}", options, [field.name for field in fields(PPOConfig)])

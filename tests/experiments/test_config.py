"""Experiment files: what they mean, and what is said when they are wrong."""

import copy
import tomllib

import pytest

from markovlens.experiments.config import (
    find_experiment,
    paper_experiments,
    parse_experiment,
    read_experiment,
)

SMALL = {
    "title": "small",
    "seeds": {"sweep": "0..1", "report": [10, 11, 12]},
    "options": {"steps": 2048, "latent": 8},
    "tasks": {"tmaze-2": {}, "tiger": {"latent": 4, "seeds": {"sweep": 3}}},
    "agents": {
        "ld": {"grid": {"learning_rate": [0.1, 0.01], "beta": [0.0, 0.5, 1.0]}},
        "bound": {"algo": "memoryless", "full_view": True},
    },
    "selected": {"tiger": {"ld": {"learning_rate": 0.05, "beta": 0.25}}},
    "scale": {
        "quick": {
            "options": {"steps": 512},
            "seeds": {"sweep": 1},
            "tasks": ["tiger"],
            "grid": {"beta": [0.5]},
        }
    },
}


def changed(path, value):
    data = copy.deepcopy(SMALL)
    *parents, last = path.split("/")
    table = data
    for parent in parents:
        table = table.setdefault(parent, {})
    table[last] = value
    return data


def test_the_grid_is_every_combination_on_every_task():
    settings = parse_experiment(SMALL).candidates()
    assert len(settings) == 2 * 6  # tasks × grid; the agent without a grid is not swept
    assert len(set(settings)) == 12
    points = {(s.options["learning_rate"], s.options["beta"]) for s in settings}
    assert points == {(lr, beta) for lr in (0.1, 0.01) for beta in (0.0, 0.5, 1.0)}


def test_a_part_of_an_experiment():
    whole = parse_experiment(SMALL)
    tasks, agents = [t.name for t in whole.tasks], [a.name for a in whole.agents]
    assert whole.only([], []) == whole
    part = whole.only(["tiger"], agents[:1])
    assert ([t.name for t in part.tasks], [a.name for a in part.agents]) == (["tiger"], agents[:1])
    assert set(part.candidates()) < set(whole.candidates())
    assert whole.only(tasks[::-1], []) == whole


def test_the_more_special_option_wins():
    experiment = parse_experiment(SMALL)
    latent = {s.task: s.config.latent for s in experiment.candidates()}
    assert latent == {"tmaze-2": 8, "tiger": 4}
    tiger, ld = experiment.tasks[1], experiment.agents[0]
    assert experiment.given(tiger, ld).config.beta == 0.25
    assert experiment.given(experiment.tasks[0], ld) is None  # must be swept first
    bound = experiment.given(tiger, experiment.agents[1])
    assert (bound.config.algo, bound.config.full_view) == ("memoryless", True)


def test_seeds_of_a_task_override_the_common_ones():
    tmaze, tiger = parse_experiment(SMALL).tasks
    assert tmaze.seeds("sweep") == (0, 1)
    assert tiger.seeds("sweep") == (0, 1, 2)
    assert tiger.seeds("report") == (10, 11, 12)


def test_a_scale_overrides_everything_and_the_file_stands_without_one():
    quick = parse_experiment(SMALL, "quick")
    assert [task.name for task in quick.tasks] == ["tiger"]
    assert quick.tasks[0].sweep_seeds == (0,)
    assert {s.config.steps for s in quick.candidates()} == {512}
    assert {s.options["beta"] for s in quick.candidates()} == {0.5}
    assert parse_experiment(SMALL, "paper") == parse_experiment(SMALL)
    part = changed("scale/quick/seeds", {"report": [20]})
    (tiger,) = parse_experiment(part, "quick").tasks
    assert (tiger.sweep_seeds, tiger.report_seeds) == ((0, 1, 2), (20,))
    with pytest.raises(ValueError, match=r"\[scale.quick.grid\] 'bet'; did you mean 'beta'"):
        parse_experiment(changed("scale/quick/grid", {"bet": [0.5]}), "quick")
    with pytest.raises(ValueError, match="a scale's tasks must be a list of names, got 'tiger'"):
        parse_experiment(changed("scale/quick/tasks", "tiger"), "quick")
    with pytest.raises(ValueError, match="unknown scale 'quik'; did you mean 'quick'"):
        parse_experiment(SMALL, "quik")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("sedes", {}, "unknown key 'sedes'; did you mean 'seeds'"),
        ("options/learning_rte", 0.1, r"in \[options\] 'learning_rte'; did you mean 'learning_ra"),
        ("agents/ld/grid/lam", [0.1], r"in \[agents.ld.grid\] 'lam'; did you mean 'lam"),
        ("agents/ld/grid/beta", [], "the grid of agent 'ld' is empty: beta must be a list"),
        ("agents/ld/grid/beta", 0.5, "agent 'ld': beta must be a list of values, got 0.5"),
        ("agents/ld/grid/env", ["tiger", "tmaze-2"], "share their env .* give it in a task"),
        ("agents/ld/grid/steps", [512, 2048], r"share their steps .* in \[options\] or a task"),
        ("agents/ld/grid/algo", ["ld", "rnn"], "share their algo .* give it in an agent"),
        ("agents/ld/grid/beta", [0.1, 7.0], "task 'tmaze-2', agent 'ld': beta must be between"),
        ("agents/ld/algo", "ldd", "unknown algo 'ldd'; did you mean 'ld'"),
        ("seeds/report", "1..12", "chooses and judges by the same seed 1"),
        ("seeds/sweep", "many", "seeds are whole numbers like 3, 0..4"),
        ("seeds/sweep", 0.5, "seeds are a number, a list of whole numbers or a text"),
        ("seeds/sweep", [-1], "seeds are a number, a list of whole numbers or a text"),
        ("score", "retrun", "unknown score 'retrun'; did you mean 'return'"),
        ("options/steps", 1000.5, "steps must be a whole number, got 1000.5"),
        ("options/scale_rewards", "no", "scale_rewards must be true or false, got 'no'"),
        ("options/learning_rate", "fast", "learning_rate must be a number, got 'fast'"),
        ("seeds/sweep", [1, 1], "the same seed twice"),
        ("selected/tigre", {}, r"task in \[selected\] 'tigre'; did you mean 'tiger'"),
        ("scale/quick/step", 1, r"key in \[scale.quick\] 'step'"),
        ("tasks", {}, "needs a 'tasks' entry"),
        ("tasks/tiger", 3, r"\[tasks.tiger\] must be a table of keys and values, got 3"),
        ("title", 3, "'title' must be a text, got 3"),
        ("options/hide", 1, "hide must be a list of whole numbers, got 1"),
        ("options/steps", float("inf"), "steps must be a whole number, got inf"),
        ("options/latent", [32], r"latent must be a number, got \[32\]"),
        ("options/entropy_weight", float("nan"), "entropy_weight must be finite, got nan"),
        ("agents/ld/grid/beta", [1, 1.0], "has a value of beta twice"),
    ],
)
def test_mistakes_are_named(path, value, message):
    with pytest.raises(ValueError, match=message):
        parse_experiment(changed(path, value))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("options", {"stpes": 512}, r"in \[scale.quick.options\] 'stpes'; did you mean 'steps'"),
        ("grid", {"bet": [0.5]}, r"in \[scale.quick.grid\] 'bet'; did you mean 'beta'"),
        ("grid", {"beta": 0.5}, "the grid of scale 'quick': beta must be a list"),
        ("seeds", {"swep": 1}, r"in \[scale.quick.seeds\] 'swep'; did you mean 'sweep'"),
        ("seeds", {"sweep": 0.5}, r"\[scale.quick.seeds\] sweep: seeds are a number"),
        ("tasks", ["tigre"], r"task in \[scale.quick\] 'tigre'; did you mean 'tiger'"),
    ],
)
@pytest.mark.parametrize("scale", [None, "quick"])
def test_mistakes_in_a_scale_are_named_also_if_it_is_not_asked_for(scale, key, value, message):
    with pytest.raises(ValueError, match=message):
        parse_experiment(changed(f"scale/quick/{key}", value), scale)


def test_errors_name_the_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("title = 3 3")
    with pytest.raises(ValueError, match=r"mine.toml: .*line 1"):
        read_experiment(file)


def test_settings_are_equal_whatever_the_order():
    experiment = parse_experiment(SMALL)
    task, agent = experiment.tasks[0], experiment.agents[0]
    one = experiment.setting(task, agent, {"lam1": 0.5, "beta": 0.1})
    other = experiment.setting(task, agent, {"beta": 0.1, "lam1": 0.5})
    assert one == other
    assert hash(one) == hash(other)
    assert one != experiment.setting(task, agent, {"beta": 0.2, "lam1": 0.5})


def test_find_experiment_by_name_and_by_path(tmp_path):
    assert find_experiment("fig-ppo").name == "fig-ppo.toml"
    with pytest.raises(ValueError, match="unknown experiment 'fig-pp'; did you mean 'fig-ppo'"):
        find_experiment("fig-pp")
    with pytest.raises(FileNotFoundError, match="no experiment file"):
        find_experiment(str(tmp_path / "no.toml"))


@pytest.mark.parametrize("path", paper_experiments().values(), ids=lambda path: path.stem)
def test_the_papers_experiments_can_be_read_at_every_scale(path):
    for scale in ("paper", *tomllib.loads(path.read_text(encoding="utf-8"))["scale"]):
        assert read_experiment(path, scale).tasks


def test_the_papers_grid_is_twenty_times_larger_for_ld():
    agents = {a.name: a for a in read_experiment(paper_experiments()["fig-ppo"]).agents}
    sizes = {name: len(agent.points()) for name, agent in agents.items()}
    assert (sizes["ld"], sizes["rnn"], sizes["memoryless"]) == (400, 20, 20)


def test_the_papers_choices_are_the_defaults_of_training():
    # Two transcriptions of the same tables, in the experiment and in the agents' defaults.
    from markovlens.agents.config import PPOConfig

    experiment = read_experiment(paper_experiments()["fig-ppo"])
    for task in experiment.tasks:
        for agent in experiment.agents:
            if agent.grid:
                given = experiment.given(task, agent).config
                assert given == PPOConfig(env=task.name, algo=agent.name).resolve()


def test_rivals_in_the_sensor_experiment_have_equal_budgets():
    experiment = read_experiment(paper_experiments()["rocksample-sensor"])
    rivals = [agent for agent in experiment.agents if agent.name != "perfect"]
    assert {len(agent.points()) for agent in rivals} == {8}


@pytest.mark.parametrize("name", paper_experiments())
def test_every_scale_either_says_what_to_report_or_sweeps_for_it(name):
    file = paper_experiments()[name]
    for scale in ("paper", *tomllib.loads(file.read_text(encoding="utf-8"))["scale"]):
        experiment = read_experiment(file, scale)
        for task in experiment.tasks:
            chosen = all(experiment.given(task, agent) for agent in experiment.agents)
            assert chosen or task.sweep_seeds, f"{name} at {scale} cannot choose for {task.name}"


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("agents/ld/grid", 5, r"\[agents.ld.grid\] must be a table"),
        ("tasks/tiger/seeds", 3, r"\[tasks.tiger.seeds\] must be a table"),
        ("selected/tiger", 3, r"\[selected.tiger\] must be a table"),
        ("selected/tiger/ld", 3, r"\[selected.tiger.ld\] must be a table"),
        ("scale/quick/grid", [1], r"\[scale.quick.grid\] must be a table"),
        ("scale/quick/options", 5, r"\[scale.quick.options\] must be a table"),
        ("scale/quick/seeds", 3, r"\[scale.quick.seeds\] must be a table"),
        ("scale/quick/tasks", [], "a scale's tasks must be a list of names, got \\[\\]"),
        ("scale/quick/agents", [], "a scale's agents must be a list of names, got \\[\\]"),
    ],
)
def test_what_must_be_a_table_or_not_empty_is_named(path, value, words):
    with pytest.raises(ValueError, match=words):
        parse_experiment(changed(path, value), "quick")


def test_an_experiment_without_seeds_or_with_nothing_to_choose_by_is_refused():
    with pytest.raises(ValueError, match="task 'tmaze-2' has no seeds"):
        parse_experiment(changed("seeds", {}))
    with pytest.raises(
        ValueError, match=r"agent 'ld' has a grid and task 'tmaze-2' no seeds.sweep"
    ):
        parse_experiment(changed("seeds", {"report": [10, 11]}))

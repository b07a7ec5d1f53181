"""Planning and sharing work, with a trainer that only writes down what it was asked."""

import json
import math
import threading

import polars as pl
import pytest

from markovlens.agents.folder import RunFolder
from markovlens.agents.metrics import SCHEMA
from markovlens.experiments.config import parse_experiment
from markovlens.experiments.results import Results, area
from markovlens.experiments.runs import curves_of
from markovlens.experiments.sources import gather
from markovlens.experiments.sweep import keep_experiment, runs_of, sweep, total_steps
from markovlens.experiments.units import load_units, plan
from markovlens.experiments.worker import error_file, work, work_on
from markovlens.files import write_parquet
from tests.experiments.test_config import SMALL, changed


def fake_metrics(runs, value=lambda run: float(run.seed)):
    rows = [
        {"run": i, "step": step, "episodes": 2, "return": value(run), "discrepancy": 0.5}
        for i, run in enumerate(runs)
        for step in (512, 1024, 1536, 2048)
    ]
    table = pl.DataFrame(rows)
    others = [name for name in SCHEMA if name not in table.columns]
    return table.with_columns(pl.lit(1.0).alias(name) for name in others)


def fake_train(unit, claim):
    def value(run):  # the best settings are known: β of a half, the smaller learning rate
        options = run.setting.options
        return -abs(options.get("beta", 0.5) - 0.5) - options.get("learning_rate", 0.0)

    curves = curves_of(unit.runs, fake_metrics(unit.runs, value), [False] * len(unit.runs))
    write_parquet(unit.curves, curves)


def names(units):
    return [unit.name for unit in units]


def test_units_hold_each_run_once_and_never_mix_structures(tmp_path):
    experiment = parse_experiment(SMALL)
    runs = runs_of(experiment, "sweep", tmp_path)
    assert len(runs) == 6 * 2 + 6 * 3
    units = plan(tmp_path, runs, batch=5)
    assert sorted(r.key for u in units for r in u.runs) == sorted(r.key for r in runs)
    assert max(len(unit.runs) for unit in units) <= 5
    for unit in units:
        structures = {json.dumps(r.setting.config.structure(), default=str) for r in unit.runs}
        assert len(structures) == 1
    assert sum(unit.steps for unit in units) == 30 * 2048


def test_planning_again_adds_only_what_is_missing(tmp_path):
    before = plan(tmp_path, runs_of(parse_experiment(SMALL), "sweep", tmp_path), batch=5)
    again = plan(tmp_path, runs_of(parse_experiment(SMALL), "sweep", tmp_path), batch=3)
    assert names(again) == names(before)
    more = parse_experiment(changed("seeds/sweep", "0..3"))
    after = plan(tmp_path, runs_of(more, "sweep", tmp_path), batch=5)
    assert set(names(before)) < set(names(after))
    keys = [run.key for unit in after for run in unit.runs]
    assert len(keys) == len(set(keys)) == 6 * 4 + 6 * 3


def test_two_workers_in_one_folder_do_everything_once(tmp_path):
    units = plan(tmp_path, runs_of(parse_experiment(SMALL), "sweep", tmp_path), batch=1)
    done = []
    lock = threading.Lock()

    def train(unit, claim):
        with lock:
            done.append(unit.name)
        fake_train(unit, claim)

    args = (tmp_path, names(units), train)
    workers = [threading.Thread(target=work, args=args) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(done) == sorted(names(units))
    assert all(unit.done and unit.progress == 1.0 for unit in load_units(tmp_path))
    assert not any((tmp_path / "claims").iterdir())


def test_a_failure_is_written_down_and_stops_nothing(tmp_path):
    units = plan(tmp_path, runs_of(parse_experiment(SMALL), "sweep", tmp_path), batch=5)

    def train(unit, claim):
        if unit.name == units[0].name:
            raise RuntimeError("the disk is on fire")
        fake_train(unit, claim)

    work(tmp_path, names(units), train)
    assert "the disk is on fire" in error_file(units[0]).read_text()
    assert [unit.done for unit in units] == [False] + [True] * (len(units) - 1)


def test_a_folder_that_a_sleeper_still_holds_is_no_failure(tmp_path):
    """Its claim ran out while it was stopped, but it may wake up: its unit is left to it."""
    (unit, *_) = plan(tmp_path, runs_of(parse_experiment(SMALL), "sweep", tmp_path), batch=5)

    def train(unit, claim):
        with RunFolder(unit.run_folder).locked():
            fake_train(unit, claim)

    with RunFolder(unit.run_folder).locked():
        assert not work_on(tmp_path, unit, train)
    assert not error_file(unit).exists()
    assert work_on(tmp_path, unit, train)
    assert unit.done


def test_nothing_is_chosen_from_half_a_sweep(tmp_path):
    file = tmp_path / "half.toml"
    file.write_text(
        'title = "half"\nseeds.sweep = 1\nseeds.report = [5]\noptions.steps = 512\n'
        "[tasks.tmaze-2]\n[agents.ld]\ngrid.beta = [0.0, 0.5]\n"
    )

    def executor(results, units, progress):
        for number, unit in enumerate(units):
            if number:
                error_file(unit).parent.mkdir(parents=True, exist_ok=True)
                error_file(unit).write_text("RuntimeError: no luck")
            else:
                work_on(results, unit, fake_train)

    outcome = sweep(file, tmp_path / "out", executor=executor, batch=1)
    assert len(outcome.failed) == 1
    assert {run.stage for unit in outcome.units for run in unit.runs} == {"sweep"}
    misspelt = tmp_path / "misspelt.toml"
    misspelt.write_text(file.read_text().replace("tmaze-2", "tmzae-2"))
    named = "misspelt.toml: task 'tmzae-2', agent 'ld': unknown environment 'tmzae-2'"
    with pytest.raises(ValueError, match=named):
        sweep(misspelt, tmp_path / "out", executor=executor)
    kept = tmp_path / "out" / "experiment.toml"
    assert kept.read_text() == file.read_text()  # what is refused changes nothing


def test_every_agent_is_tried_on_its_environment_before_anything_is_trained(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("""
        title = "the second agent asks for what Gymnasium does not have"
        seeds.sweep = 1
        [tasks.CartPole-v1]
        steps = 512
        [agents.rnn]
        grid.lam1 = [0.5, 0.9]
        [agents.perfect]
        algo = "memoryless"
        full_view = true
    """)

    def executor(results, units, progress):
        raise AssertionError("something was trained")

    named = "mine.toml: task 'CartPole-v1', agent 'perfect': Gymnasium environments have no full_v"
    with pytest.raises(ValueError, match=named):
        sweep(file, tmp_path / "out", executor=executor)


def test_the_report_takes_the_best_of_the_sweep_and_the_files_choice(tmp_path):
    experiment = parse_experiment(SMALL)
    with pytest.raises(ValueError, match="run the sweep first"):
        runs_of(experiment, "report", tmp_path)
    work(tmp_path, names(plan(tmp_path, runs_of(experiment, "sweep", tmp_path), 5)), fake_train)
    runs = runs_of(experiment, "report", tmp_path)
    chosen = {(r.setting.task, r.setting.agent): r.setting.options for r in runs if r.seed == 10}
    swept = chosen["tmaze-2", "ld"]
    assert (swept["learning_rate"], swept["beta"]) == (0.01, 0.5)
    assert chosen["tiger", "ld"]["learning_rate"] == 0.05  # [selected] in the file
    assert ("tiger", "bound") in chosen
    assert sorted({run.seed for run in runs}) == [10, 11, 12]


def test_choosing_reads_every_curve_once(tmp_path, monkeypatch):
    experiment = parse_experiment(dict(SMALL, selected={}))  # so there is a choice on two tasks
    units = plan(tmp_path, runs_of(experiment, "sweep", tmp_path), 5)
    work(tmp_path, names(units), fake_train)
    read, real = [], pl.read_parquet
    monkeypatch.setattr(pl, "read_parquet", lambda path: (read.append(path), real(path))[1])
    runs_of(experiment, "report", tmp_path)
    assert sorted(read) == sorted(unit.curves for unit in units)


def test_budgets_of_a_results_folder(tmp_path):
    (tmp_path / "tiny.toml").write_text(
        """title = "tiny"
        seeds.sweep = 2
        options.steps = 2048
        tasks.tmaze-2 = {}
        agents.ld.grid.beta = [0.0, 0.5, 1.0]
        agents.rnn.grid.learning_rate = [0.1]
        scale.quick.grid.beta = [0.5]
        """
    )
    for scale, settings in (("paper", [1, 3, 1]), ("quick", [1, 1])):
        results = tmp_path / scale
        keep_experiment(tmp_path / "tiny.toml", scale, results)
        experiment = Results(results).experiment
        units = plan(results, runs_of(experiment, "sweep", results), 5)
        work(results, names(units), fake_train)
        found = gather([results])
        assert found.title == "tiny"
        assert [row["settings"] for row in found.budgets] == settings


def test_a_setting_with_a_missing_or_diverged_seed_is_not_chosen(tmp_path):
    experiment = parse_experiment(SMALL)
    units = plan(tmp_path, runs_of(experiment, "sweep", tmp_path), batch=1)

    def train(unit, claim):
        (run,) = unit.runs
        best = run.setting.options["beta"] == 0.5 and run.setting.options["learning_rate"] == 0.01
        curves = curves_of(unit.runs, fake_metrics(unit.runs, lambda r: 1.0 + best), [best])
        write_parquet(unit.curves, curves)

    work(tmp_path, names(units)[:-1], train)
    scores = Results(tmp_path).scores(experiment, "tmaze-2", "ld")
    missing = units[-1].runs[0].setting
    assert missing.task == "tmaze-2"
    assert len(scores) == 5
    assert missing not in scores
    chosen = [r.setting.options for r in runs_of(experiment, "report", tmp_path)]
    assert (0.01, 0.5) not in [(o.get("learning_rate"), o.get("beta")) for o in chosen]


def test_results_of_another_version_are_refused_and_left_alone(tmp_path):
    unit = tmp_path / "units" / "old"
    unit.mkdir(parents=True)
    (unit / "unit.json").write_text('{"jobs": []}')
    with pytest.raises(ValueError, match="not a unit of work this version can read"):
        load_units(tmp_path)
    assert (unit / "unit.json").read_text() == '{"jobs": []}'
    file = tmp_path / "curves.parquet"
    write_parquet(file, pl.DataFrame({"task": ["x"]}))
    with pytest.raises(ValueError, match="no column 'stage'"):
        _ = Results(file).curves
    file.write_text("garbage")
    with pytest.raises(ValueError, match="cannot be read as parquet"):
        _ = Results(file).curves


def test_curves_weigh_returns_by_episodes():
    experiment = parse_experiment(SMALL)
    run = runs_of(experiment, "sweep", None)[0]
    metrics = fake_metrics([run]).with_columns(
        pl.Series("episodes", [1, 3, 0, 0]),
        pl.Series("return", [0.0, 4.0, None, None]),
    )
    thin = curves_of([run], metrics, [False], points=2)
    assert thin["step"].to_list() == [1024, 2048]
    assert thin["return"].fill_nan(None).to_list() == [3.0, None]
    assert thin["episodes"].to_list() == [4, 0]
    assert thin["task"].to_list() == ["tmaze-2", "tmaze-2"]


def test_the_work_to_do_is_known_beforehand():
    experiment = parse_experiment(SMALL)
    swept = 6 * 2 + 6 * 3
    reported = 2 * 2 * 3
    assert total_steps(experiment, ("sweep", "report")) == (swept + reported) * 2048
    assert total_steps(experiment, ("report",)) == reported * 2048


def test_a_seed_serves_what_it_is_for_now(tmp_path):
    """Seeds that once judged, and now choose, choose like any other."""
    file = tmp_path / "e.toml"
    text = """
title = "x"
[seeds]
sweep = [0, 1]
report = [2, 3]
[tasks.tmaze-1]
steps = 2048
[agents.ld]
grid.learning_rate = [0.01, 0.5]
"""
    file.write_text(text)
    sweep(file, tmp_path / "r", executor=trained_at_once)
    file.write_text(
        text.replace("[0, 1]", "[0, 1, 2, 3]").replace("report = [2, 3]", "report = [4]")
    )
    sweep(file, tmp_path / "r", executor=trained_at_once)
    shown = Results(tmp_path / "r").reported
    assert json.loads(shown["options"][0])["learning_rate"] == 0.01
    assert shown["seed"].unique().to_list() == [4]


def test_what_an_earlier_form_of_the_experiment_reported_is_not_shown(tmp_path):
    file = tmp_path / "e.toml"
    text = """
title = "x"
[seeds]
sweep = [0]
report = [10, 11]
[tasks.tmaze-1]
steps = 2048
[agents.ld]
grid.learning_rate = [0.5]
"""
    file.write_text(text)
    sweep(file, tmp_path / "r", executor=trained_at_once)
    file.write_text(text.replace("[0.5]", "[0.5, 0.01]").replace("[10, 11]", "[11, 12]"))
    sweep(file, tmp_path / "r", executor=trained_at_once)
    shown = Results(tmp_path / "r").reported
    assert shown["agent"].unique().to_list() == ["ld"]
    assert json.loads(shown["options"][0])["learning_rate"] == 0.01
    assert sorted(shown["seed"].unique()) == [11, 12]


def test_what_once_chose_and_now_judges_is_a_report(tmp_path):
    file = tmp_path / "e.toml"
    text = """
title = "x"
[seeds]
sweep = [0, 1]
[tasks.tmaze-1]
steps = 2048
[agents.ld]
grid.learning_rate = [0.01]
"""
    file.write_text(text)
    sweep(file, tmp_path / "r", executor=trained_at_once)
    assert Results(tmp_path / "r").shows == "sweep"
    file.write_text(text.replace("sweep = [0, 1]", "sweep = [0]\nreport = [1]"))
    sweep(file, tmp_path / "r", executor=trained_at_once)
    assert Results(tmp_path / "r").shows == "report"


def trained_at_once(results, units, progress):
    for unit in units:
        if not unit.done:
            fake_train(unit, None)


def test_a_run_in_which_no_episode_ended_is_not_chosen(tmp_path):
    experiment = parse_experiment(SMALL)
    (run, *_) = runs_of(experiment, "sweep", tmp_path)
    curves = curves_of([run], fake_metrics([run], lambda _: float("nan")), [False])
    assert math.isnan(area(curves, "return"))

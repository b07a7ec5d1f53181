"""Figures and tables, from results whose answers are known."""

import json

import numpy as np
import polars as pl
import pytest

from markovlens.experiments.config import find_experiment, parse_experiment, read_experiment
from markovlens.experiments.labels import agent_colours, in_order, task_label
from markovlens.experiments.ppo_figures import (
    fig_ppo,
    fig_ppo_discounted,
    fig_ppo_small,
    learning_curves,
)
from markovlens.experiments.results import Results, final_scores, matrix
from markovlens.experiments.tables import (
    table_best,
    table_budgets,
    table_comparison,
    table_hyperparameters,
    table_scores,
    to_markdown,
)
from markovlens.files import write_parquet
from tests.experiments.test_config import SMALL


def rows(task, agent, seed, values, stage="report", options=None, diverged=False):
    n = len(values)
    return pl.DataFrame(
        {
            "stage": [stage] * n,
            "task": [task] * n,
            "agent": [agent] * n,
            "options": [json.dumps(options or {}, sort_keys=True)] * n,
            "seed": [seed] * n,
            "step": [1000 * (i + 1) for i in range(n)],
            "return": pl.Series(values, dtype=pl.Float64),
            "discounted_return": pl.Series([None if v is None else v / 2 for v in values]),
            "discrepancy": [0.1] * n,
            "diverged": [diverged] * n,
        }
    )


@pytest.fixture
def results(tmp_path):
    """ld ends at 10 ± 1, rnn at 5 ± 1, on one task; they tie on the other."""
    tables = []
    for seed, off in enumerate((-1.0, 0.0, 1.0)):
        for task, ends in (("pocman", (10.0, 5.0)), ("tmaze-5", (3.0, 3.0))):
            for agent, end in zip(("ld", "rnn"), ends, strict=True):
                curve = [None, *np.linspace(0, end, 18), end + off]
                tables.append(rows(task, agent, seed, curve))
    write_parquet(tmp_path / "curves.parquet", pl.concat(tables))
    return Results(tmp_path / "curves.parquet")


def test_final_scores_and_their_table(results):
    part = results.reported.filter(task="pocman", agent="ld")
    steps, curves = matrix(part, "return")
    assert steps.tolist() == list(range(1000, 21000, 1000))
    assert np.isnan(curves[:, 0]).all()
    # The last tenth of 20k steps is the last two points: 10 and 10 + off.
    assert final_scores(part, "return").tolist() == [9.5, 10.0, 10.5]
    first = table_scores(results.reported)[0]
    assert (first["task"], first["agent"], first["seeds"], first["mean"]) == ("PocMan", "ld", 3, 10)


def test_one_lucky_seed_lifts_the_mean_but_not_the_interquartile_mean(tmp_path):
    finals = (1.0, 2.0, 4.0, 101.0)
    table = pl.concat([rows("tiger", "ld", seed, [v, v]) for seed, v in enumerate(finals)])
    write_parquet(tmp_path / "lucky.parquet", table)
    (row,) = table_scores(Results(tmp_path / "lucky.parquet").reported)
    assert (row["mean"], row["interquartile mean"]) == (27.0, 3.0)


def test_comparison_says_better_only_where_it_is(results):
    by_task = {row["task"]: row for row in table_comparison(results.reported)}
    assert by_task["PocMan"]["verdict"] == "better"
    assert by_task["PocMan"]["difference"] == pytest.approx(5.0)
    assert [by_task["PocMan"][name] for name in ("P(better run)", "P low", "P high")] == [1.0] * 3
    tie = by_task["T-maze (5)"]
    assert (tie["verdict"], tie["P(better run)"]) == ("can't tell", 0.5)
    assert tie["P low"] < 0.3
    assert tie["P high"] > 0.7
    turned = {
        row["task"]: row["verdict"]
        for row in table_comparison(results.reported, "return", "rnn", "ld")
    }
    assert turned["PocMan"] == "worse"


def test_one_seed_decides_nothing(tmp_path):
    write_parquet(
        tmp_path / "one.parquet",
        pl.concat([rows("tiger", a, 0, [v, v]) for a, v in (("ld", 9.0), ("rnn", 1.0))]),
    )
    (row,) = table_comparison(Results(tmp_path / "one.parquet").reported)
    assert (row["difference"], row["verdict"]) == (8.0, "too few seeds: can't tell")
    assert row["P low"] is row["P high"] is None


def test_a_diverged_run_does_not_change_what_the_others_scored(tmp_path):
    climb = list(np.linspace(0.0, 1.0, 100))
    tables = [rows("tiger", "ld", seed, climb) for seed in range(4)]
    tables += [rows("tiger", "ld", 4, climb[:5], diverged=True)]
    tables += [rows("tiger", "rnn", seed, climb[:50] * 2) for seed in range(5)]
    tables += [rows("tiger", "memoryless", 0, climb[:5], diverged=True)]
    write_parquet(tmp_path / "a.parquet", pl.concat(tables))
    shown = Results(tmp_path / "a.parquet").reported
    by_agent = {row["agent"]: row for row in table_scores(shown)}
    assert by_agent["ld"]["mean"] == pytest.approx(np.mean(climb[-10:]))
    assert (by_agent["ld"]["seeds"], by_agent["ld"]["diverged"]) == (4, 1)
    assert (by_agent["memoryless"]["seeds"], by_agent["memoryless"]["mean"]) == (0, None)
    (row,) = table_comparison(shown)
    assert row["verdict"] == "better"
    assert len(matrix(shown.filter(agent="ld"), "return")[0]) == 100
    learning_curves(Results(tmp_path / "a.parquet"), "return")


def test_a_gap_in_a_curve_holds_the_last_value(tmp_path):
    table = rows("tiger", "ld", 0, [1.0, None, 3.0])
    assert matrix(table, "return")[1].tolist() == [[1.0, 1.0, 3.0]]


def test_curves_are_drawn_through_the_means(results, tmp_path):
    figure = learning_curves(results, "return")
    panels = [panel for panel in figure.axes if panel.get_visible()]
    assert [panel.get_title() for panel in panels] == ["PocMan", "T-maze (5)"]
    line = panels[0].get_lines()[0]
    assert line.get_label().startswith("λ-discrepancy")
    assert line.get_ydata()[-1] == pytest.approx(10.0)
    for draw in (fig_ppo, fig_ppo_discounted, fig_ppo_small):
        png, svg, numbers = draw(results, tmp_path)
        assert png.read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in svg.read_bytes()
        assert pl.read_parquet(numbers).height == results.curves.height


def test_few_seeds_are_drawn_one_by_one(tmp_path):
    """Two seeds have an interval so wide that nothing else would be seen."""
    for n, bands, lines in ((2, 0, 3), (5, 1, 1)):
        seeds = [rows("tiger", "ld", seed, [1.0, 2.0 + seed]) for seed in range(n)]
        write_parquet(tmp_path / "curves.parquet", pl.concat(seeds))
        (panel,) = learning_curves(Results(tmp_path / "curves.parquet"), "return").axes
        assert (len(panel.collections), len(panel.get_lines())) == (bands, lines)


@pytest.mark.parametrize(
    ("seeds", "said"),
    [
        ({"ld": 2, "rnn": 2}, "thin lines: single seeds"),
        ({"ld": 5, "rnn": 7}, "bands: 95% intervals of the mean over seeds"),
        (
            {"ld": 5, "rnn": 2},
            "bands: 95% intervals of the mean over seeds; thin lines: single seeds",
        ),
    ],
)
def test_a_figure_says_what_is_drawn_around_the_means(tmp_path, seeds, said):
    table = [
        rows("tiger", agent, seed, [1.0, 2.0 + seed])
        for agent, n in seeds.items()
        for seed in range(n)
    ]
    write_parquet(tmp_path / "curves.parquet", pl.concat(table))
    figure = learning_curves(Results(tmp_path / "curves.parquet"), "return")
    assert figure.get_suptitle() == said


def test_hyperparameter_table_is_the_papers():
    table = table_hyperparameters(read_experiment(find_experiment("fig-ppo")))
    assert table[0]["lam2"] == "0.1, 0.5, 0.7, 0.9, 0.95"
    assert table[1]["lam2"] is None
    assert [row["settings"] for row in table[:3]] == [400, 20, 20]


def test_best_table_has_the_files_choice_without_any_results():
    table = table_best(read_experiment(find_experiment("fig-ppo")))
    battleship = next(r for r in table if (r["task"], r["agent"]) == ("battleship-10", "ld"))
    assert battleship == {
        "task": "battleship-10",
        "agent": "ld",
        "chosen by": "file",
        "learning_rate": 2.5e-4,
        "lam1": 0.1,
        "lam2": 0.95,
        "beta": 0.5,
    }


def test_budgets_and_best_from_a_sweep(tmp_path):
    data = dict(SMALL, tasks={"tmaze-2": {}}, selected={}, scale={})
    data["agents"] = {
        "ld": {"grid": {"beta": [0.0, 0.5, 1.0]}},
        "rnn": {"grid": {"learning_rate": [0.1]}},
    }
    experiment = parse_experiment(data)
    value = {0.0: 1.0, 0.5: 4.0, 1.0: 2.0}
    tables = []
    for setting in experiment.candidates():
        for seed in (0, 1):
            v = value[setting.options["beta"]] if setting.agent == "ld" else 3.0
            tables.append(rows("tmaze-2", setting.agent, seed, [v, v], "sweep", setting.options))
    write_parquet(tmp_path / "sweep.parquet", pl.concat(tables))
    results = Results(tmp_path / "sweep.parquet")
    budgets = {(r["agent"], r["settings"]): r["area"] for r in table_budgets(experiment, results)}
    assert budgets["ld", 3] == pytest.approx(4.0)
    assert budgets["ld", 1] == pytest.approx(7 / 3)  # one setting at random is their average
    assert budgets["rnn", 1] == pytest.approx(3.0)
    best = {row["agent"]: row for row in table_best(experiment, results)}
    assert (best["ld"]["beta"], best["ld"]["chosen by"]) == (0.5, "sweep")


def test_markdown():
    assert to_markdown([{"a": 1, "b": 2.0}, {"a": "x", "b": None}]) == (
        "| a | b |\n| --- | --- |\n| 1 | 2 |\n| x | – |\n"
    )
    assert to_markdown([]) == ""


def test_labels():
    assert task_label("rocksample-15-15") == "RockSample (15, 15)"
    assert task_label("maze4x3-episodic") == "4×3 maze"
    assert in_order(["zebra", "rnn", "ld"]) == ["ld", "rnn", "zebra"]
    colours = agent_colours(["ld", "a", "b"])
    assert len(set(colours.values())) == 3

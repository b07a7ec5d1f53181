"""The grid of figure 4: resumable, shared, normalised; and its figures."""

from types import SimpleNamespace

import polars as pl
import pytest

import markovlens as ml
from markovlens.experiments import memory_figures, memory_runs
from markovlens.experiments.memory_figures import fig_memory, fig_parity_memory
from markovlens.experiments.memory_runs import (
    PARITY,
    PROBLEMS,
    Cell,
    cells,
    read_table,
    run_cells,
    summary,
)


def test_paper_scale_is_the_papers():
    grid = cells("paper")
    assert {cell.problem for cell in grid} == {*PROBLEMS, PARITY}
    for cell in grid:
        config = cell.config("paper")
        assert config.gradient_steps(2) == 30_000
        assert config.random_memory == (cell.problem == PARITY)
    assert {cell.n_memory for cell in grid} == {1, 2, 4, 8}
    assert len(grid) == 8 * 2 * 4


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(memory_runs.N_SEEDS, "quick", 2)
    monkeypatch.setitem(memory_runs.SIZES, "quick", (1, 2))
    short = {"memory_steps": 20, "policy_steps": 20, "n_policies": 3}
    monkeypatch.setitem(memory_runs.QUICK_CHANGES, "paper", short)
    monkeypatch.setattr(memory_runs, "RECIPES", {"paper": memory_runs.RECIPES["paper"]})


@pytest.mark.slow
def test_cells_are_learned_once_and_scores_are_normalised(tiny, tmp_path, monkeypatch):
    table = run_cells(tmp_path, "quick", problems=("tiger",))
    assert table.height == 2 * 2
    tiger = ml.library.tiger()
    uniform = float(ml.start_value(tiger, ml.uniform_policy(tiger)))
    for row in table.iter_rows(named=True):
        assert row["uniform"] == pytest.approx(uniform)
        assert row["optimum"] == pytest.approx(3.77019, abs=5e-3)
        share = (row["value"] - uniform) / (row["optimum"] - uniform)
        assert row["score"] == pytest.approx(share)
    assert not list(tmp_path.glob("cells/*.npz"))

    def never(*args, **kwargs):
        raise AssertionError("a finished cell was learned again")

    monkeypatch.setattr(memory_runs, "learn_memories", never)
    assert run_cells(tmp_path, "quick", problems=("tiger",)).equals(table)


@pytest.mark.slow
def test_two_processes_learn_what_one_does(tiny, tmp_path):
    told = []
    problems = ("tiger",)
    one = run_cells(tmp_path / "one", "quick", problems)
    two = run_cells(tmp_path / "two", "quick", problems, 2, lambda done, _="": told.append(done))
    assert two.drop("cpu_seconds").equals(one.drop("cpu_seconds"))
    assert not list((tmp_path / "two" / "claims").iterdir())
    assert told == sorted(told)
    assert told[-1] == 1.0


def scores(problem, recipe, n_memory, values):
    return pl.DataFrame(
        [
            {**Cell(problem, recipe, n_memory)._asdict(), "seed": seed, "score": value}
            for seed, value in enumerate(values)
        ]
    )


def test_summary_is_the_mean_with_its_interval():
    (row,) = summary(scores("tmaze", "best", 2, [0.9, 1.0, 1.1]))
    assert (row["score"], row["seeds"]) == (pytest.approx(1.0), 3)
    assert row["high"] - 1.0 == pytest.approx(4.302653 * 0.1 / 3**0.5)


def test_figures_of_a_half_finished_grid(tmp_path):
    table = pl.concat(
        [
            scores("tmaze", "paper", 1, [0.4, 0.5]),
            scores("tmaze", "best", 2, [0.9, 1.0]),
            scores("cheese", "best", 8, [0.95, 1.0]),
            scores(PARITY, "best", 1, [0.0, 0.0]),
        ]
    )
    for paths in (fig_memory(table, tmp_path), fig_parity_memory(table, tmp_path)):
        assert [path.suffix for path in paths] == [".png", ".svg", ".parquet"]
        assert all(path.stat().st_size > 0 for path in paths)


def test_bars_stand_on_0_and_their_whiskers_are_explained(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(memory_figures, "save_figure", lambda figure, *rest: drawn.append(figure))
    table = pl.concat(
        [
            scores("tmaze", "paper", 1, [0.4, 0.5]),
            scores("tmaze", "best", 2, [0.9, 1.0, 1.0]),
            scores(PARITY, "best", 1, [0.0, 0.0]),
        ]
    )
    fig_memory(table, tmp_path)
    fig_parity_memory(table, tmp_path)
    for figure, seeds in zip(drawn, ("2 to 3", "2"), strict=True):
        (legend,) = figure.legends
        assert legend.get_title().get_text() == f"mean of {seeds} seeds, with its 95% interval"
        for panel in figure.axes:
            assert panel.get_ylim()[0] == 0.0
            flat = [line for line in panel.get_lines() if set(line.get_ydata()) == {0.0}]
            assert not [line for line in flat if len(line.get_xdata()) > 1]  # the spine is enough


def test_an_empty_folder_says_so(tmp_path):
    with pytest.raises(ValueError, match="no finished cells"):
        read_table(tmp_path)


def test_a_yardstick_is_not_taken_from_a_solver_that_was_interrupted(tmp_path, monkeypatch):
    """`solve` answers Ctrl-C with the bounds it has; they must not become the figure's 1."""

    def interrupted(pomdp, tol, time):
        return SimpleNamespace(interrupted=True, lower=0.0, upper=99.0)

    monkeypatch.setattr(memory_runs, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        memory_runs._scale_of(tmp_path, "tiger")
    assert not list(tmp_path.rglob("*.parquet"))

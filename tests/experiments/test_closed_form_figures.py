"""The closed-form figures: the numbers behind them say what the paper says."""

import polars as pl
import pytest

from markovlens.cli.main import main
from markovlens.experiments import closed_form_figures as figures


def numbers(paths):
    assert [path.suffix for path in paths] == [".png", ".svg", ".parquet"]
    assert all(path.stat().st_size > 1000 for path in paths)
    return pl.read_parquet(paths[2])


def test_more_aliasing_more_discrepancy(tmp_path):
    table = numbers(figures.fig_tmaze_sweep(tmp_path))
    for _, curve in table.group_by("aliased"):
        found = curve.sort("p")["discrepancy"]
        assert found[0] == pytest.approx(0.0, abs=1e-9)
        assert found.diff().drop_nulls().min() > -1e-9
        # All of them end where nothing is known at the junction: half of 4.1, a third of the time.
        assert found[-1] == pytest.approx(4.1 / 2 / 3, abs=1e-3)


def test_td_and_monte_carlo_values(tmp_path):
    table = numbers(figures.fig_mc_vs_td(tmp_path))
    found = {(row["estimator"][:2], row["observation"]): row["value"] for row in table.to_dicts()}
    assert found["Mo", "blue"] == pytest.approx(4.0, abs=1e-4)
    assert found["Mo", "red"] == pytest.approx(-0.1, abs=1e-4)
    assert found["TD", "blue"] == pytest.approx(1.95, abs=1e-4)
    assert found["TD", "red"] == pytest.approx(1.95, abs=1e-4)


def test_parity_check_needs_a_bit_of_memory(tmp_path):
    table = numbers(figures.fig_parity(tmp_path))
    assert table["memoryless"].max() < 1e-12
    assert table["one_bit"].min() > 1e-6


@pytest.mark.slow
def test_parity_check_perturbed(tmp_path):
    table = numbers(figures.fig_parity_sweeps(tmp_path))
    start = table.filter(pl.col("change") == "start")
    symmetric = start.filter((pl.col("level") - 0.25).abs() < 1e-9)["discrepancy"]
    assert symmetric.max() < 1e-12
    assert start.filter((pl.col("level") - 0.25).abs() > 0.02)["discrepancy"].min() > 1e-6


def test_the_pomdp_that_is_an_mdp(tmp_path):
    table = numbers(figures.fig_tk_equality(tmp_path))
    assert table["discrepancy"].max() < 1e-12
    assert table["largest_value_difference"].max() < 1e-12


def test_reproduce_lists_and_makes_items(capsys, tmp_path):
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", "fig-mc-vs-td", "--out", str(tmp_path)])
    assert stopped.value.code == 0
    assert (tmp_path / "fig-mc-vs-td.svg").exists()
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", "fig-tmaze"])
    assert stopped.value.code == 2
    assert "did you mean 'fig-tmaze-sweep'" in capsys.readouterr().err

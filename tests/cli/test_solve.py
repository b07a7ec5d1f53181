"""`markovlens solve`."""

import json

import numpy as np
import pytest


def test_json_has_bounds_and_counts(command):
    code, out, _ = command("solve", "tmaze", "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["converged"]
    np.testing.assert_allclose([answer["lower"], answer["upper"]], 4 * 0.9**6, rtol=1e-3)
    assert answer["alpha_vectors"] > 1


def test_the_table_shows_the_same(command):
    code, out, _ = command("solve", "tmaze", "--simulate", "10")
    lines = dict(line.rsplit(maxsplit=1) for line in out.splitlines())
    assert code == 0
    assert float(lines["lower"]) == pytest.approx(4 * 0.9**6, rel=1e-3)
    assert float(lines["simulated return"]) == pytest.approx(4 * 0.9**6, rel=1e-3)


def test_running_out_of_time_says_so(command):
    code, out, _ = command("solve", "network", "--time", "1e-6")
    assert code == 0
    assert "stopped before the gap was 0.001" in out


def test_saved_vectors_give_the_lower_bound(command, tmp_path):
    file = tmp_path / "tiger.npz"
    code, *_ = command("solve", "tiger", "--save", str(file))
    assert code == 0
    with np.load(file) as saved:
        n_plans = len(saved["alphas"])
        assert saved["then"].shape == (n_plans, 4)
        assert saved["then"].max() < n_plans
        np.testing.assert_allclose(saved["bounds"], 3.770189, rtol=1e-3)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("tigre",), "did you mean 'tiger'"),
        (("tiger", "--tol", "-1"), "tol must be positive"),
        (("tiger", "--time", "0"), "time must be a positive number"),
        (("tiger", "--simulate", "-3"), "--simulate needs a number of episodes"),
    ],
)
def test_bad_input_is_one_line(refused, argv, message):
    assert message in refused("solve", *argv)

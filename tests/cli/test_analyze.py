"""`markovlens analyze` prints what the library computes."""

import json

import numpy as np
import pytest

import markovlens as ml


def test_json_equals_the_library(command):
    code, out, _ = command(
        "analyze", "tiger", "--policy", "random:3", "--lam", "0", "0.5", "1", "--json"
    )
    assert code == 0
    shown = json.loads(out)
    tiger = ml.library.tiger()
    policy = ml.random_policy(tiger, 3)
    assert shown["discrepancy"] == pytest.approx(float(ml.lambda_discrepancy(tiger, policy)))
    assert [row["V at λ=0.5"] for row in shown["observations"]] == pytest.approx(
        np.asarray(ml.v_values(tiger, policy, 0.5)).tolist()
    )
    # The observations' shares add up to the whole, in squares.
    squares = sum(row["discrepancy"] ** 2 for row in shown["observations"])
    assert squares == pytest.approx(shown["discrepancy"] ** 2)
    assert shown["case"] == "partially observable"


def test_occupancy_weights_add_up_too(command):
    _, out, _ = command(
        "analyze", "cheese", "--weighting", "occupancy", "--policy", "random:1", "--json"
    )
    shown = json.loads(out)
    squares = sum(row["discrepancy"] ** 2 for row in shown["observations"])
    assert squares == pytest.approx(shown["discrepancy"] ** 2)


def test_table_plot_and_a_policy_from_a_file(command, tmp_path):
    policy, picture = tmp_path / "policy.txt", tmp_path / "tiger.png"
    np.savetxt(policy, np.asarray(ml.random_policy(ml.library.tiger(), 5)))
    code, out, _ = command("analyze", "tiger", "--policy", str(policy), "--plot", str(picture))
    assert code == 0
    assert "λ-discrepancy between λ=0 and λ=1" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["tigr"], "did you mean 'tiger'"),
        (["tiger", "--policy", "best"], "uniform, random:SEED or the path"),
        (["tiger", "--lam", "0", "2"], "lam must be in [0, 1], got 2"),
        (["tiger", "--lam", "0"], "at least two"),
        (["tiger", "--plot", "x.gif"], ".png, .svg or .pdf"),
    ],
)
def test_bad_input(argv, message, refused):
    assert message in refused("analyze", *argv)


def test_the_largest_share_is_the_max_norm(command):
    _, out, _ = command("analyze", "tmaze", "--policy", "random:3", "--norm", "max", "--json")
    shown = json.loads(out)
    shares = [row["discrepancy"] for row in shown["observations"]]
    assert max(shares) == pytest.approx(shown["discrepancy"])


def test_a_lambda_is_named_once_and_in_full(command):
    _, out, _ = command("analyze", "tiger", "--lam", "0.12345678", "0.12345679", "--json")
    row = json.loads(out)["observations"][0]
    assert {"V at λ=0.12345678", "V at λ=0.12345679"} < set(row)
    code, _, err = command("analyze", "tiger", "--lam", "0", "1", "0")
    assert code == 2
    assert "--lam has a value twice: 0.0 1.0 0.0" in err

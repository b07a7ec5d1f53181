"""`markovlens detect`."""

import json

import numpy as np
import pytest

from markovlens.cli.main import main
from tests.evidence.cases import random_chain, sample_chain

QUICK = ("--replications", "39", "--probes", "2", "--frames", "2")


def run(capsys, *argv):
    with pytest.raises(SystemExit) as exit_:
        main(["detect", *argv])
    return exit_.value.code, capsys.readouterr()


@pytest.fixture
def logs(tmp_path):
    """A Markov log, one with two states shown as one, and one that never pays."""
    rng = np.random.default_rng(1)
    chain = sample_chain(rng, *random_chain(rng), 6000)
    np.savez(tmp_path / "markov.npz", **chain.arrays())
    apart = np.array([[0, 0, 1, 0, 0], [0, 0, 0, 1, 0], *[[0, 0, 0, 0, 1]] * 3], dtype=float)
    pay = np.array([0.0, 0.0, 2.0, -2.0, 0.0])
    merged = sample_chain(rng, apart, pay, 3000, show=[0, 1, 2, 2, 3])
    np.savez(tmp_path / "merged.npz", **merged.arrays())
    np.savez(tmp_path / "unpaid.npz", **merged.arrays() | {"reward": np.zeros(len(merged))})
    return tmp_path


def test_exit_codes_tell_the_verdict(capsys, logs):
    for name, code, says in [
        ("markov", 0, "Markov: no sign"),
        ("merged", 1, "not Markov:"),
        ("unpaid", 3, "undecided:"),
    ]:
        got, printed = run(capsys, str(logs / f"{name}.npz"), "--gamma", "0.9", *QUICK)
        assert got == code
        assert printed.out.startswith(says)


def test_json_and_a_picture(capsys, logs):
    picture = logs / "answer.png"
    source = str(logs / "merged.npz")
    code, printed = run(capsys, source, "--json", "--plot", str(picture), "--gamma", "0.9", *QUICK)
    answer = json.loads(printed.out)
    assert code == 1
    assert answer["markov"] is False
    assert answer["advice"] == "2 frames suffice"
    assert answer["p_value"] <= 0.05
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["nothing.npz"], "there is no file"),
        (["no-such-env"], "unknown environment"),
        (["markov.npz", "--mask", "a"], "--mask takes component numbers"),
        (["markov.npz", "--mask", "0"], "a mask needs vector observations"),
        (["markov.npz", "--gamma", "2"], "gamma must be in"),
        (["markov.npz", "--policy", "PPO:x.zip"], "already has its actions"),
    ],
)
def test_bad_input_is_one_line(capsys, logs, monkeypatch, argv, says):
    monkeypatch.chdir(logs)
    code, printed = run(capsys, *argv, *QUICK)
    assert code == 2
    assert says in printed.err
    assert printed.err.count("\n") == 1

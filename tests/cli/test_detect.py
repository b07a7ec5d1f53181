"""`markovlens detect`."""

import json

import gymnasium
import numpy as np
import pytest

from markovlens.agents.config import PPOConfig
from markovlens.agents.training import train
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
    assert answer["hypothesis"] == "the observations are Markov"
    assert picture.stat().st_size > 1000


def test_a_part_of_a_long_log_is_enough(capsys, logs):
    source = str(logs / "merged.npz")
    _, printed = run(capsys, source, "--gamma", "0.9", "--most", "1500", *QUICK)
    assert printed.out.count("of 3,000 steps were looked at") == 1
    assert " steps, " in printed.out
    assert "data           3,000" not in printed.out


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["nothing.npz"], "there is no file"),
        (["no-such-env"], "unknown environment"),
        (["CartPol-v1"], "Did you mean: `CartPole`?"),
        (["markov.npz", "--mask", "a"], "unknown entry of the observation 'a'"),
        (["markov.npz", "--mask", "0"], "a mask needs vector observations"),
        (["markov.npz", "--most", "0"], "most must be at least 1"),
        (["markov.npz", "--gamma", "2"], "gamma must be in"),
        (["CartPole-v1", "--steps", "1"], "1 steps are too few to say anything"),
        (["markov.npz", "--plot", "a.jpg"], "must end in .png, .svg or .pdf"),
    ],
)
def test_bad_input_is_one_line(capsys, logs, monkeypatch, argv, says):
    monkeypatch.chdir(logs)
    code, printed = run(capsys, *argv, *QUICK)
    assert code == 2
    assert says in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.slow
def test_a_trained_run_as_policy(capsys, tmp_path):
    """Names of the library's observations, and what was done to the run's memory, are said."""
    config = PPOConfig(env="tmaze-5", algo="rnn", n_steps=8, steps=32, latent=8)
    train(config, out=tmp_path / "run")
    more = ("--policy", str(tmp_path / "run"), "--steps", "3000", "--json", *QUICK)
    code, printed = run(capsys, "tmaze-5", *more)
    answer = json.loads(printed.out)
    assert code in (0, 1, 3)
    assert answer["steps"] >= 3000
    assert set(answer["shares"]) <= {"blue", "red", "corridor", "junction"}
    assert sum("memory was cleared" in note for note in answer["notes"]) == 1
    code, printed = run(capsys, "tiger", *more)
    assert code == 2
    assert "trained on tmaze-5" in printed.err


@pytest.mark.slow
def test_a_model_of_stable_baselines_as_policy(capsys, tmp_path):
    sb3 = pytest.importorskip("stable_baselines3")
    env = gymnasium.make("CartPole-v1")
    sb3.A2C("MlpPolicy", env, device="cpu", seed=0).save(tmp_path / "model")
    model = ("--policy", f"A2C:{tmp_path / 'model.zip'}", "--steps", "2000", "--mask", "1,3")
    code, printed = run(capsys, "CartPole-v1", *model)
    assert code == 2
    assert "add --trust" in printed.err
    wrong = ("--policy", f"DQN:{tmp_path / 'model.zip'}", "--trust")
    code, printed = run(capsys, "CartPole-v1", *wrong)
    assert code == 2
    assert "cannot be loaded as a model of DQN" in printed.err
    assert printed.err.count("\n") == 1
    code, printed = run(capsys, "CartPole-v1", *model, "--trust", "--frames", "0", "--json")
    answer = json.loads(printed.out)
    again = run(capsys, "CartPole-v1", *model, "--trust", "--frames", "0", "--json")
    assert again[1].out == printed.out
    assert answer["hypothesis"].startswith("the past adds at most 5%")
    assert any("saw the components that are masked" in note for note in answer["notes"])
    assert all(
        "entry 0" in name or "entry 2" in name or "action" in name for name in answer["shares"]
    )

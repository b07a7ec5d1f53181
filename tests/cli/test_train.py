import json
import signal
import subprocess
import sys
import time

import pytest

from markovlens.agents.folder import CHECKPOINT

QUICK = ["--env", "tmaze-1", "--latent", "8", "--n-steps", "16", "--steps", "640"]


@pytest.mark.slow
def test_train_then_evaluate(command, refused, tmp_path):
    folder = str(tmp_path / "run")
    code, out, _ = command("train", *QUICK, "--out", folder, "--json")
    assert code == 0
    assert json.loads(out)["runs"][0]["step"] == 640
    code, out, _ = command("evaluate", folder, "--episodes", "5", "--json")
    assert code == 0
    (row,) = json.loads(out)["runs"]
    assert row["return_low"] <= row["return"] <= row["return_high"]
    code, out, _ = command("train", "--resume", folder)
    assert code == 0
    error = refused("train", *QUICK, "--lam1", "0.5", "--out", folder)
    assert "its lam1 is 0.95, not 0.5" in error


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--env", "tmase-5"], "did you mean"),
        (["--env", "no_such_module:Env-v0"], "Gymnasium cannot make 'no_such_module:Env-v0': "),
        (["--seeds", "2..1"], "backwards"),
        (["--minibatches", "3"], "must divide n_envs"),
        (["--steps", "5"], "at least one batch"),
        (["--lam1", "1.5"], "between 0 and 1"),
        (["--resume", "no-such-folder"], "not a run folder"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(
    refused, tmp_path, monkeypatch, argv, says
):
    monkeypatch.chdir(tmp_path)
    assert says in refused("train", *argv)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_signal_leaves_a_run_that_goes_on(tmp_path):
    train = "import markovlens.cli; markovlens.cli.main()"
    options = [*QUICK, "--steps", "64000000", "--out", str(tmp_path / "run")]
    long = [sys.executable, "-c", train, "train", *options]
    process = subprocess.Popen(long, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "run" / "metrics.parquet").exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted" in err
    assert (tmp_path / "run" / CHECKPOINT).exists()

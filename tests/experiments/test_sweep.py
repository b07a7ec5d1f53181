"""Sweeps as users run them: whole, interrupted, on Ray, on two devices."""

import json
import os
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

from markovlens.experiments.results import Results
from markovlens.experiments.units import load_units

TINY = """
title = "tiny"
[seeds]
sweep = "0..1"
report = "10..11"
[options]
steps = 4096
latent = 8
[tasks.tmaze-1]
[agents.ld]
grid.learning_rate = [2.5e-3, 2.5e-2]
[agents.memoryless]
"""
UNITS = 1 + 2  # the sweep's four runs of ld; the reports of ld and memoryless


@pytest.fixture
def start(tmp_path):
    """Starts `markovlens sweep` on the tiny experiment; kills what is left of it at the end."""
    file = tmp_path / "tiny.toml"
    file.write_text(TINY)
    processes = []

    def begin(out, *options):
        code = "from markovlens.cli import main; main()"
        command = [sys.executable, "-c", code, "sweep", str(file), "--out", str(out), *options]
        # Ray's workers are nicer than others and would wait for all there is to do on this machine.
        environment = os.environ | {"RAY_ADDRESS": "", "RAY_worker_niceness": "0"}
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        processes.append(process)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The results of a sweep that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "tiny.toml").write_text(TINY)
    code = "from markovlens.cli import main; main()"
    command = [sys.executable, "-c", code, "sweep", "tiny.toml", "--out", "results", "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)["scores"]
    assert {(row["agent"], row["seeds"]) for row in scores} == {("ld", 2), ("memoryless", 2)}
    return folder / "results"


def holder(results, wait=120.0):
    """The process number of whoever holds a unit, once somebody does and has begun."""
    deadline = time.monotonic() + wait
    while time.monotonic() < deadline:
        for path in results.glob("claims/*"):
            name, _, number = path.name.rpartition(".")
            if name != "plan" and number.isdigit() and path.stat().st_size:
                return json.loads(path.read_text())["process"]
        time.sleep(0.02)
    raise AssertionError("nobody took up any work")


def curves(results):
    """What was learnt, without how fast."""
    table = Results(results).curves.drop("steps_per_second")
    return table.sort("stage", "agent", "options", "seed", "step")


def assert_finished(process):
    out, error = process.communicate(timeout=600)
    assert process.returncode == 0, error
    return out


@pytest.mark.slow
def test_a_sweep_tries_chooses_and_reports(whole):
    assert len(load_units(whole)) == UNITS
    table = curves(whole)
    runs = table.select("stage", "agent", "options", "seed").unique()
    assert runs.height == 4 + 2 + 2
    assert (table.group_by("stage", "agent", "options", "seed").len()["len"] == 8).all()
    assert set(table.filter(stage="report")["seed"]) == {10, 11}


@pytest.mark.slow
def test_killed_and_started_again_it_ends_with_the_same_numbers(start, whole, tmp_path):
    results = tmp_path / "results"
    killed = start(results)
    worker = holder(results)
    killed.kill()
    killed.communicate()
    while _is_running(worker):  # a worker does not outlive whoever started it
        time.sleep(0.05)
    first, second = start(results, "--workers", "1"), start(results, "--workers", "1")
    assert_finished(first)
    assert_finished(second)
    assert len(load_units(results)) == UNITS
    assert curves(results).equals(curves(whole))


@pytest.mark.slow
def test_finished_work_is_not_done_again(start, whole):
    before = {unit.name: unit.curves.stat().st_mtime_ns for unit in load_units(whole)}
    assert "ld" in assert_finished(start(whole))
    assert {u.name: u.curves.stat().st_mtime_ns for u in load_units(whole)} == before


@pytest.mark.slow
def test_ray_loses_nothing_when_a_worker_is_killed(start, whole, tmp_path):
    results = tmp_path / "results"
    process = start(results, "--executor", "ray")
    os.kill(holder(results), signal.SIGKILL)
    assert_finished(process)
    assert len(load_units(results)) == UNITS
    assert curves(results).equals(curves(whole))


TWO_DEVICES = """
import sys
import jax
from markovlens.agents.config import PPOConfig
from markovlens.agents.training import train
assert len(jax.devices()) == int(sys.argv[2])
config = PPOConfig(env="tmaze-1", algo="ld", steps=2048, latent=8)
run = train(config, seeds=[0, 1, 2])
run.metrics.drop("steps_per_second").write_parquet(sys.argv[1])
"""


@pytest.mark.slow
def test_seeds_spread_over_two_devices_learn_the_same(tmp_path):
    """Bit for bit, which holds for programs as users get them, optimised."""
    tables = []
    for n in (1, 2):
        environment = os.environ | {
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={n}",
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "0",
        }
        out = str(tmp_path / f"{n}.parquet")
        command = [sys.executable, "-c", TWO_DEVICES, out, str(n)]
        subprocess.run(command, env=environment, check=True, timeout=600)
        tables.append(pl.read_parquet(out).sort("run", "step"))
    assert tables[0].equals(tables[1])


def _is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # A zombie nobody has waited for yet does not run any more.
    with open(f"/proc/{process}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"

"""`markovlens sweep` and `markovlens report` at the door: bad input is one line and exit code 2."""

import json

import polars as pl
import pytest

from markovlens.experiments.executors import LocalExecutor
from markovlens.files import write_parquet
from tests.experiments.test_figures import rows
from tests.experiments.test_units import trained_at_once

GOOD = """
title = "t"
seeds.sweep = 1
[tasks.tmaze-1]
[agents.ld]
grid.beta = [0.5]
"""


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("title = 'x'\ntaks = 3", (), "unknown key 'taks'; did you mean 'tasks'?"),
        (GOOD.replace("[0.5]", "[]"), (), "the grid of agent 'ld' is empty"),
        (
            GOOD.replace("[tasks.tmaze-1]", "[tasks.'maze.POMDP']"),
            (),
            "mine.toml: task 'maze.POMDP', agent 'ld': ",
        ),
        (GOOD.replace("grid.beta = [0.5]", ""), ("--stage", "sweep"), "there is nothing to sweep"),
        (GOOD, ("--scale", "tiny"), "unknown scale 'tiny'"),
        (GOOD, ("--tasks", "tmaze-2"), "unknown task 'tmaze-2'; did you mean 'tmaze-1'?"),
        (GOOD, ("--agents", "rnn"), "unknown agent 'rnn'"),
        (GOOD, ("--workers", "0"), "at least one worker is needed"),
        (GOOD, ("--batch", "0"), "at least one run must train at a time"),
        (GOOD, ("--gpus", "1"), "--gpus are for --executor ray"),
        (GOOD, ("--executor", "ray", "--workers", "2"), "--workers is for --executor local"),
    ],
)
def test_bad_experiments(tmp_path, refused, text, options, message):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    assert message in refused("sweep", str(file), "--out", str(tmp_path / "out"), *options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("stage", "title"),
    [
        ("sweep", "final return (the sweep's best settings on the seeds that chose them, not on"),
        ("all", "final return, mean and 95% interval over seeds"),
    ],
)
def test_the_title_says_which_seeds_the_scores_are_from(
    tmp_path, command, monkeypatch, stage, title
):
    monkeypatch.setattr(LocalExecutor, "__call__", lambda self, *work: trained_at_once(*work))
    file = tmp_path / "mine.toml"
    file.write_text(GOOD.replace("seeds.sweep = 1", "seeds.sweep = 1\nseeds.report = [5]"))
    options = ("--stage", stage, "--out", str(tmp_path / "out"))
    code, out, err = command("sweep", str(file), *options)
    assert code == 0, err
    assert title in " ".join(out.split())
    code, out, _ = command("sweep", str(file), *options, "--json")
    assert json.loads(out)["stage"] == ("sweep" if stage == "sweep" else "report")


def test_unknown_experiment(refused):
    assert "did you mean 'fig-ppo-small'?" in refused("sweep", "fig-ppo-smal")


def test_report_of_a_parquet_file(tmp_path, command):
    both = [rows("tiger", agent, 0, [1.0, 2.0]) for agent in ("ld", "rnn")]
    write_parquet(tmp_path / "curves.parquet", pl.concat(both))
    page = tmp_path / "page.html"
    code, out, _ = command("report", str(tmp_path / "curves.parquet"), "-o", str(page))
    assert code == 0
    assert "2 runs, 0 episodes" in out
    assert page.read_text().startswith("<!doctype html>")


def test_report_of_nothing(tmp_path, refused):
    error = refused("report", str(tmp_path / "no"), "-o", str(tmp_path / "page.html"))
    assert "there are no results at" in error
    assert not (tmp_path / "page.html").exists()

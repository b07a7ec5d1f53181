"""`markovlens models`."""

import json

import pytest

from markovlens.cli.main import main
from markovlens.pomdp import library


def run(capsys, *argv):
    with pytest.raises(SystemExit) as exit_:
        main(["models", *argv])
    return exit_.value.code, capsys.readouterr()


def test_json_lists_the_whole_library(capsys):
    code, printed = run(capsys, "--json")
    rows = json.loads(printed.out)
    assert code == 0
    assert [row["name"] for row in rows] == library.names()
    tmaze = rows[0]
    assert tmaze["name"] == "tmaze"
    assert (tmaze["states"], tmaze["actions"], tmaze["observations"]) == (15, 4, 5)
    assert tmaze["gamma"] == 0.9
    assert all(row["hidden"] for row in rows)


def test_the_table_has_a_line_for_each_model(capsys):
    code, printed = run(capsys)
    lines = printed.out.splitlines()
    assert code == 0
    assert lines[0].split() == ["name", "states", "actions", "observations", "gamma", "hidden"]
    assert [line.split()[0] for line in lines[1:]] == library.names()


def test_help_has_an_example(capsys):
    code, printed = run(capsys, "--help")
    assert code == 0
    assert "Example: markovlens models" in printed.out

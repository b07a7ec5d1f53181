"""`markovlens models`."""

import json

from markovlens.pomdp import library


def test_json_lists_the_whole_library(command):
    code, out, _ = command("models", "--json")
    rows = json.loads(out)
    assert code == 0
    assert [row["name"] for row in rows] == library.names()
    tmaze = rows[0]
    assert tmaze["name"] == "tmaze"
    assert (tmaze["states"], tmaze["actions"], tmaze["observations"]) == (15, 4, 5)
    assert tmaze["gamma"] == 0.9
    assert all(row["hidden"] for row in rows)


def test_the_table_has_a_line_for_each_model(command):
    code, out, _ = command("models")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split() == ["name", "states", "actions", "observations", "gamma", "hidden"]
    assert [line.split()[0] for line in lines[1:]] == library.names()

"""`markovlens remember` says what it learned, and refuses what cannot be learned."""

import json

import pytest

from markovlens.memory import config


@pytest.fixture
def short(monkeypatch):
    """The best recipe with one restart and few steps, for speed."""
    quick = config.MemoryConfig(
        learning_rate=0.1,
        n_policies=5,
        reveal_steps=100,
        memory_steps=400,
        policy_start="fresh",
        policy_steps=400,
    )
    monkeypatch.setitem(config.RECIPES, "best", quick)


@pytest.mark.slow
def test_table_and_picture(command, tmp_path, short):
    picture = tmp_path / "automaton.png"
    code, out, _ = command("remember", "tmaze-1", "--plot", str(picture))
    assert code == 0
    for text in ("remembers", "junction", "without memory", "memoryless", "optimal, at most"):
        assert text in out
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_json_has_values_in_order(command, short):
    code, out, _ = command("remember", "tmaze-1", "--seed", "1", "--json")
    assert code == 0
    shown = json.loads(out)
    values = list(shown["values"].values())
    assert values == sorted(values)
    assert shown["discrepancy_after"] < shown["discrepancy_before"]
    assert len(shown["memory"]) == 5


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("tmaze", "--states", "0"), "at least one state, got n_memory = 0"),
        (("parity_check",), "--random-memory"),
        (("tmaze", "--plot", "x.gif"), "--plot must end in .png, .svg or .pdf, got 'x.gif'"),
        (("tmaz",), "did you mean 'tmaze'"),
    ],
)
def test_bad_input_is_one_line(refused, argv, message):
    assert message in refused("remember", *argv)

"""Progress where there is no terminal: a line now and then, with an honest guess."""

import pytest

from markovlens import progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves when it is told to."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])

    def wait(seconds):
        now[0] += seconds

    return wait


def test_the_time_to_go_is_judged_by_the_pace_since_work_began(clock, capsys):
    with progress.progress_bar("train", total=100) as advance:
        clock(200)  # compiling
        advance(10)
        assert capsys.readouterr().err == ""
        clock(40)
        advance(30, "return 1")
        assert capsys.readouterr().err == "train: 30%, 140 s to go return 1\n"


def test_lines_are_half_a_minute_apart(clock, capsys):
    with progress.progress_bar("train", total=100) as advance:
        for done in range(100):
            advance(done)
            clock(1)
    assert capsys.readouterr().err.count("\n") == 3

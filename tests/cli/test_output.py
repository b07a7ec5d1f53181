"""What a terminal shows; tests elsewhere read pipes."""

import io

import pytest
import rich.console
import rich.progress

from markovlens import progress
from markovlens.cli.output import print_table


@pytest.fixture
def terminal(monkeypatch):
    """Where consoles print now, as if it were a terminal."""
    written = io.StringIO()
    console = rich.console.Console

    def on_terminal(**options):
        return console(**options | {"file": written, "force_terminal": True, "width": 200})

    monkeypatch.setattr(rich.console, "Console", on_terminal)
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    return written


def test_names_in_brackets_are_names(terminal):
    print_table([{"observation": "[wall]", "value": 0.5}, {"observation": "[/x]", "value": None}])
    shown = terminal.getvalue()
    assert "[wall]" in shown
    assert "[/x]" in shown


def test_a_bar_says_how_far_it_is(terminal):
    with progress.progress_bar("train [/x]", total=2) as advance:
        advance(1, "return [bold]")
        advance(2, "return [bold]")
    shown = terminal.getvalue()
    assert "train [/x]" in shown
    assert "return [bold]" in shown
    assert "100%" in shown

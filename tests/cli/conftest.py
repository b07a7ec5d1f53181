"""Commands run in this process, as `markovlens` would run them."""

from typing import NamedTuple

import pytest

from markovlens.cli.main import main


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def command(capsys):
    """`command("analyze", "tiger")` runs that command: its exit code, and what it printed."""

    def run(*argv):
        with pytest.raises(SystemExit) as stopped:
            main(list(argv))
        return Ran(stopped.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def refused(command):
    """Runs a command that must refuse its arguments: one line, exit code 2; returns the line."""

    def run(*argv):
        code, _, err = command(*argv)
        assert code == 2, err
        assert err.startswith("markovlens: ")
        assert err.count("\n") == 1, err
        return err

    return run

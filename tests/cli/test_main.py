"""The command's door: help without heavy imports, one line for an error, the right exit code."""

import subprocess
import sys

import pytest

from markovlens.cli.main import COMMANDS


def test_help_names_every_command(command):
    code, out, _ = command("--help")
    assert code == 0
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name, command):
    code, out, _ = command(name, "--help")
    assert code == 0
    assert f"markovlens {name}" in out.split("Example:")[-1]


def test_help_needs_no_jax():
    code = (
        "import sys; from markovlens.cli.main import _usage; _usage(); print('jax' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


def test_version(command):
    code, out, _ = command("--version")
    assert code == 0
    assert out.startswith("markovlens 0.")


def test_unknown_command_suggests_the_nearest(refused):
    assert "did you mean 'analyze'" in refused("analyse")


def test_a_bad_file_gives_one_line_with_its_line_number(refused, tmp_path):
    path = tmp_path / "bad.POMDP"
    path.write_text(
        "discount: 0.9\nvalues: reward\nstates: 2\nactions: 1\nobservations: 1\n"
        "T: 0\n0.9 0.2\n0.0 1.0\nO: 0\nuniform\n"
    )
    err = refused("analyze", str(path))
    assert f"{path}:7:" in err
    assert "1.1" in err


@pytest.mark.parametrize(
    "error", [MemoryError("unable to allocate 9 TiB"), RuntimeError("RESOURCE_EXHAUSTED: 9 TiB")]
)
def test_too_little_memory_is_no_internal_error(error, refused, monkeypatch):
    def run(argv):
        raise error

    monkeypatch.setattr(sys.modules["markovlens.cli.main"], "_run", run)
    err = refused("analyze", "tmaze-5")
    assert "not enough memory" in err
    assert "9 TiB" in err


def test_debug_shows_the_traceback(command):
    code, _, err = command("analyze", "no-such-model", "--debug")
    assert code == 2
    assert "Traceback" in err


def test_the_demo_refuses_what_it_could_not_train_before_it_begins(refused):
    assert "--seeds must be at least 1, got 0" in refused("demo", "--seeds", "0")
    assert "steps must be at least one batch" in refused("demo", "--steps", "5")

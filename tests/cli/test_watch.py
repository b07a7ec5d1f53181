"""`markovlens watch`."""

import pytest

from markovlens.cli import main


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["watch", *arguments])
    return stopped.value.code


def test_in_the_terminal(capsys):
    assert run("tmaze-5", "--steps", "3", "--seed", "1") == 0
    out = capsys.readouterr().out
    moments = out.strip().split("\n\n")
    assert [m.splitlines()[0].split()[2] for m in moments] == ["0", "1", "2", "3"]
    assert all("sees: " in moment for moment in moments)


def test_the_same_seed_is_the_same_episode(capsys):
    outputs = []
    for seed in ("1", "1", "2"):
        run("rocksample-11-11", "--steps", "8", "--seed", seed)
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]


@pytest.mark.parametrize("kind", ["gif", "mp4", "html"])
def test_files(kind, tmp_path, capsys):
    path = tmp_path / "deeper" / f"episode.{kind}"
    assert run("tmaze-5", "--steps", "4", "--out", str(path)) == 0
    assert path.stat().st_size > 1000
    assert "5 frames" in capsys.readouterr().out


def test_battleship_is_played_by_its_mask(capsys):
    assert run("battleship-5", "--steps", "40") == 0
    last = capsys.readouterr().out.strip().split("\n\n")[-1]
    assert "terminated" in last
    assert int(last.split("step ")[1].split(",")[0]) <= 25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pacman"], "did you mean 'pocman'"),
        (["tmaze-5", "--out", "a.avi"], "kind of movie"),
        (["tmaze-5", "--steps", "0"], "--steps"),
        (["tmaze-5", "--fps", "0"], "--fps"),
        (["tmaze-5", "--policy", "no/such/run"], "no/such/run"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, capsys):
    assert run(*arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_a_trained_run_plays_what_it_was_trained_on(tmp_path, capsys):
    folder = str(tmp_path / "run")
    arguments = ["--env", "tmaze-5", "--algo", "rnn", "--steps", "512", "--out", folder]
    with pytest.raises(SystemExit) as stopped:
        main(["train", *arguments])
    assert stopped.value.code == 0
    capsys.readouterr()
    assert run("tmaze-5", "--policy", folder, "--steps", "4") == 0
    first = capsys.readouterr().out
    assert "sees: corridor" in first or "sees: blue" in first or "sees: red" in first
    assert run("tmaze-5", "--policy", folder, "--steps", "4") == 0
    assert capsys.readouterr().out == first
    assert run("tiger", "--policy", folder) == 2
    assert "was trained on tmaze-5" in capsys.readouterr().err

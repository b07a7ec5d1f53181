"""`markovlens watch`."""

import pytest


def test_in_the_terminal(command):
    code, out, _ = command("watch", "tmaze-5", "--steps", "3", "--seed", "1")
    assert code == 0
    moments = out.strip().split("\n\n")
    assert [m.splitlines()[0].split()[2] for m in moments] == ["0", "1", "2", "3"]
    assert all("sees: " in moment for moment in moments)


def test_the_same_seed_is_the_same_episode(command):
    first, again, other = (
        command("watch", "rocksample-11-11", "--steps", "8", "--seed", seed).out
        for seed in ("1", "1", "2")
    )
    assert first == again != other


@pytest.mark.parametrize("kind", ["gif", "mp4", "html"])
def test_files(kind, tmp_path, command):
    path = tmp_path / "deeper" / f"episode.{kind}"
    code, out, _ = command("watch", "tmaze-5", "--steps", "4", "--out", str(path))
    assert code == 0
    assert path.stat().st_size > 1000
    assert "5 frames" in out


def test_battleship_is_played_by_its_mask(command):
    code, out, _ = command("watch", "battleship-5", "--steps", "40")
    assert code == 0
    last = out.strip().split("\n\n")[-1]
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
def test_bad_input_is_one_line(arguments, message, refused):
    assert message in refused("watch", *arguments)


@pytest.mark.slow
def test_a_trained_run_plays_what_it_was_trained_on(tmp_path, command, refused):
    folder = str(tmp_path / "run")
    arguments = ["--env", "tmaze-5", "--algo", "rnn", "--steps", "512", "--out", folder]
    assert command("train", *arguments).code == 0
    watch = ("watch", "tmaze-5", "--policy", folder, "--steps", "4")
    code, first, _ = command(*watch)
    assert code == 0
    assert "sees: corridor" in first or "sees: blue" in first or "sees: red" in first
    assert command(*watch) == (0, first, "")
    assert "was trained on tmaze-5" in refused("watch", "tiger", "--policy", folder)

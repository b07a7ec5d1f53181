"""Arguments that tyro refuses: one line in the house's words, exit code 2, the nearest name."""

import pytest


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (
            "train --algo rn",
            "unknown --algo 'rn'; did you mean 'rnn'? (known: ld, memoryless, rnn)",
        ),
        ("reproduce --scale quik", "unknown --scale 'quik'; did you mean 'quick'?"),
        ("train --algoo ld", "unrecognized options: --algoo, ld; did you mean --algo?"),
        ("analyze tiger --jsonn", "unrecognized options: --jsonn; did you mean --json?"),
        ("models --foo 3", "unrecognized options: --foo, 3 (`markovlens models --help` shows"),
        ("analyze tiger cheese", "unrecognized options: cheese"),
        ("solve tiger --tol", "missing value for argument '--tol'"),
        ("train --steps x", "--steps takes INT, got 'x'"),
        ("watch tmaze-5 --seed 1e4", "--seed takes INT, got '1e4'"),
        ("analyze tiger --lam 0 x", "--lam takes [FLOAT [FLOAT ...]], got '0', 'x'"),
        ("reproduce fig-parity --from runs", "fig-parity is computed in seconds and draws from no"),
        ("train --lam1 1.5", "markovlens: lam1 must be between 0 and 1, got 1.5"),
        ("analyze", "markovlens analyze needs MODEL: a name of the library (see `markovlens mod"),
        ("evaluate", "markovlens evaluate needs RUN: the run folder"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(argv, says, refused):
    assert says in refused(*argv.split())


def test_errors_of_the_command_itself_are_not_the_arguments(command, tmp_path):
    code, _, err = command("evaluate", str(tmp_path))
    assert code == 2
    assert "not a run folder" in err

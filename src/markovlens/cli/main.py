"""Picks the subcommand, turns errors into one line and an exit code."""

import os
import sys
import traceback
import warnings
from importlib import import_module
from importlib.metadata import version
from typing import NoReturn

# Each command is the function of the same name in the module of the same name, imported only when
# it is called for: `markovlens --help` needs neither JAX nor matplotlib.
COMMANDS = {
    "demo": "the five-minute tour",
    "models": "list the library of small POMDPs",
    "analyze": "TD(λ) values and the λ-discrepancy of a model: how much, and where",
    "solve": "the value of the best policy over all histories, with bounds",
    "remember": "learn a memory function: what to remember, and what that is worth",
    "detect": "Markov or not, from an environment or logged data",
    "train": "train agents: recurrent PPO, with the λ-discrepancy or without",
    "evaluate": "how well a trained agent does, with intervals",
    "watch": "draw an episode: what happens, and what the agent sees",
    "reproduce": "make a figure or table of the paper",
    "sweep": "run an experiment: many settings, many seeds, resumable",
    "report": "one page about runs: curves, scores, settings, an episode to step through",
}

BAD_INPUT = 2
INTERNAL_ERROR = 70
INTERRUPTED = 130
INTERRUPTED_TEXT = (
    "interrupted; train, sweep and reproduce go on when run again, and remember with --checkpoint"
)


def main(argv: list[str] | None = None) -> NoReturn:
    """Entry point of the `markovlens` command."""
    argv = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in argv
    argv = [argument for argument in argv if argument != "--debug"]
    warnings.formatwarning = _one_line_warning
    try:
        sys.exit(_run(argv) or 0)
    except KeyboardInterrupt:
        _fail(INTERRUPTED_TEXT, INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (ValueError, OSError) as error:
        if debug:
            traceback.print_exc()
        _fail(str(error), BAD_INPUT)
    except Exception as error:
        if debug:
            traceback.print_exc()
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            _fail(f"not enough memory: {error}; try fewer states, steps or runs at once", BAD_INPUT)
        message = f"internal error: {type(error).__name__}: {error} (--debug shows the traceback)"
        _fail(message, INTERNAL_ERROR)


def _fail(message: str, code: int) -> NoReturn:
    one_line = " ".join(message.split())
    print(f"markovlens: {one_line}", file=sys.stderr)
    sys.exit(code)


def _one_line_warning(message: Warning | str, *_: object, **__: object) -> str:
    return f"markovlens: {' '.join(str(message).split())}\n"


def _run(argv: list[str]) -> int | None:
    if not argv or argv[0] in ("-h", "--help"):
        print(_usage())
        return 0
    if argv[0] == "--version":
        print(f"markovlens {version('markovlens')}")
        return 0
    if argv[0] not in COMMANDS:
        from markovlens.names import unknown_name

        raise unknown_name("command", argv[0], COMMANDS)
    from markovlens.cli.arguments import bind

    command = getattr(import_module(f"markovlens.cli.{argv[0]}"), argv[0])
    return bind(command, f"markovlens {argv[0]}", argv[1:])()


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: markovlens COMMAND [options]",
            "",
            "Is my observation Markov? If not, what must be remembered?",
            "",
            *lines,
            "",
            "markovlens COMMAND --help   what a command does, with an example",
            "markovlens --version        the version",
            "--debug                     with any command: show the traceback of an error",
        ]
    )

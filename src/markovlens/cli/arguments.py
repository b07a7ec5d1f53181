"""From arguments to a call: tyro reads them, and what it refuses becomes one line."""

import io
import re
from collections.abc import Callable
from contextlib import redirect_stderr
from functools import partial, wraps
from typing import Any

import tyro

from markovlens.names import unknown_name

Call = Callable[[], int | None]

_RULE = re.compile(r"[─-]{5,}$|[╭╰]─")  # in ASCII where stdout has no more
_CHOICE = re.compile(r"invalid choice '(.*)' for argument '(\S+)'\. Expected one of \((.*)\)\.")
_VALUE = re.compile(r"Error parsing (\S+): (.*)")
_MISSING = re.compile(r"Missing from .*?: (\S+) (.*?)\.? \(required\)")
_GOT = re.compile(r"(?:\[('.*?')\]|: ('[^']*'))\.?(?: Got errors.*)?$")


def bind(command: Callable[..., int | None], prog: str, argv: list[str]) -> Call:
    """`command` with its arguments, ready to be called; a ValueError says what is wrong with them.

    `--help` prints the help and leaves with exit code 0, as ever.
    """

    @wraps(command)
    def bound(*args: Any, **options: Any) -> Call:
        return partial(command, *args, **options)

    said = io.StringIO()
    try:
        with redirect_stderr(said):
            return tyro.cli(bound, prog=prog, args=argv)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise refusal(said.getvalue(), prog) from None


def refusal(box: str, prog: str) -> ValueError:
    """The error in the box that tyro draws: what was got, what was expected, the nearest name.

    Its parts are parted by rules: the complaint, then perhaps the options that come near or the
    help of the option, then where to read more.
    """
    complaint, *others = _parts(box)
    near = "".join(part for part in others if part.startswith("Perhaps you meant:"))
    about = "".join(part for part in others if part.startswith("Argument helptext:"))
    if match := _CHOICE.search(complaint):
        return unknown_name(match[2], match[1], re.findall(r"'([^']*)'", match[3]))
    if match := _VALUE.match(complaint):
        option, reason = match.groups()
        if not about:  # a whole config was refused, and says itself what is wrong
            return ValueError(reason)
        kind = re.search(rf"{re.escape(option.split('/')[0])} (\S.*?)(?= [a-zA-Z]*[a-z]|$)", about)
        got = _GOT.search(reason)
        if kind and got:
            expected = kind[1].replace("{None}|", "")
            return ValueError(f"{option} takes {expected}, got {got[1] or got[2]}")
        return ValueError(f"{option}: {reason}")
    if match := _MISSING.match(complaint):
        return ValueError(f"{prog} needs {match[1]}: {match[2]}")
    if match := re.search(r"Perhaps you meant: (--[\w-]+)", near):
        complaint += f"; did you mean {match[1]}?"
    return ValueError(
        f"{complaint[0].lower()}{complaint[1:]} (`{prog} --help` shows what there is)"
    )


def _parts(box: str) -> list[str]:
    """The texts between the rules, without the title."""
    parts = [""]
    for line in box.splitlines():
        line = line.strip("│| ")
        if _RULE.match(line):
            parts.append("")
        else:
            parts[-1] = f"{parts[-1]} {line}".strip()
    return parts[1:]

"""Reading tokens from a text that knows where it is: every error has a line and a column."""

import re
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

_BLANK = re.compile(r"(?:\s++|#[^\n]*+)*+")
_TOKEN = re.compile(r":|[^\s:#]++")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_NUMBER_RUN = re.compile(r"(?:\s*+[\d.eE+\-]++(?=[\s#]|\Z))*+\s*+")
_COMMENT = re.compile(r"#[^\n]*+")

# Words that mean something else in the format than a name.
RESERVED = frozenset(("discount", "values", "states", "actions", "observations", "start"))
RESERVED |= {"include", "exclude", "reward", "cost", "uniform", "identity", "reset", "T", "O", "R"}
END = ""


class Token(NamedTuple):
    text: str  # END when there is nothing left
    offset: int

    @property
    def is_number(self) -> bool:
        return _NUMBER.fullmatch(self.text) is not None


class Scanner:
    """A text and a position in it. A colon is a token of its own; `#` starts a comment.

    >>> scanner = Scanner("T:listen # moves nothing", name="tiger.POMDP")
    >>> [scanner.next().text for _ in range(4)]
    ['T', ':', 'listen', '']
    """

    def __init__(self, text: str, name: str):
        self.text, self.name, self.offset = text, name, 0

    def peek(self) -> Token:
        """The next token, which stays the next token."""
        start = _skip_blank(self.text, self.offset)
        match = _TOKEN.match(self.text, start)
        return Token(match[0] if match else END, start)

    def next(self) -> Token:
        token = self.peek()
        self.offset = token.offset + len(token.text)
        return token

    def expect(self, text: str, expected: str) -> Token:
        token = self.next()
        if token.text != text:
            raise self.error(token, expected)
        return token

    def word_before_colon(self) -> bool:
        """Whether the next two tokens are a word and a colon: the head of a statement."""
        here = self.offset
        word, colon = self.next(), self.next()
        self.offset = here
        return word.text not in (":", END) and colon.text == ":"

    def number(self, expected: str) -> float:
        token = self.next()
        if not token.is_number:
            raise self.error(token, expected)
        return float(token.text)

    def numbers(self, count: int, what: str) -> Float[np.ndarray, "count"]:
        """Exactly `count` numbers, over as many lines as they like."""
        start = self.offset
        values = self._number_run()
        if values is not None and len(values) == count:
            return values
        self.offset = start
        return np.array(
            [self.number(f"a number ({i} of {count} read so far, {what})") for i in range(count)]
        )

    def _number_run(self) -> Float[np.ndarray, "n"] | None:
        """All numbers up to the next thing that is none, or None if one of them is malformed.

        Looks at whole lines at once: a matrix of a million numbers takes no longer than splitting
        it does.
        """
        pieces: list[str] = []
        while True:
            run = _NUMBER_RUN.match(self.text, self.offset)
            assert run is not None  # it also matches nothing
            pieces.append(run[0])
            self.offset = run.end()
            comment = _COMMENT.match(self.text, self.offset)
            if comment is None:
                break
            self.offset = comment.end()
        try:
            return np.array(" ".join(pieces).split(), dtype=np.float64)
        except ValueError:
            return None

    def offset_of_number(self, start: int, index: int) -> int:
        """Where the number with that index begins, counting from `start`."""
        here, self.offset = self.offset, start
        for _ in range(index):
            self.next()
        offset, self.offset = self.peek().offset, here
        return offset

    def error(self, token: Token, expected: str) -> ValueError:
        got = f"got {token.text!r}" if token.text else "got the end of the text"
        return self.error_at(token.offset, f"{got}, expected {expected}")

    def error_at(self, offset: int, message: str) -> ValueError:
        line = self.text.count("\n", 0, offset) + 1
        column = offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        return ValueError(f"{self.name}:{line}:{column}: {message}")


def _skip_blank(text: str, offset: int) -> int:
    match = _BLANK.match(text, offset)
    return match.end() if match else offset

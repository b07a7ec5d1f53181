"""What comes before the entries: discount, values, names, start."""

import numpy as np
from jaxtyping import Float

from markovlens.pomdp.cassandra.scanner import END, RESERVED, Scanner, Token
from markovlens.pomdp.cassandra.symbols import Symbols
from markovlens.pomdp.cassandra.tables import ROW_SUM_TOLERANCE, is_probability, normalise
from markovlens.pomdp.cassandra.writes import ANY


class Preamble:
    """The declarations of a file, each read by the method of its keyword."""

    def __init__(self, scanner: Scanner):
        self.scanner = scanner
        self.gamma: float | None = None
        self.sign = 1.0  # -1 for costs
        self.names: dict[str, Symbols] = {}
        self.p0: Float[np.ndarray, "S"] | None = None

    def discount(self) -> None:
        self.scanner.expect(":", "':' after discount")
        token = self.scanner.peek()
        self.gamma = self.scanner.number("a discount in [0, 1]")
        if not 0.0 <= self.gamma <= 1.0:
            raise self.scanner.error(token, "a discount in [0, 1]")

    def values(self) -> None:
        self.scanner.expect(":", "':' after values")
        token = self.scanner.next()
        if token.text not in ("reward", "cost"):
            raise self.scanner.error(token, "'reward' or 'cost'")
        self.sign = 1.0 if token.text == "reward" else -1.0

    def declare(self, kind: str) -> None:
        colon = self.scanner.expect(":", f"':' after {kind}")
        if kind in self.names:
            raise self.scanner.error_at(colon.offset, f"{kind} are declared a second time")
        first = self.scanner.peek()
        if first.text.isdecimal():
            self.scanner.next()
            if int(first.text) < 1:
                raise self.scanner.error(first, f"at least 1 of the {kind}")
            self.names[kind] = Symbols(kind, [f"{kind[0]}{i}" for i in range(int(first.text))])
            return
        names = [token.text for token in self._name_list(kind)]
        if not names:
            raise self.scanner.error(first, f"the number of {kind}, or their names")
        self.names[kind] = Symbols(kind, names)

    def _name_list(self, kind: str) -> list[Token]:
        """Names up to the head of the next statement."""
        tokens: dict[str, Token] = {}
        while self.scanner.peek().text not in (":", END) and not self._at_statement():
            token = self.scanner.next()
            if token.text in tokens:
                raise self.scanner.error(token, f"{kind} that differ")
            if token.is_number or token.text == "*":
                raise self.scanner.error(token, f"the name of one of the {kind}")
            if token.text in RESERVED:
                expected = f"the name of one of the {kind}, not a word of the format"
                raise self.scanner.error(token, f"{expected} (is a ':' missing after it?)")
            tokens[token.text] = token
        return list(tokens.values())

    def _at_statement(self) -> bool:
        if self.scanner.word_before_colon():
            return True
        here = self.scanner.offset
        first, second = self.scanner.next().text, self.scanner.next().text
        self.scanner.offset = here
        return first == "start" and second in ("include", "exclude")

    def start(self) -> None:
        kind = self.scanner.next()
        if kind.text in ("include", "exclude"):
            self.scanner.expect(":", f"':' after start {kind.text}")
        elif kind.text != ":":
            raise self.scanner.error(kind, "':', 'include:' or 'exclude:' after start")
        if "states" not in self.names:
            raise self.scanner.error(kind, "'states:' before 'start'")
        n_states = len(self.names["states"])
        if kind.text == ":":
            self.p0 = self._start_belief(n_states)
            return
        listed = np.zeros(n_states, dtype=bool)
        first = self.scanner.peek()
        while self.scanner.peek().text not in (":", END) and not self._at_statement():
            listed[self._index("states")] = True
        chosen = listed if kind.text == "include" else ~listed
        if not chosen.any():
            raise self.scanner.error(first, f"states to {kind.text} that leave one to start in")
        self.p0 = chosen / chosen.sum()

    def _start_belief(self, n_states: int) -> Float[np.ndarray, "S"]:
        """After `start:` comes `uniform`, one state, or a probability for each state."""
        first = self.scanner.peek()
        if first.text == "uniform":
            self.scanner.next()
            return np.full(n_states, 1.0 / n_states)
        one_number = first.text.isdecimal() and (n_states > 1 or first.text == "0")
        if one_number:
            here = self.scanner.offset
            self.scanner.next()
            one_number = not self.scanner.peek().is_number
            self.scanner.offset = here
        if one_number or not first.is_number:
            p0 = np.zeros(n_states)
            p0[self._index("states")] = 1.0
            return p0 / p0.sum()
        p0 = self.scanner.numbers(n_states, "the start probabilities")
        self.check_probabilities(p0, first.offset)
        if abs(p0.sum() - 1.0) > ROW_SUM_TOLERANCE:
            message = f"the start probabilities sum to {p0.sum():.6g}, expected 1"
            raise self.scanner.error_at(first.offset, message)
        normalise(p0[None])
        return p0

    def _index(self, kind: str) -> int | slice:
        index = self.named(kind)
        return slice(None) if index == ANY else index

    def named(self, kind: str) -> int:
        token = self.scanner.next()
        names = self.names[kind]
        if token.text not in names.index:
            raise self.scanner.error(token, names.describe())
        return names.index[token.text]

    def check_probabilities(self, values: np.ndarray, offset: int) -> None:
        bad = ~is_probability(values)
        if bad.any():
            index = int(np.argmax(bad))
            where = self.scanner.offset_of_number(offset, index)
            got = self.scanner.text[where:].split(None, 1)[0]
            message = f"got {got!r}, expected a probability between 0 and 1"
            raise self.scanner.error_at(where, message)

"""The grammar of Cassandra's POMDP files: text in, tables out."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from markovlens.pomdp.cassandra.plain import read_plain_entries
from markovlens.pomdp.cassandra.preamble import Preamble
from markovlens.pomdp.cassandra.scanner import END, Scanner, Token
from markovlens.pomdp.cassandra.tables import (
    ROW_SUM_TOLERANCE,
    ActionPomdp,
    expected_reward,
    fill_resets,
    normalise,
)
from markovlens.pomdp.cassandra.writes import ANY, Writes

_AXES = {
    "T": ("actions", "states", "states"),
    "O": ("actions", "states", "observations"),
    "R": ("actions", "states", "states", "observations"),
}
_KINDS = ("states", "actions", "observations")


class Parser:
    """One pass over the text. Names first, then entries in any order; `start` may come anywhere."""

    def __init__(self, text: str, name: str):
        self.scanner = Scanner(text, name)
        self.preamble = Preamble(self.scanner)
        self.tables: dict[str, Writes] = {}

    def parse(self) -> ActionPomdp:
        statements: dict[str, Callable[[], None]] = {
            "discount": self.preamble.discount,
            "values": self.preamble.values,
            **{kind: partial(self.preamble.declare, kind) for kind in _KINDS},
            "start": self.preamble.start,
            "T": self._transition,
            "O": self._observation,
            "R": self._reward,
        }
        while (token := self.scanner.peek()).text != END:
            if token.text not in statements:
                raise self.scanner.error(token, f"one of {', '.join(f'{s}:' for s in statements)}")
            if token.text in _AXES:
                self._open_tables(token)
                self.scanner.offset = token.offset
                symbols = [self.preamble.names[kind] for kind in _AXES[token.text]]
                if read_plain_entries(self.scanner, token.text, symbols, self.tables[token.text]):
                    continue
            self.scanner.next()
            statements[token.text]()
        return self._finish()

    def _open_tables(self, token: Token) -> None:
        """Entries need sizes: called at the first entry, and at the end for a file without."""
        if self.tables:
            return
        for kind in _KINDS:
            if kind not in self.preamble.names:
                raise self.scanner.error(token, f"'{kind}:' first")
        for keyword, axes in _AXES.items():
            self.tables[keyword] = Writes(tuple(len(self.preamble.names[k]) for k in axes))

    def _selectors(self, keyword: str, least: int) -> list[int]:
        """`: a : s ...`, as far as the colons go."""
        selectors: list[int] = []
        for kind in _AXES[keyword]:
            if len(selectors) >= least and self.scanner.peek().text != ":":
                break
            self.scanner.expect(":", f"':' and then {self.preamble.names[kind].describe()}")
            selectors.append(self.preamble.named(kind))
        return selectors

    def _transition(self) -> None:
        selectors = self._selectors("T", least=1)
        token = self.scanner.peek()
        if token.text == "reset" and len(selectors) < 3:
            self.scanner.next()
            # A placeholder row keeps the order; the start is known only at the end of the text.
            action, state = (*selectors, ANY)[:2]
            self.tables["T"].assign((action, state, ANY), np.nan, token.offset)
            return
        self._probabilities("T", selectors, "transition")

    def _observation(self) -> None:
        self._probabilities("O", self._selectors("O", least=1), "observation")

    def _probabilities(self, keyword: str, selectors: list[int], what: str) -> None:
        table = self.tables[keyword]
        shape = table.shape[len(selectors) :]
        token = self.scanner.peek()
        if token.text == "uniform" and shape:
            self.scanner.next()
            table.assign((*selectors, *[ANY] * len(shape)), 1.0 / shape[-1], token.offset)
        elif token.text == "identity" and len(shape) == 2 and shape[0] == shape[1]:
            self.scanner.next()
            table.assign_block(selectors, np.eye(shape[0]), token.offset)
        else:
            if not token.is_number:
                raise self.scanner.error(token, _expected(shape, what))
            block = self.scanner.numbers(math.prod(shape), f"{what} probabilities")
            self.preamble.check_probabilities(block, token.offset)
            self._assign(table, selectors, block, token.offset)

    def _reward(self) -> None:
        selectors, table = self._selectors("R", least=2), self.tables["R"]
        offset = self.scanner.peek().offset
        block = self.scanner.numbers(math.prod(table.shape[len(selectors) :]), "rewards")
        self._assign(table, selectors, block, offset)

    def _assign(
        self, table: Writes, selectors: list[int], numbers: np.ndarray, offset: int
    ) -> None:
        """Numbers from the text to one cell, a row or a matrix."""
        shape = table.shape[len(selectors) :]
        if shape:
            table.assign_block(selectors, numbers.reshape(shape), offset)
        else:
            table.assign(selectors, float(numbers[0]), offset)

    def _finish(self) -> ActionPomdp:
        end = self.scanner.peek()
        self._open_tables(end)
        preamble = self.preamble
        if preamble.gamma is None:
            raise self.scanner.error(end, "'discount:'")
        states, actions, observations = (preamble.names[kind].names for kind in _KINDS)
        p0 = preamble.p0
        p0 = np.full(len(states), 1.0 / len(states)) if p0 is None else p0
        T, O = self.tables["T"].dense(), self.tables["O"].dense()  # noqa: E741
        fill_resets(T, p0)
        self._check_rows("T", T, "in state")
        self._check_rows("O", O, "leading to state")
        normalise(T)
        normalise(O)
        R = preamble.sign * expected_reward(self.tables["R"], T, O)
        return ActionPomdp(T, R, O, p0, preamble.gamma, states, actions, observations)

    def _check_rows(self, keyword: str, rows: np.ndarray, relation: str) -> None:
        """The error that names the first row that does not sum to 1, if there is one."""
        sums = rows.sum(axis=2)
        bad = np.argwhere(np.abs(sums - 1.0) > ROW_SUM_TOLERANCE)
        if not len(bad):
            return
        a, s = (int(i) for i in bad[0])
        action, state = (
            self.preamble.names["actions"].names[a],
            self.preamble.names["states"].names[s],
        )
        row = f"{keyword} of action {action!r} {relation} {state!r}"
        written = self.tables[keyword].last_write((a, s))
        if written is None:
            end = len(self.scanner.text.rstrip())
            raise self.scanner.error_at(end, f"{row} is never given, expected a row")
        start, row_in_matrix = written
        offset = self.scanner.offset_of_number(start, row_in_matrix * rows.shape[2])
        raise self.scanner.error_at(offset, f"{row} sums to {sums[a, s]:.6g}, expected 1")


def _expected(shape: tuple[int, ...], what: str) -> str:
    if not shape:
        return f"a {what} probability"
    if len(shape) == 1:
        words = "'uniform' or 'reset'" if what == "transition" else "'uniform'"
        return f"{shape[0]} {what} probabilities, or {words}"
    words = "'uniform', 'identity' or 'reset'" if what == "transition" else "'uniform'"
    return f"{shape[0]} rows of {shape[1]} {what} probabilities, or {words}"

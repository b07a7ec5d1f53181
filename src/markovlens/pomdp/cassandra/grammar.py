"""The grammar of Cassandra's POMDP files: text in, tables out."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from markovlens.pomdp.cassandra.scanner import END, Scanner, Token
from markovlens.pomdp.cassandra.writes import ANY, Writes

ROW_SUM_TOLERANCE = 1e-5
EXACT_ENOUGH = 1e-12  # a row this close to 1 is left as it is, so that reading undoes writing
CELLS_AT_ONCE = 1 << 20  # how many cells of R are looked up together

# A statement for one entry on plain lines, such as `T: go : s1 : s2 0.5`: most of a large file.
_ENTRY = {
    keyword: re.compile(
        rf"\s*+{keyword}\s*+:" + r"\s*+([^\s:#]++)\s*+:" * (n - 1) + r"\s*+([^\s:#]++)"
        r"\s++([+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?+)(?=\s|\Z)"
    )
    for keyword, n in (("T", 3), ("O", 3), ("R", 4))
}


class ActionPomdp(NamedTuple):
    """What a file says: a POMDP whose observation may depend on the action that led to a state."""

    T: Float[np.ndarray, "A S S"]  # T[a, s, s']
    R: Float[np.ndarray, "S A"]  # expected reward, the observation averaged out
    O: Float[np.ndarray, "A S O"]  # noqa: E741  O[a, s', o]
    p0: Float[np.ndarray, "S"]
    gamma: float
    states: tuple[str, ...]
    actions: tuple[str, ...]
    observations: tuple[str, ...]


class _Names:
    """The states, actions or observations of a file: by name, by number, or `*` for all."""

    def __init__(self, kind: str, names: Sequence[str]):
        self.kind, self.names = kind, tuple(names)
        self.index = {str(i): i for i in range(len(self.names))} | {"*": ANY}
        self.index |= {name: i for i, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def describe(self) -> str:
        listed = ", ".join(self.names[:6]) + (", ..." if len(self.names) > 6 else "")
        return f"one of the {self.kind} ({listed}), its number (0 to {len(self) - 1}), or *"


class Parser:
    """One pass over the text. Sizes first, then entries in any order; `start` may come anywhere."""

    def __init__(self, text: str, name: str):
        self.scanner = Scanner(text, name)
        self.gamma: float | None = None
        self.sign = 1.0
        self.names: dict[str, _Names] = {}
        self.p0: Float[np.ndarray, "S"] | None = None
        self.T = self.O = self.R = Writes(())
        self.open_tables = False

    def parse(self) -> ActionPomdp:
        statements: dict[str, Callable[[], None]] = {
            "discount": self._discount,
            "values": self._values,
            "states": lambda: self._declare("states"),
            "actions": lambda: self._declare("actions"),
            "observations": lambda: self._declare("observations"),
            "start": self._start,
            "T": self._transition,
            "O": self._observation,
            "R": self._reward,
        }
        while (token := self.scanner.peek()).text != END:
            if token.text not in statements:
                raise self.scanner.error(token, f"one of {', '.join(f'{s}:' for s in statements)}")
            if token.text in _ENTRY:
                self._need_sizes(token)
                self.scanner.offset = token.offset
                if self._plain_entries(token.text):
                    continue
            self.scanner.next()
            statements[token.text]()
        return self._finish()

    # Preamble

    def _discount(self) -> None:
        self.scanner.expect(":", "':' after discount")
        token = self.scanner.peek()
        self.gamma = self.scanner.number("a discount in [0, 1]")
        if not 0.0 <= self.gamma <= 1.0:
            raise self.scanner.error(token, "a discount in [0, 1]")

    def _values(self) -> None:
        self.scanner.expect(":", "':' after values")
        token = self.scanner.next()
        if token.text not in ("reward", "cost"):
            raise self.scanner.error(token, "'reward' or 'cost'")
        self.sign = 1.0 if token.text == "reward" else -1.0

    def _declare(self, kind: str) -> None:
        colon = self.scanner.expect(":", f"':' after {kind}")
        if kind in self.names:
            raise self.scanner.error_at(colon.offset, f"{kind} are declared a second time")
        first = self.scanner.peek()
        if first.text.isdecimal():
            self.scanner.next()
            if int(first.text) < 1:
                raise self.scanner.error(first, f"at least 1 of the {kind}")
            self.names[kind] = _Names(kind, [f"{kind[0]}{i}" for i in range(int(first.text))])
            return
        names = [token.text for token in self._name_list(kind)]
        if not names:
            raise self.scanner.error(first, f"the number of {kind}, or their names")
        self.names[kind] = _Names(kind, names)

    def _name_list(self, kind: str) -> list[Token]:
        """Names up to the head of the next statement."""
        tokens: dict[str, Token] = {}
        while self.scanner.peek().text not in (":", END) and not self._at_statement():
            token = self.scanner.next()
            if token.text in tokens:
                raise self.scanner.error(token, f"{kind} that differ")
            if token.is_number or token.text == "*":
                raise self.scanner.error(token, f"the name of one of the {kind}")
            tokens[token.text] = token
        return list(tokens.values())

    def _at_statement(self) -> bool:
        if self.scanner.word_before_colon():
            return True
        here = self.scanner.offset
        first, second = self.scanner.next().text, self.scanner.next().text
        self.scanner.offset = here
        return first == "start" and second in ("include", "exclude")

    def _need_sizes(self, token: Token) -> None:
        if self.open_tables:
            return
        for kind in ("states", "actions", "observations"):
            if kind not in self.names:
                raise self.scanner.error(token, f"'{kind}:' first")
        n_states, n_actions, n_observations = (
            len(self.names[kind]) for kind in ("states", "actions", "observations")
        )
        self.T = Writes((n_actions, n_states, n_states))
        self.O = Writes((n_actions, n_states, n_observations))
        self.R = Writes((n_actions, n_states, n_states, n_observations))
        self.open_tables = True

    def _start(self) -> None:
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
        self._check_probabilities(p0, first.offset)
        if abs(p0.sum() - 1.0) > ROW_SUM_TOLERANCE:
            message = f"the start probabilities sum to {p0.sum():.6g}, expected 1"
            raise self.scanner.error_at(first.offset, message)
        return _normalised(p0)

    # Entries

    def _plain_entries(self, keyword: str) -> bool:
        """Read as many plain one-entry statements as follow; whether there were any.

        Anything unusual, also anything wrong, is left to the general way, which can explain it.
        """
        table, kinds = self._table(keyword)
        pattern, text = _ENTRY[keyword], self.scanner.text
        indices = [self.names[kind].index for kind in kinds]
        first = self.scanner.offset
        while match := pattern.match(text, self.scanner.offset):
            *names, value = match.groups()
            index = [known.get(name) for known, name in zip(indices, names, strict=True)]
            number = float(value)
            if None in index or (keyword != "R" and not 0.0 <= number <= 1.0):
                break
            table.assign(index, number, match.start(1))  # type: ignore[arg-type]
            self.scanner.offset = match.end()
        return self.scanner.offset > first

    def _table(self, keyword: str) -> tuple[Writes, tuple[str, ...]]:
        if keyword == "T":
            return self.T, ("actions", "states", "states")
        if keyword == "O":
            return self.O, ("actions", "states", "observations")
        return self.R, ("actions", "states", "states", "observations")

    def _index(self, kind: str) -> int | slice:
        index = self._named(kind)
        return slice(None) if index == ANY else index

    def _named(self, kind: str) -> int:
        token = self.scanner.next()
        names = self.names[kind]
        if token.text not in names.index:
            raise self.scanner.error(token, names.describe())
        return names.index[token.text]

    def _selectors(self, keyword: str, least: int) -> list[int]:
        """`: a : s ...`, as far as the colons go."""
        _, kinds = self._table(keyword)
        selectors: list[int] = []
        for kind in kinds:
            if len(selectors) >= least and self.scanner.peek().text != ":":
                break
            self.scanner.expect(":", f"':' and then {self.names[kind].describe()}")
            selectors.append(self._named(kind))
        return selectors

    def _transition(self) -> None:
        selectors = self._selectors("T", least=1)
        token = self.scanner.peek()
        if token.text == "reset" and len(selectors) < 3:
            self.scanner.next()
            # A placeholder row keeps the order; the start is known only at the end of the text.
            action, state = (*selectors, ANY)[:2]
            self.T.assign((action, state, ANY), np.nan, token.offset)
            return
        self._probabilities(self.T, selectors, "transition")

    def _observation(self) -> None:
        self._probabilities(self.O, self._selectors("O", least=1), "observation")

    def _probabilities(self, table: Writes, selectors: list[int], what: str) -> None:
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
            block = self.scanner.numbers(int(np.prod(shape)), f"{what} probabilities")
            self._check_probabilities(block, token.offset)
            if shape:
                table.assign_block(selectors, block.reshape(shape), token.offset)
            else:
                table.assign(selectors, float(block[0]), token.offset)

    def _check_probabilities(self, values: np.ndarray, offset: int) -> None:
        bad = (values < 0.0) | (values > 1.0 + ROW_SUM_TOLERANCE)
        if bad.any():
            index = int(np.argmax(bad))
            where = self.scanner.offset_of_number(offset, index)
            got = self.scanner.text[where:].split(None, 1)[0]
            message = f"got {got!r}, expected a probability between 0 and 1"
            raise self.scanner.error_at(where, message)

    def _reward(self) -> None:
        selectors = self._selectors("R", least=2)
        shape = self.R.shape[len(selectors) :]
        token = self.scanner.peek()
        block = self.scanner.numbers(int(np.prod(shape)), "rewards")
        if shape:
            self.R.assign_block(selectors, block.reshape(shape), token.offset)
        else:
            self.R.assign(selectors, float(block[0]), token.offset)

    # The end of the text

    def _finish(self) -> ActionPomdp:
        end = self.scanner.peek()
        self._need_sizes(end)
        if self.gamma is None:
            raise self.scanner.error(end, "'discount:'")
        states, actions, observations = (
            self.names[kind].names for kind in ("states", "actions", "observations")
        )
        p0 = np.full(len(states), 1.0 / len(states)) if self.p0 is None else self.p0
        T = self.T.dense()
        is_reset = np.isnan(T)
        T = np.where(is_reset, p0, T) if is_reset.any() else T
        T = self._checked_rows("T", self.T, T, actions, states, "in state")
        O = self._checked_rows("O", self.O, self.O.dense(), actions, states, "leading to state")  # noqa: E741
        R = self.sign * expected_reward(self.R, T, O)
        return ActionPomdp(T, R, O, p0, self.gamma, states, actions, observations)

    def _checked_rows(
        self,
        table: str,
        writes: Writes,
        rows: np.ndarray,
        actions: Sequence[str],
        states: Sequence[str],
        relation: str,
    ) -> np.ndarray:
        """Rows that sum to 1, or the error that names the first that does not."""
        sums = rows.sum(axis=2)
        bad = np.argwhere(np.abs(sums - 1.0) > ROW_SUM_TOLERANCE)
        if len(bad):
            a, s = (int(i) for i in bad[0])
            row = f"{table} of action {actions[a]!r} {relation} {states[s]!r}"
            written = writes.last_write((a, s))
            if written is None:
                end = len(self.scanner.text.rstrip())
                raise self.scanner.error_at(end, f"{row} is never given, expected a row")
            start, row_in_matrix = written
            offset = self.scanner.offset_of_number(start, row_in_matrix * rows.shape[2])
            raise self.scanner.error_at(offset, f"{row} sums to {sums[a, s]:.6g}, expected 1")
        return _normalised(rows)


def expected_reward(
    R: Writes,
    T: Float[np.ndarray, "A S S"],
    O: Float[np.ndarray, "A S O"],  # noqa: E741
) -> Float[np.ndarray, "S A"]:
    """R[s, a] = Σ_s' T[a, s, s'] Σ_o O[a, s', o] R[a, s, s', o], cell by possible cell."""
    n_actions, n_states, n_observations = O.shape
    a, s = np.meshgrid(np.arange(n_actions), np.arange(n_states))
    if not R.names_axis(2) and not R.names_axis(3):
        return R.at(a, s)
    seen_matters = R.names_axis(3)
    result = np.zeros((n_states, n_actions))
    for action in range(n_actions):
        froms, tos = np.nonzero(T[action])
        step = max(1, CELLS_AT_ONCE // (n_observations if seen_matters else 1))
        for start in range(0, len(froms), step):
            s, t = froms[start : start + step], tos[start : start + step]
            if seen_matters:
                o = np.arange(n_observations)
                paid = R.at(np.array(action), s[:, None], t[:, None], o[None, :])
                paid = (paid * O[action, t]).sum(axis=1)
            else:
                paid = R.at(np.array(action), s, t)
            weighted = T[action, s, t] * paid
            result[:, action] += np.bincount(s, weighted, minlength=n_states)
    return result


def _normalised(rows: np.ndarray) -> np.ndarray:
    sums = rows.sum(axis=-1, keepdims=True)
    return np.where(np.abs(sums - 1.0) > EXACT_ENOUGH, rows / sums, rows)


def _expected(shape: tuple[int, ...], what: str) -> str:
    if not shape:
        return f"a {what} probability"
    if len(shape) == 1:
        words = "'uniform' or 'reset'" if what == "transition" else "'uniform'"
        return f"{shape[0]} {what} probabilities, or {words}"
    words = "'uniform', 'identity' or 'reset'" if what == "transition" else "'uniform'"
    return f"{shape[0]} rows of {shape[1]} {what} probabilities, or {words}"

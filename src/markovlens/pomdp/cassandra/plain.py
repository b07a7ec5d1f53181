"""The fast way through the bulk of a large file: statements for one entry on plain lines."""

import re
from collections.abc import Sequence

import numpy as np

from markovlens.pomdp.cassandra.scanner import Scanner
from markovlens.pomdp.cassandra.symbols import Symbols
from markovlens.pomdp.cassandra.tables import is_probability
from markovlens.pomdp.cassandra.writes import Writes

ENTRIES_AT_ONCE = 1 << 16
_UNKNOWN = -2

# Such as `T: go : s1 : s2 0.5`, with comments before and after but not inside.
_ENTRY = {
    keyword: re.compile(
        rf"(?:\s++|#[^\n]*+)*+{keyword}\s*+:"
        + r"\s*+([^\s:#]++)\s*+:" * (n - 1)
        + r"\s*+([^\s:#]++)"
        r"\s++([+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?+)(?=[\s#]|\Z)"
    )
    for keyword, n in (("T", 3), ("O", 3), ("R", 4))
}


def read_plain_entries(
    scanner: Scanner, keyword: str, symbols: Sequence[Symbols], table: Writes
) -> bool:
    """Assign as many plain one-entry statements of this keyword as follow; whether any did.

    Anything unusual, also anything wrong, is left to the general way, which can explain it.
    """
    match_entry, text, offset = _ENTRY[keyword].match, scanner.text, scanner.offset
    matches: list[re.Match[str]] = []
    while len(matches) < ENTRIES_AT_ONCE and (match := match_entry(text, offset)):
        matches.append(match)
        offset = match.end()
    if not matches:
        return False
    *columns, numbers = zip(*(match.groups() for match in matches), strict=True)
    index = np.array(
        [
            [known.index.get(name, _UNKNOWN) for name in column]
            for known, column in zip(symbols, columns, strict=True)
        ]
    )
    values = np.array(numbers, dtype=np.float64)
    unusual = (index == _UNKNOWN).any(axis=0)
    if keyword != "R":
        unusual |= ~is_probability(values)
    usual = int(np.argmax(unusual)) if unusual.any() else len(matches)
    if usual:
        offsets = np.array([match.start(1) for match in matches[:usual]])
        table.assign_many(index[:, :usual], values[:usual], offsets)
        scanner.offset = matches[usual - 1].end()
    return usual > 0

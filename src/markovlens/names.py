"""Looking things up by name, with a suggestion when the name is nearly right."""

import difflib
from collections.abc import Iterable


def unknown_name(kind: str, got: str, known: Iterable[str]) -> ValueError:
    """The error for a name that is not known: says what was got, the nearest, and all there are."""
    known = sorted(known)
    near = difflib.get_close_matches(got, known, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return ValueError(f"unknown {kind} {got!r}{hint} (known: {', '.join(known)})")

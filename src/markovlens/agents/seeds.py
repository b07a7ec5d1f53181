"""Seeds as people write them."""

import re


def parse_seeds(text: str) -> tuple[int, ...]:
    """Single seeds and ranges with both ends, parted by commas.

    >>> parse_seeds("0..3, 7")
    (0, 1, 2, 3, 7)
    """
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\s*\.\.\s*(\d+))?\s*", part)
        if not match:
            raise ValueError(f"seeds are whole numbers like 3, 0..4 or 0,2,7; got {text!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"seeds {part.strip()!r} run backwards; write {last}..{first}")
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"the same seed twice in {text!r}")
    return tuple(seeds)

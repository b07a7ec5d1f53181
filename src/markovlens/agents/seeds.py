"""Seeds as people write them."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

END = 2**32  # JAX makes the same key of a seed beyond and of what is left of it


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


def check_seed(seed: Any) -> int:
    """The seed as a plain number, or an error.

    >>> check_seed(3)
    3
    """
    if not isinstance(seed, int | np.integer) or not 0 <= seed < END:
        raise ValueError(f"a seed must be a whole number from 0 to {END - 1}, got {seed!r}")
    return int(seed)


def check_seeds(seeds: Any) -> list[int]:
    """Several seeds as plain numbers, or an error.

    >>> check_seeds(range(2))
    [0, 1]
    """
    if isinstance(seeds, str) or not isinstance(seeds, Iterable):
        raise ValueError(
            f"seeds must be a list of whole numbers, like [0, 1, 2] or range(3), got {seeds!r}"
        )
    return [check_seed(seed) for seed in seeds]

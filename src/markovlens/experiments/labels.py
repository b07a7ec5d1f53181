"""What tasks and agents are called, and their colours, wherever results are shown."""

import re

from markovlens.experiments.pictures import BLUE, GREEN, ORANGE, PINK, RED, SKY

AGENT_LABELS = {
    "ld": "λ-discrepancy (LD)",
    "rnn": "recurrent (RNN)",
    "memoryless": "memoryless",
    "perfect": "sees the full state",
}

# Grey is the one that is no rival; it must be seen on white and on black.
AGENT_COLOURS = {"ld": RED, "rnn": BLUE, "memoryless": "#8a8a8a", "perfect": GREEN}
MORE_COLOURS = (PINK, ORANGE, SKY)


def agent_label(name: str) -> str:
    return AGENT_LABELS.get(name, name)


def agent_colours(names: list[str]) -> dict[str, str]:
    """A colour for each agent: the known ones have their own, others get what is left."""
    others = [name for name in names if name not in AGENT_COLOURS]
    spare = {name: MORE_COLOURS[i % len(MORE_COLOURS)] for i, name in enumerate(others)}
    return {name: AGENT_COLOURS.get(name) or spare[name] for name in names}


def task_label(name: str) -> str:
    """An environment's name for people.

    >>> task_label("rocksample-11-11"), task_label("tmaze-5"), task_label("cheese-episodic")
    ('RockSample (11, 11)', 'T-maze (5)', 'Cheese')
    """
    family, *numbers = re.split(r"-(?=\d)", name.removesuffix("-episodic"))
    known = {
        "rocksample": "RockSample",
        "battleship": "Battleship",
        "pocman": "PocMan",
        "tmaze": "T-maze",
        "maze4x3": "4×3 maze",
    }
    label = known.get(family, family.replace("_", " ").capitalize())
    return f"{label} ({', '.join(numbers)})" if numbers else label


def in_order(names: list[str]) -> list[str]:
    """Agents as they are always listed: the known ones first, in the paper's order."""
    known = list(AGENT_LABELS)
    return sorted(names, key=lambda n: (known.index(n) if n in known else len(known), n))

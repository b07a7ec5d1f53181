"""A learned memory as a picture: a circle for each memory state, arrows for what changes it."""

from collections import defaultdict
from pathlib import Path

import numpy as np

from markovlens.experiments.pictures import BLACK, BLUE, ORANGE, paper_style
from markovlens.files import atomic_open
from markovlens.memory.describe import Move, moves
from markovlens.memory.learned import LearnedMemory
from markovlens.pomdp.model import Pomdp

# Arrows that are followed less often than this share of the time, and labels beyond this many,
# would hide the others.
FAINT = 0.002
BEND = 0.25  # of an arrow, as a share of its length
MOST_LABELS = 4


def draw_automaton(pomdp: Pomdp, learned: LearnedMemory, path: Path, title: str = "") -> Path:
    """Draw memory states and the observations and actions that lead from one to another.

    An arrow's width grows with how often it is followed; its label names the most frequent
    reasons, `observation / action`.
    """
    from matplotlib.figure import Figure

    reasons = _reasons([move for move in moves(pomdp, learned) if move.share >= FAINT])
    n_memory = learned.n_memory
    angles = np.pi - 2.0 * np.pi * np.arange(n_memory) / n_memory
    places = 2.4 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    with paper_style():
        figure = Figure(figsize=(7.2, 5.6 if n_memory > 2 else 2.6), layout="constrained")
        panel = figure.add_subplot()
        for (here, there), found in reasons.items():
            _arrow(panel, places, here, there, found)
        for m, (x, y) in enumerate(places):
            panel.scatter(x, y, s=900, color="white", edgecolor=BLACK, lw=2 if m == 0 else 1)
            panel.text(x, y, str(m), ha="center", va="center", fontsize=13, zorder=5)
        margin = 1.6 if n_memory > 2 else 1.3
        panel.set(xlim=(-5.2, 5.2), ylim=(-2.4 * (n_memory > 2) - margin, None), aspect="equal")
        panel.set_ylim(panel.get_ylim()[0], -panel.get_ylim()[0])
        panel.axis("off")
        panel.set_title(title or "memory starts in state 0")
        with atomic_open(path) as file:
            figure.savefig(file, format=path.suffix.lstrip(".") or "png")
    return path


def _reasons(found: list[Move]) -> dict[tuple[int, int], list[Move]]:
    arrows = defaultdict(list)
    for move in found:
        arrows[move.memory, move.then].append(move)
    return {key: sorted(value, key=lambda m: -m.share) for key, value in arrows.items()}


def _label(found: list[Move]) -> str:
    lines = [f"{move.observation} / {move.action}" for move in found[:MOST_LABELS]]
    return "\n".join([*lines, "…"] if len(found) > MOST_LABELS else lines)


def _arrow(panel, places: np.ndarray, here: int, there: int, found: list[Move]) -> None:  # type: ignore[no-untyped-def]
    from matplotlib.patches import FancyArrowPatch

    width = 0.8 + 4.0 * sum(move.share for move in found)
    start, end = places[here], places[there]
    behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}
    text = {"fontsize": 7.5, "ha": "center", "va": "center", "zorder": 6, "bbox": behind}
    if here == there:
        outward = start / np.linalg.norm(start)
        aside = np.array([-outward[1], outward[0]])
        loop = [start + 0.33 * aside, start - 0.33 * aside]
        panel.add_patch(
            FancyArrowPatch(
                *loop,
                connectionstyle="arc3,rad=-1.9",
                arrowstyle="-|>",
                mutation_scale=12,
                lw=width,
                color=BLUE,
                shrinkA=9,
                shrinkB=9,
            )
        )
        panel.text(*(start + np.array([1.75, 1.25]) * outward), _label(found), color=BLUE, **text)
        return
    panel.add_patch(
        FancyArrowPatch(
            start,
            end,
            connectionstyle=f"arc3,rad={-BEND}",
            arrowstyle="-|>",
            mutation_scale=12,
            lw=width,
            color=ORANGE,
            shrinkA=17,
            shrinkB=17,
        )
    )
    across = end - start
    control = (start + end) / 2.0 + BEND * np.array([-across[1], across[0]])
    t = 0.38  # nearer to where it starts, so that the label of the way back is somewhere else
    on_it = (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end
    panel.text(*on_it, _label(found), color="#8a5a00", **text)

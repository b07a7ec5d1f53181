"""What it takes to draw a game."""

import abc
from typing import Any, ClassVar

import numpy as np

from markovlens.envs.env import Env
from markovlens.envs.render.canvas import Canvas, Colour

INK, FAINT, PAPER = "#e8eaf0", "#8a90a0", "#14161d"
LIT, UNLIT = "#ffd54a", "#2b2f3b"
PANEL_WIDTH, PANEL_HEIGHT = 236, 230


class Artist(abc.ABC):
    """Draws the states, observations and actions of one environment.

    Pictures are for frames, texts for the terminal. `senses` draws on a panel
    of `PANEL_WIDTH` × `PANEL_HEIGHT`.
    """

    width: int
    height: int
    background: ClassVar[Colour] = PAPER

    @abc.abstractmethod
    def draw(self, canvas: Canvas, state: Any, action: int | None) -> None:
        """The state, and what the last action did, on `width` × `height`."""

    @abc.abstractmethod
    def senses(self, canvas: Canvas, observation: np.ndarray) -> None:
        """What the agent sees."""

    @abc.abstractmethod
    def text(self, state: Any, action: int | None) -> list[str]:
        """The state as lines of text."""

    @abc.abstractmethod
    def words(self, observation: np.ndarray) -> str:
        """What the agent sees, in a line."""

    @abc.abstractmethod
    def action_name(self, action: int) -> str: ...


def bit_strip(canvas: Canvas, bits: np.ndarray, top: float, per_row: int = 8) -> float:
    """Lamps, numbered and lit where a bit is set; returns where the strip ends."""
    pitch = PANEL_WIDTH / per_row
    radius = min(pitch * 0.36, 11)
    for i, bit in enumerate(bits):
        row, column = divmod(i, per_row)
        centre = ((column + 0.5) * pitch, top + (row + 0.5) * pitch)
        canvas.circle(centre, radius, LIT if bit else UNLIT, outline=FAINT, width=1)
        canvas.text(centre, str(i), "#14161d" if bit else FAINT, radius * 0.95, "mm")
    return top + pitch * -(-len(bits) // per_row)


class PlainArtist(Artist):
    """For environments nobody has drawn: the observation's numbers, as bars and lamps."""

    width, height = 380, 380

    def __init__(self, env: Env):
        self._env = env

    def draw(self, canvas: Canvas, state: Any, action: int | None) -> None:
        name = type(self._env).__name__
        canvas.text((self.width / 2, self.height / 2), name, INK, 22, "mm")

    def senses(self, canvas: Canvas, observation: np.ndarray) -> None:
        values = np.atleast_1d(observation).reshape(-1)
        if values.dtype.kind == "i":
            canvas.text((PANEL_WIDTH / 2, 60), str(values[0]), INK, 44, "mm")
        elif np.isin(values, (0, 1)).all() and values.size <= 64:
            bit_strip(canvas, values, 6)
        else:
            shown = values[:12]
            for i, value in enumerate(shown):
                y = 12 + 18 * i
                canvas.text((0, y), f"{i}", FAINT, 12)
                length = float(np.tanh(value)) * 70
                canvas.line([(100, y), (100 + length, y)], LIT, 8)
                canvas.text((180, y), f"{value:.3g}", INK, 12)

    def text(self, state: Any, action: int | None) -> list[str]:
        return []

    def words(self, observation: np.ndarray) -> str:
        return np.array2string(np.asarray(observation), precision=3, threshold=16)

    def action_name(self, action: int) -> str:
        return str(action)

"""Battleship on a sea chart."""

from typing import Any

import numpy as np

from markovlens.envs.battleship import Battleship, BattleshipState
from markovlens.envs.render.artist import FAINT, INK, PANEL_WIDTH, Artist
from markovlens.envs.render.canvas import Canvas, Point

CELL, MARGIN = 38, 26
SEA, GRID, HULL, DECK = "#0d3b5c", "#1d5680", "#7d8794", "#a9b2bd"
MISS, FIRE, FLAME = "#cfe8f7", "#ff4a2f", "#ffc13b"


class BattleshipArtist(Artist):
    background = "#0a2c45"

    def __init__(self, env: Battleship):
        self._env = env
        self.width, self.height = MARGIN + env.columns * CELL + 8, MARGIN + env.rows * CELL + 8

    def draw(self, canvas: Canvas, state: BattleshipState, action: int | None) -> None:
        rows, columns = self._env.rows, self._env.columns
        ships, shots = self._boards(state)
        canvas.rectangle((MARGIN, MARGIN), (columns * CELL, rows * CELL), SEA)
        for i in range(rows + 1):
            y = MARGIN + i * CELL
            canvas.line([(MARGIN, y), (MARGIN + columns * CELL, y)], GRID)
        for j in range(columns + 1):
            x = MARGIN + j * CELL
            canvas.line([(x, MARGIN), (x, MARGIN + rows * CELL)], GRID)
        for i in range(rows):
            canvas.text((MARGIN / 2, MARGIN + (i + 0.5) * CELL), str(i + 1), FAINT, 13, "mm")
        for j in range(columns):
            canvas.text((MARGIN + (j + 0.5) * CELL, MARGIN / 2), _letter(j), FAINT, 13, "mm")
        for colour, thickness in ((HULL, 0.66), (DECK, 0.36)):
            for r, c in np.argwhere(ships):
                canvas.circle(_middle(r, c), thickness * CELL / 2, colour)
                for dr, dc in ((0, 1), (1, 0)):
                    if r + dr < rows and c + dc < columns and ships[r + dr, c + dc]:
                        ends = [_middle(r, c), _middle(r + dr, c + dc)]
                        canvas.line(ends, colour, thickness * CELL)
        for r, c in np.argwhere(shots):
            (_burst if ships[r, c] else _splash)(canvas, _middle(r, c))
        if action is not None:
            r, c = divmod(action, columns)
            corner = (MARGIN + c * CELL + 1.5, MARGIN + r * CELL + 1.5)
            canvas.rectangle(corner, (CELL - 3, CELL - 3), radius=5, outline="#ffe66b", width=2.5)

    def _boards(self, state: BattleshipState) -> tuple[np.ndarray, np.ndarray]:
        both = np.asarray(self._env.full_observation(state)) > 0
        shape = (2, self._env.rows, self._env.columns)
        ships, shots = both.reshape(shape)
        return ships, shots

    def senses(self, canvas: Canvas, observation: np.ndarray) -> None:
        hit = bool(np.asarray(observation).reshape(-1)[0] > 0)
        centre = (PANEL_WIDTH / 2, 80.0)
        canvas.circle(centre, 52, "#3a1512" if hit else "#123247", outline=FAINT, width=1.5)
        (_burst if hit else _splash)(canvas, centre, 2.6)
        canvas.text((PANEL_WIDTH / 2, 158), "hit" if hit else "no hit", INK, 22, "mm")
        canvas.text((PANEL_WIDTH / 2, 184), "one bit, nothing more", FAINT, 12, "mm")

    def text(self, state: BattleshipState, action: int | None) -> list[str]:
        ships, shots = self._boards(state)
        marks = np.array([["·", "o"], ["■", "✶"]])[ships.astype(int), shots.astype(int)]
        head = "   " + " ".join(_letter(j) for j in range(self._env.columns))
        return [head, *(f"{i + 1:2} " + " ".join(row) for i, row in enumerate(marks))]

    def words(self, observation: np.ndarray) -> str:
        return "hit" if np.asarray(observation).reshape(-1)[0] > 0 else "no hit"

    def action_name(self, action: int) -> str:
        row, column = divmod(action, self._env.columns)
        return f"fire at {_letter(column)}{row + 1}"


def _letter(column: int) -> str:
    return (_letter(column // 26 - 1) if column >= 26 else "") + chr(ord("A") + column % 26)


def _middle(row: Any, column: Any) -> Point:
    return MARGIN + (float(column) + 0.5) * CELL, MARGIN + (float(row) + 0.5) * CELL


def _burst(canvas: Canvas, centre: Point, scale: float = 1.0) -> None:
    for radius, colour in ((13.0, FIRE), (7.5, FLAME)):
        angles = np.linspace(0, 2 * np.pi, 17)[:-1]
        lengths = np.where(np.arange(16) % 2 == 0, radius, radius * 0.55) * scale
        x, y = centre[0] + lengths * np.cos(angles), centre[1] + lengths * np.sin(angles)
        canvas.polygon([(float(a), float(b)) for a, b in zip(x, y, strict=True)], colour)


def _splash(canvas: Canvas, centre: Point, scale: float = 1.0) -> None:
    canvas.circle(centre, 7.5 * scale, None, outline=MISS, width=1.6 * scale)
    canvas.circle(centre, 2.4 * scale, MISS)

"""RockSample: a rover on sand."""

from typing import Any

import numpy as np

from markovlens.envs.render.artist import FAINT, INK, PANEL_WIDTH, Artist, bit_strip
from markovlens.envs.render.canvas import Canvas, Point
from markovlens.envs.rocksample import CHECK, SAMPLE, RockSample, RockSampleState

SAND, LINES, EXIT = "#c98d5a", "#b67c4c", "#4f9d69"
ROCK, SHADE, GOOD, BAD = "#6e645c", "#4d4640", "#3ef08a", "#ff5a4f"
BODY, SOLAR, WHEEL = "#f1f3f6", "#274b8f", "#23262d"
NAMES = ("north", "east", "south", "west", "sample")


class RockSampleArtist(Artist):
    background = SAND

    def __init__(self, env: RockSample):
        self._env = env
        self._cell = max(20, min(48, 440 // env.size))
        self.width = self.height = env.size * self._cell
        self._rocks = np.asarray(env.rock_cells)

    def draw(self, canvas: Canvas, state: RockSampleState, action: int | None) -> None:
        size, cell = self._env.size, self._cell
        edge = (size - 1) * cell
        canvas.rectangle((edge, 0), (cell, self.height), EXIT)
        for i in range(1, size):
            canvas.line([(i * cell, 0), (i * cell, self.height)], LINES)
            canvas.line([(0, i * cell), (edge, i * cell)], LINES)
        for row in range(size):
            x, y = edge + cell / 2, (row + 0.5) * cell
            canvas.arrow((x - cell * 0.25, y), (x + cell * 0.28, y), "#dff5e4", 2)
        good, shown = self._rock_bits(state)
        rover = self._middle(int(state.row), int(state.column))
        if action is not None and action >= CHECK:
            self._beam(canvas, rover, self._middle(*self._rocks[action - CHECK]))
        for i, (row, column) in enumerate(self._rocks):
            self._rock(canvas, self._middle(row, column), i, good[i], shown[i])
        self._rover(canvas, rover)

    def _rock_bits(self, state: RockSampleState) -> tuple[np.ndarray, np.ndarray]:
        k = self._env.n_rocks
        full = np.asarray(self._env.full_observation(state)) > 0
        return full[-k:] if k else full[:0], full[2 * self._env.size :][:k]

    def _middle(self, row: Any, column: Any) -> Point:
        return (float(column) + 0.5) * self._cell, (float(row) + 0.5) * self._cell

    def _rock(self, canvas: Canvas, centre: Point, i: int, good: bool, shown: bool) -> None:
        (x, y), r = centre, self._cell * 0.36
        outline = [(-1, 0.35), (-0.75, -0.5), (-0.1, -0.85), (0.6, -0.6), (1, 0.1), (0.7, 0.75),
                   (-0.55, 0.8)]  # fmt: skip
        canvas.polygon([(x + a * r, y + b * r) for a, b in outline], SHADE)
        canvas.polygon([(x + a * r * 0.86, y + (b - 0.1) * r * 0.86) for a, b in outline], ROCK)
        canvas.circle((x, y), r * 0.46, GOOD if good else BAD)
        canvas.text((x, y), str(i), "#14161d", r * 0.62, "mm")
        if shown:
            canvas.circle((x, y), r * 1.12, None, outline="#fff3a8", width=2)

    def _rover(self, canvas: Canvas, centre: Point) -> None:
        (x, y), r = centre, self._cell * 0.34
        for side in (-1, 1):
            for along in (-0.8, 0, 0.8):
                corner = (x + along * r - r * 0.22, y + side * r * 0.82 - r * 0.2)
                canvas.rectangle(corner, (r * 0.44, r * 0.4), WHEEL, radius=2)
        canvas.rectangle((x - r, y - r * 0.6), (2 * r, 1.2 * r), BODY, radius=3)
        canvas.rectangle((x - r * 0.8, y - r * 0.42), (r * 0.9, r * 0.84), SOLAR, radius=1)
        canvas.circle((x + r * 0.55, y), r * 0.26, "#ff8a3d")

    def _beam(self, canvas: Canvas, start: Point, end: Point) -> None:
        steps = np.linspace(start, end, 25)
        for a, b in zip(steps[:-1:2], steps[1::2], strict=True):
            canvas.line([tuple(a), tuple(b)], "#fff3a8", 2)

    def senses(self, canvas: Canvas, observation: np.ndarray) -> None:
        size, bits = self._env.size, np.asarray(observation) > 0
        pitch = PANEL_WIDTH / (size + 3)
        row, column = bits[:size], bits[size : 2 * size]
        for name, one_hot, y in (("row", row, 12), ("column", column, 34)):
            canvas.text((0, y), name, FAINT, 11)
            for i, bit in enumerate(one_hot):
                x = 3 * pitch + i * pitch
                corner = (x + 1, y - pitch * 0.4)
                canvas.rectangle(corner, (pitch - 2, pitch * 0.8), BODY if bit else "#2b2f3b")
        canvas.text((0, 66), "rocks that read good", INK, 13)
        bit_strip(canvas, bits[2 * size :], 80, per_row=6)

    def text(self, state: RockSampleState, action: int | None) -> list[str]:
        size = self._env.size
        grid = [["·"] * (size - 1) + ["»"] for _ in range(size)]
        good, _ = self._rock_bits(state)
        for (row, column), is_good in zip(self._rocks, good, strict=True):
            grid[row][column] = "◆" if is_good else "◇"
        grid[int(state.row)][int(state.column)] = "R"
        return [" ".join(row) for row in grid]

    def words(self, observation: np.ndarray) -> str:
        size, bits = self._env.size, np.asarray(observation) > 0
        place = f"row {bits[:size].argmax()}, column {bits[size : 2 * size].argmax()}"
        rocks = " ".join(str(i) for i in np.flatnonzero(bits[2 * size :])) or "none"
        return f"{place}, rocks that read good: {rocks}"

    def action_name(self, action: int) -> str:
        return NAMES[action] if action <= SAMPLE else f"check rock {action - CHECK}"

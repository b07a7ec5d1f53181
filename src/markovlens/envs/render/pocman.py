"""PocMan as the arcade had it."""

from typing import Any

import numpy as np

from markovlens.envs import bits
from markovlens.envs.pocman import PocMan, PocManState
from markovlens.envs.pocman_maze import MOVES
from markovlens.envs.render.artist import FAINT, INK, LIT, PANEL_WIDTH, UNLIT, Artist
from markovlens.envs.render.canvas import Canvas, Colour, Point

CELL = 22
WALL, FLOOR, FOOD, POCMAN = "#2f4bff", "#05060c", "#ffd9b0", "#ffe13a"
GHOSTS = {1: "#ff3b30", 2: "#ffa5d8", 3: "#33e0ff", 4: "#ffb03a"}
FRIGHTENED, ENDING = "#2438ff", "#f4f4ff"
FLASHES_FOR = 8
NAMES = ("up", "right", "down", "left")
ARROWS = "↑→↓←"


class PocManArtist(Artist):
    background = FLOOR

    def __init__(self, env: PocMan):
        self._env, self._maze = env, env.maze
        self.width, self.height = self._maze.width * CELL, self._maze.height * CELL
        self._free = {(int(r), int(c)) for r, c in self._maze.position}

    def draw(self, canvas: Canvas, state: PocManState, action: int | None) -> None:
        self._draw_walls(canvas)
        for (row, column), pill in self._food(state):
            canvas.circle(_middle(row, column), 6 if pill else 2.2, FOOD)
        time, power = int(state.time), int(state.power)
        flashes = power <= FLASHES_FOR and power % 2 == 0
        scared = (ENDING if flashes else FRIGHTENED) if power else None
        poses = [int(pose) for pose in state.ghosts]
        cells = [pose >> 3 for pose in poses]
        for i, (number, pose) in enumerate(zip(self._maze.ghost_numbers, poses, strict=True)):
            # Ghosts in one cell stand side by side, so that each is seen.
            aside = cells[:i].count(cells[i]) - (cells.count(cells[i]) - 1) / 2
            x, y = self._place(pose)
            _ghost(canvas, (x + 7 * aside, y), GHOSTS[number], pose & 7, scared)
        _pocman(canvas, self._place(state.agent), int(state.agent) & 7, time)

    def _draw_walls(self, canvas: Canvas) -> None:
        """Two passes over thick lines between wall cells leave only their outline."""
        height, width = self._maze.height, self._maze.width
        walls = {(r, c) for r in range(height) for c in range(width)} - self._free
        for thickness, colour in ((0.62, WALL), (0.62 - 4 / CELL, FLOOR)):
            for r, c in walls:
                canvas.circle(_middle(r, c), thickness * CELL / 2, colour)
                for dr, dc in ((0, 1), (1, 0)):
                    if (r + dr, c + dc) in walls:
                        ends = [_middle(r, c), _middle(r + dr, c + dc)]
                        canvas.line(ends, colour, thickness * CELL)
                if {(r + 1, c), (r, c + 1), (r + 1, c + 1)} <= walls:
                    canvas.rectangle(_middle(r, c), (CELL, CELL), colour)

    def _food(self, state: PocManState) -> list[tuple[Point, bool]]:
        cells = np.flatnonzero(np.asarray(bits.unpack(state.food, self._maze.n_cells)))
        return [(tuple(self._maze.position[c]), bool(self._maze.pills[c])) for c in cells]

    def _place(self, pose: Any) -> Point:
        row, column = self._maze.position[int(pose) >> 3]
        return _middle(row, column)

    def senses(self, canvas: Canvas, observation: np.ndarray) -> None:
        on = np.asarray(observation) > 0
        middle, reach = (PANEL_WIDTH / 2, 88.0), 36
        for direction, (down, right) in enumerate(MOVES):
            across = np.array([down, right]) * reach  # along the wall, on screen
            centre = np.array(middle) + np.array([right, down]) * reach
            ends = [tuple(centre - across), tuple(centre + across)]
            wall = on[direction]
            canvas.line(ends, WALL if wall else UNLIT, 5 if wall else 2)
            out = np.array([right, down])
            start, end = np.array(middle) + out * (reach + 8), np.array(middle) + out * (reach + 34)
            seen = on[6 + direction]
            canvas.arrow(tuple(start), tuple(end), GHOSTS[1] if seen else UNLIT, 4)
        _pocman(canvas, middle, 1, 0, 13)
        for i, (label, bit) in enumerate([("food", on[4]), ("ghost", on[5]), ("power", on[10])]):
            x, y = PANEL_WIDTH * (i + 0.5) / 3, 192
            canvas.circle((x, y - 8), 9, LIT if bit else UNLIT, outline=FAINT, width=1)
            canvas.text((x, y + 14), label, INK if bit else FAINT, 12, "mm")

    def text(self, state: PocManState, action: int | None) -> list[str]:
        grid = [["█"] * self._maze.width for _ in range(self._maze.height)]
        for r, c in self._free:
            grid[r][c] = " "
        for place, pill in self._food(state):
            grid[int(place[0])][int(place[1])] = "o" if pill else "·"
        for number, pose in zip(self._maze.ghost_numbers, np.asarray(state.ghosts), strict=True):
            r, c = self._maze.position[pose >> 3]
            grid[r][c] = "w" if int(state.power) else str(number)
        r, c = self._maze.position[int(state.agent) >> 3]
        grid[r][c] = "C"
        return ["".join(row) for row in grid]

    def words(self, observation: np.ndarray) -> str:
        on = np.asarray(observation) > 0
        walls = "".join(a for a, bit in zip(ARROWS, on[:4], strict=True) if bit) or "none"
        sights = "".join(a for a, bit in zip(ARROWS, on[6:10], strict=True) if bit) or "none"
        near = [name for name, bit in (("food", on[4]), ("ghost", on[5])) if bit]
        power = ", power" if on[10] else ""
        return f"walls {walls}, ghosts in sight {sights}, near {' '.join(near) or 'nothing'}{power}"

    def action_name(self, action: int) -> str:
        return NAMES[action]


def _middle(row: float, column: float) -> Point:
    return (float(column) + 0.5) * CELL, (float(row) + 0.5) * CELL


def _pocman(canvas: Canvas, centre: Point, heading: int, time: int, radius: float = 9.5) -> None:
    facing = (270, 0, 90, 180)[heading]
    gape = 38 if time % 2 == 0 else 14
    canvas.pie(centre, radius, facing + gape, facing + 360 - gape, POCMAN)


def _ghost(
    canvas: Canvas, centre: Point, colour: Colour, direction: int, scared: Colour | None
) -> None:
    (x, y), r = centre, 9.0
    body = scared or colour
    canvas.pie((x, y), r, 180, 360, body)
    feet = [(x + r - i * r / 3, y + (r if i % 2 == 0 else r * 0.62)) for i in range(7)]
    canvas.polygon([(x - r, y - 0.4), (x + r, y - 0.4), *feet], body)
    if scared:
        ink = "#ffb8ae" if scared == FRIGHTENED else "#ff3b30"
        for side in (-1, 1):
            canvas.circle((x + side * 3.2, y - 2.2), 1.5, ink)
        mouth = [(x - 5 + i * 2.5, y + (4.6 if i % 2 == 0 else 2.6)) for i in range(5)]
        canvas.line(mouth, ink, 1.2)
        return
    down, right = MOVES[direction] if direction < 4 else (0, 0)
    for side in (-1, 1):
        eye = (x + side * 3.6 + right, y - 2 + down)
        canvas.circle(eye, 2.9, "white")
        canvas.circle((eye[0] + right * 1.3, eye[1] + down * 1.3), 1.5, "#1b2bd0")

"""The T-maze, and any finite POMDP."""

import numpy as np

from markovlens.envs.render.artist import FAINT, INK, LIT, PANEL_WIDTH, UNLIT, Artist
from markovlens.envs.render.canvas import SMALLEST, Canvas, Point, text_width
from markovlens.envs.tabular import Tabular
from markovlens.envs.tmaze import TMaze, TMazeState

FLOOR, GOAL = "#d9dde6", "#4fc36b"
SEEN = (("blue", "#3f7bff"), ("red", "#ff4d4d"), ("corridor", FLOOR), ("junction", "#b9a6ff"),
        ("end", "#14161d"))  # fmt: skip
ACTIONS = ("up", "down", "right", "left")


class TMazeArtist(Artist):
    """The maze from above; a long corridor is drawn with shorter squares."""

    width, height = 460, 380

    def __init__(self, env: TMaze):
        self._env = env
        self._pitch = self.width / (env.corridor + 2)
        self._side = min(self._pitch, 54.0)

    def draw(self, canvas: Canvas, state: TMazeState, action: int | None) -> None:
        junction = self._env.corridor + 1
        up = bool(state.goal_up)
        for position in range(junction + 1):
            colour = SEEN[0 if up else 1][1] if position == 0 else FLOOR
            self._square(canvas, self._place(position, 0), colour)
        for arm in (-1, 1):
            self._square(canvas, self._place(junction, arm), GOAL if (arm < 0) == up else "#6b7080")
        position = int(state.position)
        arm = {0: -1, 1: 1}.get(-1 if action is None else action, 0) if position > junction else 0
        canvas.circle(self._place(min(position, junction), arm), self._side * 0.3, "#ff9f1a")

    def _place(self, position: int, arm: int) -> Point:
        return (position + 0.5) * self._pitch, self.height / 2 + arm * self._side

    def _square(self, canvas: Canvas, centre: Point, colour: str) -> None:
        corner = (centre[0] - self._pitch / 2 + 0.5, centre[1] - self._side / 2 + 0.5)
        size = (self._pitch - 1, self._side - 1)
        canvas.rectangle(corner, size, colour, radius=min(3, self._pitch / 4))

    def senses(self, canvas: Canvas, observation: np.ndarray) -> None:
        name, colour = SEEN[int(observation)]
        middle = PANEL_WIDTH / 2
        canvas.rectangle((middle - 45, 30), (90, 90), colour, radius=8, outline=FAINT, width=1)
        canvas.text((middle, 150), name, INK, 20, "mm")

    def text(self, state: TMazeState, action: int | None) -> list[str]:
        blank = " " * (self._env.corridor + 1)
        line = ["b" if bool(state.goal_up) else "r", *"·" * self._env.corridor, "+"]
        arms = ["G", "·"] if bool(state.goal_up) else ["·", "G"]
        if int(state.position) < len(line):
            line[int(state.position)] = "@"
        elif action is not None:
            arms[action] = "@"
        return [blank + arms[0], "".join(line), blank + arms[1]]

    def words(self, observation: np.ndarray) -> str:
        return SEEN[int(observation)][0]

    def action_name(self, action: int) -> str:
        return ACTIONS[action]


RING = 175.0  # its radius


class TabularArtist(Artist):
    """States on a ring, the present one lit; by number where their names are too long for it."""

    width, height = 420, 420

    def __init__(self, env: Tabular):
        self._env = env
        self._n = env.full_observation_space.n
        self._size = min(24.0, np.pi * RING / self._n * 0.85)
        self._within = 1.7 * self._size
        widest = max(text_width(name, SMALLEST) for name in env.state_names)
        numbers = tuple(str(s) for s in range(self._n))
        self._labels = env.state_names if widest <= self._within else numbers

    def draw(self, canvas: Canvas, state: np.ndarray, action: int | None) -> None:
        size, centre = self._size, (self.width / 2, self.height / 2)
        for s in range(self._n):
            angle = 2 * np.pi * s / self._n - np.pi / 2
            place = (centre[0] + RING * np.cos(angle), centre[1] + RING * np.sin(angle))
            here = s == int(state)
            canvas.circle(place, size, LIT if here else UNLIT, outline=FAINT, width=1)
            if size > 7:
                colour = "#14161d" if here else INK
                canvas.text(place, self._labels[s], colour, size * 0.8, "mm", width=self._within)
        across = 2 * (RING - size) - 20
        canvas.text(centre, self._env.state_names[int(state)], INK, 26, "mm", width=across)
        below = centre[0], centre[1] + 32
        canvas.text(below, f"state {int(state)}, one of {self._n}", FAINT, 14, "mm")

    def senses(self, canvas: Canvas, observation: np.ndarray) -> None:
        middle, n = PANEL_WIDTH / 2, self._env.observation_space.n
        canvas.text((middle, 80), self.words(observation), LIT, 40, "mm", width=PANEL_WIDTH)
        canvas.text((middle, 145), f"observation, one of {n}", FAINT, 14, "mm")

    def text(self, state: np.ndarray, action: int | None) -> list[str]:
        return [f"state {self._env.state_names[int(state)]}, one of {self._n}"]

    def words(self, observation: np.ndarray) -> str:
        return self._env.observation_names[int(observation)]

    def action_name(self, action: int) -> str:
        return self._env.action_names[action]

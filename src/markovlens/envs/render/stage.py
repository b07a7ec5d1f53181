"""Frames of an episode: the game on the left, what the agent sees and does on the right."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import UInt8

from markovlens.envs.env import Env, Step, TimeLimit, innermost, innermost_state
from markovlens.envs.render.artist import (
    FAINT,
    INK,
    PANEL_HEIGHT,
    PANEL_WIDTH,
    PAPER,
    Artist,
    PlainArtist,
)
from markovlens.envs.render.canvas import Canvas
from markovlens.envs.spaces import Discrete
from markovlens.envs.wrappers import PreviousAction, PreviousReward

GAP = 18
STATUS_HEIGHT = 150


class Stage:
    """Follows an episode and draws any moment of it.

    >>> import jax
    >>> from markovlens.envs.registry import make
    >>> env = make("tmaze-5")
    >>> state, observation = env.reset(jax.random.key(0))
    >>> stage = Stage(env, "tmaze-5")
    >>> stage.begin(observation)
    >>> stage.picture(state).shape
    (446, 750, 3)
    >>> print(stage.caption())
    step 0  action –  reward –  return 0
    sees: red
    """

    def __init__(self, env: Env, title: str):
        self._env, self._title = env, title
        self._inner = innermost(env)
        self._artist = artist_for(self._inner)
        self._plain = PlainArtist(self._inner)
        self._window: Any = None  # False: there is no display
        self._forget()

    def _forget(self) -> None:
        self._action: int | None = None
        self._time, self._reward, self._total, self._end = 0, 0.0, 0.0, ""

    def begin(self, observation: Any) -> None:
        """An episode starts."""
        self._forget()
        self._observation = observation

    def follow(self, action: Any, step: Step) -> None:
        """The action was taken, and led to this."""
        action = np.asarray(action)
        self._action = int(action) if action.ndim == 0 else None
        self._observation = step.observation
        self._time += 1
        self._reward = float(step.reward)
        self._total += self._reward
        self._end = "terminated" if step.terminated else "truncated" if step.truncated else ""

    def picture(self, state: Any) -> UInt8[np.ndarray, "height width 3"]:
        """The frame."""
        artist = self._artist
        panel_x = GAP + artist.width + GAP
        width = panel_x + PANEL_WIDTH + GAP
        height = GAP + max(artist.height, 30 + PANEL_HEIGHT + STATUS_HEIGHT) + GAP
        canvas = Canvas(width + width % 2, height + height % 2, PAPER)  # video wants even sides
        canvas.rectangle((GAP - 6, GAP - 6), (artist.width + 12, artist.height + 12),
                         artist.background, radius=8)  # fmt: skip
        artist.draw(canvas.at(GAP, GAP), innermost_state(self._env, state), self._action)
        panel = canvas.at(panel_x, GAP)
        panel.text((0, 8), "what the agent sees", FAINT, 14)
        observation, shows = self._seen()
        shows.senses(panel.at(0, 30), observation)
        self._draw_status(panel.at(0, 30 + PANEL_HEIGHT))
        return canvas.pixels()

    def _draw_status(self, canvas: Canvas) -> None:
        canvas.line([(0, 0), (PANEL_WIDTH, 0)], "#2b2f3b", 1)
        for i, (label, value) in enumerate(self._status().items()):
            canvas.text((0, 20 + 24 * i), label, FAINT, 14)
            canvas.text((PANEL_WIDTH, 20 + 24 * i), value, INK, 15, "rm", width=PANEL_WIDTH - 60)

    def _status(self) -> dict[str, str]:
        action = "–" if self._action is None else self._artist.action_name(self._action)
        return {
            "step": str(self._time) + (f", {self._end}" if self._end else ""),
            "action": action,
            "reward": f"{self._reward:g}" if self._time else "–",
            "return": f"{self._total:g}",
        }

    def _seen(self) -> tuple[np.ndarray, Artist]:
        """The observation, and who can show it: a view that hides or shows more is shown plainly,
        but what is appended to an observation changes nothing about what comes before."""
        env, space = self._env, self._inner.observation_space
        observation = np.asarray(self._observation)
        while isinstance(env, TimeLimit | PreviousAction | PreviousReward):
            env = env.env
        if env is not self._inner:
            return observation, self._plain
        if self._env.observation_space == space:
            return observation, self._artist
        flat = observation[: space.flat_size]
        return np.asarray(flat.argmax()) if isinstance(space, Discrete) else flat, self._artist

    def caption(self) -> str:
        """The same moment in words: what was done, and what is seen."""
        observation, shows = self._seen()
        status = "  ".join(f"{label} {value}" for label, value in self._status().items())
        return f"{status}\nsees: {shows.words(observation)}"

    def text(self, state: Any) -> str:
        """The same moment for a terminal."""
        lines = self._artist.text(innermost_state(self._env, state), self._action)
        status, sees = self.caption().split("\n", 1)
        return "\n".join([f"{self._title}  {status}", *lines, sees])

    def show(self, state: Any) -> None:
        """In a window where there is a display, else in the terminal."""
        from markovlens.envs.render.window import Window

        if self._window is None:
            self._window = Window.open(f"markovlens: {self._title}") or False
        if self._window:
            self._window.show(self.picture(state))
        else:
            sys.stdout.write(self.text(state) + "\n\n")

    def close(self) -> None:
        if self._window:
            self._window.close()
        self._window = None


def artist_for(env: Env) -> Artist:
    """Who draws this environment."""
    from markovlens.envs.battleship import Battleship
    from markovlens.envs.pocman import PocMan
    from markovlens.envs.render.battleship import BattleshipArtist
    from markovlens.envs.render.pocman import PocManArtist
    from markovlens.envs.render.rocksample import RockSampleArtist
    from markovlens.envs.render.small import TabularArtist, TMazeArtist
    from markovlens.envs.rocksample import RockSample
    from markovlens.envs.tabular import Tabular
    from markovlens.envs.tmaze import TMaze

    artists: dict[type, Callable[[Any], Artist]] = {
        PocMan: PocManArtist,
        Battleship: BattleshipArtist,
        RockSample: RockSampleArtist,
        TMaze: TMazeArtist,
        Tabular: TabularArtist,
    }
    return artists.get(type(env), PlainArtist)(env)

"""Figure 6, right: where two agents think the pellets still are, beside where they are."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from markovlens.agents.run import Run
from markovlens.envs.env import innermost_state
from markovlens.envs.render import episode
from markovlens.envs.render.artist import INK, PAPER
from markovlens.envs.render.canvas import Canvas
from markovlens.envs.render.movies import write_movie
from markovlens.envs.render.pocman import CELL, FLOOR, PocManArtist
from markovlens.experiments.labels import agent_label
from markovlens.experiments.pictures import paper_style, save_figure
from markovlens.experiments.probe import (
    QUICK,
    Games,
    Probe,
    ProbeConfig,
    Reading,
    food_cells,
    judge_probe,
    memories,
    play_games,
    pocman_of,
    train_probe,
)
from markovlens.experiments.results import Results
from markovlens.experiments.sources import find_players
from markovlens.progress import Advance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AGENTS = ("ld", "rnn")
NAME = "fig-pocman-memory"
HELD_OUT = 0.1
SHOWN_STEPS = 150
GAP, TITLE = 14, 34


class Subject(NamedTuple):
    """An agent under the probe."""

    run: Run
    which: int  # of the runs in there


def fig_pocman_memory(results: Results, out: Path, scale: str, progress: Advance) -> list[Path]:
    """Probe the first trained `ld` and `rnn` on PocMan in some results."""
    found = {p.agent: p for p in find_players(results) if p.task == "pocman"}
    missing = [agent for agent in AGENTS if agent not in found]
    if missing:
        raise ValueError(
            f"{results.path} has no trained agent {missing[0]!r} on pocman to look into"
        )
    subjects = {agent: Subject(*found[agent].load()) for agent in AGENTS}
    return draw_memory(subjects, out, ProbeConfig() if scale == "paper" else QUICK, progress)


def draw_memory(
    subjects: dict[str, Subject], out: Path, config: ProbeConfig, progress: Advance
) -> list[Path]:
    """Collect games, train a probe for each agent, and write picture, numbers and video."""
    games = _games_of_all(subjects, config)
    n_test = max(1, round(HELD_OUT * games.first.shape[1]))
    probes: dict[str, Probe] = {}
    readings: dict[str, Reading] = {}
    for i, (name, (run, index)) in enumerate(subjects.items()):
        remembered = memories(run.network(index), games)

        def share(done: float, status: str = "", i: int = i, name: str = name) -> None:
            progress((i + done / config.updates) / len(subjects), f"{name}: {status}")

        # Environments of both agents are interleaved: the last ones are of both.
        learn, test = np.s_[:, :-n_test], np.s_[:, -n_test:]
        probes[name] = train_probe(
            _rows(remembered[learn]), _rows(games.food[learn]), config, share
        )
        readings[name] = judge_probe(probes[name], _rows(remembered[test]), _rows(games.food[test]))
    frames = _movie(subjects, probes, config.seed)
    env = next(iter(subjects.values())).run.env()
    numbers = _numbers(env, readings)
    picture = _picture(env, readings, frames)
    paths = save_figure(picture, numbers, out, NAME)
    video = out / f"{NAME}.mp4"
    write_movie(video, frames, [f"step {t}" for t in range(len(frames))], "PocMan's memory")
    return [*paths, video]


def _games_of_all(subjects: dict[str, Subject], config: ProbeConfig) -> Games:
    """Games of all agents, side by side in turn."""
    each = config.steps // len(subjects)
    played = [
        play_games(run, index, config.n_envs, each, jax.random.key(config.seed + i))
        for i, (run, index) in enumerate(subjects.values())
    ]
    shapes = {games.observation.shape[2:] for games in played}
    if len(shapes) > 1:
        raise ValueError(f"the agents must see the same things to be compared, got {shapes}")
    return Games(*(_interleave(leaves) for leaves in zip(*played, strict=True)))


def _interleave(arrays: tuple[np.ndarray, ...]) -> np.ndarray:
    """[T, N, ...] of each into [T, N × each, ...], one environment of each in turn."""
    stacked = np.stack(arrays, axis=2)
    return stacked.reshape(stacked.shape[0], -1, *stacked.shape[3:])


def _rows(by_time: np.ndarray) -> np.ndarray:
    return by_time.reshape(-1, by_time.shape[-1])


def _numbers(env: Any, readings: dict[str, Reading]) -> pl.DataFrame:
    """A row a cell and agent."""
    cells = food_cells(env)
    position = pocman_of(env).maze.position[cells]
    return pl.concat(
        pl.DataFrame(
            {
                "agent": [name] * len(cells),
                "row": position[:, 0],
                "column": position[:, 1],
                **reading._asdict(),
            }
        )
        for name, reading in readings.items()
    )


def _picture(env: Any, readings: dict[str, Reading], frames: list[np.ndarray]) -> "Figure":
    from matplotlib.figure import Figure

    maze = pocman_of(env).maze
    place = tuple(maze.position[food_cells(env)].T)
    gains = {name: reading.accuracy - reading.chance for name, reading in readings.items()}
    limit = max(float(np.abs(gain).max()) for gain in gains.values())
    with paper_style():
        figure = Figure(figsize=(8.4, 7.0), layout="constrained")
        layout = figure.add_gridspec(2, len(readings), height_ratios=(1.0, 1.15))
        shown = figure.add_subplot(layout[0, :])
        shown.imshow(frames[min(len(frames) - 1, 2 * len(frames) // 3)])
        shown.set_axis_off()
        panels = [figure.add_subplot(layout[1, i]) for i in range(len(readings))]
        for panel, (name, reading) in zip(panels, readings.items(), strict=True):
            grid = np.full((maze.height, maze.width), np.nan)
            grid[place] = gains[name]
            image = panel.imshow(grid, cmap="PuOr_r", vmin=-limit, vmax=limit)
            panel.set_title(
                f"{agent_label(name)}\naccuracy {reading.accuracy.mean():.3f}, "
                f"without memory {reading.chance.mean():.3f}"
            )
            panel.set_axis_off()
        figure.colorbar(image, ax=panels, label="accuracy gained by memory", shrink=0.8)
    return figure


class _Player:
    """Plays as the first agent does; all of them look on and remember."""

    def __init__(self, subjects: dict[str, Subject]):
        self._subjects = list(subjects.values())
        self.remembered: list[list[Array]] = []

    def start(self) -> list[Array | None]:
        return [None] * len(self._subjects)

    def act(
        self, observation: Array, memory: list[Array], allowed: Any, key: PRNGKeyArray
    ) -> tuple[Array, list[Array]]:
        acted = [
            run.act(observation, before, index=index, greedy=False, key=key)
            for (run, index), before in zip(self._subjects, memory, strict=True)
        ]
        after = [now for _, now in acted]
        self.remembered.append(after)
        return acted[0][0], after


def _movie(
    subjects: dict[str, Subject], probes: dict[str, Probe], seed: int
) -> list[UInt8[np.ndarray, "h w 3"]]:
    run, index = next(iter(subjects.values()))
    env = run.env(index)
    artist = PocManArtist(pocman_of(env))
    rows_columns = pocman_of(env).maze.position[food_cells(env)]
    places = (rows_columns[:, ::-1] + 0.5) * CELL
    player = _Player(subjects)
    states = [
        innermost_state(env, moment.state)
        for moment in episode.play(env, player, "pocman", seed, SHOWN_STEPS)
    ]
    frames = []
    for state, remembered in zip(states, player.remembered, strict=False):
        odds = {
            name: np.asarray(jax.nn.sigmoid(probe(memory)))
            for (name, probe), memory in zip(probes.items(), remembered, strict=True)
        }
        frames.append(_frame(artist, places, state, odds))
    return frames


def _frame(
    artist: PocManArtist,
    places: Float[np.ndarray, "C 2"],
    state: Any,
    odds: dict[str, Float[np.ndarray, "C"]],
) -> UInt8[np.ndarray, "h w 3"]:
    """The game, then for each agent the same moment with the food it believes in."""
    width = (artist.width + GAP) * (1 + len(odds)) + GAP
    height = artist.height + TITLE + GAP
    canvas = Canvas(width + width % 2, height + height % 2, PAPER)
    blank = eqx.tree_at(lambda s: s.food, state, jnp.zeros_like(state.food))
    for i, (title, believed) in enumerate([("the game", None), *odds.items()]):
        board = canvas.at(GAP + i * (artist.width + GAP), TITLE)
        canvas.text((GAP + i * (artist.width + GAP), TITLE / 2), agent_label(title), INK, 16)
        board.rectangle((0, 0), (artist.width, artist.height), FLOOR)
        artist.draw(board, state if believed is None else blank, None)
        for (x, y), p in zip(places, [] if believed is None else believed, strict=False):
            board.circle((x, y), CELL * 0.3 * np.sqrt(p), (255, 217, 176, int(255 * p)))
    return canvas.pixels()

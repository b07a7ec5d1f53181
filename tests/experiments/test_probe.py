"""The pellet probe: it reads what is there, and nothing that is not."""

import jax
import numpy as np
import polars as pl
import pytest

from markovlens.agents.config import PPOConfig
from markovlens.agents.training import train
from markovlens.envs.registry import make
from markovlens.experiments import probe_figure
from markovlens.experiments.probe import (
    ProbeConfig,
    Reading,
    food_cells,
    judge_probe,
    memories,
    play_games,
    train_probe,
)
from markovlens.experiments.probe_figure import Subject, draw_memory
from markovlens.progress import silent

SMALL = ProbeConfig(
    steps=2000, n_envs=4, hidden=32, learning_rate=3e-3, batch=64, updates=1000, seed=0
)


def test_a_probe_reads_what_a_memory_holds_and_only_that():
    rng = np.random.default_rng(0)
    food = rng.random((4000, 6)) < 0.5
    hidden = food[:, :3]  # the memory knows three of the six cells
    memory = (hidden @ rng.normal(size=(3, 8)) + 0.01 * rng.normal(size=(4000, 8))).astype(
        np.float16
    )
    probe = train_probe(memory[:3000], food[:3000], SMALL)
    reading = judge_probe(probe, memory[3000:], food[3000:])
    assert (reading.accuracy[:3] > 0.99).all()
    assert (reading.cross_entropy[:3] < 0.1).all()
    # Three standard errors of a coin thrown a thousand times.
    assert (np.abs(reading.accuracy[3:] - 0.5) < 3 * 0.5 / np.sqrt(1000)).all()
    assert (reading.chance >= 0.5).all()
    assert reading.chance_cross_entropy == pytest.approx(np.full(6, np.log(2)), abs=1e-2)


def test_the_maze_has_its_food():
    env = make("pocman")
    cells = food_cells(env)
    state, _ = env.reset(jax.random.key(0))
    words = np.asarray(state.inner.food)
    full = words[cells >> 5] >> (cells & 31).astype(np.uint32) & 1
    assert full.all()
    assert sum(int(word).bit_count() for word in words) == len(cells)
    with pytest.raises(ValueError, match="the pellet probe is for PocMan, and this is TMaze"):
        food_cells(make("tmaze-2"))


def test_the_colours_reach_as_far_as_the_gains():
    env = make("pocman")
    n = len(food_cells(env))
    half, best = np.full(n, 0.5), np.linspace(0.5, 0.99, n)
    readings = {
        "ld": Reading(best, half, half, half),
        "rnn": Reading(half, half, half, half),
    }
    figure = probe_figure._picture(env, readings, [np.zeros((8, 8, 3), np.uint8)])
    shown = [image for axes in figure.axes for image in axes.images][1:]  # the first is the game
    for image in shown:
        assert image.get_clim() == pytest.approx((-0.49, 0.49))


@pytest.fixture(scope="module")
def subjects():
    runs = {}
    for algo in ("ld", "rnn"):
        runs[algo] = Subject(train(PPOConfig(env="pocman", algo=algo, steps=512, latent=8)), 0)
    return runs


@pytest.mark.slow
def test_games_hold_the_food_there_was_and_memories_start_afresh(subjects):
    run, index = subjects["ld"]
    games = play_games(run, index, n_envs=3, steps=750, key=jax.random.key(1))
    assert games.first.shape == (250, 3)
    assert games.food[games.first].all()  # a game starts with everything there
    left = games.food.sum(axis=-1)
    going_on = ~games.first[1:]
    eaten = (left[:-1] - left[1:])[going_on]
    assert set(np.unique(eaten)) <= {0, 1}  # at most one bite a step, and nothing grows back
    assert eaten.sum() > 0
    remembered = memories(run.network(index), games)
    alone = run.network(index).step(
        games.observation[0], run.network(index).memory(3), np.ones(3, dtype=bool)
    )
    starts = np.asarray(alone, dtype=np.float16)
    assert remembered[0] == pytest.approx(starts, abs=1e-3)


@pytest.mark.slow
def test_picture_numbers_and_video_of_two_memories(subjects, tmp_path, monkeypatch):
    monkeypatch.setattr(probe_figure, "SHOWN_STEPS", 6)
    paths = draw_memory(subjects, tmp_path, SMALL._replace(updates=250), silent)
    kinds = [path.suffix for path in paths]
    assert kinds == [".png", ".svg", ".parquet", ".mp4"]
    assert all(path.stat().st_size > 1000 for path in paths)
    numbers = pl.read_parquet(paths[2])
    assert set(numbers["agent"]) == {"ld", "rnn"}
    by_agent = numbers.filter(agent="ld")
    assert by_agent.height == len(food_cells(make("pocman")))
    # Both were judged on the same games.
    assert by_agent["chance"].equals(numbers.filter(agent="rnn")["chance"])

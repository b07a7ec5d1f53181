"""Pictures show what is there, and movies hold every frame."""

import io
import re
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from markovlens.agents.host import own_name
from markovlens.envs.pocman import PocMan
from markovlens.envs.registry import make
from markovlens.envs.render.artist import PlainArtist
from markovlens.envs.render.canvas import Canvas
from markovlens.envs.render.episode import RandomPolicy, play
from markovlens.envs.render.movies import write_movie
from markovlens.envs.render.pocman import CELL, GHOSTS, PocManArtist
from markovlens.envs.render.stage import Stage, artist_for
from markovlens.envs.tabular import Tabular
from markovlens.envs.wrappers import (
    FullyObserved,
    MaskObservation,
    PreviousAction,
    PreviousReward,
)
from markovlens.pomdp.library import load
from markovlens.pomdp.model import Pomdp

NAMES = ["pocman", "battleship-10", "rocksample-11-11", "rocksample-15-15", "tmaze-5", "tiger"]


def rgb(colour):
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])


def near(picture, colour, tolerance=40):
    return np.abs(picture.astype(int) - rgb(colour)).sum(-1) < tolerance


def test_canvas_draws_where_it_is_told():
    canvas = Canvas(40, 20, "black")
    canvas.at(10, 5).rectangle((0, 0), (10, 10), "white")
    pixels = canvas.pixels()
    assert pixels.shape == (20, 40, 3)
    assert (pixels[8:12, 13:17] == 255).all()
    assert (pixels[:3] == 0).all()
    assert (pixels[:, 24:] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_every_moment_of_an_episode_is_drawn_in_one_size(name):
    env = make(name)
    moments = play(env, RandomPolicy(env), name, seed=1, steps=6)
    frames, texts = [], []
    for moment in moments:
        frames.append(moment.stage.picture(moment.state))
        texts.append(moment.stage.text(moment.state))
    shapes = {frame.shape for frame in frames}
    assert len(shapes) == 1
    height, width, _ = shapes.pop()
    assert height % 2 == width % 2 == 0
    assert all(np.any(a != b) for a, b in pairwise(frames))
    assert all(text.startswith(name) and "\nsees: " in text for text in texts)


def test_each_ghost_is_where_the_state_says():
    env = PocMan()
    state, _ = env.reset(jax.random.key(0))
    canvas = Canvas(env.maze.width * CELL, env.maze.height * CELL, "black")
    PocManArtist(env).draw(canvas, state, None)
    picture = canvas.pixels()
    for number, cell in zip(env.maze.ghost_numbers, env.maze.ghost_starts, strict=True):
        rows, columns = np.nonzero(near(picture, GHOSTS[number]))
        row, column = env.maze.position[cell]
        assert abs(rows.mean() / CELL - row - 0.5) < 0.3
        assert abs(columns.mean() / CELL - column - 0.5) < 0.3


def test_ghosts_in_one_cell_are_both_seen():
    env = PocMan()
    state, _ = env.reset(jax.random.key(0))
    state = eqx.tree_at(lambda s: s.ghosts, state, state.ghosts.at[3].set(state.ghosts[0]))
    canvas = Canvas(env.maze.width * CELL, env.maze.height * CELL, "black")
    PocManArtist(env).draw(canvas, state, None)
    assert near(canvas.pixels(), GHOSTS[1]).sum() > 30
    assert near(canvas.pixels(), GHOSTS[4]).sum() > 30


def test_frightened_ghosts_lose_their_colours():
    env = PocMan()
    state, _ = env.reset(jax.random.key(0))
    state = eqx.tree_at(lambda s: s.power, state, jnp.int32(20))
    canvas = Canvas(env.maze.width * CELL, env.maze.height * CELL, "black")
    PocManArtist(env).draw(canvas, state, None)
    assert not any(near(canvas.pixels(), colour).any() for colour in GHOSTS.values())


def test_pocman_in_text():
    env = PocMan("#######\n#1Po.s#\n#######")
    state, observation = env.reset(jax.random.key(0))
    artist = PocManArtist(env)
    assert artist.text(state, None) == ["███████", "█1Co··█", "███████"]
    words = artist.words(np.asarray(observation))
    assert words == "walls ↑↓, ghosts in sight ←, near food ghost"
    assert [artist.action_name(a) for a in range(4)] == ["up", "right", "down", "left"]


def test_battleship_in_text_and_words():
    env = make("battleship-10")
    state, _ = env.reset(jax.random.key(0))
    ships = np.asarray(env.full_observation(state))[:100]
    artist = artist_for(env)
    hit, miss = int(ships.argmax()), int(ships.argmin())
    for action in (hit, miss):
        state, step = env.step(jax.random.key(0), state, jnp.int32(action))
        assert artist.words(np.asarray(step.observation)) == ("hit" if action == hit else "no hit")
    lines = artist.text(state, miss)
    assert sum(line.count("✶") for line in lines) == 1
    assert sum(line.count("o") for line in lines) == 1
    assert sum(line.count("■") for line in lines) == 13
    assert artist.action_name(17) == "fire at H2"


def test_rocksample_words():
    env = make("rocksample-11-11")
    artist = artist_for(env.env)
    observation = np.zeros(33)
    observation[[4, 11 + 7, 22 + 2, 22 + 10]] = 1
    assert artist.words(observation) == "row 4, column 7, rocks that read good: 2 10"
    assert artist.action_name(4) == "sample"
    assert artist.action_name(7) == "check rock 2"


def test_a_pomdp_goes_by_its_own_names():
    env = make("tiger")
    state, _ = env.reset(jax.random.key(0))
    state, step = env.step(jax.random.key(0), state, 0)
    stage = Stage(env, "tiger")
    stage.begin(step.observation)
    stage.follow(0, step)
    status, drawn, seen = stage.text(state).splitlines()
    assert "  action listen  " in status
    assert re.fullmatch("state tiger-(left|right)-heard, one of 5", drawn)
    assert re.fullmatch("sees: hear-(left|right)", seen)


def test_long_names_stay_where_they_belong():
    """Beside the longest of names, all that does not show them is as it was."""
    tiger = load("tiger")
    sizes = {"states": 5, "actions": 3, "observations": 4}
    pictures = []
    for length in (1, 400):
        names = {kind: [f"{'M' * length}{i}" for i in range(n)] for kind, n in sizes.items()}
        env = Tabular(Pomdp(tiger.T, tiger.R, tiger.Phi, tiger.p0, tiger.gamma, **names))
        state, _ = env.reset(jax.random.key(0))
        state, step = env.step(jax.random.key(0), state, 0)
        stage = Stage(env, "tiger")
        stage.follow(0, step)
        pictures.append(stage.picture(state))
    differs = (pictures[0] != pictures[1]).any(axis=-1)
    panel = 18 + 420 + 18
    assert not differs[:, panel - 40 : panel].any()  # nothing runs over from the ring
    assert not differs[:, panel : panel + 50][280:].any()  # nor into the labels of the status
    assert not differs[:, panel + 236 :].any()
    assert differs[:, panel : panel + 236][280:].any()


def test_names_of_actions_and_states_do_not_make_another_environment():
    tiger = load("tiger")
    plain = Pomdp(
        tiger.T, tiger.R, tiger.Phi, tiger.p0, tiger.gamma, observations=tiger.observations
    )
    assert own_name(Tabular(plain)) == own_name(Tabular(tiger))


def test_a_previous_action_in_the_observation_changes_nothing_shown():
    for name in ("pocman", "tmaze-5"):
        env = make(name)
        views = []
        for view in (env, PreviousAction(env), PreviousReward(PreviousAction(env))):
            state, observation = view.reset(jax.random.key(0))
            stage = Stage(view, name)
            stage.begin(observation)
            views.append(stage.picture(state))
        assert all((view == views[0]).all() for view in views)


def test_a_masked_view_is_shown_as_it_is():
    env = MaskObservation(make("pocman"), hidden=(0, 1, 2, 3))
    state, observation = env.reset(jax.random.key(0))
    stage = Stage(env, "pocman")
    stage.begin(observation)
    assert stage.picture(state).shape[2] == 3
    assert stage.caption().endswith(PlainArtist(env).words(np.asarray(observation)))


def test_a_full_view_is_shown_as_it_is():
    """The 11 states of the cheese maze are as many as its 7 observations and 4 actions."""
    env = FullyObserved(make("cheese"))
    state, observation = env.reset(jax.random.key(0))
    stage = Stage(env, "cheese")
    stage.begin(observation)
    assert stage.picture(state).shape[2] == 3
    assert stage.caption().endswith(f"sees: {int(observation)}")


def frames(n=5):
    pictures = np.zeros((n, 32, 48, 3), dtype=np.uint8)
    pictures[..., 2] = 60
    for i in range(n):
        pictures[i, 8:16, 8 * i : 8 * i + 8] = (255, 40, 40)
    return list(pictures)


def test_gif_holds_every_frame_and_its_colours(tmp_path):
    write_movie(tmp_path / "a.gif", frames(), ["x"] * 5, "t", 8)
    gif = Image.open(tmp_path / "a.gif")
    assert gif.n_frames == 5
    for i in range(5):
        gif.seek(i)
        picture = np.asarray(gif.convert("RGB")).astype(int)
        assert np.abs(picture - frames()[i]).max() <= 8
    assert gif.info["duration"] == 2000  # the end stays
    gif.close()


def test_mp4_is_a_video(tmp_path):
    write_movie(tmp_path / "a.mp4", frames(), ["x"] * 5, "t", 8)
    assert (tmp_path / "a.mp4").read_bytes()[4:8] == b"ftyp"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.mp4"]


def test_page_is_whole_and_without_addresses(tmp_path):
    captions = [f"step {i} </script><b>" for i in range(5)]
    write_movie(tmp_path / "a.html", frames(), captions, "<title> & more", 4)
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 5
    assert "http" not in page
    assert "&lt;title&gt; &amp; more" in page
    assert page.count("</script>") == 2  # captions cannot close the script they are in
    import base64
    import json

    data = json.loads(re.search(r'type="application/json">(.*?)</script>', page, re.S)[1])
    assert data["captions"] == captions
    first = Image.open(io.BytesIO(base64.b64decode(data["frames"][0].split(",")[1])))
    assert first.size == (48, 32)


def test_unknown_kind_of_movie():
    with pytest.raises(ValueError, match="unknown kind of movie"):
        write_movie("a.avi", frames(), [], "t")

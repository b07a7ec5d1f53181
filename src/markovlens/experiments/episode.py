"""One episode of a trained agent, kept to be looked at: frames, and what went on in its head."""

import io
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, UInt8

from markovlens.agents.acting import choose, within
from markovlens.agents.actions import action_distribution
from markovlens.agents.networks import ActorCritic
from markovlens.agents.run import Run
from markovlens.envs.env import Env, innermost
from markovlens.envs.render import episode
from markovlens.envs.render.artist import PANEL_HEIGHT, PANEL_WIDTH
from markovlens.envs.render.stage import GAP, STATUS_HEIGHT, artist_for
from markovlens.envs.spaces import Discrete

# Width and height of the upper right corner of every picture, where `Stage` draws its panel.
PANEL_SIZE = (GAP // 2 + PANEL_WIDTH + GAP, GAP + 30 + PANEL_HEIGHT + STATUS_HEIGHT)


class RecordedMoment(NamedTuple):
    """What the agent saw, what it made of it, and what it did; the last moment, when nothing more
    is done, has neither probabilities nor values nor an action."""

    picture: bytes  # WebP
    words: str
    probs: list[float] | None  # None also where actions are continuous
    values: list[float] | None
    action: int | None


class Episode(NamedTuple):
    """An episode, or the first part of a long one."""

    moments: list[RecordedMoment]
    size: tuple[int, int]  # of the pictures, width and height
    actions: list[str]  # their names
    ended: bool


class _Thought(eqx.Module):
    outputs: Float[Array, "P"]  # the actor's; impossible actions are masked
    values: Float[Array, "C"]
    action: Array


class _Thinker:
    """A trained agent that plays and keeps what it thought."""

    def __init__(self, network: ActorCritic, env: Env):
        self._network, self._env = network, env
        self.thoughts: list[_Thought] = []

    def start(self) -> Float[Array, "1 M"]:
        return self._network.memory(1)

    def act(
        self, observation: Array, memory: Array, allowed: Bool[Array, "A"] | None, key: PRNGKeyArray
    ) -> tuple[Array, Array]:
        thought, memory = _think(self._network, self._env, observation, memory, allowed, key)
        self.thoughts.append(thought)
        return thought.action, memory


def record(run: Run, index: int = 0, seed: int = 0, max_steps: int = 200) -> Episode:
    """Let run `index` play one episode, drawing its actions as it did in training.

    Example: `record(load_run("runs/tmaze-5-ld"), max_steps=50)`.
    """
    env = run.env(index)
    thinker = _Thinker(run.network(index), env)
    seen: list[tuple[bytes, str]] = []
    size = (0, 0)
    for moment in episode.play(env, thinker, run.specs[index].config.env, seed, max_steps):
        words = moment.stage.caption().partition("sees: ")[2]
        pixels = moment.stage.picture(moment.state)
        size = (pixels.shape[1], pixels.shape[0])
        seen.append((_webp(pixels), words))
    names = []
    if isinstance(env.action_space, Discrete):
        artist = artist_for(innermost(env))
        names = [artist.action_name(action) for action in range(env.action_space.n)]
    moments = [
        _moment(*looks, thought, discrete=bool(names))
        for looks, thought in zip(seen, [*thinker.thoughts, None], strict=True)
    ]
    return Episode(moments, size, names, moment.ended)


@eqx.filter_jit
def _think(
    network: ActorCritic,
    env: Env,
    observation: Array,
    memory: Float[Array, "1 M"],
    allowed: Bool[Array, "A"] | None,
    key: PRNGKeyArray,
) -> tuple[_Thought, Float[Array, "1 M"]]:
    seen, first = env.observation_space.flatten(observation)[None], jnp.zeros(1, dtype=bool)
    mask = None if allowed is None else allowed[None]
    noise = action_distribution(env.action_space).noise(key, (1,))
    memory, said, action = choose(network, env.action_space, seen, memory, first, mask, noise)
    return _Thought(said.action[0], said.value[0], within(env.action_space, action[0])), memory


def _moment(picture: bytes, words: str, thought: _Thought | None, discrete: bool) -> RecordedMoment:
    if thought is None:
        return RecordedMoment(picture, words, None, None, None)
    values = [round(float(value), 5) for value in thought.values]
    if not discrete:
        return RecordedMoment(picture, words, None, values, None)
    probs = [round(float(p), 4) for p in np.asarray(jax.nn.softmax(thought.outputs))]
    return RecordedMoment(picture, words, probs, values, int(thought.action))


def _webp(pixels: UInt8[np.ndarray, "h w 3"]) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "WEBP", quality=80, method=2)
    return file.getvalue()

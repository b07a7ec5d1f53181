"""`markovlens watch`: one episode, drawn."""

from typing import TYPE_CHECKING, Annotated, Any

import tyro

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markovlens.agents.run import Run
    from markovlens.envs.env import Env
    from markovlens.envs.render.episode import Moment, Policy

RANDOM = "random"
TERMINAL = "-"


def watch(
    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")],
    /,
    policy: str = RANDOM,
    out: str = TERMINAL,
    seed: int = 0,
    steps: int = 1000,
    fps: float = 8.0,
) -> None:
    """Draw an episode: what happens, and beside it what the agent sees.

    Example: markovlens watch pocman --out episode.html

    With a trained agent: markovlens watch tmaze-5 --policy runs/tmaze-5-ld --out episode.gif

    Args:
        env: the environment's name, such as pocman, battleship-10, rocksample-11-11 or tmaze-5.
        policy: who plays: random, or the folder of a trained run.
        out: a file that ends in .gif, .mp4 or .html (a page with a player, for any browser), or -
            for the terminal.
        seed: draws the episode.
        steps: stop after this many steps if the episode has not ended.
        fps: steps shown a second.
    """
    from markovlens.cli.runtime import prepare_jax
    from markovlens.envs.render.movies import check_movie_name

    if steps < 1:
        raise ValueError(f"--steps must be at least 1, got {steps}")
    if not fps > 0:
        raise ValueError(f"--fps must be positive, got {fps:g}")
    if out != TERMINAL:
        check_movie_name(out)
    prepare_jax()
    from markovlens.envs.render.episode import play

    world, player = _cast(env, policy)
    moments = play(world, player, env, seed, steps)
    if out == TERMINAL:
        _show(moments, fps)
    else:
        longest = min(steps, world.time_limit or steps)
        _film(moments, out, f"{env}, {policy} policy, seed {seed}", longest, fps)


def _cast(env: str, policy: str) -> "tuple[Env, Policy]":
    """The environment as the player sees it, and the player."""
    from markovlens.envs.registry import is_gymnasium_id, make
    from markovlens.envs.render.episode import RandomPolicy

    if is_gymnasium_id(env):
        raise ValueError(f"{env} is Gymnasium's, and draws itself: make it with a render_mode")
    if policy == RANDOM:
        world = make(env)
        return world, RandomPolicy(world)
    from markovlens.agents.run import load_run

    run = load_run(policy)
    trained_on = run.specs[0].config.env
    if trained_on != env:
        raise ValueError(f"{policy} was trained on {trained_on}, not on {env}")
    return run.env(), _Trained(run)


class _Trained:
    """The agent of a run, taking the actions it thinks best."""

    def __init__(self, run: "Run"):
        self._run = run

    def start(self) -> None:
        return None

    def act(self, observation: Any, memory: Any, allowed: Any, key: Any) -> tuple[Any, Any]:
        return self._run.act(observation, memory, allowed=allowed, key=key)


def _show(moments: "Iterator[Moment]", fps: float) -> None:
    """One below the other, or on a terminal one over the other."""
    import sys
    import time

    live = sys.stdout.isatty()
    for moment in moments:
        text = moment.stage.text(moment.state)
        if live:
            sys.stdout.write("\x1b[H\x1b[2J" + text + "\n")
            sys.stdout.flush()
            time.sleep(1.0 / fps)
        else:
            print(text + "\n")


def _film(moments: "Iterator[Moment]", out: str, title: str, steps: int, fps: float) -> None:
    from markovlens.envs.render.movies import write_movie
    from markovlens.progress import progress_bar

    frames, captions = [], []
    with progress_bar("drawing", total=steps) as advance:
        for moment in moments:
            frames.append(moment.stage.picture(moment.state))
            captions.append(moment.stage.caption())
            advance(moment.time)
    write_movie(out, frames, captions, title, fps)
    print(f"{out}: {len(frames)} frames; {captions[-1].splitlines()[0]}")

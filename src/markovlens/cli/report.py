"""`markovlens report`: one page for people."""

from pathlib import Path
from typing import Annotated

import tyro


def report(
    runs: Annotated[list[Path], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")],
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html"),
    title: str | None = None,
    episode_steps: int = 200,
) -> None:
    """Write one self-contained HTML page about runs: curves, scores, settings, and an episode to
    step through. It opens offline.

    Example: markovlens report runs/tmaze-5-ld runs/tmaze-5-rnn -o report.html

    Args:
        runs: folders of `markovlens train` or `markovlens sweep`, or parquet files of curves.
        out: the page.
        title: its title; the experiment's own if not given.
        episode_steps: how much of an episode each agent plays; 0 leaves the player out.
    """
    from markovlens.cli.runtime import prepare_jax
    from markovlens.experiments.report import write_report
    from markovlens.progress import progress_bar

    prepare_jax()
    with progress_bar("report", total=1.0) as advance:
        page = write_report(runs, out, title, episode_steps, progress=advance)
    size = page.path.stat().st_size / 1e6
    print(f"{page.path}: {page.n_runs} runs, {page.n_episodes} episodes, {size:.1f} MB")

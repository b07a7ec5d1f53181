"""`markovlens train`: recurrent PPO, with or without the λ-discrepancy."""

import re
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import tyro

from markovlens.agents.config import PPOConfig
from markovlens.agents.seeds import parse_seeds
from markovlens.cli.output import print_json, print_table
from markovlens.cores import training_threads

SMALL_LATENT = 128  # up to which a second thread costs more than it does


def train(
    config: Annotated[PPOConfig, tyro.conf.OmitArgPrefixes] = PPOConfig(),  # noqa: B008
    seeds: str = "0",
    out: Path | None = None,
    resume: Path | None = None,
    tensorboard: bool = False,
    wandb: bool = False,
    json: bool = False,
) -> int | None:
    """Train agents; metrics, checkpoints and the config go into a run folder.

    An interrupted run goes on where it stopped: repeat the command, or name its folder with
    --resume.

    Example: markovlens train --env tmaze-5 --algo ld --steps 200000 --seeds 0..4

    Args:
        config: what to train.
        seeds: one run each: 3, or 0..4, or 0,2,7.
        out: the run folder; runs/ENV-ALGO if not given.
        resume: go on with the run in this folder; its config is taken from there.
        tensorboard: also write TensorBoard event files into the run folder.
        wandb: also log to Weights & Biases.
        json: print the result as JSON.
    """
    from markovlens.cli.runtime import prepare_jax
    from markovlens.progress import progress_bar

    runs, folder = _what(config, seeds, out, resume)
    latent = runs[0][0].resolve().latent
    small = latent is not None and latent <= SMALL_LATENT
    prepare_jax(len(runs), training_threads(small))

    from markovlens.agents import tracking
    from markovlens.agents.training import Diverged, complete, train_together

    first = complete(runs[0][0])
    title = f"{first.env} {first.algo}" + (f" × {len(runs)}" if len(runs) > 1 else "")
    with ExitStack() as open_while_training:
        enter = open_while_training.enter_context
        listeners = [enter(tracking.tensorboard(folder))] if tensorboard else []
        listeners += [enter(tracking.wandb(folder.name))] if wandb else []
        advance = enter(progress_bar(title, total=first.n_updates * first.batch_steps))
        try:
            run = train_together(runs, out=folder, progress=advance, listeners=listeners)
        except Diverged as error:
            print(f"markovlens: {error}", file=sys.stderr)
            return 1
    last = run.metrics.group_by("run", maintain_order=True).last()
    shown = ("seed", "step", "return", "discounted_return", "length", "discrepancy")
    rows = last.select(shown).to_dicts()
    if json:
        print_json({"folder": str(folder), "runs": rows})
    else:
        print_table(rows, title=f"{folder}: the last rows of metrics.parquet")
    if run.diverged.any():
        which = ", ".join(str(run.specs[i].seed) for i in run.diverged.nonzero()[0])
        print(f"diverged: seeds {which}; their last good networks are kept", file=sys.stderr)
        return 1
    return None


def _what(
    config: PPOConfig, seeds: str, out: Path | None, resume: Path | None
) -> tuple[list[tuple[PPOConfig, int]], Path]:
    """The runs that are meant, and their folder."""
    if resume is None:
        return [(config, seed) for seed in parse_seeds(seeds)], out or _default_folder(config)
    if out is not None or config != PPOConfig() or seeds != "0":
        raise ValueError("--resume takes everything from the run folder: give no other options")
    from markovlens.agents.folder import RunFolder

    return [(spec.config, spec.seed) for spec in RunFolder(resume).specs()], resume


def _default_folder(config: PPOConfig) -> Path:
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", config.env)
    return Path("runs") / f"{plain}-{config.algo}"

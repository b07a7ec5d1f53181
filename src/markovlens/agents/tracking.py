"""Metrics sent elsewhere as they come: TensorBoard and Weights & Biases."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from markovlens.agents.metrics import Row

NOT_PLOTTED = ("run", "seed", "step")


@contextmanager
def tensorboard(folder: str | os.PathLike[str]) -> Iterator[Callable[[Row], None]]:
    """A listener for `train` that writes event files into `folder`, one subfolder for each run."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ValueError(
            "TensorBoard files need the extra: pip install 'markovlens[tensorboard]'"
        ) from None
    writers: dict[int, Any] = {}

    def listen(row: Row) -> None:
        if row["run"] not in writers:
            name = f"run-{row['run']}-seed-{row['seed']}"
            writers[row["run"]] = SummaryWriter(os.path.join(folder, "tensorboard", name))
        for key, value in _plotted(row).items():
            writers[row["run"]].add_scalar(key, value, row["step"])

    try:
        yield listen
    finally:
        for writer in writers.values():
            writer.close()


@contextmanager
def wandb(name: str) -> Iterator[Callable[[Row], None]]:
    """A listener for `train` that logs to Weights & Biases, each run under its own prefix."""
    try:
        import wandb as weights_and_biases
    except ImportError:
        raise ValueError(
            "Weights & Biases needs the extra: pip install 'markovlens[wandb]'"
        ) from None
    session = weights_and_biases.init(project="markovlens", name=name)

    def listen(row: Row) -> None:
        prefix = f"run-{row['run']}-seed-{row['seed']}"
        named = {f"{prefix}/{key}": value for key, value in _plotted(row).items()}
        session.log(named | {"step": row["step"]})

    try:
        yield listen
    finally:
        session.finish()


def _plotted(row: Row) -> Row:
    return {k: v for k, v in row.items() if v is not None and k not in NOT_PLOTTED}

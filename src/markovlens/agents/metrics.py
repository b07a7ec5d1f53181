"""Metrics: one row for each run and interval of training."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from markovlens.agents.config import RunSpec

Row = dict[str, Any]

SCHEMA = {
    "run": pl.Int32,
    "seed": pl.Int64,
    "step": pl.Int64,
    "return": pl.Float64,  # of the episodes that ended in this interval; null if none did
    "discounted_return": pl.Float64,
    "length": pl.Float64,
    "episodes": pl.Int64,
    "discrepancy": pl.Float64,  # root mean square of v1 - v2, in units of reward
    "policy_loss": pl.Float64,
    "value_loss_1": pl.Float64,
    "value_loss_2": pl.Float64,
    "discrepancy_loss": pl.Float64,
    "entropy": pl.Float64,
    "kl": pl.Float64,
    "clip_fraction": pl.Float64,
    "gradient_norm": pl.Float64,
    "explained_variance_1": pl.Float64,
    "explained_variance_2": pl.Float64,
    "steps_per_second": pl.Float64,  # of all runs together
}


def rows_of(specs: Sequence[RunSpec], state: Any, done: int, speed: float) -> list[Row]:
    """The rows that the tallies in `state` (leaves [runs, ...]) amount to; none for runs that
    did nothing in the interval."""
    tally = jax.tree.map(np.asarray, state.watch.tally)
    rows = []
    for i, spec in enumerate(specs):
        of_run = jax.tree.map(lambda leaf, i=i: leaf[i], tally)
        if of_run.updates:
            row = {"run": i, "seed": spec.seed, "step": done * spec.config.batch_steps}
            rows.append(row | _averages(of_run) | {"steps_per_second": speed})
    return rows


def _averages(tally: Any) -> Row:
    progress = jax.tree.map(lambda leaf: leaf / tally.updates, tally.progress)
    ended = int(tally.episodes)
    second = len(progress.value_loss) > 1

    def per_episode(total: Any) -> float | None:
        return float(total) / ended if ended else None

    return {
        "return": per_episode(tally.total),
        "discounted_return": per_episode(tally.discounted),
        "length": per_episode(tally.length),
        "episodes": ended,
        "discrepancy": float(np.sqrt(progress.squared_difference)) if second else None,
        "policy_loss": float(progress.policy_loss),
        "value_loss_1": float(progress.value_loss[0]),
        "value_loss_2": float(progress.value_loss[1]) if second else None,
        "discrepancy_loss": float(progress.discrepancy_loss) if second else None,
        "entropy": float(progress.entropy),
        "kl": float(progress.kl),
        "clip_fraction": float(progress.clip_fraction),
        "gradient_norm": float(progress.gradient_norm),
        "explained_variance_1": float(progress.explained_variance[0]),
        "explained_variance_2": float(progress.explained_variance[1]) if second else None,
    }


def table_of(rows: Sequence[Row]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA)


def empty_tally(state: Any) -> Any:
    """The state with its tallies at zero."""
    zeros = jax.tree.map(jnp.zeros_like, state.watch.tally)
    return eqx.tree_at(lambda s: s.watch.tally, state, zeros)

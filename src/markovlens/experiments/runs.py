"""Training a unit of work, and boiling its metrics down to curves."""

import time
from collections.abc import Sequence

import polars as pl

from markovlens.experiments.claims import Claim
from markovlens.experiments.units import PlannedRun, Unit
from markovlens.experiments.worker import ClaimLost
from markovlens.files import write_parquet

POINTS = 200  # of a curve, at most
REPORT_SECONDS = 1.0

_PER_EPISODE = ("return", "discounted_return", "length")
_PER_UPDATE = (
    "discrepancy",
    "policy_loss",
    "value_loss_1",
    "value_loss_2",
    "discrepancy_loss",
    "entropy",
    "kl",
    "explained_variance_1",
    "explained_variance_2",
    "steps_per_second",
)


def train_unit(unit: Unit, claim: Claim) -> None:
    """Train a unit's runs together, from their checkpoint if there is one; write their curves.

    Runs that diverge are results too: their curves end there and are marked.
    """
    from markovlens.agents.folder import RunFolder
    from markovlens.agents.training import Diverged, train_together

    pairs = [(run.setting.config, run.seed) for run in unit.runs]
    steps = pairs[0][0].steps or 1
    last = float("-inf")

    def progress(done: float, status: str = "") -> None:
        nonlocal last
        if claim.lost:
            raise ClaimLost(unit.name)
        if time.monotonic() - last > REPORT_SECONDS:
            unit.report(min(done / steps, 1.0), status)
            last = time.monotonic()

    try:
        trained = train_together(pairs, out=unit.run_folder, progress=progress)
        metrics, diverged = trained.metrics, trained.diverged.tolist()
    except Diverged:
        found = RunFolder(unit.run_folder).metrics()
        assert found is not None
        metrics, diverged = found, [True] * len(pairs)
    write_parquet(unit.curves, curves_of(unit.runs, metrics, diverged))


def curves_of(
    runs: Sequence[PlannedRun],
    metrics: pl.DataFrame,
    diverged: Sequence[bool],
    points: int = POINTS,
) -> pl.DataFrame:
    """Metrics as curves of at most `points` points, with what was run in every row.

    Neighbouring rows become one: returns and lengths are averages over all episodes in them, all
    else is averaged over the rows.
    """
    weight = pl.col("episodes")
    per_episode = [
        (pl.col(name) * weight).sum().truediv(weight.sum()).alias(name) for name in _PER_EPISODE
    ]
    curves = []
    for i, run in enumerate(runs):
        rows = metrics.filter(pl.col("run") == i).sort("step")
        size = max(1, -(-rows.height // points))
        thin = (
            rows.with_row_index("row")
            .group_by(pl.col("row") // size, maintain_order=True)
            .agg(
                pl.col("step").last(),
                *per_episode,
                weight.sum(),
                *(pl.col(name).mean() for name in _PER_UPDATE),
            )
            .drop("row")
        )
        what = run.to_json() | {"options": run.setting.options_text}
        known = [pl.lit(value).alias(name) for name, value in what.items()]
        curves.append(thin.select(*known, pl.all(), pl.lit(diverged[i]).alias("diverged")))
    return pl.concat(curves)

"""Long runs: chunks of compiled updates, and between them metrics, checkpoints and signals."""

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import polars as pl

from markovlens.agents.config import PPOConfig, RunSpec
from markovlens.agents.folder import RunFolder
from markovlens.agents.host import HostProgram, closing, own_gamma, own_name, program_for
from markovlens.agents.metrics import Row, empty_tally, rows_of, table_of
from markovlens.agents.program import Program
from markovlens.agents.run import Run
from markovlens.agents.seeds import check_seed, check_seeds
from markovlens.envs.env import Env
from markovlens.progress import Advance, silent

ROWS = 1000  # of metrics a run, at most
SECONDS_PER_CHUNK = 1.0
SECONDS_PER_CHECKPOINT = 120.0
SECONDS_PER_METRICS = 10.0


class Diverged(RuntimeError):
    """Every run met a gradient that was not finite."""


def train(
    config: PPOConfig,
    seed: int = 0,
    *,
    seeds: Sequence[int] | None = None,
    env: Env | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Advance = silent,
    listeners: Sequence[Callable[[Row], None]] = (),
    checkpoint_seconds: float = SECONDS_PER_CHECKPOINT,
) -> Run:
    """Train an agent; several seeds train together.

    `env` is an environment of your own, instead of the one that `config.env` names (which then only
    says whose settings fill in what the config leaves open). With `out`, a
    folder, metrics and checkpoints are written there, and a folder that holds an
    unfinished run of the same config is continued, bit for bit. Ctrl-C, SIGTERM and an error in a
    Gymnasium environment leave a checkpoint behind.

    >>> run = train(PPOConfig(env="tmaze-5", algo="ld", steps=100_000), seed=0)  # doctest: +SKIP
    >>> run.metrics["return"].tail(1).item()  # doctest: +SKIP
    3.9
    """
    chosen = [check_seed(seed)] if seeds is None else check_seeds(seeds)
    return train_together(
        [(config, s) for s in chosen],
        env=env,
        out=out,
        progress=progress,
        listeners=listeners,
        checkpoint_seconds=checkpoint_seconds,
    )


def train_together(
    runs: Sequence[tuple[PPOConfig, int]],
    *,
    env: Env | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Advance = silent,
    listeners: Sequence[Callable[[Row], None]] = (),
    checkpoint_seconds: float = SECONDS_PER_CHECKPOINT,
) -> Run:
    """Train many (config, seed) pairs in one program; they may differ in their hyperparameters
    (`HYPERPARAMETERS`) and seeds only. Otherwise like `train`."""
    if not runs:
        raise ValueError("no runs to train: give at least one seed")
    specs = [RunSpec(complete(config, env), check_seed(seed)) for config, seed in runs]
    if len(set(specs)) < len(specs):
        raise ValueError("the same config and seed is asked for twice")
    folder = None if out is None else RunFolder(out)
    with closing(program_for(specs, env)) as program:
        jax.eval_shape(program.start)  # what cannot be made leaves no folder behind
        with folder.locked() if folder else nullcontext():
            if folder:
                folder.claim(specs)
            loop = _Loop(specs, program, env, folder, progress, listeners, checkpoint_seconds)
            with _stop_on_signals() as stop:
                loop.go(stop)
            return loop.run()


def complete(config: PPOConfig, env: Env | None = None) -> PPOConfig:
    """The config with nothing left open."""
    if not isinstance(config, PPOConfig):
        example = f"PPOConfig(env={config!r})" if isinstance(config, str) else "PPOConfig(env=...)"
        raise ValueError(f"config must be a PPOConfig, got {config!r}: write {example}")
    config = config.resolve()
    if env is not None:
        config = replace(config, env=own_name(env))
    if config.gamma is None:
        config = replace(config, gamma=own_gamma(config, env))
    return config


class _Loop:
    """The state of one call of `train`."""

    def __init__(
        self,
        specs: list[RunSpec],
        program: Program | HostProgram,
        env: Env | None,
        folder: RunFolder | None,
        progress: Advance,
        listeners: Sequence[Callable[[Row], None]],
        checkpoint_seconds: float,
    ):
        self.specs, self.env, self.folder, self.progress = specs, env, folder, progress
        self.listeners = listeners
        self.checkpoint_seconds = checkpoint_seconds
        self.config = specs[0].config
        self.program: Any = program
        self.state = self.program.start()
        self.done = 0  # updates
        self.rows: list[Row] = []
        self.seconds = 0.0  # spent training, in all calls
        self.finished_before = False
        if folder:
            self._recover(folder)

    def _recover(self, folder: RunFolder) -> None:
        found = folder.load(self.program.trim(self.state))
        if found is None:
            return
        state, self.done = found
        self.state = self.program.fill(state)
        step = self.done * self.config.batch_steps
        old = folder.metrics()
        if old is not None:
            self.rows = old.filter(pl.col("step") <= step).to_dicts()
        meta = folder.meta()
        self.seconds = float(meta.get("seconds", 0.0))
        self.finished_before = bool(meta.get("finished", False))

    def go(self, stop: threading.Event) -> None:
        total = self.config.n_updates
        per_row = -(-total // ROWS)
        chunk, found = 1, self.done
        written = self.done  # updates that the rows so far, or an earlier call, account for
        last_metrics = row_began = time.monotonic()
        last_save = -math.inf  # the first checkpoint comes with the first updates
        while self.done < total and not self._over:
            n = min(chunk, per_row - self.done % per_row, total - self.done)
            began = time.monotonic()
            self.state = self._after(n)
            self.done += n
            now = time.monotonic()
            self.seconds += now - began
            if now - began < SECONDS_PER_CHUNK / 2:
                chunk *= 2
            elif now - began > SECONDS_PER_CHUNK * 2:
                chunk = max(1, chunk // 2)
            if self.done % per_row == 0 or self.done == total or self._over:
                self._write_rows(self.done - written, now - row_began)
                written, row_began = self.done, now
            if stop.is_set():
                self._save()
                raise KeyboardInterrupt
            if self.folder and now - last_save >= self.checkpoint_seconds:
                self._save()
                last_save = last_metrics = now
            elif self.folder and now - last_metrics >= SECONDS_PER_METRICS:
                self.folder.write_metrics(table_of(self.rows))
                last_metrics = now
        if self.done > found or not self.finished_before:  # what made it stays written down
            self._save()

    def _after(self, updates: int) -> Any:
        """The state so many updates later. What was learnt before an environment that Python steps
        breaks off is saved first."""
        try:
            return jax.block_until_ready(self.program(self.state, updates))
        except ValueError as error:
            if not (isinstance(self.program, HostProgram) and self.folder and self.done):
                raise
            self._save()
            steps = self.done * self.config.batch_steps
            raise ValueError(
                f"{error}; what was learnt in {steps:,} steps is in {self.folder.path}"
            ) from error

    @property
    def _over(self) -> bool:
        """Whether no run can go on."""
        return bool(np.asarray(self.state.learner.diverged).all())

    def _write_rows(self, updates: int, seconds: float) -> None:
        speed = updates * self.config.batch_steps * len(self.specs) / max(seconds, 1e-9)
        new = rows_of(self.specs, self.state, self.done, speed)
        self.rows += new
        self.state = empty_tally(self.state)
        for row in new:
            for listen in self.listeners:
                listen(row)
        self.progress(self.done * self.config.batch_steps, _status(new))

    def _save(self) -> None:
        if not self.folder:
            return
        # Metrics first: rows beyond the checkpoint are dropped when the run goes on.
        self.folder.write_metrics(table_of(self.rows))
        state = self.program.trim(self.state)
        self.folder.save(state, self.done)
        self.folder.write_meta(
            seconds=self.seconds,
            steps=self.done * self.config.batch_steps,
            finished=self.done == self.config.n_updates,
            diverged=np.asarray(state.learner.diverged).tolist(),
        )

    def run(self) -> Run:
        """What was trained, as users get it."""
        learner = self.program.trim(self.state).learner
        diverged = np.asarray(learner.diverged)
        where = f"; the last good networks are in {self.folder.path}" if self.folder else ""
        if diverged.all():
            raise Diverged(
                "training diverged: a gradient was not finite" + where + "; try a smaller "
                "learning rate"
            )
        return Run(self.specs, learner.network, table_of(self.rows), diverged, self.env)


def _status(rows: Sequence[Row]) -> str:
    parts = []
    for name in ("return", "discrepancy"):
        known = [row[name] for row in rows if row[name] is not None]
        if known:
            parts.append(f"{name} {np.mean(known):.3g}")
    speed = rows[0]["steps_per_second"] if rows else None
    return " ".join([*parts, f"{speed:,.0f} steps/s"]) if speed else " ".join(parts)


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """Turn Ctrl-C and SIGTERM into a request to stop after the present chunk."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(s, lambda *_: stop.set()) for s in signals]
    try:
        yield stop
    finally:
        for s, handler in zip(signals, before, strict=True):
            signal.signal(s, handler)

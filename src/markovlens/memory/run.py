"""The stages of memory learning one after the other, for many runs at once, from any step on.

A run is one restart of one seed; run `i` is restart `i % restarts` of seed `i // restarts`.
"""

import os
from collections.abc import Sequence
from dataclasses import astuple
from hashlib import sha256
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from markovlens.memory.checkpoint import load_arrays, save_arrays
from markovlens.memory.config import MemoryConfig, Stage
from markovlens.memory.descent import Logits, advance, links_for, losses, most_discrepant, start
from markovlens.pomdp.model import Pomdp
from markovlens.progress import Advance

CHUNK = 250
FRESH_SCALE = 0.1


class MemoryRun:
    """Everything there is to know half-way: `step()` until `done`; saved and loaded by name.

    Call inside a float64 scope.
    """

    def __init__(
        self, pomdp: Pomdp, n_memory: int, seeds: Sequence[int], config: MemoryConfig
    ) -> None:
        self.pomdp, self.n_memory, self.config = pomdp, n_memory, config
        self.seeds = tuple(int(seed) for seed in seeds)
        self.stages = config.stages(n_memory)
        self.stage, self.steps_done = 0, 0
        self.restart = np.tile(np.arange(config.restarts), len(self.seeds))
        self.history: dict[str, list[np.ndarray]] = {stage: [] for stage in self.stages}
        self._keys = _keys(self.seeds, config.restarts)
        self.logits = self._first_logits()
        self.revealing = self.logits.policy
        self.initial_discrepancy = self._squared_discrepancies()
        self._optimiser_state: Any = None

    @property
    def done(self) -> bool:
        return self.stage == len(self.stages)

    @property
    def work(self) -> float:
        """Gradient steps of all runs together that are behind."""
        config = self.config
        of_seed = sum(config.runs(s) * config.steps(s) for s in self.stages[: self.stage])
        if not self.done:
            of_seed += config.runs(self.stages[self.stage]) * self.steps_done
        return float(len(self.seeds) * of_seed)

    def step(self) -> None:
        """Up to CHUNK gradient steps of the present stage."""
        stage = self.stages[self.stage]
        if self.steps_done == 0:
            self._enter(stage)
        members = self._members(stage)
        n_memory = self.logits.memory.shape[-1]  # 1 while the policy alone is sharpened
        steps = min(CHUNK, self.config.steps(stage) - self.steps_done)
        moved, self._optimiser_state, values = advance(
            stage,
            self.config.of_one_step,
            links_for(self.pomdp, n_memory, self.config.view),
            self.pomdp,
            jax.tree.map(lambda x: x[members], self.logits),
            self._optimiser_state,
            jnp.asarray(steps),
        )
        self.logits = jax.tree.map(lambda x, new: x.at[members].set(new), self.logits, moved)
        seen = np.full(len(self.restart), np.nan)
        seen[members] = np.asarray(values) * (1.0 if stage == "memory" else -1.0)
        self.history[stage].append(seen)
        self.steps_done += steps
        if self.steps_done == self.config.steps(stage):
            self._leave(stage)
            self.stage, self.steps_done = self.stage + 1, 0

    def returns(self) -> Float[np.ndarray, "B"]:
        """J of every run, as things stand."""
        return -np.asarray(losses("joint", self.config.of_one_step, self.pomdp, self.logits))

    def discrepancies(self) -> Float[np.ndarray, "B"]:
        """Λ of the revealing policies with the memories as they stand."""
        policy = _repeat(self.revealing, self.logits.memory.shape[-1])
        return np.sqrt(self._squared(Logits(policy, self.logits.memory)))

    def save(self, path: str | os.PathLike[str]) -> None:
        arrays = {f"history_{name}": np.array(rows) for name, rows in self.history.items() if rows}
        state = jax.tree.leaves(self._optimiser_state)
        arrays |= {f"optimiser_{i}": np.asarray(leaf) for i, leaf in enumerate(state)}
        save_arrays(
            path,
            arrays
            | {
                "position": np.array([self.stage, self.steps_done]),
                "restart": self.restart,
                "policy": np.asarray(self.logits.policy),
                "memory": np.asarray(self.logits.memory),
                "revealing": np.asarray(self.revealing),
                "initial_discrepancy": self.initial_discrepancy,
            },
            self._made_by(),
        )

    def load(self, path: str | os.PathLike[str]) -> None:
        """Go on from a saved run, if there is one."""
        arrays = load_arrays(path, self._made_by())
        if arrays is None:
            return
        self.stage, self.steps_done = (int(i) for i in arrays["position"])
        self.restart, self.initial_discrepancy = arrays["restart"], arrays["initial_discrepancy"]
        self.logits = Logits(jnp.asarray(arrays["policy"]), jnp.asarray(arrays["memory"]))
        self.revealing = jnp.asarray(arrays["revealing"])
        for name in self.history:
            self.history[name] = list(arrays.get(f"history_{name}", ()))
        if self.steps_done:
            like = self._start(self.stages[self.stage])
            leaves = [
                jnp.asarray(arrays[f"optimiser_{i}"]) for i in range(len(jax.tree.leaves(like)))
            ]
            self._optimiser_state = jax.tree.unflatten(jax.tree.structure(like), leaves)

    def _first_logits(self) -> Logits:
        """The first policies, each the most discrepant of many; and the memory it was chosen with:
        the random one, or that of a single state."""
        memory = self._random_memory() if self.config.random_memory else self._no_memory()
        if self.config.initial_policy == "uniform":
            n_observations, n_actions = self.pomdp.n_observations, self.pomdp.n_actions
            shape = (len(self.restart), n_observations, memory.shape[-1], n_actions)
            return Logits(jnp.zeros(shape), memory)
        keys = jax.vmap(lambda key: jax.random.fold_in(key, 0))(self._keys)
        return Logits(most_discrepant(self.config, self.pomdp, keys, memory), memory)

    def _squared_discrepancies(self) -> Float[np.ndarray, "B"]:
        return self._squared(self.logits)

    def _squared(self, logits: Logits) -> Float[np.ndarray, "B"]:
        return np.asarray(losses("memory", self.config.of_one_step, self.pomdp, logits))

    def _enter(self, stage: Stage) -> None:
        for_return = [s for s in self.stages if s not in ("reveal", "memory")]
        if [stage] == for_return[:1] and self.config.policy_start == "fresh":
            shape = (self.pomdp.n_observations, self.n_memory, self.pomdp.n_actions)
            self.logits = self.logits._replace(policy=FRESH_SCALE * self._normal(2, shape))
        if stage == "polish":
            self._keep_best_restarts()
        if stage != "reveal":
            self._grow()
        self._optimiser_state = self._start(stage)

    def _grow(self) -> None:
        """From no memory to a random one, and the policy to the same in all of its states."""
        policy, memory = self.logits
        if memory.shape[-1] != self.n_memory:
            memory = self._random_memory()
        self.logits = Logits(_repeat(policy, self.n_memory), memory)

    def _leave(self, stage: Stage) -> None:
        if stage == "reveal":
            self.revealing = self.logits.policy
            self.initial_discrepancy = self._squared_discrepancies()
        if self.stage + 1 == len(self.stages) and len(self.restart) > len(self.seeds):
            self._keep_best_restarts()

    def _keep_best_restarts(self) -> None:
        returns = self.returns().reshape(len(self.seeds), -1)
        best = np.where(np.isfinite(returns), returns, -np.inf).argmax(axis=1)
        kept = np.arange(len(self.seeds)) * returns.shape[1] + best
        self.logits = jax.tree.map(lambda x: x[kept], self.logits)
        self.revealing, self.restart = self.revealing[kept], self.restart[kept]
        self.initial_discrepancy = self.initial_discrepancy[kept]
        for rows in self.history.values():
            rows[:] = [row[kept] for row in rows]

    def _members(self, stage: Stage) -> Int[np.ndarray, "B"]:
        every = self.config.reveal_every if stage == "reveal" else 1
        return (
            np.flatnonzero(self.restart % every == 0) if every > 1 else np.arange(len(self.restart))
        )

    def _start(self, stage: Stage) -> object:
        members = self._members(stage)
        return start(
            stage, self.config.of_one_step, jax.tree.map(lambda x: x[members], self.logits)
        )

    def _no_memory(self) -> Float[Array, "B O A 1 1"]:
        return jnp.zeros((len(self.restart), self.pomdp.n_observations, self.pomdp.n_actions, 1, 1))

    def _random_memory(self) -> Float[Array, "B O A M M"]:
        shape = (self.pomdp.n_observations, self.pomdp.n_actions, self.n_memory, self.n_memory)
        return self.config.init_scale * self._normal(1, shape)

    def _normal(self, purpose: int, shape: tuple[int, ...]) -> Array:
        def draw(key: Array) -> Array:
            return jax.random.normal(jax.random.fold_in(key, purpose), shape)

        return jax.vmap(draw)(self._keys)

    def _made_by(self) -> str:
        """A fingerprint of everything that determines the run."""
        pomdp = [np.asarray(x).tobytes() for x in jax.tree.leaves(self.pomdp)]
        text = repr((astuple(self.config), int(self.n_memory), self.seeds)).encode()
        return sha256(b"".join([text, *pomdp])).hexdigest()


def run_to_the_end(
    run: MemoryRun, checkpoint: str | os.PathLike[str] | None, progress: Advance
) -> None:
    """Step until done, saving after every chunk; Ctrl-C loses at most one chunk."""
    if checkpoint is not None:
        run.load(checkpoint)
    while not run.done:
        stage = run.stages[run.stage]
        run.step()
        if checkpoint is not None:
            run.save(checkpoint)
        progress(run.work, stage)


def _keys(seeds: Sequence[int], restarts: int) -> Array:
    seed_keys = [jax.random.key(seed) for seed in seeds]
    return jnp.stack([jax.random.fold_in(key, r) for key in seed_keys for r in range(restarts)])


def _repeat(policy: Float[Array, "B O m A"], n_memory: int) -> Float[Array, "B O M A"]:
    """The same policy in every memory state, if it has none yet."""
    return policy if policy.shape[2] == n_memory else jnp.repeat(policy, n_memory, axis=2)

"""Learning a memory function in closed form: the paper's algorithms 1 to 3, and a better recipe."""

import os
from collections.abc import Sequence
from dataclasses import fields, replace

import jax
import numpy as np

from markovlens.memory.config import MemoryConfig
from markovlens.memory.config import recipe as recipe_named
from markovlens.memory.learned import LearnedMemory
from markovlens.memory.run import MemoryRun, run_to_the_end
from markovlens.names import unknown_name
from markovlens.pomdp.model import Pomdp
from markovlens.progress import Advance, silent
from markovlens.values.theorems import rounding


def learn_memory(
    pomdp: Pomdp,
    n_memory: int,
    seed: int = 0,
    recipe: str | MemoryConfig = "paper",
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Advance = silent,
    **changes: object,
) -> LearnedMemory:
    """Learn what to remember: minimise Λ(μ) = ‖Q⁰ - Q¹‖ of the POMDP with memory μ; then use it.

    Arguments:
        n_memory: number of memory states; 1 learns a memoryless policy by policy gradient.
        recipe: "paper", "best", or a `MemoryConfig`.
        checkpoint: an .npz file that the run is saved to after every few hundred steps; if it is
            there, the run goes on from it, with the same result as in one go.
        progress: told the gradient steps done, of `recipe.gradient_steps(n_memory)`.
        changes: fields of `MemoryConfig` to change, e.g. `memory_steps=1000`, `view="folded"`.

    >>> import markovlens as ml
    >>> tmaze = ml.library.tmaze(corridor=1)
    >>> found = learn_memory(tmaze, 2, recipe="best")  # doctest: +SKIP
    >>> float(found.value) > 3.2  # doctest: +SKIP
    True
    """
    found = learn_memories(
        pomdp, n_memory, [seed], recipe, checkpoint=checkpoint, progress=progress, **changes
    )
    return found[0]


def learn_memories(
    pomdp: Pomdp,
    n_memory: int,
    seeds: Sequence[int],
    recipe: str | MemoryConfig = "paper",
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Advance = silent,
    **changes: object,
) -> list[LearnedMemory]:
    """`learn_memory` for many seeds at once, which is faster than one by one."""
    config = _configured(recipe, changes)
    _check_inputs(pomdp, n_memory, seeds, config)
    with jax.enable_x64(True):
        run = MemoryRun(pomdp, n_memory, seeds, config)
        _check_discrepancy(run)
        run_to_the_end(run, checkpoint, progress)
        return _results(run)


def _configured(recipe: str | MemoryConfig, changes: dict[str, object]) -> MemoryConfig:
    config = recipe if isinstance(recipe, MemoryConfig) else recipe_named(recipe)
    known = {field.name for field in fields(MemoryConfig)}
    for name in changes:
        if name not in known:
            raise unknown_name("setting", name, known)
    return replace(config, **changes)  # type: ignore[arg-type]


def _check_inputs(pomdp: Pomdp, n_memory: int, seeds: Sequence[int], config: MemoryConfig) -> None:
    if not isinstance(n_memory, int | np.integer):
        raise ValueError(f"n_memory is a number of states, so a whole one: got {n_memory!r}")
    if n_memory < 1:
        raise ValueError(
            f"a memory needs at least one state, got n_memory = {n_memory}; 2 is one bit"
        )
    if not config.stages(n_memory):
        raise ValueError(
            "nothing to do: with one memory state only policy_steps, joint_steps and polish_steps "
            "count, and all are 0"
        )
    if not len(seeds):
        raise ValueError("no seeds were given; give at least one")
    if not np.asarray(pomdp.R).any():
        raise ValueError(
            "this model pays no reward, so every value is 0 and there is nothing to remember; "
            "give it rewards"
        )


def _check_discrepancy(run: MemoryRun) -> None:
    """No discrepancy, no gradient: better said than 20,000 steps spent on noise."""
    if not {"reveal", "memory"} & set(run.stages):
        return
    smallest = float(np.sqrt(run.initial_discrepancy.min()))
    if smallest > rounding(run.pomdp):
        return
    if run.config.random_memory:
        raise ValueError(
            "the λ-discrepancy is zero even with a random memory: the observations are Markov, "
            "as far as rewards can tell, and a memory would add nothing"
        )
    if run.config.initial_policy == "uniform":
        raise ValueError(
            "the λ-discrepancy of the uniform policy is zero; initial_policy='discrepancy' looks "
            "for a policy with more"
        )
    raise ValueError(
        f"the λ-discrepancy is zero for all {run.config.n_policies} random policies: either the "
        "observations are Markov and need no memory, or they hide it from every memoryless "
        "policy (as Parity Check does); random_memory=True (--random-memory) starts from a "
        "random memory, which tells the two apart"
    )


def _results(run: MemoryRun) -> list[LearnedMemory]:
    policy, memory = jax.nn.softmax(run.logits.policy), jax.nn.softmax(run.logits.memory)
    revealing = jax.nn.softmax(run.revealing)
    returns, discrepancies = run.returns(), run.discrepancies()
    if not np.isfinite(returns).all():
        seed = run.seeds[int(np.argmin(np.isfinite(returns)))]
        raise ValueError(
            f"learning diverged with seed {seed}: its return is not finite; lower learning_rate, "
            f"which is {run.config.learning_rate:g}"
        )
    history = {name: np.array(rows) for name, rows in run.history.items()}
    return [
        LearnedMemory(
            memory=memory[i],
            policy=policy[i],
            value=float(returns[i]),
            revealing_policy=revealing[i] if run.config.random_memory else revealing[i, :, 0],
            initial_discrepancy=float(np.sqrt(run.initial_discrepancy[i])),
            discrepancy=float(discrepancies[i]),
            history={
                name: rows[:, i] for name, rows in history.items() if not np.isnan(rows[:, i]).all()
            },
            restart=int(run.restart[i]),
            seed=seed,
            config=run.config,
        )
        for i, seed in enumerate(run.seeds)
    ]

"""`markovlens demo`: the five-minute tour."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markovlens.agents.run import Run


def demo(out: Path = Path("out/demo"), steps: int = 100_000, seeds: int = 4) -> None:
    """The five-minute tour: a maze that hides something, found out, remembered, and learned.

    Asks of samples alone whether the T-maze is Markov; looks inside to see why it is not; learns
    one bit of memory that mends it; trains three agents, with and without memory; and writes a
    page to look at. Interrupted, it goes on where it was.

    Example: markovlens demo

    Args:
        out: folder for the trained agents and the page.
        steps: environment steps to train each agent.
        seeds: how many of each agent to train.
    """
    from markovlens.agents.config import PPOConfig
    from markovlens.cli.runtime import prepare_jax

    if seeds < 1:
        raise ValueError(f"--seeds must be at least 1, got {seeds}")
    PPOConfig(steps=steps)  # refuses what the fourth chapter could not train with
    prepare_jax(n_parallel=seeds)
    _detect()
    _explain()
    _remember()
    _train(out, steps, range(seeds))
    _report(out)


def _detect() -> None:
    from markovlens.evidence.detect import detect

    _chapter("1. Is it Markov? Ask the data")
    print(
        "A T-maze: a coloured start, a corridor, a junction. Only the colour tells where to turn."
    )
    print("20,000 steps of a random agent, nothing else known:\n")
    print(detect("tmaze-5", gamma=0.9, steps=20_000, seed=1).explain())


def _explain() -> None:
    import markovlens as ml

    _chapter("2. Why not? Look inside, in closed form")
    tmaze = ml.library.tmaze()
    print(ml.explain(tmaze, ml.random_policy(tmaze, seed=1)))


def _remember() -> None:
    import markovlens as ml
    from markovlens.memory.config import RECIPES
    from markovlens.progress import progress_bar

    _chapter("3. What must be remembered? Learn one bit")
    tmaze = ml.library.tmaze()
    with progress_bar("memory", total=RECIPES["best"].gradient_steps(2)) as advance:
        found = ml.learn_memory(tmaze, 2, recipe="best", progress=advance)
    best = ml.solve(tmaze)
    print(
        f"λ-discrepancy: {found.initial_discrepancy:.3g} without, {found.discrepancy:.3g} with it"
    )
    print(f"value: {float(found.value):.4f} of {best.lower:.4f}, the most that any memory can earn")


def _train(out: Path, steps: int, seeds: range) -> None:
    from markovlens.agents.config import ALGOS, PPOConfig
    from markovlens.agents.training import train
    from markovlens.progress import progress_bar

    _chapter("4. Does it help an agent that learns from samples? Train three")
    for algo in ALGOS:
        config = PPOConfig(env="tmaze-5", algo=algo, steps=steps)
        with progress_bar(f"train {algo}", total=steps) as advance:
            run = train(config, seeds=list(seeds), out=out / algo, progress=advance)
        print(f"{algo:>10}: return {_last_return(run):.2f} (4 is the most, 1.95 without memory)")


def _report(out: Path) -> None:
    from markovlens.agents.config import ALGOS
    from markovlens.experiments.report import write_report

    _chapter("5. Look at it")
    page = write_report([out / algo for algo in ALGOS], out / "report.html", "The T-maze")
    print(f"Open {page.path}: curves, scores, and an episode to step through. It works offline.")


def _last_return(run: "Run") -> float:
    """The mean over seeds of the last returns seen."""
    rows = run.metrics.drop_nulls("return")
    return float(rows.filter(rows["step"] == rows["step"].max())["return"].to_numpy().mean())


def _chapter(title: str) -> None:
    print(f"\n{title}\n{'─' * len(title)}", flush=True)

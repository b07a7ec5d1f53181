"""`markovlens detect`: Markov or not, from an environment or logged data."""

from pathlib import Path
from typing import Annotated

import tyro

MARKOV, NOT_MARKOV, UNDECIDED = 0, 1, 3


def detect(
    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")],
    /,
    gamma: float | None = None,
    steps: int = 50_000,
    seed: int = 0,
    policy: str | None = None,
    trust: bool = False,
    mask: str = "",
    level: float = 0.05,
    tolerance: float = 0.1,
    replications: int = 200,
    probes: int = 8,
    frames: int = 8,
    json: bool = False,
    plot: Path | None = None,
) -> int:
    """Is the observation Markov, or is something hidden that values depend on?

    Prints a verdict with its effect size in units of the return, an interval, a p-value, what
    carries it, and what to try next. Exit code: 0 Markov, 1 not Markov, 3 undecided.

    Example: markovlens detect CartPole-v1 --mask 1,3 --plot cartpole.png

    Args:
        source: an environment (tmaze-5, FrozenLake-v1), a file (.npz, .parquet, .jsonl), or
            minari:DATASET.
        gamma: discount; by default the environment's own, or 0.99.
        steps: how many steps of an environment to take.
        seed: of everything random.
        policy: a Stable-Baselines3 model, "ALGO:model.zip" (needs --trust); by default random.
        trust: load the model, whose format can run code: only if you know where it comes from.
        mask: components of a vector observation to hide, as 1,3.
        level: of the test.
        tolerance: a discrepancy below this share of the return's standard deviation counts as none.
        replications: simulated copies behind the p-value.
        probes: random memories to try.
        frames: longest stack of observations to try as a remedy; 0 for none.
        json: print JSON instead of text.
        plot: write a picture to this file.
    """
    from markovlens.cli.output import print_json
    from markovlens.evidence.detect import detect as ask
    from markovlens.evidence.sources import open_source
    from markovlens.progress import progress_bar

    hidden = _components(mask)
    with progress_bar("detect", total=1.0) as advance:
        data, discount = open_source(source, steps, seed, policy, trust, gamma)
        if hidden:
            data = data.hide(hidden)
        found = ask(
            data,
            gamma=discount,
            seed=seed,
            level=level,
            tolerance=tolerance,
            replications=replications,
            probes=probes,
            frames=frames,
            advance=advance,
        )
    if plot is not None:
        from markovlens.evidence.plot import plot_detection

        plot_detection(found, plot)
    if json:
        print_json(found.to_dict())
    else:
        print(found.explain())
    return {True: MARKOV, False: NOT_MARKOV, None: UNDECIDED}[found.markov]


def _components(mask: str) -> list[int]:
    try:
        return [int(part) for part in mask.split(",") if part.strip()]
    except ValueError:
        raise ValueError(
            f"--mask takes component numbers separated by commas, as 1,3; got {mask!r}"
        ) from None

"""`markovlens detect`: Markov or not, from an environment or logged data."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from markovlens.evidence.policies import Policy

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
    rewards: bool = True,
    most: int = 2_000_000,
    json: bool = False,
    plot: Path | None = None,
) -> int:
    """Is the observation Markov, or is something hidden that values depend on?

    Prints a verdict with its effect size in units of the return, an interval, a p-value, what
    carries it, and what to try next. Exit code: 0 Markov, 1 not Markov, 3 undecided.

    Example: markovlens detect CartPole-v1 --mask 1,3 --plot cartpole.png

    Args:
        source: an environment (tmaze-5, FrozenLake-v1), a file (.npz, .parquet, .csv, .jsonl),
            or minari:DATASET.
        gamma: discount; by default the environment's own, or 0.99.
        steps: how many steps of an environment to take.
        seed: of everything random.
        policy: a run folder of `markovlens train` (its memory is cleared before every step), or a
            Stable-Baselines3 model, "ALGO:model.zip" (needs --trust); by default random.
        trust: load the model, whose format can run code: only if you know where it comes from.
        mask: components of a vector observation to hide, by number or name, as 1,3.
        level: of the test.
        tolerance: a discrepancy below this share of the return's standard deviation counts as none.
        replications: simulated copies behind the p-value.
        probes: random memories to try.
        frames: longest stack of observations to try as a remedy; 0 for none.
        rewards: count past rewards as part of the past; with --no-rewards, what shows only in them
            is taken for chance.
        most: of a log with more steps, look at this many, in episodes drawn at random.
        json: print JSON instead of text.
        plot: write a picture to this file.
    """
    from markovlens.cli.output import check_picture_name, print_json
    from markovlens.cli.runtime import prepare_jax
    from markovlens.evidence.detect import detect as ask
    from markovlens.evidence.finding import Settings
    from markovlens.evidence.sources import experience
    from markovlens.progress import progress_bar

    if plot is not None:
        check_picture_name(plot)
    Settings(1.0, level, tolerance, replications, probes)  # refused before any step is taken
    prepare_jax()
    actor = None if policy is None else _actor(policy, trust, seed)
    with progress_bar("collect", total=steps) as advance:
        data, discount, notes = experience(source, steps, seed, actor, gamma, advance, most)
    hidden = [data.entry(part.strip()) for part in mask.split(",") if part.strip()]
    if hidden:
        data = data.hide(hidden)
    with progress_bar("detect", total=1.0) as advance:
        answer = ask(
            data,
            gamma=discount,
            most=len(data),
            seed=seed,
            level=level,
            tolerance=tolerance,
            replications=replications,
            probes=probes,
            frames=frames,
            rewards=rewards,
            progress=advance,
        )
    answer = replace(answer, notes=(*notes, *answer.notes, *_mask_notes(actor, hidden)))
    if json:
        print_json(answer.to_dict())
    else:
        print(answer.explain())
    if plot is not None:
        from markovlens.evidence.plot import plot_detection

        plot_detection(answer, plot)
    return {True: MARKOV, False: NOT_MARKOV, None: UNDECIDED}[answer.markov]


def _actor(policy: str, trust: bool, seed: int) -> "Policy":
    """A run folder, or a model of Stable-Baselines3."""
    if not Path(policy).is_dir():
        from markovlens.evidence.sources import load_model

        return load_model(policy, trust, seed)
    from markovlens.agents.policy import RunPolicy
    from markovlens.agents.run import load_run

    return RunPolicy(load_run(policy))


def _mask_notes(actor: "Policy", hidden: list[int]) -> list[str]:
    """What the mask has to do with the policy."""
    seen = set(hidden) & set(getattr(actor, "kept", hidden))
    if actor is None or not seen:
        return []
    return [
        "the policy saw the components that are masked: what it does with them can by itself "
        "make the others not Markov"
    ]

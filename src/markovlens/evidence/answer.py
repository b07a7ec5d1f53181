"""What `detect` answers, in numbers and in words."""

from dataclasses import asdict, dataclass

import numpy as np

UNPAID = (
    "the observations predict themselves as far as was seen, but the reward (almost) never varied, "
    "so nothing is known of what it depends on: choose a policy under which it does"
)


@dataclass(frozen=True)
class Remedy:
    """The same question asked of stacked observations."""

    frames: int
    actions: int  # how many of the previous ones
    rewards: int
    markov: bool | None
    p_value: float
    discrepancy: float
    remembered: float  # what a memory of the past still adds
    upper: float

    @property
    def may_suffice(self) -> bool:
        """Whether not being able to tell says something: several actions soon come in so many ways
        that nothing can be told of them."""
        return self.markov is None and max(self.actions, self.rewards) <= 1

    @property
    def name(self) -> str:
        frames = "1 frame" if self.frames == 1 else f"{self.frames} frames"
        if self.actions == 0:
            return frames + (f" and {_previous('reward', self.rewards)}" if self.rewards else "")
        actions = _previous("action", self.actions)
        if self.rewards == 0:
            return f"{frames} and {actions}"
        return f"{frames}, {actions} and {'its reward' if self.rewards == 1 else 'their rewards'}"


@dataclass(frozen=True)
class Detection:
    """Whether observations are Markov, as far as the data can tell.

    `markov` is False if the test rejects, True if it does not and the discrepancy is bounded by
    `tolerance` times the standard deviation of the return, and None (undecided) otherwise.
    """

    markov: bool | None
    discrepancy: float  # ‖Q¹ − Q⁰‖ over the steps taken, in units of the return
    interval: tuple[float, float]
    p_value: float
    hypothesis: str  # what the p-value is against
    remembered: float  # the same with the memory that shows it best, or what that memory explains
    upper: float  # one-sided bound, with and without memory probes
    scale: float  # standard deviation of the return
    level: float
    tolerance: float
    revealed_by: str  # "values", "memory", or "rewards" if only a memory of rewards shows it
    shares: dict[str, float]  # of the discrepancy, by what carries it
    method: str  # "discrete" or "continuous"
    steps: int
    episodes: int
    gamma: float
    steps_needed: int | None  # when undecided, about how many would decide
    surrogate: bool  # the reward says nothing, so a function of the next observation was paid
    notes: tuple[str, ...]
    remedies: tuple[Remedy, ...]

    @property
    def verdict(self) -> str:
        return {True: "Markov", False: "not Markov", None: "undecided"}[self.markov]

    @property
    def advice(self) -> str:
        """What to try next."""
        if self.markov:
            return "no memory needed"
        if self.markov is None:
            if self.steps_needed is None:
                return UNPAID if self.surrogate else "see the notes"
            return f"collect about {_rounded(self.steps_needed):,} steps in all and ask again"
        advice = _remedy_advice(self.remedies, self.revealed_by == "rewards")
        return f"{advice} (the reward was not tested)" if self.surrogate else advice

    def to_dict(self) -> dict[str, object]:
        """Everything, as plain numbers, strings and lists."""
        remedies = [asdict(r) | {"name": r.name} for r in self.remedies]
        return asdict(self) | {
            "verdict": self.verdict,
            "advice": self.advice,
            "remedies": remedies,
        }

    def explain(self) -> str:
        """The answer in a few lines."""
        unit = self.scale if self.scale > 0.0 else 1.0
        low, high = self.interval
        lines = [
            f"{self.verdict}: {_reason(self)}",
            f"  λ-discrepancy  {self.discrepancy:.4g} in units of the return "
            f"({self.discrepancy / unit:.1%} of its standard deviation), "
            f"{1 - self.level:.0%} interval {low:.4g} to {high:.4g}",
            f"  with memory    {self.remembered:.4g} ({self.remembered / unit:.1%})",
            f'  p-value        {self.p_value:.3g} against "{self.hypothesis}"',
            f"  data           {self.steps:,} steps, {self.episodes:,} episodes, "
            f"gamma {self.gamma:g}, {self.method} observations",
        ]
        if self.markov is False and self.shares:
            top = list(self.shares.items())[:5]
            carried = ", ".join(f"{name} ({share:.0%})" for name, share in top)
            lines.append(f"  carried by     {carried}")
        width = max((len(remedy.name) for remedy in self.remedies), default=0)
        lines += [f"  with {r.name:<{width}}  {_remedy_line(r)}" for r in self.remedies]
        lines += [f"  note: {note}" for note in self.notes]
        lines.append(f"  next: {self.advice}")
        return "\n".join(lines)


def _previous(what: str, n: int) -> str:
    """
    >>> _previous("action", 1), _previous("action", 3)
    ('the previous action', 'the 3 previous actions')
    """
    return f"the previous {what}" if n == 1 else f"the {n} previous {what}s"


def _reason(found: Detection) -> str:
    if found.markov is False:
        if found.revealed_by == "rewards":
            return "values change when past rewards are remembered"
        if found.revealed_by == "memory":
            return "values change when a little of the past is remembered"
        return "TD and Monte Carlo values of the same observations differ"
    bound = found.upper / found.scale if found.scale > 0.0 else float("nan")
    if found.markov:
        return (
            f"no sign of hidden information; it could carry at most {bound:.1%} of the return's "
            "standard deviation"
        )
    if found.scale == 0.0:
        return "the return never varied, so nothing about it can be hidden or shown"
    if found.surrogate and found.steps_needed is None:
        return "no sign of hidden information in the observations, but the reward was not tested"
    if found.interval[0] > 0.0:
        return "TD and Monte Carlo values may differ, but not by more than copies of the data show"
    if bound <= found.tolerance:
        return "no sign of hidden information, but the data could hardly have shown any"
    return (
        f"no sign of hidden information, but {bound:.0%} of the return's standard deviation could "
        f"still hide (tolerance {found.tolerance:.0%})"
    )


def _remedy_line(remedy: Remedy) -> str:
    verdict = {True: "Markov", False: "not Markov", None: "cannot tell"}[remedy.markov]
    return f"{verdict}, p {remedy.p_value:.3g}, with memory {remedy.remembered:.4g}"


def _remedy_advice(remedies: tuple[Remedy, ...], rewards: bool) -> str:
    recurrent = "use a recurrent agent" + (" that sees its rewards" if rewards else "")
    if not remedies:
        return recurrent if rewards else f"stack observations or {recurrent}"
    for remedy in remedies:
        if remedy.markov:
            return f"{remedy.name} suffice"
    for remedy in remedies:
        if remedy.may_suffice:
            return (
                f"{remedy.name} may suffice, but this much data cannot show it; "
                f"collect more, or {recurrent}"
            )
    longest = max(remedy.frames for remedy in remedies)
    if not rewards and any(remedy.rewards for remedy in remedies):
        recurrent += ", perhaps one that sees its actions and rewards"
    elif not rewards and any(remedy.actions for remedy in remedies):
        recurrent += ", perhaps one that sees its actions"
    return f"needs memory beyond {'1 step' if longest == 1 else f'{longest} steps'}: {recurrent}"


def _rounded(number: int) -> int:
    """Two significant digits, upwards."""
    if number <= 10:
        return number
    unit = 10 ** (int(np.floor(np.log10(number))) - 1)
    return int(-(-number // unit) * unit)

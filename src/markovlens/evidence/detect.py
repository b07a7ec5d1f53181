"""Is my observation Markov? The question put to data, or to an environment."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from markovlens.evidence.answer import Detection, Remedy
from markovlens.evidence.continuous import continuous_evidence
from markovlens.evidence.discrete import Discrete, countable, discretise, numbered_pay
from markovlens.evidence.finding import Evidence, Settings, TooThin
from markovlens.evidence.inputs import pay_for_observations
from markovlens.evidence.null import tabular_evidence
from markovlens.evidence.policies import Policy
from markovlens.evidence.sources import DEFAULT_GAMMA, LONGEST_PIECE, MOST_STEPS, experience
from markovlens.evidence.stacking import PRESENT, Stack
from markovlens.evidence.trajectories import Trajectories
from markovlens.progress import Advance, silent

PIECES = 20  # at least this many independent pieces, or resampling them means nothing
INFORMATIVE_EPISODES = 30

# Stacks are many; each is tested with less effort than the question itself.
QUICK_REPLICATIONS = 60
QUICK_PROBES = 4


def detect(
    data_or_env: Any,
    gamma: float | None = 0.99,
    steps: int = 50_000,
    seed: int = 0,
    policy: Policy = None,
    *,
    level: float = 0.05,
    tolerance: float = 0.1,
    replications: int = 200,
    probes: int = 8,
    frames: int = 8,
    rewards: bool = True,
    most: int = MOST_STEPS,
    advance: Advance = silent,
) -> Detection:
    """Whether the observations in `data_or_env` are Markov, with a statistical test.

    Compares Monte Carlo with TD(0) values of the same observations (the λ-discrepancy), plainly
    and with random one-bit memories. If the observations turn out not Markov, asks again with the
    last 1 to `frames` of them stacked, without and with the previous action and, where past rewards
    may tell something, with both (only so, if nothing else shows it).

    Arguments:
        data_or_env: `Trajectories`; an environment, ours or Gymnasium's; or the name or path of
            one (see `sources.resolve`).
        gamma: discount of the values compared; None takes the environment's own.
        steps, seed, policy: how an environment is sampled (see `collect`); a policy must act on
            the observation it is shown, without memory of its own.
        level: of the test, and one minus the confidence of the interval.
        tolerance: a discrepancy below this share of the return's standard deviation counts as
            none.
        replications: simulated copies behind the p-value, which is never below 1/(1+replications);
            for discrete observations only.
        probes: how many random memories to try; for discrete observations only.
        frames: the longest stack to try; 0 for none.
        rewards: whether the past has rewards in it, as well as observations and actions. If False,
            something hidden that shows only in past rewards counts as chance.
        most: of data with more steps, this many are looked at, in episodes drawn at random.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> coins = Trajectories(observation=rng.integers(0, 2, 4000), action=np.zeros(4000, int),
    ...                      reward=rng.normal(size=4000), terminated=np.arange(4000) % 4 == 3)
    >>> detect(coins, gamma=0.9, replications=50).verdict
    'Markov'
    """
    usual = DEFAULT_GAMMA if gamma is None else gamma
    settings = Settings(usual, level, tolerance, replications, probes, rewards)  # checked at once
    data, gamma, drawn = experience(data_or_env, steps, seed, policy, gamma, most=most)
    settings = replace(settings, gamma=gamma)
    if gamma == 1.0 and not data.terminated.any():
        raise ValueError("no episode ever ends, so with gamma = 1 no value is finite; say 0.99")
    rng = np.random.default_rng([seed, 1])
    notes, informative = _notes(data)
    notes = [*drawn, *notes]
    pieces = data.cut(max(1, min(len(data) // PIECES, LONGEST_PIECE)))
    if pieces.n_episodes < 4:
        raise ValueError(f"{len(data)} steps are too few to say anything; give a few thousand")
    discrete = countable(data)
    surrogate = not informative and not discrete
    if surrogate:
        pieces = pieces.replace(reward=pay_for_observations(data, rng).reward)
        settings = replace(settings, rewards=False)
        notes.append("so the question was asked of the observations: do they predict themselves?")
    question = _Question(settings, discretise(pieces) if discrete else pieces, rng)
    evidence = question.ask(advance=advance)
    found = question.verdict(evidence)
    markov = None if found and not informative else found
    steps_needed = None
    if informative or surrogate:
        steps_needed = _steps_needed(found, evidence, settings, len(data))
    if evidence.thin:
        notes.append(
            "most observations were seen only a few times: so the test can find something hidden, "
            "but not that there is nothing"
        )
    only_rewards = markov is False and question.only_rewards_show(evidence)
    remedies: tuple[Remedy, ...] = ()
    if markov is False and frames > 0:
        remedies = _remedies(question, frames, _stacks_for(evidence.rewards, only_rewards))
    return Detection(
        markov=markov,
        discrepancy=evidence.discrepancy.value,
        interval=evidence.discrepancy.interval,
        p_value=evidence.p_value,
        hypothesis=evidence.hypothesis,
        remembered=evidence.remembered,
        upper=evidence.upper,
        scale=evidence.scale,
        level=level,
        tolerance=tolerance,
        revealed_by="rewards" if only_rewards else evidence.revealed_by,
        shares=evidence.shares,
        method="discrete" if discrete else "continuous",
        steps=len(data),
        episodes=data.n_episodes,
        gamma=gamma,
        steps_needed=steps_needed,
        surrogate=surrogate,
        notes=tuple(notes),
        remedies=remedies,
    )


@dataclass(frozen=True)
class _Question:
    """The test that suits the observations, with its settings."""

    settings: Settings
    data: Discrete | Trajectories
    rng: np.random.Generator

    def ask(self, stack: Stack = PRESENT, advance: Advance = silent) -> Evidence:
        if isinstance(self.data, Discrete):
            return tabular_evidence(stack.numbers(self.data), self.settings, self.rng, advance)
        return continuous_evidence(self.data, self.settings, self.rng, stack, advance)

    def verdict(self, evidence: Evidence) -> bool | None:
        if evidence.scale == 0.0:
            return None
        if evidence.p_value <= self.settings.level:
            return False
        unseen = evidence.discrepancy.interval[0] == 0.0
        small = evidence.upper <= self.settings.tolerance * evidence.scale
        return True if unseen and small and not evidence.thin else None

    def only_rewards_show(self, evidence: Evidence) -> bool:
        """Whether the test, which rejects, would not if past rewards were left out."""
        if not evidence.rewards:
            return False
        p_value = evidence.p_without_rewards
        if p_value is None:
            without = replace(self, settings=replace(self.settings, rewards=False))
            try:
                p_value = without.ask().p_value
            except TooThin:  # there is no other past
                return True
        return p_value > self.settings.level

    def quickly(self) -> "_Question":
        settings = self.settings
        enough = max(QUICK_REPLICATIONS, settings.fewest_replications)
        less = replace(
            settings,
            replications=min(settings.replications, enough),
            probes=min(settings.probes, QUICK_PROBES),
            resamples=0,
        )
        return replace(self, settings=less)


def _steps_needed(
    markov: bool | None, evidence: Evidence, settings: Settings, steps: int
) -> int | None:
    """Noise in a discrepancy falls with the square root of the steps."""
    if markov is not None or evidence.scale == 0.0:
        return None
    share = evidence.upper / (settings.tolerance * evidence.scale)
    return int(np.ceil(steps * max(share, 1.5) ** 2))


def _notes(data: Trajectories) -> tuple[list[str], bool]:
    """What limits the data; and whether enough happened in them to learn from.

    Something happens where a step is not paid what steps usually are, and where an episode that is
    usually paid is over.
    """
    kinds, pay = numbered_pay(data.reward)
    usual = np.bincount(pay).argmax()
    happened = (pay != usual) | (data.terminated & (kinds[usual] != 0.0))
    if not happened.any():
        return ["every step of every episode paid the same: choose another policy or reward"], False
    eventful = int(np.logical_or.reduceat(happened, data.start).sum())
    if data.n_episodes >= INFORMATIVE_EPISODES > eventful:
        return [
            f"only {eventful} of {data.n_episodes} episodes were paid differently from the rest: "
            "this policy hardly ever reaches what matters; choose another, or collect more"
        ], False
    return [], True


def _stacks_for(rewards: bool, only_rewards: bool) -> tuple[Stack, ...]:
    """What to add to the observation, the simplest first, where past rewards might tell something,
    or where they alone do."""
    plain, with_action = PRESENT, Stack(previous_action=True)
    with_reward = Stack(previous_action=True, previous_reward=True)
    if only_rewards:
        return (with_reward,)
    return (plain, with_action, with_reward) if rewards else (plain, with_action)


def _remedies(question: _Question, frames: int, kinds: tuple[Stack, ...]) -> tuple[Remedy, ...]:
    """Longer and longer stacks until one is Markov, or the data are too thin to tell."""
    found: list[Remedy] = []
    quick = question.quickly()
    for k in range(1, frames + 1):
        tried = []
        for stack in (replace(kind, frames=k) for kind in kinds):
            if stack == PRESENT:
                continue
            try:
                evidence = quick.ask(stack)
            except TooThin:  # episodes are shorter than this, or rewards too many to be counted
                continue
            tried.append(
                Remedy(
                    frames=k,
                    previous_action=stack.previous_action,
                    previous_reward=stack.previous_reward,
                    markov=quick.verdict(evidence),
                    p_value=evidence.p_value,
                    discrepancy=evidence.discrepancy.value,
                    remembered=evidence.remembered,
                    upper=evidence.upper,
                )
            )
        found += tried
        if not tried or any(remedy.markov is not False for remedy in tried):
            break
    return tuple(found)

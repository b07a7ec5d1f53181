"""Is my observation Markov? The question put to data, or to an environment."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from markovlens.evidence.answer import Detection, Remedy
from markovlens.evidence.continuous import continuous_evidence
from markovlens.evidence.discrete import Discrete, countable, discretise, numbered_pay, visited
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
MOST_STACKS = 1000  # kinds, with several actions or rewards; of plain ones there are far fewer


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
    progress: Advance = silent,
) -> Detection:
    """Whether the observations in `data_or_env` are Markov, with a statistical test.

    Compares Monte Carlo with TD(0) values of the same observations (the λ-discrepancy), plainly
    and with random one-bit memories. If the observations turn out not Markov, asks again with the
    last 1 to `frames` of them stacked: alone, with the previous action, with as many actions as
    frames and, where past rewards may tell something, with as many rewards too (only so, if nothing
    else shows it).

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
        progress: told how far it is, between 0 and 1.

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
    evidence = question.ask(advance=progress)
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
    if not evidence.by_action:
        notes.append(
            "actions are of so many kinds that each was seen only a few times with an observation: "
            "the test is of observations, whatever was done"
        )
    whole = discrete and np.issubdtype(data.observation.dtype, np.integer)
    if evidence.thin and whole and data.observation.ndim == 1:
        notes.append(
            "whole numbers are taken for names of observations; if these are quantities, give them "
            "as 1.0, not 1"
        )
    only_rewards = markov is False and question.only_rewards_show(evidence)
    remedies: tuple[Remedy, ...] = ()
    if markov is False:
        lengths = range(1, frames + 1)
        actions = bool((data.action != data.action[0]).any())
        tries = [_stacks_of(k, actions, evidence.rewards, only_rewards) for k in lengths]
        remedies = _remedies(question, tries)
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
            data = stack.numbers(self.data)
            if max(stack.actions, stack.rewards) > 1:
                _check_kinds(data.n_observations, len(data.reward))
            return tabular_evidence(data, self.settings, self.rng, advance)
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


def _check_kinds(stacks: int, steps: int) -> None:
    """Several actions or rewards soon come in more ways than can be counted, or in good time."""
    if stacks > MOST_STACKS or not visited(stacks, steps):
        raise TooThin(f"{stacks} kinds of stacks are too many for {steps} steps")


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


def _stacks_of(frames: int, actions: bool, rewards: bool, only_rewards: bool) -> list[Stack]:
    """Stacks to try, the simplest first, where actions or past rewards might tell something, or
    where rewards alone do."""
    with_rewards = Stack(frames, frames if actions else 0, frames)
    if only_rewards:
        return [with_rewards]
    stacks = [Stack(frames)]
    if actions:
        stacks += [Stack(frames, n) for n in sorted({1, frames})]
    stacks += [with_rewards] if rewards else []
    return [stack for stack in stacks if stack != PRESENT]


def _remedies(question: _Question, tries: list[list[Stack]]) -> tuple[Remedy, ...]:
    """Longer and longer stacks until one is Markov, or the data are too thin to tell."""
    found: list[Remedy] = []
    for stacks in tries:
        tried = _ask_about(question, stacks)
        found += tried
        if any(remedy.markov or remedy.may_suffice for remedy in tried):
            break
    return tuple(found)


def _ask_about(question: _Question, stacks: list[Stack]) -> list[Remedy]:
    """Each stack quickly; those that seem to suffice again, with the whole effort.

    What suffices would suffice with more of the past beside it. So a stack does not if one that
    holds it is rejected, again with the whole effort, and at a level for as many as are asked.
    """
    quick = question.quickly()
    found: dict[Stack, Evidence] = {}
    for stack in stacks:
        try:
            found[stack] = quick.ask(stack)
        except TooThin:  # episodes are shorter than this, or it comes in too many kinds
            continue
    quickly = {stack: quick.verdict(evidence) for stack, evidence in found.items()}
    verdicts = dict(quickly)
    for stack in (stack for stack, markov in quickly.items() if markov):
        found[stack] = question.ask(stack)
        verdicts[stack] = question.verdict(found[stack])
        for other in (other for other, markov in quickly.items() if markov is False):
            if other.holds(stack) and verdicts[stack]:
                found[other] = question.ask(other)
                if found[other].p_value <= question.settings.level / len(stacks):
                    verdicts[stack] = False
    return [_remedy(stack, verdicts[stack], evidence) for stack, evidence in found.items()]


def _remedy(stack: Stack, markov: bool | None, evidence: Evidence) -> Remedy:
    return Remedy(
        frames=stack.frames,
        actions=stack.actions,
        rewards=stack.rewards,
        markov=markov,
        p_value=evidence.p_value,
        discrepancy=evidence.discrepancy.value,
        remembered=evidence.remembered,
        upper=evidence.upper,
    )

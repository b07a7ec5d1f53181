"""The paper's theorems as checks one can call, and an explanation in words.

Which case is a POMDP? Looking outwards from the policy spread K:
  block MDP            every observation comes from one state, ΦW = I           (theorem 2)
  equivalent MDP       states are confused, but T hides it: TΠ^S = TΦW^Π
  projected away       neither holds, yet W and R cancel the rest: Parity Check
  partially observable the discrepancy is non-zero for almost every policy      (theorem 1)
"""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from markovlens.pomdp.model import Pomdp
from markovlens.pomdp.policies import random_policy, uniform_policy
from markovlens.values.discrepancy import discrepancy_by_observation, lambda_discrepancy
from markovlens.values.inputs import check_policy_and_memory
from markovlens.values.occupancy import state_weights
from markovlens.values.td_lambda import state_values

Case = Literal["block MDP", "equivalent MDP", "projected away", "partially observable"]

N_POLICIES = 20
TOLERANCE = 1e-9


def is_block_mdp(pomdp: Pomdp) -> bool:
    """Whether every observation that can be seen comes from exactly one state: ΦW = I. All ends of
    an episode are one."""
    reached = _reachable(pomdp)
    emits = np.asarray(pomdp.Phi)[reached] > 0.0
    over = np.asarray(pomdp.terminal)[reached]
    sources = emits[~over].sum(axis=0) + emits[over].any(axis=0)
    return bool((sources <= 1).all())


def transition_policies_match(pomdp: Pomdp, policy: ArrayLike | None = None, seed: int = 0) -> bool:
    """Whether TΠ^S = TΦW^Π: the POMDP is an MDP in disguise.

    For the given policy, or else for random ones, which stand for all: the
    condition is analytic in the policy.
    """
    policies = _random_policies(pomdp, seed) if policy is None else np.asarray(policy)[None]
    T = np.asarray(pomdp.T)[:, _reachable(pomdp)]
    Phi = np.asarray(pomdp.Phi)
    for pi in policies:
        weights = np.asarray(state_weights(pomdp, pi))
        for a in range(pomdp.n_actions):
            seen = Phi * pi[:, a]  # Φ(o|s) π(a|o)
            difference = np.diag(seen.sum(axis=1)) - seen @ weights
            if np.abs(T @ difference).max() > TOLERANCE:
                return False
    return True


def zero_for_all_policies(pomdp: Pomdp, seed: int = 0) -> bool:
    """Whether the λ-discrepancy is zero for every policy, judged by random ones.

    By theorem 1 it is zero for all policies or for almost none, so one random
    policy would do but for rounding; twenty are tried.
    """
    policies = _random_policies(pomdp, seed)
    found = jax.vmap(lambda policy: lambda_discrepancy(pomdp, policy))(policies)
    return bool(np.asarray(found).max() <= rounding(pomdp))


@dataclass(frozen=True)
class Confused:
    """An observation that carries discrepancy, and the states it may stand for."""

    observation: str
    share: float  # of the squared discrepancy
    states: dict[str, float]  # W(s | o), most likely first


@dataclass(frozen=True)
class Explanation:
    """What kind of observability a POMDP has under a policy; `str()` says it in words."""

    case: Case
    discrepancy: float
    confused: tuple[Confused, ...]

    def __str__(self) -> str:
        lines = [_CASES[self.case]]
        if self.case == "partially observable":
            if self.discrepancy > 0.0:
                lines.append(
                    f"Under this policy ‖Q⁰ − Q¹‖ (l2, policy-weighted) is {self.discrepancy:.6g}."
                )
            else:
                lines.append(
                    "Under this particular policy it happens to be zero; "
                    "almost every other policy shows it."
                )
        for item in self.confused:
            states = ", ".join(f"{name} {share:.0%}" for name, share in item.states.items())
            lines.append(
                f"  {item.observation} carries {item.share:.0%} of it; it may be: {states}"
            )
        return "\n".join(lines)


_CASES: dict[Case, str] = {
    "block MDP": (
        "Every observation comes from one hidden state (ΦW = I): a block MDP. "
        "Observations are Markov, nothing need be remembered."
    ),
    "equivalent MDP": (
        "Observations confuse hidden states, but the transitions lead to the confused states in "
        "fixed proportions (TΠ = TΦW): the POMDP is equivalent to an MDP, "
        "nothing need be remembered."
    ),
    "projected away": (
        "Observations confuse hidden states, yet the λ-discrepancy is zero for every policy: the "
        "differences cancel in the values. The discrepancy cannot tell whether memory would help; "
        "add a random memory and measure again."
    ),
    "partially observable": (
        "Observations are not Markov: TD and Monte Carlo values differ for almost every policy."
    ),
}


def explain(pomdp: Pomdp, policy: ArrayLike) -> Explanation:
    """Which of the paper's cases holds, which observations carry the discrepancy, and why.

    >>> import markovlens as ml
    >>> tmaze = ml.library.tmaze()
    >>> ml.explain(tmaze, ml.random_policy(tmaze)).case
    'partially observable'
    """
    check_policy_and_memory(pomdp, policy, None)
    if is_block_mdp(pomdp):
        return Explanation("block MDP", 0.0, ())
    if transition_policies_match(pomdp):
        return Explanation("equivalent MDP", 0.0, ())
    if zero_for_all_policies(pomdp):
        return Explanation("projected away", 0.0, ())
    discrepancy = float(lambda_discrepancy(pomdp, policy))
    if discrepancy <= rounding(pomdp):
        return Explanation("partially observable", 0.0, ())
    return Explanation("partially observable", discrepancy, _confused(pomdp, policy))


def _confused(pomdp: Pomdp, policy: ArrayLike) -> tuple[Confused, ...]:
    squares = np.asarray(discrepancy_by_observation(pomdp, policy)) ** 2
    shares = squares / squares.sum()
    weights = np.asarray(state_weights(pomdp, policy))
    return tuple(
        Confused(
            pomdp.observations[o],
            float(shares[o]),
            {
                pomdp.states[s]: float(weights[o, s])
                for s in np.argsort(-weights[o], kind="stable")
                if weights[o, s] > 0.005
            },
        )
        for o in np.argsort(-shares, kind="stable")
        if shares[o] > 0.005
    )


def rounding(pomdp: Pomdp) -> float:
    """Below this, in units of the return, a difference of values is rounding.

    Values that add up over many steps are as much less exact as there are steps.
    """
    largest = float(np.abs(np.asarray(pomdp.R)).max())
    values = float(np.abs(np.asarray(state_values(pomdp, uniform_policy(pomdp)))).max())
    steps = values / max(largest, np.finfo(float).tiny)
    by_steps = 10.0 * np.finfo(float).eps * steps * values
    return max(TOLERANCE * largest / (1.0 - min(float(pomdp.gamma), 0.999)), float(by_steps))


def _reachable(pomdp: Pomdp) -> np.ndarray:
    """Indices of the states that some policy visits."""
    leads_to: np.ndarray = np.max(np.asarray(pomdp.T), axis=0) > 0.0
    found = np.asarray(pomdp.p0) > 0.0
    while (more := found | leads_to[found].any(axis=0)).sum() > found.sum():
        found = more
    return np.flatnonzero(found)


def _random_policies(pomdp: Pomdp, seed: int) -> np.ndarray:
    return np.asarray(jax.vmap(lambda s: random_policy(pomdp, s))(seed + jnp.arange(N_POLICIES)))

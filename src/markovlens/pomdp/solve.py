"""The best that any agent can do, whatever it remembers: bounds, alpha vectors, a policy."""

from dataclasses import dataclass
from math import log
from time import monotonic

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from markovlens.pomdp.beliefs import BeliefPolicy
from markovlens.pomdp.model import Pomdp
from markovlens.pomdp.solver.initial import largest_pay
from markovlens.pomdp.solver.lump import lump
from markovlens.pomdp.solver.search import Bounds, Search
from markovlens.progress import Advance, silent

# Where the value is nearly 0 a share of it cannot be reached; this share of what is paid can.
SMALLEST_VALUE = 1e-3


@dataclass(frozen=True, eq=False)
class Solution:
    """Between which numbers the optimal value lies, and a policy that reaches the lower one.

    Attributes:
        lower: value of `policy`, with the first observation seen before the first action.
        upper: no policy is worth more.
        alphas: values of plans `alphas[k, s]`; `max_k α_k·b` bounds the value of belief `b`
            from below.
        actions: the first action of each plan.
        then: the plan to go on with after each observation, `then[k, o]`: with `actions` a
            finite-state controller that needs no beliefs.
        policy: acts by the best alpha vector at its belief.
        converged: whether the gap is as small as was asked for.
        interrupted: whether it was Ctrl-C that ended the search.
        seconds: time taken.
        beliefs: number of beliefs looked at.
    """

    lower: float
    upper: float
    alphas: Float[Array, "K S"]
    actions: Int[np.ndarray, "K"]
    then: Int[np.ndarray, "K O"]
    policy: BeliefPolicy
    converged: bool
    interrupted: bool
    seconds: float
    beliefs: int

    @property
    def gap(self) -> float:
        """`upper − lower`."""
        return self.upper - self.lower


def solve(
    pomdp: Pomdp, tol: float = 1e-3, time: float | None = None, progress: Advance = silent
) -> Solution:
    """Bounds on the value of the best policy over all histories.

    The agent sees `o₀` before it acts, so the value is `Σ_o Pr(o|p0) V*(b_o)`. Point-based: plans
    (alpha vectors) from below, the convex hull of values at single beliefs from above, beliefs
    chosen where the two are apart. Ctrl-C gives the best bounds so far.

    Arguments:
        tol: stop when the gap is at most this share of the value.
        time: or when this many seconds have passed.
        progress: told how far it is, between 0 and 1, and the bounds.

    >>> import numpy as np
    >>> guess = Pomdp(T=np.ones((2, 2, 2)) / 2, R=np.eye(2), Phi=[[0.9, 0.1], [0.1, 0.9]],
    ...               p0=[0.5, 0.5], gamma=0.5)
    >>> solution = solve(guess)
    >>> round(solution.lower, 6), round(solution.upper, 6)
    (1.8, 1.8)
    """
    if not tol > 0.0:
        raise ValueError(f"tol must be positive, got {tol:g}; 1e-3 is a good start")
    if time is not None and not time > 0.0:
        raise ValueError(f"time must be a positive number of seconds, got {time:g}")
    started = monotonic()
    model = lump(pomdp)
    search = Search(model)
    first = bounds = search.bounds
    scale = SMALLEST_VALUE * largest_pay(model)
    interrupted = False
    try:
        while not _close(bounds, tol, scale):
            if time is not None and monotonic() - started > time:
                break
            search.round(_target(bounds, tol, scale))
            bounds = search.bounds
            progress(_share_done(first, bounds, tol, scale), _describe(bounds))
    except KeyboardInterrupt:
        interrupted = True
    alphas = bounds.plans.vectors[:, model.class_of]
    with jax.enable_x64(True):
        jax_alphas = jnp.asarray(alphas)
    return Solution(
        lower=bounds.lower,
        upper=max(bounds.lower, bounds.upper),
        alphas=jax_alphas,
        actions=bounds.plans.action,
        then=bounds.plans.then,
        policy=BeliefPolicy(pomdp, alphas, bounds.plans.action),
        converged=_close(bounds, tol, scale),
        interrupted=interrupted,
        seconds=monotonic() - started,
        beliefs=search.n_beliefs,
    )


def _target(bounds: Bounds, tol: float, scale: float) -> float:
    """The gap to reach: a share of the value, whichever of the two bounds it will be near."""
    between = bounds.lower <= 0.0 <= bounds.upper
    value = 0.0 if between else min(abs(bounds.lower), abs(bounds.upper))
    return tol * max(value, scale)


def _close(bounds: Bounds, tol: float, scale: float) -> bool:
    return bounds.upper - bounds.lower <= _target(bounds, tol, scale)


def _share_done(first: Bounds, now: Bounds, tol: float, scale: float) -> float:
    """How much of the way from the first gap to the last is done, counted in factors."""
    target = max(_target(now, tol, scale), 1e-300)
    start = max(first.upper - first.lower, target)
    gap = min(max(now.upper - now.lower, target), start)
    return 1.0 if start <= target else log(start / gap) / log(start / target)


def _describe(bounds: Bounds) -> str:
    gap = bounds.upper - bounds.lower
    return f"{bounds.lower:.6g} ≤ value ≤ {bounds.upper:.6g} (gap {gap:.2g})"

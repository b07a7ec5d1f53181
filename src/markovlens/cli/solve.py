"""`markovlens solve`: the best value any agent can reach in a model."""

from math import ceil, log
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from markovlens.pomdp.solve import Solution

CUT_OFF = 1e-4  # share of the discounted weights that lies beyond the simulated steps
LONGEST = 10_000  # steps to simulate when nothing is discounted


def solve(
    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")],
    tol: float = 1e-3,
    time: float | None = None,
    simulate: int = 0,
    save: Path | None = None,
    json: bool = False,
) -> None:
    """The value of the best policy over all histories, between a lower and an upper bound.

    The first observation is seen before the first action. Ctrl-C stops and prints the best bounds
    so far.

    Example: markovlens solve tiger --tol 1e-4 --simulate 10000

    Args:
        model: a name of the library (see `markovlens models`) or the path of a POMDP file.
        tol: stop when the gap between the bounds is at most this share of the value.
        time: or after this many seconds.
        simulate: also run the policy found for this many episodes; the mean return, with its 95%
            interval.
        save: write the alpha vectors and the finite-state controller to this .npz file.
        json: print JSON instead of a table.
    """
    from markovlens.cli.output import print_json, print_table
    from markovlens.cli.runtime import prepare_jax
    from markovlens.progress import progress_bar

    if simulate < 0:
        raise ValueError(f"--simulate needs a number of episodes, got {simulate}")
    prepare_jax()
    from markovlens.pomdp import library
    from markovlens.pomdp.solve import solve as solve_pomdp

    pomdp = library.resolve(model)
    with progress_bar(f"solve {model}", total=1.0) as advance:
        solution = solve_pomdp(pomdp, tol=tol, time=time, progress=advance)
    rows = {
        "lower": solution.lower,
        "upper": solution.upper,
        "gap": solution.gap,
        "converged": solution.converged,
        "alpha_vectors": len(solution.actions),
        "beliefs": solution.beliefs,
        "seconds": solution.seconds,
    }
    if simulate:
        rows |= _simulated(solution, simulate)
    if save:
        _save(solution, save)
    if json:
        print_json(rows)
        return
    named = {name.replace("_", " "): value for name, value in rows.items()}
    print_table([{"quantity": name, "value": value} for name, value in named.items()])
    if not solution.converged:
        print(f"stopped before the gap was {tol:g} of the value; more --time makes it smaller")


def _simulated(solution: "Solution", episodes: int) -> dict[str, float]:
    from markovlens.agents.interval import mean_interval
    from markovlens.pomdp.beliefs import simulate

    gamma = float(solution.policy.pomdp.gamma)
    steps = 1 if gamma == 0.0 else LONGEST if gamma == 1.0 else ceil(log(CUT_OFF) / log(gamma))
    mean, low, high = mean_interval(simulate(solution.policy, episodes, steps))
    return {
        "simulated_return": float(mean),
        "simulated_low": float(low),
        "simulated_high": float(high),
    }


def _save(solution: "Solution", path: Path) -> None:
    import numpy as np

    from markovlens.files import atomic_open

    with atomic_open(path) as file:
        np.savez(
            file,
            alphas=np.asarray(solution.alphas),
            actions=solution.actions,
            then=solution.then,
            bounds=np.array([solution.lower, solution.upper]),
        )

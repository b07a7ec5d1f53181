"""How fast `solve` brings the bounds together, on every model of the library.

    OMP_NUM_THREADS=1 python benchmarks/solve.py --tol 1e-3
    OMP_NUM_THREADS=1 python benchmarks/solve.py --models paint maze4x3 network --gamma 0.9999

Each model is solved several times and the fastest counts.
"""

import equinox as eqx
import jax.numpy as jnp
import tyro

from markovlens.cli.output import print_json, print_table
from markovlens.pomdp import library
from markovlens.pomdp.solve import Solution, solve


def main(
    models: tuple[str, ...] = (),
    gamma: float | None = None,
    tol: float = 1e-3,
    time: float = 60.0,
    repeats: int = 3,
    json: bool = False,
) -> None:
    """Time the solver.

    Args:
        models: names of the library; all of them unless given.
        gamma: a discount instead of the models' own.
        tol: relative gap to reach.
        time: seconds after which a model is given up.
        repeats: how often each is solved; the fastest counts.
        json: print JSON instead of a table.
    """
    rows = []
    for name in models or library.names():
        pomdp = library.load(name)
        if gamma is not None:
            pomdp = eqx.tree_at(lambda model: model.gamma, pomdp, jnp.asarray(gamma))
        runs = [solve(pomdp, tol=tol, time=time) for _ in range(repeats)]
        rows.append(_row(name, min(runs, key=lambda run: run.seconds)))
    (print_json if json else print_table)(rows)


def _row(name: str, run: Solution) -> dict[str, object]:
    return {
        "model": name,
        "lower": run.lower,
        "upper": run.upper,
        "relative gap": run.gap / abs(run.lower),
        "alpha vectors": len(run.actions),
        "beliefs": run.beliefs,
        "seconds": run.seconds,
    }


if __name__ == "__main__":
    tyro.cli(main)

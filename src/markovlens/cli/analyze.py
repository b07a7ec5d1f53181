"""`markovlens analyze`: TD(λ) values and the λ-discrepancy of a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

if TYPE_CHECKING:
    import numpy as np

    from markovlens.pomdp.model import Pomdp


def analyze(
    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")],
    policy: str = "uniform",
    lam: tuple[float, ...] = (0.0, 1.0),
    norm: Literal["l2", "max"] = "l2",
    weighting: Literal["policy", "occupancy"] = "policy",
    plot: Path | None = None,
    json: bool = False,
) -> None:
    """TD(λ) values and the λ-discrepancy of a model: how much, where, and why.

    Example: markovlens analyze tmaze --policy random:3 --lam 0 0.5 1 --plot tmaze.png

    Args:
        model: a name of the library (see `markovlens models`) or the path of a POMDP file.
        policy: uniform, random:SEED, or the path of a text or .npy file with one row of action
            probabilities for each observation.
        lam: the λs to compare; the discrepancy is between the first and the last.
        norm: l2 is the root of the weighted sum of squares, max the largest weighted difference.
        weighting: weigh by the policy, or by how often observations are visited as well.
        plot: also draw the values, to this PNG, SVG or PDF file.
        json: print JSON instead of a table.
    """
    import numpy as np

    from markovlens.cli.output import check_picture_name, print_json, print_table
    from markovlens.cli.runtime import prepare_jax

    if plot is not None:
        check_picture_name(plot)
    prepare_jax()
    from markovlens.pomdp import library
    from markovlens.values.discrepancy import discrepancy_by_observation, lambda_discrepancy
    from markovlens.values.inputs import check_lambda
    from markovlens.values.td_lambda import start_value, v_values
    from markovlens.values.theorems import explain

    if len(lam) < 2:
        raise ValueError("--lam needs at least two values to compare, for example --lam 0 1")
    for value in lam:
        check_lambda(value)
    if len(set(lam)) < len(lam):
        raise ValueError(f"--lam has a value twice: {' '.join(map(str, lam))}")
    pomdp = library.resolve(model)
    probabilities = _policy(policy, pomdp)
    values = {f"V at λ={x:.15g}": np.asarray(v_values(pomdp, probabilities, x)) for x in lam}
    settings: dict[str, Any] = {"norm": norm, "weighting": weighting}
    asked = pomdp, probabilities, lam[0], lam[-1]
    total = float(lambda_discrepancy(*asked, **settings))
    per_observation = np.asarray(discrepancy_by_observation(*asked, **settings))
    rows = [
        {
            "observation": name,
            **{label: float(value[o]) for label, value in values.items()},
            "discrepancy": float(per_observation[o]),
        }
        for o, name in enumerate(pomdp.observations)
    ]
    start = float(start_value(pomdp, probabilities))
    explanation = explain(pomdp, probabilities)
    if plot is not None:
        _draw(plot, pomdp, values, per_observation, f"{model}, policy {policy}")
    if json:
        print_json(
            {
                "model": model,
                "policy": policy,
                "lam": lam,
                **settings,
                "discrepancy": total,
                "start_value": start,
                "case": explanation.case,
                "explanation": str(explanation),
                "observations": rows,
            }
        )
        return
    print_table(rows, title=f"{model}: {pomdp!r}, policy {policy}")
    print(f"\nλ-discrepancy between λ={lam[0]:g} and λ={lam[-1]:g}: {total:.6g}")
    print(f"({norm} norm, {weighting}-weighted; start value {start:.6g})\n")
    print(explanation)
    if plot is not None:
        print(f"\n{plot}")


def _policy(text: str, pomdp: "Pomdp") -> "np.ndarray":
    import numpy as np

    from markovlens.pomdp.policies import random_policy, uniform_policy
    from markovlens.values.inputs import check_policy_and_memory

    kind, _, seed = text.partition(":")
    if text == "uniform":
        return np.asarray(uniform_policy(pomdp))
    if kind == "random" and (seed.isdigit() or not seed):
        return np.asarray(random_policy(pomdp, int(seed or 0)))
    path = Path(text)
    if not path.is_file():
        raise ValueError(f"policy must be uniform, random:SEED or the path of a file, got {text!r}")
    try:
        if path.suffix == ".npy":
            found = np.load(path, allow_pickle=False)
        else:
            found = np.loadtxt(path, ndmin=2)
    except ValueError as error:
        raise ValueError(f"cannot read a policy from {text}: {error}") from None
    check_policy_and_memory(pomdp, found, None)
    return found


def _draw(
    path: Path, pomdp: "Pomdp", values: dict[str, Any], discrepancy: "np.ndarray", title: str
) -> None:
    import numpy as np
    from matplotlib.figure import Figure

    from markovlens.experiments.pictures import BLUE, ORANGE, SKY, paper_style
    from markovlens.files import atomic_open

    with paper_style():
        width = max(4.5, 0.5 * pomdp.n_observations + 2.0)
        figure = Figure(figsize=(width, 4.2), layout="constrained")
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
        places = np.arange(pomdp.n_observations)
        bar = 0.8 / len(values)
        colours = [BLUE, *([SKY] * (len(values) - 2)), ORANGE]
        for i, (label, value) in enumerate(values.items()):
            top.bar(
                places + (i - (len(values) - 1) / 2) * bar,
                value,
                bar,
                label=label,
                color=colours[i],
            )
        top.axhline(0.0, color="black", lw=0.5)
        top.set(ylabel="value", title=title)
        top.legend()
        bottom.bar(places, discrepancy, 0.8, color="#555555")
        bottom.set(ylabel="λ-discrepancy", xticks=places)
        bottom.set_xticklabels(pomdp.observations, rotation=30, ha="right")
        with atomic_open(path) as file:
            figure.savefig(file, format=path.suffix[1:].lower())

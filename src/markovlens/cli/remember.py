"""`markovlens remember`: learn what to remember in a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

if TYPE_CHECKING:
    from markovlens.memory.learned import LearnedMemory
    from markovlens.pomdp.model import Pomdp


def remember(
    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")],
    states: int = 2,
    seed: int = 0,
    recipe: Literal["best", "paper"] = "best",
    random_memory: bool = False,
    plot: Path | None = None,
    checkpoint: Path | None = None,
    json: bool = False,
) -> None:
    """Learn a memory function in closed form, and say what it remembers and what that is worth.

    Example: markovlens remember tmaze --states 2 --seed 0 --plot automaton.png

    Args:
        model: a name of the library (see `markovlens models`) or the path of a POMDP file.
        states: how many memory states; 2 is one bit.
        seed: of the random policies and memories that learning starts from.
        recipe: best reaches the higher values, paper is the algorithm as published; both take
            30,000 gradient steps.
        random_memory: choose the policies to learn from together with a random memory: for models
            such as parity_check, which show no discrepancy without one.
        plot: draw the memory as an automaton, to this PNG, SVG or PDF file.
        checkpoint: keep the half-finished work in this .npz file, and go on from it if it is there.
        json: print JSON instead of tables.
    """
    from markovlens.cli.output import check_picture_name, print_json, print_table
    from markovlens.cli.runtime import prepare_jax

    if plot is not None:
        check_picture_name(plot)
    prepare_jax()
    from markovlens.memory.config import recipe as recipe_named
    from markovlens.memory.describe import moves
    from markovlens.memory.learn import learn_memory
    from markovlens.pomdp import library
    from markovlens.progress import progress_bar

    pomdp = library.resolve(model)
    budget = recipe_named(recipe).gradient_steps(states)
    with progress_bar(f"remember {model}", budget) as advance:
        learned = learn_memory(
            pomdp,
            states,
            seed,
            recipe,
            random_memory=random_memory,
            checkpoint=checkpoint,
            progress=advance,
        )
    worth = _worth(pomdp, learned)
    if plot is not None:
        from markovlens.experiments.automaton import draw_automaton

        draw_automaton(pomdp, learned, plot, f"{model}, {states} memory states, starting in 0")
    if json:
        print_json(
            {
                "model": model,
                "states": states,
                "seed": seed,
                "recipe": recipe,
                "gradient_steps": budget,
                "discrepancy_before": learned.initial_discrepancy,
                "discrepancy_after": learned.discrepancy,
                "values": worth,
                "moves": [move._asdict() for move in moves(pomdp, learned)],
                "memory": learned.memory,
                "policy": learned.policy,
            }
        )
        return
    rows = [
        {
            "memory": move.memory,
            "sees": move.observation,
            "does": move.action,
            "remembers": move.then,
            "chance": round(move.chance, 3),
            "share of steps": round(move.share, 4),
        }
        for move in moves(pomdp, learned)
    ]
    counted = "1 memory state" if states == 1 else f"{states} memory states"
    print_table(rows, title=f"{model}: {counted}, recipe {recipe}, seed {seed}")
    print(
        f"\nλ-discrepancy of the policy it was learned from: {learned.initial_discrepancy:.6g} "
        f"without memory, {learned.discrepancy:.6g} with it\n"
    )
    print_table([{"agent": name, "value": value} for name, value in worth.items()])
    if plot is not None:
        print(f"\n{plot}")


def _worth(pomdp: "Pomdp", learned: "LearnedMemory") -> dict[str, float]:
    """The memory's value between what needs no memory and what no memory can beat."""
    from markovlens.memory.learn import learn_memory
    from markovlens.pomdp.policies import uniform_policy
    from markovlens.pomdp.solve import solve
    from markovlens.values.td_lambda import start_value

    return {
        "uniform random": float(start_value(pomdp, uniform_policy(pomdp))),
        "memoryless": learn_memory(pomdp, 1, learned.seed, "best").value,
        f"{learned.n_memory} memory states": learned.value,
        "optimal, at most": solve(pomdp, time=60.0).upper,
    }

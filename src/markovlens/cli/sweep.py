"""`markovlens sweep`: an experiment file, run to the end."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from markovlens.cli.output import print_json, print_table


def sweep(
    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    out: Path | None = None,
    stage: Literal["all", "sweep", "report"] = "all",
    scale: str = "paper",
    tasks: tuple[str, ...] = (),
    agents: tuple[str, ...] = (),
    workers: int | None = None,
    batch: int = 6,
    executor: Literal["local", "ray"] = "local",
    cpus: float = 1.0,
    gpus: float = 0.0,
    json: bool = False,
) -> int | None:
    """Run an experiment: try every setting of its grids, choose the best, judge it on fresh seeds.

    The file is a TOML of tasks, agents, grids and seeds. Some come with the package and go by name:
    the paper's fig-ppo, fig-ppo-small and fig-pocman-memory, and our own rocksample-sensor,
    battleship-step-size, pocman-step-size and rocksample-step-size. Repeat the command to go on
    after an interruption: what is finished is not done again. The same command in a second shell,
    or on a second machine that shares the folder, helps with the work.

    Example: markovlens sweep fig-ppo-small --scale quick --out results/small

    Args:
        file: the experiment file, or the name of one that comes with the package.
        out: where the results go; results/NAME-SCALE if not given (results/NAME for "paper").
        stage: sweep tries the grids, report judges what was chosen, all does both.
        scale: one of the file's [scale.…] tables, or "paper" for the file as it stands.
        tasks: do only these now; the others can follow, into the same folder.
        agents: do only these now.
        workers: processes on this machine; one a core if not given.
        batch: runs that train together in one program, at most; on a GPU more are faster.
        executor: local, or ray: the Ray cluster named by RAY_ADDRESS, or a local one.
        cpus: ray: cores for each unit of work.
        gpus: ray: GPUs for each unit of work, also a fraction.
        json: print the scores as JSON; "stage" says whether they are the report's or the sweep's.
    """
    from markovlens.cli.runtime import prepare_jax
    from markovlens.experiments.config import Stage, find_experiment, read_experiment
    from markovlens.experiments.executors import Executor, LocalExecutor, RayExecutor
    from markovlens.experiments.results import Results
    from markovlens.experiments.sweep import sweep as run_sweep
    from markovlens.experiments.sweep import total_steps
    from markovlens.experiments.tables import (
        CHOSEN_BY_THE_SAME,
        table_budgets,
        table_comparison,
        table_scores,
    )
    from markovlens.progress import progress_bar

    path = find_experiment(file)
    name = path.stem if scale == "paper" else f"{path.stem}-{scale}"
    folder = out or Path("results") / name
    stages: tuple[Stage, ...] = ("sweep", "report") if stage == "all" else (stage,)
    experiment = read_experiment(path, scale).only(tasks, agents)
    if executor == "local" and (cpus, gpus) != (1.0, 0.0):
        raise ValueError("--cpus and --gpus are for --executor ray; --workers is for local")
    if executor == "ray" and workers is not None:
        raise ValueError("--workers is for --executor local; with ray give --cpus and --gpus")
    chosen: Executor = RayExecutor(cpus, gpus) if executor == "ray" else LocalExecutor(workers)
    prepare_jax()
    with progress_bar(experiment.title, total=total_steps(experiment, stages)) as advance:
        outcome = run_sweep(
            path, folder, stages, scale, chosen, batch, advance, tasks=tasks, agents=agents
        )
    if outcome.failed:
        print(
            f"{len(outcome.failed)} of {len(outcome.units)} units failed, the first with: "
            f"{outcome.first_error()} (each says why in its error.txt; repeat to try again)",
            file=sys.stderr,
        )
    if any(unit.done for unit in outcome.units):
        results = Results(folder)
        scores, comparison = table_scores(results.reported), table_comparison(results.reported)
        budgets = table_budgets(experiment, results)
        if json:
            found = {"scores": scores, "ld_against_rnn": comparison, "equal_budgets": budgets}
            print_json({"folder": str(folder), "stage": results.shows} | found)
        else:
            whose = f" ({CHOSEN_BY_THE_SAME})" if results.shows == "sweep" else ""
            title = f"{folder}: final return{whose}, mean and 95% interval over seeds"
            print_table(scores, title=title)
            if comparison:
                print_table(comparison, title=f"ld against rnn{whose}")
            if budgets:
                print_table(budgets, title="the sweep with whole grids and with equal budgets")
    return 1 if outcome.failed else None

"""How often `detect` is wrong: false alarms on Markov cases, power on the others.

    python benchmarks/detect.py run --repetitions 40          # resumes where it stopped
    python benchmarks/detect.py run --cases tiger tmaze-5 --steps 5000 50000
    python benchmarks/detect.py report                        # table and picture

Every (case, steps, repetition) is one line of `benchmarks/results/detect.jsonl`; what is there is
not run again. Each repetition draws its own policy and, where the case is random, its own process.
The same steps are also given to a next-observation test, for comparison.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from markovlens.evidence.collect import collect
from markovlens.evidence.detect import detect
from markovlens.evidence.trajectories import Trajectories

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "detect.jsonl"
PICTURE = HERE / "results" / "detect.png"
LEVEL = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("--repetitions", type=int, default=40)
    run.add_argument("--cases", nargs="*", default=sorted(CASES))
    run.add_argument("--steps", nargs="*", type=int)
    commands.add_parser("report")
    arguments = parser.parse_args()
    if arguments.command == "run":
        run_all(arguments.cases, arguments.steps, arguments.repetitions)
    report()


def run_all(names: list[str], steps: list[int] | None, repetitions: int) -> None:
    done = {(r["case"], r["steps"], r["repetition"]) for r in results()}
    RESULTS.parent.mkdir(exist_ok=True)
    for repetition in range(repetitions):
        for name in names:
            for n in steps or CASES[name].steps:
                if (name, n, repetition) in done:
                    continue
                line = one(name, n, repetition)
                with RESULTS.open("a") as file:
                    file.write(json.dumps(line) + "\n")


def one(name: str, steps: int, repetition: int) -> dict[str, Any]:
    case = CASES[name]
    data = case.sample(steps, repetition)
    started = time.process_time()
    found = detect(data, gamma=case.gamma, seed=repetition, frames=0)
    seconds = time.process_time() - started
    return {
        "case": name,
        "steps": steps,
        "repetition": repetition,
        "markov": found.markov,
        "p_value": found.p_value,
        "discrepancy": found.discrepancy,
        "low": found.interval[0],
        "scale": found.scale,
        "next_observation_p": next_observation_p(data, repetition),
        "seconds": round(seconds, 2),
    }


def results() -> list[dict[str, Any]]:
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


class Case:
    """A process to sample, and whether its observations are Markov."""

    def __init__(
        self,
        markov: bool,
        sample: Callable[[int, int], Trajectories],
        gamma: float = 0.99,
        steps: tuple[int, ...] = (5_000, 20_000, 50_000),
    ):
        self.markov, self.sample, self.gamma, self.steps = markov, sample, gamma, steps


def gymnasium_env(name: str, mask: tuple[int, ...] = (), show: Callable[[int], int] | None = None):
    def sample(steps: int, seed: int) -> Trajectories:
        import gymnasium

        env = gymnasium.make(name)
        if show is not None:
            space = gymnasium.spaces.Discrete(env.observation_space.n)
            env = gymnasium.wrappers.TransformObservation(env, show, space)
        data = collect(env, steps, seed=seed)
        return data.hide(mask) if mask else data

    return sample


def ours(name: str, fully_observed: bool = False):
    def sample(steps: int, seed: int) -> Trajectories:
        from markovlens.envs.registry import make
        from markovlens.envs.wrappers import FullyObserved

        env = make(name, seed=seed)
        return collect(
            FullyObserved(env) if fully_observed else env, steps, seed=seed, gamma=env.gamma
        )

    return sample


def random_mdp(blocks: int = 1):
    """Eight random states and an end; with `blocks`, each state is shown in several ways."""

    def sample(steps: int, seed: int) -> Trajectories:
        from markovlens.envs.tabular import Tabular
        from markovlens.pomdp.model import Pomdp

        rng = np.random.default_rng([seed, 77])
        n, n_actions = 9, 3
        T = rng.dirichlet(np.full(n, 0.3), (n_actions, n))
        T[:, -1] = np.eye(n)[-1]
        R = rng.normal(size=(n, n_actions))
        R[-1] = 0.0
        Phi = np.kron(np.eye(n), rng.dirichlet(np.ones(blocks), n).mean(0)[None])
        p0 = np.append(np.full(n - 1, 1 / (n - 1)), 0.0)
        env = Tabular(Pomdp(T=T, R=R, Phi=Phi, p0=p0, gamma=0.95))
        return collect(env, steps, seed=seed, gamma=0.95)

    return sample


def merged_lake(cell: int) -> int:
    """FrozenLake with each two neighbouring columns shown as one."""
    return int(cell) // 2


CARTPOLE, ACROBOT = (20_000, 50_000, 200_000), (50_000, 200_000)
CASES = {
    "FrozenLake": Case(True, gymnasium_env("FrozenLake-v1")),
    "CliffWalking": Case(True, gymnasium_env("CliffWalking-v1")),
    "Taxi": Case(True, gymnasium_env("Taxi-v3"), steps=(20_000, 50_000)),
    "random MDPs": Case(True, random_mdp(), gamma=0.95),
    "block MDPs": Case(True, random_mdp(blocks=3), gamma=0.95),
    "RockSample(3,3) in full": Case(True, ours("rocksample-3-3", fully_observed=True)),
    "CartPole": Case(True, gymnasium_env("CartPole-v1"), steps=CARTPOLE),
    "Acrobot": Case(True, gymnasium_env("Acrobot-v1"), steps=ACROBOT),
    "T-maze 5": Case(False, ours("tmaze-5"), gamma=0.9),
    "T-maze 20": Case(False, ours("tmaze-20"), gamma=0.9),
    "Tiger": Case(False, ours("tiger"), gamma=0.95),
    "Cheese": Case(False, ours("cheese"), gamma=0.95),
    "Parity Check": Case(False, ours("parity_check"), gamma=0.9),
    "FrozenLake merged": Case(False, gymnasium_env("FrozenLake-v1", show=merged_lake)),
    "RockSample(3,3)": Case(False, ours("rocksample-3-3")),
    "CartPole without velocities": Case(
        False, gymnasium_env("CartPole-v1", mask=(1, 3)), steps=CARTPOLE
    ),
    "Acrobot without velocities": Case(
        False, gymnasium_env("Acrobot-v1", mask=(4, 5)), steps=ACROBOT
    ),
}


def next_observation_p(data: Trajectories, seed: int) -> float:
    """Is the next observation independent of the last one, given this one and the action?

    Discrete observations: the G statistic of (last, next) within each (present, action), against
    100 random permutations of `last` within those cells. Continuous: the next components, less
    their linear and quadratic prediction from present and action, are correlated with the last
    components less theirs; the largest correlation, by Bonferroni.
    """
    from markovlens.evidence.history import lag
    from markovlens.evidence.tabular import discretise

    rng = np.random.default_rng([seed, 99])
    inside = data.time >= 1
    flat = data.observation.reshape(len(data), -1).astype(float)
    if len(np.unique(flat, axis=0)) * 20 <= len(data):
        index = discretise(data)
        o, n = index.observation, index.n_observations + 1
        before = np.roll(o, 1)[inside]
        cell = (o * index.n_actions + index.action)[inside]
        after = index.next_observation[inside]
        order = np.argsort(cell, kind="stable")
        cell, before, after = cell[order], before[order], after[order]

        def statistic(last: np.ndarray) -> float:
            _, counts = np.unique((cell * n + last) * n + after, return_counts=True)
            return float((counts * np.log(counts)).sum())

        observed, higher = statistic(before), 0
        for _ in range(100):
            keys = rng.random(len(before))
            shuffled = before[np.lexsort((keys, cell))]
            higher += statistic(shuffled) >= observed
        return (1 + higher) / 101
    from scipy.special import ndtr

    then = data.next_observation.reshape(len(data), -1).astype(float)
    last = lag(flat, data, 1)[inside]
    now, then = flat[inside], then[inside]
    action = data.action.reshape(len(data), -1)[inside].astype(float)
    base = np.hstack([now, action])
    i, j = np.triu_indices(base.shape[1])
    base = np.hstack([np.ones((len(now), 1)), base, base[:, i] * base[:, j]])

    def left(columns: np.ndarray) -> np.ndarray:
        rest = columns - base @ np.linalg.lstsq(base, columns, rcond=None)[0]
        return rest / (rest.std(0) + 1e-12)

    products = left(last)[:, :, None] * left(then)[:, None, :]
    t = products.sum(0) / np.sqrt((products**2).sum(0) + 1e-300)
    return float(min(1.0, 2.0 * t.size * ndtr(-np.abs(t).max())))


def report() -> None:
    """Prints a Markdown table of what there is, and draws it."""
    rows = results()
    print("| case | Markov | steps | runs | rejected | undecided | next-observation test |")
    print("|---|---|---|---|---|---|---|")
    summary: dict[str, list[tuple[int, float, float]]] = {}
    for name, case in CASES.items():
        for steps in sorted({r["steps"] for r in rows if r["case"] == name}):
            mine = [r for r in rows if r["case"] == name and r["steps"] == steps]
            rejected = np.mean([r["markov"] is False for r in mine])
            undecided = np.mean([r["markov"] is None for r in mine])
            other = np.mean([r["next_observation_p"] <= LEVEL for r in mine])
            yes = "yes" if case.markov else "no"
            print(
                f"| {name} | {yes} | {steps:,} | {len(mine)} | {rejected:.2f} | "
                f"{undecided:.2f} | {other:.2f} |"
            )
            summary.setdefault(name, []).append((steps, float(rejected), float(other)))
    if summary:
        draw(summary)


def draw(summary: dict[str, list[tuple[int, float, float]]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    for axes, markov, title in zip(
        figure.subplots(1, 2), (True, False), ("false alarms", "power"), strict=True
    ):
        for name, points in summary.items():
            if CASES[name].markov is markov:
                steps, rejected, _ = zip(*points, strict=True)
                axes.plot(steps, rejected, "o-", label=name, markersize=4)
        axes.set_xscale("log")
        axes.set_title(f"{title}: share of runs rejected at {LEVEL}")
        axes.set_xlabel("steps")
        axes.axhline(LEVEL if markov else 0.95, color="black", linewidth=0.8, linestyle=":")
        axes.set_ylim(-0.02, 0.3 if markov else 1.04)
        axes.legend(fontsize=8, frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURE, dpi=150)


if __name__ == "__main__":
    main()

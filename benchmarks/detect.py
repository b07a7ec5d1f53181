"""How often `detect` is wrong: false alarms on Markov cases, power on the others.

    python benchmarks/detect.py run --repetitions 200         # resumes where it stopped
    python benchmarks/detect.py run --cases Tiger "T-maze 5" --steps 5000 50000
    python benchmarks/detect.py report                        # table and picture
    python benchmarks/detect.py speed                         # seconds and memory

Every (case, steps, repetition) is one line of `benchmarks/results/detect.jsonl`; what is there is
not run again. Each repetition draws its own policy and, where the case is random, its own process.
The same steps are also given to a next-observation test, for comparison. Numbers of repetitions
start at 2000: those below were looked at while the test was being made.
"""

import argparse
import json
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binomtest

from markovlens.evidence.collect import collect
from markovlens.evidence.detect import detect
from markovlens.evidence.trajectories import Trajectories

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "detect.jsonl"
LEVEL = 0.05
FRESH = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("--repetitions", type=int, default=40)
    run.add_argument("--first", type=int, default=FRESH, help="number of the first repetition")
    run.add_argument("--cases", nargs="*", default=list(CASES))
    run.add_argument("--steps", nargs="*", type=int)
    for command in (run, commands.add_parser("report")):
        command.add_argument("--results", type=Path, default=RESULTS)
    commands.add_parser("speed")
    arguments = parser.parse_args()
    if arguments.command == "speed":
        speed()
        return
    if arguments.command == "run":
        repetitions = range(arguments.first, arguments.first + arguments.repetitions)
        run_all(arguments.cases, arguments.steps, repetitions, arguments.results)
    report(results(arguments.results), arguments.results.with_suffix(".png"))


def run_all(names: list[str], steps: list[int] | None, repetitions: range, path: Path) -> None:
    done = {(r["case"], r["steps"], r["repetition"]) for r in results(path)}
    for repetition in repetitions:
        for name in names:
            for n in CASES[name].steps:
                if (name, n, repetition) in done or (steps and n not in steps):
                    continue
                line = one(name, n, repetition)
                with path.open("a") as file:
                    file.write(json.dumps(line) + "\n")


def one(name: str, steps: int, repetition: int) -> dict[str, Any]:
    case = CASES[name]
    began = time.process_time()
    data = case.sample(steps, repetition)
    started = time.process_time()
    found = detect(data, gamma=case.gamma, seed=repetition, frames=0)
    ended = time.process_time()
    return {
        "case": name,
        "steps": steps,
        "repetition": repetition,
        "markov": found.markov,
        "p_value": found.p_value,
        "discrepancy": found.discrepancy,
        "low": found.interval[0],
        "scale": found.scale,
        "remembered": found.remembered,
        "informative": found.markov is not None or found.steps_needed is not None,
        "next_observation_p": next_observation_p(data, repetition),
        "seconds_to_sample": round(started - began, 2),
        "seconds": round(ended - started, 2),
    }


def results(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


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


def gymnasium_env(
    name: str,
    mask: tuple[int, ...] = (),
    show: Callable[[int], int] | None = None,
    secret_sign: bool = False,
    n_actions: int | None = None,
):
    """With `secret_sign`, what is paid is charged in half of the episodes: only rewards tell. With
    `n_actions`, there are that many, most of which do the same."""

    def sample(steps: int, seed: int) -> Trajectories:
        import gymnasium

        env = gymnasium.make(name)
        if show is not None:
            space = gymnasium.spaces.Discrete(env.observation_space.n)
            env = gymnasium.wrappers.TransformObservation(env, show, space)
        if n_actions is not None:
            kinds, space = env.action_space.n, gymnasium.spaces.Discrete(n_actions)
            env = gymnasium.wrappers.TransformAction(env, lambda action: action % kinds, space)
        data = collect(env, steps, seed=seed)
        if secret_sign:
            signs = np.random.default_rng([seed, 78]).choice([-1.0, 1.0], data.n_episodes)
            data = data.replace(reward=data.reward * signs[data.episode])
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


def random_mdp(blocks: int = 1, noise: float = 0.0, n_actions: int = 3):
    """Eight random states and an end; with `blocks`, each state is shown in several ways, and with
    `noise` the pay is not certain."""

    def sample(steps: int, seed: int) -> Trajectories:
        from markovlens.envs.tabular import Tabular
        from markovlens.pomdp.model import Pomdp

        rng = np.random.default_rng([seed, 77])
        n = 9
        T = rng.dirichlet(np.full(n, 0.3), (n_actions, n))
        T[:, -1] = np.eye(n)[-1]
        R = rng.normal(size=(n, n_actions))
        R[-1] = 0.0
        Phi = np.kron(np.eye(n), rng.dirichlet(np.ones(blocks), n).mean(0)[None])
        p0 = np.append(np.full(n - 1, 1 / (n - 1)), 0.0)
        env = Tabular(Pomdp(T=T, R=R, Phi=Phi, p0=p0, gamma=0.95))
        data = collect(env, steps, seed=seed, gamma=0.95)
        return data.replace(reward=data.reward + noise * rng.normal(size=len(data)))

    return sample


def redrawn_bandit(steps: int, seed: int) -> Trajectories:
    """One of three arms pays; which one is drawn for every episode, of some ten steps."""
    rng = np.random.default_rng([seed, 79])
    over = rng.random(steps) < 0.1
    over[-1] = True
    good = rng.integers(0, 3, steps)[np.cumsum(over) - over]
    arm = rng.choice(3, steps, p=rng.dirichlet(np.full(3, 2.0)))
    return Trajectories(np.zeros(steps, dtype=int), arm, (arm == good).astype(float), over)


def noisy_tmaze(steps: int, seed: int) -> Trajectories:
    """Five steps: a cue is seen at the first, and the last action must name it. Under a policy that
    tosses a coin, values of observations do not depend on the cue, only those of actions."""
    rng = np.random.default_rng([seed, 80])
    episodes, length = -(-steps // 5), 5
    cue, action = rng.integers(0, 2, episodes), rng.integers(0, 2, (episodes, length))
    seen = 0.1 * rng.normal(size=(episodes, length, 2)) + np.arange(length)[:, None] * [0, 1]
    seen[:, 0, 0] += 2.0 * cue - 1.0
    last = np.arange(length) == length - 1
    paid = last * np.where(action == cue[:, None], 4.0, -0.1)
    over = np.tile(last, episodes)
    return Trajectories(seen.reshape(-1, 2), action.ravel(), paid.ravel(), over)


def merged_lake(cell: int) -> int:
    """FrozenLake with each two neighbouring columns shown as one."""
    return int(cell) // 2


STEPS = (5_000, 20_000, 50_000, 200_000)
CONTINUOUS = {
    "CartPole",
    "Acrobot",
    "CartPole without velocities",
    "Acrobot without velocities",
    "Pendulum",
    "Pendulum with a secret sign",
    "T-maze with noise",
}
CASES = {
    "FrozenLake": Case(True, gymnasium_env("FrozenLake-v1")),
    "CliffWalking": Case(True, gymnasium_env("CliffWalking-v1")),
    "Taxi": Case(True, gymnasium_env("Taxi-v4"), steps=(20_000, 50_000)),
    "random MDPs": Case(True, random_mdp(), gamma=0.95),
    "block MDPs": Case(True, random_mdp(blocks=3), gamma=0.95),
    "random MDPs, noisy pay": Case(True, random_mdp(noise=1.0), gamma=0.95),
    "random MDPs, 100 actions": Case(True, random_mdp(noise=1.0, n_actions=100), gamma=0.95),
    "random MDPs, 1000 actions": Case(
        True, random_mdp(noise=1.0, n_actions=1000), gamma=0.95, steps=(5_000, 20_000)
    ),
    "RockSample(3,3) in full": Case(True, ours("rocksample-3-3", fully_observed=True)),
    "CartPole": Case(True, gymnasium_env("CartPole-v1"), steps=STEPS[1:]),
    "Acrobot": Case(True, gymnasium_env("Acrobot-v1"), steps=STEPS[1:]),
    "Pendulum": Case(True, gymnasium_env("Pendulum-v1"), steps=STEPS[1:]),
    "T-maze 5": Case(False, ours("tmaze-5"), gamma=0.9),
    "T-maze 20": Case(False, ours("tmaze-20"), gamma=0.9),
    "Tiger": Case(False, ours("tiger"), gamma=0.95),
    "Cheese": Case(False, ours("cheese"), gamma=0.95),
    "Parity Check": Case(False, ours("parity_check"), gamma=0.9),
    "FrozenLake merged": Case(False, gymnasium_env("FrozenLake-v1", show=merged_lake)),
    "FrozenLake merged, 100 actions": Case(
        False, gymnasium_env("FrozenLake-v1", show=merged_lake, n_actions=100)
    ),
    "FrozenLake merged, 1000 actions": Case(
        False, gymnasium_env("FrozenLake-v1", show=merged_lake, n_actions=1000)
    ),
    "redrawn bandit": Case(False, redrawn_bandit, gamma=0.9),
    "RockSample(3,3)": Case(False, ours("rocksample-3-3")),
    "CartPole without velocities": Case(
        False, gymnasium_env("CartPole-v1", mask=(1, 3)), steps=STEPS[1:]
    ),
    "Acrobot without velocities": Case(
        False, gymnasium_env("Acrobot-v1", mask=(4, 5)), steps=STEPS[1:]
    ),
    "T-maze with noise": Case(False, noisy_tmaze, gamma=0.9, steps=STEPS[:3]),
    "Pendulum with a secret sign": Case(
        False, gymnasium_env("Pendulum-v1", secret_sign=True), steps=STEPS[1:]
    ),
}


def next_observation_p(data: Trajectories, seed: int) -> float:
    """Is the next observation independent of the last one, given this one and the action?

    Discrete observations: the G statistic of (last, next) within each (present, action), against
    100 random permutations of `last` within those cells. Continuous: the next components, less
    their linear and quadratic prediction from present and action, are correlated with the last
    components less theirs; the largest correlation, by Bonferroni.
    """
    from markovlens.evidence.columns import lag
    from markovlens.evidence.discrete import discretise

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
        _, here = np.unique(cell * n + before, return_inverse=True)  # kinds of (last, present, act)

        def statistic(kind: np.ndarray) -> float:
            _, counts = np.unique(kind * n + after, return_counts=True)
            return float((counts * np.log(counts)).sum())

        observed, higher = statistic(here), 0
        for _ in range(100):
            within_cells = np.argsort(cell + rng.random(len(cell)))
            higher += statistic(here[within_cells]) >= observed
        return (1 + higher) / 101
    from scipy.special import ndtr

    then = data.next_observation.reshape(len(data), -1).astype(float)
    last = lag(flat, data.time, 1)[:][inside]
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


class Rates(NamedTuple):
    """Shares of the runs of one case with so many steps."""

    steps: int
    runs: int
    rejected: float
    low: float
    high: float
    undecided: float
    by_next_observation: float


def rates(rows: list[dict[str, Any]], name: str) -> list[Rates]:
    found = []
    for steps in sorted({r["steps"] for r in rows if r["case"] == name}):
        mine = [r for r in rows if r["case"] == name and r["steps"] == steps]
        rejected = sum(r["markov"] is False for r in mine)
        within = binomtest(rejected, len(mine)).proportion_ci()
        undecided = np.mean([r["markov"] is None for r in mine])
        other = np.mean([r["next_observation_p"] <= LEVEL for r in mine])
        share = rejected / len(mine)
        found.append(
            Rates(steps, len(mine), share, within.low, within.high, float(undecided), float(other))
        )
    return found


def report(rows: list[dict[str, Any]], picture: Path) -> None:
    """Prints a Markdown table of what there is, and draws it."""
    print("| case | steps | runs | rejected | 95% interval | undecided | next-observation test |")
    print("|---|---|---|---|---|---|---|")
    for markov, title in ((True, "**Markov: false alarms**"), (False, "**Not Markov: power**")):
        print(f"| {title} | | | | | | |")
        for name, case in CASES.items():
            for r in rates(rows, name) if case.markov is markov else []:
                print(
                    f"| {name} | {r.steps:,} | {r.runs} | {r.rejected:.2f} | {r.low:.2f} to "
                    f"{r.high:.2f} | {r.undecided:.2f} | {r.by_next_observation:.2f} |"
                )
    for kind in ("discrete", "continuous"):
        alarms = [
            r["markov"] is False
            for r in rows
            if CASES[r["case"]].markov and (r["case"] in CONTINUOUS) == (kind == "continuous")
        ]
        print(f"\nFalse alarms over all {kind} Markov cases: {sum(alarms)} of {len(alarms)}.")
    if rows:
        draw(rows, picture)


def draw(rows: list[dict[str, Any]], picture: Path) -> None:
    """Every case a row, every number of steps a mark with its interval."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.8), layout="constrained")
    titles = ("false alarms on Markov cases", "power on the others")
    colours = dict(zip(STEPS, ("#9ecae1", "#6baed6", "#2171b5", "#08306b"), strict=True))
    for axes, markov, title in zip(figure.subplots(1, 2), (True, False), titles, strict=True):
        names = [name for name, case in CASES.items() if case.markov is markov]
        for place, name in enumerate(names):
            of_case = rates(rows, name)
            for i, r in enumerate(of_case):
                y = place + 0.18 * (i - (len(of_case) - 1) / 2)
                axes.hlines(y, r.low, r.high, color=colours[r.steps], linewidth=1.5)
                axes.plot(r.rejected, y, "o", color=colours[r.steps], markersize=5)
        axes.axvline(0.07 if markov else 0.95, color="black", linewidth=0.8, linestyle=":")
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlim(-0.02, 1.02)
        axes.set_title(title)
        axes.set_xlabel(f"share rejected at {LEVEL}, 95% interval (dotted: target)")
        axes.spines[["top", "right"]].set_visible(False)
    for steps, colour in colours.items():
        axes.plot([], [], "o-", color=colour, markersize=5, label=f"{steps:,} steps")
    figure.legend(fontsize=8, frameon=False, ncols=len(STEPS), loc="outside lower center")
    figure.savefig(picture, dpi=150)


def speed() -> None:
    """Seconds of processor time, and the most memory in use at once beyond that of the data."""
    from markovlens.evidence.features import Smooth
    from markovlens.evidence.lstd import lstd, one_hot

    print("| work | seconds | MB |\n|---|---|---|")
    rng = np.random.default_rng(0)
    for n in (250_000, 1_000_000):
        number, vector = rng.integers(0, 100, n), rng.normal(size=(n, 4))
        ends = rng.random(n) < 0.01
        data = Trajectories(number, number % 3, rng.normal(size=n), ends, None, np.roll(number, -1))
        smooth = data.with_observations(vector, np.roll(vector, -1, axis=0))
        features = Smooth(rng, 4, 100, (1.0, 2.5), products=True)
        took(f"LSTD(0.9), {n:,} steps, 100 tabular features", lstd, data, one_hot(100), 0.99, 0.9)
        took(f"LSTD(0.9), {n:,} steps, 115 smooth features", lstd, smooth, features, 0.99, 0.9)
    for name, n, frames in (
        ("T-maze 5", 100_000, 0),
        ("T-maze 5", 400_000, 0),
        ("T-maze 5", 1_600_000, 0),
        ("T-maze 5", 100_000, 8),
        ("T-maze 5", 400_000, 8),
        ("Tiger", 100_000, 0),
        ("FrozenLake", 100_000, 0),
        ("Taxi", 100_000, 0),
        ("CartPole", 50_000, 0),
        ("CartPole", 200_000, 0),
        ("CartPole without velocities", 50_000, 8),
    ):
        asked = partial(detect, gamma=CASES[name].gamma, frames=frames)
        what = f"detect, {name}, {n:,} steps" + (f", stacks up to {frames}" if frames else "")
        took(what, asked, CASES[name].sample(n, FRESH))


def took(what: str, work: Callable[..., object], *arguments: object) -> None:
    """Once by the clock, and once more with an eye on memory, which takes longer."""
    started = time.process_time()
    work(*arguments)
    seconds = time.process_time() - started
    tracemalloc.start()
    work(*arguments)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"| {what} | {seconds:.1f} | {most / 2**20:.0f} |", flush=True)


if __name__ == "__main__":
    main()

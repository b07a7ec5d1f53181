"""Where experience comes from, by name: environments, files, models to act with."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from markovlens.evidence.collect import collect
from markovlens.evidence.policies import Policy
from markovlens.evidence.trajectories import Trajectories
from markovlens.progress import Advance, silent

DEFAULT_GAMMA = 0.99
MOST_STEPS = 2_000_000  # of a log: a bound on time and memory
LONGEST_PIECE = 1000  # steps; longer episodes are cut, so that many can be simulated side by side
FORGOTTEN = (
    "the run's memory was cleared before every step: under a policy that remembers, no observation "
    "is Markov"
)


class Experience(NamedTuple):
    """Steps, the discount that goes with them, and what there is to say about them."""

    data: Trajectories
    gamma: float
    notes: tuple[str, ...] = ()


def experience(
    source: Any,
    steps: int = 50_000,
    seed: int = 0,
    policy: Policy = None,
    gamma: float | None = None,
    progress: Advance = silent,
    most: int = MOST_STEPS,
) -> Experience:
    """`steps` taken in an environment, or those logged, `most` of them if there are more."""
    found = resolve(source, seed) if isinstance(source, str | os.PathLike) else source
    if isinstance(found, Trajectories):
        if policy is not None:
            raise ValueError("logged data already has its actions: a policy goes with environments")
        gamma = DEFAULT_GAMMA if gamma is None else gamma
        return _part_of(found, most, seed, gamma)
    if not (hasattr(found, "reset") and hasattr(found, "step")):
        raise ValueError(
            "expected Trajectories, an environment, or the name or path of one; "
            f"got {type(found).__name__}"
        )
    if found is source:
        _check_given(found)
    if hasattr(found, "num_envs"):
        raise ValueError("expected one environment, got a vector of them: give one, from `make`")
    innermost = getattr(found, "unwrapped", found)  # Gymnasium's wrappers hide what is inside
    gamma = float(getattr(innermost, "gamma", DEFAULT_GAMMA)) if gamma is None else gamma
    notes = (FORGOTTEN,) if getattr(policy, "forgets", False) else ()
    return Experience(collect(found, steps, seed, policy, gamma, progress), gamma, notes)


def _check_given(env: Any) -> None:
    """An environment of ours that the user made is checked; those with names keep the contract."""
    from markovlens.envs.check import check_env
    from markovlens.envs.env import Env

    if isinstance(env, Env):
        check_env(env)


def _part_of(log: Trajectories, most: int, seed: int, gamma: float) -> Experience:
    """All of a log or, of one that is too long, episodes drawn at random."""
    if most < 1:
        raise ValueError(f"most must be at least 1 step, got {most}")
    if len(log) <= most:
        return Experience(log, gamma)
    pieces = log.cut(LONGEST_PIECE)
    part = pieces.take(pieces.draw_episodes(most, np.random.default_rng([seed, 2])))
    note = f"{len(part):,} of {len(log):,} steps were looked at, in episodes drawn at random"
    return Experience(part, gamma, (note,))


def resolve(source: str | os.PathLike[str], seed: int = 0) -> Any:
    """An environment of ours, a Gymnasium one, or the trajectories of a data set or file."""
    from markovlens.evidence.formats import READERS, load, load_minari

    source = os.fspath(source)
    if source.startswith("minari:"):
        return load_minari(source.removeprefix("minari:"))
    suffix = Path(source).suffix.lower()
    if suffix in READERS or (Path(source).is_file() and suffix != ".pomdp"):
        return load(source)
    from markovlens.envs import registry

    if registry.is_gymnasium_id(source):
        return _gymnasium(source)
    return registry.make(source, seed=seed)


def _gymnasium(source: str) -> Any:
    try:
        import gymnasium
    except ImportError:
        raise ValueError(f"{source} needs Gymnasium: pip install 'markovlens[gym]'") from None
    try:
        return gymnasium.make(source)
    except (gymnasium.error.Error, ImportError) as error:
        raise ValueError(f"Gymnasium cannot make {source!r}: {error}") from None


def load_model(spec: str, trust: bool, seed: int = 0) -> Callable[[Any], Any]:
    """A Stable-Baselines3 model as a policy: `ALGO:file.zip`, say `PPO:cartpole.zip`.

    Such files hold pickled Python, which can run anything: they are opened only with `trust`.
    The policy is sampled from, not made greedy: greedy policies explore too little to test. `seed`
    is that of the sampling, which goes by the random numbers of PyTorch and NumPy.
    """
    algorithm, colon, file = spec.partition(":")
    if not colon:
        raise ValueError(f"a model is given as ALGO:file.zip, say PPO:cartpole.zip; got {spec!r}")
    if not Path(file).exists():
        raise ValueError(f"there is no model file {file!r}")
    if not trust:
        raise ValueError(
            f"{file!r} is in a format that can run code when loaded; "
            "add --trust if you know where it comes from"
        )
    try:
        import stable_baselines3
    except ImportError:
        raise ValueError("models need stable-baselines3: pip install stable-baselines3") from None
    kind: Any = getattr(stable_baselines3, algorithm, None)
    if not hasattr(kind, "load"):
        raise ValueError(f"stable-baselines3 has no algorithm {algorithm!r}")
    try:
        model = kind.load(file, device="cpu")
    except Exception as error:  # whatever unpickling and a class that does not fit come upon
        raise ValueError(
            f"{file!r} cannot be loaded as a model of {algorithm} ({error}): name the algorithm "
            "that it was saved by"
        ) from None
    model.set_random_seed(seed)
    return lambda observation: model.predict(observation, deterministic=False)[0]

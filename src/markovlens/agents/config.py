"""What a training run is: one definition for Python, the command line and the run folder."""

import re
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, NamedTuple, get_args

from markovlens.names import unknown_name
from markovlens.options import check_options

Algo = Literal["ld", "rnn", "memoryless"]
MemoryCell = Literal["gru", "lstm", "mingru"]
CellName = Literal[MemoryCell, "none"]

ALGOS: tuple[Algo, ...] = get_args(Algo)

# Traced: runs that differ only in these (and in their seed) train together in one program.
HYPERPARAMETERS = (
    "learning_rate",
    "lam1",
    "lam2",
    "beta",
    "entropy_weight",
    "value_weight",
    "clip",
    "max_gradient_norm",
    "gamma",
)


@dataclass(frozen=True)
class PPOConfig:
    """A training run, but for its seed. What is None is filled in by `resolve`, from the paper's
    tables where the environment is one of the paper's.

    >>> PPOConfig(env="rocksample-11-11", algo="ld").resolve().latent
    128
    """

    env: str = "tmaze-5"
    """An environment's name, a .POMDP file, or a Gymnasium id such as CartPole-v1."""
    algo: Algo = "ld"
    """ld: two critics and the λ-discrepancy loss; rnn: one critic; memoryless: no memory."""
    steps: int | None = None
    """Environment steps in all."""
    cell: MemoryCell = "gru"
    """What ld and rnn remember with."""
    latent: int | None = None
    """Size of every hidden layer and of the memory."""
    learning_rate: float | None = None
    """Adam's step size; falls linearly to 0."""
    lam1: float | None = None
    """λ of the first critic, whose advantages train the actor."""
    lam2: float | None = None
    """λ of the second critic (ld)."""
    beta: float | None = None
    """Weight of the λ-discrepancy loss, 1 - β that of the critics' own (ld)."""
    entropy_weight: float | None = None
    """Weight of the policy's entropy."""
    value_weight: float = 0.5
    """Weight of all that trains the critics."""
    clip: float = 0.2
    """PPO's ε, for the policy and for the values."""
    max_gradient_norm: float = 0.5
    """Gradients longer than this are scaled down to it."""
    gamma: float | None = None
    """Discount; the environment's own if not given."""
    n_envs: int = 4
    """Copies of the environment."""
    n_steps: int = 128
    """Steps of each copy between two updates; gradients go back as far."""
    epochs: int = 4
    """Passes over each batch."""
    minibatches: int = 4
    """Minibatches a pass, each of whole sequences: must divide n_envs."""
    previous_action: bool | None = None
    """Whether the observation includes the action before."""
    previous_reward: bool | None = None
    """Whether the observation includes the reward before."""
    scale_rewards: bool | None = None
    """Whether rewards are divided by the running sd of the discounted return."""
    full_view: bool = False
    """Whether the agent sees the environment's whole state: a bound on what memory can gain."""
    hide: tuple[int, ...] = ()
    """Entries of the flattened observation that the agent does not see."""
    feed_again: tuple[int, ...] | None = None
    """Entries of the observation fed in again after a first layer of double width (ld, rnn)."""

    def __post_init__(self) -> None:
        check_options(self)
        for name in ("n_envs", "n_steps", "epochs", "minibatches", "latent", "steps"):
            got = getattr(self, name)
            if got is not None and got < 1:
                raise ValueError(f"{name} must be at least 1, got {got}")
        for name in ("lam1", "lam2", "beta", "gamma"):
            got = getattr(self, name)
            if got is not None and not 0.0 <= got <= 1.0:
                raise ValueError(f"{name} must be between 0 and 1, got {got}")
        for name in ("learning_rate", "clip", "max_gradient_norm"):
            got = getattr(self, name)
            if got is not None and not got > 0.0:
                raise ValueError(f"{name} must be positive, got {got}")
        for name in ("entropy_weight", "value_weight"):
            got = getattr(self, name)
            if got is not None and not abs(got) < float("inf"):
                raise ValueError(f"{name} must be finite, got {got}")
        if self.n_envs % self.minibatches:
            raise ValueError(
                f"minibatches must divide n_envs, for a minibatch is whole sequences: "
                f"got {self.minibatches} and {self.n_envs}"
            )
        if self.steps is not None and self.steps < self.batch_steps:
            raise ValueError(
                f"steps must be at least one batch, n_envs × n_steps = {self.batch_steps}, "
                f"got {self.steps}"
            )

    def resolve(self) -> "PPOConfig":
        """This config with every None filled in that does not depend on the environment's code.

        `gamma` stays None, "the environment's own", until the environment is made.
        """
        chosen: dict[str, Any] = {}
        for row in PAPER:
            if re.fullmatch(row.env, self.env, re.IGNORECASE):
                chosen = row.settings | row.algos.get(self.algo, {})
                break
        missing = {k: v for k, v in chosen.items() if getattr(self, k) is None}
        if self.algo == "memoryless":
            missing["feed_again"] = ()
        if self.algo != "ld":
            lam1 = missing.get("lam1") if self.lam1 is None else self.lam1
            for name, without in (("beta", 0.0), ("lam2", lam1)):
                got = getattr(self, name)
                if got not in (None, without):
                    raise ValueError(
                        f"{name} is for ld, which alone has a second critic: got {name} {got} "
                        f"with algo {self.algo}; leave it out or train ld"
                    )
                missing[name] = without
        return replace(self, **missing)

    @property
    def batch_steps(self) -> int:
        return self.n_envs * self.n_steps

    @property
    def n_updates(self) -> int:
        """Updates in all: the whole batches that fit into `steps`."""
        assert self.steps is not None, "resolve the config first"
        return self.steps // self.batch_steps

    @property
    def n_critics(self) -> int:
        return 2 if self.algo == "ld" else 1

    @property
    def memory_cell(self) -> CellName:
        return "none" if self.algo == "memoryless" else self.cell

    def structure(self) -> dict[str, Any]:
        """All that must be equal for runs to train together."""
        return {k: v for k, v in asdict(self).items() if k not in HYPERPARAMETERS}


class RunSpec(NamedTuple):
    """One run: a resolved config and a seed."""

    config: PPOConfig
    seed: int


def config_from(table: dict[str, Any]) -> PPOConfig:
    """The config in a table as read from TOML; unknown options are errors.

    >>> config_from({"env": "tmaze-5", "lam1": 0.9}).lam1
    0.9
    """
    known = {field.name for field in fields(PPOConfig)}
    for key in table:
        if key not in known:
            raise unknown_name("option", key, known)
    return PPOConfig(**table)


class PaperSettings(NamedTuple):
    """What the paper's tables say of the environments that match `env`."""

    env: str
    settings: dict[str, Any]
    algos: dict[Algo, dict[str, Any]]


_PLAIN = {
    "previous_action": False,
    "previous_reward": False,
    "scale_rewards": False,
    "feed_again": (),
}

PAPER = (
    PaperSettings(
        r"battleship-\d+",
        _PLAIN
        | {"steps": 10_000_000, "latent": 512, "entropy_weight": 0.05}
        | {"previous_action": True, "feed_again": (0,)},
        {
            "ld": {"learning_rate": 2.5e-4, "lam1": 0.1, "lam2": 0.95, "beta": 0.5},
            "rnn": {"learning_rate": 2.5e-5, "lam1": 0.7},
            "memoryless": {"learning_rate": 2.5e-5, "lam1": 0.1},
        },
    ),
    PaperSettings(
        r"pocman",
        _PLAIN
        | {"steps": 10_000_000, "latent": 512, "entropy_weight": 0.05, "previous_action": True},
        {
            "ld": {"learning_rate": 2.5e-4, "lam1": 0.95, "lam2": 0.5, "beta": 0.5},
            "rnn": {"learning_rate": 2.5e-5, "lam1": 0.7},
            "memoryless": {"learning_rate": 2.5e-4, "lam1": 0.7},
        },
    ),
    PaperSettings(
        r"rocksample-11-11",
        _PLAIN | {"steps": 3_000_000, "latent": 128, "entropy_weight": 0.35, "scale_rewards": True},
        {
            "ld": {"learning_rate": 2.5e-4, "lam1": 0.1, "lam2": 0.95, "beta": 0.5},
            "rnn": {"learning_rate": 2.5e-4, "lam1": 0.7},
            "memoryless": {"learning_rate": 2.5e-4, "lam1": 0.1},
        },
    ),
    # The paper's other size; its settings serve every size it does not have.
    PaperSettings(
        r"rocksample-\d+-\d+",
        _PLAIN
        | {"steps": 10_000_000, "latent": 256, "entropy_weight": 0.35, "scale_rewards": True},
        {
            "ld": {"learning_rate": 2.5e-4, "lam1": 0.1, "lam2": 0.5, "beta": 0.25},
            "rnn": {"learning_rate": 2.5e-5, "lam1": 0.5},
            "memoryless": {"learning_rate": 2.5e-5, "lam1": 0.1},
        },
    ),
    # Small POMDPs and everything else: the paper gives the sizes, not what its sweep chose.
    PaperSettings(
        r".*",
        _PLAIN
        | {"steps": 3_000_000, "latent": 32, "entropy_weight": 0.05, "learning_rate": 2.5e-3},
        {
            "ld": {"lam1": 0.95, "lam2": 0.1, "beta": 0.25},
            "rnn": {"lam1": 0.95},
            "memoryless": {"lam1": 0.95},
        },
    ),
)

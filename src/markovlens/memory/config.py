"""How a memory is learned: every choice in one place, and the two recipes."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

from markovlens.names import unknown_name
from markovlens.options import check_options
from markovlens.values.discrepancy import Norm, Weighting

View = Literal["exact", "folded"]
InitialPolicy = Literal["discrepancy", "uniform"]
PolicyStart = Literal["revealing", "fresh"]
Stage = Literal["reveal", "memory", "policy", "joint", "polish"]

STAGES: tuple[Stage, ...] = get_args(Stage)
OPTIMIZERS = ("adam", "adamw", "nadam", "rmsprop", "sgd")


@dataclass(frozen=True)
class MemoryConfig:
    """The stages of memory learning, in order, and what each of them minimises or raises.

    A *revealing policy* is chosen (1) and sharpened (2), a memory is fitted to it (3), a policy to
    the memory (4), and both to the return (5, 6). The defaults are the paper's algorithm, which
    has only 1, 3 and 4.

    Attributes:
        view: "exact" is a real agent, which updates its memory with the observation it acts on;
            "folded" is the paper's P_μ, which draws a second one.
        norm, weighting, lam1, lam2: the λ-discrepancy that is used; always its square.
        optimizer: an optax optimiser: "adam", "adamw", "nadam", "rmsprop" or "sgd".
        learning_rate: of every stage.
        init_scale: standard deviation of the memory's logits at the start.
        random_memory: choose the revealing policy together with the random memory, not without
            memory: for models whose observations hide the discrepancy (Parity Check).
        initial_policy: stage 1, "discrepancy" takes the policy with the largest λ-discrepancy of
            `n_policies` drawn uniformly from the simplex; "uniform" the uniform one.
        reveal_steps: stage 2, gradient ascent of the λ-discrepancy in the policy.
        reveal_every: only every so many restarts has stage 2: 1 is all, 2 is every other one.
        memory_steps: stage 3, gradient descent of the λ-discrepancy in the memory.
        policy_start: where stages 4 to 6 start: "revealing" improves the revealing policy, "fresh"
            a nearly uniform one.
        policy_steps: stage 4, policy gradient with the memory fixed.
        joint_steps: stage 5, gradient of the return in policy and memory together.
        restarts: independent runs of stages 1 to 5, of which the one with the largest return goes
            on: an agent knows its own return.
        polish_steps: stage 6, as stage 5, for the restart that was kept.
    """

    view: View = "exact"
    norm: Norm = "l2"
    weighting: Weighting = "policy"
    lam1: float = 0.0
    lam2: float = 1.0
    optimizer: str = "adam"
    learning_rate: float = 0.01
    init_scale: float = 0.5
    random_memory: bool = False
    initial_policy: InitialPolicy = "discrepancy"
    n_policies: int = 100
    reveal_steps: int = 0
    reveal_every: int = 1
    memory_steps: int = 20_000
    policy_start: PolicyStart = "revealing"
    policy_steps: int = 10_000
    joint_steps: int = 0
    restarts: int = 1
    polish_steps: int = 0

    def __post_init__(self) -> None:
        check_options(self)
        if self.optimizer not in OPTIMIZERS:
            raise unknown_name("optimizer", self.optimizer, OPTIMIZERS)
        for name, least in (("n_policies", 1), ("reveal_every", 1), ("restarts", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        for stage in STAGES:
            if self.steps(stage) < 0:
                raise ValueError(f"{stage}_steps cannot be negative, got {self.steps(stage)}")
        if not any(self.steps(stage) for stage in STAGES[1:-1]):
            raise ValueError("memory_steps, policy_steps and joint_steps are all 0: nothing to do")
        if not 0.0 < self.learning_rate < float("inf"):
            raise ValueError(
                f"learning_rate must be positive and finite, got {self.learning_rate:g}"
            )
        if not 0.0 <= self.init_scale < float("inf"):
            raise ValueError(f"init_scale is a standard deviation, got {self.init_scale:g}")
        for name in ("lam1", "lam2"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must be in [0, 1], got {getattr(self, name):g}")
        if self.lam1 == self.lam2:
            raise ValueError(f"lam1 and lam2 must differ, both are {self.lam1:g}")

    def steps(self, stage: Stage) -> int:
        """Gradient steps of a stage, for each restart that has it."""
        return {
            "reveal": self.reveal_steps,
            "memory": self.memory_steps,
            "policy": self.policy_steps,
            "joint": self.joint_steps,
            "polish": self.polish_steps,
        }[stage]

    def stages(self, n_memory: int) -> tuple[Stage, ...]:
        """The stages that have steps, in order; with one memory state nothing is remembered."""
        useful = STAGES if n_memory > 1 else STAGES[2:]
        return tuple(stage for stage in useful if self.steps(stage) > 0)

    def runs(self, stage: Stage) -> int:
        """How many of a seed's restarts go through a stage."""
        if stage == "polish":
            return 1
        return len(range(0, self.restarts, self.reveal_every if stage == "reveal" else 1))

    def gradient_steps(self, n_memory: int) -> int:
        """The whole budget of one learned memory, over all restarts.

        >>> [RECIPES[name].gradient_steps(2) for name in ("paper", "best")]
        [30000, 30000]
        """
        return sum(self.runs(stage) * self.steps(stage) for stage in self.stages(n_memory))

    @property
    def of_one_step(self) -> "MemoryConfig":
        """Only what a single gradient step depends on: configurations with the same share programs.

        >>> MemoryConfig(memory_steps=5).of_one_step == MemoryConfig(restarts=3).of_one_step
        True
        """
        steps = {f"{stage}_steps": 1 for stage in STAGES}
        return replace(
            self,
            init_scale=1.0,
            random_memory=False,
            initial_policy="uniform",
            n_policies=1,
            reveal_every=1,
            policy_start="fresh",
            restarts=1,
            **steps,  # type: ignore[arg-type]
        )


RECIPES: dict[str, MemoryConfig] = {
    "paper": MemoryConfig(),
    "best": MemoryConfig(
        learning_rate=0.03,
        n_policies=24,
        reveal_steps=400,
        reveal_every=2,
        memory_steps=1_500,
        policy_start="fresh",
        policy_steps=500,
        joint_steps=600,
        restarts=8,
        polish_steps=7_600,
    ),
}


def recipe(name: str) -> MemoryConfig:
    """The configuration of that name: "paper" or "best"."""
    if name not in RECIPES:
        raise unknown_name("recipe", name, RECIPES)
    return RECIPES[name]

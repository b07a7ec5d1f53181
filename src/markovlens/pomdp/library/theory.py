"""Examples that mark the limits of the λ-discrepancy: Parity Check, and a POMDP that is an MDP."""

from collections.abc import Sequence

from markovlens.pomdp.library.rules import Rules
from markovlens.pomdp.model import Pomdp


def parity_check(
    stay: float = 0.0,
    start: Sequence[float] = (0.25, 0.25, 0.25, 0.25),
    gamma: float = 0.9,
) -> Pomdp:
    """Parity Check: a POMDP whose λ-discrepancy is zero for every memoryless policy.

    Two colours are shown, one after the other; at the white junction that follows, `up` pays 1 if
    they are of one family (red-pink, blue-cyan) and -1 if not, `down` the reverse. Hidden: the
    first colour while the second is seen, and both at the junction. Before the junction both
    actions just go on.

    The two perturbations break the symmetry, and the λ-discrepancy becomes positive:

    Arguments:
        stay: the probability that `down` stays in place at red.
        start: the probabilities of red-pink, red-cyan, blue-pink, blue-cyan.
        gamma: discount; 1 is allowed as long as `stay` is below 1.

    >>> parity_check()
    Pomdp(13 states, 2 actions, 6 observations, gamma=0.9)
    """
    if not 0.0 <= stay <= 1.0:
        raise ValueError(f"stay is a probability and must be in [0, 1], got {stay:g}")
    if len(start) != 4:
        raise ValueError(f"start needs 4 probabilities, one for each start, got {len(start)}")
    pairs = [f"{first}-{second}" for first in ("red", "blue") for second in ("pink", "cyan")]
    states = [f"{pair}-{when}" for when in ("first", "second", "junction") for pair in pairs]
    observations = ["red", "blue", "pink", "cyan", "white", "end"]
    rules = Rules([*states, "end"], ["up", "down"], observations)
    rules.end("end", "end")
    for pair in pairs:
        first, second = pair.split("-")
        family = 1.0 if pair in ("red-pink", "blue-cyan") else -1.0
        lingers = stay if first == "red" else 0.0
        for action, sign in (("up", 1.0), ("down", -1.0)):
            rules.act(f"{pair}-first", action, f"{pair}-second")
            rules.act(f"{pair}-second", action, f"{pair}-junction")
            rules.act(f"{pair}-junction", action, "end", reward=sign * family)
        onwards = {f"{pair}-first": lingers, f"{pair}-second": 1.0 - lingers}
        rules.act(f"{pair}-first", "down", onwards)
        rules.see(f"{pair}-first", first)
        rules.see(f"{pair}-second", second)
        rules.see(f"{pair}-junction", "white")
    return rules.pomdp(dict(zip(states, start, strict=False)), gamma)


FORK = (0.4, 0.4, 0.2)


def equivalent_mdp(fork: Sequence[float] = FORK, gamma: float = 0.9) -> Pomdp:
    """Six states, aliased, and yet the observations are Markov: a POMDP that is an MDP.

    From `s0` both actions lead to `s1`, `sx`, `s2` with the probabilities `fork`. `s1` shows `o1`,
    `s2` shows `o2`, and `sx` either with equal chances. Hidden: whether it is `sx`. But the three
    are always entered in the same proportions, so Pr(s | o) never depends on the past or on the
    policy: T Π^S = T Φ W^Π. `up` reaches the goal from `s1` and `sx`, `down` from `s2`, and `sx`
    half the time; the goal pays 1 and then ends.

    `equivalent_mdp_collapsed` is the same without `sx`.

    >>> equivalent_mdp()
    Pomdp(6 states, 2 actions, 5 observations, gamma=0.9)
    """
    _check_fork(fork)
    rules = _fork_rules(["s0", "s1", "sx", "s2", "goal", "end"], ["o0", "o1", "o2"])
    for action in ("up", "down"):
        rules.act("s0", action, dict(zip(("s1", "sx", "s2"), fork, strict=True)))
    for state, seen in (("s1", "o1"), ("s2", "o2"), ("sx", {"o1": 0.5, "o2": 0.5})):
        rules.see(state, seen)
        rules.act(state, "up", _reach(_GOAL_CHANCE[state, "up"]))
        rules.act(state, "down", _reach(_GOAL_CHANCE[state, "down"]))
    return rules.pomdp("s0", gamma)


def equivalent_mdp_collapsed(fork: Sequence[float] = FORK, gamma: float = 0.9) -> Pomdp:
    """The five-state MDP that behaves as `equivalent_mdp` does for every policy.

    `sx` is shared out to `s1` and `s2`, whose actions become the mixtures that the agent meets
    behind each observation.

    >>> equivalent_mdp_collapsed()
    Pomdp(5 states, 2 actions, 5 observations, gamma=0.9)
    """
    _check_fork(fork)
    to_s1, to_sx, to_s2 = fork
    rules = _fork_rules(["s0", "s1", "s2", "goal", "end"], ["o0", "o1", "o2"])
    for action in ("up", "down"):
        rules.act("s0", action, {"s1": to_s1 + 0.5 * to_sx, "s2": to_s2 + 0.5 * to_sx})
    for state, seen, own in (("s1", "o1", to_s1), ("s2", "o2", to_s2)):
        rules.see(state, seen)
        share = 0.5 * to_sx / (own + 0.5 * to_sx) if to_sx else 0.0  # Pr(sx | what is seen)
        for action in ("up", "down"):
            own_chance, x_chance = _GOAL_CHANCE[state, action], _GOAL_CHANCE["sx", action]
            rules.act(state, action, _reach((1.0 - share) * own_chance + share * x_chance))
    return rules.pomdp("s0", gamma)


_GOAL_CHANCE = {
    ("s1", "up"): 1.0,
    ("s1", "down"): 0.0,
    ("sx", "up"): 1.0,
    ("sx", "down"): 0.5,
    ("s2", "up"): 0.0,
    ("s2", "down"): 1.0,
}


def _check_fork(fork: Sequence[float]) -> None:
    if len(fork) != 3:
        raise ValueError(f"fork has 3 probabilities, of s1, sx and s2; got {len(fork)}")


def _reach(chance: float) -> dict[str, float]:
    return {"goal": chance, "end": 1.0 - chance}


def _fork_rules(states: Sequence[str], observations: Sequence[str]) -> Rules:
    """What the six-state POMDP and the five-state MDP share: the start and both ends."""
    rules = Rules(states, ["up", "down"], [*observations, "goal", "end"])
    rules.see("s0", "o0")
    rules.see("goal", "goal")
    rules.end("end", "end")
    for action in ("up", "down"):
        rules.act("goal", action, "end", reward=1.0)
    return rules

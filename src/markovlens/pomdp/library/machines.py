"""Machines and creatures whose condition is hidden: tiger, paint, network, shuttle."""

import numpy as np

from markovlens.pomdp.library.rules import Chances, Rules, row, uniform
from markovlens.pomdp.model import Pomdp
from markovlens.pomdp.splitting import split_on_action


def tiger(gamma: float = 0.95) -> Pomdp:
    """The tiger problem: listen (-1), or open a door (10, or -100 if the tiger is behind it).

    Hidden: which door the tiger is behind. Listening tells it rightly with probability 0.85;
    before the first action the agent sees `initial`. Opening a door ends the episode.

    >>> tiger()
    Pomdp(5 states, 3 actions, 4 observations, gamma=0.95)
    """
    doors = {"left": "right", "right": "left"}
    starts = [f"tiger-{side}-initial" for side in doors]
    states = [*starts, *(f"tiger-{side}-heard" for side in doors), "end"]
    actions = ["listen", "open-left", "open-right"]
    rules = Rules(states, actions, ["initial", "hear-left", "hear-right", "end"])
    rules.end("end", "end")
    for side, other in doors.items():
        rules.see(f"tiger-{side}-initial", "initial")
        rules.see(f"tiger-{side}-heard", {f"hear-{side}": 0.85, f"hear-{other}": 0.15})
        for here in (f"tiger-{side}-initial", f"tiger-{side}-heard"):
            rules.act(here, "listen", f"tiger-{side}-heard", reward=-1.0)
            rules.act(here, f"open-{side}", "end", reward=-100.0)
            rules.act(here, f"open-{other}", "end", reward=10.0)
    return rules.pomdp(uniform(starts), gamma)


def paint(gamma: float = 0.95, episodic: bool = False) -> Pomdp:
    """Paint a part and ship it if it is sound, reject it if it is flawed.

    Hidden: whether the part is flawed, and whether painting took. It does with probability 0.9,
    and then covers the blemish that shows the flaw. `inspect` tells a blemish rightly with
    probability 0.75; every other action is followed by `unblemished`. As what is seen depends on
    the action, states are split on the arriving action, and the start emits `initial`: four
    states and two observations become ten and three.

    Shipping a sound painted part and rejecting a flawed unpainted one pay 1, rejecting a flawed
    painted one nothing, shipping or rejecting any other -1. A fresh part follows, as at the start
    sound or flawed with equal chances; with `episodic`, the end.

    >>> paint()
    Pomdp(10 states, 4 actions, 3 observations, gamma=0.95)
    """
    parts = ["sound-unpainted", "sound-painted", "flawed-painted", "flawed-unpainted"]
    paid = {
        "ship": {"sound-painted": 1.0, "flawed-painted": -1.0},
        "reject": {"flawed-unpainted": 1.0, "flawed-painted": 0.0},
    }
    fresh = uniform(["sound-unpainted", "flawed-unpainted"])
    done: Chances = "end" if episodic else fresh
    end = ["end"] if episodic else []
    views = ["unblemished", "blemished", *end]
    rules = Rules([*parts, *end], ["paint", "inspect", "ship", "reject"], views)
    for part in parts:
        painted = part.replace("unpainted", "painted")
        covered: Chances = part if part == painted else {painted: 0.9, part: 0.1}
        rules.act(part, "paint", covered)
        rules.act(part, "inspect", part)
        rules.act(part, "ship", done, reward=paid["ship"].get(part, -1.0))
        rules.act(part, "reject", done, reward=paid["reject"].get(part, -1.0))
        rules.see(part, "unblemished")
    if episodic:
        rules.end("end", "end")
    O = np.stack([rules.Phi] * 4)  # noqa: E741
    for i, part in enumerate(parts):
        blemish = 0.75 if part == "flawed-unpainted" else 0.25
        inspected = {"unblemished": 1.0 - blemish, "blemished": blemish}
        O[rules.actions.index("inspect"), i] = row(inspected, views)
    p0 = row(fresh, rules.states)
    names = rules.states, rules.actions, rules.observations
    return split_on_action(rules.T, rules.R, O, p0, gamma, *names)


def network(gamma: float = 0.95, episodic: bool = False) -> Pomdp:
    """Keep a network busy without crashing it: the busier, the more it pays.

    Hidden: the load, in fifths. `unrestrict`, `steady` and `restrict` let it drift up, stay or
    fall; beyond full load the network crashes. The only sign is an occasional `down`, more likely
    under high load and certain after a crash. A step pays 20 for each fifth above the first,
    -20 if idle or crashed, -40 to `reboot`, which always leads to an idle network. Starts
    anywhere; with `episodic` a crash is the end, and the start is anywhere but there.

    >>> network()
    Pomdp(7 states, 4 actions, 2 observations, gamma=0.95)
    """
    drifts = {
        "unrestrict": {-2: 0.1, -1: 0.1, 0: 0.3, 1: 0.3, 2: 0.1, 3: 0.1},
        "steady": {-2: 0.1, -1: 0.2, 0: 0.4, 1: 0.2, 2: 0.1},
        "restrict": {-4: 0.1, -2: 0.1, -1: 0.3, 0: 0.3, 1: 0.1, 2: 0.1},
    }
    down = {"load40": 0.0, "load60": 0.1, "load80": 0.3, "load100": 0.5}
    loads = [f"load{20 * i}" for i in range(6)]
    states = [*loads, "crash"]
    end = ["crash"] if episodic else []
    rules = Rules(states, [*drifts, "reboot"], ["up", "down", *end])
    for i, load in enumerate(loads):
        for action, drift in drifts.items():
            chances = dict.fromkeys(states, 0.0)
            for change, probability in drift.items():
                chances[states[min(max(i + change, 0), len(loads))]] += probability
            rules.act(load, action, chances, reward=20.0 * (i - 1))
        rules.act(load, "reboot", loads[0], reward=-40.0)
        rules.see(load, {"down": down.get(load, 0.0), "up": 1.0 - down.get(load, 0.0)})
    if episodic:
        rules.end("crash", "crash")
        return rules.pomdp(uniform(loads), gamma)
    for action in drifts:
        rules.act("crash", action, "crash", reward=-20.0)
    rules.act("crash", "reboot", loads[0], reward=-40.0)
    rules.see("crash", "down")
    return rules.pomdp(uniform(states), gamma)


def shuttle(gamma: float = 0.95, episodic: bool = False) -> Pomdp:
    """Chrisman's shuttle between two space stations: back into the one not visited last.

    Hidden: how far away the stations are, and often what is ahead: the ship sees a station only
    in front of it (in space with probability 0.7), never behind. Docking, backwards, at the least
    recently visited station (lrv) pays 10, and the next departure makes it the most recently
    visited one (mrv). Bumping into a station forwards costs 3. Backing up is unreliable. Starts
    docked at mrv; with `episodic`, docking at lrv is the end.

    >>> shuttle()
    Pomdp(8 states, 3 actions, 5 observations, gamma=0.95)
    """
    places = ["mrv", "space", "lrv"]  # beside one station, between them, beside the other
    facing_mrv = [f"at-{place}-facing-mrv" for place in places]
    facing_lrv = [f"at-{place}-facing-lrv" for place in places]
    states = ["docked-lrv", *facing_mrv, *facing_lrv, "docked-mrv"]
    views = ["see-lrv", "see-mrv", "docked-mrv", "see-nothing", "docked-lrv"]
    rules = Rules(states, ["turn", "forward", "backup"], views)
    for docked in ("docked-lrv", "docked-mrv"):
        rules.see(docked, docked)
        rules.act(docked, "turn", "at-mrv-facing-mrv")
        rules.act(docked, "forward", "at-mrv-facing-lrv")
        rules.act(docked, "backup", "docked-mrv")
    routes = (("mrv", facing_mrv, facing_lrv), ("lrv", facing_lrv[::-1], facing_mrv[::-1]))
    for ahead, (front, space, back), (front_turned, space_turned, back_turned) in routes:
        behind = "lrv" if ahead == "mrv" else "mrv"
        rules.see(front, f"see-{ahead}")
        rules.see(space, {f"see-{ahead}": 0.7, "see-nothing": 0.3})
        rules.see(back, "see-nothing")
        rules.act(front, "turn", front_turned)
        rules.act(space, "turn", space_turned)
        rules.act(back, "turn", back_turned)
        rules.act(front, "forward", front, reward=-3.0)
        rules.act(space, "forward", front)
        rules.act(back, "forward", space)
        rules.act(front, "backup", {front: 0.4, space: 0.3, front_turned: 0.3})
        rules.act(space, "backup", {space: 0.1, back: 0.8, back_turned: 0.1})
        docking = {f"docked-{behind}": 0.7, back: 0.3}
        rules.act(back, "backup", docking, reward=0.7 * 10.0 if behind == "lrv" else 0.0)
    if episodic:
        rules.end("docked-lrv", "docked-lrv")
    return rules.pomdp("docked-mrv", gamma)

import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from markovlens.evidence import continuous, copies, inputs, lstd, tabular
from markovlens.evidence.answer import Detection, Remedy
from markovlens.evidence.detect import detect
from markovlens.evidence.discrete import discretise
from markovlens.evidence.finding import Evidence, Settings
from markovlens.evidence.interval import Size
from markovlens.evidence.null import tabular_evidence
from markovlens.evidence.plot import COLOURS, plot_detection
from markovlens.evidence.stacking import PRESENT, Stack
from markovlens.evidence.trajectories import Trajectories
from tests.evidence.cases import drifting_points, random_chain, sample_chain

QUICK = {"replications": 39, "probes": 4}


def delayed(rng, episodes: int, reach: int) -> Trajectories:
    """What was seen `reach` steps ago decides the pay at the end."""
    start = rng.integers(0, 2, episodes)
    seen = np.full((episodes, reach + 1), 2)
    seen[:, 0] = start
    pay = np.zeros((episodes, reach + 1))
    pay[:, -1] = 2.0 * start - 1.0 + rng.normal(size=episodes)
    over = np.zeros((episodes, reach + 1), dtype=bool)
    over[:, -1] = True
    following = np.full_like(seen, 2)
    return Trajectories(
        seen.ravel(),
        np.zeros(seen.size, dtype=int),
        pay.ravel(),
        over.ravel(),
        None,
        following.ravel(),
    )


@pytest.mark.slow
def test_markov_chains_are_markov():
    """Ten of them, for one in twenty is called not Markov even if all is well."""
    answers = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        data = sample_chain(rng, *random_chain(rng), 6000)
        answers.append(detect(data, gamma=0.9, frames=0, **QUICK))
    # Binomial(10, 1/20): four or more has a chance of 1 in 1000.
    assert sum(found.markov is False for found in answers) <= 3
    yes = [found for found in answers if found.markov]
    assert len(yes) >= 5
    for found in yes:
        assert found.remedies == ()
        assert found.interval[0] == 0.0
        assert "no memory needed" in found.explain()
        assert 'against "the observations are Markov"' in found.explain()


def test_episodes_of_a_single_step():
    """A bandit: nothing follows, so nothing can be hidden in what follows."""
    rng = np.random.default_rng(0)
    o, a = rng.integers(0, 2, (2, 3000))
    data = Trajectories(o, a, a - o + rng.normal(size=3000), np.ones(3000, dtype=bool))
    found = detect(data, gamma=0.9, **QUICK)
    assert found.markov is True
    assert found.discrepancy == pytest.approx(0.0, abs=1e-9)


def test_merged_states_are_not_markov():
    """Two states that lead to different pay, shown as one."""
    transition = np.array(
        [[0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 1], [0, 0, 0, 0, 1]], float
    )
    reward = np.array([0.0, 0.0, 2.0, -2.0, 0.0])
    rng = np.random.default_rng(0)
    data = sample_chain(rng, transition, reward, 3000, show=[0, 1, 2, 2, 3])
    found = detect(data, gamma=0.9, **QUICK)
    assert found.markov is False
    assert found.p_value == pytest.approx(1 / 40)
    assert found.advice == "2 frames suffice"
    # γ V(2) is ±1.8 by Monte Carlo where TD says the average of the two; a third of the steps
    # start at 0 and 1, where the difference is; the rest have none.
    assert found.discrepancy == pytest.approx(1.8 * np.sqrt(1 / 3), rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("reach", [2, 3])
def test_as_many_frames_as_it_takes(reach):
    found = detect(delayed(np.random.default_rng(1), 1500, reach), gamma=0.9, **QUICK)
    assert found.markov is False
    assert found.advice == f"{reach + 1} frames suffice"


def test_beyond_the_longest_stack():
    data = delayed(np.random.default_rng(1), 1500, 4)
    found = detect(data, gamma=0.9, frames=2, **QUICK)
    assert found.advice == "needs memory beyond 2 steps: use a recurrent agent"


def test_pay_that_never_varies_is_undecided():
    rng = np.random.default_rng(0)
    data = sample_chain(rng, *random_chain(rng), 500)
    constant = Trajectories(**data.arrays() | {"reward": np.zeros(len(data))})
    found = detect(constant, gamma=0.9, **QUICK)
    assert found.markov is None
    assert found.steps_needed is None
    assert "hardly ever" in found.explain() or "paid the same" in found.explain()


def test_observations_that_predict_themselves_say_nothing_of_a_reward_that_was_never_paid():
    def unpaid(hidden: bool) -> Detection:
        data = drifting_points(np.random.default_rng(0), 8000, hidden)
        return detect(data.replace(reward=np.zeros(len(data))), gamma=0.9, frames=0)

    shown = unpaid(hidden=False)
    assert shown.markov is None
    assert shown.upper <= shown.tolerance * shown.scale  # with a reward, this would be Markov
    assert "nothing is known of what it depends on" in shown.advice
    assert "the reward was not tested" in shown.explain().splitlines()[0]
    assert shown.to_dict()["surrogate"] is True
    hidden = unpaid(hidden=True)
    assert hidden.markov is False
    assert "the reward was not tested" in hidden.advice


def test_too_little_data_is_undecided_and_says_how_much_is_needed():
    rng = np.random.default_rng(2)
    found = detect(sample_chain(rng, *random_chain(rng), 400), gamma=0.9, tolerance=0.02, **QUICK)
    assert found.markov is None
    assert found.steps_needed is not None
    assert found.steps_needed > 400
    assert "collect about" in found.advice


@pytest.mark.slow
def test_a_hidden_velocity_and_its_remedy():
    """Positions are noisy, so no stack gives the velocity exactly; but the question is answered."""
    rng = np.random.default_rng(0)
    shown = detect(drifting_points(rng, 8000, hidden=False), gamma=0.9)
    assert shown.markov is True
    assert shown.to_dict()["hypothesis"].startswith("the past adds at most 5%")
    assert shown.hypothesis in shown.explain()
    assert detect(drifting_points(rng, 8000, hidden=True), gamma=0.9, frames=0).markov is False


def test_names_are_used_for_what_carries_it():
    rng = np.random.default_rng(0)
    data = delayed(rng, 1500, 1)
    named = Trajectories(**data.arrays(), names=("heads", "tails", "on the way"))
    found = detect(named, gamma=0.9, frames=0, **QUICK)
    assert found.markov is False
    assert set(found.shares) <= {"heads", "tails", "on the way"}
    with pytest.raises(ValueError, match="2 names are for observations 0 to 1"):
        Trajectories(**data.arrays(), names=("heads", "tails"))
    velocity = drifting_points(rng, 4000, hidden=False)
    velocity = Trajectories(**velocity.arrays(), names=("position", "velocity")).hide([1])
    found = detect(velocity, gamma=0.9, frames=0, **QUICK)
    told = ("position", "action", "reward")
    assert all(any(part in name for part in told) for name in found.shares)


def redrawn_bandit(rng, n: int, always: bool = False) -> Trajectories:
    """A bandit whose good arm is drawn anew for every episode, or `always`: for every step."""
    over, arm = rng.random(n) < 0.1, rng.integers(0, 2, n)
    over[-1] = True
    draw = np.arange(n) if always else np.cumsum(over) - over
    paid = (arm == rng.integers(0, 2, n)[draw]).astype(float)
    return Trajectories(np.zeros(n, dtype=int), arm, paid, over)


def test_what_shows_only_in_rewards():
    data = redrawn_bandit(np.random.default_rng(2), 6000)
    found = detect(data, gamma=0.9, **QUICK)
    assert (found.markov, found.revealed_by) == (False, "rewards")
    assert found.advice == "1 frame, the previous action and its reward suffice"
    assert detect(data, gamma=0.9, rewards=False, **QUICK).markov is True
    chance = redrawn_bandit(np.random.default_rng(0), 6000, always=True)
    assert detect(chance, gamma=0.9, **QUICK).markov is True


def test_rewards_of_too_many_kinds_cannot_be_stacked():
    rng = np.random.default_rng(2)
    data = redrawn_bandit(rng, 6000)
    found = detect(data.replace(reward=data.reward + 0.1 * rng.normal(size=6000)), 0.9, **QUICK)
    assert (found.markov, found.revealed_by, found.remedies) == (False, "rewards", ())
    assert found.advice == "use a recurrent agent that sees its rewards"


def test_what_is_seen_and_paid_is_not_laid_to_rewards():
    """A reward says nothing new where the same can be seen."""
    rng = np.random.default_rng(0)
    seen = redrawn_bandit(rng, 6000)
    before = np.where(seen.time == 0, 0.0, np.roll(seen.reward, 1))
    found = detect(seen.with_observations(before, seen.reward), gamma=0.9, frames=0, **QUICK)
    assert (found.markov, found.revealed_by) == (False, "memory")


@pytest.mark.parametrize("hidden", [False, True])
def test_rewards_beside_continuous_observations(hidden):
    """Noise is seen; what is paid depends on a sign that turns now and then, or on chance."""
    rng = np.random.default_rng(0)
    n = 8000
    turns = rng.random(n) < (0.1 if hidden else 0.5)
    sign, action = np.where(np.cumsum(turns) % 2, 1.0, -1.0), rng.integers(0, 2, n)
    data = Trajectories(rng.normal(size=n), action, sign, np.arange(n) % 20 == 19)
    found = detect(data, gamma=0.9, frames=2)
    assert found.markov is (not hidden)
    if hidden:
        assert found.revealed_by == "rewards"
        assert next(iter(found.shares)).startswith(("previous reward", "reward over"))
        assert [r.name for r in found.remedies if r.markov] == [
            "1 frame, the previous action and its reward"
        ]
        assert detect(data, gamma=0.9, frames=0, rewards=False).markov is not False


def test_noise_in_the_pay_is_not_laid_to_rewards():
    """What shows in observations, whatever else is paid."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        data = delayed(rng, 1500, 2)
        found = detect(data.replace(reward=data.reward + rng.normal(size=len(data))), 0.9)
        assert (found.markov, found.revealed_by in ("values", "memory")) == (False, True)
        assert found.remedies


def test_what_observations_and_rewards_tell_together():
    """Cues are right in 6 of 10 steps; the reward says which arm is the good one at once."""
    rng = np.random.default_rng(0)
    data = redrawn_bandit(rng, 10_000)
    good = np.where(data.reward > 0.5, data.action, 1 - data.action)
    cue = np.where(rng.random(len(data)) < 0.6, good, 1 - good)
    follows = np.append(cue[1:], 0)
    found = detect(data.with_observations(cue, follows), gamma=0.9, frames=2, **QUICK)
    assert found.markov is False
    assert found.advice == "1 frame, the previous action and its reward suffice"


def test_values_of_actions_depend_on_what_those_of_observations_do_not():
    """A cue, some noise, and an action that should name the cue, by the toss of a coin."""
    rng = np.random.default_rng(0)
    cue, action = rng.integers(0, 2, 1000), rng.integers(0, 2, (1000, 3))
    seen = 0.1 * rng.normal(size=(1000, 3, 2)) + [[0, 0], [0, 1], [0, 2]]
    seen[:, 0, 0] += 2 * cue - 1
    paid = np.where(action == cue[:, None], 1.0, -1.0) * [0, 0, 1]
    over = np.tile([False, False, True], 1000)
    data = Trajectories(seen.reshape(-1, 2), action.ravel(), paid.ravel(), over)
    assert detect(data, gamma=0.9, frames=0).markov is False


@pytest.mark.parametrize("d", [2, 7])
def test_what_a_reward_tells_may_depend_on_what_was_seen(d):
    """Paid is an entry of what is seen, with a sign that is drawn for every episode."""
    rng = np.random.default_rng(0)
    x, sign = rng.uniform(-1, 1, (8000, d)), np.repeat(rng.choice([-1.0, 1.0], 400), 20)
    over = np.arange(8000) % 20 == 19
    data = Trajectories(x, np.zeros(8000, int), sign * x[:, 0], over)
    found = detect(data, gamma=0.5, frames=0)
    assert (found.markov, found.revealed_by) == (False, "rewards")
    assert all("reward" in name for name in found.shares)


def test_a_past_of_rewards_alone():
    """Two steps; the first shows nothing, but what it pays is paid again."""
    rng = np.random.default_rng(0)
    bit = rng.integers(0, 2, 1000).astype(float)
    seen = np.column_stack([np.zeros(1000), rng.normal(size=1000)]).ravel()
    data = Trajectories(seen, np.zeros(2000, int), np.repeat(bit, 2), np.arange(2000) % 2 == 1)
    found = detect(data, gamma=0.9, frames=0)
    assert (found.markov, found.revealed_by) == (False, "rewards")


def test_the_unit_of_pay_does_not_matter():
    data = redrawn_bandit(np.random.default_rng(2), 3000)
    found = [detect(data.replace(reward=u * data.reward), 0.9, frames=0) for u in (1.0, 2.0**-50)]
    assert found[0].p_value == found[1].p_value
    assert [f.notes for f in found] == [(), ()]


def test_undiscounted_values_need_an_end():
    """Observation 1 is never left, in episodes that are cut; others end."""
    observation = np.tile([0, 0, 0, 1, 1, 1], 500)
    over = np.tile([False, False, True, False, False, False], 500)
    cut = np.tile([False] * 5 + [True], 500)
    paid = np.random.default_rng(0).normal(size=3000)
    data = Trajectories(observation, np.zeros(3000, int), paid, over, cut, observation)
    with pytest.raises(ValueError, match="with gamma = 1 values are finite only if"):
        detect(data, gamma=1.0)


def test_settings_are_checked():
    data = sample_chain(np.random.default_rng(0), *random_chain(np.random.default_rng(0)), 100)
    for change, says in [
        ({"gamma": 1.5}, "gamma"),
        ({"level": 0.0}, "level"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"replications": 5}, "at least 19 replications"),
        ({"probes": 99}, "probes"),
        ({"rewards": "no"}, "rewards must be True or False"),
    ]:
        with pytest.raises(ValueError, match=says):
            detect(data, **change)
    with pytest.raises(ValueError, match="too few"):
        detect(Trajectories([0], [0], [1.0], [True]))


ANSWER = Detection(
    markov=False,
    discrepancy=1.0,
    interval=(0.5, 1.5),
    p_value=0.005,
    hypothesis="the observations are Markov",
    remembered=1.1,
    upper=1.4,
    scale=2.0,
    level=0.05,
    tolerance=0.1,
    revealed_by="values",
    shares={"3": 0.7, "1": 0.3},
    method="discrete",
    steps=1000,
    episodes=10,
    gamma=0.9,
    steps_needed=None,
    surrogate=False,
    notes=(),
    remedies=(Remedy(2, False, False, True, 0.4, 0.0, 0.0, 0.1),),
)


def test_the_answer_is_plain_data(tmp_path):
    assert json.loads(json.dumps(ANSWER.to_dict()))["advice"] == "2 frames suffice"
    plot_detection(ANSWER, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(ValueError, match=r"\.png, \.svg or \.pdf"):
        plot_detection(ANSWER, tmp_path / "a.bmp")


def test_a_picture_shows_the_verdict_and_no_shares_of_noise(tmp_path):
    def drawn(**changes) -> str:
        plot_detection(replace(ANSWER, **changes), tmp_path / "a.svg")
        return (tmp_path / "a.svg").read_text()  # texts are in its comments

    hidden = drawn()
    assert "<!-- carried by -->" in hidden
    for name, verdict in (("as it is", False), ("2 frames", True)):  # the second has no bar
        label = hidden[hidden.index(f"<!-- {name} -->") :].splitlines()[1]
        assert f"fill: {COLOURS[verdict]}" in label
    for verdict in (True, None):
        assert "carried by" not in drawn(markov=verdict, remedies=())
    assert "a reward made from the observations" not in hidden
    assert "a reward made from the observations" in drawn(surrogate=True)


def test_a_single_entry_has_its_name():
    """The entry of a vector of one is not the name of its first value."""
    rng = np.random.default_rng(0)
    data = delayed(rng, 300, 2)
    column = data.observation[:, None]
    named = data.with_observations(column, data.next_observation[:, None], ["door"])
    found = detect(named, gamma=0.9, frames=0, **QUICK)
    assert set(found.shares) <= {"(0)", "(1)", "(2)"}


def test_what_was_seen_once_shows_nothing():
    rng = np.random.default_rng(0)
    data = Trajectories(
        np.arange(400), np.zeros(400, int), rng.normal(size=400), np.arange(400) % 4 == 3
    )
    found = detect(data, gamma=0.9, **QUICK)
    assert found.markov is None
    assert any("seen only a few times" in note for note in found.notes)


@pytest.mark.parametrize("seed", range(3))
def test_constant_pay_is_undecided_however_it_rounds(seed):
    rng = np.random.default_rng(seed)
    o = rng.integers(0, 3, 400)
    data = Trajectories(o, np.zeros(400, int), np.ones(400), np.zeros(400, bool))
    assert detect(data, gamma=0.99, frames=0, **QUICK).markov is None


def test_remedies_are_tried_with_no_more_effort_than_was_asked_for():
    """A strict level needs more copies than the quick tests have; short episodes end the search."""
    data = delayed(np.random.default_rng(0), 600, 2)
    strict = detect(data, gamma=0.9, level=0.01, replications=120, probes=2, frames=2)
    assert strict.markov is False
    assert strict.remedies
    rng = np.random.default_rng(0)
    hidden = drifting_points(rng, 4000, hidden=True).cut(4)
    found = detect(hidden, gamma=0.9, frames=8)
    assert found.markov is False
    assert max(remedy.frames for remedy in found.remedies) < 5  # no episode has a fifth frame


def test_what_cannot_be_asked_is_refused(tmp_path):
    data = delayed(np.random.default_rng(0), 60, 2)
    never = data.replace(terminated=np.zeros(len(data), dtype=bool), truncated=data.terminated)
    with pytest.raises(ValueError, match="no episode ever ends"):
        detect(never, gamma=1.0)
    with pytest.raises(ValueError, match="got dict"):
        detect({"observation": [0]})
    with pytest.raises(ValueError, match="already has its actions"):
        detect(data, policy=lambda _: 0)
    np.savez(tmp_path / "log.npz", **data.arrays())
    assert detect(tmp_path / "log.npz", gamma=0.9, frames=0, **QUICK).steps == len(data)


def test_of_a_long_log_some_episodes_are_looked_at(tmp_path):
    data = delayed(np.random.default_rng(0), 3000, 2)
    part = detect(data, gamma=0.9, most=1500, frames=0, **QUICK)
    assert 1400 < part.steps <= 1500
    assert f"{part.steps:,} of {len(data):,} steps were looked at" in part.notes[0]
    assert part == detect(data, gamma=0.9, most=1500, frames=0, **QUICK)
    whole = detect(data, gamma=0.9, frames=0, **QUICK)
    assert whole.steps == len(data)
    assert not any("looked at" in note for note in whole.notes)
    never = np.zeros(len(data), dtype=bool)
    endless = Trajectories(data.observation, data.action, data.reward, never)
    assert endless.n_episodes == 1
    assert 0 < detect(endless, gamma=0.9, most=2000, frames=0, **QUICK).steps <= 2000


def most_memory(work: Callable[[], object]) -> int:
    tracemalloc.start()
    work()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def test_memory_grows_with_the_kinds_of_steps_not_their_number(monkeypatch):
    """Beyond the data and its indices, one portion of simulated steps and sums is all there is."""
    monkeypatch.setattr(copies, "ROWS_AT_ONCE", 5000)
    monkeypatch.setattr(tabular, "MOST_BLOCKS", 100)
    rng = np.random.default_rng(0)
    chain = random_chain(rng)

    def most(steps: int, stack: Stack) -> int:
        data = sample_chain(rng, *chain, steps).cut(10)
        settings = Settings(0.9, replications=20, probes=2, resamples=20)
        return most_memory(lambda: tabular_evidence(stack.numbers(discretise(data)), settings, rng))

    for stack in (Stack(), Stack(2)):
        few, many = most(20_000, stack), most(80_000, stack)
        # Bytes a step, for indices; all rows at once take 1100, and stacks of vectors 580.
        assert (many - few) / 60_000 < 140


def test_memory_grows_little_with_the_steps_of_continuous_observations(monkeypatch):
    """Features of a portion are held, hundreds of numbers a step; for the others, a few."""
    for module in (continuous, inputs, lstd):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 1024)
    monkeypatch.setattr(inputs, "SCALED_BY", 5000)
    rng = np.random.default_rng(0)

    def most(steps: int) -> int:
        data, stack = drifting_points(rng, steps, hidden=False), Stack(3, actions=1)
        ask = continuous.continuous_evidence
        return most_memory(lambda: ask(data, Settings(0.9), rng, stack))

    few, many = most(10_000), most(30_000)
    assert (many - few) / 20_000 < 200  # bytes a step; with all inputs at once, 1300


def to_a_goal(rng, noise: int) -> Trajectories:
    """What is seen first tells when the only pay will come; all after that is noise."""
    parts = []
    for episode in range(400):
        length = 5 if episode % 2 else 30
        seen = rng.normal(size=(length + 1, noise))
        seen[0] = 4.0 if length == 5 else -4.0
        paid, over = np.zeros(length), np.zeros(length, dtype=bool)
        paid[-1], over[-1] = 1.0, True
        parts.append((seen[:-1], np.zeros(length, dtype=int), paid, over, over & False, seen[1:]))
    return Trajectories(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def test_the_same_pay_at_different_times_is_not_the_same():
    found = detect(to_a_goal(np.random.default_rng(0), 2), gamma=0.9, frames=0)
    assert found.markov is False
    assert found.notes == ()


def test_copies_are_as_noisy_as_the_data():
    """However few the visits: in a Markov chain the data's discrepancy is that of the copies."""
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        transition = np.zeros((61, 61))
        transition[:60, :60] = 0.9 * rng.dirichlet(np.full(60, 0.2), 60)
        transition[:, 60] = 1.0 - transition.sum(axis=1)
        data = discretise(sample_chain(rng, transition, rng.normal(size=61), 200))
        probes = copies.Probes(rng, 0, data.moves)
        simulator = copies.Simulator(data, probes, 0.9, rng)
        noise = []
        for rows, n in ((copies.rows_of(data, probes, 0.9), 1), (simulator.copies(20), 20)):
            final = tabular.final_values(data, rows, n)
            (gaps,) = tabular.gaps_of(data, rows, final, [None], 0.9)
            noise.append((gaps.total**2 / np.maximum(gaps.visits, 1.0)).sum() / n / 200)
        found.append([noise[0], noise[1] * simulator.too_quiet**2])
    own, of_copies = np.mean(found, axis=0)
    assert own == pytest.approx(of_copies, rel=0.2)  # by a third larger without the factor


def busy(rng, n_observations: int, n_actions: int, steps: int) -> Trajectories:
    """An MDP in which most actions do the same; the pay is noisy."""
    observation, action = np.zeros(steps, dtype=int), rng.integers(0, n_actions, steps)
    pushed = rng.random(steps) < 0.2
    over = rng.random(steps) < 0.05
    for t in range(steps - 1):
        after = (observation[t] + 1 + action[t] % 2 + pushed[t]) % n_observations
        observation[t + 1] = rng.integers(n_observations) if over[t] else after
    mean = rng.normal(size=(n_observations, n_actions))
    reward = mean[observation, action] + rng.normal(size=steps)
    return Trajectories(observation, action, reward, over)


@pytest.mark.parametrize("sizes", [(5, 50, 5000), (20, 50, 5000), (10, 200, 5000)])
def test_many_actions_are_not_taken_for_something_hidden(sizes):
    """A few visits to every pair, or hardly any."""
    rejected = 0
    for seed in range(4):
        found = detect(busy(np.random.default_rng(seed), *sizes), 0.95, frames=0, **QUICK)
        rejected += found.markov is False
    assert rejected <= 1
    few = sizes[2] < 20 * sizes[0] * sizes[1]
    assert any("actions are of so many kinds" in note for note in found.notes) == few


def test_late_actions_are_told_by_the_actions():
    """What is done takes effect two steps later: two actions are all there is to remember."""
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, 6000)
    cut = np.arange(6000) % 30 == 29
    at = np.zeros(6000)
    for t in range(5999):
        late = action[t - 2] if t % 30 >= 2 else 0
        at[t + 1] = 0.0 if cut[t] else 0.8 * at[t] + late - 0.5 + 0.1 * rng.normal()
    data = Trajectories(at[:, None], action, -np.abs(at), np.zeros(6000, dtype=bool), cut)
    found = detect(data, gamma=0.9, frames=3)
    assert found.advice == "2 frames and the 2 previous actions suffice"


def test_what_suffices_also_does_with_more_beside_it(monkeypatch):
    """A stack that seems to suffice does not if one that holds it is rejected."""
    p_values = {Stack(1, 1): 0.5, Stack(1, 1, 1): 0.001}

    def ask(question, stack=PRESENT, advance=None):
        none = Size(0.0, (0.0, 0.0), 0.0)
        p = p_values.get(stack, 0.001)
        return Evidence(none, "", p, 0.0, 0.0, "memory", {}, 1.0, rewards=True, p_without_rewards=p)

    monkeypatch.setattr("markovlens.evidence.detect._Question.ask", ask)
    data = delayed(np.random.default_rng(0), 600, 2)
    data = data.replace(action=np.arange(len(data)) % 2)
    found = detect(data, gamma=0.9, frames=1, **QUICK)
    assert [remedy.markov for remedy in found.remedies] == [False, False]
    p_values[Stack(1, 1, 1)] = 0.04  # as happens by chance
    found = detect(data, gamma=0.9, frames=1, **QUICK)
    assert [remedy.markov for remedy in found.remedies] == [True, False]


def test_whole_numbers_of_too_many_kinds_may_be_quantities():
    rng = np.random.default_rng(0)
    at = rng.integers(-400, 400, 1200)
    data = Trajectories(at, rng.integers(0, 2, 1200), at / 100.0, np.arange(1200) % 20 == 19)
    found = detect(data, gamma=0.9, frames=0, **QUICK)
    assert any("if these are quantities" in note for note in found.notes)


def test_stacks_of_too_many_kinds_are_not_asked_about():
    rng = np.random.default_rng(0)
    data = delayed(rng, 600, 2)
    data = data.replace(action=rng.integers(0, 30, len(data)))
    found = detect(data, gamma=0.9, frames=3, **QUICK)
    assert max(remedy.actions for remedy in found.remedies) == 1


def test_what_cannot_be_told_of_several_actions_does_not_end_the_search(monkeypatch):
    def ask(question, stack=PRESENT, advance=None):
        p, upper = (0.5, 1.0) if stack.actions > 1 else (0.001, 0.0)
        none = Size(0.0, (0.0, 0.0), upper)
        return Evidence(none, "", p, 0.0, upper, "memory", {}, 1.0)

    monkeypatch.setattr("markovlens.evidence.detect._Question.ask", ask)
    data = delayed(np.random.default_rng(0), 600, 2)
    found = detect(data.replace(action=np.arange(len(data)) % 2), gamma=0.9, frames=3, **QUICK)
    assert [remedy.markov for remedy in found.remedies if remedy.actions > 1] == [None, None]
    assert found.advice.startswith("needs memory beyond 3 steps")

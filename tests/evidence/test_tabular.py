import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from markovlens.evidence import copies, flows, tabular
from markovlens.evidence.collect import collect
from markovlens.evidence.copies import Probes, Simulator, rows_of
from markovlens.evidence.discrete import Discrete, discretise, numbered
from markovlens.evidence.finding import Settings
from markovlens.evidence.interval import size
from markovlens.evidence.null import tabular_evidence
from markovlens.evidence.tabular import Blocks, Gaps, final_values, gaps_of
from markovlens.evidence.trajectories import Trajectories
from tests.evidence.cases import random_chain, sample_chain, tmaze_always_right_then_up


def no_probes(data):
    return Probes(np.random.default_rng(0), 0, data.moves)


def gaps(data: Discrete, probes: Probes, gamma: float, probe: int | None = None) -> Gaps:
    observed = rows_of(data, probes, gamma)
    kind = None if probe is None else probes[probe]
    return gaps_of(data, observed, final_values(data, observed, 1), [kind], gamma)[0]


def test_the_tmaze_by_hand():
    """Undiscounted, Monte Carlo says 4 and -0.1 at the two starts; TD says 1.95 at both."""
    data = discretise(tmaze_always_right_then_up())
    found = gaps(data, no_probes(data), 1.0)
    assert data.moves.observation.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(found.mean[0, :, 0], [2.05, -2.05, 0.0, 0.0], atol=1e-10)


def plain_gaps(data: Trajectories, memory: np.ndarray, n: int, gamma: float):
    """Q¹ − Q⁰ by loops over steps; `memory[t]` and `memory[t + 1]` are the bits around step t."""
    cells = 2 * n
    A0, b0 = np.zeros((cells, cells)), np.zeros(cells)
    A1, b1 = np.zeros((n, n)), np.zeros(n)
    returns, tails, finals = np.zeros(len(data)), np.zeros(len(data)), np.zeros(len(data), int)
    for start, length in zip(data.start, data.length, strict=True):
        g, tail, final = 0.0, 0.0, 0
        for t in reversed(range(start, start + length)):
            if data.truncated[t]:
                tail, final = 1.0, data.next_observation[t]
            g, tail = data.reward[t] + gamma * g, gamma * tail
            returns[t], tails[t], finals[t] = g, tail, final
    for t in range(len(data)):
        o = data.observation[t]
        A1[o, o] += 1
        A1[o, finals[t]] -= tails[t]
        b1[o] += returns[t]
    v1 = np.linalg.solve(A1, b1)
    returns += tails * v1[finals]
    for t in range(len(data)):
        x = 2 * data.observation[t] + memory[t][0]
        after = 2 * data.next_observation[t] + memory[t][1]
        A0[x, x] += 1
        if not data.terminated[t]:
            A0[x, after] -= gamma
        b0[x] += data.reward[t]
    for x in np.flatnonzero(A0.diagonal() == 0):
        A0[x, x], b0[x] = 1.0, returns.mean()
    v0 = np.linalg.solve(A0, b0)
    total, td_total, visits = np.zeros((3, cells, 2))
    for t in range(len(data)):
        x = 2 * data.observation[t] + memory[t][0]
        after = 2 * data.next_observation[t] + memory[t][1]
        td = data.reward[t] + gamma * v0[after] * (not data.terminated[t])
        total[x, data.action[t]] += returns[t] - td
        td_total[x, data.action[t]] += td
        visits[x, data.action[t]] += 1
    by_memory = np.zeros((cells, 2))
    for o in range(n):
        for a in range(2):
            pair = slice(2 * o, 2 * o + 2)
            mean = td_total[pair, a].sum() / max(visits[pair, a].sum(), 1)
            by_memory[pair, a] = td_total[pair, a] - visits[pair, a] * mean
    return total, by_memory


@profile(max_examples=25)
@given(st.integers(0, 10_000), st.booleans(), st.integers(0, 4))
def test_agrees_with_loops_with_memory_and_truncation(seed, as_sparse, probe):
    """With memories of observations and actions, and (3 and 4) with those that see rewards too."""
    rng = np.random.default_rng(seed)
    n, steps, gamma = 3, 60, 0.9
    ends = rng.random(steps) < 0.2
    over = ends & (rng.random(steps) < 0.5)
    o = rng.permutation(np.arange(steps) % n)
    data = Trajectories(
        o,
        rng.integers(0, 2, steps),
        rng.normal(size=steps),
        over,
        ends & ~over,
        np.where(ends, rng.integers(0, n, steps), np.roll(o, -1)),
    )
    index = discretise(data)
    moves = index.moves
    probes = Probes(rng, 3, moves, n_paid=2)
    bits = []
    for t in range(steps):
        m = 0 if data.time[t] == 0 else bits[-1][1]
        keep, flip = probes.keep[moves.of_step[t]], probes.flip[moves.of_step[t]]
        bits.append((m, (m & keep) ^ flip))
    memory = np.array([((m >> probe) & 1, (after >> probe) & 1) for m, after in bits])
    with pytest.MonkeyPatch.context() as patch:
        if as_sparse:
            patch.setattr(flows, "LARGEST_DENSE", 0)
        found = gaps(index, probes, gamma, probe=probe)
    expected = plain_gaps(data, memory, n, gamma)
    for ours, table in zip((found.total, found.by_memory), expected, strict=True):
        by_pair = table.reshape(n, 2, 2)[moves.observation, :, moves.action]  # [pair, memory]
        np.testing.assert_allclose(ours[0], by_pair, atol=1e-7)


def test_luck_is_what_a_reward_says_beyond_what_is_seen():
    """Paid more than other steps of the same kind, in an episode that goes on."""
    data = Trajectories(
        observation=[0, 0, 0, 0, 1, 0],
        action=[0, 0, 0, 1, 0, 0],
        reward=[1.0, 3.0, 5.0, 7.0, 9.0, 8.0],
        terminated=[False, False, False, False, False, True],
        next_observation=[0, 0, 0, 1, 0, 0],
    )
    moves = discretise(data).moves
    assert moves.luck[moves.of_step].tolist() == [0, 0, 1, 0, 0, 0]
    probes = Probes(np.random.default_rng(0), 20, moves, n_paid=20)
    usual, lucky, other = (np.array([probes.keep[moves.of_step[t]]]) for t in (0, 2, 3))
    of_actions = 2**20 - 1
    assert usual & of_actions == lucky & of_actions != other & of_actions
    assert usual >> 20 != lucky >> 20
    none = discretise(data.replace(reward=np.array([0.1] * 3 + [7.0, 9.0, 8.0]))).moves
    assert not none.luck.any()  # the mean of three times 0.1 is not quite 0.1


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("rows_at_once", [copies.ROWS_AT_ONCE, 70])
def test_weighted_episodes_are_repeated_episodes(as_sparse, rows_at_once, monkeypatch):
    if as_sparse:
        monkeypatch.setattr(flows, "LARGEST_DENSE", 0)
    monkeypatch.setattr(copies, "ROWS_AT_ONCE", rows_at_once)
    rng = np.random.default_rng(3)
    steps = sample_chain(rng, *random_chain(rng), 300).cut(4)
    data = discretise(steps)
    counts = rng.integers(0, 3, (2, steps.n_episodes))
    found = Blocks(data, rows_of(data, no_probes(data), 0.9)).weighted(counts.astype(float), 0.9)
    for row, count in enumerate(counts):
        again = discretise(steps.take(np.repeat(np.arange(steps.n_episodes), count)))
        repeated = gaps(again, no_probes(again), 0.9)
        assert again.moves.n_pairs == data.moves.n_pairs
        np.testing.assert_allclose(found.total[row], repeated.total[0], atol=1e-7)
        np.testing.assert_array_equal(found.visits[row], repeated.visits[0])


def test_very_many_episodes_are_weighted_in_blocks(monkeypatch):
    monkeypatch.setattr(tabular, "MOST_BLOCKS", 3)
    rng = np.random.default_rng(3)
    steps = sample_chain(rng, *random_chain(rng), 300).cut(4)
    data = discretise(steps)
    blocks = Blocks(data, rows_of(data, no_probes(data), 0.9))
    assert blocks.n == 3
    counts = np.array([2.0, 0.0, 1.0])
    found = blocks.weighted(counts[None], 0.9)
    block = np.arange(steps.n_episodes) * 3 // steps.n_episodes
    chosen = np.repeat(np.arange(steps.n_episodes), counts[block].astype(int))
    repeated = gaps(discretise(steps.take(chosen)), no_probes(data), 0.9)
    np.testing.assert_allclose(found.total[0], repeated.total[0], atol=1e-7)


def test_a_portion_at_a_time_finds_what_all_at_once_does(monkeypatch):
    rng = np.random.default_rng(4)
    data = discretise(sample_chain(rng, *random_chain(rng), 300).cut(4))
    probes = Probes(rng, 2, data.moves)
    whole = gaps(data, probes, 0.9, probe=1)
    monkeypatch.setattr(copies, "ROWS_AT_ONCE", 70)
    assert len(list(rows_of(data, probes, 0.9))) >= 4
    found = gaps(data, probes, 0.9, probe=1)
    for field in ("total", "visits", "by_memory"):
        np.testing.assert_allclose(getattr(found, field), getattr(whole, field), atol=1e-9)


def test_copies_made_again_are_the_same_copies(monkeypatch):
    monkeypatch.setattr(copies, "ROWS_AT_ONCE", 70)
    rng = np.random.default_rng(5)
    data = discretise(sample_chain(rng, *random_chain(rng), 300).cut(4))
    simulator = Simulator(data, no_probes(data), 0.9, rng)
    one, another = simulator.copies(1), simulator.copies(1)
    first, again, other = (np.concatenate([r.reward for r in x]) for x in (one, one, another))
    np.testing.assert_array_equal(first, again)
    assert first.shape != other.shape or (first != other).any()
    assert sum(np.unique(rows.episode).size for rows in one) == len(data.start)


@given(st.integers(0, 10_000), st.sampled_from(["i1", "i8", "u1", "u8", "f8"]))
def test_numbering_is_that_of_sorting(seed, dtype):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, rng.choice([5, 200]), 300).astype(dtype)  # i1 goes below 0 here
    for ours, theirs in zip(numbered(values), np.unique(values, return_inverse=True), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_every_copy_has_as_many_episodes_as_the_data():
    rng = np.random.default_rng(0)
    data = discretise(sample_chain(rng, *random_chain(rng), 200).cut(5))
    (rows,) = Simulator(data, no_probes(data), 0.9, rng).copies(5)
    assert np.unique(rows.episode).size == 5 * len(data.start)
    for replication in range(5):
        ours = rows.replication == replication
        assert np.unique(rows.episode[ours]).size == len(data.start)


def test_simulated_copies_have_the_transitions_of_the_data():
    rng = np.random.default_rng(0)
    data = discretise(sample_chain(rng, *random_chain(rng), 3000))
    (rows,) = Simulator(data, no_probes(data), 0.9, rng).copies(40)
    n = data.n_observations

    def frequencies(seen, following):
        counts = np.bincount(seen * (n + 1) + following, minlength=n * (n + 1)).reshape(n, n + 1)
        return counts / np.maximum(counts.sum(1, keepdims=True), 1)

    ours = frequencies(data.observation, data.next_observation)
    moves = data.moves
    theirs = frequencies(
        moves.observation[moves.pair[rows.move]], moves.next_observation[rows.move]
    )
    np.testing.assert_allclose(theirs, ours, atol=0.02)
    assert rows.replication.max() == 39
    assert rows.reward.mean() == pytest.approx(data.reward.mean(), abs=0.03)


@pytest.mark.slow
def test_the_estimate_is_the_discrepancy_of_the_closed_form():
    """Tiger, sampled: ‖Q¹ − Q⁰‖ with W from visits, which here are not discounted."""
    from markovlens.envs.tabular import Tabular
    from markovlens.pomdp import library

    pomdp = library.load("tiger")
    policy = np.array([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.3, 0.1, 0.6], [0.4, 0.3, 0.3]])
    data = collect(Tabular(pomdp), 30_000, seed=1, policy=policy)
    settings = Settings(0.95, replications=20, probes=0)
    found = tabular_evidence(discretise(data), settings, np.random.default_rng(0)).discrepancy
    exact = undiscounted_discrepancy(pomdp, policy)
    assert found.interval[0] < exact < found.interval[1]
    assert found.value == pytest.approx(exact, rel=0.15)


def undiscounted_discrepancy(pomdp, policy):
    T, R, Phi = (np.asarray(x) for x in (pomdp.T, pomdp.R, pomdp.Phi))
    gamma, live = float(pomdp.gamma), ~np.asarray(pomdp.terminal)
    acts = Phi @ policy  # [s, a]
    moves = np.einsum("sa,ast->st", acts, T) * live[None, :]
    visits = np.linalg.solve(np.eye(len(R)) - moves.T, np.asarray(pomdp.p0) * live)
    joint = visits[:, None] * Phi  # [s, o]
    W = (joint / np.maximum(joint.sum(0), 1e-300)).T
    value = np.linalg.solve(np.eye(len(R)) - gamma * moves, (acts * R).sum(1)) * live
    q1 = np.einsum("os,sa->oa", W, R + gamma * np.einsum("ast,t->sa", T, value))
    T_o = np.einsum("os,ast,t,tp->oap", W, T, live.astype(float), Phi)
    R_o = W @ R
    chain = np.einsum("oa,oap->op", policy, T_o)
    v0 = np.linalg.solve(np.eye(len(policy)) - gamma * chain, (policy * R_o).sum(1))
    q0 = R_o + gamma * T_o @ v0
    weights = joint.sum(0)[:, None] * policy / joint.sum()
    return float(np.sqrt((weights * (q1 - q0) ** 2).sum()))


def test_noise_alone_has_no_size():
    """Corrected squares of pure noise average 0, and their interval starts there."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(4000, 6))
    weights = np.full(6, 1 / 6)
    found = size(0.0, noise[0], noise, weights)
    assert found.value == 0.0
    assert found.interval[0] == 0.0
    assert 0.5 < found.upper < 2.0


def test_intervals_cover_the_true_size():
    rng = np.random.default_rng(1)
    weights = np.full(4, 0.25)
    for true in (0.0, 0.5, 2.0):
        hits = 0
        for _ in range(200):
            seen = np.array([2.0 * true, 0.0, 0.0, 0.0]) + rng.normal(size=4)
            noise = rng.normal(size=(300, 4))
            square = seen**2 @ weights - 1.0
            low, high = size(square, seen, noise, weights).interval
            hits += low <= true <= high
        assert hits >= 180


@pytest.mark.slow
def test_p_values_are_uniform_on_markov_chains():
    ps = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        data = discretise(sample_chain(rng, *random_chain(rng), 600).cut(100))
        quick = Settings(0.9, replications=60, probes=4, resamples=0)
        ps.append(tabular_evidence(data, quick, rng).p_value)
    # Binomial(40, p): fewer than 1 in 500 chance each of failing if the test is right.
    assert np.mean(np.array(ps) <= 0.05) <= 7 / 40
    assert 0.35 < np.mean(ps) < 0.65

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from markovlens.evidence import inputs
from markovlens.evidence.continuous import continuous_evidence
from markovlens.evidence.detect import detect
from markovlens.evidence.features import Normalise, Smooth
from markovlens.evidence.finding import Settings
from markovlens.evidence.inputs import pay_for_observations
from markovlens.evidence.regression import Regression
from markovlens.evidence.stacking import PRESENT
from markovlens.evidence.trajectories import Trajectories
from tests.evidence.cases import DRIFT, SHOCKS, drifting_points

USUAL = Settings(gamma=0.9)


def test_a_hidden_velocity_is_found_and_a_shown_one_is_not():
    rng = np.random.default_rng(0)
    shown = continuous_evidence(drifting_points(rng, 4000, hidden=False), USUAL, rng)
    hidden = continuous_evidence(drifting_points(rng, 4000, hidden=True), USUAL, rng)
    assert shown.p_value > 0.01
    assert hidden.p_value < 1e-4
    assert hidden.discrepancy.value > 5 * shown.discrepancy.value


def test_the_discrepancy_of_a_linear_process_by_hand():
    """Only the position o is seen, the new position is paid, and both values are linear in o.

    V¹ is the mean given o of `e₁ᵀ A (I − γA)⁻¹ x`; V⁰ has slope s / (1 − γ s), with s the
    regression of the next position on this one.
    """
    gamma = 0.9
    covariance = solve_discrete_lyapunov(DRIFT, SHOCKS)
    on_position = covariance[0] / covariance[0, 0]  # E[x | o = 1]
    ahead = np.array([1.0, 0.0]) @ DRIFT @ np.linalg.inv(np.eye(2) - gamma * DRIFT)
    slope = (DRIFT @ on_position)[0]
    v1, v0 = ahead @ on_position, slope / (1 - gamma * slope)
    exact = abs(v1 - v0) * np.sqrt(covariance[0, 0])

    rng = np.random.default_rng(3)
    found = continuous_evidence(
        drifting_points(rng, 20_000, hidden=True), Settings(gamma), rng
    ).discrepancy
    assert found.interval[0] < exact < found.interval[1]
    assert found.value == pytest.approx(exact, rel=0.25)


def test_any_pay_reveals_the_same_hidden_thing():
    rng = np.random.default_rng(1)
    data = pay_for_observations(drifting_points(rng, 4000, hidden=True), rng)
    assert np.abs(data.reward).max() <= 1.0
    assert continuous_evidence(data, USUAL, rng).p_value < 1e-3


def test_normal_scores_forget_units_and_see_small_differences():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 2))
    frames = np.column_stack([x[:, 0], x[:, 0] + 0.001 * x[:, 1], np.ones(1000)])
    scores = Normalise(frames)
    assert scores.size == 2
    assert np.abs(np.corrcoef(scores(frames).T, x.T)[:2, 2:]).max(axis=0).min() > 0.95
    larger = np.abs(Normalise(1e6 * frames)(1e6 * frames))
    np.testing.assert_allclose(larger, np.abs(scores(frames)), atol=1e-5)


@pytest.mark.parametrize("scale", [1e-10, 1.0, 1e10])
def test_what_never_varies_is_a_matter_of_its_own_size(scale):
    rng = np.random.default_rng(0)
    x = scale * rng.normal(size=(1000, 1))
    zeros, ones = np.zeros((1000, 1)), scale * np.ones((1000, 1))
    rounding = 1e-16 * x
    assert Normalise(np.hstack([x, zeros, ones, rounding, 1e6 * ones + 1e-4 * x])).size == 1
    assert Normalise(np.hstack([x, rng.integers(0, 2, (1000, 1))])).size == 2
    assert Normalise(zeros).size == 0


def test_smooth_features_express_smooth_functions():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 2)).clip(-2.5, 2.5)
    phi = Smooth(rng, 2, 240, (0.5, 1.0, 2.5), products=True)(x)
    y = np.sin(2 * x[:, 0]) * np.exp(-(x[:, 1] ** 2))
    left = y - phi @ np.linalg.lstsq(phi, y, rcond=1e-8)[0]
    assert left.std() < 0.02 * y.std()


def test_a_probe_learns_only_what_the_present_does_not_say():
    rng = np.random.default_rng(0)
    n = 4000
    now, before = rng.normal(size=(2, n, 1))
    before = before + now
    column = (3.0 * now + 0.5 * before + 0.1 * rng.normal(size=(n, 1)))[:, :1]
    ones = np.ones((n, 1))
    regression = Regression(
        lambda rows: np.hstack([ones[rows], now[rows]]),
        lambda rows: before[rows],
        column,
        rng.integers(0, 4, n),
        [slice(0, 1500), slice(1500, n)],
    )
    # before = now + fresh noise, so what is left of the column is half of that noise.
    expected = 0.5 * (before - now)[:, 0]
    probe = regression.probe(0, 0)
    assert np.corrcoef(probe, expected)[0, 1] > 0.99
    assert np.corrcoef(regression.residuals(0, 0), expected)[0, 1] > 0.95


@pytest.mark.slow
def test_p_values_are_not_small_when_nothing_is_hidden():
    ps = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        ps.append(continuous_evidence(drifting_points(rng, 2000, hidden=False), USUAL, rng).p_value)
    # Under uniform p-values, five or more of 20 below 0.05 has a chance of 1 in 400.
    assert np.sum(np.array(ps) <= 0.05) <= 4


def test_a_constant_added_to_every_reward_changes_nothing():
    """Cut after 20 steps, a process that goes on for ever is worth 100 times the constant more."""
    rng = np.random.default_rng(0)
    x = np.zeros((150, 21))
    x[:, 0] = rng.normal(size=150)
    for t in range(20):
        x[:, t + 1] = 0.8 * x[:, t] + 0.6 * rng.normal(size=150)
    now, then = x[:, :-1].reshape(-1, 1), x[:, 1:].reshape(-1, 1)
    cut, never = np.tile(np.arange(20) == 19, 150), np.zeros(3000, dtype=bool)
    answers = []
    for constant in (0.0, 5.0):
        reward = now[:, 0] + constant
        data = Trajectories(now, np.zeros(3000, int), reward, never, cut, then)
        rng = np.random.default_rng(1)
        answers.append(continuous_evidence(data, Settings(0.99), rng))
    plain, raised = answers
    assert plain.p_value > 0.05
    assert raised.p_value == pytest.approx(plain.p_value, abs=0.02)
    assert raised.scale == pytest.approx(plain.scale, rel=0.05)


def test_more_components_need_more_steps():
    """With fewer, noise that is Markov as can be was called not Markov."""
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(1000, 200))
    pay = seen[:, 0] + rng.normal(size=1000)
    data = Trajectories(seen, np.zeros(1000, dtype=int), pay, np.arange(1000) % 20 == 19)
    with pytest.raises(ValueError, match="too few for observations of 200 components: give 40"):
        detect(data)


def noise(steps: int, width: int) -> Trajectories:
    rng = np.random.default_rng(0)
    seen = rng.integers(0, 255, (steps, width), dtype=np.uint8)
    pay = seen[:, 0] + rng.normal(size=steps)
    return Trajectories(seen, np.zeros(steps, dtype=int), pay, np.arange(steps) % 20 == 19)


def test_observations_that_are_too_wide_are_refused_in_a_line():
    with pytest.raises(ValueError, match="1,200 components are too wide: at most 1,000 can be tes"):
        detect(noise(400, 1200))
    unpaid = noise(400, 1200).replace(reward=np.zeros(400))
    with pytest.raises(ValueError, match="too wide"):
        detect(unpaid)


def test_scales_come_from_fewer_steps_of_wide_observations(monkeypatch):
    """As many numbers whatever the width; of all steps, if they have no more than that."""
    monkeypatch.setattr(inputs, "MOST_SCALED_BY", 40_000)
    seen = []

    class Watched(Normalise):
        def __init__(self, sample):
            seen.append(sample.shape)
            super().__init__(sample)

    monkeypatch.setattr(inputs, "Normalise", Watched)
    for width in (20, 80):
        inputs.inputs_of(noise(4000, width), PRESENT, True, np.random.default_rng(0))
        pay_for_observations(noise(4000, width).cut(5000), np.random.default_rng(0))
    assert seen == [(2000, 20)] * 2 + [(500, 80)] * 2


def test_episodes_of_a_single_step_have_no_past():
    data = noise(3000, 2).replace(terminated=np.ones(3000, dtype=bool))
    with pytest.raises(ValueError, match="every episode is a single step: there is no past"):
        detect(data)

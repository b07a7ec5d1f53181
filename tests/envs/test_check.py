"""Environments that break the contract are named, one line each."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from markovlens.agents.config import PPOConfig
from markovlens.agents.run import load_run
from markovlens.agents.training import train
from markovlens.envs.check import check_env
from markovlens.envs.env import Env, Step, TimeLimit
from markovlens.envs.registry import make
from markovlens.envs.spaces import Binary, Box, Discrete

SMALL = PPOConfig(latent=8, n_steps=16, steps=64)


class Walk(Env):
    """Four places in a row; ends at the last. Right as it is; the tests below break it."""

    @property
    def gamma(self):
        return 0.9

    @property
    def observation_space(self):
        return Discrete(4)

    @property
    def action_space(self):
        return Discrete(2)

    def reset(self, key):
        return {"place": jnp.int32(0)}, jnp.int32(0)

    def noise(self, key):
        return jax.random.bernoulli(key)

    def transition(self, state, action, noise):
        place = jnp.minimum(state["place"] + jnp.where(noise, action, 0), 3)
        return {"place": place}, Step(place, jnp.float32(-1.0), place == 3, jnp.bool_(False))


def says(**answers):
    """`Walk`, but what is named answers so."""

    def method(answer):
        return answer if callable(answer) else property(lambda self: answer)

    members = {name: method(answer) for name, answer in answers.items()}
    return type("Broken", (Walk,), members)()


def shows(observation, space):
    """`Walk`, but it always shows this, in that space."""

    def transition(self, state, action, noise):
        after, step = Walk.transition(self, state, action, noise)
        return after, Step(observation, step.reward, step.terminated, step.truncated)

    reset = lambda self, key: ({"place": jnp.int32(0)}, observation)  # noqa: E731
    return says(observation_space=space, reset=reset, transition=transition)


def steps(state=None, **parts):
    """`Walk`, but these parts of a step are so."""

    def transition(self, before, action, noise):
        after, step = Walk.transition(self, before, action, noise)
        names = ("observation", "reward", "terminated", "truncated")
        parts_of = {name: getattr(step, name) for name in names} | parts
        return after if state is None else state, Step(**parts_of)

    return says(transition=transition)


def test_what_keeps_the_contract_passes():
    for env in (Walk(), TimeLimit(Walk(), 5), shows(jnp.zeros((2, 3)), Box((2, 3), 0.0, 1.0))):
        check_env(env)
    for name in ("tmaze-1", "rocksample-3-2", "battleship-5"):
        check_env(make(name))


def test_rounding_is_no_breach():
    check_env(shows(jnp.array([-1e-7, 1.0 + 1e-6]), Box((2,), 0.0, 1.0)))
    check_env(shows(jnp.array([1e30]), Box((1,))))
    with pytest.raises(ValueError, match=r"got values from 0 to 1\.001"):
        check_env(shows(jnp.array([0.0, 1.001]), Box((2,), 0.0, 1.0)))


def test_plain_numbers_are_numbers():
    """As they are to the programs that train on them."""
    env = says(
        reset=lambda self, key: ({"place": 0}, 0),
        transition=lambda self, state, action, noise: (
            {"place": jnp.minimum(state["place"] + action, 3)},
            Step(jnp.minimum(state["place"] + action, 3), -1, state["place"] + action >= 3, False),
        ),
    )
    check_env(env)
    assert train(SMALL, env=env).metrics["return"].max() <= -3.0


TRUE, PLACE = jnp.bool_(True), {"place": jnp.int32(0)}
WRONG = {
    "reset: expected a pair .state, observation., got a dict": says(
        reset=lambda self, key: {"place": jnp.int32(0)}
    ),
    "reset: expected only arrays and numbers, got a str, 'here'": says(
        reset=lambda self, key: ("here", jnp.int32(0))
    ),
    "transition: expected a pair .state, Step., got a tuple of 5": says(
        transition=lambda self, state, action, noise: (0, 1.0, False, False, {})
    ),
    "transition: expected a pair .state, Step., got a dict in its second place": says(
        transition=lambda self, state, action, noise: (state, {})
    ),
    r"transition: expected a state like reset's, .*'place'.*, got": steps(
        state={"place": jnp.int32(0), "time": jnp.int32(0)}
    ),
    r"transition: expected state\['place'\] like reset's, int32 of shape \[\], got float32": steps(
        state={"place": jnp.float32(0.0)}
    ),
    r"transition: expected state\['place'\] like reset's, int32 of shape \[\], got int32 of shape "
    r"\[1\]": steps(state={"place": jnp.zeros(1, jnp.int32)}),
    r"reset: .* integers of shape \[\], to fit Discrete\(n=4\), got float32 of shape \[\]": says(
        reset=lambda self, key: (PLACE, jnp.float32(0.0))
    ),
    r"reset: .* floats of shape \[3\], to fit Binary\(n=3\), got float32 of shape \[2\]": shows(
        jnp.zeros(2), Binary(3)
    ),
    r"reset: .* floats of shape \[2\], to fit Box.*, got a dict": shows({"x": 0}, Box((2,))),
    "transition: expected observations of int32, as reset does, got uint8": steps(
        observation=jnp.uint8(0)
    ),
    r"transition: expected a reward that is one number, got float32 of shape \[1\]": steps(
        reward=jnp.zeros(1)
    ),
    "transition: expected a reward that is one number, got None": steps(reward=None),
    r"transition: expected terminated as one bool, got int32 of shape \[\]": steps(
        terminated=jnp.int32(0)
    ),
    r"transition: expected truncated as one bool, got bool of shape \[1\]": steps(
        truncated=jnp.zeros(1, bool)
    ),
    "observation_space: expected a Discrete.*got a gymnasium.*Discrete": says(
        observation_space=gymnasium.spaces.Discrete(4)
    ),
    "action_space: expected a Discrete.*got a gymnasium.*Box": says(
        action_space=gymnasium.spaces.Box(-1.0, 1.0)
    ),
    "gamma: expected a number from 0 to 1, got 90": says(gamma=90),
    r"reset: expected finite observations in Discrete\(n=4\), got 7": shows(
        jnp.int32(7), Discrete(4)
    ),
    r"transition: expected finite observations in Discrete\(n=4\), got -1": steps(
        observation=jnp.int32(-1)
    ),
    r"reset: expected finite observations in Box.*, got values from 0 to inf": shows(
        jnp.array([0.0, jnp.inf]), Box((2,))
    ),
    r"reset: expected finite observations in Binary.*, got values from 0 to 2": shows(
        jnp.array([0.0, 2.0]), Binary(2)
    ),
    "transition: expected a finite reward, got nan": steps(reward=jnp.float32(jnp.nan)),
    "transition: expected terminated or truncated or neither, got both": steps(
        terminated=TRUE, truncated=TRUE
    ),
    "time_limit: expected at most 1, after which an episode was truncated, got (None|9)": steps(
        terminated=~TRUE, truncated=TRUE
    ),
    r"action_mask: expected bool of shape \[2\], got float32 of shape \[2\]": says(
        masks_actions=True, action_mask=lambda self, state: jnp.ones(2)
    ),
    "action_mask: expected at least one action that is allowed, got none": says(
        masks_actions=True, action_mask=lambda self, state: jnp.zeros(2, bool)
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong_is_said(message):
    for env in (WRONG[message], TimeLimit(WRONG[message], 9)):
        with pytest.raises(ValueError, match=r"Broken\)?\." + message) as caught:
            check_env(env)
        assert "\n" not in str(caught.value)


def test_training_asks_first(tmp_path):
    broken = shows(jnp.int32(7), Discrete(4))
    with pytest.raises(ValueError, match=r"Broken\.reset: expected finite observations"):
        train(SMALL, env=broken, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    train(SMALL, env=Walk(), out=tmp_path / "run")
    with pytest.raises(ValueError, match="trained on an environment of its trainer's own"):
        load_run(tmp_path / "run", env=broken)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (lambda: gymnasium.make("CartPole-v1"), r"Gymnasium's .*PPOConfig\(env='CartPole-v1'\)"),
        (lambda: "tmaze-5", r"got the name 'tmaze-5': .*PPOConfig\(env='tmaze-5'\)"),
        (lambda: Walk, "got the class Walk: give an instance"),
        (lambda: TimeLimit(object(), 5), "got object: derive its class from Env"),
        (lambda: np.zeros(3), "got ndarray: derive its class from Env"),
    ],
    ids=["Gymnasium", "name", "class", "inner", "array"],
)
def test_what_is_no_environment_is_refused(env, message):
    with pytest.raises(ValueError, match=message):
        train(SMALL, env=env())


def test_errors_of_its_own_code_stay_its_own():
    def transition(self, state, action, noise):
        return Walk.transition(self, state, 0 if action > 0 else 1, noise)

    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        check_env(says(transition=transition))
    assert caught.traceback[-1].name == "transition"

"""Recipes, their budgets, and settings that make no sense."""

import pytest

from markovlens.memory.config import RECIPES, MemoryConfig, recipe


def test_both_recipes_spend_the_same_number_of_gradient_steps():
    assert RECIPES["paper"].gradient_steps(2) == RECIPES["best"].gradient_steps(2) == 30_000


def test_budget_counts_restarts_and_only_the_restarts_that_reveal():
    config = MemoryConfig(
        reveal_steps=7, reveal_every=2, restarts=3, memory_steps=10, policy_steps=5, polish_steps=2
    )
    assert config.gradient_steps(2) == 2 * 7 + 3 * 15 + 2
    assert config.gradient_steps(1) == 3 * 5 + 2  # nothing to reveal or to remember


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"view": "fold"}, "did you mean 'folded'"),
        ({"optimizer": "adma"}, "did you mean 'adam'"),
        ({"optimizer": "chain"}, "unknown optimizer 'chain'"),
        ({"memory_steps": 0, "policy_steps": 0}, "nothing to do"),
        ({"restarts": 0}, "restarts must be at least 1"),
        ({"memory_steps": -1}, "memory_steps cannot be negative"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"lam2": 1.5}, r"lam2 must be in \[0, 1\]"),
        ({"lam1": 1.0}, "must differ"),
        ({"init_scale": -1.0}, "init_scale is a standard deviation, got -1"),
        ({"memory_steps": 1.5}, "memory_steps must be a whole number, got 1.5"),
        ({"learning_rate": "fast"}, "learning_rate must be a number, got 'fast'"),
    ],
)
def test_bad_settings_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        MemoryConfig(**changes)


def test_unknown_recipe():
    with pytest.raises(ValueError, match="did you mean 'best'"):
        recipe("bets")

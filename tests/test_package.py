"""Importing the package is quick, and changes nothing."""

import subprocess
import sys
from pathlib import Path

import markovlens as ml


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()


def test_import_is_light_and_changes_no_jax_setting():
    loaded = run("import markovlens, sys; print(*sys.modules)")
    for heavy in ("jax", "matplotlib", "polars", "torch"):
        assert heavy not in loaded, f"`import markovlens` imports {heavy}"


def test_using_it_changes_no_jax_setting():
    code = (
        "import jax; before = dict(jax.config.values); import markovlens as ml;"
        "ml.lambda_discrepancy(ml.library.tiger(), ml.uniform_policy(ml.library.tiger()));"
        "print(dict(jax.config.values) == before)"
    )
    assert run(code) == ["True"]


def test_every_public_name_resolves():
    for name in ml.__all__:
        assert getattr(ml, name) is not None


def test_every_public_name_is_in_the_api_page():
    page = (Path(__file__).parents[1] / "docs" / "api.md").read_text()
    for name in ml.__all__:
        assert f"ml.{name}" in page

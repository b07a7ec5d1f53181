"""The examples in docstrings run and print what they say."""

import doctest
import pkgutil
from importlib import import_module

import pytest

import markovlens


def _to_run(test):
    return [example for example in test.examples if doctest.SKIP not in example.options]


def modules_with_examples():
    finder = doctest.DocTestFinder()
    for found in pkgutil.walk_packages(markovlens.__path__, "markovlens."):
        if found.name.startswith("markovlens.cli"):
            continue
        module = import_module(found.name)
        if any(_to_run(test) for test in finder.find(module)):
            yield found.name


@pytest.mark.parametrize("name", list(modules_with_examples()))
def test_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failures, tried = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert tried > 0
    assert failures == 0

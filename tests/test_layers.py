"""Imports only go downwards, so that every layer can be read without those above it."""

import ast
from pathlib import Path

import markovlens

ROOT = Path(markovlens.__file__).parent
# Lowest first. A module may import from its own layer and from those before it.
LAYERS = [
    ["precision", "files", "names", "options", "progress", "cores"],
    ["pomdp"],
    ["values"],
    ["memory"],
    ["envs"],
    ["evidence"],
    ["agents"],
    ["experiments"],
    ["cli"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def imported_modules(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_imports_only_go_downwards():
    upwards = []
    for path in ROOT.rglob("*.py"):
        layer = path.relative_to(ROOT).with_suffix("").parts[0]
        if layer == "__init__":
            continue
        for module in imported_modules(ast.parse(path.read_text())):
            parts = module.split(".")
            if parts[0] != "markovlens" or len(parts) == 1 or parts[1] not in RANK:
                continue
            if RANK[parts[1]] > RANK[layer]:
                upwards.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not upwards


def test_every_module_has_a_layer():
    tops = {path.relative_to(ROOT).with_suffix("").parts[0] for path in ROOT.rglob("*.py")}
    assert tops - {"__init__"} == set(RANK)

"""What the documents show is what happens: their Python runs, their links and commands exist."""

import re
from pathlib import Path

import pytest

from markovlens.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")
COMMAND = re.compile(r"^(?:\$ )?markovlens ([a-z]+)\b", re.MULTILINE)


def relative(path):
    return str(path.relative_to(ROOT))


def with_python():
    return [path for path in DOCUMENTS if PYTHON.search(path.read_text())]


@pytest.mark.slow
@pytest.mark.parametrize("path", with_python(), ids=relative)
def test_python_blocks_run_as_printed(path, tmp_path, monkeypatch):
    """All blocks of a document, in order, in one namespace, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    code = "\n".join(PYTHON.findall(path.read_text()))
    exec(compile(code, str(path), "exec"), {"__name__": "__document__"})


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_links_lead_somewhere(path):
    for target in LINK.findall(path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{relative(path)} links to {target}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_commands_exist(path):
    for command in COMMAND.findall(path.read_text().replace("`", "\n")):
        assert command in COMMANDS, f"{relative(path)} shows `markovlens {command}`"


def test_the_readme_shows_both_commands():
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text
    assert (ROOT / ".ci" / "run").read_text().strip().endswith("make test")

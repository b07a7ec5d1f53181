"""The `markovlens` command: one subcommand per file, arguments and printing only."""

from markovlens.cli.main import main

__all__ = ["main"]

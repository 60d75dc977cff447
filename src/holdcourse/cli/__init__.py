"""The command line: parse, call, print. All of typer is in this package."""

from holdcourse.cli.root import app, main

__all__ = ["app", "main"]

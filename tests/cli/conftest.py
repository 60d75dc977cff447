"""Commands run as a user would, in an empty folder."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from holdcourse.errors import InvalidInput


@pytest.fixture
def invoked(tmp_path, monkeypatch):
    """From an app to a function that runs it with arguments and checks its exit code."""
    monkeypatch.chdir(tmp_path)

    def of(app):
        def run(*arguments, code=0):
            result = CliRunner().invoke(app, [str(argument) for argument in arguments])
            if isinstance(result.exception, InvalidInput):
                raise result.exception
            assert result.exit_code == code, result.output + repr(result.exception)
            return result

        return run

    return of

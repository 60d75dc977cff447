"""Work beside other work gives the same, errors included, wherever it is done."""

from __future__ import annotations

import os

import pytest

from holdcourse.backtest.second_process import second_process
from holdcourse.errors import InvalidInput


@pytest.mark.parametrize("worthwhile", [True, False])
def test_the_result_is_that_of_the_call(worthwhile):
    with second_process(lambda: sum(range(100)), worthwhile=worthwhile) as later:
        assert later.result() == 4950


def test_errors_are_told_here():
    def wrong() -> int:
        raise InvalidInput("no")

    with second_process(wrong) as later, pytest.raises(InvalidInput, match="no"):
        later.result()


def test_a_process_that_is_killed_is_done_without():
    here = os.getpid()

    def call() -> int:
        if os.getpid() != here:
            os._exit(1)
        return 7

    with second_process(call) as later:
        assert later.result() == 7


def test_nothing_is_left_running_after_an_error():
    with pytest.raises(KeyboardInterrupt), second_process(lambda: __import__("time").sleep(60)):
        raise KeyboardInterrupt

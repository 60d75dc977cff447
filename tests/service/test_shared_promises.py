"""What is promised of the service holds for two servers over a database, too: some tests of other modules, once more.

Their client asks one server and the other by turns, as behind a load balancer, and tries again where it is told to.
"""

from __future__ import annotations

import itertools
import time

import pytest
from service import test_durability, test_epochs, test_modes, test_retract, test_settings
from service.running import Client, served

AGAIN = [
    test_durability.test_everything_is_there_after_a_restart,
    test_durability.test_silence_goes_on_after_a_restart,
    test_modes.test_act,
    test_modes.test_advise,
    test_modes.test_shadow_leaves_the_machine_where_it_is,
    test_modes.test_limits_count_from_where_the_machine_was_told_to_stay,
    test_modes.test_a_change_of_mode_counts_from_the_next_question,
    test_modes.test_override_holds_the_machine_until_it_is_released,
    test_modes.test_without_a_fallback_a_stale_machine_stays,
    test_modes.test_an_old_request_that_comes_again_does_not_undo_a_newer_one,
    test_modes.test_a_key_means_its_request_also_where_that_changed_nothing,
    test_modes.test_a_repeated_override_is_recognised_when_its_action_is_gone,
    test_epochs.test_what_decisions_do_not_depend_on_changes_in_place,
    test_epochs.test_limits_begin_a_new_epoch_and_what_is_not_named_stays,
    test_epochs.test_a_pending_decision_is_carried_over,
    test_epochs.test_keys_of_earlier_epochs_still_count,
    test_epochs.test_a_late_tell_may_use_the_old_numbers,
    test_epochs.test_a_change_under_a_key_is_made_once,
    test_epochs.test_a_refused_change_changes_nothing,
    test_retract.test_the_same_again_changes_nothing_and_another_is_refused,
    test_retract.test_the_listing_shows_both_facts_and_sums_without_it,
    test_retract.test_what_was_told_in_this_epoch_of_an_earlier_decision_needs_no_new_one,
    test_settings.test_a_setting_with_names_is_spelled_the_same_everywhere,
]
globals().update({each.__name__: each for each in AGAIN})


class Alternating(Client):
    """A client of several servers."""

    def __init__(self, urls):
        super().__init__(urls[0])
        self._urls = itertools.cycle(urls)

    def request(self, *given, **named):
        for _ in range(50):
            self.base_url = next(self._urls)
            answer = super().request(*given, **named)
            code = answer.json()["error"]["code"] if answer.status_code == 503 else None
            if code not in ("held_elsewhere", "opening"):
                break
            time.sleep(0.1)
        return answer


@pytest.fixture
def folder(postgres):
    """In place of a folder."""
    return postgres.database()


@pytest.fixture(scope="module")
def urls(postgres):
    database = postgres.database()
    with served(database) as one, served(database) as two:
        yield one, two


@pytest.fixture
def client(urls):
    with Alternating(urls) as client:
        yield client

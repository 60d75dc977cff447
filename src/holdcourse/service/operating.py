"""What an operator may do: mode, override, episodes, other settings. Whatever is answered is on disk before.

A request under a key that was carried out before changes nothing, whatever came in between: the answer is the state as
it is now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdcourse.service import epochs, repeats
from holdcourse.service.hosted import Done, Hosted


def set_mode(hosted: Hosted, mode: str, reason: str, key: str | None) -> Done:
    """How far the policy may go from now on."""
    hosted.recall()
    note = {"note": "mode", "mode": mode, "reason": reason}
    if repeats.happened(hosted.shelf, "note", note, key):
        return _unchanged(hosted)
    return _noted(hosted, note, key, anew=mode != hosted.ledger.mode)


def set_override(hosted: Hosted, action: int | None, reason: str, key: str | None, *, force: bool = False) -> Done:
    """Hold the machine at an action, or as near as limits permit unless it is forced; or hand it back."""
    hosted.recall()
    wish = {"action": action, "reason": reason, "force": force}
    note = {"note": "override", **wish}
    if repeats.happened(hosted.shelf, "note", note, key):
        return _unchanged(hosted)
    if action is not None:
        hosted.controller.policy.problem.check_action(action)
    return _noted(hosted, note, key, anew=hosted.ledger.held != (None if action is None else wish))


def new_episode(hosted: Hosted, start: int, key: str | None, *, force: str | None = None) -> Done:
    """End the episode; without a key, asking for the same start again before its first round changes nothing.

    `force` is the reason for a start that limits do not permit.
    """
    hosted.recall()
    if repeats.happened(hosted.shelf, "episode", {"start": start, "force": force}, key):
        return _unchanged(hosted)
    hosted.controller.policy.problem.check_action(start)
    if key is None and hosted.ledger.fresh_episode == start:
        return _unchanged(hosted)
    if hosted.ledger.pending:
        raise hosted.still_waiting(start)
    hosted.controller.new_episode(start, force=force, extra=hosted.signed({} if key is None else {"key": key}))
    hosted.catch_up()
    hosted.publish()
    return Done(hosted.view.state(), [("state", {"episode": hosted.controller.episode})])


def change(hosted: Hosted, changes: Mapping[str, Any], key: str | None, *, without_archived: bool = False) -> Done:
    """Other settings; in a new epoch where decisions depend on them.

    `without_archived` accepts that it knows nothing of epochs whose records were moved away.
    """
    hosted.recall()
    request = {"note": "change", "changes": dict(changes)}
    if repeats.happened(hosted.shelf, "note", request, key):
        return _unchanged(hosted)
    requested = [] if key is None else [{**request, **repeats.keyed(key)}]
    before = hosted.ledger.config
    config = epochs.merged(before, changes)
    changed = {name: value for name, value in config.items() if value != before[name]}
    if any(name in epochs.EPOCH_SETTINGS for name in changed):
        hosted.begin_epoch(changes, requested, without_archived=without_archived)
    else:
        if config["fallback"] is not None:
            hosted.controller.policy.problem.check_action(config["fallback"])
        hosted.commit(*([{"note": "config", "changes": changed}] if changed else []), *requested)
    return Done(hosted.view.state(), [("state", {"epoch": hosted.epoch})] if changed else [])


def _noted(hosted: Hosted, note: Mapping[str, Any], key: str | None, *, anew: bool) -> Done:
    """Write down what the operator wants; where it is so already, only for the key, which must mean this for good."""
    if anew or key is not None:
        hosted.commit({**note, **repeats.keyed(key)})
    said = hosted.signed({name: value for name, value in note.items() if name != "note"})
    return Done(hosted.view.state(), [(note["note"], said)] if anew else [])


def _unchanged(hosted: Hosted) -> Done:
    return Done(hosted.view.state(), [])

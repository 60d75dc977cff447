"""Figures for Prometheus, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from holdcourse.service.core.clients import BUCKETS_S, Latency
from holdcourse.service.core.fleet import Fleet
from holdcourse.service.core.notifications import Notifier

ESTIMATES = {
    "against_staying": "Gain of what was done against staying",
    "against_fixed": "Gain of what was done against the best fixed setting",
    "had_it_acted": "What its proposals would have gained against what was done",
}
MODES = ("observe", "shadow", "advise", "act")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def page(fleet: Fleet, sees: Callable[[str], bool], notifier: Notifier | None = None) -> str:
    """Return the page that Prometheus reads, of the controllers that whoever asks may see."""
    rows = []
    for name, slot in list(fleet.slots.items()):
        if sees(name):
            row: dict[str, Any] = {"id": name, "broken": slot.broken is not None}
            if slot.hosted is not None:
                view = slot.hosted.view
                counted = {"decisions": view.counts["decisions"], "tells": view.counts["tells"]}
                counted["alarms_raised"] = view.counts["alarms"]
                row |= view.summary() | view.model_figures() | counted
                row |= {"stale": view.is_stale, "silent": view.is_silent}
                row |= {"is_overridden": view.fixed_part["override"] is not None, "setting": _number(row["value"])}
                row["kinds"] = [alarm["kind"] for alarm in view.fixed_part["alarms"]]
            rows.append(row)
    jobs: Counter[tuple[str, str]] = Counter((job.kind, job.state) for job in fleet.jobs.all() if sees(job.controller))
    return as_text(rows, fleet.latencies, [] if notifier is None else notifier.state()["targets"], jobs)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def as_text(
    rows: Iterable[Mapping[str, Any]],
    latencies: Mapping[tuple[str, str], Latency],
    targets: Iterable[Mapping[str, Any]] = (),
    jobs: Mapping[tuple[str, str], int] = MappingProxyType({}),
) -> str:
    """Return the figures of controllers, in the format of Prometheus.

    Parameters
    ----------
    rows
        Of each controller: its id, and the fields of the families below as far as they are known.
    latencies
        By controller and "ask" or "tell".
    targets
        Of each who is told of alarms: its name, and how that goes.
    """
    rows = list(rows)
    lines: list[str] = []

    def family(name: str, kind: str, about: str, field: str) -> None:
        lines.extend([f"# HELP holdcourse_{name} {about}", f"# TYPE holdcourse_{name} {kind}"])
        for row in rows:
            if row.get(field) is not None:
                lines.append(f'holdcourse_{name}{{controller="{row["id"]}"}} {float(row[field]):.17g}')

    def labelled(name: str, kind: str, about: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> None:
        lines.extend([f"# HELP holdcourse_{name} {about}", f"# TYPE holdcourse_{name} {kind}"])
        for labels, value in samples:
            written = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
            lines.append(f"holdcourse_{name}{{{written}}} {float(value):.17g}")

    family("setting", "gauge", "The setting that runs, where that is a number.", "setting")
    family("action", "gauge", "The index of the setting that runs.", "action")
    labelled(
        "mode",
        "gauge",
        "1 for the mode that a controller is in, 0 for the others.",
        [
            ({"controller": row["id"], "mode": mode}, row["mode"] == mode)
            for row in rows
            if row.get("mode")
            for mode in MODES
        ],
    )
    family("override", "gauge", "1 while an operator holds the machine.", "is_overridden")
    labelled(
        "alarm",
        "gauge",
        "1 for each alarm that is open, by kind.",
        [({"controller": row["id"], "kind": kind}, 1) for row in rows for kind in row.get("kinds", ())],
    )
    family("decisions_total", "counter", "Decisions taken.", "decisions")
    family("tells_total", "counter", "Decisions told or skipped.", "tells")
    family("alarms_total", "counter", "Alarms raised.", "alarms_raised")
    family("alarms_open", "gauge", "Alarms that are open.", "alarms")
    family("stale", "gauge", "1 while a decision has not been told within its deadline.", "stale")
    family("silent", "gauge", "1 while nobody has asked within the deadline after the last round.", "silent")
    family("broken", "gauge", "1 if the record could not be opened.", "broken")
    family("seconds_since_last_event", "gauge", "Since the last decision or tell.", "seconds_since")
    family(
        "service_cost",
        "gauge",
        "Measured cost so far, in units of what is measured; gains count with a minus.",
        "service",
    )
    family("movement_cost", "gauge", "Movement cost so far, in units of what is measured.", "movement")
    unit = "in units of what is measured"
    for name, about in ESTIMATES.items():
        words = f"{about}, as the model estimates it, {unit}; absent while that is withheld."
        family(f"estimated_gain_{name}", "gauge", words, f"estimated_gain_{name}")
        family(f"estimated_gain_{name}_low", "gauge", "Lower end of its 95 % interval.", f"estimated_gain_{name}_low")
        family(f"estimated_gain_{name}_high", "gauge", "Upper end of its 95 % interval.", f"estimated_gain_{name}_high")
    saved = f"Saved against the baseline, as the model estimates it, {unit}; absent while that is withheld."
    family("promise_estimated_saved", "gauge", saved, "promise_estimated_saved")
    family("promise_estimated_doubt", "gauge", f"By how much that may be wrong, {unit}.", "promise_estimated_doubt")
    family("promise_allowed", "gauge", f"What may be spent more than the baseline would, {unit}.", "promise_allowed")
    family("promise_left", "gauge", f"What of it, and of what was saved, is left to be risked, {unit}.", "promise_left")
    family(
        "promise_used", "gauge", f"What of the allowed is used up, {unit}; 0 where savings cover it.", "promise_used"
    )
    family("readings_set_aside", "gauge", "Readings that the model keeps and does not believe.", "readings_set_aside")
    family("band_widening", "gauge", "Factor by which the model's bands are widened, at least 1.", "widening")
    counted = [({"kind": kind, "state": state}, count) for (kind, state), count in sorted(jobs.items())]
    labelled("jobs", "gauge", "Long work that is kept in mind, by kind and state.", counted)
    told = list(targets)
    outcomes = [
        ({"target": one["name"], "outcome": outcome}, one[outcome])
        for one in told
        for outcome in ("sent", "failed", "dropped")
    ]
    labelled("notifications_total", "counter", "Notices of alarms, and tries that failed.", outcomes)
    waiting = [({"target": one["name"]}, one["waiting"]) for one in told]
    labelled("notifications_waiting", "gauge", "Notices that wait to be delivered.", waiting)
    failing = [({"target": one["name"]}, one["failing_s"] or 0.0) for one in told]
    labelled("notifications_failing_seconds", "gauge", "Since when a target cannot be told; 0 while it can.", failing)
    name = "holdcourse_request_seconds"
    lines += [f"# HELP {name} Time to answer, commit included.", f"# TYPE {name} histogram"]
    seen = {row["id"] for row in rows}
    for (controller, operation), latency in sorted(latencies.items()):
        if controller in seen:
            labels, count = f'controller="{controller}",operation="{operation}"', 0
            for bound, more in zip((*BUCKETS_S, "+Inf"), latency.counts, strict=True):
                count += more
                lines.append(f'{name}_bucket{{{labels},le="{bound}"}} {count}')
            lines += [f"{name}_sum{{{labels}}} {latency.total:.17g}", f"{name}_count{{{labels}}} {count}"]
    return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    """A label's value as the format wants it."""
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

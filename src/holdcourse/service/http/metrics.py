"""Figures for Prometheus, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, starmap
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from holdcourse.service.core.clients import BUCKETS_S, Latency
from holdcourse.service.core.controllers import Controllers
from holdcourse.service.core.fleets import HostedFleets
from holdcourse.service.core.notifications import Notifier

Sample: TypeAlias = tuple[Mapping[str, str], float]  # labels, and the value


class Family(NamedTuple):
    """A figure of every controller, for Prometheus and in words; the field that holds it, if that has another name."""

    name: str
    kind: Literal["gauge", "counter"]
    about: str
    field: str = ""


UNIT = "in units of what is measured"
WITHHELD = f", as the model estimates it, {UNIT}; absent while that is withheld."
ESTIMATES = {
    "against_staying": "Gain of what was done against staying",
    "against_fixed": "Gain of what was done against the best fixed setting",
    "had_it_acted": "What its proposals would have gained against what was done",
}


def _estimate(name: str, about: str) -> tuple[Family, ...]:
    """An estimated gain and the ends of its interval."""
    name = f"estimated_gain_{name}"
    return (
        Family(name, "gauge", f"{about}{WITHHELD}"),
        Family(f"{name}_low", "gauge", "Lower end of its 95 % interval."),
        Family(f"{name}_high", "gauge", "Upper end of its 95 % interval."),
    )


FAMILIES = (
    Family("setting", "gauge", "The setting that runs, if it is a number."),
    Family("action", "gauge", "The index of the setting that runs."),
    Family("mode", "gauge", "1 for the mode that a controller is in, 0 for the others."),
    Family("override", "gauge", "1 while an operator holds the machine.", "is_overridden"),
    Family("alarm", "gauge", "1 for each alarm that is open, by kind.", "kinds"),
    Family("decisions_total", "counter", "Decisions taken.", "decisions"),
    Family("tells_total", "counter", "Decisions told or skipped.", "tells"),
    Family("alarms_total", "counter", "Alarms raised.", "alarms_raised"),
    Family("alarms_open", "gauge", "Alarms that are open.", "alarms"),
    Family("stale", "gauge", "1 while a decision has not been told within its deadline."),
    Family("silent", "gauge", "1 while nobody has asked within the deadline after the last round."),
    Family("broken", "gauge", "1 if the record cannot be used."),
    Family("seconds_since_last_event", "gauge", "Seconds since the last decision or tell.", "seconds_since"),
    Family("service_cost", "gauge", f"Measured cost so far, {UNIT}; gains count with a minus.", "service"),
    Family("movement_cost", "gauge", f"Movement cost so far, {UNIT}.", "movement"),
    *chain.from_iterable(starmap(_estimate, ESTIMATES.items())),
    Family("promise_estimated_saved", "gauge", f"Saved against the baseline{WITHHELD}"),
    Family("promise_estimated_doubt", "gauge", f"Uncertainty of what was saved, {UNIT}."),
    Family("promise_allowed", "gauge", f"How much more than the baseline may be spent, {UNIT}."),
    Family("promise_left", "gauge", f"How much of it, and of what was saved, is left to risk, {UNIT}."),
    Family("promise_used", "gauge", f"How much of the allowance is used, {UNIT}; 0 if savings cover it."),
    Family("readings_set_aside", "gauge", "Readings that the model keeps but ignores."),
    Family("band_widening", "gauge", "Factor by which the model's bands are widened, at least 1.", "widening"),
)
MODES = ("observe", "shadow", "advise", "act")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


FLEET_FAMILIES = {  # of a hosted fleet: kind, what it says, and the field of its state
    "fleet_members": ("gauge", "Members of a fleet.", "count"),
    "fleet_decisions_total": ("counter", "Decisions taken by all members of a fleet.", "decisions"),
    "fleet_pending": ("gauge", "Members of a fleet that are waiting for their measurement.", "pending"),
}


def page(
    controllers: Controllers,
    sees: Callable[[str], bool],
    notifier: Notifier | None = None,
    fleets: HostedFleets | None = None,
) -> str:
    """Return the page that Prometheus reads, of the controllers and fleets that whoever asks may see."""
    rows = []
    for name, slot in list(controllers.slots.items()):
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
    jobs: Counter[tuple[str, str]] = Counter(
        (job.kind, job.state) for job in controllers.jobs.all() if sees(job.controller)
    )
    text = as_text(rows, controllers.latencies, [] if notifier is None else notifier.state()["targets"], jobs)
    return text if fleets is None else text + _of_fleets(fleets, sees)


def _of_fleets(fleets: HostedFleets, sees: Callable[[str], bool]) -> str:
    seen = {name: slot for name, slot in sorted(fleets.slots.items()) if sees(name)}
    lines = [
        "# HELP holdcourse_fleet_broken 1 if the record cannot be used.",
        "# TYPE holdcourse_fleet_broken gauge",
    ]
    lines += [
        f'holdcourse_fleet_broken{{fleet="{name}"}} {int(slot.broken is not None)}' for name, slot in seen.items()
    ]
    states = {name: slot.hosted.state() for name, slot in seen.items() if slot.hosted is not None}
    for name, (kind, about, field) in FLEET_FAMILIES.items():
        lines += [f"# HELP holdcourse_{name} {about}", f"# TYPE holdcourse_{name} {kind}"]
        lines += [f'holdcourse_{name}{{fleet="{which}"}} {state[field]}' for which, state in states.items()]
    return "\n".join(lines) + "\n"


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
        Of each controller: its id, and the fields of `FAMILIES` as far as they are known.
    latencies
        By controller and "ask" or "tell".
    targets
        Of each who is told of alarms: its name, and how that goes.
    """
    rows = list(rows)
    lines: list[str] = []
    for each in FAMILIES:
        samples = OF_SEVERAL.get(each.name, partial(_one_number, each.field or each.name))
        lines += _family(each.name, each.kind, each.about, chain.from_iterable(map(samples, rows)))
    counted = [({"kind": kind, "state": state}, count) for (kind, state), count in sorted(jobs.items())]
    lines += _family("jobs", "gauge", "Background jobs that are remembered, by kind and state.", counted)
    lines += _of_targets(list(targets))
    seen = {row["id"] for row in rows}
    lines += _of_requests({key: latency for key, latency in sorted(latencies.items()) if key[0] in seen})
    return "\n".join(lines) + "\n"


def _family(name: str, kind: str, about: str, samples: Iterable[Sample]) -> Iterator[str]:
    """Write a family: what it is about, and a line for each sample."""
    yield from (f"# HELP holdcourse_{name} {about}", f"# TYPE holdcourse_{name} {kind}")
    for labels, value in samples:
        written = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
        yield f"holdcourse_{name}{{{written}}} {float(value):.17g}"


def _one_number(field: str, row: Mapping[str, Any]) -> Iterator[Sample]:
    """A controller's number, where it is known."""
    if row.get(field) is not None:
        yield {"controller": row["id"]}, row[field]


def _modes(row: Mapping[str, Any]) -> Iterator[Sample]:
    """Every mode, and whether the controller is in it."""
    for mode in MODES if row.get("mode") else ():
        yield {"controller": row["id"], "mode": mode}, row["mode"] == mode


def _open_alarms(row: Mapping[str, Any]) -> Iterator[Sample]:
    """Every alarm of the controller that is open."""
    for kind in row.get("kinds", ()):
        yield {"controller": row["id"], "kind": kind}, 1


OF_SEVERAL: dict[str, Callable[[Mapping[str, Any]], Iterator[Sample]]] = {"mode": _modes, "alarm": _open_alarms}


def _of_targets(targets: list[Mapping[str, Any]]) -> Iterator[str]:
    """How it goes with telling people of alarms."""
    outcomes = [
        ({"target": one["name"], "outcome": outcome}, one[outcome])
        for one in targets
        for outcome in ("sent", "failed", "dropped")
    ]
    yield from _family("notifications_total", "counter", "Notices of alarms, and attempts that failed.", outcomes)
    waiting = [({"target": one["name"]}, one["waiting"]) for one in targets]
    yield from _family("notifications_waiting", "gauge", "Notices that wait to be delivered.", waiting)
    failing = [({"target": one["name"]}, one["failing_s"] or 0.0) for one in targets]
    about = "Since when a target is unreachable; 0 while it is not."
    yield from _family("notifications_failing_seconds", "gauge", about, failing)


def _of_requests(latencies: Mapping[tuple[str, str], Latency]) -> Iterator[str]:
    """How long asks and tells took, as a histogram."""
    name = "holdcourse_request_seconds"
    yield from (f"# HELP {name} Time to answer, commit included.", f"# TYPE {name} histogram")
    for (controller, operation), latency in latencies.items():
        labels, count = f'controller="{controller}",operation="{operation}"', 0
        for bound, more in zip((*BUCKETS_S, "+Inf"), latency.counts, strict=True):
            count += more
            yield f'{name}_bucket{{{labels},le="{bound}"}} {count}'
        yield from (f"{name}_sum{{{labels}}} {latency.total:.17g}", f"{name}_count{{{labels}}} {count}")


def _escaped(label: str) -> str:
    """A label's value as the format wants it."""
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

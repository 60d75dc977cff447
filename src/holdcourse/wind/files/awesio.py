"""Read and write awesIO files, the exchange format of IEA Wind Task 48 for airborne wind.

Four kinds of them are read: power curves, a system, a wind resource and operational constraints. Files in the wild call
themselves 0.1.0 and use two sets of keys, with the unit (``altitudes_m``, as the schemas have it) and without it
(``altitudes``, as AWESPA writes); both are understood. A document is kept as it was read, so it is written back equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.errors import InvalidInput, counted, shown
from holdcourse.wind.files.yamlfile import read_yaml, write_yaml
from holdcourse.wind.physics import PowerCurve, table_curve

Array: TypeAlias = NDArray[np.float64]

VERSION = "0.1.0"
KINDS = ("power_curves", "system", "wind_resource", "operational_constraints")
# By what a document of each kind is known that does not name its schema.
MARKS = {
    "power_curves": ("power_curves",),
    "system": ("components", "assembly"),
    "wind_resource": ("probability_matrix",),
    "operational_constraints": ("airspace_constraints", "terrain_constraints", "wind_envelope", "flight_envelope"),
}


@dataclass(frozen=True, eq=False)
class Document:
    """An awesIO file as it was read: its kind and its content."""

    kind: str
    data: dict[str, Any]
    name: str = ""

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the file."""
        return _mapping(self.data.get("metadata", {}), "metadata", self.name)


def read_awesio(path: str | Path) -> Document:
    """Read an awesIO file of any kind (extra [wind])."""
    path = Path(path)
    data = read_yaml(path)
    return document(data, path.name)


def document(data: Any, name: str = "") -> Document:
    """Make a document from the content of an awesIO file, in plain values, and recognise its kind."""
    data = _mapping(data, "the file", name)
    named = str(_mapping(data.get("metadata") or {}, "metadata", name).get("schema", ""))
    kind = named.removesuffix(".yml").removesuffix("_schema")
    if kind not in KINDS:
        kind = next((each for each, marks in MARKS.items() if any(mark in data for mark in marks)), "")
    if not kind:
        raise InvalidInput(
            f"{name or 'this'} is not an awesIO file that holdcourse reads (metadata.schema is {named!r}); it reads "
            + ", ".join(f"{each}_schema.yml" for each in KINDS)
        )
    return Document(kind, data, name)


def write_awesio(found: Document, path: str | Path) -> None:
    """Write a document; reading the file gives an equal document (extra [wind])."""
    write_yaml(found.data, path)


# -- power curves -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PowerCurves:
    """The power curves of a machine: one for each of some wind profiles, by the wind at a reference height.

    Attributes
    ----------
    speeds
        Wind at the reference height, m/s, (k,).
    power
        Electrical power averaged over a cycle, kW, (profiles, k); NaN where a calculation failed among others.
    ratios
        Wind at the altitude where the machine operates, as a multiple of that at the reference height, (profiles,);
        None if the file does not say.
    weights
        How often each profile occurs, (profiles,), together 1.
    """

    name: str
    reference_height: float | None
    operating_altitude: float | None
    speeds: Array
    power: Array
    ratios: Array | None
    weights: Array
    altitudes: Array
    profiles: Array
    cut_in: float | None = None
    cut_out: float | None = None

    @property
    def meaning(self) -> str:
        """What the speeds of a curve by `local_curve` are, in words."""
        where = "a reference height" if self.reference_height is None else f"{self.reference_height:g} m"
        if self.ratios is None:
            return f"wind at {where}, used as the wind at the altitude flown: the file does not say how they differ"
        to = "the altitude flown" if self.operating_altitude is None else f"{self.operating_altitude:.0f} m"
        return (
            f"wind at {where}, times {self.ratios.min():.2f} to {self.ratios.max():.2f} by its profiles: wind at {to}"
        )

    def local_curve(self, cut_in: float | None = None, cut_out: float | None = None) -> PowerCurve:
        """Return one curve by the wind at the altitude flown: the mean over profiles, as often as they occur."""
        ratios = np.ones(len(self.power)) if self.ratios is None else self.ratios
        grid = self.speeds * float(self.weights @ ratios)
        made = np.zeros(len(grid))
        for power, ratio, weight in zip(self.power, ratios, self.weights, strict=True):
            known = np.isfinite(power)
            made += weight * np.interp(grid, ratio * self.speeds[known], power[known])
        return table_curve(grid, made, cut_in, cut_out, name=self.name)


def power_curves(found: Document) -> PowerCurves:
    """Understand a document of power curves."""
    _expect(found, "power_curves")
    data, where = found.data, found.name
    model = _mapping(found.metadata.get("model_config") or {}, "metadata.model_config", where)
    resource = _mapping(found.metadata.get("wind_resource") or {}, "metadata.wind_resource", where)
    speeds = _numbers(_get(data, "reference_wind_speeds_m_s", "reference_wind_speeds"), "reference_wind_speeds", where)
    altitudes = _numbers(_get(data, "altitudes_m", "altitudes"), "altitudes", where)
    entries = _list(data.get("power_curves"), "power_curves", where)
    power, ratios, weights, profiles = [], [], [], []
    for number, entry in enumerate(entries, 1):
        entry = _mapping(entry, f"power_curves, number {number}", where)
        power.append(_cycle_power(entry, speeds, f"power_curves, number {number}", where))
        ratios.append(_float(entry.get("speed_ratio_at_operating_altitude")))
        weights.append(_float(entry.get("probability_weight")))
        profiles.append(_profile(_mapping(entry.get("wind_profile", entry), "wind_profile", where), altitudes, where))
    share = np.array([0.0 if weight is None else weight for weight in weights])
    if not (share >= 0).all():
        raise InvalidInput(f"{where}: a probability_weight is negative; it must be 0 or more")
    share = share / share.sum() if share.sum() > 0 else np.full(len(entries), 1 / len(entries))
    known = [ratio for ratio in ratios if ratio is not None]
    if known and not all(0 < ratio < 10 for ratio in known):
        raise InvalidInput(f"{where}: a speed_ratio_at_operating_altitude lies outside 0 to 10: {known}")
    return PowerCurves(
        name=str(found.metadata.get("name") or where),
        reference_height=_float(_get(resource, "reference_height_m", "reference_height")),
        operating_altitude=_float(model.get("operating_altitude_m")),
        speeds=speeds,
        power=np.array(power),
        ratios=np.array(known) if len(known) == len(entries) else None,
        weights=share,
        altitudes=altitudes,
        profiles=np.array(profiles),
        cut_in=_float(_get(model, "cut_in_wind_speed_m_s", "cut_in_wind_speed")),
        cut_out=_float(_get(model, "cut_out_wind_speed_m_s", "cut_out_wind_speed")),
    )


def _cycle_power(entry: Mapping[str, Any], speeds: Array, what: str, where: str) -> Array:
    """Return the mean power of a cycle in kW, (k,)."""
    if "cycle_power_w" in entry:
        power = _numbers(entry["cycle_power_w"], f"{what}: cycle_power_w", where) / 1000
        if len(power) != len(speeds):
            raise InvalidInput(
                f"{where}, {what}: cycle_power_w must be {counted(len(speeds), 'power')}, one for each wind speed, got "
                f"{len(power)}"
            )
        return power
    points = _list(entry.get("wind_speed_data"), f"{what}: cycle_power_w or wind_speed_data", where)
    power = np.full(len(speeds), np.nan)
    for point in points:
        point = _mapping(point, f"{what}: wind_speed_data", where)
        speed, performance = _float(point.get("wind_speed")), _mapping(point.get("performance") or {}, what, where)
        here = np.flatnonzero(np.isclose(speeds, math.nan if speed is None else speed))
        made = _mapping(_get(performance, "electrical_power", "power") or {}, what, where).get("average_cycle_power")
        if point.get("successful", True) and len(here) and (watts := _float(made)) is not None:
            power[here[0]] = watts / 1000
    known = np.isfinite(power)
    if not known.any():
        raise InvalidInput(f"{where}, {what}: no wind speed has a power")
    # Before the first that could be flown it makes nothing; one that failed among others is not known.
    power[: int(np.flatnonzero(known)[0])] = 0.0
    return power


def _profile(entry: Mapping[str, Any], altitudes: Array, where: str) -> Array:
    """Return the wind over altitude as a multiple of that at the reference height, (a,); NaN where it is not given."""
    if "u_normalized" not in entry:
        return np.full(len(altitudes), np.nan)
    along = _numbers(entry["u_normalized"], "u_normalized", where)
    across = _numbers(entry["v_normalized"], "v_normalized", where) if "v_normalized" in entry else np.zeros(len(along))
    for name, values in (("u_normalized", along), ("v_normalized", across)):
        if len(values) != len(altitudes):
            raise InvalidInput(
                f"{where}: {name} of a wind profile must be {counted(len(altitudes), 'value')}, one for each altitude, "
                f"got {len(values)}"
            )
    return np.hypot(along, across)


def power_curve_document(
    name: str,
    note: str,
    created: str,
    reference_height: float,
    speeds: ArrayLike,
    power: ArrayLike,
    altitudes: ArrayLike,
    profile: ArrayLike,
    *,
    operating_altitude: float,
    cut_in: float,
    cut_out: float,
) -> Document:
    """Return a power curve of ours as awesIO has it: power in kW by the wind at a reference height, of one profile.

    What the schema requires and a backtest does not know, the wing, the tether and its force, is written as 0.
    """
    heights, shape = np.asarray(altitudes, dtype=np.float64), np.asarray(profile, dtype=np.float64)
    watts = 1000 * np.asarray(power, dtype=np.float64)
    ratio = float(np.interp(operating_altitude, heights, shape))
    data = {
        "metadata": {
            "name": name,
            "description": "Power of a machine that changes its altitude, averaged over a backtest",
            "note": note,
            "awesIO_version": VERSION,
            "schema": "power_curves_schema.yml",
            "time_created": created,
            "model_config": {
                "wing_area_m2": 0.0,
                "nominal_power_w": float(watts.max()),
                "nominal_tether_force_n": 0.0,
                "cut_in_wind_speed_m_s": float(cut_in),
                "cut_out_wind_speed_m_s": float(cut_out),
                "operating_altitude_m": float(operating_altitude),
                "tether_length_operational_m": 0.0,
            },
            "wind_resource": {"n_clusters": 1, "reference_height_m": float(reference_height)},
        },
        "altitudes_m": heights.tolist(),
        "reference_wind_speeds_m_s": np.asarray(speeds, dtype=np.float64).tolist(),
        "power_curves": [
            {
                "profile_id": 1,
                "speed_ratio_at_operating_altitude": ratio,
                "u_normalized": shape.tolist(),
                "v_normalized": [0.0] * len(shape),
                "probability_weight": 1.0,
                "cycle_power_w": watts.tolist(),
            }
        ],
    }
    return Document("power_curves", data, name)


# -- wind resource ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class WindResource:
    """Frequencies of winds: profiles over altitude, and how often each occurs with each reference speed.

    Attributes
    ----------
    profiles
        Wind at each altitude as a multiple of that at the reference height, (profiles, altitudes).
    speeds, share
        Reference speeds, m/s, (k,), and how often each comes with each profile, (profiles, k), together 1.
    """

    name: str
    reference_height: float | None
    altitudes: Array
    profiles: Array
    speeds: Array
    share: Array
    latitude: float | None = None
    longitude: float | None = None

    def mean_speed(self) -> Array:
        """Return the mean wind at each altitude, m/s."""
        return np.asarray((self.share @ self.speeds) @ self.profiles)

    def mean_power(self, curve: PowerCurve) -> Array:
        """Return the mean power, in kW, of a machine that stays at each altitude."""
        wind = self.profiles[:, None, :] * self.speeds[None, :, None]  # (profiles, k, altitudes)
        made = curve.onto(self.altitudes).power(wind)
        return np.asarray(np.einsum("pk,pka->a", self.share, made))


def wind_resource(found: Document) -> WindResource:
    """Understand a document of a wind resource."""
    _expect(found, "wind_resource")
    data, where = found.data, found.name
    altitudes = _numbers(_get(data, "altitudes", "altitudes_m"), "altitudes", where)
    entries = _list(_get(data, "clusters", "profiles"), "clusters", where)
    profiles = np.array([_profile(_mapping(entry, "clusters", where), altitudes, where) for entry in entries])
    bins = _mapping(data.get("wind_speed_bins") or {}, "wind_speed_bins", where)
    speeds = _numbers(_get(bins, "bin_centers_m_s", "bin_centers"), "wind_speed_bins: bin_centers", where)
    matrix = _mapping(data.get("probability_matrix") or {}, "probability_matrix", where).get("data")
    try:
        share = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        share = np.zeros(0)
    if share.ndim != 3 or share.shape[:2] != (len(entries), len(speeds)) or not (share >= 0).all():
        raise InvalidInput(
            f"{where}: probability_matrix.data must contain shares of 0 or more for {len(entries)} profiles x "
            f"{len(speeds)} wind speeds x directions, got the shape {share.shape}"
        )
    together = float(share.sum())
    if not together > 0:
        raise InvalidInput(f"{where}: all shares of the probability_matrix are 0")
    place = _mapping(found.metadata.get("location") or {}, "metadata.location", where)
    return WindResource(
        name=str(found.metadata.get("name") or where),
        reference_height=_float(_get(found.metadata, "reference_height_m", "reference_height")),
        altitudes=altitudes,
        profiles=profiles,
        speeds=speeds,
        share=share.sum(axis=2) / together,
        latitude=_float(place.get("latitude")),
        longitude=_float(place.get("longitude")),
    )


# -- system and constraints -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class System:
    """Parts of a machine that matter for its altitude."""

    name: str
    airborne_type: str
    generation_type: str
    wing_area: float | None = None  # m2
    wing_mass: float | None = None  # kg
    tether_length: float | None = None  # m
    rated_power: float | None = None  # kW
    reel_speed: float | None = None  # m/s, the most that the drum can


def system(found: Document) -> System:
    """Understand a document of a system."""
    _expect(found, "system")
    data, where = found.data, found.name
    assembly = _mapping(data.get("assembly") or {}, "assembly", where)

    def at(*keys: str) -> Any:
        value: Any = data.get("components") or {}
        for key in keys:
            value = _mapping(value or {}, ".".join(keys), where).get(key)
        return value

    return System(
        name=str(found.metadata.get("name") or where),
        airborne_type=str(assembly.get("airborne_type", "")),
        generation_type=str(assembly.get("generation_type", "")),
        wing_area=_float(at("wing", "structure", "projected_surface_area_m2")),
        wing_mass=_float(at("wing", "structure", "mass_kg")),
        tether_length=_float(at("tether", "structure", "length_m")),
        rated_power=_float(at("ground_station", "generator", "rated_power_kw")),
        reel_speed=_float(at("ground_station", "drum", "max_tether_speed_m_s")),
    )


@dataclass(frozen=True)
class Zone:
    """A sector around the ground station: degrees from north, and least heights by distance, both in metres."""

    begin: float
    end: float
    allowed: bool
    heights: tuple[tuple[float, float, float], ...] = ()  # from and to which distance, and the least height there

    @property
    def lowest(self) -> float:
        """The height that is allowed at every distance of the sector."""
        return max((least for _, _, least in self.heights), default=0.0)


@dataclass(frozen=True)
class Constraints:
    """Operational constraints: a ceiling above ground, and a least height in every sector."""

    name: str
    ceiling: float | None = None
    ceiling_above_sea: float | None = None
    clearance: float = 0.0
    zones: tuple[Zone, ...] = field(default_factory=tuple)

    def highest(self, ground: float | None = None) -> float | None:
        """Return the ceiling above ground, m; one above the sea counts where the height of the ground is given."""
        limits = [self.ceiling]
        if self.ceiling_above_sea is not None and ground is not None:
            limits.append(self.ceiling_above_sea - ground)
        return min((limit for limit in limits if limit is not None), default=None)

    def lowest(self, azimuth: float | None = None) -> float:
        """Return the least height, m: of the sector of this azimuth, or one that holds in every open sector."""
        open_ones = [zone for zone in self.zones if zone.allowed]
        if azimuth is not None:
            inside = [zone for zone in self.zones if zone.begin <= azimuth % 360 < zone.end]
            if any(not zone.allowed for zone in inside):
                raise InvalidInput(f"{self.name}: flying is forbidden at {azimuth:g} degrees")
            open_ones = inside
        return max([self.clearance, *(zone.lowest for zone in open_ones)])

    @property
    def words(self) -> list[str]:
        """The constraints, and which of them altitudes alone cannot satisfy, in words."""
        found = []
        if self.ceiling is not None:
            found.append(f"{self.name}: at most {self.ceiling:g} m above ground")
        if self.ceiling_above_sea is not None:
            found.append(
                f"{self.name}: at most {self.ceiling_above_sea:g} m above the sea, which counts only if the height of "
                "the ground is given as surface_height="
            )
        if self.lowest() > 0:
            found.append(f"{self.name}: at least {self.lowest():g} m above ground, which applies in every open sector")
        closed = [f"{zone.begin:g} to {zone.end:g}" for zone in self.zones if not zone.allowed]
        if closed:
            found.append(
                f"{self.name}: flying is forbidden at {', '.join(closed)} degrees. Wind is read without its direction, "
                "so hours in which the machine would fly there are counted as flown"
            )
        return found


def constraints(found: Document) -> Constraints:
    """Understand a document of operational constraints."""
    _expect(found, "operational_constraints")
    data, where = found.data, found.name

    def part(key: str) -> Mapping[str, Any]:
        return _mapping(data.get(key) or {}, key, where)

    zones = []
    for entry in _list(part("terrain_constraints").get("azimuth_zones") or [], "azimuth_zones", where, empty=True):
        entry = _mapping(entry, "azimuth_zones", where)
        begin, end = _pair(entry.get("azimuth_range_deg"), "azimuth_range_deg", where)
        heights = []
        for limit in _list(entry.get("distance_restrictions") or [], "distance_restrictions", where, empty=True):
            limit = _mapping(limit, "distance_restrictions", where)
            near, far = _pair(limit.get("distance_range_m"), "distance_range_m", where)
            heights.append((near, far, _float(limit.get("min_height_agl_m")) or 0.0))
        zones.append(Zone(begin, end, bool(entry.get("flight_allowed", True)), tuple(heights)))
    airspace = part("airspace_constraints")
    return Constraints(
        name=str(found.metadata.get("name") or where),
        ceiling=_float(_get(airspace, "max_altitude_agl_m", "max_altitude_agl")),
        ceiling_above_sea=_float(_get(airspace, "max_altitude_msl_m", "max_altitude_msl")),
        clearance=_float(part("safety_constraints").get("min_ground_clearance_m")) or 0.0,
        zones=tuple(zones),
    )


# -- plain values -----------------------------------------------------------------------------------------------------


def _expect(found: Document, kind: str) -> None:
    if found.kind != kind:
        raise InvalidInput(f"{found.name} is an awesIO file of the kind {found.kind}, but one of {kind} is needed")


def _get(data: Mapping[str, Any], *keys: str) -> Any:
    """Return what stands under the first of these keys that there is."""
    return next((data[key] for key in keys if key in data), None)


def _mapping(value: Any, what: str, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(
            f"{where or 'awesIO'}: {what} must be a table of keys and values, got {type(value).__name__}"
        )
    return dict(value)


def _list(value: Any, what: str, where: str, *, empty: bool = False) -> Sequence[Any]:
    if not isinstance(value, list) or not (value or empty):
        raise InvalidInput(f"{where}: {what} must be a list that is not empty, got {str(value)[:40]!r}")
    return value


def _numbers(value: Any, what: str, where: str) -> Array:
    try:
        found = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.zeros((0, 0))
    if found.ndim != 1 or len(found) == 0 or not np.isfinite(found).all():
        raise InvalidInput(f"{where}: {what} must be a list of finite numbers, got {str(value)[:60]!r}")
    return found


def _pair(value: Any, what: str, where: str) -> tuple[float, float]:
    found = _numbers(value, what, where)
    if len(found) != 2:
        raise InvalidInput(f"{where}: {what} must be two numbers, got {shown(value)}")
    return float(found[0]), float(found[1])


def _float(value: Any) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None

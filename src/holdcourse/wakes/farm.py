"""A wind farm and its wake model: layout from a FLORIS input file, power of every turbine by FLORIS.

FLORIS is needed where its model is evaluated, and nowhere else: a `Farm` is a layout, and an `EnergyTable` remembers
what FLORIS said.
"""

from __future__ import annotations

import copy
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.errors import InvalidInput, MissingExtra, counted

Array: TypeAlias = NDArray[np.float64]

INSTALL = 'pip install "holdcourse[wakes]"'
TURBULENCE = 0.06  # where the file names none
SEARCHED = 720  # winds whose best offsets are looked for at once
AIR = ("air_density", "wind_shear", "wind_veer", "reference_wind_height", "multidim_conditions")
BATCH = 4000  # conditions that FLORIS computes at once: more would only take more memory


@dataclass(frozen=True, eq=False)
class Farm:
    """Layout of a farm: its turbines and their positions.

    Parameters
    ----------
    name
        Name of the farm.
    turbines
        Names of the turbines.
    x, y
        Positions in metres to the east and to the north of some point, (m,).
    diameter
        Diameters of the rotors, metres, (m,).
    """

    name: str
    turbines: tuple[str, ...]
    x: Array
    y: Array
    diameter: Array

    def __len__(self) -> int:
        return len(self.turbines)

    def to_data(self) -> dict[str, Any]:
        """Return the farm in JSON values."""
        return {
            "name": self.name,
            "turbines": list(self.turbines),
            "x": self.x.tolist(),
            "y": self.y.tolist(),
            "diameter": self.diameter.tolist(),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Farm:
        """Read what `to_data` gave."""
        x, y, diameter = (np.array(data[key], dtype=np.float64) for key in ("x", "y", "diameter"))
        return cls(str(data["name"]), tuple(map(str, data["turbines"])), x, y, diameter)

    def __repr__(self) -> str:
        return f"Farm({self.name!r}, {len(self)} turbines)"


class WakeModel(Protocol):
    """What can say how much power a farm makes."""

    turbulence: float

    @property
    def farm(self) -> Farm:
        """The layout."""
        ...

    def power(self, directions: ArrayLike, speeds: ArrayLike, offsets: ArrayLike) -> Array:
        """Return the power of every turbine, kW, (k, m), for k directions, speeds and offset vectors."""
        ...

    def best_offsets(self, directions: ArrayLike, speeds: ArrayLike, most: float) -> Array:
        """Return the best offsets within +-`most` degrees for k directions and speeds, (k, m)."""
        ...


class FlorisModel:
    """The wake model of a FLORIS input file.

    Parameters
    ----------
    path
        A FLORIS input file (YAML) of any farm.
    turbines
        Names of the turbines; default: T1, T2, ...
    changes
        Factors on wake parameters, by the model's own names: ``{"ka": 1.3}`` multiplies `ka` wherever the velocity and
        deflection models in use have it. This shows the effect of a wrong parameter.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        turbines: tuple[str, ...] | None = None,
        changes: Mapping[str, float] | None = None,
    ) -> None:
        path = Path(path)
        if not path.is_file():
            raise InvalidInput(f"there is no file {path}; give a FLORIS input file (YAML)")
        floris = _floris()
        try:
            with _cheap_paths():
                model = floris.FlorisModel(str(path))
                if changes:
                    model = floris.FlorisModel(_changed(model.core.as_dict(), changes))
        except InvalidInput:
            raise
        except Exception as error:  # FLORIS raises whatever its parts raise
            raise InvalidInput(
                f"{path}: FLORIS cannot read it: {_first_line(error)}. Give a FLORIS input file of version 4 (YAML)"
            ) from error
        _check_steerable(path, model)
        given = np.ravel(np.array(model.core.flow_field.turbulence_intensities, dtype=np.float64))
        self.turbulence = float(given[0]) if given.size else TURBULENCE
        try:
            with _cheap_paths():
                _try_out(floris, model)
        except Exception as error:
            raise InvalidInput(
                f"{path}: FLORIS can read it but cannot compute its wakes: {_first_line(error)}. Try it with FLORIS "
                "alone"
            ) from error
        self._model = model
        x, y = (np.array(each, dtype=np.float64) for each in (model.layout_x, model.layout_y))
        names = turbines or tuple(f"T{k + 1}" for k in range(len(x)))
        if len(names) != len(x):
            raise InvalidInput(
                f"turbines must be {counted(len(x), 'name')}, one for each turbine of {path.name}, got {len(names)}"
            )
        diameter = np.broadcast_to(np.ravel(np.array(model.core.farm.rotor_diameters, dtype=np.float64)), x.shape)
        self._farm = Farm(str(model.core.name or path.stem), names, x, y, diameter.copy())
        kinds = [str(kind) for kind in model.core.farm.turbine_type]
        self._kinds = tuple(kinds.index(kind) for kind in (kinds if len(kinds) == len(x) else kinds[:1] * len(x)))

    @property
    def farm(self) -> Farm:
        """The layout."""
        return self._farm

    @cached_property
    def digest(self) -> str:
        """Digest that identifies its wakes, turbines and air."""
        told = self._model.core.as_dict()
        flow = {key: told["flow_field"].get(key) for key in AIR}
        turbines = [
            {key: value for key, value in kind.items() if key != "turbine_library_path"}
            for kind in self._model.core.farm.turbine_definitions
        ]
        described = {"wake": told["wake"], "turbines": turbines, "air": flow}
        return hashlib.sha256(json.dumps(described, sort_keys=True, default=str).encode()).hexdigest()[:32]

    def power(self, directions: ArrayLike, speeds: ArrayLike, offsets: ArrayLike) -> Array:
        """Return the power of every turbine, kW, (k, m), for k directions, speeds and offset vectors."""
        yaw = np.atleast_2d(np.asarray(offsets, dtype=np.float64))
        d = np.broadcast_to(np.asarray(directions, dtype=np.float64), len(yaw))
        u = np.broadcast_to(np.asarray(speeds, dtype=np.float64), len(yaw))
        found = np.empty(yaw.shape)
        for first in range(0, len(yaw), BATCH):
            part = slice(first, first + BATCH)
            with _cheap_paths():
                self._model.set(
                    wind_directions=d[part],
                    wind_speeds=u[part],
                    turbulence_intensities=np.full(len(d[part]), self.turbulence),
                    yaw_angles=yaw[part],
                )
            self._model.run()
            found[part] = np.asarray(self._model.get_turbine_powers()) / 1000.0
        return np.asarray(found)

    def best_offsets(
        self,
        directions: ArrayLike,
        speeds: ArrayLike,
        most: float,
        progress: Callable[[float], None] | None = None,
    ) -> Array:
        """Return the offsets that FLORIS' serial refine finds best within +-`most` degrees, (k, m)."""
        from floris.optimization.yaw_optimization.yaw_optimizer_sr import YawOptimizationSR

        d, u = (np.asarray(each, dtype=np.float64) for each in (directions, speeds))
        found = np.zeros((len(d), len(self.farm)))
        for first in range(0, len(d), SEARCHED):  # winds do not meet: in parts the result is the same
            part = slice(first, first + SEARCHED)
            if progress is not None:
                progress(first / len(d))
            with _cheap_paths():
                self._model.set(
                    wind_directions=d[part],
                    wind_speeds=u[part],
                    turbulence_intensities=np.full(len(d[part]), self.turbulence),
                    yaw_angles=np.zeros((len(d[part]), len(self.farm))),
                )
                search = YawOptimizationSR(
                    self._model, minimum_yaw_angle=-most, maximum_yaw_angle=most, verify_convergence=False
                )
                found[part] = np.vstack(search.optimize(print_progress=False)["yaw_angles_opt"].to_numpy())
        return found

    def kinds(self, turbines: ArrayLike) -> tuple[int, ...]:
        """Return a number for the kind of each turbine (by index); turbines of one kind have the same number."""
        return tuple(self._kinds[k] for k in np.asarray(turbines, dtype=np.int64).tolist())

    def part(self, turbines: ArrayLike) -> FlorisModel:
        """Return the model of some of the turbines (indices) alone."""
        which = np.asarray(turbines, dtype=np.int64)
        twin = copy.copy(self)
        twin._model = self._model.copy()
        farm, kinds = self.farm, list(self._model.core.farm.turbine_type)
        changes: dict[str, Any] = {"layout_x": farm.x[which], "layout_y": farm.y[which]}
        if len(kinds) == len(farm):
            changes["turbine_type"] = [kinds[k] for k in which]
        one = {"wind_directions": [270.0], "wind_speeds": [8.0], "turbulence_intensities": [self.turbulence]}
        with _cheap_paths():
            twin._model.reset_operation()
            twin._model.set(**changes, **one)
        names = tuple(farm.turbines[k] for k in which)
        twin._farm = Farm(farm.name, names, farm.x[which], farm.y[which], farm.diameter[which])
        twin._kinds = self.kinds(which)
        return twin

    def deficit(self, direction: float, speed: float, offsets: ArrayLike, resolution: int = 200) -> tuple[Array, ...]:
        """Return the wind over the farm at hub height: x (k,), y (l,) in metres and speed (l, k) in m/s."""
        self._model.set(
            wind_directions=np.array([direction]),
            wind_speeds=np.array([speed]),
            turbulence_intensities=np.array([self.turbulence]),
            yaw_angles=np.atleast_2d(np.asarray(offsets, dtype=np.float64)),
        )
        x, y, d = self.farm.x, self.farm.y, float(self.farm.diameter.max())
        span = max(np.ptp(x), np.ptp(y)) / 2 + 4 * d
        middle = (x.min() + x.max()) / 2, (y.min() + y.max()) / 2
        xs, ys = (np.linspace(at - span, at + span, resolution) for at in middle)
        over = np.meshgrid(xs, ys)
        height = np.full(over[0].size, float(np.mean(self._model.core.farm.hub_heights)))
        wind = self._model.sample_flow_at_points(over[0].ravel(), over[1].ravel(), height)
        return xs, ys, np.asarray(wind, dtype=np.float64).reshape(len(ys), len(xs))


def _floris() -> Any:
    try:
        import floris
    except ImportError:
        raise MissingExtra(f"wake models are computed by FLORIS: {INSTALL}") from None
    return floris


class _Callers:
    """What FLORIS asks of `inspect`: from which files a function was called; `inspect` also reads their sources."""

    @staticmethod
    def stack() -> list[SimpleNamespace]:
        found, frame = [], sys._getframe(1)
        while frame is not None:
            found.append(SimpleNamespace(filename=frame.f_code.co_filename))
            frame = frame.f_back  # type: ignore[assignment]
        return found


@contextmanager
def _cheap_paths() -> Iterator[None]:
    """Let FLORIS look for its files quickly: it does so for every turbine whenever the wind is set.

    Reading the sources of all callers each time took more than half of the time of a small batch.
    """
    from floris import type_dec

    kept = getattr(type_dec, "inspect", None)
    if kept is None:  # another version, which may need no help
        yield
        return
    type_dec.inspect = _Callers
    try:
        yield
    finally:
        type_dec.inspect = kept


def _first_line(error: BaseException) -> str:
    # FLORIS looks for a file in a second place where a turbine's file was missing: what was missing first is the cause.
    if isinstance(error, FileNotFoundError) and isinstance(error.__context__, FileNotFoundError):
        error = error.__context__
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0].rstrip('.')}"


def _try_out(floris: Any, model: Any) -> None:
    """Compute one wind, so that what cannot work fails now; FLORIS then says its warnings once and not every time."""
    turbines = len(model.layout_x)
    model.set(
        wind_directions=[270.0], wind_speeds=[8.0], turbulence_intensities=[TURBULENCE], yaw_angles=[[10.0] * turbines]
    )
    model.run()
    model.reset_operation()
    model.core.logging["console"]["enable"] = False
    floris.logging_manager.configure_console_log(False)
    farm = model.core.farm
    if any(isinstance(kind, str) for kind in farm.turbine_type):
        # FLORIS reads the files of turbines that are named anew whenever the wind is set; what it read is enough.
        kinds = farm.turbine_definitions[:1] if len(farm.turbine_type) == 1 else farm.turbine_definitions
        model.set(turbine_type=kinds, reference_wind_height=model.core.flow_field.reference_wind_height)


def _check_steerable(path: Path, model: Any) -> None:
    """Refuse models that cannot answer what steering asks."""
    if model.core.wake.model_strings["deflection_model"] == "none":
        raise InvalidInput(
            f"{path}: its wake model does not deflect wakes (deflection_model: none), so there is nothing to steer; "
            "choose one that does, such as gauss"
        )
    if model.core.flow_field.heterogeneous_inflow_config is not None:
        raise InvalidInput(
            f"{path}: its wind differs from place to place (heterogeneous_inflow_config), as FLORIS knows it for the "
            "winds of the file only; remove that part of the file"
        )


def _changed(described: dict[str, Any], changes: Mapping[str, float]) -> dict[str, Any]:
    """Return FLORIS' own description of a model with some parameters multiplied."""
    wake = described["wake"]
    strings = wake["model_strings"]
    used = [
        wake["wake_velocity_parameters"][strings["velocity_model"]],
        wake["wake_deflection_parameters"][strings["deflection_model"]],
    ]
    for name, factor in changes.items():
        holders = [parameters for parameters in used if isinstance(parameters.get(name), int | float)]
        if not holders:
            known = sorted({key for parameters in used for key in parameters})
            raise InvalidInput(f"the wake model has no parameter {name!r}; its parameters are {', '.join(known)}")
        for parameters in holders:
            parameters[name] = parameters[name] * factor
    return described

"""What moving costs, given with units as people write them: as numbers in the units of a problem (`Prices`).

At a plant it may be given as energy where power is measured, or as money: in the unit of what is measured
(`MovePrices`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdcourse.errors import InvalidInput, TooLarge, shown
from holdcourse.movement.grid import Grid
from holdcourse.movement.knob import Knob
from holdcourse.movement.points import MOST_COLUMNS
from holdcourse.units import MONEY, Price, factor, price, quantity, rate


@dataclass(frozen=True)
class Prices:
    """What moving costs as numbers, and the units that they are in."""

    scale: Any
    fixed_cost: Any
    units: tuple[str, ...]
    cost_unit: str

    @classmethod
    def of(cls, scale: Any, fixed_cost: Any, units: tuple[str, ...], cost_unit: str) -> Prices:
        """Read prices that are given as text, in the units given: what has a unit needs one that it is converted to."""
        given = [scale] if isinstance(scale, str) else scale
        if isinstance(given, Sequence) and any(isinstance(each, str) for each in given):
            if len(given) not in (1, len(units)):
                raise InvalidInput(f"scale must be one price or {len(units)} (one per coordinate), got {len(given)}")
            prices = [price(each, "scale") if isinstance(each, str) else each for each in given]
            prices = prices * len(units) if len(prices) == 1 else prices
            scale = [
                _converted(each, cost_unit, unit, "scale") if isinstance(each, Price) else each
                for each, unit in zip(prices, units, strict=True)
            ]
        if isinstance(fixed_cost, str):
            if not any(sign.isdigit() for sign in fixed_cost):
                raise InvalidInput(
                    f"fixed_cost must be a number or a price such as '0.5 EUR per change', got {shown(fixed_cost)}"
                )
            each_time = price(_with_per(fixed_cost), "fixed_cost")
            fixed_cost = _converted(each_time, cost_unit, "change", "fixed_cost")
        return cls(scale, fixed_cost, units, cost_unit)


def _converted(price: Price, cost_unit: str, per: str, what: str) -> float:
    if price.unit and not cost_unit:
        raise InvalidInput(
            f"{what} is a price in {price.unit}; say in which unit costs are measured, such as cost_unit={price.unit!r}"
        )
    if price.per != "change" and not per:
        raise InvalidInput(
            f"{what} is a price for each {price.per}; say in which unit the settings are: unit={price.per!r}, or a "
            "list with one for each axis; or give the price as a number"
        )
    return price.in_units(cost_unit, per, what)


def _with_per(text: str) -> str:
    """Return a price that says for what it is paid: for each change where it does not say."""
    return text if "/" in text or " per " in text else f"{text} per change"


def priced_grid(grid: Grid, units: tuple[str, ...], cost_unit: str) -> Grid:
    """The same grid with prices in numbers, and few enough columns."""

    def in_numbers(name: str, knob: Knob, unit: str) -> Knob:
        try:
            return knob.priced(
                lambda given, what: _converted(given, cost_unit, unit if what == "per_unit" else "change", what)
            )
        except InvalidInput as error:
            raise InvalidInput(f"axis {name!r}: {error}") from None

    priced = Grid(grid.names, tuple(map(in_numbers, grid.names, grid.knobs, units)))
    columns = sum(knob.columns.shape[1] for knob in priced.knobs)
    if columns > MOST_COLUMNS:
        raise TooLarge(
            f"the prices of these knobs take {columns} columns, but only {MOST_COLUMNS} fit: a matrix of changes takes "
            "one for each value, while one price for all changes takes only a few. Give one price if that is enough"
        )
    return priced


class MovePrices:
    """Reads prices of moving at a plant that measures power or energy.

    A power becomes an energy by how long it is held, which readings with times tell, as a rate such as EUR/h becomes an
    amount of money; money becomes an energy by what a kWh costs.

    Parameters
    ----------
    unit
        Unit of what is measured.
    step
        Hours from one reading to the next; None: not known.
    kwh_price
        What a kWh costs; None: not known.
    option
        How that is given, for messages; "": it cannot be given, and money is left to the problem to refuse.

    Examples
    --------
    >>> from holdcourse.movement.prices import MovePrices
    >>> MovePrices("kW", 0.25).of("2 kWh/K", "scale")
    '8.0 kW per K'
    >>> MovePrices("kWh", 1.0, 0.25).of("0,5 EUR per change", "fixed_cost")
    '2.0 kWh per change'
    >>> MovePrices("EUR/h", 0.25).of("5 EUR/K", "scale")
    '20.0 EUR/h per K'
    """

    def __init__(self, unit: str, step: float | None, kwh_price: float | None = None, option: str = "") -> None:
        self.unit, self.step, self.kwh_price, self.option = unit, step, kwh_price, option
        self.notes: list[str] = []

    def of(self, given: Any, what: str) -> Any:
        """Return a price in the unit of what is measured, as text; what is no such price as it is."""
        kind, paid = quantity(self.unit), rate(self.unit)
        if not isinstance(given, str) or (kind not in ("energy", "power") and paid is None):
            return given
        try:
            found = price(_with_per(given), what)
        except InvalidInput:
            return given  # which the problem refuses in its words
        if paid is not None:
            if found.unit != paid[0]:
                return given
            if self.step is None:
                raise InvalidInput(
                    f"{what} is in {found.unit}, but the measurements are in {self.unit}; name the column of the "
                    "times, which says how long a round lasts, or divide by the length of a round and write it in "
                    f"{self.unit}"
                )
            return self._noted(given, what, found.amount * paid[1] / self.step, self.step, found.per)
        held = 1.0 if kind == "energy" else self.step  # hours that a power is held
        if found.unit in MONEY and (self.option or self.kwh_price):
            if self.kwh_price is None or self.kwh_price <= 0:
                raise InvalidInput(
                    f"{what} {given!r} is in money, but what is measured is in {self.unit}; give the price of a kWh "
                    f"with {self.option}"
                )
            energy = found.amount / self.kwh_price
        elif kind == "power" and quantity(found.unit) == "energy":
            energy = found.amount * factor(found.unit, "kWh", what)
        else:
            return given
        if held is None:
            return given
        costs = energy * factor("kWh" if kind == "energy" else "kW", self.unit, what) / held
        at = f" at {self.kwh_price:g} for a kWh" if found.unit in MONEY else ""
        return self._noted(given, what, costs, None if kind == "energy" else held, found.per, at)

    def _noted(self, given: str, what: str, costs: float, held: float | None, per: str, at: str = "") -> str:
        """Return a price in the unit of what is measured, and note what it is."""
        each = "" if held is None else f" for the {60 * held:g} min of a round"
        self.notes.append(f"{what} {given!r} is {costs:.4g} {self.unit}{each}{at}")
        return f"{costs!r} {self.unit} per {per}"

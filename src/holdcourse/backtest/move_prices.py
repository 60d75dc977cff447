"""What moving costs in the unit of what is measured: energy where power is, money at the price of a kWh."""

from __future__ import annotations

from typing import Any

from holdcourse.errors import InvalidInput
from holdcourse.units import MONEY, factor, price, quantity


class MovePrices:
    """Reads prices of moving at a plant that measures power or energy.

    A power becomes an energy by how long it is held, which readings with times tell; money becomes one by what a kWh
    costs.

    Parameters
    ----------
    unit
        Of what is measured.
    step
        Hours from one reading to the next; None: not known.
    kwh_price
        What a kWh costs; None: not known.
    option
        How that is given, for messages; "": it cannot be given, and money is left to the problem to refuse.

    Examples
    --------
    >>> from holdcourse.backtest.move_prices import MovePrices
    >>> MovePrices("kW", 0.25).of("2 kWh/K", "scale")
    '8.0 kW per K'
    >>> MovePrices("kWh", 1.0, 0.25).of("0,5 EUR per change", "fixed_cost")
    '2.0 kWh per change'
    """

    def __init__(self, unit: str, step: float | None, kwh_price: float | None = None, option: str = "") -> None:
        self.unit, self.step, self.kwh_price, self.option = unit, step, kwh_price, option
        self.notes: list[str] = []

    def of(self, given: Any, what: str) -> Any:
        """Return a price in the unit of what is measured, as text; what is no such price as it is."""
        kind = quantity(self.unit)
        if not isinstance(given, str) or kind not in ("energy", "power"):
            return given
        try:
            found = price(given if "/" in given or " per " in given else f"{given} per change", what)
        except InvalidInput:
            return given  # which the problem refuses in its words
        held = 1.0 if kind == "energy" else self.step  # hours that a power is held
        if found.unit in MONEY and (self.option or self.kwh_price):
            if self.kwh_price is None or self.kwh_price <= 0:
                raise InvalidInput(
                    f"{what} {given!r} is money, and what is measured is in {self.unit}; say what a kWh costs with "
                    f"{self.option}"
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
        each = "" if kind == "energy" else f" for the {60 * held:g} min of a round"
        self.notes.append(f"{what} {given!r} is {costs:.4g} {self.unit}{each}{at}")
        return f"{costs!r} {self.unit} per {found.per}"

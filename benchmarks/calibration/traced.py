"""Calibrated numbers that remember where they came from, so that a setup made once can be evaluated for any values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from planner.estimates.inputs import States
from planner.library.schema import Calibration, Coefficient, Library

Values = Mapping[str, Any]
"""Coefficient key -> number, or an array of shape (K, 1): K calibrations at once."""

BYTES = (("internevo", "extra_sharded", "extra_sharded_bytes", "bytes:internevo.extra_sharded"),)
"""Fitted numbers of models/techniques/bytes.yaml: framework, entry, field of `States`, key."""


class Traced(float):
    """A number read from a calibration, or sums, products and quotients of such: `at` gives it for other values.

    It is a float of the shipped value, so every estimate takes it; `name` tells equal expressions apart.
    """

    name: str
    at: Callable[[Values], Any]

    @classmethod
    def of_key(cls, key: str, value: float) -> Traced:
        """Return the number behind `key`."""
        return cls._made(value, key, lambda values: values[key])

    @classmethod
    def _made(cls, value: float, name: str, at: Callable[[Values], Any]) -> Traced:
        traced = cls(value)
        traced.name, traced.at = name, at
        return traced

    def _joined(self, other: Any, sign: str, by: Callable[[Any, Any], Any], swapped: bool = False) -> Any:
        if not isinstance(other, int | float):
            return NotImplemented  # an array goes on with the shipped value
        at, name = _expression(other)
        mine = self.at
        if swapped:
            return self._made(by(float(other), float(self)), f"({name}{sign}{self.name})", lambda v: by(at(v), mine(v)))
        return self._made(by(float(self), float(other)), f"({self.name}{sign}{name})", lambda v: by(mine(v), at(v)))

    def __add__(self, other: Any) -> Any:
        return self._joined(other, "+", lambda a, b: a + b)

    def __radd__(self, other: Any) -> Any:
        return self._joined(other, "+", lambda a, b: a + b, swapped=True)

    def __sub__(self, other: Any) -> Any:
        return self._joined(other, "-", lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Any:
        return self._joined(other, "-", lambda a, b: a - b, swapped=True)

    def __mul__(self, other: Any) -> Any:
        return self._joined(other, "*", lambda a, b: a * b)

    def __truediv__(self, other: Any) -> Any:
        return self._joined(other, "/", lambda a, b: a / b)

    def __rtruediv__(self, other: Any) -> Any:
        return self._joined(other, "/", lambda a, b: a / b, swapped=True)

    def __rmul__(self, other: Any) -> Any:
        return self._joined(other, "*", lambda a, b: a * b, swapped=True)


def _expression(number: float) -> tuple[Callable[[Values], Any], str]:
    if isinstance(number, Traced):
        return number.at, number.name
    plain = float(number)
    return (lambda _values: plain), repr(plain)


def key_of(calibration: str, entry: str) -> str:
    """Return how an entry of a calibration file is called among all of them."""
    return f"{calibration}:{entry}"


def traced_library(library: Library) -> Library:
    """Return the library with every calibrated number traced."""
    calibrations = {
        name: Calibration.model_construct(
            name=name,
            description=calibration.description,
            coefficients={
                key: Coefficient.model_construct(
                    **{**dict(entry), "value": Traced.of_key(key_of(name, key), entry.value)}
                )
                for key, entry in calibration.coefficients.items()
            },
        )
        for name, calibration in library.calibrations.items()
    }
    return library.model_copy(update={"calibrations": calibrations})


def shipped_values(library: Library) -> dict[str, float]:
    """Return every calibrated number of a library by key, those of BYTES among them."""
    found = {
        key_of(name, key): float(entry.value)
        for name, calibration in library.calibrations.items()
        for key, entry in calibration.coefficients.items()
    }
    training = library.techniques.bytes.training
    return found | {key: float(getattr(training[framework], field)) for framework, _, field, key in BYTES}


def traced_states(states: States, framework: str, library: Library) -> States:
    """Return the states with the fitted bytes of its framework traced, where it is trained by that accounting."""
    training = library.techniques.bytes.training
    for owner, _, field, key in BYTES:
        value = float(getattr(training[owner], field))
        if owner == framework and getattr(states, field) == value:
            states = replace(states, **{field: Traced.of_key(key, value)})
    return states


def library_with(library: Library, values: Mapping[str, float]) -> Library:
    """Return the library with these values in place of its own; ranges and sources stay."""
    calibrations = {
        name: calibration.model_copy(
            update={
                "coefficients": {
                    key: entry.model_copy(update={"value": values.get(key_of(name, key), entry.value)})
                    for key, entry in calibration.coefficients.items()
                }
            }
        )
        for name, calibration in library.calibrations.items()
    }
    return library.model_copy(update={"calibrations": calibrations})

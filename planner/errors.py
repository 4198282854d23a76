"""Errors that a caller may catch, and faults of the input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, order=True)
class Fault:
    """One fault of an input file, shown as `file:line: where: what; fix`.

    `line` is 1-based, 0 if unknown; `where` is a path such as `jobs.0.deadline`.
    """

    file: str
    line: int
    where: str
    what: str
    fix: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        parts = [place, self.where, self.what] if self.where else [place, self.what]
        return ": ".join(parts) + (f"; {self.fix}" if self.fix else "")


class PlannerError(Exception):
    """Base of every error that this package raises on purpose."""


class InputError(PlannerError):
    """Input that cannot be used; has every fault found, not only the first."""

    def __init__(self, faults: Sequence[Fault]):
        self.faults = tuple(sorted(faults))
        super().__init__("\n".join(str(fault) for fault in self.faults))


class ScenarioError(InputError):
    """A scenario, an inventory or a plan file that cannot be used."""


class LibraryError(InputError):
    """A card in models/ that cannot be used, or an unknown name."""


class SolverError(PlannerError):
    """A solver that is missing, rejected the program or failed."""


class NoPlanError(PlannerError):
    """A plan was requested but none exists."""

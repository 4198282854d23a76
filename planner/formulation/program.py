"""A mixed-integer program as data: columns as arrays, rows as families of sparse arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.records import record

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers

Labeller = Callable[[int], str]

INFINITY = float("inf")


@record(frozen=True, eq=False)
class Row:
    """`lower <= sum(coefficient * variable) <= upper`; `columns` index the variables of the program."""

    name: str
    columns: Integers
    coefficients: Floats
    lower: float = -INFINITY
    upper: float = INFINITY


@record(frozen=True, eq=False)
class Rows:
    """All rows of one constraint family, compressed: row i owns the entries `starts[i]:starts[i + 1]`.

    A family may have tens of thousands of rows, so they are arrays, and a name is made when it is read.
    """

    family: str
    starts: Integers  # (rows + 1,)
    columns: Integers  # (entries,)
    coefficients: Floats  # (entries,)
    lower: Floats  # (rows,)
    upper: Floats  # (rows,)
    label: Labeller  # text between the brackets of a row's name; empty for a family of one

    def __len__(self) -> int:
        return len(self.lower)

    def __iter__(self) -> Iterator[Row]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> Row:
        entries = slice(self.starts[i], self.starts[i + 1])
        return Row(
            self.name(i), self.columns[entries], self.coefficients[entries], float(self.lower[i]), float(self.upper[i])
        )

    def name(self, i: int) -> str:
        """Return `family[label]`: it leads back to the function that made the row."""
        label = self.label(i)
        return f"{self.family}[{label}]" if label else self.family

    def activity(self, values: Floats) -> Floats:
        """Return the left-hand sides (rows,) at a point."""
        terms = self.coefficients * values[self.columns]
        return np.bincount(self.row_of_entry(), weights=terms, minlength=len(self)).astype(float)

    def row_of_entry(self) -> Integers:
        """Return the row (entries,) of each entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))


@record(frozen=True, eq=False)
class Program:
    """Minimise `offset + cost @ x` over `lower <= x <= upper`, some x integer, under the rows."""

    lower: Floats
    upper: Floats
    integer: Flags
    cost: Floats
    rows: tuple[Rows, ...]
    variable_name: Labeller
    offset: float = 0.0
    is_tight: bool = False  # what a presolve could remove or tighten is removed and tightened already

    @property
    def size(self) -> int:
        """Number of variables."""
        return len(self.cost)

    def objective(self, values: Floats) -> float:
        """Return the objective at a point."""
        return self.offset + float(self.cost @ values)

    def violation(self, values: Floats) -> float:
        """Return the largest amount by which a point violates a row or a bound, 0 if it violates none."""
        excess = [np.zeros(1), self.lower - values, values - self.upper]
        for rows in self.rows:
            activity = rows.activity(values)
            excess += [rows.lower - activity, activity - rows.upper]
        return float(np.max(np.concatenate(excess)))

    def minimising(self, cost: Floats) -> Program:
        """Return the same rows with another objective."""
        return replace(self, cost=np.asarray(cost, dtype=float), offset=0.0)

    def with_rows(self, *rows: Rows) -> Program:
        """Return the same program with more rows."""
        return replace(self, rows=self.rows + rows)


def sparse_rows(
    family: str, row: Integers, columns: Integers, coefficients: Floats, lower: Floats, upper: Floats, label: Labeller
) -> Rows:
    """Return rows from triplets in any order; terms of coefficient 0 are left out."""
    keep = coefficients != 0.0
    row, columns, coefficients = row[keep], columns[keep], coefficients[keep]
    order = np.lexsort((columns, row))
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(lower)))]).astype(np.int64)
    return Rows(family, starts, columns[order], coefficients[order], lower, upper, label)


def single_row(family: str, cost: Floats, lower: float = -INFINITY, upper: float = INFINITY) -> Rows:
    """Return a family of one row whose coefficients are a dense vector over all variables."""
    columns = np.flatnonzero(cost)
    return sparse_rows(
        family,
        np.zeros(len(columns), dtype=np.int64),
        columns,
        cost[columns],
        np.array([lower]),
        np.array([upper]),
        lambda _: "",
    )

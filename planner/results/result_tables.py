"""Results as tables: rows of plain figures, which pandas takes, and what a result is in a notebook and in a line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, overload

from pydantic import BaseModel, ValidationError

from planner.documents.quantities import parse_hours, read_amount
from planner.errors import Fault, InputError, MissingExtraError
from planner.results.plan_parts import Infeasible, Part, Spread, dollars, html_table

if TYPE_CHECKING:
    from pandas import DataFrame as DataFrame

Row = dict[str, Any]
"""One row of a table: a figure, a text, a truth value or None by the name of its column. Units end the names."""

MOST_HTML_ROWS = 60
"""Rows that a notebook shows of a table."""
LINE = 100
"""Columns of the line that a result is in a console."""


class Table(Sequence[Row]):
    """Rows with the same columns, as mappings; `to_dataframe` gives them to pandas, `str` is the text of the command.

    >>> table = Table([{"gpu": "A100-80GB", "usd": 1.5}, {"gpu": "L40S", "usd": 0.8, "spot_usd": 0.3}])
    >>> table.columns, table.column("spot_usd")
    (('gpu', 'usd', 'spot_usd'), [None, 0.3])
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], title: str = "", text: str = "") -> None:
        self.columns = tuple(dict.fromkeys(key for row in rows for key in row))
        self.title = title
        self._rows = tuple({column: row.get(column) for column in self.columns} for row in rows)
        self._text = text

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        """Return a row, or some of them."""
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and (self.columns, self._rows) == (other.columns, other._rows)

    __hash__ = None  # type: ignore[assignment]  # rows are mappings

    def column(self, name: str) -> list[Any]:
        """Return the values of a column in the order of the rows."""
        return [row[name] for row in self._rows]

    def to_dataframe(self) -> DataFrame:
        """Return the rows as a data frame of pandas.

        Raises
        ------
        MissingExtraError
            pandas is not installed; it is an ImportError, too.
        """
        return pandas_package().DataFrame(list(self._rows), columns=list(self.columns))

    def __str__(self) -> str:
        return self._text or "\n".join(", ".join(f"{key}={row[key]}" for key in row) for row in self._rows)

    def __repr__(self) -> str:
        return shortened(f"<Table {self.title}: {len(self):,} rows of {', '.join(self.columns)}>")

    def _repr_html_(self) -> str:
        """Return the first rows as a table for notebooks."""
        rows = [["" if cell is None else f"{cell}" for cell in row.values()] for row in self._rows[:MOST_HTML_ROWS]]
        return html_table(f"{self.title}: {len(self):,} rows", self.columns, rows)


def pandas_package() -> Any:
    """Return the package pandas, which only data frames need; MissingExtraError where it is not installed."""
    try:
        import pandas
    except ImportError:
        fix = "install the extra `frames`: pip install 'finetune-planner[frames]'"
        raise MissingExtraError(f"a data frame needs pandas, which is not installed; {fix}") from None
    return pandas


class Result(Part):
    """What a public function returns: `str` is the text of the command line, `repr` one line of it."""

    @property
    def subject(self) -> str | None:
        """Key of the package that shows it in `planner.subjects.SUBJECTS`; None: the core does."""
        return None

    def __str__(self) -> str:
        # By the name of the package: texts are made above results, and an import would close a circle.
        shown: str = import_module("planner").text(self)
        return shown

    def to_json(self) -> str:
        """Return the result as JSON, which `from_json` reads.

        >>> found = planner.estimate("mistral-7b", "L40S")
        >>> planner.Estimate.from_json(found.to_json()) == found
        True
        """
        return self.model_dump_json(by_alias=True, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the result that `to_json` wrote; a plan of an earlier version is read by `planner.read_plan`.

        Raises
        ------
        InputError
            For a text that is no such result.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            faults = [
                Fault(
                    cls.__name__, 0, ".".join(map(str, wrong["loc"])), wrong["msg"].lower(), "give what to_json wrote"
                )
                for wrong in error.errors(include_url=False)
            ]
            raise InputError(faults) from None

    def __repr__(self) -> str:
        first = str(self).partition("\n")[0]
        return shortened(f"<{type(self).__name__} {first}>")


class TabledResult(Result):
    """A result that is a table: a row for each of its points, cells or bars."""

    def table(self) -> Table:
        """Return the figures as a table, which needs no further package."""
        raise NotImplementedError

    def to_dataframe(self) -> DataFrame:
        """Return the table as a data frame; MissingExtraError, an ImportError, where pandas is not installed."""
        return self.table().to_dataframe()


def shortened(line: str) -> str:
    """Return a line in angle brackets, cut to what a console shows as one."""
    return line if len(line) <= LINE else f"{line[: LINE - 4]}...>"


def infeasible_html(scenario: str, status: str, why: Infeasible | None) -> str:
    """Return why there is no plan as tables for notebooks: changes that give one, and the nearest candidates."""
    if why is None:
        return html_table(f"{scenario}: {status}", (), ())
    relax = [
        (
            f"{change.way}",
            change.limit,
            "" if change.change_from is None else f"{change.change_from}",
            "" if change.change_to is None else f"{change.change_to}",
            change.then,
            dollars(change.cost_usd),
            "" if change.hours is None else f"{change.hours:,.1f}",
        )
        for change in why.relax
    ]
    near = [(miss.job, miss.what, miss.reason, miss.fix) for miss in why.nearest]
    header = ("way", "limit", "from", "to", "then", "cost", "hours")
    tables = html_table(f"{scenario}: {status}; limits to move, those with one number together", header, relax)
    return tables + (html_table("nearest candidates", ("job", "what", "reason", "fix"), near) if near else "")


def flattened(part: BaseModel, without: Collection[str] = ()) -> Row:
    """Return the plain figures of a part as a row; an interval is three columns, lists and other parts are left out."""
    row: Row = {}
    for name in type(part).model_fields:
        value = getattr(part, name)
        if name in without or isinstance(value, (tuple, Mapping)):
            continue
        if isinstance(value, Spread):
            figures = value.model_dump()
            row[name] = figures.pop("expected")
            row |= {f"{name}_{which}": figure for which, figure in figures.items()}
        elif not isinstance(value, BaseModel):
            row[name] = value
    return row


DURATIONS = ("deadline", "release", "due", "start_slack", "lag", "retention", "for", "cold_start", "max_price_age")
"""Keys of a scenario that are durations."""


def varied(path: str, text: str) -> Row:
    """Return a value of a sweep as its columns: a number where it is one; a duration as its text and its hours."""
    if path.rpartition(".")[2] in DURATIONS:
        try:
            return {path: text, f"{path}_hours": parse_hours(text)}
        except ValueError:  # a moment
            return {path: text, f"{path}_hours": None}
    try:
        amount = read_amount(text)
        return {path: amount if isinstance(amount, int) else float(amount)}
    except ValueError:
        return {path: text}

"""CSV files: rows with their lines; what is cut off, uneven or too large is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.documents import tables as csv_table
from planner.documents.tables import parse_csv, read_csv
from planner.errors import InputError


def told(text: str) -> list[str]:
    """Return the faults of a text."""
    with pytest.raises(InputError) as error:
        parse_csv(text, "t.csv")
    return [str(fault) for fault in error.value.faults]


def test_rows_have_the_line_they_end_on_and_empty_lines_none() -> None:
    """A quoted cell may have commas, quotes and line breaks; blanks around a cell do not count."""
    table = parse_csv('a, b\r\n1,"x, ""y"""\r\n\r\n,\r\n2,"one\ntwo"\r\n', "t.csv")
    assert table.columns == ("a", "b")
    assert table.rows == ((2, ("1", 'x, "y"')), (6, ("2", "one\ntwo")))
    assert (table.position("b"), table.position("c")) == (1, None)


def test_a_byte_order_mark_is_no_part_of_the_header(tmp_path: Path) -> None:
    """Spreadsheets write one."""
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfa,b\n1,2\n")
    assert read_csv(tmp_path / "t.csv").columns == ("a", "b")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "t.csv:1: the file is empty"),
        ("a,b\n", "t.csv:1: has a header and no rows"),
        ("a,b\n1,2\n3", "t.csv:3: 1 cells in a table of 2 columns; the file may be cut off"),
        ('a,b\n1,2\n3,"x', "t.csv:3: ends inside a quoted cell; the file may be cut off"),
        ("a,a\n1,2\n", "t.csv:1: a: two columns of that name"),
        ("a;b\n1;0,40\n2;0,50\n", "t.csv:1: has semicolons between its cells; save it with commas"),
        ("a\tb\n1\t2\n", "t.csv:1: has tabs between its cells; save it with commas"),
    ],
)
def test_what_is_cut_off_or_uneven_is_a_fault_with_its_line(text: str, fault: str) -> None:
    """Half of a download must not pass for all of it."""
    (only,) = told(text)
    assert only.startswith(fault)


def test_many_faults_are_counted_after_the_first() -> None:
    """Nobody reads thousands."""
    faults = told("a,b\n" + "1\n" * 50)
    assert len(faults) == csv_table.MAX_ROW_FAULTS + 1
    assert any("30 more faults below" in fault for fault in faults)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowered for the test; its size is told, and that which is read."""
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 500_000)
    monkeypatch.setattr(csv_table, "MAX_CSV_BYTES", 10**6)
    with pytest.raises(InputError, match="too large: 2 MB; at most 1 MB"):
        read_csv(tmp_path / "t.csv")


def test_very_many_columns_or_cells_are_refused_with_their_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading 150,000 columns took over a minute of comparing their names."""
    columns = ",".join(f"c{number}" for number in range(150_000))
    (fault,) = told(f"\n{columns}\n")
    assert fault == "t.csv:2: 150,000 columns; at most 1,000: keep those needed"
    monkeypatch.setattr(csv_table, "MAX_CSV_CELLS", 100)
    assert len(parse_csv("a,b\n" + "1,2\n" * 50, "t.csv").rows) == 50
    (fault,) = told("a,b\n" + "1,2\n" * 51)
    assert fault.startswith("t.csv:52: more than 100 cells in rows of 2; split the file")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_in_any_system(end: str) -> None:
    """A cell in quotes keeps its own line breaks, and the last line may lack its end."""
    table = parse_csv(f'a,b{end}1,"x{end}y"{end}2,z', "t.csv")
    assert [cells for _, cells in table.rows] == [("1", f"x{end}y"), ("2", "z")]

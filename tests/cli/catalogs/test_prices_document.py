"""The table of docs/prices.md: rows read, offers, and rows left out by reason of each file in it."""

from __future__ import annotations

import re
from pathlib import Path

from planner.catalogs.catalog import read_catalog
from tests.helpers.documents import read_document, working_in

DOCUMENT = "docs/prices.md"
ROW = re.compile(r"^\| (?P<file>[\w./]+) \| (?P<rows>\d+) \| (?P<offers>\d+) \| (?P<left_out>.+) \|$", re.MULTILINE)


def test_the_table_of_rows_is_what_is_read(tmp_path: Path) -> None:
    """Five files of four kinds, each with rows that are no offers."""
    shown = [found.groups() for found in ROW.finditer(read_document(DOCUMENT))]
    read = []
    with working_in(DOCUMENT, tmp_path):
        for file, *_ in shown:
            catalog = read_catalog(file)
            reasons = (f"{one.rows} {reason}" for reason, one in catalog.read.left_out.items())
            read.append((file, str(len(catalog.read.table.rows)), str(len(catalog.offers)), "; ".join(reasons)))
    assert len(shown) == 5
    assert read == shown

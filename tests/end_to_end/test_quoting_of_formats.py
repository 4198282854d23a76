"""No name that a user, a file or a price list wrote acts in HTML, a CSV file, a terminal or JSON."""

from __future__ import annotations

import ast
import csv
import html.parser
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.analysis.overview import overview
from planner.cli import main
from planner.documents.tables import csv_text, parse_csv
from planner.loading.price_files import offer_table_text
from planner.loading.scenario_file import parse_scenario
from planner.report.report_page import render_page
from planner.scenario.scenario import SolveOptions
from planner.solving.solve import solve

HOSTILE = "=cmd|' /c'!A1 \"'><pwned onpwned=1></script><!--\x1b]0;PWNED\x07\x9b31m\u2028&lt;{{7*7}}$x$"
"""A name that each format would obey in its own way."""
ROOT = Path(planner.__file__).parent

WRITERS = {
    # a call that makes text of a format: the only functions that may make it
    "csv.writer": {"documents/tables.py:csv_text"},
    "html.escape": {"errors.py:escaped"},
    "markupsafe.Markup": {
        "report/report_page.py:_drawn",
        "report/report_page.py:_rendered",
        "web/app_page.py:render_app",
    },
    "jinja2.Environment": {"report/report_page.py:_rendered", "web/app_page.py:render_app"},
    "click.echo": {"cli/output.py:show", "cli/__init__.py:_show_version"},
}


def scenario_text(has_spot: bool = False) -> str:
    """Return one job on two offers, every name of which is hostile."""
    offer = {"provider": HOSTILE, "instance": HOSTILE, "region": HOSTILE, "source": HOSTILE, "date": "2026-11-01"}
    job = {"name": HOSTILE, "architecture": "tinyllama-1.1b", "work": {"tokens": "20M"}, "deadline": "20h"}
    machines = [{"gpu": "RTX3090", "gpus": 1, "usd_per_hour": 0.4}]
    machines += [{"gpu": "H100-80GB", "gpus": 1, "usd_per_hour": 3.0}]
    spot = {"spot_usd_per_hour": 0.1} if has_spot else {}
    offers = [{**offer, **spot, **one} for one in machines]
    return json.dumps(
        {"name": HOSTILE, "schema": 2, "jobs": [{**job, "techniques": {"method": "lora"}}], "offers": offers}
    )


class Reader(html.parser.HTMLParser):
    """Notes every tag and attribute of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen |= {tag, *(name for name, _ in attrs)}

    def handle_comment(self, data: str) -> None:
        self.seen.add("<!--")


def acts_in_html(page: str) -> set[str]:
    """Return what of the hostile name a browser would take for its own."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader.seen & {"pwned", "onpwned", "<!--"}


def acts_in_terminal(text: str) -> list[str]:
    """Return the signs that a terminal obeys."""
    return [sign for sign in text if sign != "\n" and not sign.isprintable()]


def test_each_format_is_written_in_one_place() -> None:
    """A new writer of a format goes through its function, or is named here."""
    found: dict[str, set[str]] = {name: set() for name in WRITERS}
    names = tuple(name.rpartition(".")[2] for name in WRITERS)
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text if any(f".{name}(" in text for name in names) else "")
        for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
            for node in ast.walk(function):
                name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
                if name in WRITERS:
                    found[name].add(f"{path.relative_to(ROOT)}:{function.name}")
    assert found == WRITERS


def test_templates_escape_by_themselves() -> None:
    """No template switches the escaping of Jinja off, and no script of a page makes HTML of text."""
    for path in [*ROOT.rglob("*.j2"), *ROOT.rglob("*.js")]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(
            r"\|\s*safe|autoescape|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text
        )


@given(st.lists(st.one_of(st.text(max_size=8), st.sampled_from(["=1+1", "-5", "+a", "@x", "'=1", "''-2+3", "\t=1"]))))
def test_no_cell_is_a_formula_and_each_is_read_again(cells: list[str]) -> None:
    """A spreadsheet sees text or a number; our own reader gets back what was written, white space around it apart."""
    cells = [printable_text(cell) for cell in cells] or ["a"]
    text = csv_text([[f"c{index}" for index in range(len(cells))], cells])
    for line in text.splitlines()[1:]:
        for cell in next(csv.reader([line])):
            assert cell[:1] not in set("=+-@\t\r") or is_number(cell)
    if any(cells):
        assert parse_csv(text, "f").rows[0][1] == tuple(cell.strip() for cell in cells)


def printable_text(text: str) -> str:
    """Return the printable signs of a text without white space around it."""
    return "".join(sign for sign in text if sign.isprintable()).strip()


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_offers_keep_their_names_in_a_csv_file() -> None:
    """A name that a spreadsheet would compute is text there; JSON and the reader know the name itself."""
    offers = parse_scenario(scenario_text().replace("\\u001b]0;PWNED\\u0007\\u009b31m\\u2028", "")).offers
    table = parse_csv(offer_table_text(offers), "f")
    assert f",'{HOSTILE[:4]}" in offer_table_text(offers) or offer_table_text(offers).split("\n")[1].startswith("\"'=")
    assert {row[table.columns.index("provider")] for _, row in table.rows} == {offers[0].provider}


LONG = (("what-if", "--tornado"), ("report", "-o", "page.html"))
COMMANDS = (
    ("solve",), ("solve", "--json"), ("explain",), ("frontier", "--points", "3"), ("frontier", "--json"),
    ("what-if", "--set", "limits.budget_usd=9"), ("simulate", "--runs", "20"), ("solve", "-o", "plan.json"),
    ("what-if", "--vary", "limits.budget_usd=[5, 9]"),
    ("sweep", "--vary", "limits.budget_usd=[5, 9]", "--workers", "1", "-o", "out.csv"),
    ("sweep", "--vary", "limits.budget_usd=[5, 9]", "--workers", "1", "-o", "out.jsonl"),
    *(pytest.param(one, marks=pytest.mark.long) for one in LONG),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_obeys_a_name(command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it prints and writes: no control signs, no tags, no formulas."""
    monkeypatch.chdir(tmp_path)
    Path("s.json").write_text(scenario_text(command[0] == "simulate"), encoding="utf-8")
    name, *options = command
    answer = CliRunner().invoke(main, [name, "s.json", *options, "--as-of", "2026-11-21"])
    assert answer.exit_code == 0, answer.output
    assert not acts_in_terminal(answer.output)
    if "--json" in options:
        assert HOSTILE in json.dumps(json.loads(answer.stdout), ensure_ascii=False).replace('\\"', '"').replace(
            "\\u001b", "\x1b"
        ).replace("\\u0007", "\x07")
    for file in tmp_path.iterdir():
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".html":
            assert not acts_in_html(text)
        elif file.suffix == ".csv":
            cells = [cell for row in csv.reader(text.splitlines()) for cell in row]
            assert not [cell for cell in cells if cell[:1] in set("=+-@") and not is_number(cell)]
            assert not acts_in_terminal(text)
        elif file.name != "s.json":
            assert not acts_in_terminal(text)


@pytest.mark.long
def test_notebooks_and_pages_show_names_as_text() -> None:
    """The HTML of every result of one scenario, and its report."""
    scenario = parse_scenario(scenario_text())
    options = SolveOptions()
    found = overview(scenario, options=options, runs=20)
    results: list[Any] = [solve(scenario, options), *dict(found).values()]
    pages = [one._repr_html_() for one in results if hasattr(one, "_repr_html_")]
    pages += [svg for one in results if isinstance(svg := getattr(one, "svg", None), str)]
    pages += [render_page(found, {HOSTILE: HOSTILE, "plan.json": HOSTILE}, [HOSTILE])]
    assert len(pages) > 3
    for page in pages:
        assert not acts_in_html(page)

"""`planner report`: the page, single figures, plans of files, exit codes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from planner.documents.tables import json_text
from tests.helpers.computed_once import compute_once
from tests.helpers.exported_services import with_job
from tests.helpers.reports import SMALL

AS_OF = ("--as-of", "2026-11-21")
QUICK = ("--without", "tornado", "--without", "reasons", "--runs", "50")


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    compute_once(monkeypatch)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (job,) = SMALL["jobs"]  # type: ignore[misc]
    quick = {**SMALL, "jobs": [{**job, "work": {"tokens": "20M"}, "deadline": "4h"}]}  # type: ignore[dict-item]
    (tmp_path / "s.yaml").write_text(json.dumps(quick), encoding="utf-8")
    return tmp_path


def planner(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.long
def test_the_page_is_written(folder: Path) -> None:
    """The file is a page with the plan, and the terminal says how large it is."""
    result = planner("report", "s.yaml", "-o", "r.html", *QUICK, *AS_OF)
    assert result.exit_code == 0, result.output
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "Cost against time" in page and "not asked for" in page
    assert result.output.splitlines()[-1].startswith("r.html: written, ")


@pytest.mark.long
def test_a_plan_of_a_file_is_reported_as_it_is(folder: Path) -> None:
    """A plan that solve wrote is shown without solving; settings would change nothing of it and are refused."""
    assert planner("solve", "s.yaml", "-o", "plan.json", *AS_OF).exit_code == 0
    result = planner("report", "plan.json", "-o", "r.html", *QUICK, *AS_OF)
    assert result.exit_code == 0, result.output
    assert "The plan was read from a file" in (folder / "r.html").read_text(encoding="utf-8")
    refused = planner("report", "plan.json", "--set", "limits.budget_usd=1")
    assert refused.exit_code == 2 and "not a plan" in refused.output


@pytest.mark.slow
def test_an_infeasible_scenario_is_a_page_and_exit_code_3(folder: Path) -> None:
    """The page says what would help, and the exit code is that of solve."""
    result = planner("report", "s.yaml", "-o", "r.html", "--set", "limits.budget_usd=0.01", *AS_OF)
    assert result.exit_code == 3
    assert "No plan keeps the budget" in result.output
    assert "limits.budget_usd=" in (folder / "r.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(("figure", "kind", "start"), [("bill", "svg", b"<svg"), ("memory", "png", b"\x89PNG")])
def test_one_figure_is_a_file(folder: Path, figure: str, kind: str, start: bytes) -> None:
    """--figure writes it alone, in the format of the name or of --format."""
    result = planner("report", "s.yaml", "--figure", figure, "--format", kind, *AS_OF)
    assert result.exit_code == 0, result.output
    assert (folder / f"{figure}.{kind}").read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--format", "png"), "name it with --figure"),
        (("--figure", "bill", "-o", "x.gif"), ".gif is not the suffix"),
        (("--figure", "bill", "-o", "x.svg", "--format", "png"), ".svg is not the suffix of png"),
        (("-o", "no/such/folder/r.html"), "there is no folder"),
    ],
)
def test_bad_options_are_refused_before_solving(options: tuple[str, ...], said: str) -> None:
    """Each fault is one message and exit code 2."""
    result = planner("report", "s.yaml", *options)
    assert result.exit_code == 2 and said in result.output


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Without Jinja2 the message names the extra; nothing is computed or written."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "jinja2" else found(name, *rest)
    )
    result = planner("report", "s.yaml", "-o", "r.html")
    assert result.exit_code == 2 and "pip install '.[report]'" in result.output
    assert not (folder / "r.html").exists()


@pytest.mark.long
def test_a_job_and_a_service_are_reported_together(folder: Path) -> None:
    """The first line is that of solve, in 80 columns; the page has the dollars of both, and their bills."""
    plan = with_job("quickstart")
    (folder / "both.json").write_text(json_text(plan.model_dump(mode="json", by_alias=True)), encoding="utf-8")
    result = planner("report", "both.json", "-o", "r.html", *QUICK, *AS_OF)
    assert result.exit_code == 0, result.output
    first, page = " ".join(result.output.splitlines()[:-1]), (folder / "r.html").read_text(encoding="utf-8")
    assert plan.cost is not None and f"${plan.cost.expected:,.2f}" in first
    assert first.endswith(f"${plan.cost.expected:,.2f}") and "$1,200.00" in page
    assert max(map(len, result.output.splitlines())) <= 80
    assert f"<title>{first}</title>" in page
    for heading in ("Bill of a month", "Bill of the jobs", plan.jobs[0].name, "answers"):
        assert f"<h3>{heading}</h3>" in page, heading
    bill = page.partition('id="figure-bill-jobs"')[2].partition("</figure>")[0]
    assert f">${plan.jobs[0].cost_usd:,.2f}<" in bill and "rounding" not in bill
    assert "use solve or what-if" not in page  # every section takes both
    assert f"the files run {plan.jobs[0].name}; those of another job" in page

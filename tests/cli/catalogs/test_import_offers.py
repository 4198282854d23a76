"""`planner offers import` from the command line: what goes where, and that a fault leaves the old file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from planner.documents import files
from planner.loading.scenario_file import parse_scenario
from tests.helpers.catalogs import skypilot_row, write_skypilot
from tests.helpers.scenarios import GOOD

DAY = ("--date", "2026-11-20")


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, ["offers", "import", *map(str, arguments)])


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """Two offers, a machine without GPU, and a GPU that nobody knows."""
    rows = (skypilot_row("a", spot="0.4"), skypilot_row("b: #1", spot="1.0"), skypilot_row("c", ""))
    return write_skypilot(tmp_path, *rows, skypilot_row("d", "tpu-v5e-8"))


@pytest.mark.parametrize("name", ["offers.yaml", "offers.csv"])
def test_the_file_is_an_inventory_with_the_day_and_source_of_each_offer(
    catalog: Path, tmp_path: Path, name: str
) -> None:
    """Whatever an instance is called; nothing is printed but the counts on standard error."""
    result = run(catalog, "-o", tmp_path / name, *DAY)
    assert (result.exit_code, result.stdout) == (0, "")
    scenario = parse_scenario(GOOD.replace("jobs:", f"inventory: {name}\njobs:"), tmp_path)
    assert [offer.label for offer in scenario.offers[:2]] == ["aws/eu-1/a", "aws/eu-1/b: #1"]
    assert {(str(offer.date), offer.source) for offer in scenario.offers[:2]} == {
        ("2026-11-20", "SkyPilot catalog, aws, vms.csv")
    }
    listed = CliRunner().invoke(main, ["offers", "list", "--inventory", str(tmp_path / name)])
    assert "aws/eu-1/b: #1  1 x L4     1.00     -  secure  2026-11-20" in listed.stdout


def test_rows_that_are_left_out_are_counted_on_standard_error(catalog: Path) -> None:
    """The offers go to standard output, so that a pipe gets nothing else."""
    result = run(catalog, *DAY)
    assert result.stdout.splitlines()[1:3] == ["currency: USD", "terms:"]
    assert result.stdout.splitlines()[0] == f"# Written by planner offers import {catalog} --date 2026-11-20"
    assert result.stdout.splitlines()[4] == "offers:" and len(result.stdout.splitlines()) == 7
    told = result.stderr.splitlines()
    assert told[0] == f"{catalog}: SkyPilot catalog, 4 rows, 2 offers"
    assert told[1:] == [
        *("  left out 1 row, first on line 4: no GPU", "  left out 1 row, first on line 5: unknown GPU tpu-v5e-8"),
        "  1 row: spot price not below that on demand: left out, it is no discount",
    ]


def test_the_day_of_the_file_is_told_where_none_is_given(catalog: Path) -> None:
    """Last year's catalog should not pass for one of today."""
    assert "when the file was last written" in run(catalog).stderr


@pytest.mark.parametrize("row", [skypilot_row(price="nan"), skypilot_row(price="-1"), "cut,off"])
def test_a_fault_leaves_the_old_file(catalog: Path, tmp_path: Path, row: str) -> None:
    """Exit code 2, one message with file and line, and not a byte written."""
    target = tmp_path / "offers.yaml"
    target.write_text("old")
    catalog.write_text(catalog.read_text() + row + "\n")
    result = run(catalog, "-o", target)
    assert (result.exit_code, result.stdout, target.read_text()) == (2, "", "old")
    (message,) = result.stderr.splitlines()
    assert message.startswith(f"{catalog}:6: ")


def test_what_cannot_be_written_or_read_is_told(catalog: Path, tmp_path: Path) -> None:
    """A folder as target, a file that is not there, and neither FILE nor --template."""
    assert run(catalog, "-o", tmp_path).exit_code == 2
    missing = run(tmp_path / "none.csv")
    assert (missing.exit_code, "cannot be read: no such file" in missing.stderr) == (2, True)
    for arguments in ((), (catalog, "--template")):
        result = run(*arguments)
        assert (result.exit_code, "give FILE, or --template" in result.stderr) == (2, True)


def test_the_template_can_be_imported_through_a_pipe(tmp_path: Path) -> None:
    """From standard input, whose day is today; it may go to a file too."""
    template = run("--template")
    assert template.exit_code == 0
    assert run("--template", "-o", tmp_path / "t.csv").stdout == ""
    assert (tmp_path / "t.csv").read_text() == template.stdout
    result = CliRunner().invoke(main, ["offers", "import", "-"], input=template.stdout)
    assert (result.exit_code, result.stdout.count("provider: my-cloud")) == (0, 2)
    assert result.stderr.startswith("standard input: CSV file of offers, 2 rows, 2 offers")


def test_more_offers_than_yaml_may_hold_ask_for_csv(
    catalog: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is lowered for the test; CSV has another one."""
    from planner.catalogs import catalog as offers_file

    monkeypatch.setattr(offers_file, "MAX_BYTES", 100)
    result = run(catalog, "-o", tmp_path / "o.yaml")
    assert result.exit_code == 2 and "write CSV, which may be larger: -o FILE.csv" in result.stderr
    assert run(catalog, "-o", tmp_path / "o.csv").exit_code == 0
    assert files.MAX_BYTES > 100


def test_a_machine_of_a_zone_is_planned_by_its_region_and_exported_with_it(tmp_path: Path) -> None:
    """Launchers do not know AWS's identifiers of zones."""
    rows = [f"g6.xlarge,L4,1.0,4.0,64.0,,{price},,us-east-1,{zone}" for price, zone in ((0.8, "use1-az4"), (0.9, ""))]
    assert run(write_skypilot(tmp_path, *rows), "-o", tmp_path / "own.yaml", *DAY).exit_code == 0
    job = "{architecture: llama-3.2-1b, work: {tokens: 2M}, deadline: 1d, techniques: {method: lora}}"
    limits = "{regions: [us-east-1]}"
    (tmp_path / "s.yaml").write_text(f"name: s\njobs:\n  - {job}\nlimits: {limits}\ninventory: [own.yaml]\n")
    solved = CliRunner().invoke(main, ["solve", str(tmp_path / "s.yaml"), "-o", str(tmp_path / "plan.json")])
    assert solved.exit_code == 0 and "us-east-1/use1-az4" in solved.stdout, solved.output
    task = CliRunner().invoke(main, ["export", str(tmp_path / "plan.json"), "--to", "skypilot", "-o", str(tmp_path)])
    assert task.exit_code == 0, task.output
    assert "infra: aws/us-east-1\n" in (tmp_path / "task.yaml").read_text()

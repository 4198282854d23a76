"""`planner prices` with several files and folders: the whole list in one command, and no file hides another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from tests.helpers.catalogs import SKYPILOT_HEADER, skypilot_row


@pytest.fixture(autouse=True)
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an empty price book."""
    for package in ("catalogs.live", "loading.price_files"):
        monkeypatch.setattr(f"planner.{package}.book_folder", lambda: tmp_path / "book")
    return tmp_path / "book"


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, ["prices", *map(str, arguments)])


def catalog(folder: Path, provider: str, *rows: str) -> Path:
    """Write `PROVIDER/vms.csv` below a folder."""
    path = folder / provider / "vms.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([SKYPILOT_HEADER, *rows, ""]), encoding="utf-8")
    return path


def update(*paths: Path, day: str = "2026-11-20", **options: Any) -> Result:
    words = [word for path in paths for word in ("--offline", path)]
    return run(
        "update", *words, "--date", day, *(word for key, value in options.items() for word in (f"--{key}", value))
    )


def stored() -> dict[str, int]:
    return {one["provider"]: one["rows"] for one in json.loads(run("list", "--json").stdout)}


def test_a_folder_of_catalogs_is_the_whole_list(tmp_path: Path) -> None:
    """Each provider by the name of its folder, known or not; RunPod by the tiers of its pods."""
    folder = tmp_path / "catalogs"
    catalog(folder, "aws", skypilot_row("a"), skypilot_row("b"))
    catalog(folder, "yotta", skypilot_row("y", "RTX5090"))
    catalog(folder, "runpod", skypilot_row("1x_L4_SECURE"), skypilot_row("1x_L4_COMMUNITY", price="0.5"))
    (folder / "aws" / "images.csv").write_text("ImageId,OS\nami,linux\n")
    result = update(folder, output=tmp_path / "list.yaml")
    assert result.exit_code == 0, result.output
    assert stored() == {"aws": 2, "yotta": 1, "runpod-secure": 1, "runpod-community": 1}
    listed = CliRunner().invoke(main, ["offers", "list", "--inventory", str(tmp_path / "list.yaml")]).stdout
    assert "runpod-community/eu-1/1x_L4_COMMUNITY" in listed and "p4d.24xlarge-reserved-12-months" in listed


def test_the_newest_state_of_a_repository_is_read(tmp_path: Path) -> None:
    """`catalogs/v8/aws/vms.csv` beside v5; a provider may have stopped at an older one."""
    catalog(tmp_path / "catalogs" / "v5", "aws", skypilot_row("old"))
    catalog(tmp_path / "catalogs" / "v10", "aws", skypilot_row("new"), skypilot_row("newer"))
    catalog(tmp_path / "catalogs" / "v5", "lambda", skypilot_row("l"))
    assert update(tmp_path).exit_code == 0 and stored() == {"aws": 2, "lambda": 1}
    assert update(tmp_path, provider="lambda", day="2026-11-21").stdout.startswith("lambda: 1 offer of 2026-11-21")


def test_several_files_are_all_stored(tmp_path: Path) -> None:
    """In order and with one answer each; two files of one provider complete each other."""
    one = catalog(
        tmp_path / "x", "aws", skypilot_row("p4d.24xlarge", "A100", "8.0", price="22.0").replace("8.0,32.0", "96,1152")
    )
    one.write_text(one.read_text().replace("eu-1", "us-east-1"))
    two = catalog(tmp_path / "x", "lambda", skypilot_row("l"))
    spot = tmp_path / "spot.csv"
    spot.write_text(
        "AvailabilityZone,InstanceType,ProductDescription,SpotPrice,Timestamp\n"
        "us-east-1a,p4d.24xlarge,Linux/UNIX,11.2,2026-11-20T10:00:00Z\n"
    )
    result = run("update", "--offline", one, "--offline", two, "--offline", spot, "--date", "2026-11-20", "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert [read["offers"] for read in answer["read"]] == [1, 1, 1] and not answer["not_read"]
    assert stored() == {"aws": 1, "lambda": 1}
    offers = json.loads(CliRunner().invoke(main, ["offers", "list", "--inventory", "prices", "--json"]).stdout)
    assert [(one["usd_per_hour"], one["spot_usd_per_hour"]) for one in offers if one["provider"] == "aws"] == [
        (22.0, 11.2)
    ]


def test_a_faulty_file_is_told_and_the_others_are_stored(tmp_path: Path) -> None:
    """Exit code 2 where it was named; in a folder it is one line beside what was stored."""
    bad, good = (
        catalog(tmp_path / "f", "aws", skypilot_row(price="x")),
        catalog(tmp_path / "f", "lambda", skypilot_row()),
    )
    named = update(bad, good)
    assert (named.exit_code, stored()) == (2, {"lambda": 1})
    assert named.stderr.splitlines()[-1].endswith(
        "aws/vms.csv:2: Price: 'x' is not a number; correct the row or leave it out"
    )
    folder = update(tmp_path / "f", day="2026-11-21")
    assert (folder.exit_code, stored()) == (0, {"lambda": 1})
    assert any(line.startswith("not stored: ") and "aws/vms.csv" in line for line in folder.stderr.splitlines())


def test_two_files_that_contradict_each_other_store_nothing_of_their_provider(tmp_path: Path) -> None:
    """Neither price is taken for the other."""
    one, two = catalog(tmp_path / "a", "aws", skypilot_row()), catalog(tmp_path / "b", "aws", skypilot_row(price="2.0"))
    result = update(one, two, catalog(tmp_path / "b", "lambda", skypilot_row()))
    assert (result.exit_code, stored()) == (2, {"lambda": 1})
    assert "another price than in" in result.stderr and "leave one of the two files out" in result.stderr


@pytest.mark.parametrize("name", ["empty", "v8"])
def test_a_folder_without_prices_is_refused(tmp_path: Path, name: str) -> None:
    """A folder is never taken for a file."""
    (tmp_path / name).mkdir()
    result = update(tmp_path / name)
    assert result.exit_code == 2 and "a folder without prices; give a folder of PROVIDER/vms.csv" in result.stderr


def test_a_check_of_a_folder_shows_the_readable_files_and_tells_the_others(tmp_path: Path, book: Path) -> None:
    """One faulty file hides no other."""
    catalog(tmp_path / "f", "aws", skypilot_row())
    catalog(tmp_path / "f", "lambda", skypilot_row(price="x"))
    result = run("check", tmp_path / "f", tmp_path / "none.csv")
    assert result.exit_code == 2 and not book.exists()
    assert len(result.stdout.splitlines()) == 2 and "aws/vms.csv" in result.stdout
    assert [line for line in result.stderr.splitlines() if "lambda/vms.csv:2" in line or "none.csv" in line]
    assert [one["offers"] for one in json.loads(run("check", tmp_path / "f", "--json").stdout)] == [1]


def test_reasons_that_differ_in_a_name_are_added_up(tmp_path: Path) -> None:
    """180 types of which nothing is known are one reason, with the first of them."""
    rows = [skypilot_row(f"m-{number}", f"Weird{number}") for number in range(180)]
    path = catalog(tmp_path, "aws", skypilot_row(), *rows)
    (read,) = json.loads(run("check", path, "--json").stdout)
    assert read["left_out"] == [{"reason": "unknown GPU (180 of them, such as Weird0)", "rows": 180, "first_line": 3}]


def test_pods_of_runpod_need_a_tier(tmp_path: Path) -> None:
    """It sells two at two prices: a list that does not say which is refused, with what to write."""
    path = catalog(tmp_path, "runpod", skypilot_row("1x_L4"))
    result = run("check", path)
    assert result.exit_code == 2
    assert (
        "sells secure and community machines at prices of their own; say which: --provider runpod-secure or"
        in result.stderr
    )
    assert run("check", path, "--provider", "runpod-secure").exit_code == 0


def test_prices_in_yaml_are_refused_in_a_line(tmp_path: Path) -> None:
    """A task of SkyPilot is no list of prices."""
    (tmp_path / "sky.yaml").write_text("name: tune\nresources: {accelerators: H100:8, use_spot: true}\n")
    result = run("check", tmp_path / "sky.yaml")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "prices are read from CSV or JSON, and this is YAML" in result.stderr

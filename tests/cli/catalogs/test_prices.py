"""`planner prices` from the command line: an update prints what changed, and a bad file changes nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from tests.helpers.catalogs import gpuhunt_row, skypilot_row, write_gpuhunt, write_skypilot


@pytest.fixture(autouse=True)
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an empty price book."""
    for package in ("catalogs.live", "loading.price_files"):
        monkeypatch.setattr(f"planner.{package}.book_folder", lambda: tmp_path / "book")
    return tmp_path / "book"


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, ["prices", *map(str, arguments)])


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*.*"))}


def update(path: Path, day: str, *others: str) -> Result:
    return run("update", "--offline", path, "--date", day, *others)


@pytest.mark.parametrize("cache", ["/proc/x", "{file}/x", "/dev/null"])
def test_a_price_book_that_cannot_be_made_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    """One line with the folder and what decides where it is, and nothing stored."""
    path = write_skypilot(tmp_path, skypilot_row("a"))
    folder = Path(cache.format(file=path)) / "prices"
    for package in ("catalogs.live", "loading.price_files"):
        monkeypatch.setattr(f"planner.{package}.book_folder", lambda: folder)
    result = update(path, "2026-11-20")
    assert result.exit_code == 2 and result.stdout == ""
    line = result.stderr.splitlines()[-1]
    assert line.startswith(f"{folder}/aws: cannot be made a folder: ") and "XDG_CACHE_HOME" in line


def test_an_update_prints_what_changed_and_the_list_what_is_stored(tmp_path: Path) -> None:
    """Counts of rows go to standard error."""
    path = write_skypilot(tmp_path, skypilot_row("a"), skypilot_row("b", price="2.0"), skypilot_row("cpu", ""))
    first = update(path, "2026-11-20")
    assert (first.exit_code, first.stdout) == (0, "aws: 2 offers of 2026-11-20, the first\n")
    assert "left out 1 row, first on line 4: no GPU" in first.stderr
    path.write_text(path.read_text().replace("2.0,,eu", "2.5,,eu").replace("a,L4", "n,L4"))
    assert update(path, "2026-11-21").stdout.splitlines() == [
        "aws: 2 offers of 2026-11-21 after 2 of 2026-11-20",
        "  new       1  aws/eu-1/n",
        "  gone      1  aws/eu-1/a",
        "  moved     1  aws/eu-1/b on demand $2.00 -> $2.50 (+25 %)",
    ]
    listed = run("list", "--as-of", "2026-11-25")
    assert listed.stdout.splitlines()[1].split()[:5] == ["aws", "2026-11-21", "4", "2", "2"]
    assert "moved     1  aws/eu-1/b" in run("diff").stdout
    assert update(path, "2026-11-22").stdout.endswith("  no price changed\n")


def test_two_kinds_of_catalog_fill_one_book_that_a_plan_uses(tmp_path: Path) -> None:
    """The providers stand under the names of the shipped market."""
    update(write_skypilot(tmp_path, skypilot_row("a", gpu="A100-80GB-SXM", price="1.0")), "2026-11-20")
    update(write_gpuhunt(tmp_path, gpuhunt_row("b", gpu="RTX4090", price="0.3")), "2026-11-20")
    solved = CliRunner().invoke(
        main, ["solve", "quickstart", "--set", "inventory=[prices]", "--as-of", "2026-11-21", "--json"]
    )
    assert solved.exit_code == 0
    (job,) = json.loads(solved.stdout)["jobs"]
    assert job["provider"] in {"aws", "vast"} and job["price_source"].startswith("price book: ")
    listed = CliRunner().invoke(main, ["offers", "list", "--inventory", "prices"])
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:]] == ["aws/eu-1/a", "vast/eu-1/b"]


def test_offline_files_of_five_providers_fill_one_book(tmp_path: Path) -> None:
    """Three kinds of files; what each one has, maps and leaves out is in the answer."""
    skypilot = write_skypilot(tmp_path, skypilot_row("a"), skypilot_row("cpu", ""), skypilot_row("a"))
    (tmp_path / "lambda").mkdir()
    other = skypilot.rename(tmp_path / "lambda" / "vms.csv")
    skypilot.write_text(other.read_text())
    gpuhunt = write_gpuhunt(tmp_path, gpuhunt_row("b"), gpuhunt_row("b", price="0.4", spot="True"))
    second = gpuhunt.rename(tmp_path / "datacrunch.csv")
    gpuhunt.write_text(second.read_text() + gpuhunt_row("c", gpu="RTX4090", memory="48.0") + "\n")
    plain = tmp_path / "mail.csv"
    plain.write_text("provider,gpu,gpus,usd_per_hour\nmy-cloud,L4,1,0.5\nmy-cloud,T5,1,0.5\n")
    told = {}
    for path in (skypilot, other, gpuhunt, second, plain):
        read = json.loads(update(path, "2026-11-20", "--json").stdout)
        left_out = sum(one["rows"] for one in read["read"]["left_out"])
        told[read["changes"][0]["provider"]] = (read["read"]["rows"], read["read"]["offers"], left_out)
    assert told == {"aws": (3, 1, 2), "lambda": (3, 1, 2), "vast": (3, 1, 1), "verda": (2, 1, 0), "my-cloud": (2, 1, 1)}
    assert {one["provider"] for one in json.loads(run("list", "--json").stdout)} == told.keys()


def test_a_check_shows_the_rows_of_each_file_and_stores_nothing(tmp_path: Path, book: Path) -> None:
    """What is read, what is an offer, and why the rest is none; faults of all files at once."""
    one = write_skypilot(tmp_path, skypilot_row("a"), skypilot_row("cpu", ""), skypilot_row("tpu", "tpu-v5e-8"))
    two = write_gpuhunt(tmp_path, gpuhunt_row("b"), gpuhunt_row("b", price="0.4", spot="True"))
    checked = run("check", one, two)
    assert checked.exit_code == 0 and not book.exists()
    assert [line.replace(f"{tmp_path}/", "").split(maxsplit=6) for line in checked.stdout.splitlines()[1:]] == [
        ["aws/vms.csv", "SkyPilot", "catalog", "3", "1", "2", "1 no GPU; 1 unknown GPU tpu-v5e-8"],
        ["vastai.csv", "gpuhunt", "catalog", "2", "1", "0", "-"],
    ]
    assert [read["offers"] for read in json.loads(run("check", one, two, "--json").stdout)] == [1, 1]
    one.write_text("step,loss\n1,2\n")
    two.write_text(two.read_text() + "cut")
    bad = run("check", one, two)
    assert (bad.exit_code, bad.stdout, len(bad.stderr.splitlines())) == (2, "", 2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (skypilot_row(price="nan"), ":6: Price: 'nan' is not a finite number"),
        (skypilot_row(price="-2"), ":6: Price: -2 is negative"),
        (skypilot_row() + '"', ":6: "),
        ("cut,of", ":6: 2 cells in a table of 10 columns; the file may be cut off"),
    ],
)
def test_a_bad_file_changes_nothing(tmp_path: Path, book: Path, text: str, told: str) -> None:
    """Exit code 2, one message, and every stored byte as it was."""
    path = write_skypilot(tmp_path, *(skypilot_row(name) for name in "abcd"))
    update(path, "2026-11-20")
    before = content(book)
    path.write_text(path.read_text() + text)
    result = update(path, "2026-11-21")
    assert (result.exit_code, result.stdout) == (2, "")
    (message,) = result.stderr.splitlines()
    assert message.startswith(f"{path}{told}")
    assert content(book) == before


def test_a_file_of_a_gigabyte_is_refused_by_its_size(tmp_path: Path, book: Path) -> None:
    """Before it is read."""
    path = tmp_path / "big.csv"
    with path.open("wb") as stream:
        stream.truncate(2**30)
    refused = run("update", "--offline", path)
    assert (refused.exit_code, refused.stdout, book.exists()) == (2, "", False)
    assert refused.stderr.startswith(f"{path}: too large: 1074 MB; at most 105 MB")


def test_the_day_of_the_file_is_told_only_where_a_price_has_it(tmp_path: Path) -> None:
    """A column of days says more than the file."""
    path = tmp_path / "mine.csv"
    path.write_text("provider,gpu,gpus,usd_per_hour,date\np,L4,1,0.5,2026-11-01\n")
    assert "last written" not in run("update", "--offline", path).stderr
    path.write_text(path.read_text() + "p,L4,2,1.0,\n")
    assert "when the file was last written" in run("update", "--offline", path).stderr


def test_half_a_file_and_last_years_prices_need_force(tmp_path: Path, book: Path) -> None:
    """The message says so, and --force stores them."""
    path = write_skypilot(tmp_path, *(skypilot_row(name) for name in "abcd"))
    update(path, "2026-11-20")
    before = content(book)
    write_skypilot(tmp_path, skypilot_row("a"))
    for day, told in (("2026-11-21", "more than half are gone"), ("2025-11-20", "older than those stored")):
        result = update(path, day)
        assert result.exit_code == 2
        assert told in result.stderr and "--force stores it all the same" in result.stderr
        assert content(book) == before
    assert update(path, "2026-11-21", "--force").exit_code == 0


def test_json_is_one_document_and_errors_are_told_in_it(tmp_path: Path) -> None:
    """For scripts that update every day."""
    path = write_skypilot(tmp_path, skypilot_row("a"), skypilot_row("b", "tpu-v5e-8"))
    told = json.loads(update(path, "2026-11-20", "--json").stdout)
    assert told["read"]["offers"] == 1
    assert told["read"]["left_out"] == [{"reason": "unknown GPU tpu-v5e-8", "rows": 1, "first_line": 3}]
    assert told["changes"][0]["new"] == ["aws/eu-1/a"]
    assert json.loads(run("list", "--json").stdout)[0]["provider"] == "aws"
    failed = run("diff", "--json")
    assert failed.exit_code == 2 and json.loads(failed.stdout)["status"] == "error"


def test_an_empty_book_says_how_to_fill_it() -> None:
    """And pruning it removes nothing."""
    assert run().stdout.startswith(
        "no prices are stored; fill it: planner prices update, or planner prices update --of"
    )
    assert run("prune").stdout == "0 files removed\n"


def test_without_gpuhunt_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra, and a file needs none."""
    for module in ("gpuhunt", "gpuhunt._internal", "gpuhunt._internal.catalog"):
        monkeypatch.setitem(sys.modules, module, None)
    result = run("update")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "gpuhunt, which is not installed; pip install gpuhunt, or give a file" in result.stderr


def test_an_update_writes_the_newest_prices_of_its_providers(tmp_path: Path) -> None:
    """As an inventory; other providers of the book are not in it."""
    update(write_gpuhunt(tmp_path, gpuhunt_row("b", gpu="RTX4090")), "2026-11-20")
    path = write_skypilot(tmp_path, skypilot_row("a"))
    assert update(path, "2026-11-20", "-o", str(tmp_path / "own.yaml")).exit_code == 0
    listed = CliRunner().invoke(main, ["offers", "list", "--inventory", str(tmp_path / "own.yaml")])
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:]] == ["aws/eu-1/a"]
    assert run("update", "--offline", path, "-o", tmp_path).exit_code == 2

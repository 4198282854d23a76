"""`planner prices update` with providers: what is printed, written and returned where some of them fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from tests.helpers.catalogs import gpuhunt_row
from tests.helpers.providers import CATALOGS, VAST_URL, catalog_zip, vast_answer, vast_offer

pytest.importorskip("gpuhunt")
responses = pytest.importorskip("responses")


@pytest.fixture(autouse=True)
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Answer for AWS and Vast.ai in a fresh price book; nothing else can be reached."""
    for package in ("catalogs.live", "loading.price_files"):
        monkeypatch.setattr(f"planner.{package}.book_folder", lambda: tmp_path / "book")
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", CATALOGS)
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        mock.get(f"{CATALOGS}/aws/version", body="20261120-301")
        mock.get(f"{CATALOGS}/aws/20261120-301/catalog.zip", body=catalog_zip("aws", gpuhunt_row("a")))
        mock.post(VAST_URL, body=vast_answer(vast_offer(7)))
        yield mock


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, ["prices", "update", *map(str, arguments)])


def test_what_changed_goes_to_standard_output_and_counts_of_rows_do_not(tmp_path: Path) -> None:
    """The inventory has the providers that were asked."""
    result = run("--provider", "aws", "--provider", "vast", "-o", tmp_path / "own.yaml")
    assert result.exit_code == 0, result.output
    aws, vast = result.stdout.splitlines()
    assert aws == "aws: 1 offer of 2026-11-20, the first"
    assert vast.startswith("vast: 1 offer of 20") and vast.endswith(", the first")
    assert "answer of vast: gpuhunt catalog, 2 rows, 1 offer" in result.stderr
    listed = CliRunner().invoke(main, ["offers", "list", "--inventory", str(tmp_path / "own.yaml")])
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:]] == ["aws/eu-1/a", "vast/no-norway/7"]


def test_a_provider_that_fails_is_told_beside_the_others(web: Any) -> None:
    """Exit code 0 while any of them could be updated, 2 where none could."""
    run("--provider", "vast")
    web.replace("POST", VAST_URL, status=500)
    result = run("--provider", "aws", "--provider", "vast")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "aws: 1 offer of 2026-11-20, the first")
    told = " ".join(result.stdout.split())
    assert "vast: not updated: it answered 500; the prices of 20" in told and told.endswith("stay, 0 days old")
    told = json.loads(run("--provider", "vast", "--provider", "aws", "--json").stdout)
    assert [one["why_not"] for one in told["providers"]] == ["it answered 500", ""]
    alone = run("--provider", "vast")
    assert (alone.exit_code, alone.stdout) == (2, "")
    assert "vast: not updated: it answered 500; its prices of 20" in alone.stderr


def test_a_date_is_for_files() -> None:
    """What is fetched is of today."""
    result = run("--provider", "aws", "--date", "2026-11-20")
    assert (result.exit_code, "--date is for --offline" in result.stderr) == (2, True)
    two = run("--offline", "x.csv", "--provider", "a", "--provider", "b")
    assert (two.exit_code, "--offline takes one --provider" in two.stderr) == (2, True)


def test_runpod_is_stored_by_the_tiers_of_its_pods(web: Any) -> None:
    """Data centres are secure, countries are hosts of the community; one tier alone may be asked for."""
    rows = [gpuhunt_row(f"p{price}", price=price).replace("eu-1", place) for price, place in _PODS]
    web.get(f"{CATALOGS}/runpod/version", body="20261120-7")
    web.get(f"{CATALOGS}/runpod/20261120-7/catalog.zip", body=catalog_zip("runpod", *rows))
    assert [line.split(":")[0] for line in run("--provider", "runpod-secure").stdout.splitlines()] == ["runpod-secure"]
    both = run("--provider", "runpod").stdout.splitlines()
    assert [line.split(" of ")[0] for line in both if not line.startswith(" ")] == [
        *("runpod-secure: 1 offer", "runpod-community: 1 offer")
    ]
    again = run("--provider", "runpod")
    assert again.stdout.count("nothing newer than 2026-11-20") == 2, again.output


_PODS = (("0.5", "US-KS-2"), ("0.3", "US"))

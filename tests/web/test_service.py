"""Services and batches of prompts on the page: the figures of the command line, from the request to the answer."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("fastapi", reason="needs the extra web")

from planner.cli import main
from planner.results.plan import Plan
from tests.helpers.pages import CALM, MOVES, OFFICE, OFFICE_MOVES, PROMPT_MOVES, PROMPTS, Page, client_of, opened

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Page]:
    with client_of(opened(folder, OFFICE)) as found:
        yield found


def command(name: str, folder: Path, *words: str) -> dict[str, Any]:
    result = CliRunner().invoke(main, [name, str(folder / "s.yaml"), *words, "--json", "--as-of", "2026-11-21"])
    assert result.exit_code in (0, 3), result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def agrees(answer: dict[str, Any], expected: dict[str, Any]) -> None:
    """Compare dollars, status, difference and the fleet of an answer with those of `what-if --json`."""
    after = expected["after"]
    assert answer["status"] == after["status"] and answer["change"]["delta"] == expected["delta"]
    assert answer["usd"] == (after["cost"]["expected"] if after["cost_usd"] else None)
    if after["jobs"]:
        (service,) = after["jobs"]
        shown = dict(answer["compared"])
        assert shown["a month"] == f"${service['fleet']['usd_per_month']:,.2f}"
        told = {row[0]: row[1:3] for row in answer["change"]["rows"]}
        for one in expected["services"][0]["changes"]:
            assert told[one["what"]] == [one["before"], one["after"]]


@pytest.mark.long
@pytest.mark.parametrize("key", sorted(OFFICE_MOVES.keys() - MOVES.keys() | {"budget", "spot"}))
def test_each_field_of_a_service_gives_the_figures_of_what_if(page: Page, folder: Path, key: str) -> None:
    """Dollars, fleet and difference are those of `what-if --json` with the setting that the page shows.

    Fields that training has too are tried there, all but a budget and spot.
    """
    answer = page.plan({key: OFFICE_MOVES[key]})
    assert "faults" not in answer, answer
    (setting,) = answer["settings"]
    agrees(answer, command("what-if", folder, "--set", setting))
    assert answer["command"].startswith("planner what-if ") and setting.partition("=")[0] in answer["command"]


def test_requests_in_flight_take_the_place_of_those_a_second(page: Page, folder: Path) -> None:
    """One of the two is emptied; both, and neither, are faults at a field of the load."""
    answer = page.plan({"per_second": "", "concurrent": "40"})
    settings = [word for one in answer["settings"] for word in ("--set", one)]
    agrees(answer, command("what-if", folder, *settings))
    (fault,) = page.plan({"concurrent": "40"})["faults"]
    assert fault["key"] == "concurrent" and "contradict" in fault["what"]
    (fault,) = page.plan({"per_second": "", "profile": "office"})["faults"]
    assert fault["key"] == "per_second" and "missing" in fault["what"]


@pytest.mark.parametrize(
    ("values", "key", "what"),
    [
        ({"per_second": "-1"}, "per_second", ""),
        ({"tpot": "40"}, "tpot", "no unit"),
        ({"ttft": "soon"}, "ttft", "not a time"),
        ({"share": "1.5"}, "share", ""),
        ({"share": "1"}, "share", "arrive at random"),
        ({"replicas": "many"}, "replicas", ""),
        ({"profile": "/etc/passwd.csv"}, "profile", "not among the choices"),
        ({"weight_bits": ""}, "weight_bits", "none is ticked"),
        ({"output_tokens": ""}, "output_tokens", "empty"),
        ({"prefix_tokens": "700"}, "prefix_tokens", "exceeds"),
    ],
)
def test_a_fault_of_a_service_is_reported_at_its_field(page: Page, values: dict[str, str], key: str, what: str) -> None:
    """The answer names the field and what is wrong; a profile is chosen, so that no path is ever read."""
    faults = page.plan(values)["faults"]
    assert {one["key"] for one in faults} == {key} and what in faults[0]["what"]


def test_the_page_shows_what_a_service_is_and_how_near_its_limits_are(page: Page) -> None:
    """First line, tiles, sections, load by the hour and bill are there, and no deadline and no hours to finish."""
    answer = page.plan({})
    assert "a month" in answer["headline"] and answer["whole"]
    assert [one[0] for one in answer["tiles"]] == [
        "a month",
        "replicas",
        "first token",
        "per token",
        "per million tokens",
    ]
    ((name, sections),) = answer["jobs"]
    assert name == "chat" and "% below the limit of" in dict(sections)["Latency"]
    assert [one["key"] for one in answer["figures"]] == ["load", "bill", "replica-memory", "simpler", "assumptions"]
    assert answer["figures"][0]["scene"]["shapes"]


@pytest.mark.long
def test_the_curve_of_a_service_is_that_of_the_command(page: Page, folder: Path) -> None:
    """Each point has the dollars and the limit of `planner frontier --json`; it is drawn again without solving."""
    expected = command("frontier", folder)["points"]
    found = page.post("frontier", values={}).json()
    assert [one["usd"] for one in found["steps"]] == [one["usd_per_month"] for one in expected]
    assert [one["value"] for one in found["steps"]] == [one["setting"].partition("=")[2] for one in expected]
    narrow = page.post("frontier", values={}, width=300).json()
    assert narrow["steps"] == found["steps"] and narrow["scene"]["width"] < found["scene"]["width"]
    point = found["steps"][0]
    plan = page.plan({"tpot": point["value"]})
    assert dict(plan["compared"])["a month"] == f"${point['usd']:,.2f}"


@pytest.mark.long
def test_the_curve_in_steps_is_that_of_one_request(page: Page) -> None:
    """A few points come first and say that more follow; the last step is the whole curve, as without steps."""
    values, sizes = {"per_second": "7"}, []
    for points in (3, 4, 5, 7, 10):
        found = page.post("frontier", values=values, points=points).json()
        sizes.append(len(found["steps"]))
        if found["whole"]:
            break
    assert found["whole"] and sizes == sorted(sizes) and sizes[0] <= 3
    other = page.post("frontier", values={**values, "headroom": "0.0"}).json()
    assert other["whole"] and [one["ms"] for one in other["steps"]] == [one["ms"] for one in found["steps"]]
    wrong = page.post("frontier", values=values, points="many").json()
    assert wrong["steps"] == found["steps"]


def test_a_limit_that_no_fleet_keeps_has_its_ways_out(page: Page, folder: Path) -> None:
    """The page has the smallest changes that give a fleet, and the rows say that there is no plan."""
    answer = page.plan({"tpot": "1ms"})
    assert answer["status"] == "infeasible" and answer["relaxations"] and not answer["jobs"]
    assert answer["change"]["rows"][0][2] == "no plan"
    agrees(answer, command("what-if", folder, "--set", answer["settings"][0]))


@pytest.mark.long
def test_files_of_a_service_are_those_of_the_commands(page: Page, folder: Path) -> None:
    """The scenario solves to the same plan, the plan is that of `solve -o`, the archive what `export --all` writes."""
    values = {"per_second": "8"}
    shown = page.plan(values)
    (folder / "mine.yaml").write_text(page.post("file", values=values, file="scenario").json()["text"], "utf-8")
    done = CliRunner().invoke(main, ["solve", str(folder / "mine.yaml"), "--json", "--as-of", "2026-11-21"])
    plan = Plan.model_validate_json(page.post("file", values=values, file="plan").json()["text"])
    solved = Plan.model_validate_json(done.stdout)
    assert plan.services == solved.services and plan.cost is not None and plan.cost.expected == shown["usd"]
    packed = base64.b64decode(page.post("file", values=values, file="exports").json()["base64"])
    archive = zipfile.ZipFile(io.BytesIO(packed))
    (folder / "plan.json").write_bytes(archive.read("plan.json"))
    done = CliRunner().invoke(main, ["export", str(folder / "plan.json"), "--all", "-o", str(folder / "run")])
    assert done.exit_code == 0, done.output
    written = {path.name: path.read_text(encoding="utf-8") for path in (folder / "run").iterdir()}
    del written["export.json"]  # the list is one of a folder
    assert {name: archive.read(name).decode() for name in written if name != "plan.json"} == {
        name: text for name, text in written.items() if name != "plan.json"
    }
    report = page.post("file", values=values, file="report").json()["text"]
    assert report.startswith("<!doctype html>") and "Load and replicas" in report


@pytest.mark.long
def test_jobs_next_to_a_service_are_shown_with_it(tmp_path: Path) -> None:
    """Fields and machines of both, what both cost, the service's own curve, and a folder of files for each."""
    tune = {**CALM["jobs"][0], "techniques": {"method": "lora"}}
    chat = {**OFFICE["jobs"][0], "after": "tune"}
    both = {**OFFICE, "jobs": [tune, chat], "offers": [*CALM["offers"], *OFFICE["offers"]]}
    with client_of(opened(tmp_path, both)) as page:
        answer = page.plan({"2.per_second": "8", "1.deadline": "15h"})
        assert [one[0] for one in answer["jobs"]] == ["chat", "tune"]
        assert answer["change"]["rows"][0][0] == "jobs and service"
        assert answer["command"].startswith("planner solve ") and answer["command"].count("--set") == 2
        words = ["--set", answer["settings"][0], "--set", answer["settings"][1]]
        assert answer["usd"] == command("solve", tmp_path, *words)["cost"]["expected"]
        assert page.post("frontier", values={}).json()["steps"]
        packed = base64.b64decode(page.post("file", values={}, file="exports").json()["base64"])
        names = zipfile.ZipFile(io.BytesIO(packed)).namelist()
        assert {name.partition("/")[0] for name in names if "/" in name} == {"tune", "chat"}


@pytest.mark.long
@pytest.mark.parametrize("key", sorted(PROMPT_MOVES.keys() - MOVES.keys() | {"deadline"}))
def test_each_field_of_a_batch_gives_the_figures_of_what_if(tmp_path: Path, key: str) -> None:
    """A batch of prompts has fields of its own, whose figures are those of `what-if --json`."""
    with client_of(opened(tmp_path, PROMPTS)) as page:
        answer = page.plan({key: PROMPT_MOVES[key]})
        assert "faults" not in answer, answer
        expected = command("what-if", tmp_path, "--set", answer["settings"][0])
        assert answer["status"] == expected["after"]["status"] and answer["change"]["delta"] == expected["delta"]

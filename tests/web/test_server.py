"""The server of the page: the same figures as the command line, and no harm from hostile requests."""

from __future__ import annotations

import base64
import io
import json
import re
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("fastapi", reason="needs the extra web")

from planner.cli import main
from planner.loading.scenario_file import load_scenario, parse_scenario
from planner.results.plan import Plan
from planner.scenario.scenario import SolveOptions
from planner.web.server import MOST_BODY, App
from tests.helpers.pages import CALM, MOVES, Page, client_of, opened
from tests.helpers.reports import HOSTILE, SMALL

pytestmark = pytest.mark.slow

CONFIG = {
    **{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 512, "intermediate_size": 1376},
    **{"num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 32000},
    **{"max_position_embeddings": 2048, "tie_word_embeddings": False, "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16"},
}
"""A small Llama."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("app")


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Page]:
    with client_of(opened(folder)) as found:
        yield found


def what_if(folder: Path, settings: list[str]) -> dict[str, Any]:
    words = [word for setting in settings for word in ("--set", setting)]
    result = CliRunner().invoke(main, ["what-if", str(folder / "s.yaml"), *words, "--json", "--as-of", "2026-11-21"])
    assert result.exit_code in (0, 3), result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.long
@pytest.mark.parametrize("key", sorted(MOVES))
def test_each_field_gives_the_figures_of_what_if(page: Page, folder: Path, key: str) -> None:
    """Cost, hours and difference are those of `what-if --json` with the setting that the page shows."""
    answer = page.plan({key: MOVES[key]})
    assert "faults" not in answer, answer
    agrees(answer, what_if(folder, answer["settings"]))


def test_a_change_gives_the_figures_of_what_if(page: Page, folder: Path) -> None:
    """So do several fields at once, whatever was solved before, and the command that the page shows is that one."""
    page.plan({"spot": "off"})
    answer = page.plan({"deadline": "2h", "prices": "1.5", "gpus": "!RTX3090"})
    expected = what_if(folder, answer["settings"])
    agrees(answer, expected)
    assert answer["command"].startswith("planner what-if ") and answer["command"].count("--set") == 3
    assert [row[0] for row in answer["change"]["rows"]][:3] == ["cost", "likely finish", "ends by"]


def agrees(answer: dict[str, Any], expected: dict[str, Any]) -> None:
    after = expected["after"]
    assert answer["status"] == after["status"]
    if after["cost_usd"] is not None:
        assert answer["usd"] == after["cost"]["expected"]
        assert answer["hours"] == after["hours"]["expected"]
    assert answer["change"]["delta"] == expected["delta"]


def test_a_comparison_may_start_anywhere(page: Page) -> None:
    """Against a pinned plan the difference is that of the two plans."""
    first, second = page.plan({"spot": "off"}), page.plan({"deadline": "2h"})
    both = page.plan({"deadline": "2h"}, reference={"spot": "off"})
    assert both["change"]["delta"]["cost_usd"] == pytest.approx(second["usd"] - first["usd"])


def test_the_curve_reaches_beyond_the_deadline(page: Page) -> None:
    """The curve of the only job leaves its deadline out, and the plan lies on it within a near tie."""
    found = page.post("frontier", values={"deadline": "2h"}).json()
    longest = max(point["h"] for point in found["data"]["points"])
    assert found["exact"] and longest > 2.0
    plan = page.plan({"deadline": "2h"})
    least = min(point["u"] for point in found["data"]["points"] if point["h"] <= 2.0)
    assert least <= plan["usd"] + 1e-6 and plan["usd"] <= least + 0.06
    assert found["scene"]["shapes"] and found["scene"]["data"]["h1"] > 0


def test_the_curve_of_several_jobs_keeps_every_field_but_their_deadlines(tmp_path: Path) -> None:
    """Its axis is the time of all jobs: a moved deadline would end it, a moved budget must not be lost."""
    first = CALM["jobs"][0]
    two = {**CALM, "jobs": [first, {**first, "name": "second"}]}
    app = App(opened(tmp_path, two), SolveOptions())
    try:
        deadlines = [control for control in app.controls if control.kind == "hours"]
        assert len(deadlines) == 2
        moved = {**{control.key: f"{control.path}=2h" for control in deadlines}, "budget": "limits.budget_usd=9"}
        assert app._without_deadlines(moved) == ("limits.budget_usd=9",)
    finally:
        app.close()


def test_no_plan_is_an_answer_with_its_ways_out(page: Page) -> None:
    """A budget of a cent: the page has the smallest changes that give a plan."""
    answer = page.plan({"budget": "0.01"})
    assert answer["status"] == "infeasible" and answer["relaxations"] and answer["usd"] is None
    assert answer["change"]["delta"] == {"cost_usd": None, "hours": None}


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"budget": "abc"}, "budget"),
        ({"deadline": "soon"}, "deadline"),
        ({"tokens": "-3"}, "tokens"),
        ({"model": "llama-9000"}, "model"),
        ({"prices": "-1"}, "prices"),
        ({"deadline": "{a: b}"}, "deadline"),
        ({"tokens": "1\nlimits: {budget_usd: 1}"}, "tokens"),
        ({"model": "\u202egnp.exe"}, "model"),
        ({"model": HOSTILE}, "model"),
        ({"budget": "1" * 3000}, "budget"),
    ],
)
def test_a_fault_is_reported_at_its_field(page: Page, values: dict[str, str], key: str) -> None:
    """The answer names the field, what is wrong and what would be right."""
    faults = page.plan(values)["faults"]
    assert {one["key"] for one in faults} == {key}
    assert all(one["what"] for one in faults)


def test_files_to_download_are_those_of_the_commands(page: Page, folder: Path) -> None:
    """The scenario solves to the same plan, the plan is a plan, the report is one page without the name of a file."""
    values = {"deadline": "2h", "spot": "off"}
    plan = page.plan(values)
    scenario = page.post("file", values=values, file="scenario").json()["text"]
    assert "\n" not in scenario.splitlines()[0] and scenario.startswith("# calm, ")
    (folder / "mine.yaml").write_text(scenario, encoding="utf-8")
    result = CliRunner().invoke(main, ["solve", str(folder / "mine.yaml"), "--json", "--as-of", "2026-11-21"])
    assert json.loads(result.stdout)["cost"]["expected"] == pytest.approx(plan["usd"])
    found = Plan.model_validate_json(page.post("file", values=values, file="plan").json()["text"])
    assert found.cost is not None and found.cost.expected == plan["usd"]
    report = page.post("file", values=values, file="report").json()["text"]
    assert report.startswith("<!doctype html>") and len(report.encode()) < 300_000


def test_the_scenario_to_download_needs_no_other_file(tmp_path: Path) -> None:
    """Offers of a list next to the scenario, lengths and load of tables: the file solves alone in another folder."""
    prices = {"currency": "USD", "date": "2026-11-01", "terms": {"mine": {"fees": {"egress_usd_per_gb": 0.1}}}}
    offers = [{"provider": "mine", "gpu": "L40S", "gpus": 1, "usd_per_hour": 0.9, "stock": 3}]
    written = tmp_path / "written"
    written.mkdir()
    (written / "mine.yaml").write_text(json.dumps(prices | {"offers": offers}), encoding="utf-8")
    (written / "lengths.csv").write_text("tokens,count\n900,2000\n1500,500\n", encoding="utf-8")
    work = {"lengths": "lengths.csv", "epochs": 2}
    job = {
        "name": "a",
        "architecture": "llama-3.1-8b",
        "work": work,
        "deadline": "200h",
        "techniques": {"method": "lora"},
    }
    asked = {"schema": 2, "name": "calm", "inventory": ["mine.yaml", "market"], "jobs": [job], "objective": "cost"}
    scenario = opened(written, {**asked, "limits": {"gpus": {"allow": ["L40S"]}}})
    made = scenario.changed_file(["jobs.0.deadline=100h"], {}, {})["text"]
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "mine.yaml").write_text(made, encoding="utf-8")
    alone = load_scenario(tmp_path / "alone" / "mine.yaml").scenario
    assert "inventory: [market]" in made or "inventory:\n- market" in made or "inventory:\n  - market" in made
    by_label = [sorted(one.offers, key=lambda offer: offer.model_dump_json()) for one in (alone, scenario.scenario)]
    assert by_label[0] == by_label[1]
    (now,), (before,) = alone.jobs, scenario.scenario.jobs
    assert now.work == before.work and (now.deadline_hours, before.deadline_hours) == (100, 200)


def test_the_files_that_run_the_plan_are_those_of_export(page: Page, folder: Path) -> None:
    """The archive holds what `planner export --all` writes for the plan that the page shows, and that plan."""
    values = {"deadline": "2h", "spot": "off"}
    packed = zipfile.ZipFile(
        io.BytesIO(base64.b64decode(page.post("file", values=values, file="exports").json()["base64"]))
    )
    (folder / "plan.json").write_bytes(packed.read("plan.json"))
    done = CliRunner().invoke(main, ["export", str(folder / "plan.json"), "--all", "-o", str(folder / "run")])
    assert done.exit_code == 0, done.output
    written = {path.name: path.read_text(encoding="utf-8") for path in (folder / "run").iterdir()}
    found = {name: packed.read(name).decode() for name in packed.namelist() if name != "left-out.txt"}
    assert found == written and {"run.sh", "export.json"} <= set(found)
    packed.extractall(folder / "unpacked")
    checked = CliRunner().invoke(main, ["export", "--check", str(folder / "unpacked")])
    required = [line for line in checked.output.splitlines() if "is required and missing" in line]
    assert checked.exit_code == 2 and required and len(checked.output.splitlines()) == len(required), checked.output


def test_a_config_is_a_model(page: Page, folder: Path) -> None:
    """A dropped config.json can be chosen and keeps its name; a faulty one is a fault of the field."""
    kept = page.post("model", name="../../my model.json", text=json.dumps(CONFIG)).json()
    assert kept["name"] == "my-model.json"
    answer = page.plan({"model": kept["model"]})
    assert answer["usd"] > 0 and answer["settings"] == ["jobs.tune.architecture=my-model.json"]
    scenario = page.post("file", values={"model": kept["model"]}, file="scenario").json()["text"]
    assert "put the file my-model.json next to this one" in scenario and "planner-app-" not in scenario
    (folder / "my-model.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    assert parse_scenario(scenario, folder).jobs[0].architecture.endswith("my-model.json")
    for text in ("{", "[]", "{}", json.dumps({**CONFIG, "model_type": HOSTILE, "architectures": [HOSTILE]})):
        faults = page.post("model", name="x", text=text).json()["faults"]
        assert {one["key"] for one in faults} == {"model"}


def test_only_this_machine_and_this_page_are_answered(page: Page) -> None:
    """A foreign host, a foreign origin, no token, a form of another site: each is refused, and nothing allows CORS."""
    client, content = page.client, {"session": "0" * 16, "values": {}}
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 400
    assert client.get("/", headers={"Host": "127.0.0.1.evil.example"}).status_code == 400
    foreign = {**page.headers, "Host": "evil.example"}
    assert client.post("/api/plan", json=content, headers=foreign).status_code == 400
    assert client.post("/api/plan", json=content).status_code == 403
    assert client.post("/api/plan", json=content, headers={"X-Planner-Token": "x"}).status_code == 403
    other = {**page.headers, "Origin": "http://evil.example"}
    assert client.post("/api/plan", json=content, headers=other).status_code == 403
    own = {**page.headers, "Origin": "http://127.0.0.1:8000"}
    assert client.post("/api/plan", json=content, headers=own).status_code == 200
    plain = {**page.headers, "Content-Type": "text/plain"}
    assert client.post("/api/plan", content=json.dumps(content), headers=plain).status_code == 415
    preflight = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answer = client.options("/api/plan", headers=preflight)
    assert answer.status_code == 405 and not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b"\xff\xfe", 400),
        (b"[" * 90_000, 400),
        (b'{"session": "x", "values": {}}', 400),
        (b'{"session": "0123456789abcdef", "values": []}', 400),
        (b'{"session": "0123456789abcdef", "values": {"budget": 3}}', 400),
        (b'{"session": "0123456789abcdef", "values": {}, "reference": "x"}', 400),
        (b" " * (MOST_BODY + 1), 413),
    ],
)
def test_malformed_requests_are_refused(page: Page, body: bytes, status: int) -> None:
    """Each with a status and a sentence, and the next request is answered."""
    headers = {**page.headers, "Content-Type": "application/json"}
    answer = page.client.post("/api/plan", content=body, headers=headers)
    assert answer.status_code == status and answer.json()["error"]


def test_other_addresses_have_nothing(page: Page) -> None:
    """Neither files nor the pages of the framework are served."""
    for path in ("/docs", "/openapi.json", "/api/plan", "/../pyproject.toml", "/etc/passwd", "/favicon.ico"):
        assert page.client.get(path).status_code in (404, 405), path
    assert page.post("nothing").status_code == 404
    assert page.post("file", values={}, file="/etc/passwd").status_code == 400


def test_the_policy_of_the_page_admits_its_own_script_alone(page: Page) -> None:
    """Script and style carry a nonce, which changes with every load, and nothing inline is allowed besides."""
    first, second = page.client.get("/"), page.client.get("/")
    policy = first.headers["content-security-policy"]
    assert "unsafe" not in policy and "default-src 'none'" in policy and "connect-src 'self'" in policy
    nonce = re.search(r"script-src 'nonce-([\w-]+)'", policy)
    assert nonce is not None and f'<script type="module" nonce="{nonce[1]}" src="/js/app.js">' in first.text
    assert second.headers["content-security-policy"] != policy
    assert not re.search(r"\son\w+=|javascript:|\sstyle=", first.text.partition("<script")[0])
    assert "http://" not in first.text.replace("http://www.w3.org/2000/svg", "")


def test_names_start_no_script(tmp_path: Path) -> None:
    """A hostile name stands on the page as text, and as escaped JSON."""
    with client_of(opened(tmp_path, SMALL)) as page:
        assert page.source.count("<script") == 2 and "<b>" not in page.source
        answer = page.plan({})
        assert answer["jobs"][0][0] == HOSTILE
        text = page.post("file", values={}, file="scenario").json()["text"]
        assert parse_scenario(text, file="x").name == HOSTILE


@pytest.mark.long
def test_fifty_requests_at_once_leave_the_newest(page: Page) -> None:
    """Each is answered: with its own plan, or as superseded; and the page works afterwards."""
    with ThreadPoolExecutor(50) as pool:
        budgets = [f"{3 + one / 10:.1f}" for one in range(50)]
        answers = list(pool.map(lambda usd: page.post("plan", values={"budget": usd}), budgets))
    assert {one.status_code for one in answers} == {200}
    found = [(usd, one.json()) for usd, one in zip(budgets, answers, strict=True)]
    plans = [(usd, one) for usd, one in found if "superseded" not in one]
    assert plans and all(one["settings"] == [f"limits.budget_usd={usd}"] for usd, one in plans)
    assert page.plan({"budget": "3"})["usd"] > 0


@pytest.mark.long
def test_two_tabs_do_not_disturb_each_other(page: Page) -> None:
    """Solved at the same time, each tab gets its own plan."""

    def ask(tab: tuple[str, str]) -> list[str]:
        return [page.post("plan", session=tab[0], values={"deadline": tab[1]}).json()["settings"][0] for _ in range(3)]

    tabs = [("a" * 16, "2h"), ("b" * 16, "9h")]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(ask, tabs)) == [["jobs.tune.deadline=2h"] * 3, ["jobs.tune.deadline=9h"] * 3]


@pytest.mark.long
def test_a_solve_beyond_the_limit_is_stopped(tmp_path: Path) -> None:
    """The answer says so; the process is gone."""
    with client_of(opened(tmp_path), limit_seconds=0.001) as page:
        answer = page.post("plan", values={})
        assert answer.status_code == 504 and "stopped after" in answer.json()["error"]

"""The page in a real browser: Debian's Chromium through Playwright, against a server in a process of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from planner.cli import main
from planner.loading.scenario_file import load_scenario
from planner.web.setting_fields import controls_of, settings_of
from tests.helpers.browser import ONE_SESSION, axe_findings, chromium, plan_answers, screen_name, screens, watch
from tests.helpers.pages import CALM, MOVES, served
from tests.helpers.reports import HOSTILE

PLANNED = "body:not(.stale)"
SETTLED = f"{PLANNED}:not(.late)"
SLIDE = "(v) => { const s = document.getElementById('within'); s.value = v; s.dispatchEvent(new Event('input')); }"
UNFOLD = "() => { for (const one of document.querySelectorAll('details.more')) one.open = true; }"
TWICE = {"viewport": {"width": 720, "height": 450}, "device_scale_factor": 2, "color_scheme": "light"}
"""A screen of 1,440 pixels at 200 %."""
SCREENS = [*screens(390, 1024, 1440), TWICE]

pytestmark = pytest.mark.ecosystem


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    pytest.importorskip("fastapi", reason="needs the extra web")
    yield from chromium()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("app")
    (made / "s.yaml").write_text(json.dumps(CALM), encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with served("s.yaml", cwd=folder) as (found, _):
        yield found


@pytest.fixture
def opened(browser: Any, address: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return the page of the calm scenario; the console must stay empty, and nothing else may be asked."""
    context = browser.new_context(**getattr(request, "param", {}))
    context.set_default_timeout(120_000)  # other tests keep the cores busy
    context.add_init_script(ONE_SESSION)
    page = context.new_page()
    said = watch(page)
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    page.goto(address)
    settle(page)
    yield page
    context.close()
    assert said == []
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


def settle(page: Any, until: str = SETTLED) -> None:
    """Wait until plan and curve are those of the fields, or the plan alone."""
    page.wait_for_timeout(50)  # an event of a field is handled before
    page.wait_for_selector(until, timeout=120_000)


def tile(page: Any) -> str:
    """Return the expected cost that the page shows."""
    text: str = page.inner_text("#tiles strong >> nth=0")
    return text


def set_field(page: Any, key: str, value: str) -> None:
    """Move a field as a person does: type, tick, switch."""
    box = page.locator(f"[id='field-{key}']")
    page.evaluate(UNFOLD)
    if key == "spot":
        box.set_checked(value == "on")
        return
    if box.evaluate("e => e.tagName") == "SELECT":
        box.select_option(value)
        return
    if box.evaluate("e => e.tagName") == "SUMMARY":
        if box.evaluate("e => !e.parentElement.open"):
            box.click()
        listed, forbids = value.removeprefix("!").split(","), value.startswith("!")
        for tick in box.locator("xpath=..").locator("input").all():
            name = tick.get_attribute("value")
            tick.set_checked((name not in listed) if forbids else (name in listed))
        return
    box.fill(value)
    box.press("Tab")


def test_every_field_shows_the_plan_of_its_setting(opened: Any, folder: Path) -> None:
    """Each field is moved alone: cost and command on the page are those of its setting; undo goes back.

    That the server's answer to the setting is that of `what-if --json` is shown for each field in `test_server.py`.
    """
    controls, start = controls_of(load_scenario(folder / "s.yaml").scenario), tile(opened)
    answers = plan_answers(opened)
    for key, value in MOVES.items():
        set_field(opened, key, value)
        settle(opened, PLANNED)
        answer = answers[-1].json()
        (setting,) = answer["settings"]
        assert opened.inner_text("#command").split("--set ", 1)[1].strip().strip("'") == setting, key
        if [setting] != list(settings_of(controls, {key: value}, {}).values()):  # ticks are the shorter of two lists
            words = ["what-if", str(folder / "s.yaml"), "--set", setting, "--json", "--as-of", "2026-11-21"]
            after = json.loads(CliRunner().invoke(main, words).stdout)["after"]
            assert key in ("gpus", "providers") and after["cost"]["expected"] == pytest.approx(answer["usd"]), key
        cell = opened.locator("#change-table tbody tr").first.locator("td").nth(2).inner_text()
        assert cell == ("no plan" if answer["usd"] is None else f"${answer['usd']:,.2f}"), key
        opened.click("#reset")
        settle(opened, PLANNED)
        assert tile(opened) == start, key


def test_no_tick_is_refused_at_its_list_until_one_is_ticked(opened: Any) -> None:
    """`None` means no provider and not all; the plan stays, a reload too, and one tick gives the plan of that one."""
    opened.select_option("#reference", label="before the last change")
    opened.evaluate(UNFOLD)
    opened.click("#field-providers")
    none = opened.get_by_label("None of Providers")
    none.click()
    opened.wait_for_selector("#field-providers-wrong:not([hidden])")
    assert "tick at least one" in opened.inner_text("#field-providers-wrong")
    assert opened.inner_text("#field-providers") == "Providers: 0 of 3"
    opened.get_by_label("fast", exact=True).check()
    opened.wait_for_selector("#field-providers-wrong", state="hidden")
    settle(opened, PLANNED)
    assert '"fast"' in opened.inner_text("#command")
    none.click()
    opened.wait_for_selector("#field-providers-wrong:not([hidden])")
    opened.reload()
    opened.wait_for_selector("#field-providers-wrong:not([hidden])")
    assert opened.inner_text("#field-providers") == "Providers: 0 of 3"


def test_the_slider_needs_no_server(opened: Any) -> None:
    """Moved to 40 places, each is answered before its event ends, and nothing is asked of the server."""
    opened.route("**/api/**", lambda route: route.abort())
    texts = opened.evaluate("""() => {
      const s = document.getElementById('within'), texts = [];
      for (let v = 0; v <= 2000; v += 50) {
        s.value = v; s.dispatchEvent(new Event('input'));
        texts.push(document.getElementById('said').textContent);
      }
      return texts;
    }""")
    assert len(set(texts)) == len(texts)
    costs = [float(found[1].replace(",", "")) for text in texts if (found := re.search(r": \$([\d,.]+)", text))]
    assert costs == sorted(costs, reverse=True) and len(costs) > 10
    opened.unroute("**/api/**")
    opened.click("#reset")
    settle(opened)


def test_a_deadline_beyond_the_curve_is_no_line_on_it(opened: Any) -> None:
    """An arrow says on which side it is; within the hours of the curve the line is at its hours."""
    for hours, name, seen in (("1000h", "deadline 1,000.0 h →", "hidden"), ("2h", "deadline 2.0 h", "visible")):
        set_field(opened, "deadline", hours)
        settle(opened)
        assert opened.text_content("#curve .cursor-name") == name
        assert opened.get_attribute("#curve .cursor", "visibility") == seen


def test_the_slider_sets_the_deadline(opened: Any) -> None:
    """The plan that the server then finds costs what the curve said, but for a near tie."""
    opened.evaluate(SLIDE, 900)
    usd = float(opened.get_attribute("#said", "data-usd"))
    deadline = opened.input_value("#field-deadline")
    settle(opened)
    assert f"deadline={deadline}" in opened.url and deadline.endswith("h")
    assert -0.005 <= float(tile(opened).removeprefix("$")) - usd <= 0.055  # the tile shows whole cents


def test_the_address_carries_the_state(opened: Any, browser: Any) -> None:
    """Reloaded, or opened elsewhere, the address gives the same plan, fields and pins."""
    set_field(opened, "deadline", "2h")
    settle(opened)
    opened.click("#pin")
    set_field(opened, "gpus", "!RTX3090")
    settle(opened)
    cost, pinned = tile(opened), opened.inner_text("#pins")
    opened.reload()
    settle(opened)
    assert tile(opened) == cost and opened.inner_text("#pins") == pinned
    assert opened.input_value("#field-deadline") == "2h"
    other = browser.new_page()
    other.goto(opened.url)
    settle(other)
    assert tile(other) == cost
    other.close()


def test_plans_are_pinned_compared_and_undone(opened: Any) -> None:
    """Three pins at most; a pin can be the reference; Undo goes back step by step to the beginning."""
    start = tile(opened)
    seen = []
    for hours in ("15h", "2h", "1h"):
        opened.click("#pin")
        set_field(opened, "deadline", hours)
        settle(opened)
        seen.append(tile(opened))
    assert opened.is_disabled("#pin")
    head = opened.locator("#pins thead :is(th, td)").all_inner_texts()
    assert head[1:] == ["plan A", "plan B", "plan C", "now"]
    opened.select_option("#reference", label="plan C")
    settle(opened)
    row = opened.locator("#change-table tbody tr").first.locator("td").all_inner_texts()
    assert row[1] == seen[1] and row[2] == seen[2]
    opened.click("text=Remove >> nth=0")
    settle(opened)
    assert opened.locator("#pins thead :is(th, td)").all_inner_texts()[1:] == ["plan A", "plan B", "now"]
    for _ in range(3):
        opened.click("#undo")
        settle(opened)
    assert tile(opened) == start and opened.is_disabled("#undo")


def test_files_are_downloaded(opened: Any, tmp_path: Path) -> None:
    """Scenario, plan, report and exports are the browser's own downloads."""
    for kind, name, start in (
        ("scenario", "calm.yaml", "# calm"), ("plan", "calm-plan.json", "{"),
        ("report", "calm-report.html", "<!doctype"), ("exports", "calm-exports.zip", "PK"),
    ):  # fmt: skip
        with opened.expect_download() as found:
            opened.click(f"[data-file={kind}]")
        assert found.value.suggested_filename == name
        found.value.save_as(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start.encode())


def test_an_error_is_shown_at_its_field(opened: Any) -> None:
    """The field is marked and described, the last plan stays, and a right value clears it."""
    before = tile(opened)
    set_field(opened, "budget", "a lot")
    opened.wait_for_selector("#field-budget-wrong:not([hidden])")
    assert "a lot" in opened.inner_text("#field-budget-wrong")
    assert opened.get_attribute("#field-budget", "aria-describedby") == "field-budget-wrong"
    assert tile(opened) == before
    set_field(opened, "budget", "50")
    settle(opened)
    assert opened.is_hidden("#field-budget-wrong") and opened.get_attribute("#field-budget", "aria-invalid") is None


def test_a_dropped_config_is_the_model(opened: Any, tmp_path: Path) -> None:
    """A file that is no config is refused at the field, one that is becomes the model."""
    from tests.web.test_server import CONFIG

    for name, text in (("bad.json", "{"), ("tiny.json", json.dumps(CONFIG))):
        (tmp_path / name).write_text(text, encoding="utf-8")
        opened.set_input_files("#field-model-file", tmp_path / name)
        if name == "bad.json":
            opened.wait_for_selector("#field-model-wrong:not([hidden])")
    # The file is read and sent before anything is solved: the command changes with the plan.
    opened.wait_for_selector("#command:has-text('tiny.json')", timeout=120_000)
    settle(opened)
    assert opened.input_value("#field-model") == "tiny.json"


def test_everything_works_by_keyboard(opened: Any) -> None:
    """Tab reaches every field and button, arrows move the slider, Enter pins; each focus can be seen."""
    opened.evaluate(UNFOLD)
    reached = set()
    for _ in range(120):
        opened.keyboard.press("Tab")
        name = opened.evaluate("document.activeElement.id")
        reached.add(name)
        if name == "within":
            for _ in range(200):
                opened.keyboard.press("ArrowLeft")
            settle(opened)
            assert "deadline=" in opened.url
            assert opened.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        if name == "pin":
            opened.keyboard.press("Enter")
            assert opened.locator("#pins table").count() == 1
    fields = {
        f"field-{key}" for key in ("model", "tokens", "deadline", "budget", "spot", "prices", "gpus", "providers")
    }
    assert fields | {"within", "pin", "reference", "theme", "command"} <= reached


@pytest.mark.parametrize("opened", SCREENS, indirect=True, ids=screen_name)
def test_it_fits_the_screen(opened: Any) -> None:
    """Nothing is wider than the screen, and no text of a picture is smaller than 9 pixels."""
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    small = opened.evaluate("""() => [...document.querySelectorAll('svg text')]
      .filter((t) => t.getClientRects().length && t.getBoundingClientRect().height < 9).map((t) => t.textContent)""")
    assert small == []
    bar = opened.locator(".answer").bounding_box()
    opened.evaluate("scrollTo(0, 2000)")
    opened.wait_for_timeout(100)
    stays = "document.querySelector('.answer').getBoundingClientRect()"
    left = opened.evaluate(f"innerHeight - ({stays}.bottom > 0 ? {stays}.height : 0)")
    assert bar is not None and left > 0.6 * opened.viewport_size["height"]  # to read and to write in


@pytest.mark.parametrize(
    "opened", [{"color_scheme": mode, "bypass_csp": True} for mode in ("light", "dark")], indirect=True
)
def test_axe_finds_nothing(opened: Any) -> None:
    """axe-core has no finding, with every part open and a fault shown."""
    opened.click("#pin")
    set_field(opened, "deadline", "2h")
    settle(opened)
    set_field(opened, "budget", "a lot")
    opened.wait_for_selector("#field-budget-wrong:not([hidden])")
    assert axe_findings(opened) == []


def test_names_start_no_script_and_several_jobs_have_a_timetable(browser: Any, tmp_path: Path) -> None:
    """Hostile names are text everywhere; jobs have fields of their own, and the curve waits to be asked for."""
    job = CALM["jobs"][0]
    data = {**CALM, "name": HOSTILE, "jobs": [{**job, "name": HOSTILE}, {**job, "name": "\u202ereversed"}]}
    (tmp_path / "two.yaml").write_text(json.dumps(data), encoding="utf-8")
    with served("two.yaml", cwd=tmp_path) as (address, _):
        page = browser.new_page()
        said = watch(page)
        page.goto(address)
        page.wait_for_selector("#figure-timetable svg", state="attached", timeout=120_000)
        assert page.inner_text("h1") == HOSTILE and page.locator("b").count() == 0
        assert page.evaluate("document.scripts.length") == 2
        assert page.locator("#facts h3").count() == 2
        page.click("#trace")
        page.wait_for_selector("#curve svg", timeout=120_000)
        page.close()
        assert said == []


def test_the_table_of_other_ways_is_sorted_and_says_why_not(opened: Any) -> None:
    """A heading sorts, the plan is a row, every GPU and provider comes when asked, and a GPU is explained."""
    rows = opened.locator("#others-table tbody tr")
    assert opened.locator("#others-table tr.me").count() == 1
    opened.click("#others-all")
    opened.wait_for_selector("#others-lead:has-text('rows')")
    totals = [float(one.replace("$", "").replace(",", "")) for one in rows.locator("td:nth-child(4)").all_inner_texts()]
    assert totals == sorted(totals) and len(totals) >= 2
    opened.get_by_role("button", name="total").click()
    assert opened.locator("th[aria-sort=descending]").count() == 1
    opened.select_option("#why-gpu", "H100-80GB")
    opened.get_by_role("button", name="Explain").click()
    opened.wait_for_selector("#why-answer:has-text('H100-80GB')")


def test_one_change_is_tried_undone_and_gone_back_from(opened: Any) -> None:
    """`Try` makes the change, the strip says what it did, and the browser's Back is the same step as Undo."""
    start = tile(opened)
    opened.locator("#could-list button").first.click()
    settle(opened)
    assert "in place of" in opened.inner_text("#strip-text") or "$" in opened.inner_text("#strip-text")
    assert "#" in opened.url
    opened.go_back()
    settle(opened)
    assert tile(opened) == start and opened.is_disabled("#undo")


def test_no_plan_has_buttons_that_give_one(opened: Any) -> None:
    """A deadline that no plan keeps shows the smallest changes; the first button gives a plan."""
    set_field(opened, "deadline", "0.01h")
    settle(opened, PLANNED)
    assert "Why there is no plan" in opened.inner_text("#could-title")
    opened.locator("#could-list button").first.click()
    settle(opened, PLANNED)
    assert tile(opened).startswith("$") and opened.locator("#tiles button").count() == 0


@pytest.mark.parametrize(
    "opened", [{**screen, "bypass_csp": True} for screen in screens(390, 1440)[::2]], indirect=True, ids=screen_name
)
def test_the_bar_says_that_there_is_no_plan_and_has_the_least_change(opened: Any) -> None:
    """Also on a phone: what no plan keeps, what would give one, and the button that makes this change."""
    set_field(opened, "deadline", "0.01h")
    settle(opened, PLANNED)
    assert tile(opened) == "No plan"
    assert opened.inner_text("#tiles strong >> nth=1").startswith("deadline")
    button = opened.locator("#tiles button")
    inside, all_of_it = button.bounding_box(), opened.viewport_size
    assert inside["x"] >= 0 and inside["x"] + inside["width"] <= all_of_it["width"]
    assert axe_findings(opened) == []
    button.click()
    settle(opened, PLANNED)
    assert tile(opened).startswith("$")


def test_a_slow_solve_is_stopped_and_the_plan_before_it_stays(opened: Any) -> None:
    """The button appears after a moment; it ends the solve at the server, and nothing is solved again."""
    start, address = tile(opened), opened.url
    held: list[Any] = []
    opened.route("**/api/plan", lambda route: held.append(route))  # no answer comes: a solve that takes long
    set_field(opened, "deadline", "2h")
    opened.wait_for_selector("#stop:not([hidden])")
    assert re.search(r"Solving for \d+ s", opened.inner_text("#state"))
    with opened.expect_response("**/api/stop") as ended:
        opened.focus("#stop")
        opened.keyboard.press("Enter")
    assert ended.value.ok
    settle(opened)
    assert opened.inner_text("#state").startswith("Stopped") and len(held) == 1
    assert (tile(opened), opened.url) == (start, address) and opened.is_hidden("#stop")
    assert opened.input_value("#field-deadline") != "2h"
    opened.unroute("**/api/plan")
    set_field(opened, "deadline", "2h")
    settle(opened)
    assert "deadline=2h" in opened.url


def test_a_server_that_ends_is_reported_and_the_page_recovers(browser: Any, folder: Path) -> None:
    """Stopped in the middle, the page says so and keeps its plan; started again, a new load goes on."""
    with served("s.yaml", cwd=folder) as (address, process):
        page = browser.new_page()
        page.goto(address)
        settle(page)
        process.terminate()
        process.wait(20)
        set_field(page, "deadline", "2h")
        page.wait_for_selector("#banner:not([hidden])")
        assert "does not answer" in page.inner_text("#banner") and "deadline=2h" in page.url
        assert page.locator("body.dead").count() == 1
    with served("s.yaml", "--port", address.rpartition(":")[2].rstrip("/"), cwd=folder):
        page.reload()
        settle(page)
        assert page.input_value("#field-deadline") == "2h" and page.is_hidden("#banner")
    page.close()

"""A service on the page in a real browser: Debian's Chromium through Playwright."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from planner.cli import main
from planner.loading.scenario_file import load_scenario
from planner.web.setting_fields import controls_of, settings_of
from tests.helpers.browser import ONE_SESSION, axe_findings, chromium, plan_answers, screen_name, screens, watch
from tests.helpers.pages import MOVES, OFFICE, OFFICE_MOVES, served

PLANNED, DRAWN = "body:not(.stale)", "body:not(.stale):not(.late):not(.tracing)"

pytestmark = pytest.mark.ecosystem


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    pytest.importorskip("fastapi", reason="needs the extra web")
    yield from chromium()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("service")
    (made / "s.yaml").write_text(json.dumps(OFFICE), encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with served("s.yaml", cwd=folder) as (found, _):
        yield found


@pytest.fixture
def opened(browser: Any, address: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return the page of the small service; the console must stay empty, and nothing else may be asked."""
    context = browser.new_context(**getattr(request, "param", {}))
    context.set_default_timeout(120_000)  # other tests keep the cores busy
    context.add_init_script(ONE_SESSION)
    page = context.new_page()
    said = watch(page)
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    page.goto(address)
    page.wait_for_selector(DRAWN, timeout=120_000)
    yield page
    context.close()
    assert said == []
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


def settle(page: Any, state: str = PLANNED) -> None:
    """Wait until the plan, or with `DRAWN` the curve too, is that of the fields."""
    page.wait_for_timeout(50)
    page.wait_for_selector(state, timeout=120_000)


def set_field(page: Any, key: str, value: str) -> None:
    """Move a field as a person does."""
    box = page.locator(f"[id='field-{key}']")
    page.evaluate("() => { for (const one of document.querySelectorAll('details.more')) one.open = true; }")
    kind = box.evaluate("e => e.tagName + (e.type === 'checkbox' ? ' tick' : '')")
    if kind == "SELECT":
        box.select_option(value)
    elif kind == "INPUT tick":
        box.set_checked(value == "on")
    elif kind == "SUMMARY":
        if box.evaluate("e => !e.parentElement.open"):
            box.click()
        listed, forbids = value.removeprefix("!").split(","), value.startswith("!")
        for tick in box.locator("xpath=..").locator("input").all():
            name = tick.get_attribute("value")
            tick.set_checked((name not in listed) if forbids else (name in listed))
    else:
        box.fill(value)
        box.press("Tab")


def month(page: Any) -> str:
    """Return the dollars of a month that the page shows."""
    text: str = page.inner_text("#tiles strong >> nth=0")
    return text


def test_every_field_gives_the_figures_of_what_if(opened: Any, folder: Path) -> None:
    """Each field is moved alone; dollars on the page are those of `what-if --json`; Reset goes back."""
    start, controls = month(opened), controls_of(load_scenario(folder / "s.yaml").scenario)
    answers = plan_answers(opened)
    for key, value in OFFICE_MOVES.items():
        set_field(opened, key, value)
        settle(opened)
        command = opened.inner_text("#command").split("--set ", 1)
        assert len(command) == 2, key
        answer = answers[-1].json()
        (setting,) = answer["settings"]
        assert command[1].strip().strip("'") == setting, key
        is_read_so = [setting] == list(settings_of(controls, {key: value}, {}).values())
        assert is_read_so or key in ("gpus", "providers"), key  # ticks are the shorter of two lists
        usd = dict(answer["compared"]).get("a month", "no plan")
        assert opened.locator("#change-table tbody tr").first.locator("td").nth(2).inner_text() == usd, key
        if key in MOVES.keys() - {"budget", "spot"}:  # for the others see `test_service.py`
            words = ["what-if", str(folder / "s.yaml"), "--set", setting, "--json", "--as-of", "2026-11-21"]
            after = json.loads(CliRunner().invoke(main, words).stdout)["after"]
            assert usd == (f"${after['jobs'][0]['fleet']['usd_per_month']:,.2f}" if after["jobs"] else "no plan"), key
        opened.click("#reset")
        settle(opened)
        assert month(opened) == start, key


def test_the_curve_is_drawn_while_the_page_goes_on(opened: Any) -> None:
    """While a curve is drawn the page says so and takes changes; a change stops it, and the last one is drawn."""
    for load in ("5", "6", "7"):
        set_field(opened, "per_second", load)
        settle(opened)
    opened.wait_for_selector("#curve-lead:has-text('Drawing')")
    assert "7 requests/s" in opened.inner_text("#facts")
    settle(opened, DRAWN)
    assert "7 requests/s" in opened.inner_text("#curve-lead")


def test_the_curve_comes_with_a_few_points_first(opened: Any) -> None:
    """Four points are asked for first, then more of the same curve; a strip shows that the page computes."""
    asked: list[int] = []
    opened.on("request", lambda one: asked.append(json.loads(one.post_data)["points"]) if "frontier" in one.url else 0)
    set_field(opened, "per_second", "11")
    opened.wait_for_selector("body.stale")
    assert opened.evaluate("getComputedStyle(document.getElementById('state'), '::after').height") == "3px"
    settle(opened, DRAWN)
    assert asked[0] == 4 and asked == sorted(set(asked))
    assert "More points" not in opened.inner_text("#curve-lead")


def test_the_slider_goes_along_the_curve(opened: Any) -> None:
    """An arrow key sets the limit of the next point, whose plan costs what the curve said; the curve stays."""
    drawn = opened.inner_text("#curve-table")
    opened.focus("#within")
    opened.keyboard.press("Home")
    said, limit = opened.inner_text("#said"), opened.input_value("#field-tpot")
    settle(opened)
    assert limit in said and month(opened) in said and limit in opened.url
    assert opened.inner_text("#curve-table") == drawn
    opened.click("#undo")
    settle(opened)
    assert opened.input_value("#field-tpot") == "60ms"


def test_a_fleet_is_pinned_compared_and_reloaded(opened: Any) -> None:
    """A pin has the dollars and the fleet; the address brings back fields, pins and plan."""
    opened.click("#pin")
    set_field(opened, "per_second", "8")
    set_field(opened, "tpot", "40ms")
    settle(opened)
    pinned, shown = opened.inner_text("#pins"), month(opened)
    assert "a month" in pinned and "replicas" in pinned and "fleet" in pinned and shown in pinned
    assert "more a month" in opened.inner_text("#change-summary")
    opened.reload()
    settle(opened)
    assert month(opened) == shown and opened.inner_text("#pins") == pinned
    assert opened.input_value("#field-per_second") == "8"


def test_an_error_is_shown_at_its_field(opened: Any) -> None:
    """A time without a unit is refused at the limit, and the last plan stays."""
    before = month(opened)
    set_field(opened, "tpot", "40")
    opened.wait_for_selector("#field-tpot-wrong:not([hidden])")
    assert "no unit" in opened.inner_text("#field-tpot-wrong") and month(opened) == before
    set_field(opened, "tpot", "40ms")
    settle(opened)
    assert opened.is_hidden("#field-tpot-wrong")


def test_files_are_downloaded(opened: Any, tmp_path: Path) -> None:
    """Scenario, plan, report and the files that serve."""
    for kind, name, start in (
        ("scenario", "office.yaml", "# office"), ("plan", "office-plan.json", "{"),
        ("report", "office-report.html", "<!doctype"), ("exports", "office-exports.zip", "PK"),
    ):  # fmt: skip
        with opened.expect_download() as found:
            opened.click(f"[data-file={kind}]")
        assert found.value.suggested_filename == name
        found.value.save_as(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start.encode())


@pytest.mark.parametrize("opened", screens(390, 1024, 1440), indirect=True, ids=screen_name)
def test_it_fits_the_screen(opened: Any) -> None:
    """Nothing is wider than the screen, and no text of a picture is smaller than 9 pixels."""
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    small = opened.evaluate("""() => [...document.querySelectorAll('svg text')]
      .filter((t) => t.getClientRects().length && t.getBoundingClientRect().height < 9).map((t) => t.textContent)""")
    assert small == []


@pytest.mark.parametrize(
    "opened", [{"color_scheme": mode, "bypass_csp": True} for mode in ("light", "dark")], indirect=True
)
def test_axe_finds_nothing(opened: Any) -> None:
    """axe-core has no finding, with every part open and a fault shown."""
    opened.click("#pin")
    set_field(opened, "tpot", "soon")
    opened.wait_for_selector("#field-tpot-wrong:not([hidden])")
    assert axe_findings(opened) == []

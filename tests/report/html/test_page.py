"""The report as a page: complete without network, safe with any name, small, and with a table behind every chart."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.drawing.scene import Text
from planner.library.technique_tables import read_techniques
from planner.report.frontier_figure import frontier_data
from planner.report.plan_figures import WIDE, Figure, alternative_figures, bill_figure, memory_figure
from planner.report.report_page import MOST_BYTES, groups_of, json_block, render_page
from planner.results.plan_parts import Option
from planner.results.what_if import Overview
from tests.helpers.plans import make_assignment, make_infeasible, make_plan
from tests.helpers.reports import HOSTILE, small_overview, small_page


class Page(HTMLParser):
    """Elements with attributes, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, str]] = []
        self.words = ""
        self._open: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = tag if tag in ("script", "style") else None
        if self._open:
            self.raw.append((tag, ""))

    def handle_endtag(self, tag: str) -> None:
        self._open = None

    def handle_data(self, data: str) -> None:
        if self._open:
            self.raw[-1] = (self.raw[-1][0], self.raw[-1][1] + data)
        else:
            self.words += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def data_of(page: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Page(page).raw[1][1])
    return found


@pytest.mark.long
def test_names_are_text() -> None:
    """A job named like a script adds no element: the page has its own two scripts, no handler and no inline style."""
    page = Page(small_page())
    assert [tag for tag, _ in page.raw] == ["style", "script", "script"]
    assert page.all("b") == []
    assert HOSTILE in page.words
    assert not any(key.startswith("on") or key == "style" for _, attributes in page.elements for key in attributes)


@pytest.mark.long
def test_nothing_comes_from_elsewhere() -> None:
    """No element names a file or a host; links go to places of the page."""
    page = Page(small_page())
    named = [a[key] for _, a in page.elements for key in ("src", "href", "action", "data") if key in a]
    assert named and all(str(target).startswith("#") for target in named)
    anchors = {a["id"] for _, a in page.elements if "id" in a}
    assert all(str(target)[1:] in anchors for target in named)


@pytest.mark.long
def test_the_policy_admits_this_style_and_this_script_alone() -> None:
    """The hashes of the policy are those of the texts; everything else is refused."""
    page = Page(small_page())
    policy = next(a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    style, _, script = (text for _, text in page.raw)
    for kind, text in (("style", style), ("script", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in str(policy)
    assert "default-src 'none'" in str(policy) and "unsafe" not in str(policy)


@pytest.mark.long
def test_ids_are_unique_and_pictures_have_words() -> None:
    """Every picture has a title and a description; no id is used twice."""
    page = Page(small_page())
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    pictures = page.all("svg")
    assert pictures and all(set(str(a["aria-labelledby"]).split()) <= set(ids) for a in pictures)


@pytest.mark.long
def test_every_chart_has_its_table() -> None:
    """Each figure has rows, as wide as its header, and the page shows them all."""
    groups = groups_of(small_overview())
    figures = [figure for group in groups for figure in group.figures]
    keys = {group.key for group in groups}
    assert keys >= {"cost-time", "bill", "memory", "timetable", "alternatives", "tornado", "simulation", "assumptions"}
    for figure in figures:
        assert figure.table.rows, figure.key
        assert {len(row) for row in figure.table.rows} == {len(figure.table.header)}, figure.key
    assert len(Page(small_page()).all("tbody")) == len(figures)


@pytest.mark.long
def test_the_slider_has_the_frontier() -> None:
    """The figures behind the slider are those of the frontier: along a slope the bill adds up to the cost."""
    found = small_overview().frontier
    assert found is not None
    data = data_of(small_page())["frontier"]
    assert [point["u"] for point in data["points"]] == pytest.approx(
        [point.cost_usd for point in found.points], abs=1e-5
    )
    falling = [one for one in found.segments if one.hours_to > one.hours_from]
    assert len(data["slopes"]) == len(falling) > 0
    sums = [sum(bill[1::2]) for bill in data["bills"]]
    for h0, u0, h1, u1, _, left, right, _ in data["slopes"]:
        assert h0 < h1 and u0 >= u1
        ends = [(sums[bill], usd) for bill, usd in ((left, u0), (right, u1)) if bill >= 0]
        assert all(total == pytest.approx(usd, abs=0.03) for total, usd in ends)
    for point in data["points"]:
        assert sums[point["b"]] == pytest.approx(point["u"], abs=0.03)


@given(st.text(), st.text())
def test_a_data_block_cannot_be_left(name: str, value: str) -> None:
    """Whatever a name is, the block has no sign that HTML reads, and the data are the same."""
    block = json_block({name: value + HOSTILE})
    assert not set("<>&\u2028\u2029") & set(block)
    assert json.loads(block) == {name: value + HOSTILE}


def test_an_infeasible_scenario_says_what_would_help() -> None:
    """The page has the smallest changes with their settings, and no figures."""
    plan = make_infeasible()
    page = Page(render_page(Overview(plan=plan)))
    assert "No plan keeps the deadline of 2 h and the budget of $10.00 (least within $10.00: 2.63 h)." in page.words
    assert plan.infeasible is not None and plan.infeasible.relax
    for change in plan.infeasible.relax:
        assert change.setting in page.words
    assert page.all("svg") == []


def test_the_rows_of_bill_and_memory_add_up_to_their_totals() -> None:
    """Parts and margin are what is needed, with what is free what is usable; items are the total."""
    vram = {"peak": 18.53, "allocated": 14.37, "usable": 23.6, "fit_probability": 0.99, "phase": "forward"}
    parts = {"weights": 4.633, "adapters": 0.156, "optimizer": 0.3125, "gradients": 0.3125, "activations": 8.956}
    job = make_assignment(vram_gib={**vram, "parts": parts})
    figure = memory_figure(make_plan(job))
    assert figure is not None and figure.table is not None
    sizes = {part: float(size.split()[0]) for _, part, size in figure.table.rows}
    *made, needed, free, usable = sizes.values()
    assert "overhead and margin" in sizes
    assert (sum(made), needed + free) == pytest.approx((needed, usable))
    table = bill_figure(make_plan(job)).table
    assert table is not None
    usd = [float(row[4].replace("$", "")) for row in table.rows]
    assert sum(usd[:-1]) == pytest.approx(usd[-1])


def test_a_plan_alone_is_a_report() -> None:
    """Without analyses there are the plan, its bill, memory and timetable."""
    page = render_page(Overview(plan=make_plan(), skipped={"tornado": "not asked for"}))
    assert [group.key for group in groups_of(Overview(plan=make_plan()))][:3] == ["bill", "memory", "timetable"]
    assert "not asked for" in page


def framework_figure(own_usd: float, others: dict[str, float]) -> tuple[str, Figure]:
    """Return the label of the plan's framework, and the comparison of it with others, its own least cost 2 cents less.

    The plan takes 5.3 h, and what costs least of its framework 10.5 h.
    """
    own = read_techniques().frameworks["hf-fused"].label
    costs = {own: own_usd - 0.02, **others}
    options = tuple(
        Option(label=name, provider="p", gpu="A5000", gpus=2, cost_usd=usd, hours=10.5) for name, usd in costs.items()
    )
    hours = {"expected": 5.3, "low": 4.2, "high": 6.7, "at_confidence": 6.6}
    job = make_assignment(cost_usd=own_usd, hours=hours, framework="hf-fused")
    figures = alternative_figures(make_plan(job.model_copy(update={"frameworks": options})), None)
    (figure,) = [figure for figure in figures if figure.title == "Framework"]
    return own, figure


def test_the_bars_of_alternatives_rise_and_the_plan_is_one_of_them() -> None:
    """A framework's least cost may be a near tie that the plan leaves: its bar, and the caption, are the plan's."""
    own, figure = framework_figure(3.44, {"slow": 4.75, "cheap": 2.69})
    assert f"the plan has {own}, $3.44, likely 5.3 h" in figure.lead
    assert [(row[0], *row[2:4]) for row in figure.table.rows] == [
        ("cheap", "10.5 h", "$2.69"),
        (own, "5.3 h", "$3.44"),
        ("slow", "10.5 h", "$4.75"),
    ]


def test_the_plan_keeps_its_bar_where_many_others_cost_less() -> None:
    """Of more bars than fit, the last one is the plan's."""
    own, figure = framework_figure(50.0, {f"other {number}": 3.0 + number for number in range(12)})
    assert figure.draw is not None
    texts = [shape.text for shape in figure.draw(WIDE).shapes if isinstance(shape, Text)]
    assert own in texts and "other 8" in texts and "other 9" not in texts


def test_many_jobs_stay_within_the_size() -> None:
    """Two hundred jobs with long names, and files of a megabyte: under 300 kB, and the page says what is left out."""
    jobs = [make_assignment(name=f"job {number} " + "long " * 20) for number in range(200)]
    page = render_page(Overview(plan=make_plan(*jobs)), {"plan.json": "x" * 1_000_000})
    assert len(page.encode()) < MOST_BYTES
    assert "plan.json is left out for its size" in page and "more rows are left out" in page


@pytest.mark.long
def test_equal_plans_of_breakpoints_are_stored_once() -> None:
    """The block stores each configuration and each bill once, so that hundreds of breakpoints stay small."""
    found = small_overview().frontier
    assert found is not None
    data = frontier_data(found)
    texts = [json.dumps(plan) for plan in data["plans"]]
    assert len(texts) == len(set(texts)) <= len(data["points"])
    assert len(set(data["bills"])) == len(data["bills"])


def test_the_page_has_no_sign_that_hides_text() -> None:
    """Signs that turn the direction of writing are shown as escapes."""
    page = render_page(Overview(plan=make_plan(make_assignment(name="a\u202egnp.exe"))))
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", page)
    assert "\\u202egnp" in page

"""The text of a frontier: what to take from it first, 80 columns, nothing left out without saying so."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.report.frontier_text import MAX_BREAKPOINTS, deadline_of, describe_hardware, format_hours, render_frontier
from planner.report.words import WIDTH
from planner.results.frontier import (
    MINIMISES_END,
    Curve,
    Frontier,
    HiddenByLimit,
    PlannedPoint,
    Point,
    Segment,
    SegmentJob,
)
from planner.results.plan_parts import CandidateCounts
from tests.helpers.plans import make_assignment, make_infeasible

KNEE = "each hour up to here saves $8.39 on average, those after it at most $0.57 on average"
WAYS: tuple[tuple[float, float, dict[str, Any], str], ...] = (
    (0.61, 212.4, {"gpu": "H100-80GB", "gpus": 8, "provider": "lambda", "techniques": {"weight_bits": 16}}, ""),
    (11.0, 148.9, {"gpu": "A100-80GB", "gpus": 8, "provider": "runpod-community"}, "4-bit, other GPU"),
    (14.2, 97.5, {"gpu": "H100-80GB", "gpus": 4, "provider": "nebius", "spot_share": 0.4}, "other GPU, spot begins"),
    (61.0, 70.81, {"gpu": "RTX4090", "gpus": 2, "provider": "vast"}, "2 GPUs instead of 4, other provider"),
)

GOLDEN = """\
tokens: $70.81 by 61.0 h to $212.40 by 0.61 h

  by h  likely h cost $  plan                                  change
  0.61*     0.55 212.40  8 x H100-80GB, lambda, LoRA
  11.0       9.9 148.90  8 x A100-80GB, runpod-community,      4-bit, other GPU
                         QLoRA
  14.2      12.8  97.50  4 x H100-80GB, nebius, QLoRA, spot    best value: other
                         40 %                                  GPU, 4 GPUs
                                                               instead of 8
> 61.0      54.9  70.81  2 x RTX4090, vast, QLoRA              other GPU, 2 GPUs
                                                               instead of 4
  > your plan, as planner solve gives it
  * more than half of the hours are machine start

  by: holds with 90 % confidence; likely and cost are best estimates
  best value $97.50 by 14.2 h: each hour up to here saves $8.39 on average,
    those after it at most $0.57 on average
  ends at the 72 h deadline of tokens; beyond it $60.00 by 99.0 h with
    --set jobs.tokens.deadline=null
proven: 4 segments of 2,954 candidates; no plan is cheaper or faster"""

CURVES = """\
tokens: $70.81 by 61.0 h to $212.40 by 0.61 h

method              fastest, by         best value, by      cheapest, by
QLoRA               0.61 h $212.40      14.2 h $97.50       61.0 h $70.81
excluded by the scenario:
full                11.0 h $148.90      -                   11.0 h $148.90
  infeasible within the limits: LoRA

  by: holds with 90 % confidence; cost is a best estimate
  best value $97.50 by 14.2 h: each hour up to here saves $8.39 on average,
    those after it at most $0.57 on average
proven: 4 segments of 2,954 candidates; no plan is cheaper or faster"""


def make_point(hours: float, usd: float, way: dict[str, Any], change: str = "", **more: Any) -> Point:
    job = make_assignment(**way)
    given = {"expected_hours": hours * 0.9, "bound": usd, "gap": 0.0, "jobs": (job,), **more}
    return Point(hours=hours, cost_usd=usd, change=change, **given)


def planned(point: Point, **changes: Any) -> PlannedPoint:
    """The plan of `solve` where it is a breakpoint."""
    held = {"hours": point.hours, "expected_hours": point.expected_hours, "cost_usd": point.cost_usd}
    return PlannedPoint(**{**held, "jobs": point.jobs, **changes})


def make_frontier(**changes: Any) -> Frontier:
    points = tuple(make_point(*way, knee=KNEE if i == 2 else "", mostly_start_up=i == 0) for i, way in enumerate(WAYS))
    leg = SegmentJob(
        name="tokens", provider="vast", offer="a", gpu="A", gpus=1, method="LoRA", spot_share_from=0, spot_share_to=0
    )
    segments = tuple(
        Segment(hours_from=p.hours, hours_to=p.hours, cost_from_usd=p.cost_usd, cost_to_usd=p.cost_usd, jobs=(leg,))
        for p in points
    )
    data: dict[str, Any] = {
        "scenario": "tokens",
        "status": "optimal",
        "exact": True,
        "confidence": 0.9,
        "points": points,
        "segments": segments,
        "knee": 2,
        "candidates": CandidateCounts(made=2954, rejected=0, dominated=2950),
        "solver": "envelope",
        "seconds": 0.1,
        "as_of": "2026-11-21",
    }
    of = changes.get("points", points)
    return Frontier(**{**data, "solved": planned(of[-1]) if of else None, **changes})


def test_the_plan_is_a_row_where_it_is_a_near_tie_above_the_curve() -> None:
    """The mark is that of the plan of `solve`, never of the cheapest row instead; its row has its own figures."""
    found = make_frontier()
    between = planned(found.points[2], hours=20.0, cost_usd=98.1)
    shown = render_frontier(found.model_copy(update={"solved": between}))
    assert [line.split()[1:4] for line in shown.splitlines() if line.startswith("> ")] == [["20.0", "12.8", "98.10"]]
    assert "$0.60 above the least cost by then, among near ties" in " ".join(shown.split())
    assert "\n> " not in render_frontier(found.model_copy(update={"solved": None}))


def test_a_plan_of_earliest_end_is_no_near_tie_of_cost() -> None:
    """Where time is minimised, the plan may cost more than every row: the range names it, and it is no tie."""
    found = make_frontier(notes=(MINIMISES_END,))
    dear = planned(found.points[0], hours=0.615, cost_usd=230.0)
    shown = " ".join(render_frontier(found.model_copy(update={"solved": dear})).split())
    assert shown.startswith("tokens: $70.81 by 61.0 h to $212.40 by 0.61 h; your plan $230.00 by 0.62 h")
    assert "the earliest end is chosen, not the least cost; a plan that ends no later costs $17.60 less" in shown
    assert "near ties" not in shown and "takes the first" not in shown


def test_a_frontier_of_one_job_reads_as_agreed() -> None:
    """The whole layout, to the letter."""
    beyond = HiddenByLimit(
        limit="jobs.tokens.deadline", limit_hours=72, cost_usd=60, hours=99, setting="jobs.tokens.deadline=null"
    )
    assert render_frontier(make_frontier(beyond=(beyond,))) == GOLDEN


def row_of(found: Frontier, hours: str, every: bool = False) -> str:
    """A row of the table, all lines of it joined, the columns parted by one space."""
    lines = render_frontier(found, every).splitlines()
    lines = [line.replace("> ", "  ", 1) if line.startswith("> ") else line for line in lines]
    first = next(i for i, line in enumerate(lines) if line.split()[:1] in ([hours], [f"{hours}~"]))
    last = next((i for i in range(first + 1, len(lines)) if not lines[i].startswith(" " * 12)), len(lines))
    return " ".join(" ".join(lines[first:last]).split())


def slope(begin: tuple[float, float], end: tuple[float, float], to_included: bool = True) -> Segment:
    (hours_from, usd_from), (hours_to, usd_to) = begin, end
    return Segment(
        hours_from=hours_from,
        hours_to=hours_to,
        cost_from_usd=usd_from,
        cost_to_usd=usd_to,
        to_included=to_included,
        jobs=(),
    )


def test_what_changes_is_told_against_the_row_above_not_against_a_hidden_one() -> None:
    """Of 40 breakpoints 16 are shown: every change begins from what the row above it rents."""
    points = tuple(make_point(1.0 + i, 100.0 - i, {"gpus": i + 1}, f"{i + 1} GPUs instead of {i}") for i in range(40))
    shown = render_frontier(make_frontier(points=points, segments=(), knee=None))
    rows = [line for line in shown.splitlines() if " x RTX3090" in line]
    counts = [int(row[: row.index(" x RTX3090")].split()[-1]) for row in rows]
    assert len(counts) == MAX_BREAKPOINTS and counts[1] - counts[0] > 1
    for above, here, row in zip(counts, counts[1:], rows[1:], strict=False):
        assert row.endswith(f"{here} GPUs instead of {above}")
    whole = render_frontier(make_frontier(points=points, segments=(), knee=None), every=True)
    assert "40 GPUs instead of 39" in whole


def test_the_knee_says_what_changes_and_how_the_cost_falls() -> None:
    """Between 2.9 h and 5.2 h spot takes over bit by bit; neither the knee nor the width swallows that."""
    card = {"gpu": "H100-80GB", "gpus": 8, "provider": "nebius", "techniques": {"method": "full"}}
    points = (
        make_point(2.9, 38.5, {**card, "spot_share": 0.2}),
        make_point(5.2, 26.4, {**card, "spot_share": 0.8}, "spot 20 % to 80 %", knee=KNEE),
        make_point(34.6, 23.1, {**card, "gpus": 1, "spot_share": 0.8}, "1 GPU instead of 8"),
    )
    found = make_frontier(points=points, segments=(slope((2.9, 38.5), (5.2, 26.4)),), knee=1)
    assert row_of(found, "5.2").endswith("spot 80 % best value: spot 20 % to 80 %, falls $5.26/h")
    assert row_of(found, "34.6").endswith("1 GPU instead of 8")
    assert "falls $/h: the cost falls linearly up to this row; elsewhere in one step" in render_frontier(found)
    assert "evenly" not in render_frontier(make_frontier())


def test_a_slope_that_begins_late_or_ends_in_a_drop_is_told_so() -> None:
    """Level first, then falling; and falling until another way takes over."""
    late = make_frontier(segments=(slope((8.0, 212.4), (11.0, 148.9)),))
    assert "4-bit, other GPU" in row_of(late, "11.0")
    assert row_of(late, "11.0").endswith("falls $21.17/h from 8.0 h on")
    drop = make_frontier(segments=(slope((0.61, 212.4), (11.0, 160.0), to_included=False),))
    assert "falls $5.04/h, " in row_of(drop, "11.0")
    assert row_of(drop, "11.0").endswith("then 4-bit, other GPU")


def test_spot_only_points_are_marked_and_their_hours_are_not_promised() -> None:
    """What solve calls not guaranteed does not hold with 90 % confidence; curves mark it, too."""
    points = (make_point(*WAYS[1]), make_point(*WAYS[3], spot_only=True))
    found = make_frontier(points=points, segments=(), knee=None)
    shown = render_frontier(found)
    assert shown.splitlines()[0].startswith("tokens: $70.81 by 61.0 h (spot only)")
    assert "\n> 61.0~ " in shown and "11.0~" not in shown
    assert "holds with 90 % confidence, except those marked ~ (spot only" in shown
    assert "(spot only, " in shown and "(spot only, " not in render_frontier(make_frontier())
    assert "61.0 h $70.81~" in render_frontier(
        make_frontier(points=points, knee=None, by="gpu", curves=(Curve(label="RTX4090", points=points),))
    )
    assert "(spot only: no guarantee)" in found._repr_html_()


def test_a_deadline_to_ask_for_is_the_end_as_shown_unless_another_plan_lies_up_to_there() -> None:
    """Digits are kept only where the shown end would give another plan."""
    points = (make_point(3.412, 9.0, {}), make_point(3.44, 8.0, {}), make_point(7.0, 7.0, {}))
    found = make_frontier(points=points, segments=(), knee=None)
    assert [deadline_of(found, index) for index in range(3)] == [3.42, 3.5, 7.0]
    falling = make_frontier(points=points, segments=(slope((3.44, 8.0), (7.0, 7.0)),), knee=None)
    assert deadline_of(falling, 1) == 3.44


def test_curves_read_as_agreed() -> None:
    """Fastest, knee and cheapest of each; what is not allowed and what cannot be come last."""
    found = make_frontier()
    curves = (
        Curve(label="QLoRA", points=found.points, knee=2),
        Curve(label="LoRA"),
        Curve(label="full", allowed=False, points=found.points[1:2]),
    )
    assert render_frontier(make_frontier(by="method", curves=curves)) == CURVES


def test_without_a_way_the_reasons_are_told() -> None:
    """The same explanation as of solve."""
    explained = make_infeasible()
    found = make_frontier(status="infeasible", points=(), segments=(), knee=None, infeasible=explained.infeasible)
    first = "tokens: no plan keeps the deadline of too-tight, 2 h and the budget of $10.00\n"
    assert render_frontier(found).startswith(f"{first}  least within $10.00: 2.63 h\n")


def test_one_point_is_fastest_and_cheapest() -> None:
    """No range, no knee."""
    found = make_frontier(points=(make_point(*WAYS[1]),), knee=None)
    first = render_frontier(found).splitlines()[0]
    assert first == "tokens: $148.90 by 11.0 h; the fastest plan is also the cheapest"


def test_solved_points_tell_their_proof_and_notes() -> None:
    """A gap is not passed over."""
    note = "the 3 jobs get in each other's way: solved together at 2 of 5 breakpoints where they do"
    told = render_frontier(make_frontier(exact=False, notes=(note,)))
    assert "4 points, each optimal, none dominated" in told
    assert "solved together at 2 of 5 breakpoints" in told
    loose = make_frontier(exact=False, points=(make_point(*WAYS[0], gap=0.02), make_point(*WAYS[3])), knee=None)
    assert "at most 2.0 % can be saved at the same end" in " ".join(render_frontier(loose).split())


def test_where_not_exact_each_row_tells_what_nothing_before_the_next_one_undercuts() -> None:
    """A column of bounds, the end telling the most that is left open; an exact frontier needs neither."""
    points = (make_point(*WAYS[0], floor_usd=150.25), make_point(*WAYS[1], floor_usd=148.9), make_point(*WAYS[2]))
    shown = render_frontier(make_frontier(exact=False, points=points, segments=(), knee=None))
    assert " ".join(shown.splitlines()[2].split()) == "by h likely h cost $ bound $ plan change"
    assert "212.40  150.25  8 x H100" in shown and "148.90  148.90  8 x A100" in shown
    assert "bound: no plan that ends before the next row costs less" in shown
    assert "3 points, each optimal, none dominated; a plan between two saves" in shown
    assert "bound" not in render_frontier(make_frontier())


def test_the_bound_of_a_row_holds_up_to_the_next_row_that_is_shown() -> None:
    """Of breakpoints left out between the two it is the last one's."""
    points = tuple(make_point(1.0 + i, 100.0 - i, {"gpus": i + 1}, floor_usd=99.5 - i) for i in range(40))
    shown = render_frontier(make_frontier(exact=False, points=points, segments=(), knee=None))
    rows = [line.strip("> ").split() for line in shown.splitlines() if " x RTX3090" in line]
    for row, after in itertools.pairwise(rows):
        assert float(row[3].strip("$")) == float(after[2].strip("$")) + 0.5


def test_breakpoints_without_room_are_counted_and_can_be_asked_for() -> None:
    """At most 16 rows, the rest named as left out; --all shows every one."""
    points = tuple(make_point(1.0 + i, 100.0 - i, {"gpus": i + 1}, "more") for i in range(40))
    found = make_frontier(points=points, knee=None)
    short, whole = render_frontier(found), render_frontier(found, every=True)
    assert sum(" x RTX3090" in line for line in short.splitlines()) <= MAX_BREAKPOINTS
    assert "not shown (--all shows them)" in short
    assert sum(" x RTX3090" in line for line in whole.splitlines()) == 40
    assert "left out" not in whole


def test_the_knee_is_not_told_twice() -> None:
    """A breakpoint that reads as the knee after it is no row of its own; --all has both."""
    way = {"gpu": "H100-80GB", "gpus": 4}
    points = (
        make_point(1.0, 90.0, {"gpus": 2}),
        make_point(14.201, 50.004, way),
        make_point(14.204, 50.001, way, knee=KNEE),
        make_point(20.0, 40.0, {"gpus": 1}),
    )
    found = make_frontier(points=points, knee=2)
    rows = [line for line in render_frontier(found).splitlines() if "50.00" in line and "RTX3090" not in line]
    assert len(rows) == 2 and "best value:" in rows[0] and "best value $" in rows[1]  # one row, and the note
    assert render_frontier(found, every=True).count("50.00 ") == 3


def test_neighbours_on_equal_machines_are_counted() -> None:
    """Three jobs, of which the first two rent alike: one entry with their number, and the third."""
    alike, other = make_assignment(gpu="RTX4090", gpus=2), make_assignment(gpu="H100-80GB", gpus=1)
    point = make_point(8.0, 20.0, {}, jobs=(alike, alike, other))
    assert describe_hardware(point, 80) == ["2 x RTX4090 each (2 jobs), 1 x H100-80GB"]
    assert describe_hardware(point, 18) == ["2 x RTX4090 each", "(2 jobs),", "1 x H100-80GB"]


@pytest.mark.parametrize(("hours", "told"), [(0.304, "0.30"), (1.04, "1.0"), (999.0, "999.0"), (1234.5, "1,234")])
def test_hours_have_the_digits_that_tell_breakpoints_apart(hours: float, told: str) -> None:
    """Below an hour two decimals, from a thousand on none."""
    assert format_hours(hours) == told


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    name=st.text(min_size=1, max_size=60),
    provider=st.text(min_size=1, max_size=40),
    change=st.text(max_size=60),
    usd=st.floats(0.01, 1e7),
    hours=st.floats(0.01, 1e5),
    knee=st.booleans(),
)
def test_lines_keep_their_width_whatever_things_are_called(
    name: str, provider: str, change: str, usd: float, hours: float, knee: bool
) -> None:
    """80 columns, no character that steers a terminal."""
    points = (
        make_point(hours, usd, {"provider": provider}),
        make_point(hours * 2, usd / 2, {"provider": provider}, change, knee=KNEE if knee else ""),
        make_point(hours * 4, usd / 3, {}, change),
    )
    curves = (Curve(label=provider, points=points, knee=1 if knee else None), Curve(label=name))
    for by, some in ((None, ()), ("provider", curves)):
        shown = render_frontier(
            make_frontier(scenario=name, points=points, knee=1 if knee else None, by=by, curves=some)
        )
        for line in shown.split("\n"):
            assert len(line) <= WIDTH
            assert line == "" or line.isprintable()

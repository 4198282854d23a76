"""What-if as text: the verdict first, 80 columns, nothing lost that a reader needs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from planner.report.frontier_figure import step_style
from planner.report.what_if_text import (
    describe_setting,
    format_difference,
    format_hours_difference,
    format_value,
    render_sweep,
    render_tornado,
    render_what_if,
    shown_difference,
    shown_hours_difference,
)
from planner.results.explanation import compare
from planner.results.plan import Plan
from planner.results.what_if import (
    Axis,
    Bar,
    BillDelta,
    Cell,
    CellJob,
    Delta,
    Effect,
    Endpoint,
    JobDelta,
    Sweep,
    Tornado,
    WhatIf,
)
from tests.helpers.plans import make_assignment, make_infeasible, make_plan

NONE = Delta(cost_usd=None, hours=None)
BEFORE = make_plan()
OTHER = make_assignment(
    gpu="A100-PCIe-40GB",
    techniques={"weight_bits": 16, "activation_checkpointing": "none"},
    hours={"expected": 6.2, "low": 5.0, "high": 7.7, "at_confidence": 7.9},
    cost={"expected": 3.97, "low": 3.1, "high": 4.9},
    cost_usd=3.97,
    deadline_hours=8.0,
)
AFTER = make_plan(
    OTHER,
    cost={"expected": 3.97, "low": 3.1, "high": 4.9},
    hours={"expected": 6.2, "low": 5.0, "high": 7.7, "at_confidence": 7.9},
)
SETTINGS = ("jobs.quickstart.deadline=8h", "limits.gpus.forbid=[H100-80GB]")


def spread(expected: float) -> dict[str, float]:
    return {"expected": expected, "low": expected, "high": expected}


def made(before: Plan = BEFORE, after: Plan = AFTER, **fields: Any) -> WhatIf:
    job = JobDelta(
        name="quickstart",
        changes=compare(before.jobs[0], after.jobs[0]) if before.jobs and after.jobs else (),
        bill=(BillDelta(item="gpu on demand", before_usd=2.72, after_usd=3.9),),
        delta=Delta(cost_usd=1.15, hours=-15.22),
        ruled_out=214,
    )
    effects = tuple(
        Effect(
            setting=setting,
            alone_status="optimal",
            alone=Delta(cost_usd=share, hours=-1.0),
            last=Delta(cost_usd=share, hours=-1.0),
            share=Delta(cost_usd=share, hours=-1.0),
            ruled_out=lost,
        )
        for setting, share, lost in zip(SETTINGS, (0.74, 0.41), (214, 0), strict=True)
    )
    data: dict[str, Any] = {
        "scenario": "quickstart",
        "settings": SETTINGS,
        "better": "cheaper",
        "before": before,
        "after": after,
        "delta": Delta(cost_usd=1.15, hours=-15.22) if before.jobs and after.jobs else NONE,
        "jobs": (job,) if before.jobs and after.jobs else (),
        "effects": effects,
    }
    return WhatIf(**{**data, **fields})


def fits(text: str) -> list[str]:
    lines = text.split("\n")
    assert all(len(line) <= 80 and line == line.rstrip() for line in lines), max(lines, key=len)
    assert "!" not in text.replace("  !", "")
    return lines


def test_before_and_after_stand_side_by_side() -> None:
    """The verdict tells what it costs and what changed; then a row per thing, and why."""
    lines = fits(render_what_if(made()))
    assert lines[0] == "quickstart: $1.15 more, likely 15.2 h earlier; 16-bit, other GPU"
    text = "\n".join(lines)
    assert re.search(r"^ +before +after$", text, re.M)
    assert re.search(r"^plan +1 x RTX3090 at vast.* 1 x A100-PCIe-40GB", text, re.M)
    assert re.search(r"^techniques .*4-bit.* 16-bit", text, re.M)
    assert re.search(r"^GPU on demand +2\.72 +3\.90 \(\+1\.18\)$", text, re.M)
    assert re.search(r"^cost +\$2\.82 +\$3\.97 +\(\+\$1\.15\)$", text, re.M)
    assert re.search(r"^likely +21\.4 h \(17\.0 to 27\.1\) +6\.2 h \(5\.0 to 7\.7\) +\(-15\.2 h\)$", text, re.M)
    assert re.search(r"^in time +36 h with .* 8 h with ", text, re.M)
    assert "the deadline of 8h: +$0.74 of the +$1.15; rules out 214 cheaper candidates" in " ".join(text.split())
    assert "forbidding H100-80GB: +$0.41 of the +$1.15" in text
    assert "mean of the effect of each setting alone and" in text


def test_the_lines_of_the_bill_add_up_to_the_cost() -> None:
    """What is not shown by itself, and what rounding lacks, is one line without a difference."""
    lines = fits(render_what_if(made()))
    first, last = (next(at for at, line in enumerate(lines) if line.startswith(start)) for start in ("GPU", "cost "))
    assert lines[last - 1].split()[:2] == ["all", "else"]
    shown = [[float(one) for one in re.findall(r"(?<= )[\d.]+\b", line)] for line in lines[first:last]]
    cost = [float(one) for one in re.findall(r" \$([\d.]+)", lines[last])]
    assert [round(sum(column), 2) for column in zip(*shown, strict=True)] == cost


def test_a_line_of_the_bill_has_its_name_in_a_plan() -> None:
    """A plan calls starts and losses what they are: the names fit their column."""
    (job,) = made().jobs
    bill = (BillDelta(item="starts and losses", before_usd=0.1, after_usd=0.2),)
    lines = fits(render_what_if(made(jobs=(job.model_copy(update={"bill": bill}),))))
    assert any(line.startswith("restarts, lost work  0.10") for line in lines)


def test_a_difference_is_that_of_the_figures_shown() -> None:
    """From $3.08 to $3.10 is $0.02, whatever the third decimals are; in the verdict, too."""
    after = make_plan(make_assignment(cost_usd=3.1049, gpu="A6000"), cost=spread(3.1049))
    before = make_plan(make_assignment(cost_usd=3.0751), cost=spread(3.0751))
    text = render_what_if(made(before, after, effects=(), delta=Delta(cost_usd=0.0298, hours=0.0)))
    assert re.search(r"^cost +\$3\.08 +\$3\.10 +\(\+\$0\.02\)$", text, re.M)
    assert text.startswith("quickstart: $0.02 more")
    assert (
        shown_difference(3.0751, 3.1049),
        shown_hours_difference(1.24, 2.26),
        shown_hours_difference(0.0, 0.06),
    ) == (0.02, 1.1, 0.06)


def test_a_long_name_is_not_cut_where_fewer_words_will_do() -> None:
    """The second difference stands in the table anyway."""
    name = "thirteen-b-with-a-tight-deadline"
    first = fits(render_what_if(made(scenario=name)))[0]
    assert first == f"{name}: $1.15 more, likely 15.2 h earlier; 16-bit"


def test_one_setting_has_no_shares() -> None:
    """All of the difference is its own; what it ruled out is still told."""
    text = render_what_if(made(settings=SETTINGS[:1], effects=()))
    assert "the deadline of 8h rules out 214 cheaper candidates" in " ".join(text.split())
    assert "shares" not in text and "of the +$" not in text


def test_nothing_changes_is_said_plainly_with_what_it_would_take() -> None:
    """One verdict, the plan that stays, and the value that would change it; no table of equals."""
    same = made(
        after=BEFORE,
        delta=Delta(cost_usd=0, hours=0),
        jobs=(JobDelta(name="quickstart", delta=Delta(cost_usd=0, hours=0)),),
        it_would_take=("a deadline under 27.9 h would",),
    )
    lines = fits(render_what_if(same))
    assert lines[0] == "quickstart: nothing changes"
    assert "a deadline under 27.9 h would" in lines[2]
    assert len(lines) == 3


def test_infeasible_after_is_explained_and_possible_after_is_told() -> None:
    """The obstacles are those of `solve`; the other way round there is a plan where was none."""
    gone = "\n".join(fits(render_what_if(made(after=make_infeasible()))))
    assert gone.startswith("quickstart: infeasible after the change\n")
    assert "near: " in gone and "$2.82" in gone
    back = fits(render_what_if(made(before=make_infeasible(), effects=())))
    assert back[0].startswith("quickstart: feasible after the change: 1 x A100-PCIe-40GB")
    assert any(re.match(r"plan +no plan +1 x A100", line) for line in back)


def test_of_several_jobs_those_that_changed_have_a_block() -> None:
    """The others are one line."""
    jobs = [make_assignment(name=name) for name in ("a", "b", "c")]
    changed = make_assignment(name="b", gpu="H100-80GB", cost_usd=9.0)
    before, after = make_plan(*jobs), make_plan(jobs[0], changed, jobs[2], cost=spread(9.0))
    quiet = Delta(cost_usd=0, hours=0)
    deltas = (
        JobDelta(name="a", delta=quiet),
        JobDelta(name="b", changes=compare(jobs[1], changed), delta=Delta(cost_usd=6.18, hours=0)),
        JobDelta(name="c", delta=quiet),
    )
    lines = fits(render_what_if(made(before, after, jobs=deltas, effects=(), delta=Delta(cost_usd=6.18, hours=0))))
    assert lines[0] == "quickstart: $6.18 more, the same hours; 1 of 3 jobs change"
    assert "b" in lines and "a" not in lines
    assert "unchanged: a, c" in lines


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("jobs.x.deadline=8h", "the deadline of 8h"),
        ("jobs.x.deadline=null", "removing the deadline"),
        ("limits.gpus.forbid=[H100-80GB, H200]", "forbidding H100-80GB, H200"),
        ("limits.providers.allow=vast", "allowing only vast"),
        ("limits.budget_usd=100", "the budget of $100"),
        ("adjust.0.usd_per_hour_factor=1.2", "the changed price"),
        ("jobs.x.techniques.weight_bits=16", "techniques.weight_bits = 16"),
        ("limits.max_gpus=4", "limits.max_gpus = 4"),
    ],
)
def test_settings_are_told_in_words(setting: str, said: str) -> None:
    """As the subject of a sentence."""
    assert describe_setting(setting) == said


def test_differences_have_a_sign() -> None:
    """But nothing has none."""
    assert [format_difference(value) for value in (1.15, -1.15, 0.001)] == ["+$1.15", "-$1.15", "$0.00"]
    assert [format_hours_difference(value) for value in (2.0, -2.0)] == ["+2.0 h", "-2.0 h"]


def cell(*values: str, cost: float | None = 3.0, gpu: str = "A5000") -> Cell:
    if cost is None:
        return Cell(values=values, status="infeasible")
    job = CellJob(
        name="x",
        provider="vast",
        gpu=gpu,
        gpus=2,
        method="LoRA",
        spot_share=0,
        cost_usd=cost,
        hours=9.4,
        start_hours=0.2,
    )
    return Cell(values=values, status="optimal", cost_usd=cost, hours=9.4, hours_at_confidence=12.0, jobs=(job,))


HOURS = Axis(path="jobs.x.deadline", values=("2h", "4h", "6h"), numbers=(2, 4, 6), unit="h")


def test_a_curve_is_a_row_per_value() -> None:
    """What is rented is told where it changes, and values without a plan are marked."""
    cells = (cell("2h", cost=None), cell("4h"), cell("6h"))
    lines = fits(render_sweep(Sweep(scenario="s", settings=(), axes=(HOURS,), cells=cells)))
    assert lines[0] == "s: $3.00 to 3.00, 1 of 3 without a plan"
    assert lines[2].split() == ["deadline", "cost", "likely", "machines"]
    assert lines[3].split() == ["2", "h", "no", "plan"]
    assert lines[4].split()[:4] == ["4", "h", "$3.00", "9.4"] and lines[4].endswith("2 x A5000 at vast, LoRA")
    assert lines[5].endswith("the same")


def test_a_heat_map_is_a_grid_with_letters_for_what_is_rented() -> None:
    """Rows are the first range; every letter is explained; wide grids go on below."""
    many = tuple(f"{index}h" for index in range(1, 41))
    columns = Axis(path="jobs.x.deadline", values=many, numbers=tuple(map(float, range(1, 41))), unit="h")
    rows = Axis(path="jobs.x.architecture", values=("llama-2-7b", "llama-2-70b"), numbers=None, unit="")
    cells = tuple(
        cell(row, column, cost=None if (row, column) == ("llama-2-70b", "1h") else 3.0, gpu=f"G{index % 30}")
        for row in rows.values
        for index, column in enumerate(many)
    )
    lines = fits(render_sweep(Sweep(scenario="s", settings=(), axes=(rows, columns), cells=cells)))
    text = "\n".join(lines)
    assert "cost, architecture by deadline" in lines and "likely hours, architecture by deadline" in lines
    assert text.count("llama-2-70b") >= 4
    assert text.count("no plan") == 1
    assert "  a  2 x G0 at vast, LoRA" in lines
    assert "  and 10 others: --json" in lines


@pytest.mark.parametrize(
    ("path", "numbers", "style"),
    [
        ("jobs.x.deadline", (2.0, 4.0), "after"),
        ("jobs.x.deadline", (4.0, 2.0), "before"),
        ("limits.vram_headroom", (0.1, 0.2), "before"),
        ("limits.vram_headroom", (0.2, 0.1), "after"),
        ("jobs.x.efficiency", (0.5, 1.0), ""),
        ("limits.max_gpus", (4.0,), ""),
    ],
)
def test_between_two_values_of_a_limit_the_tighter_ones_plan_stands(
    path: str, numbers: tuple[float, ...], style: str
) -> None:
    """A slanting line would promise plans that nobody solved for."""
    assert step_style(Axis(path=path, values=tuple(map(str, numbers)), numbers=numbers, unit="")) == style


def test_a_sweep_without_any_plan_says_what_stands_in_the_way() -> None:
    """The cell that asks for least is explained as by solve."""
    cells = tuple(cell(value, cost=None) for value in HOURS.values)
    answer = Sweep(scenario="s", settings=(), axes=(HOURS,), cells=cells, loosest=("6h",), unsolved=make_infeasible())
    lines = fits(render_sweep(answer))
    assert lines[0] == "s: no value has a plan"
    at = lines.index("with the loosest values, deadline = 6 h:")
    assert lines[at + 1].startswith("too-tight: no plan keeps ")
    assert any(line.startswith("  near: ") for line in lines)


def test_several_jobs_of_a_cell_are_told_in_full_or_say_where_the_rest_is() -> None:
    """A legend breaks between jobs; what no room is left for is in the JSON."""

    def crowd(value: str, jobs: int) -> Cell:
        (one,) = cell(value).jobs
        return cell(value).model_copy(update={"jobs": (one.model_copy(update={"gpu": "RTXPRO6000-96GB"}),) * jobs})

    columns = Axis(path="limits.max_gpus", values=("1",), numbers=(1,), unit="")
    for jobs, told in ((5, True), (40, False)):
        cells = tuple(crowd(value, jobs) for value in HOURS.values)
        for axes in ((HOURS,), (HOURS, columns)):
            text = "\n".join(fits(render_sweep(Sweep(scenario="s", settings=(), axes=axes, cells=cells))))
            assert (text.count("2 x RTXPRO6000-96GB at vast, LoRA") == 5) == told
            assert ("--json" not in text) == told and ("..." not in text) == told


@pytest.mark.parametrize(
    ("value", "number", "unit", "said"),
    [
        ("6h", 6.0, "h", "6 h"),
        ("90000000", 9e7, "", "90M"),
        ("0.25", 0.25, "", "0.25"),
        ("2000", 2000.0, "", "2,000"),
        ("1.5B", 1.5, "B", "1.5B"),
        ('"A100"', None, "", "A100"),
    ],
)
def test_values_of_an_axis_read_well(value: str, number: float | None, unit: str, said: str) -> None:
    """Hours have a space before the unit, millions a letter, names no quotes."""
    assert format_value(value, number, unit) == said


def end(value: str, cost: float | None) -> Endpoint:
    return Endpoint(
        value=value, settings=(), status="infeasible" if cost is None else "optimal", cost_usd=cost, hours=1.0
    )


def test_a_tornado_is_bars_of_minus_and_plus() -> None:
    """Minus is moved down, plus moved up; the middle is the plan; what has no effect is one line."""
    bars = (
        Bar(what="budget", path="b", base="4", down=end("3.2", None), up=end("4.8", 2.82), effect_usd=0.0),
        Bar(
            what="predicted speed", path="e", base="x 1", down=end("x 0.8", 3.82), up=end("x 1.2", 2.32), effect_usd=1.0
        ),
        Bar(what="max_gpus", path="m", base="8", down=end("6", 2.82), up=end("10", 2.82), effect_usd=0.0),
    )
    lines = fits(render_tornado(Tornado(scenario="s", settings=(), by=0.2, base=BEFORE, bars=bars)))
    assert lines[0] == "s: $2.82; largest effect: budget, moved by 20 %"
    assert re.match(r"budget 4 +no plan +0\.00 +\| +!$", lines[3])
    assert re.match(r"predicted speed +\+1\.00 +-0\.50 +\+{6}\|-{12}$", lines[4])
    assert lines[-1] == "  no effect: max_gpus 8"


def test_a_tornado_of_hours_has_bars_of_hours_and_dollars_beside_them() -> None:
    """Who asks for the soonest end reads hours first."""
    moves = {"down": Endpoint(value="3", settings=(), status="optimal", cost_usd=2.0, hours=23.4)}
    still = Endpoint(value="5", settings=(), status="optimal", cost_usd=2.82, hours=21.42)
    bar = Bar(what="budget", path="b", base="4", up=still, effect_usd=0.82, effect_hours=1.98, **moves)
    lines = fits(render_tornado(Tornado(scenario="s", settings=(), by=0.2, base=BEFORE, bars=(bar,), better="sooner")))
    assert lines[0] == "s: likely 21.4 h, $2.82; largest effect: budget, moved by 20 %"
    assert lines[2].split() == ["h", "-20", "%", "h", "+20", "%", "$", "-20", "%", "$", "+20", "%", "earlier", "later"]
    assert re.match(r"budget 4 +\+1\.98 +0\.00 +-0\.82 +0\.00 +\|-{8}$", lines[3])


def test_prices_matter_and_a_price_matters() -> None:
    """The verb goes with the noun."""
    bar = Bar(what="A5000 spot prices", path="p", base="x 1", down=end("a", 2.0), up=end("b", 3.0), effect_usd=0.82)
    said = fits(render_tornado(Tornado(scenario="s", settings=(), by=0.2, base=BEFORE, bars=(bar,))))[0]
    assert said == "s: $2.82; largest effect: A5000 spot prices, moved by 20 %"
    nothing = render_tornado(Tornado(scenario="s", settings=(), by=0.2, base=BEFORE, bars=()))
    assert nothing.startswith("s: $2.82; nothing has an effect")


def test_answers_show_themselves_in_a_notebook() -> None:
    """Tables in HTML, every text escaped."""
    answer = made(scenario="<b>")
    assert (
        "<table>" in answer._repr_html_() and "&lt;b&gt;" in answer._repr_html_() and "<b>" not in answer._repr_html_()
    )
    swept = Sweep(scenario="s", settings=(), axes=(HOURS,), cells=(cell("2h", cost=None), cell("4h"), cell("6h")))
    assert "infeasible" in swept._repr_html_() and "$3.00" in swept._repr_html_()
    bar = Bar(what="budget", path="b", base="4", down=end("3", None), up=end("5", 2.0), effect_usd=0.82)
    assert "$0.82" in Tornado(scenario="s", settings=(), by=0.2, base=BEFORE, bars=(bar,))._repr_html_()

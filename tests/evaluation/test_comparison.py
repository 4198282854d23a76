"""The generic comparison: every field, the tolerance of its unit, and lists whose order carries no meaning."""

from __future__ import annotations

from typing import Any

import pytest

from planner.evaluation.comparison import Tolerance, compare, unit_of
from planner.results.plan import Assignment
from planner.results.plan_parts import BillItem, ObservedRun, Part, Spread, Techniques, Vram

LINES = (
    BillItem(item="gpu on demand", usd=20.0, quantity=10.0, unit="h", rate_usd=2.0),
    BillItem(item="storage", usd=0.4, quantity=4.0, unit="GB-month", rate_usd=0.1),
)
VRAM = Vram(
    peak=30.0, allocated=25.0, usable=40.0, fit_probability=0.9, phase="", parts={"weights": 20.0, "cast": 5e-7}
)


class Invented(Part):
    """A part with a field that no audit has ever seen."""

    name: str
    new_usd: float
    new_hours: float


def whats(expected: object, found: object, what: str = "") -> list[str]:
    return [one.what for one in compare("job", what, expected, found, Tolerance(), unit_of(what))]


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("cost_usd", "usd"),
        ("cost", "usd"),
        ("cost_at_confidence", "usd"),
        ("saving_usd", "usd"),
        ("usd_sd", "usd"),
        ("rate_usd", "rate"),
        ("on_demand_usd_per_hour", "rate"),
        ("start_hours", "rate"),
        ("vram_gib", "gib"),
        ("peak", ""),
    ],
)
def test_the_end_of_a_name_is_its_unit(name: str, unit: str) -> None:
    """Dollars are compared to half a cent, all else relatively; rates in dollars are no dollars."""
    assert unit_of(name) == unit


def test_a_name_without_a_unit_has_that_of_its_parent() -> None:
    """The expected, low and high of a cost are dollars."""
    cost = Spread(expected=100.0, low=90.0, high=110.0)
    assert whats(cost, cost.model_copy(update={"low": 90.004}), "cost") == []
    assert whats(cost, cost.model_copy(update={"low": 90.006}), "cost") == ["cost.low"]
    assert whats(cost, cost.model_copy(update={"low": 90.004}), "hours") == ["hours.low"]


def test_a_new_field_is_compared_without_anybody_remembering_to() -> None:
    """Whatever a part of a plan comes to say, a difference is found at the tolerance of its unit."""
    reference = Invented(name="a", new_usd=5.0, new_hours=5.0)
    wrong = Invented(name="b", new_usd=5.01, new_hours=5.001)
    assert whats(reference, wrong) == ["name", "new_usd", "new_hours"]
    assert whats(reference, Invented(name="a", new_usd=5.004, new_hours=5.000001)) == []


def test_a_figure_that_is_missing_or_no_number_is_found() -> None:
    """None and nan are not near anything."""
    assert whats(1.0, None, "sigma") == whats(None, 1.0, "sigma") == whats(1.0, float("nan"), "sigma") == ["sigma"]


def test_lines_of_a_bill_are_compared_by_item() -> None:
    """Their order means nothing; a missing, an invented and a doubled line are found, one of nothing is not missed."""
    extra = BillItem(item="export", usd=1.0, quantity=0.5, unit="h")
    nothing = BillItem(item="export", usd=0.0, quantity=0.0, unit="h")
    assert whats(LINES, LINES[::-1], "bill") == []
    assert whats(LINES, LINES[:1], "bill") == ["bill[storage]"]
    assert whats(LINES, (*LINES, extra), "bill") == ["bill[export]"]
    assert whats(LINES, (*LINES, LINES[0]), "bill") == ["bill[gpu on demand#2]"]
    assert whats((*LINES, nothing), LINES, "bill") == []
    assert whats(LINES, (LINES[0], LINES[1].model_copy(update={"rate_usd": 0.102})), "bill") == [
        "bill[storage].rate_usd"
    ]


def test_parts_of_a_sum_are_as_exact_as_the_sum() -> None:
    """A small part of the memory may be the difference of large ones; a part that is none is found."""
    near = VRAM.model_copy(update={"parts": {"weights": 20.0, "cast": 6e-7}})
    far = VRAM.model_copy(update={"parts": {"weights": 20.0, "cast": 1e-3, "ghost": 1.0}})
    assert whats(VRAM, near, "vram_gib") == []
    assert whats(VRAM, far, "vram_gib") == ["vram_gib.parts.cast", "vram_gib.parts.ghost"]


def test_observed_runs_are_compared_by_position() -> None:
    """One that is left out is found, and every figure of the others."""
    techniques: Any = {name: "x" for name in Techniques.model_fields}
    techniques |= {"weight_bits": 16, "lora_rank": None, "lora_targets": None}
    techniques |= dict.fromkeys(("dora", "adapt_head", "experts_16_bit"), False)
    techniques |= {name: 1 for name in Techniques.model_fields if name.endswith(("_parallel", "_batch", "_steps"))}
    run = ObservedRun(
        gpu="T4",
        gpus=1,
        techniques=Techniques(**techniques),
        assumed=(),
        tokens_per_second=100.0,
        predicted_tokens_per_second=90.0,
        peak_vram_gib=None,
        predicted_peak_vram_gib=None,
        peak_kind=None,
    )
    slower = run.model_copy(update={"tokens_per_second": 99.0, "assumed": ("method",)})
    assert whats((run, run), (run,), "observed_runs") == ["observed_runs[1]"]
    assert whats((run,), (slower,), "observed_runs") == [
        "observed_runs[0].assumed",
        "observed_runs[0].tokens_per_second",
    ]


def test_what_a_plan_says_of_other_configurations_is_left_out() -> None:
    """Ladder, runners-up, binding limits and notes are all that is not compared."""
    words = {
        "lossy_techniques",
        "quality",
        "methods",
        "frameworks",
        "cheaper_at_risk",
        "safer",
        "next_best",
        "compared_by",
        "binding",
        "notes",
    }
    names = {"name", *words, "cost_usd"}
    kept = Assignment.model_construct(**{name: 1.0 for name in Assignment.model_fields})
    changed = Assignment.model_construct(**{name: 2.0 if name in names else 1.0 for name in Assignment.model_fields})
    assert whats(kept, changed) == ["name", "cost_usd"]

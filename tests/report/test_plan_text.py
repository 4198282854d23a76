"""The text of a plan: a verdict that stands alone, 25 lines of 80 columns, nothing invented."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.report import plan_text as others
from planner.report.explanation_text import format_relaxation
from planner.report.plan_answer import render_answer
from planner.report.plan_sections import data_path_text, memory, price_text, prior_text, techniques
from planner.report.plan_text import colorize, near_tie, render
from planner.report.words import WIDTH, text_width
from planner.results.plan import DataPath
from planner.results.plan_parts import Option, PlanEvidence, Relaxation
from tests.helpers.costs import plan_of
from tests.helpers.plans import make_assignment, make_infeasible, make_plan

GOLDEN = """\
quickstart: 1 x RTX3090 at vast (Quebec), likely 21.4 h, by 28.0 h, $2.82

  Train    LoRA r16 on a 4-bit base (nf4), bf16 mixed, full checkpointing, flash
           attention, AdamW, packed
           micro-batch 2 x 32 steps = 64 sequences of 2,048 tokens
  Memory   13.1 of 23.6 GiB  ###########.........  fits with 99 % probability
           weights 4.3  stored activations 3.2  logits 2.9  adapters 0.7
           peak in: end of forward (logits)
  Speed    1,190 tokens/s (951 to 1,490), 687 steps of 110 s
  Time     start 0.3 h, training 20.6 h
           likely 21.4 h in total (17.0 to 27.1 h with 80 %), by 28.0 h
           meets the 36 h deadline with 97 % probability
  Bill     GPU on demand        21.4 h x $0.127                            2.72
           storage              60 GB x $0.0017, assumed                   0.10
           not included: transfer out
           total                ($2.30 to 3.60)                            2.82

  Methods  QLoRA $2.82   LoRA $3.02 on A6000
           full $5.21 on 4 x H100-80GB (excluded by `techniques.method`)
  Next     1 x RTX3080Ti at vast $2.84, likely 23.0 h: within error
           1 x RTX3090 at runpod $4.61, likely 21.4 h: 63 % dearer
  Limits   none binds
  Prices   12 days old (2026-08-20); vast listing"""

INFEASIBLE = """\
too-tight: no plan keeps the deadline of 2 h and the budget of $10.00
  least within $10.00: 2.63 h
  1  deadline 2.63 h: 8 x H100-80GB at lambda, $71.30
  2  budget $1,044.80
  near: RTX4090: does not fit in 23.6 GiB (1.3 GiB short)
  near: 8 x A100: misses the deadline (0.9 h late)"""


def test_a_plan_for_one_job_reads_as_agreed() -> None:
    """The whole layout, to the letter."""
    assert render(make_plan()) == GOLDEN


@pytest.mark.parametrize(
    ("release", "said"), [("qwen2.5-7b-awq", "(awq)"), ("llama-2-7b-gptq", "(gptq)"), ("qwen2.5-7b", "(gptq)")]
)
def test_a_base_is_called_by_the_format_of_its_release(release: str, said: str) -> None:
    """Memory counts AWQ by the row of GPTQ, and the plan says what the weights are."""
    job = make_assignment()
    how = job.techniques.model_copy(update={"quant": "gptq"})
    job = job.model_copy(update={"architecture": release, "techniques": how})
    assert f"4-bit base {said}" in techniques(job)


def test_an_infeasible_question_reads_as_agreed() -> None:
    """What would have to give comes before what was near."""
    assert render(make_infeasible()) == INFEASIBLE


def test_of_several_jobs_each_is_named_also_the_one_that_gave_the_scenario_its_name() -> None:
    """Alone its limits need no name."""
    lines = {}
    for jobs in (["train"], ["train", "tune"]):
        changes = [Relaxation(limit=f"jobs.{job}.deadline", change_from=2.0, change_to=3.0, way=1) for job in jobs]
        lines[len(jobs)] = format_relaxation(1, changes, "train")[0]
    assert lines == {
        1: "  1. deadline 2 h -> 3 h",
        2: "  1. deadline of train 2 h -> 3 h and deadline of tune 2 h -> 3 h",
    }


@pytest.mark.parametrize(
    ("changes", "ending"),
    [
        ({}, "$2.82"),
        ({"status": "feasible", "gap": 0.0312}, ", within 3.1 % of optimum"),
        ({"status": "feasible", "gap": 0.00001}, ", within 0.1 % of optimum"),
        ({"status": "optimal", "gap": 0.009}, ", within 0.9 % of optimum"),
        ({"status": "feasible", "gap": None, "bound": None}, ", optimality unknown"),
    ],
)
def test_the_first_line_says_how_sure_the_optimum_is(changes: dict[str, Any], ending: str) -> None:
    """A plan within a gap is never called proven; a proven one says so below."""
    assert render(make_plan(**changes)).splitlines()[0].endswith(ending)


def test_a_verdict_that_is_too_long_keeps_hours_dollars_and_proof() -> None:
    """The region goes first, then the likely hours, the end of the name and the hardware; how it is paid stays."""
    job = make_assignment(region="somewhere very far away indeed, behind the hills", spot_share=0.7)
    plan = make_plan(job, scenario="a-name-that-someone-chose-without-a-thought-for-the-width-of-a-line")
    first = render(plan).splitlines()[0]
    assert len(first) <= WIDTH
    assert first.endswith("1 x RTX3090 at vast, spot 70 %, by 28.0 h, $2.82")
    for columns in range(60, 161, 10):
        with text_width(columns):
            first = render(plan).splitlines()[0]
        assert len(first) <= columns and ", spot 70 %, " in first


def test_spot_and_its_switch_are_told() -> None:
    """A mixed plan: when it leaves spot."""
    text = render(make_plan(make_assignment(spot_share=0.7, switch_to_on_demand_at_hours=30.1)))
    assert "spot 70 %" in text and "on demand at hour 30.1" in text


def test_a_plan_that_is_only_more_certain_is_not_called_faster_by_its_likely_hours() -> None:
    """On spot: likely after 1 h, certain after 7.2 h; the other one is likely after 1.9 h, and certain after 2.9 h."""
    option = {"label": "half the time", "provider": "p", "gpu": "H200", "gpus": 16, "cost_usd": 36.09, "hours": 1.9}
    hours = {"expected": 1.0, "low": 0.7, "high": 1.9, "at_confidence": 7.2}
    plan = make_plan(make_assignment(hours=hours), faster=[option | {"hours_at_confidence": 2.9}])
    assert "Faster   likely 1.9 h, by 2.9 h, for $36.09 (" in render(plan)
    assert "likely 1.0 h in total (0.7 to 1.9 h with 80 %), by 7.2 h\n" in render(plan)


def test_an_observed_run_is_told_as_one() -> None:
    """Hours are called observed and not split up, and memory parts that contradict the run are left out."""
    job = make_assignment(observed_hours=21.42, start_hours=0.0, training_hours=21.42)
    text = render(make_plan(job))
    assert "likely 21.4 h for the whole job, observed (17.0 to 27.1 h with 80 %), by" in " ".join(text.split())
    assert "fits: observed" in text and "start 0" not in text and "weights" in text
    tight = render(make_plan(make_assignment(observed_hours=21.42, vram_gib={"peak": 9.0})))
    assert "fits: observed" in tight and "estimated 11.1 GiB" in tight
    assert "weights 4.3" not in tight
    on_spot = render(make_plan(make_assignment(observed_hours=12.5, spot_share=1.0)))
    assert "12.5 h observed, on spot likely 21.4 h in total (17.0 to 27.1 h with 80 %), by" in " ".join(on_spot.split())


def test_several_machines_and_their_sharding_are_told() -> None:
    """The ranks multiply to the global batch on the line of the batch."""
    job = make_assignment(
        gpus=16,
        gpus_per_instance=8,
        instances=2,
        techniques={"sharding": "zero3", "micro_batch": 2, "accumulation_steps": 4, "tensor_parallel": 2},
    )
    text = render(make_plan(job))
    assert "micro-batch 2 x 4 steps x 8 groups of GPUs = 64 sequences" in text
    assert "2 machines of 8 GPUs (pcie), zero3, tensor parallel 2" in text


def test_images_are_not_called_tokens() -> None:
    """A diffusion job speaks of images and says nothing of packing."""
    text = render(make_plan(make_assignment(unit="images", techniques={"method": "full"})))
    assert "images/s" in text and "= 64 images" in text and "full training" in text
    assert "tokens" not in text and "packed" not in text


@pytest.mark.parametrize(
    ("hours", "deadline_hours", "budget_usd", "ending"),
    [
        (5.0, 36.0, 5.0, "+5.0 h, +$0.70"),
        (15.0, 36.0, 5.0, "which misses the deadline"),
        (10.0, 36.0, 5.0, "which may miss the deadline"),
        (5.0, None, 3.0, "which misses the budget"),
        (15.0, 36.0, 3.0, "which misses the deadline and the budget"),
        (15.0, 36.0, 4.0, "which misses the deadline and may miss the budget"),
        (15.0, None, None, "+15.0 h, +$0.70"),
    ],
)
def test_a_slower_run_for_less_memory_names_the_limits_that_it_misses(
    hours: float, deadline_hours: float | None, budget_usd: float | None, ending: str
) -> None:
    """21.4 h, at confidence 28 h, and $2.82, at confidence $3.70, with $0.70 more."""
    fallback = {
        "change": "full checkpointing",
        "micro_batch": 1,
        "accumulation_steps": 64,
        "activation_checkpointing": "full",
        "fit_probability": 1.0,
        "hours": hours,
        "usd": 0.7,
    }
    chance = None if deadline_hours is None else 0.97
    job = make_assignment(deadline_hours=deadline_hours, deadline_probability=chance, vram_gib={"fallback": fallback})
    lines = others.memory_risk(make_plan(job, budget_usd=budget_usd, cost_at_confidence=3.7), job)
    assert " ".join(line.strip() for line in lines).endswith(ending)


def test_no_certainty_is_claimed() -> None:
    """A probability that rounds to one is told as over 99 of 100."""
    text = render(make_plan(make_assignment(deadline_probability=0.9999)))
    assert "deadline with over 99 %" in text
    assert "in 100 of 100" not in text


def test_a_job_without_a_deadline_has_no_deadline_line() -> None:
    """Nothing is said of a limit that was not given."""
    text = render(make_plan(make_assignment(deadline_hours=None, deadline_probability=None)))
    assert "deadline" not in text


def test_every_item_of_a_long_bill_is_shown_and_they_add_up_to_the_total() -> None:
    """Nothing that is paid is counted away."""
    bill = [{"item": f"item {i}", "usd": float(i)} for i in range(1, 30)]
    lines = render(make_plan(make_assignment(bill=bill))).splitlines()
    assert all(any(line.endswith(f" {i}.00") and f"item {i} " in line for line in lines) for i in range(1, 30))
    assert any(line.lstrip().startswith("total") for line in lines)


def test_a_price_after_the_date_asked_for_has_no_age() -> None:
    """Ages count to `--as-of`, which may lie before the price."""
    assert price_text(make_assignment(price_age_days=-3)).startswith("newer than the date asked for")


def test_every_note_is_shown() -> None:
    """None is left to the JSON."""
    text = render(make_plan(warnings=[f"remark {i} " + "word " * 30 for i in range(8)]))
    assert [f"remark {i}" in text for i in range(8)] == [True] * 8


def test_text_from_files_cannot_steer_the_terminal() -> None:
    """Line breaks in names come out as blanks, what acts on a terminal as its escape."""
    text = render(make_plan(make_assignment(provider="v\x1b[3m\nx"), scenario="a\x1b]0;b\x07\nc"))
    assert "\x1b" not in text and "\x07" not in text
    assert text.splitlines()[0].startswith(r"a\u001b]0;b\u0007 c: 1 x RTX3090 at v\u001b[3m x (Quebec), by 28.0 h")


def test_color_only_adds_color() -> None:
    """Without the escape sequences the coloured text is the plain one."""
    plain = render(make_plan())
    colored = "\n".join(colorize(plain.split("\n")))
    assert colored != plain
    for code in ("\033[1m", "\033[36m", "\033[0m"):
        colored = colored.replace(code, "")
    assert colored == plain


def test_several_jobs_get_a_block_each_and_one_bill() -> None:
    """The first line sums up; the joint bill names every job and the total."""
    jobs = (make_assignment(name="chat"), make_assignment(name="code", cost_usd=9.3))
    plan = make_plan(*jobs, scenario="two", cost={"expected": 12.12, "low": 10.0, "high": 15.0})
    lines = render(plan).splitlines()
    assert lines[0] == "two: 2 jobs, likely 21.4 h, by 28.0 h, $12.12"
    assert "  chat: 1 x RTX3090 at vast (Quebec), likely 21.4 h, by 28.0 h, $2.82" in lines
    bill = lines[next(i for i, line in enumerate(lines) if line.startswith("  Bill")) :]
    assert [line.split()[-1] for line in bill[:3]] == ["2.82", "9.30", "12.12"]
    assert all(len(line) <= WIDTH for line in lines)


def test_a_relaxed_limit_is_rounded_to_the_safe_side() -> None:
    """What is printed as enough is enough: 2.611 hours read as 2.62, a minimum of 0.399 as 0.39."""
    relax = [
        {"limit": "jobs.other.deadline", "from": 2.0, "to": 2.611},
        {"limit": "limits.spot_share.min", "from": 0.5, "to": 0.399},
        {"limit": "limits.max_gpus", "from": 8, "to": 12},
    ]
    text = " ".join(render(make_infeasible(infeasible={"relax": relax})).split())
    assert "1 deadline of other to 2.62 h and" in text
    assert "min of spot share to 0.39 and" in text
    assert "max gpus 12" in text


def test_no_relaxation_and_no_near_miss_still_says_what_was_tried() -> None:
    """The counts of rejected ways stand in for the advice."""
    counts = {"made": 0, "rejected": 410, "dominated": 0, "reasons": {"does not fit": 400, "too dear": 10}}
    lines = render(make_infeasible(infeasible={}, candidates=counts)).splitlines()
    assert lines[0] == "too-tight: infeasible: no plan within all limits"
    assert lines[2:] == ["  400 x does not fit", "  10 x too dear"]


def test_a_search_that_stopped_is_not_called_infeasible() -> None:
    """Stopped at a limit is told with the bound it leaves."""
    plan = make_plan(status="no_plan", jobs=[], objective=None, cost=None, hours=None, gap=None, seconds=60.0)
    text = render(plan)
    assert text.splitlines()[0] == "quickstart: stopped without a plan after 60 s"
    assert "2.82" in text and "infeasible" not in text


WORDS = st.text(st.characters(codec="ascii"), min_size=1, max_size=120)
MONEY = st.floats(0, 1e8)
ITEM = st.fixed_dictionaries(
    {"item": WORDS, "usd": MONEY},
    optional={
        "quantity": st.floats(0, 1e7),
        "rate_usd": st.floats(0, 1e5),
        "unit": st.sampled_from(("h", "GPU-hours", "GB")),
        "basis": st.sampled_from(("", "assumed", "not included")) | WORDS,
    },
)
OPTION = st.fixed_dictionaries(
    {
        "label": WORDS,
        "provider": WORDS,
        "gpu": WORDS,
        "gpus": st.integers(1, 4096),
        "cost_usd": MONEY | st.none(),
        "hours": MONEY | st.none(),
        "allowed": st.booleans(),
        "note": WORDS | st.just(""),
    }
)
JOB = st.fixed_dictionaries(
    {
        "provider": WORDS,
        "region": WORDS,
        "gpu": WORDS,
        "gpus": st.integers(1, 4096),
        "spot_share": st.floats(0, 1),
        "switch_to_on_demand_at_hours": st.floats(0, 1e5) | st.none(),
        "tokens_per_second": st.floats(1e-6, 1e9),
        "bill": st.lists(ITEM, max_size=12),
        "methods": st.lists(OPTION, max_size=6),
        "next_best": st.lists(OPTION, max_size=4),
        "binding": st.lists(WORDS, max_size=4),
        "notes": st.lists(WORDS, max_size=3),
        "price_age_days": st.integers(0, 9999) | st.none(),
        "price_source": WORDS,
        "cost_usd": MONEY,
        "vram_gib": st.fixed_dictionaries({"parts": st.dictionaries(WORDS, st.floats(0, 99), max_size=12)}),
    }
)


@pytest.mark.slow
@settings(derandomize=True, max_examples=150, deadline=None)
@given(job=JOB, name=WORDS, warnings=st.lists(WORDS, max_size=6))
def test_one_job_never_takes_more_than_28_lines_of_80_columns(
    job: dict[str, Any], name: str, warnings: list[str]
) -> None:
    """Whatever names, bills and remarks a plan holds, and the total stays in sight."""
    lines = render_answer(make_plan(make_assignment(**job), scenario=name, warnings=warnings)).splitlines()
    assert len(lines) <= 28
    assert max(map(len, lines)) <= WIDTH
    assert any(" in all" in line for line in lines)


@settings(derandomize=True, max_examples=50, deadline=None)
@given(
    relax=st.lists(
        st.fixed_dictionaries({"limit": WORDS, "from": MONEY | WORDS, "to": MONEY | WORDS, "then": WORDS}), max_size=4
    ),
    nearest=st.lists(
        st.fixed_dictionaries({"job": WORDS, "what": WORDS, "reason": WORDS, "shortfall": MONEY, "unit": WORDS}),
        max_size=4,
    ),
)
def test_no_line_of_an_infeasible_answer_is_wider_than_80(
    relax: list[dict[str, Any]], nearest: list[dict[str, Any]]
) -> None:
    """Long limits and reasons wrap or end in dots."""
    lines = render(make_infeasible(infeasible={"relax": relax, "nearest": nearest})).splitlines()
    assert max(map(len, lines)) <= WIDTH


def test_a_speed_that_is_a_prior_is_said_below_the_first_line_with_the_best_plan_without() -> None:
    """The answer names the plan that rests on published measurements, and one line has a word for each figure."""
    known = Option(label="vast RTX3090", provider="vast", gpu="RTX3090", gpus=2, cost_usd=3.5, hours=9.0)
    rests = PlanEvidence(speed="prior", memory="fitted", price="measured", known=known)
    job = make_assignment().model_copy(update={"evidence": rests})
    text = render(make_plan(job))
    second = " ".join(line.strip() for line in text.splitlines()[1:4])
    best = "best with a measured speed: 2 x RTX3090 at vast, $3.50, likely 9.0 h"
    assert f"the speed is a prior, not from measurements; {best}" in second
    assert "Evidence speed prior, memory fitted, price measured" in text
    alone = job.model_copy(update={"evidence": rests.model_copy(update={"known": None})})
    assert "no plan within the limits has a measured speed" in prior_text(alone)
    fitted = job.model_copy(update={"evidence": rests.model_copy(update={"speed": "fitted"})})
    assert not prior_text(fitted) and not prior_text(make_assignment())


@pytest.mark.parametrize(
    ("least", "step", "said"),
    [
        (2.82, "evidence", "another plan costs the same, but its speed was measured less: --set solve.ties=0"),
        (2.82, "hours", ""),
        (2.82, None, ""),
        (2.75, "hours", "least cost $2.75, later: --set solve.ties=0"),
    ],
)
def test_a_tie_within_a_cent_says_why_a_faster_plan_was_not_taken(least: float, step: str | None, said: str) -> None:
    """Else a row of the table is faster at the same dollars, and nothing says why it is not the plan."""
    plan = make_plan(make_assignment()).model_copy(update={"least_cost_usd": least, "tie_decided_by": step})
    assert " ".join(line.strip() for line in near_tie(plan)) == said


@pytest.mark.parametrize(("rate", "said"), [(97_900.0, "0.1"), (12_000.0, "under 0.1"), (3.64e8, "364")])
def test_what_is_read_has_no_more_digits_than_are_known(rate: float, said: str) -> None:
    """Megabytes of a small stream have one decimal."""
    path = DataPath(
        read_bytes_per_second=rate,
        storage_bytes_per_second=5e8,
        cores_used=None,
        cores=8,
        cores_known=True,
        saved_hours=0.0,
    )
    assert data_path_text(path, "job").startswith(f"reads {said} of 500 MB/s: ")


def test_memory_of_a_plan_of_images_has_its_encoders_as_a_part() -> None:
    """9.3 GiB of T5, CLIP and autoencoder are more than any other part of a 4-bit run of FLUX."""
    job = plan_of("images-flux-lora").jobs[0]
    assert "encoders 9.3" in " ".join(memory(job))
    assert job.vram_gib.set_aside == {"encoders": pytest.approx(2 * 4_969_190_819 / 2**30)}
    assert math.fsum([*job.vram_gib.parts.values(), *job.vram_gib.set_aside.values()]) < job.vram_gib.peak

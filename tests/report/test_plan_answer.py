"""The answer of a plan: what to rent in the first line, risks, other ways, and the plan in a few lines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.report import plan_sections
from planner.report.plan_answer import MOST_RISKS, MOST_WAYS, render_answer, render_details, risks_of, ways_of
from planner.report.plan_text import difference_on_same_machines
from planner.report.words import WIDTH, text_width
from planner.results.plan_parts import CutSamples, Option, PlanEvidence, SpotPlan
from tests.helpers.costs import plan_of
from tests.helpers.plans import make_assignment, make_infeasible, make_plan

GOLDEN = """\
quickstart: 4 x A5000 at vast, private host, QLoRA, $2.82, by 28.0 h
! a private person's machine: secure ones for about $3.92
  (--set 'limits.tiers.forbid=[community]')
! the speed is a prior, not from measurements; best with a measured speed: 1 x
  H100-80GB at nebius, $3.66, likely 8.1 h
! prices 90 days old: planner prices update

    way       machine                       $/h   cost      by  how
  > plan      4 x A5000 at vast, private   0.50  $2.82  28.0 h  QLoRA
    faster    8 x A5000 at vast            1.28  $3.49   3.2 h  QLoRA
    measured  1 x H100-80GB at nebius      1.45  $3.66   9.0 h  QLoRA
    secure    4 x A5000 at runpod          0.92  $3.92  29.0 h  QLoRA
    full      8 x H100-80GB at a, spot    12.00  $5.21   4.0 h  excluded

  Train    LoRA r16 on a 4-bit base (nf4), bf16 mixed, full checkpointing,
           packed
           micro-batch 2 x 8 steps x 4 GPUs = 64 sequences of 2,048 tokens
           1 machine of 4 GPUs (pcie), ddp
  Memory   13.1 of 23.6 GiB, fits with 99 %
  Time     likely 21.4 h (17.0 to 27.1 h with 80 %), by 28.0 h; meets the 36 h
           deadline with 97 % probability
  Bill     $2.82 in all ($2.30 to 3.60): $2.72 GPU on demand, $0.10 storage; not
           included: transfer out
  Why      proven best; no limit binds
  Notes    link assumed (1 more: --details)"""


def option(label: str, usd: float, late: float, **others: Any) -> dict[str, Any]:
    """Another way at $0.50 an hour on one card."""
    machine = {"provider": "vast", "gpu": "A5000", "gpus": 1, "tier": "secure", "usd_per_hour": 0.5}
    times = {"hours": 0.8 * late, "hours_at_confidence": late}
    return {"label": label, "cost_usd": usd, "method": "QLoRA", **times, **machine, **others}


KNOWN = option("", 3.66, 9.0, provider="nebius", gpu="H100-80GB", usd_per_hour=1.45) | {"hours": 8.1}
SECURE = option(
    "secure", 3.92, 29.0, provider="runpod", gpus=4, usd_per_hour=0.92, note="limits.tiers.forbid=[community]"
)
FULL = option(
    "full", 5.21, 4.0, provider="a", gpu="H100-80GB", gpus=8, usd_per_hour=12.0, spot_share=0.97, method="full"
) | {"allowed": False, "note": "excluded by `techniques.method`"}


def private(**changes: Any) -> Any:
    """A plan on four cards of a private host, whose speed is a prior."""
    evidence = {"speed": "prior", "memory": "fitted", "price": "measured", "known": KNOWN}
    bill = [
        {"item": "gpu on demand", "usd": 2.72, "quantity": 5.44, "unit": "h", "rate_usd": 0.5},
        {"item": "storage", "usd": 0.10},
        {"item": "transfer out", "usd": 0.0, "basis": "not included"},
    ]
    machine = {"gpu": "A5000", "gpus": 4, "gpus_per_instance": 4, "tier": "community", "region": "any"}
    techniques = {"accumulation_steps": 8, "sharding": "ddp"}
    job = make_assignment(
        **machine,
        techniques=techniques,
        bill=bill,
        evidence=evidence,
        safer=[SECURE],
        methods=[option("QLoRA", 2.82, 28.0, gpus=4, usd_per_hour=0.5, tier="community"), FULL],
        next_best=[],
        notes=["link assumed", "stock unknown"],
    )
    faster = [option("half the time", 3.49, 3.2, gpus=8, usd_per_hour=1.28)]
    return make_plan(job, price_age_days=90, faster=faster, **changes)


def test_the_answer_reads_as_agreed() -> None:
    """The whole layout, to the letter."""
    assert render_answer(private()) == GOLDEN


def test_risks_from_the_fourth_on_are_named_on_one_line() -> None:
    """The greatest stand first, in full; none is left to another command."""
    cut = CutSamples(job="", share=0.4, sequence_length=2048, holds=8192, setting="jobs.0.sequence_length=8192")
    plan = private(cut=[cut])
    job = plan.jobs[0].model_copy(update={"spot_share": 1.0, "conversion": "merge the adapter first"})
    plan = plan.model_copy(update={"jobs": (job,)})
    kinds = [risk.kind for risk in risks_of(plan, job)]
    assert kinds[:2] == ["samples are cut", "weights to convert"]
    lines = render_answer(plan).splitlines()
    assert sum(line.startswith("! ") for line in lines) == MOST_RISKS + 1
    also = " ".join(lines[lines.index(next(line for line in lines if line.startswith("! also: "))) :][:2])
    assert all(kind in also for kind in kinds[MOST_RISKS:]) and "--details" in also


def test_a_plan_on_spot_alone_says_that_a_deadline_holds_with_a_probability() -> None:
    """With what the same costs on demand, and the setting that asks for it."""
    on_demand = option("on demand", 9.5, 20.0, note="limits.spot=false")
    job = make_assignment(spot_share=1.0, safer=[on_demand])
    text = render_answer(make_plan(job))
    assert "a deadline holds with a probability; on demand from $9.50 (--set limits.spot=false)" in " ".join(
        text.split()
    )
    assert "  on demand  1 x A5000 at vast" in text


def test_of_an_infeasible_question_the_answer_is_its_whole_text() -> None:
    """There is nothing to shorten."""
    assert render_answer(make_infeasible()).startswith("too-tight: no plan keeps the deadline of 2 h and ")


@pytest.mark.parametrize("memory", ["measured", "fitted", "prior"])
def test_memory_that_is_a_prior_is_a_risk(memory: Any) -> None:
    """What is measured or fitted is none."""
    evidence = PlanEvidence(speed="fitted", memory=memory, price="measured")
    job = make_assignment(framework="unsloth", evidence=evidence)
    assert ("memory is a prior" in [risk.kind for risk in risks_of(make_plan(job), job)]) == (memory == "prior")


def test_a_speed_that_is_an_upper_bound_is_a_risk() -> None:
    """It stands in a note of the plan, which a reader of the first lines does not see."""
    job = make_assignment(notes=["the speed is an upper bound: it was not measured"])
    assert "speed is an upper bound" in [risk.kind for risk in risks_of(make_plan(job), job)]


@st.composite
def options(draw: st.DrawFn) -> Option:
    """Another way, perhaps one that is no different or has no figures."""
    given = option(
        draw(st.sampled_from(["QLoRA", "LoRA", "full", "secure"])),
        draw(st.floats(0.01, 99_999)),
        draw(st.floats(0.01, 5_000)),
        provider=draw(st.sampled_from(["vast", "a-provider-with-a-very-long-name"])),
        gpus=draw(st.sampled_from([1, 8, 1024])),
        spot_share=draw(st.sampled_from([0.0, 0.4, 1.0])),
        allowed=draw(st.booleans()),
        note=draw(st.sampled_from(["", "fits with 71 %: x=0.7", "excluded by `techniques.method`"])),
    )
    return Option(**given | draw(st.sampled_from([{}, {"cost_usd": None}, {"usd_per_hour": None}])))


@settings(max_examples=200)
@given(st.lists(options(), max_size=9), st.lists(options(), max_size=3))
def test_the_table_has_the_plan_among_few_ways_that_differ(ladder: list[Option], faster: list[Option]) -> None:
    """Sorted by dollars, within the width, each row with a cost."""
    plan = make_plan(make_assignment(methods=ladder), faster=faster)
    ways = ways_of(plan, plan.jobs[0])
    assert [way.name for way in ways].count("plan") == 1 and len(ways) <= MOST_WAYS
    assert [way.cost_usd for way in ways] == sorted(way.cost_usd for way in ways)
    assert len({(way.machine, round(way.cost_usd, 1), way.method, way.late_hours) for way in ways}) >= 1
    assert max(map(len, render_answer(plan).splitlines())) <= WIDTH


def test_the_details_name_the_private_host_as_the_answer_does() -> None:
    """The longer text hides no risk of the shorter one: machine and settings stand below its first lines."""
    above = render_details(private()).split("\n\n")[0]
    assert "! a private person's machine: secure ones for about $3.92" in above
    assert "--set 'limits.tiers.forbid=[community]'" in above


def test_dollars_of_a_run_with_little_spot_capacity_are_said_where_they_are_much_more() -> None:
    """From one and a half times the expected dollars on; a run on demand has no such line."""
    on_demand = option("on demand", 7.48, 10.0, note="limits.spot=false")
    for high, said in ((50.0, "up to $50.00 if little spot capacity appears; on demand $7.48"), (1.4, "")):
        spread = {"expected": 1.0, "low": 0.9, "high": high}
        job = make_assignment(cost=spread, spot_share=0.99, safer=[on_demand])
        kinds = {risk.kind: risk.text for risk in risks_of(make_plan(job), job)}
        assert kinds.get("little spot capacity", "").startswith(said)
        assert bool(said) == ("little spot capacity" in kinds)
    assert "little spot capacity" not in {risk.kind for risk in risks_of(private(), private().jobs[0])}


def test_a_pick_that_is_much_too_cheap_on_average_is_a_risk_with_its_dollars() -> None:
    """The cheapest of many uncertain estimates: from 10 % on it stands above the plan, below that with the reasons."""
    evidence = {"speed": "fitted", "memory": "fitted", "price": "measured", "estimates": 9185}
    for curse, is_risk in ((0.22, True), (0.09, False)):
        text = render_answer(make_plan(make_assignment(evidence=evidence | {"optimizer_curse": curse})))
        risk = f"! cheapest of 9,185 uncertain estimates: expect {100 * curse:.0f} % more"
        assert (risk in text) is is_risk and ("such picks cost 9 % more" in " ".join(text.split())) is not is_risk
    assert "expect 22 % more, $3.44" in render_answer(
        make_plan(make_assignment(evidence=evidence | {"optimizer_curse": 0.22}))
    )


def test_a_row_on_the_machines_of_the_plan_says_what_differs() -> None:
    """On the same machines and by the same method: less on spot, earlier on demand, or another wait for spot."""
    own = {"gpu": "A5000", "gpus": 1, "provider": "vast", "spot_share": 1.0, "usd_per_hour": 0.6}
    less = [option("half", 3.1, 9.0, **own), option("quarter", 3.4, 5.0, **own | {"spot_share": 0.97})]
    job = make_assignment(gpu="A5000", provider="vast", spot_share=1.0)
    text = render_answer(make_plan(job, faster=less))
    assert "QLoRA, on demand earlier" in " ".join(text.split()) and "QLoRA, 3 % on demand" in " ".join(text.split())
    for hours, words_of_it in ((20.0, "waits for spot less"), (22.0, "waits for spot longer")):
        also = Option.model_validate(option("cheaper", 2.8, job.hours.at_confidence, **own) | {"hours": hours})
        assert difference_on_same_machines(job, also) == words_of_it


def test_a_note_ends_with_a_clause_and_not_within_one() -> None:
    """What does not fit in two lines is left out from a comma, a bracket or a semicolon on."""
    long = "link between the GPUs unknown: PCIe assumed; " + "if it is NVLink, say so in the offer " * 5
    text = render_answer(make_plan(make_assignment(notes=(long, "another"))))
    assert "  Notes    link between the GPUs unknown: PCIe assumed" in text and "..." not in text
    assert text.endswith("(1 more: --details)")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quickstart", "pretrain-1b", "three-jobs-one-budget", "llama-2-70b-2t"])
def test_columns_hold_and_nothing_is_cut_at_60_and_at_160(name: str) -> None:
    """Of shipped scenarios: what does not fit in a column goes on in the next line."""
    for columns in (60, 160):
        with text_width(columns):
            lines = render_answer(plan_of(name)).splitlines()
        assert not [line for line in lines if len(line) > columns or line.endswith("...")]


def test_the_range_ends_at_the_by_and_dollars_say_what_their_end_is() -> None:
    """On an assumed spot market the most is what a run without spot capacity costs, far above the confident bill."""
    text = " ".join(render_answer(plan_of("pretrain-1b")).split())
    job = plan_of("pretrain-1b").jobs[0]
    assert job.hours.high == pytest.approx(job.hours.at_confidence, rel=1e-3) and "with 80 %" not in text
    assert job.cost.high > job.cost_at_confidence and "the most without spot capacity)" in text


def test_the_first_line_keeps_the_market_at_any_width() -> None:
    """Whose machines they are and that they may be lost is said even where region, method and place have no room."""
    for columns in (60, 80, 120):
        with text_width(columns):
            assert ", private host, " in render_answer(private()).split("\n")[0]
            spot = make_assignment(gpu="H100-80GB", provider="a-provider", spot_share=1.0)
            assert ", spot, " in render_answer(make_plan(spot)).split("\n")[0]


HOURS_OF_POLICY = [name for name, field in SpotPlan.model_fields.items() if field.is_required()]


def test_a_safer_way_on_a_private_host_is_marked_and_spot_is_compared_with_it() -> None:
    """The row and the warning say whose host it is, and what spot saves is counted from what one would rent."""
    on_demand = option("on demand", 160.31, 161.6, tier="community", note="limits.spot=false")
    hours = dict.fromkeys(HOURS_OF_POLICY, 1.0)
    policy = SpotPlan.model_validate({**hours, "saving_usd": 544.42, "outage_usd": 3.1, "basis": "prior"})
    job = make_assignment(spot_share=1.0, cost_usd=99.54, safer=[on_demand], spot=policy)
    text = " ".join(render_answer(make_plan(job)).split())
    assert "1 x A5000 at vast, private" in text
    assert "may save $60.77 (assumed market) against $160.31 on demand" in text
    alone = " ".join(plan_sections.spot(job.model_copy(update={"safer": ()})))
    assert "may save $544.42 (0 to $547.52; assumed market) against these machines" in alone


def test_a_framework_on_priors_that_costs_less_is_named_with_its_setting() -> None:
    """One that costs nearly as much as the plan is not, nor one that the scenario allows."""
    prior = {"allowed": False, "prior": True, "note": "jobs.0.framework=unsloth"}
    for usd, others, said in ((2.0, prior, True), (2.8, prior, False), (2.0, {}, False)):
        text = render_answer(make_plan(make_assignment(frameworks=[option("unsloth", usd, 9.0, **others)])))
        assert (
            "unsloth about $2.00 by 9.0 h (prior): --set jobs.0.framework=unsloth" in " ".join(text.split())
        ) is said


def test_secure_machines_on_spot_are_said_to_be_on_spot() -> None:
    """What is given up for no private host is what a reader must know."""
    job = private().jobs[0]
    safer = tuple(way.model_copy(update={"spot_share": 1.0}) for way in job.safer)
    (risk,) = [one for one in risks_of(private(), job.model_copy(update={"safer": safer})) if "private" in one.kind]
    assert risk.text.startswith("a private person's machine: secure ones on spot for about $3.92")


def test_a_way_that_costs_less_by_parts_of_a_cent_is_not_called_cheaper() -> None:
    """Two rows with the same dollars read as a slip where one of them is *cheaper*."""
    job = make_assignment(cost_usd=2.82)
    for usd, name in ((2.8, "cheaper"), (2.8197, "as cheap")):
        way = option("LoRA", usd, 40.0, method=plan_sections.method_words(job))
        found = ways_of(make_plan(job), job.model_copy(update={"methods": (Option.model_validate(way),)}))
        assert [row.name for row in found] == [name, "plan"]


def test_a_deadline_is_shown_with_the_digits_given() -> None:
    """A plan that ends by 3.42 h is not said to meet 3.4 h."""
    job = make_assignment(deadline_hours=3.42, deadline_probability=0.93)
    assert "meets the 3.42 h deadline" in plan_sections.format_job_deadline(job)

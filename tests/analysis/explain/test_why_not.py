"""Why not X: a price that solving confirms, or a reason with its numbers and a change that works."""

from __future__ import annotations

import datetime
import functools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.analysis.limit_sensitivity import explain
from planner.errors import ScenarioError
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.results.explanation import WhyNot
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.solve import solve

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
BASE = "llama-3.2-1b"
few = settings(max_examples=6, derandomize=True, deadline=None, database=None)

MARKET = [
    {"provider": "a", "region": "east", "gpu": "RTX4090", "gpus": 1, "usd_per_hour": 0.4, "spot_usd_per_hour": 0.2},
    {"provider": "a", "region": "west", "gpu": "RTX4090", "gpus": 1, "usd_per_hour": 0.4, "spot_usd_per_hour": 0.2},
    {"provider": "a", "region": "west", "gpu": "A100-PCIe-80GB", "gpus": 2, "usd_per_hour": 2.2},
    {"provider": "b", "region": "east", "gpu": "RTX3060", "gpus": 1, "usd_per_hour": 0.05},
    {"provider": "b", "region": "east", "gpu": "V100-16GB", "gpus": 1, "usd_per_hour": 0.3},
]


@functools.cache
def library() -> Library:
    return read_library([BASE])


def scenario_of(**job: Any) -> Scenario:
    limits = job.pop("limits", {})
    base = {"name": "t", "architecture": BASE, "work": {"tokens": 2e7}, "deadline": "10h", **job}
    return parse_scenario(json.dumps({"name": "t", "offers": MARKET, "jobs": [base], "limits": limits}))


def answer(wish: str, scenario: Scenario | None = None) -> WhyNot:
    found = explain(scenario or scenario_of(), wish, library=library()).why_not
    assert found is not None
    return found


def cost(scenario: Scenario, *settings: str) -> float:
    plan = solve(change_scenario(scenario, settings), OPTIONS, library(), explains=False)
    return float("inf") if plan.cost is None else plan.cost.expected


@pytest.mark.slow
def test_the_plan_itself_is_recognised() -> None:
    """Asked about what was chosen, whatever of it is named, the answer is that it was."""
    scenario = scenario_of()
    (job,) = solve(scenario, OPTIONS, library()).jobs
    how = job.techniques
    for wish in (f"gpu={job.gpu}", f"provider={job.provider},gpus={job.gpus}",
                 f"method={how.method},sharding={how.sharding}", f"region={job.region}"):  # fmt: skip
        assert answer(wish, scenario).status == "chosen"


@few
@given(st.sampled_from([
    ("gpu=RTX3060", ["limits.gpus.allow=[RTX3060]"]),
    ("gpu=a100-pcie-80gb", ["limits.gpus.allow=[A100-PCIe-80GB]"]),
    ("provider=b", ["limits.providers.allow=[b]"]),
    ("method=full", ["jobs.0.techniques.method=full"]),
    ("method=qlora", ["jobs.0.techniques={method: lora, weight_bits: 4}"]),
    ("checkpointing=full", ["jobs.0.techniques.activation_checkpointing=full"]),
    ("optimizer=adamw_8bit,method=lora", ["jobs.0.techniques={method: lora, optimizer: adamw_8bit}"]),
    ("market=on_demand", ["limits.spot_share.max=0"]),
    ("market=spot", ["limits.spot_share.min=0.5"]),
    ("gpu=RTX4090,region=east", ["limits.gpus.allow=[RTX4090]", "limits.regions.allow=[east]"]),
]))  # fmt: skip
@pytest.mark.long
def test_what_can_be_costs_what_solving_with_it_finds(case: tuple[str, list[str]]) -> None:
    """The price of X is that of the scenario in which only X is allowed."""
    wish, settings_ = case
    scenario = scenario_of()
    found = answer(wish, scenario)
    assert found.status in ("possible", "chosen")
    assert found.cost_usd == pytest.approx(cost(scenario, *settings_), abs=0.006)


@pytest.mark.slow
def test_why_not_costs_what_the_table_of_explain_and_a_solve_with_x_alone_say() -> None:
    """On spot, too: no other candidate keeps X from its best policy, nor its region of least bound from another."""

    def offer(gpu: str, usd: float, spot: float | None, provider: str, region: str = "east") -> dict[str, object]:
        prices = {"usd_per_hour": usd, "spot_usd_per_hour": spot}
        return {"provider": provider, "region": region, "gpu": gpu, "gpus": 1, **prices}

    a100 = "A100-PCIe-80GB"
    market = [
        *(offer("RTX4090", 0.4, 0.2, "a"), offer("RTX4090", 0.4, None, "b"), offer("RTX3090", 0.3, None, "e")),
        *(offer(a100, 9.0, 0.9, "c"), offer(a100, 9.0, 0.91, "c", "north"), offer(a100, 2.0, 1.0, "c", "west")),
    ]
    job = {"name": "t", "architecture": BASE, "work": {"tokens": 1e8}, "deadline": "8h"}
    scenario = parse_scenario(json.dumps({"name": "t", "offers": market, "jobs": [job], "solve": {"ties": 0}}))
    table = explain(scenario, library=library()).alternatives
    for by, name, alone in (
        ("gpu", a100, f"limits.gpus.allow=[{a100}]"),
        ("provider", "c", "limits.providers.allow=[c]"),
    ):
        row = next(option for option in table if (option.by, option.name) == (by, name))
        assert row.cost_usd == pytest.approx(cost(scenario, alone), abs=0.006)
        assert answer(f"{by}={name}", scenario).cost_usd == pytest.approx(row.cost_usd, abs=0.006)


def test_the_largest_factor_of_the_difference_comes_first() -> None:
    """Two A100s cost more an hour and take fewer hours, which is no reason; the text has the factors of both."""
    first, *_, last = answer("gpu=A100-PCIe-80GB").reasons
    assert first.startswith("an hour with waiting costs $2.2") and "x)" in first
    assert last.startswith("although it likely takes ") and "less)" in last


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wish", "changes", "limit"),
    [
        ("gpu=RTX3060", {"deadline": "90m"}, "jobs.t.deadline"),
        ("gpu=A100-PCIe-80GB", {"limits": {"budget_usd": 0.3}}, "limits.budget_usd"),
        ("gpu=A100-PCIe-80GB", {"limits": {"max_gpus": 1}}, "limits.max_gpus"),
        ("gpu=A100-PCIe-80GB", {"limits": {"quota": {"a": 1}}}, "limits.quota.a"),
        ("gpu=RTX3060", {"limits": {"gpus": {"forbid": ["RTX3060"]}}}, "limits.gpus"),
        ("provider=b", {"limits": {"providers": {"allow": ["a"]}}}, "limits.providers"),
        ("method=full", {"techniques": {"method": "lora"}}, "jobs.t.techniques.method"),
        ("method=qlora", {"techniques": {"weight_bits": 16}}, "jobs.t.techniques.weight_bits"),
        ("market=spot", {"limits": {"spot_share": {"max": 0.3}}}, "limits.spot_share.max"),
        ("market=on_demand", {"limits": {"spot_share": {"min": 0.5}}}, "limits.spot_share.min"),
    ],
)
def test_a_limit_in_the_way_is_named_and_moving_it_lets_x_in(wish: str, changes: dict[str, Any], limit: str) -> None:
    """One limit bars X: it is the reason, and with its setting X is possible at the told price."""
    scenario = scenario_of(**changes)
    found = answer(wish, scenario)
    assert found.status == "beyond"
    assert [one.limit for one in found.relax] == [limit] and len(found.reasons) == 1
    after = answer(wish, change_scenario(scenario, [one.setting for one in found.relax]))
    assert after.status in ("possible", "chosen")
    assert after.cost_usd == pytest.approx(found.cost_usd, abs=0.006)


@pytest.mark.slow
def test_what_does_not_fit_tells_its_memory_by_part_and_a_sequence_that_fits() -> None:
    """Need, usable and parts are there; the proposed sequence length makes it possible."""
    scenario = scenario_of(sequence_length=65536)
    found = answer("gpu=RTX3060,method=lora,weight_bits=16", scenario)
    assert found.status == "impossible" and found.memory is not None
    assert found.memory.peak > found.memory.usable and found.memory.parts
    assert f"{found.memory.peak:.1f} GiB per GPU" in found.reasons[0]
    shorter = next(one for one in found.remedies if "sequence_length" in one.change)
    assert (
        answer("gpu=RTX3060,method=lora,weight_bits=16", change_scenario(scenario, [shorter.setting])).status
        != "impossible"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ("gpu=RTX3080", "no offer of the inventory has gpu RTX3080"),
        ("gpu=RTX4090,provider=b", "RTX4090 is offered by a"),
        ("gpu=RTX4090,gpus=3", "available counts: 1"),
        ("method=full,weight_bits=4", "quantised weights cannot be trained in full"),
        ("gpu=V100-16GB,precision=bf16_mixed", "the card has no bf16"),
        ("gpu=RTX3060,market=spot", "spot price below"),
        ("gpu=RTX4090,sharding=zero3", "needs more than one GPU"),
    ],
)
def test_what_cannot_be_has_its_reason(wish: str, said: str) -> None:
    """No limit is to blame: nobody rents it, or it does not work, and the rule is quoted."""
    found = answer(wish)
    assert found.status == "impossible" and any(said in reason for reason in found.reasons)


def test_pretraining_knows_no_adapters() -> None:
    """A method that the kind of job excludes is a reason, not an error."""
    found = answer("method=lora", scenario_of(kind="pretrain"))
    assert found.status == "impossible" and "pretraining" in found.reasons[0]


@pytest.mark.slow
def test_remedies_hold() -> None:
    """Leaving out what is told to be left out gives the told price."""
    found = answer("gpu=V100-16GB,precision=bf16_mixed")
    assert found.remedies
    for one in found.remedies:
        key = one.change.removeprefix("without ").partition("=")[0]
        kept = {"gpu": "precision=bf16_mixed", "precision": "gpu=V100-16GB"}[key]
        assert answer(kept).cost_usd == pytest.approx(one.cost_usd, abs=0.006)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ("gpi=RTX4090", "did you mean gpu"),
        ("gpu=RTX409", "did you mean RTX4090"),
        ("provider=zebra", "known: a, b"),
        ("method=lorra", "did you mean lora"),
        ("gpus=two", "total number"),
        ("gpu", "is not KEY=VALUE"),
        ("gpu=RTX4090,gpu=RTX3060", "is given twice"),
        ("method=qlora,weight_bits=8", "QLoRA has 4-bit weights"),
        ("job=u", "unknown job 'u'"),
    ],
)
def test_a_wish_that_makes_no_sense_is_told_with_what_would(wish: str, said: str) -> None:
    """Unknown keys and values are input errors, each with the nearest name."""
    with pytest.raises(ScenarioError) as caught:
        answer(wish)
    assert any(said in str(fault) for fault in caught.value.faults)


@pytest.mark.slow
def test_of_several_jobs_one_must_be_named() -> None:
    """The fault lists the jobs; named, the other jobs are planned around X."""
    one = {"architecture": BASE, "work": {"tokens": 2e7}, "deadline": "10h"}
    data = {"name": "t", "offers": MARKET, "jobs": [{"name": "x", **one}, {"name": "y", **one}]}
    scenario = parse_scenario(json.dumps(data))
    with pytest.raises(ScenarioError, match="job=x"):
        answer("gpu=RTX3060", scenario)
    found = answer("job=y,gpu=A100-PCIe-80GB", scenario)
    assert found.status == "possible" and "y: 2 x A100-PCIe-80GB" in found.plan


@pytest.mark.slow
def test_a_card_that_nobody_rents_has_its_nearest_ones() -> None:
    """The most alike of the rented cards are named, and what they would cost is what solving finds."""
    found = answer("gpu=RTX3080")
    (near,) = [reason for reason in found.reasons if "on offer are " in reason]
    assert near.removeprefix("the nearest GPUs on offer are ").split(", ")[0] in ("RTX3060", "V100-16GB")
    assert found.remedies
    for one in found.remedies:
        assert one.change.endswith(" instead") and one.change.split()[0].removeprefix("gpu=") in near
        assert answer(one.change.split()[0]).cost_usd == pytest.approx(one.cost_usd, abs=0.006)


def test_an_unknown_offer_has_those_of_the_same_provider_and_card() -> None:
    """Parts of the name count, not the likeness of letters."""
    with pytest.raises(ScenarioError) as caught:
        answer("offer=b/RTX3060/spot")
    (fault,) = caught.value.faults
    assert fault.fix.startswith("did you mean b/east/") and "a/" not in fault.fix.removeprefix("did you mean b/")


def test_what_does_not_fit_says_what_else_was_tried_and_works() -> None:
    """Neither another optimizer nor checkpointing helps; more cards would; so does what the job must let in."""
    market = [
        {"provider": "v", "gpu": "V100-16GB", "gpus": 1, "usd_per_hour": 0.3},
        {"provider": "v", "gpu": "H100-80GB", "gpus": 1, "usd_per_hour": 3.0},
    ]
    job = {"name": "t", "architecture": BASE, "work": {"tokens": 2e7}, "framework": "hf"}
    job["techniques"] = {"method": "lora", "optimizer": ["adamw", "adamw_8bit"]}
    scenario = parse_scenario(json.dumps({"name": "t", "offers": market, "jobs": [job]}))
    found = answer("gpu=V100-16GB,method=full,precision=fp32", scenario)
    assert found.status == "impossible"
    assert "no other checkpointing or optimizer or sharding needs less" in found.reasons
    assert any("of them would hold it, but no offer has that many together" in reason for reason in found.reasons)
    shorter = next(one for one in found.remedies if one.change.startswith("sequence_length"))
    assert shorter.also == ("jobs.0.techniques.method=[lora,full]",)
    opened = change_scenario(scenario, [shorter.setting, *shorter.also])
    assert answer(found.asked, opened).cost_usd == pytest.approx(shorter.cost_usd, abs=0.006)


def test_what_a_job_lists_is_tried_and_what_nothing_tries_is_proposed() -> None:
    """8-bit states are chosen only where a job lists them: else they are the remedy, and the reasons do not deny it."""
    card = {"provider": "v", "gpu": "V100-16GB", "gpus": 1, "usd_per_hour": 0.3, "ram_gb": 4}  # no room for pages
    job = {"name": "t", "architecture": BASE, "work": {"tokens": 2e7}, "techniques": {"method": "lora"}}
    scenario = parse_scenario(json.dumps({"name": "t", "offers": [card], "jobs": [job]}))
    found = answer("method=full,precision=fp32", scenario)
    assert found.status == "impossible" and "no other checkpointing or sharding needs less" in found.reasons
    (eight_bit,) = [one for one in found.remedies if one.change == "the 8-bit optimizer"]
    opened = change_scenario(scenario, [eight_bit.setting, *eight_bit.also])
    assert answer(found.asked, opened).cost_usd == pytest.approx(eight_bit.cost_usd, abs=0.006)
    listed = answer(found.asked, change_scenario(scenario, ["jobs.0.techniques.optimizer=[adamw,adamw_8bit]"]))
    assert listed.status == "beyond" and [one.limit for one in listed.relax] == ["jobs.t.techniques.method"]


def test_a_price_that_is_too_old_is_named_with_the_setting_that_admits_it() -> None:
    """The offer of the region is left out for the age of its price, and nothing else excludes it."""
    new = {"provider": "a", "gpu": "A100-PCIe-80GB", "gpus": 1, "usd_per_hour": 1.2, "date": "2026-11-01"}
    old = {**new, "region": "far", "date": "2025-11-01"}
    job = {"name": "t", "architecture": BASE, "work": {"tokens": 2e7}}
    found = answer("region=far", parse_scenario(json.dumps({"name": "t", "offers": [new, old], "jobs": [job]})))
    assert found.reasons == ("its price is too old: limits.max_price_age is 180 d",)
    assert [one.setting for one in found.relax] == ["limits.max_price_age=null"]

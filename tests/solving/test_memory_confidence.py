"""The confidence of memory: what it admits, what the plan says if it does not hold, and what only risk excludes."""

from __future__ import annotations

import datetime
import math
from itertools import pairwise

import pytest

from planner.errors import ScenarioError
from planner.estimates.memory_fit import confidence_margin, fit_probability
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.results.plan import Plan
from planner.scenario.job import Confidence, Job
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.solve import solve
from tests.helpers.scenarios import parse_scenario

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
LIBRARY = read_library(["mistral-7b"])
SCENARIO = """
name: sure
offers:
  - {provider: a, gpu: A5000, gpus: 1, usd_per_hour: 0.16, max_nodes: 2, network_gbps: 100}
  - {provider: a, gpu: RTX3090, gpus: 1, usd_per_hour: 0.2}
  - {provider: b, gpu: A100-80GB, gpus: 1, usd_per_hour: 1.6}
jobs:
  - name: j
    architecture: mistral-7b
    work: {samples: 50000, tokens_per_sample: 600, epochs: 1}
    sequence_length: 2048
    deadline: 36h
    techniques: {method: lora, weight_bits: 4}
"""


def asked(*settings: str) -> Scenario:
    return parse_scenario(SCENARIO, set_=settings)


def solved(*settings: str) -> Plan:
    scenario = asked(*settings)
    plan = solve(scenario, OPTIONS, LIBRARY)
    assert audit(plan, scenario, LIBRARY) == []
    return plan


@pytest.mark.parametrize("sigma", [0.0327, 0.0844, 0.262])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99])
def test_the_margin_of_a_confidence_is_where_the_probability_reaches_it(sigma: float, level: float) -> None:
    """Both say the same: what just fits with this margin fits with this probability."""
    margin = confidence_margin(sigma, level)
    assert float(fit_probability(margin, sigma)) == pytest.approx(level, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("framework", "level"), [("hf", 0.6), ("hf", 0.8), ("hf", 0.95), ("hf", 0.99), ("unsloth", 0.6), ("unsloth", 0.95)]
)
def test_a_plan_fits_with_at_least_the_probability_that_is_asked_for(level: float, framework: str) -> None:
    """Whatever profile stands behind the estimate."""
    plan = solved(f"jobs.j.confidence.memory={level}", f"jobs.j.framework={framework}")
    assert plan.jobs[0].vram_gib.fit_probability >= level - 1e-9


def test_a_framework_without_measured_peaks_is_never_surer_than_98_percent() -> None:
    """So there is no plan with it where more is asked for, and the reason is the framework, not a lack of memory."""
    plan = solved("jobs.j.confidence.memory=0.99", "jobs.j.framework=unsloth")
    assert not plan.jobs and plan.infeasible is not None
    (doubt,) = [reason for reason in plan.candidates.reasons if "unsloth" in reason]
    assert "at most 98 %" in doubt and "asks for 99 %" in doubt
    assert any(doubt in miss.reason for miss in plan.infeasible.nearest)
    assert all(miss.shortfall < 100 for miss in plan.infeasible.nearest)
    assert {change.limit for change in plan.infeasible.relax} == {"jobs.j.framework", "jobs.j.confidence.memory"}


def test_an_observed_peak_lifts_the_highest_probability_of_its_framework() -> None:
    """What was seen to fit needs no documentation."""
    seen = "{gpu: A100-80GB, gpus: 1, tokens_per_second: 9000, peak_vram_gib: 12, micro_batch: 4}"
    plan = solved("jobs.j.confidence.memory=0.99", "jobs.j.framework=unsloth", f"jobs.j.measured=[{seen}]")
    assert plan.jobs[0].vram_gib.fit_probability >= 0.99


def test_more_certainty_never_costs_less() -> None:
    """What is admitted at a higher confidence is admitted at a lower one."""
    costs = [solved(f"jobs.j.confidence.memory={level}").objective for level in (0.6, 0.8, 0.95, 0.99)]
    assert all(one is not None for one in costs)
    assert all(float(one or 0) <= float(other or 0) + 1e-9 for one, other in pairwise(costs))


def test_what_only_risk_excludes_is_named_with_the_setting_that_admits_it() -> None:
    """The setting gives the plan of that figure, and no surer one is left out."""
    longer = "jobs.j.sequence_length=6656"  # what is cheapest fits with 97.8 %
    job = solved(longer, "jobs.j.confidence.memory=0.99").jobs[0]
    (riskier,) = job.cheaper_at_risk
    setting = riskier.note.partition(": ")[2]
    assert setting.startswith("jobs.j.confidence.memory=0.")
    again = solved(longer, setting)
    assert again.cost is not None and riskier.cost_usd is not None
    assert again.cost.expected == pytest.approx(riskier.cost_usd, abs=0.006)
    assert again.jobs[0].vram_gib.fit_probability < 0.99
    assert riskier.cost_usd < job.cost_usd * 0.99


def test_a_plan_says_what_to_switch_on_if_memory_does_not_suffice() -> None:
    """The change needs less memory, and takes as much longer as a plan that is made with it."""
    job = solved("jobs.j.confidence.memory=0.7", "jobs.j.framework=hf").jobs[0]
    fallback = job.vram_gib.fallback
    assert fallback is not None
    assert fallback.fit_probability > job.vram_gib.fit_probability
    assert fallback.hours >= 0 and fallback.usd >= 0
    same = (fallback.micro_batch, fallback.activation_checkpointing)
    assert same != (job.techniques.micro_batch, job.techniques.activation_checkpointing)
    product = job.techniques.micro_batch * job.techniques.accumulation_steps
    assert fallback.micro_batch * fallback.accumulation_steps == product


def test_headroom_replaces_the_confidence() -> None:
    """An expert's margin holds whatever the confidence says."""
    one = solved("limits.vram_headroom=0.1", "jobs.j.confidence.memory=0.6")
    other = solved("limits.vram_headroom=0.1", "jobs.j.confidence.memory=0.99")
    assert one.objective == other.objective and not one.jobs[0].cheaper_at_risk


def test_a_number_is_the_confidence_of_the_deadline() -> None:
    """That of memory has its own default, and its own bound."""
    given = asked("jobs.j.confidence=0.8").jobs[0]
    assert (given.confidence, given.memory_confidence) == (0.8, 0.85)
    both = asked("jobs.j.confidence={deadline: 0.6, memory: 0.99}").jobs[0]
    assert (both.confidence, both.memory_confidence) == (0.6, 0.99)
    assert Job.model_fields["confidence_given"].default == Confidence()
    with pytest.raises(ScenarioError, match=r"confidence\.memory"):
        asked("jobs.j.confidence.memory=0.995")
    with pytest.raises(ScenarioError, match="more than can be guaranteed"):
        asked("jobs.j.confidence=0.99")


def test_a_margin_below_one_half_is_no_margin() -> None:
    """At even odds the median itself has to fit."""
    assert math.isclose(confidence_margin(0.1, 0.5), 0.0, abs_tol=1e-12)


def test_a_risk_whose_setting_gives_another_plan_is_not_named() -> None:
    """At the lower confidence the plan on two machines is still taken: it is faster, for five cents more at most."""
    scenario = """
name: x
offers: [{provider: a, gpu: A5000, gpus: 1, usd_per_hour: 0.16}, {provider: a, gpu: A5000, gpus: 2, usd_per_hour: 0.32}]
jobs: [{name: j, architecture: mistral-7b, work: {tokens: 5M}, techniques: {method: lora, weight_bits: 16}}]
"""
    sure = "jobs.j.confidence.memory=0.95"
    strict = solve(parse_scenario(scenario, set_=[sure, "solve.ties=0"]), OPTIONS, LIBRARY)
    (riskier,) = strict.jobs[0].cheaper_at_risk
    setting = riskier.note.partition(": ")[2]
    with_setting = solve(parse_scenario(scenario, set_=[setting, "solve.ties=0.05"]), OPTIONS, LIBRARY)
    assert with_setting.jobs[0].gpus != riskier.gpus
    assert not solve(parse_scenario(scenario, set_=[sure, "solve.ties=0.05"]), OPTIONS, LIBRARY).jobs[0].cheaper_at_risk

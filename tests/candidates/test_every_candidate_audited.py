"""Every candidate, not only the one that wins, is what the audit makes of it."""

from __future__ import annotations

import datetime
import random

import pytest

from planner.candidates.candidate_enumeration import Margins, enumerate_candidates
from planner.candidates.market import build_market
from planner.candidates.screening import screen
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.loading.scenario_file import parse_scenario
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import CandidateCounts
from planner.scenario.scenario import Scenario
from planner.solving.chosen import ChosenCandidate
from planner.solving.notes import build_assignment

AS_OF = datetime.date(2026, 1, 1)
SAMPLE = 12

SCENARIO = """
name: many-ways
offers:
  - {provider: a, region: x, gpu: H100-80GB, gpus: 8, usd_per_hour: 30, spot_usd_per_hour: 11,
     max_nodes: 4, network_gbps: 3200, spot: {availability: 0.8, mean_up_hours: 5},
     fees: {egress_usd_per_gb: 0.1, public_ip_usd_per_hour: 0.2}}
  - {provider: a, region: y, gpu: H100-80GB, gpus: 8, usd_per_hour: 30, spot_usd_per_hour: 11,
     max_nodes: 4, network_gbps: 3200, spot: {availability: 0.8, mean_up_hours: 5},
     fees: {egress_usd_per_gb: 0.1, public_ip_usd_per_hour: 0.2}}
  - {provider: b, gpu: A100-PCIe-80GB, gpus: 4, spot_usd_per_hour: 3, max_nodes: 2,
     billing: {step_seconds: 3600}}
  - {provider: c, gpu: RTX3090, gpus: 2, usd_per_hour: 0.5, spot_usd_per_hour: 0.6, community: true,
     billing: {step_seconds: 60, minimum_hours: 6}}
  - {provider: d, gpu: V100-32GB, gpus: 8, usd_per_hour: 6, spot_usd_per_hour: 2, max_nodes: 4}
  - {provider: e, gpu: T4, gpus: 1, usd_per_hour: 0.3, spot_usd_per_hour: 0.1,
     billing: {step_seconds: 3600, minimum_hours: 1}}
jobs:
  - {name: job, architecture: mistral-7b, data_gb: 3,
     work: {samples: 20000, tokens_per_sample: 900, epochs: 2}}
"""
ASK = {
    "as it comes": [],
    "two-step batches": ["jobs.job.global_batch=96"],
    "padded": ["jobs.job.packing=padded", "jobs.job.length_cv=1.1"],
    "fixed": ["jobs.job.packing=fixed"],
    "steps": ["jobs.job.work={steps: 300, tokens_per_sample: 700}", "jobs.job.packing=fixed"],
    "tokens": ["jobs.job.work={tokens: 2e7}", "jobs.job.sequence_length=4096"],
    "precisions": ["jobs.job.techniques.precision=[bf16, fp16_mixed, tf32, fp32]"],
    "shardings": ["jobs.job.techniques.sharding=[ddp, zero1, zero2, zero3, hsdp]"],
    "degrees": ["jobs.job.techniques.tensor_parallel=[1, 2]", "jobs.job.framework=torchtitan"],
    "quantisations": ["jobs.job.techniques.quant=[nf4_dq, gptq]", "jobs.job.techniques.weight_bits=[4, 8]"],
    "attention": ["jobs.job.techniques.attention=[eager, mem_efficient]"],
    "storage": ["jobs.job.storage_gb_per_second=0.1", "jobs.job.load_efficiency=0.9", "jobs.job.efficiency=0.7"],
    "headroom": ["limits.vram_headroom=0.3"],
    "spot": ["limits.spot_share={min: 0.2, max: 0.6}", "jobs.job.confidence=0.97", "jobs.job.deadline=20h"],
    "prices": ["adjust=[{match: {provider: a}, usd_per_hour_factor: 0.5, spot_usd_per_hour_factor: 2}]"],
    "unprofiled": ["jobs.job.framework=unknown"],
    "unsloth": ["jobs.job.framework=unsloth"],
    "pipelines": [
        "jobs.job.framework=megatron",
        "jobs.job.architecture=llama-2-70b",
        "jobs.job.techniques.method=full",
    ],
    "observed": [
        "jobs.job.measured=[{gpu: A100-PCIe-80GB, gpus: 4, hours: 2.4}, {gpu: H100-80GB, gpus: 16, hours: 3}, "
        "{gpu: RTX3090, gpus: 2, hours: 30, peak_vram_gib: 23}, {gpu: T4, gpus: 1, hours: 70}]",
        "jobs.job.efficiency=0.7",
        "jobs.job.techniques.method=full",
    ],
    "experts": ["jobs.job.architecture=mixtral-8x7b"],
    "images": [
        "jobs.job.architecture=stable-diffusion-1.5",
        "jobs.job.work={images: 3000, epochs: 5, resolution: 768}",
    ],
}


def sampled(scenario: Scenario) -> list[Assignment]:
    """Some of the candidates that meet the limits, at the ends and the middle of their spot share."""
    library = read_library([job.architecture for job in scenario.jobs])
    market, job = build_market(scenario, library), scenario.jobs[0]
    architecture = library.architecture(job.architecture)
    every = enumerate_candidates(job, architecture, market, [job.name], library, Margins(scenario.limits.vram_headroom))
    open_ones = screen(every, market, scenario.limits, library)
    found = []
    drawn = random.Random(0).sample(range(len(open_ones.table)), min(SAMPLE, len(open_ones.table)))
    for row in drawn:
        low, high = float(open_ones.table.share_low[row]), float(open_ones.table.share_high[row])
        for share in dict.fromkeys((low, (low + high) / 2, high)):
            chosen = ChosenCandidate.of(every, open_ones, market, row, share)
            found.append(build_assignment(chosen, scenario, library, AS_OF))
    return found


def plan_of(scenario: Scenario, job: Assignment) -> Plan:
    """A plan without a proof that runs one job like this."""
    return Plan(
        scenario=scenario.name,
        status="feasible",
        objective=job.cost_usd,
        bound=None,
        gap=None,
        least_cost_usd=job.cost_usd if scenario.has_plain_dollars else None,
        solver="none",
        seconds=0.0,
        as_of=AS_OF.isoformat(),
        candidates=CandidateCounts(made=0, rejected=0, dominated=0),
        cost=job.cost,
        cost_at_confidence=job.cost_at_confidence,
        hours=job.hours,
        jobs=(job,),
    )


@pytest.mark.long
@pytest.mark.parametrize("setting", ASK.values(), ids=ASK)
def test_candidates_are_what_the_audit_makes_of_them(setting: list[str]) -> None:
    """Memory, hours and dollars of sampled candidates, recomputed one at a time, are the same.

    They are shares of two markets, which no plan is where a policy can be followed: that alone is not looked at.
    """
    scenario = parse_scenario(SCENARIO, set_=setting)
    library = read_library([job.architecture for job in scenario.jobs])
    ways = sampled(scenario)
    assert ways
    wrong = {
        (one.what, f"{way.offer} x{way.instances} at {way.spot_share:g}"): str(one)
        for way in ways
        for one in audit(plan_of(scenario, way), scenario, library)
        if one.what != "a policy on spot"
    }
    assert not wrong, "\n".join(list(wrong.values())[:8])

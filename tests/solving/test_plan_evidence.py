"""What the figures of a plan rest on, and the best plan that rests on no guess."""

from __future__ import annotations

import datetime

import pytest

from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.loading.scenario_file import parse_scenario
from planner.results.plan_parts import PlanEvidence
from planner.scenario.scenario import SolveOptions
from planner.solving.solve import solve

AS_OF = datetime.date(2026, 11, 21)
TRAINING = """
name: t
offers:
  - {{provider: a, region: r1, instance: i, gpu: {cheap}, gpus: 1, usd_per_hour: 0.1, date: 2026-11-20{spot}}}
  - {{provider: b, region: r2, instance: i, gpu: A100-80GB, gpus: 1, usd_per_hour: 3.0, date: 2026-11-20}}
jobs:
  - name: t
    architecture: llama-3.2-1b
    framework: hf
    work: {{tokens: 1e8}}
    techniques: {{method: lora, weight_bits: 16}}
"""
GENERATION = """
name: t
offers:
  - {provider: a, region: r1, instance: i, gpu: A10, gpus: 1, usd_per_hour: 0.1, date: 2026-11-20}
  - {provider: b, region: r2, instance: i, gpu: H100-80GB, gpus: 1, usd_per_hour: 9.0, date: 2026-11-20}
jobs:
  - name: t
    kind: inference
    architecture: llama-3.2-1b
    work: {requests: 1000, input_tokens: 500, output_tokens: 100}
    techniques: {engine: vllm}
"""


def evidence(text: str) -> PlanEvidence:
    """Return what the only job of a scenario rests on."""
    (job,) = solve(parse_scenario(text), SolveOptions(as_of=AS_OF)).jobs
    assert job.evidence is not None
    return job.evidence


@pytest.mark.slow
def test_a_plan_on_a_prior_names_the_best_one_that_is_not() -> None:
    """An A10 for ten cents has no measured speed; the A100 costs more and has one."""
    found = evidence(TRAINING.format(cheap="A10", spot=""))
    assert (found.speed, found.memory, found.price, found.spot) == ("prior", "fitted", "measured", None)
    assert found.known is not None and (found.known.provider, found.known.gpu) == ("b", "A100-80GB")


@pytest.mark.slow
def test_a_gpu_whose_products_were_timed_is_no_prior() -> None:
    """An A6000 has no published run of the fit, but products that were timed on it."""
    found = evidence(TRAINING.format(cheap="A6000", spot=""))
    assert found.speed == "fitted" and found.known is None


@pytest.mark.slow
def test_a_spot_market_without_statistics_is_a_prior() -> None:
    """Spot for a cent, of which the offer says nothing else."""
    found = evidence(TRAINING.format(cheap="A6000", spot=", spot_usd_per_hour: 0.01"))
    assert found.spot == "prior"


@pytest.mark.slow
def test_generation_rests_on_engine_gpu_and_format() -> None:
    """No measurement of generation on an A10 has informed the fit; of vLLM on an H100 many have."""
    found = evidence(GENERATION)
    assert (found.speed, found.memory) == ("prior", "fitted")
    assert found.known is not None and found.known.gpu == "H100-80GB"


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "word"), [("litgpt", "prior"), ("hf", "fitted")])
def test_a_loop_over_many_experts_is_a_prior(framework: str, word: str) -> None:
    """Of 128 experts no loop was measured: the plan says so, and its range holds half and twice the hours."""
    text = TRAINING.format(cheap="H200", spot="").replace("llama-3.2-1b", "qwen3-30b-a3b").replace("gpus: 1", "gpus: 8")
    scenario = parse_scenario(text.replace("framework: hf", f"framework: {framework}"))
    plan = solve(scenario, SolveOptions(as_of=AS_OF))
    assert audit(plan, scenario, read_library(["qwen3-30b-a3b"])) == []
    (job,) = plan.jobs
    assert job.evidence is not None and job.evidence.speed == word
    wide = job.hours.high > 2 * job.hours.expected and job.hours.low < job.hours.expected / 2
    assert wide == (word == "prior")
    (said,) = [note for note in job.notes if "experts" in note]
    assert ("128 experts in a loop is a prior" in said) == (word == "prior")


@pytest.mark.slow
def test_served_adapters_are_a_prior_on_any_gpu() -> None:
    """No measurement has several adapters in one batch, so that no plan of the job rests on any."""
    served = GENERATION.replace("techniques:", "adapter: {rank: 16, served: 4}\n    techniques:")
    found = evidence(served)
    assert found.speed == "prior" and found.known is None


OWN_RUN = """
    measured:
      - {gpu: A6000, gpus: 1, tokens_per_second: 20000, peak_vram_gib: 9.5, micro_batch: MICRO, sequence_length: 2048,
         activation_checkpointing: full, attention: flash}
    sequence_length: 2048
    global_batch: 8
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("micro", "cheap", "word"), [(8, "A6000", "measured"), (1, "A6000", "fitted"), (8, "A40", "fitted")]
)
def test_memory_is_measured_where_a_run_as_large_was_on_that_gpu(micro: int, cheap: str, word: str) -> None:
    """A peak of a smaller batch, or on another GPU, corrects an estimate."""
    text = TRAINING.format(cheap=cheap, spot="") + OWN_RUN.replace("MICRO", str(micro))
    pinned = "activation_checkpointing: full, attention: flash"
    assert evidence(text.replace("weight_bits: 16", f"weight_bits: 16, {pinned}")).memory == word

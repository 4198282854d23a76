"""Limits on latency that a service gets where it gives none, and formats of weights that a plan may use."""

from __future__ import annotations

import pytest

from planner.errors import ScenarioError
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.loading.scenario_file import parse_scenario
from planner.report.plan_text import render
from planner.scenario.inference_job import ServeJob
from planner.scenario.scenario import Scenario
from planner.solving.solve import solve
from tests.helpers.services import desk

LIBRARY = read_library()


def service(scenario: Scenario) -> ServeJob:
    """Return the only job."""
    (job,) = scenario.jobs
    assert isinstance(job, ServeJob)
    return job


@pytest.mark.parametrize(
    ("settings", "ttft", "tpot", "by_default"),
    [
        ((), 1.0, 0.04, ()),
        (("jobs.desk.latency={tpot: 50ms}",), 2.4, 0.05, ("ttft",)),
        (("jobs.desk.latency={}",), 2.4, 0.2, ("ttft", "tpot")),
        (("jobs.desk.latency={}", "jobs.desk.load.input_tokens=100000"), 52.0, 0.2, ("ttft", "tpot")),
        (("jobs.desk.latency={}", "jobs.desk.load.prefix_tokens=600"), 2.1, 0.2, ("ttft", "tpot")),
        (("jobs.desk.latency={ttft: none, tpot: none}",), None, None, ()),
        (("jobs.desk.latency={ttft: null}",), None, 0.2, ("tpot",)),
    ],
)
def test_each_limit_has_a_default_and_the_first_token_grows_with_the_prompt(
    settings: tuple[str, ...], ttft: float | None, tpot: float | None, by_default: tuple[str, ...]
) -> None:
    """2 s and 0.5 s per 1,000 tokens that are not shared, 0.2 s per token; `none` is no limit and stays so."""
    scenario = desk(*settings)
    job = service(scenario)
    assert job.latency.ttft_seconds == (None if ttft is None else pytest.approx(ttft))
    assert job.latency.tpot_seconds == (None if tpot is None else pytest.approx(tpot))
    assert job.latency.by_default == by_default
    again = ServeJob.model_validate(
        job.model_dump(mode="json", by_alias=True, exclude_defaults=True) | {"kind": "serve", "name": "desk"}
    )
    assert (again.latency.ttft_seconds, again.latency.tpot_seconds) == (
        job.latency.ttft_seconds,
        job.latency.tpot_seconds,
    )


def test_of_many_lengths_the_one_counts_that_the_share_stays_below() -> None:
    """One long prompt in a hundred does not loosen the limit of all; one in ten does."""
    for count, seconds in ((1, 2.5), (10, 12.0)):
        sizes = ((1000, 100 - count), (20000, count))
        rows = (f"{{input_tokens: {size}, output_tokens: 100, count: {many}}}" for size, many in sizes)
        lengths = f"[{', '.join(rows)}]"
        found = desk(
            "jobs.desk.latency={}", "jobs.desk.load.input_tokens=null", "jobs.desk.load.output_tokens=null",
            f"jobs.desk.load.lengths={lengths}",
        )  # fmt: skip
        assert service(found).latency.ttft_seconds == pytest.approx(seconds)


@pytest.mark.slow
def test_the_default_is_said_right_below_the_first_line() -> None:
    """With the key that changes it; a service that gives both limits says nothing."""
    plan = solve(desk("jobs.desk.latency={}"))
    lines = " ".join(render(plan).split("\n\n")[0].split())
    assert "by default: first token within 2.4 s, each further token within 200 ms" in lines
    assert "jobs.desk.latency.ttft and jobs.desk.latency.tpot change that" in lines
    assert plan.services[0].assumed
    assert "by default" not in render(solve(desk()))


OSS = """
schema: 2
name: oss
jobs:
  - name: label
    kind: inference
    architecture: openai/gpt-oss-120b
    work: {requests: 20000, input_tokens: 500, output_tokens: 100}
offers:
  - {provider: one, gpu: H100-80GB, gpus: 8, usd_per_hour: 20.0, date: "2026-11-01", source: test}
  - {provider: one, gpu: H100-80GB, gpus: 3, usd_per_hour: 7.0, date: "2026-11-01", source: test}
"""


def test_a_quantised_release_is_planned_in_its_own_format() -> None:
    """No other format is made of it, nothing is said to be rounded, and the audit agrees."""
    scenario = parse_scenario(OSS)
    plan = solve(scenario)
    (job,) = plan.jobs
    assert job.inference is not None
    assert (job.inference.weight_format, job.conversion, job.lossy_techniques, job.quality) == ("mxfp4", None, (), ())
    assert job.inference.gpus_per_replica in (1, 2, 4, 8)
    assert not list(audit(plan, scenario, LIBRARY))
    for setting, where in (
        ("jobs.label.techniques.weight_bits=[8]", "weight_bits"),
        ("jobs.label.techniques.weight_format=[awq]", "weight_format"),
        ("jobs.label.techniques.engine=autoawq", "engine"),
        ("jobs.label.techniques.tensor_parallel=[3]", "tensor_parallel"),
    ):
        with pytest.raises(ScenarioError) as caught:
            solve(parse_scenario(OSS, set_=(setting,)))
        assert [fault.where.rpartition(".")[2] for fault in caught.value.faults] == [where]


def test_what_must_be_converted_is_in_the_first_lines() -> None:
    """TensorRT-LLM makes no fp8 by itself."""
    techniques = "jobs.label.techniques={engine: trt-llm, weight_bits: [8]}"
    plan = solve(parse_scenario(OSS, set_=("jobs.label.architecture=llama-3-8b", techniques)))
    assert "convert to fp8 with LLM Compressor" in " ".join(render(plan).splitlines()[1].split())

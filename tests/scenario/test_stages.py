"""Trials and stages of a job: how they are written, and one clear message per fault."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from planner.documents.validation import validation_complaints
from planner.errors import ScenarioError
from planner.loading.scenario_file import parse_scenario
from planner.scenario.job import Job
from planner.scenario.job_stages import Stages, Trials
from planner.scenario.scenario import scenario_data, scenario_schema
from tests.helpers.scenarios import json_text

JOB = {"name": "a", "architecture": "mistral-7b", "work": {"tokens": 1_000_000}}
IMAGES = {"name": "a", "architecture": "stable-diffusion-1.5", "work": {"images": 1000}}
SCENARIO = """
name: whole
jobs:
  - name: a
    architecture: mistral-7b
    work: {tokens: 1M}
    trials: {count: 9, at_once: 3, halving: 3}
    early_stopping: 0.7
    stages:
      ingest: {raw_gb: 50, on: cpu}
      transfer: {region: us-east-1, egress_usd_per_gb: 0.09, gb_per_second: 0.2}
      evaluation: {share: 0.1, on: [one_gpu, cpu]}
      checkpoints: {count: 10, keep: 2, contents: weights, asynchronous: false}
      export: {merged: true, gb_per_second: 0.1}
      retention: 30d
offers:
  - {provider: vast, gpu: RTX3090, gpus: 1, usd_per_hour: 0.2}
"""


def job(**changes: Any) -> Job:
    return Job.model_validate({**JOB, **changes})


def test_a_job_says_nothing_of_stages() -> None:
    """One trial, no stage, no early stop: what a job of training alone means."""
    plain = job()
    assert plain.trials == Trials(count=1, at_once=1, halving=None)
    assert plain.early_stopping == 1.0
    assert plain.stages == Stages()


def test_every_stage_reads_back_as_written() -> None:
    """The text of a scenario with all stages parses to the same scenario again, units turned into numbers."""
    read = parse_scenario(SCENARIO)
    assert parse_scenario(json_text(scenario_data(read))) == read
    stages = read.jobs[0].stages
    assert stages.retention_hours == 720
    assert stages.ingest is not None
    assert (stages.ingest.on, stages.ingest.ram_gb, stages.ingest.tokens) == (("cpu",), 32, None)
    assert stages.checkpoints is not None
    assert (stages.checkpoints.keep, stages.checkpoints.asynchronous) == (2, False)


def test_a_number_of_trials_is_enough() -> None:
    """`trials: 8` is eight runs one after the other, in full."""
    assert job(trials=8).trials == job(trials={"count": 8}).trials == Trials(count=8)
    with pytest.raises(ScenarioError, match="keeping one trial in 3 needs as many, but there are 1"):
        parse_scenario(SCENARIO, set_=["jobs.a.trials.count=1", "jobs.a.trials.at_once=1"])


FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"trials": 0}, "trials", "0 is not a number of trials"),
    ({"trials": 2.5}, "trials", "2.5 is not a number of trials"),
    ({"trials": True}, "trials", "true is not a number of trials"),
    ({"trials": {"count": 0}}, "trials.count", "0 is out of range"),
    ({"trials": {"count": 2, "at_once": 3}}, "trials.at_once", "3 trials at once, but only 2 in total"),
    ({"trials": {"count": 9, "halving": 1}}, "trials.halving", "1 is out of range"),
    ({"early_stopping": 0}, "early_stopping", "0 is out of range"),
    ({"early_stopping": 1.2}, "early_stopping", "1.2 is out of range"),
    ({"stages": {"ingest": {}}}, "stages.ingest.raw_gb", "is missing"),
    ({"stages": {"ingest": {"raw_gb": -1}}}, "stages.ingest.raw_gb", "-1 is out of range"),
    ({"stages": {"ingest": {"raw_gb": 1, "on": "one_gpu"}}}, "stages.ingest.on", "'one_gpu' is not one of"),
    ({"stages": {"transfer": {"egress_usd_per_gb": -0.1}}}, "stages.transfer.egress_usd_per_gb", "out of range"),
    ({"stages": {"transfer": {"gb_per_second": 0}}}, "stages.transfer.gb_per_second", "0 is out of range"),
    ({"stages": {"evaluation": {}}}, "stages.evaluation", "the amount of evaluation is missing"),
    ({"stages": {"evaluation": {"share": 1, "tokens": 1}}}, "stages.evaluation.tokens", "contradict each other"),
    ({"stages": {"evaluation": {"share": 1, "on": []}}}, "stages.evaluation.on", "is empty"),
    ({"stages": {"checkpoints": {"count": 2, "keep": 3}}}, "stages.checkpoints.keep", "keeps 3 checkpoints"),
    ({"stages": {"checkpoints": {"count": 2, "contents": "all"}}}, "stages.checkpoints.contents", "'all' is not one"),
    ({"stages": {"export": {"gb_per_second": -1}}}, "stages.export.gb_per_second", "-1 is out of range"),
    ({"stages": {"retention": 30}}, "stages.retention", "30 has no unit"),
    ({"stages": {"deploy": {}}}, "stages.deploy", "unknown key"),
]


@pytest.mark.parametrize(("changes", "where", "what"), FAULTS, ids=[f"{where}-{what}" for _, where, what in FAULTS])
def test_every_fault_has_one_message(changes: dict[str, Any], where: str, what: str) -> None:
    """A trial or stage that makes no sense is told once, at its key."""
    data = {**JOB, **changes}
    with pytest.raises(ValidationError) as caught:
        Job.model_validate(data)
    told = validation_complaints(caught.value, Job, data)
    assert [(".".join(map(str, path)), what in words) for path, words, _ in told] == [(where, True)]


@pytest.mark.parametrize(
    ("stages", "where"),
    [
        ({"ingest": {"raw_gb": 5, "tokens": 10}}, "stages.ingest.tokens"),
        ({"evaluation": {"tokens": 10}}, "stages.evaluation.tokens"),
    ],
)
def test_images_have_no_tokens(stages: dict[str, Any], where: str) -> None:
    """A stage of a job on images cannot be measured in tokens."""
    data = {**IMAGES, "stages": stages}
    with pytest.raises(ValidationError, match="images have no tokens") as caught:
        Job.model_validate(data)
    assert [".".join(map(str, path)) for path, _, _ in validation_complaints(caught.value, Job, data)] == [where]
    assert Job.model_validate({**IMAGES, "stages": {"ingest": {"raw_gb": 5}}}).stages.ingest is not None


def test_the_schema_explains_every_key() -> None:
    """An editor that reads the JSON Schema can tell what each key of trials and stages means."""
    schemas = scenario_schema()["$defs"]
    for name in ("Trials", "Ingest", "Transfer", "Evaluation", "Checkpoints", "Export"):
        assert schemas[name]["description"]
        assert all(key["description"] for key in schemas[name]["properties"].values()), name
    assert {"type": "integer", "minimum": 1, "maximum": 1_000_000} in schemas["Job"]["properties"]["trials"]["anyOf"]


@pytest.mark.parametrize(
    ("export", "what"),
    [
        ({"merged": True, "format": "gguf"}, "merged and format both say what leaves"),
        ({"format": "merged", "bits": 4}, "merged has no bits to choose"),
        ({"bits": 8}, "adapters has no bits to choose"),
        ({"format": "awq", "bits": 8}, "awq has 4 bits"),
        ({"on": "cpu"}, "adapters are only sent, by the machine that trained them"),
        ({"format": "gptq", "on": ["machine", "cpu"]}, "gptq needs a GPU"),
    ],
)
def test_an_export_that_contradicts_itself_is_one_fault(export: dict[str, Any], what: str) -> None:
    """The key, what is wrong, and what would be right."""
    with pytest.raises(ValidationError) as caught:
        job(stages={"export": export})
    (complaint,) = validation_complaints(caught.value, Job, {})
    assert what in str(complaint)


def test_images_are_not_quantised() -> None:
    """Sizes and times of GGUF, GPTQ and AWQ are those of language models."""
    with pytest.raises(ValidationError, match="gguf of an image network"):
        Job.model_validate({**IMAGES, "stages": {"export": {"format": "gguf"}}})


def test_merged_is_short_for_a_format() -> None:
    """`merged: true` is `format: merged`; nothing said is adapters, which stay where they are."""
    short, long, plain = (
        job(stages={"export": one}).stages.export for one in ({"merged": True}, {"format": "merged"}, {})
    )
    assert short is not None and long is not None and plain is not None
    assert (short.form, short.places) == (long.form, long.places) == ("merged", ("machine", "cpu"))
    assert (plain.form, plain.places, plain.quantised_bits) == ("adapters", ("machine",), None)

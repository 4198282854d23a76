"""What of a job of generation is refused, in one line with what would be right; tables of lengths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.errors import PlannerError, ScenarioError
from planner.loading.scenario_file import parse_scenario
from planner.scenario.inference_job import InferenceJob
from planner.scenario.job import Job
from planner.scenario.scenario import scenario_data
from planner.solving.prepare import prepare
from tests.helpers.generation import OFFER, library, scenario

BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "no output": ({"work": {"output_tokens": 0}}, "0 is out of range", "at least 1"),
    "negative": ({"work": {"requests": -3}}, "-3 is out of range", "must be 1 to"),
    "nothing": ({"work": {"requests": None}}, "requests is missing", "or lengths"),
    "prefix": ({"work": {"prefix_tokens": 901}}, "901 exceeds the shortest input of 900 tokens", "part of every input"),
    "engine": ({"techniques": {"engine": "vlm"}}, "unknown engine 'vlm'", "did you mean vllm?"),
    "format": ({"techniques": {"engine": "vllm", "weight_format": "exl2"}}, "no engine of vllm loads exl2", "bf16"),
    "bits": ({"techniques": {"weight_bits": 5}}, "5 bits are not known", "one of 16, 8, 4"),
    "cache": ({"techniques": {"engine": "hf", "kv_bits": 8}}, "Transformers has no cache of 8 bits", "choose 16"),
    "two bits": ({"techniques": {"weight_format": "bf16", "weight_bits": 8}}, "bf16 has 16 bits", "give one"),
    "context": ({"work": {"input_tokens": 200_000}}, "exceed the context of llama-3.1-8b", "at most 131,072 together"),
    "card": ({"offers": [{**OFFER, "gpu": "T4"}], "techniques": {"engine": "trt-llm"}}, "does not support", "8.0"),
    "kernels": (
        {"offers": [{**OFFER, "gpu": "A100-80GB"}], "techniques": {"weight_format": "fp8"}},
        "A100-80GB has no kernels for fp8",
        "8.9 or newer",
    ),
    "training key": ({"global_batch": 8}, "unknown key", ""),
    "kind": ({"kind": "inferense"}, "'inferense' is not one of finetune, pretrain, inference", "give one"),
    "adapters": ({"adapter": {"merged": True, "served": 4}}, "either merged or served", "keep one"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(name: str) -> None:
    """One fault: what is wrong, and what would be right."""
    changes, what, fix = BAD[name]
    with pytest.raises(PlannerError) as caught:
        prepare(scenario(**changes), library())
    assert isinstance(caught.value, ScenarioError)
    (fault,) = caught.value.faults
    assert what in fault.what and fix in fault.fix, fault


TEXT = """
schema: 2
name: s
offers: [{{provider: cloud, gpu: L40S, gpus: 1, usd_per_hour: 1, source: made up}}]
jobs:
  - {{name: j, kind: inference, architecture: llama-3.1-8b, work: {{lengths: {file}}}}}
"""


def test_a_table_of_lengths_is_read_and_kept_in_the_plan(tmp_path: Path) -> None:
    """Equal rows are added; without `count` each row is one request; the table travels with the scenario."""
    (tmp_path / "a.csv").write_text("input_tokens,output_tokens\n900,150\n900,150\n100,20\n")
    found = parse_scenario(TEXT.format(file="a.csv"), tmp_path)
    (job,) = found.jobs
    assert isinstance(job, InferenceJob)
    assert [(one.input_tokens, one.output_tokens, one.count) for one in job.work.lengths] == [
        (900, 150, 2),
        (100, 20, 1),
    ]
    assert job.work.total_requests == 3 and job.work.total_output_tokens == 320
    assert scenario_data(found)["jobs"][0]["work"]["lengths"][0]["count"] == 2


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("input_tokens,output_tokens,count\n", "no rows"),
        ("input_tokens,outputs,count\n1,2,3\n", "unknown column"),
        ("input_tokens,output_tokens,count\n1,0,3\n", "'0' is no number of tokens or requests"),
        ("input_tokens,output_tokens,count\n1,2,-3\n", "'-3' is no number of tokens or requests"),
        ("", "is empty"),
    ],
)
def test_a_bad_table_is_refused_with_its_line(tmp_path: Path, text: str, what: str) -> None:
    """File and line of each fault."""
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(TEXT.format(file="a.csv"), tmp_path)
    assert any(what in fault.what and fault.line >= 1 for fault in caught.value.faults), caught.value.faults


def test_a_table_that_is_not_there_is_one_fault(tmp_path: Path) -> None:
    """At the place of the scenario that names it."""
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(TEXT.format(file="nowhere.csv"), tmp_path)
    assert len(caught.value.faults) == 1


def test_a_job_without_a_kind_trains() -> None:
    """Scenarios of before this kind mean what they meant."""
    text = TEXT.format(file="x").replace("kind: inference, ", "").replace("lengths: x", "tokens: 1e6")
    (job,) = parse_scenario(text).jobs
    assert type(job) is Job and job.kind == "finetune"

"""Evaluation by generation: test prompts answered where it is chosen, in the bill, the audit and the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planner.errors import InputError
from planner.evaluation.audit import audit
from planner.generation.replica_enumeration import generating_on
from planner.library.reading import read_library
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.scenario.job import Job
from planner.solving.solve import solve

if TYPE_CHECKING:
    from planner.scenario.scenario import Scenario

LIBRARY = read_library(["llama-3.1-8b"])
SCENARIO = """
schema: 2
name: tune
jobs:
  - name: tune
    architecture: llama-3.1-8b
    work: {samples: 4000, tokens_per_sample: 700, epochs: 1}
    techniques: {method: lora, weight_bits: 16}
    stages: {evaluation: {requests: 4000, input_tokens: 900, output_tokens: 150, on: machine}}
    deadline: 24h
offers:
  - {provider: one, region: any, instance: a, gpu: A100-80GB, gpus: 4, usd_per_hour: 6, date: 2026-11-01, source: t}
"""
SMALL = (
    "{provider: two, region: any, instance: b, gpu: L40S, gpus: 1, usd_per_hour: 0.3, date: 2026-11-01, source: test}"
)
STAGE = "jobs.tune.stages.evaluation"


def asked(*changes: str) -> Scenario:
    """Return the scenario with changes."""
    return change_scenario(parse_scenario(SCENARIO, file="tune.yaml"), list(changes))


def job(*changes: str) -> Job:
    """Return its job."""
    found = asked(*changes).jobs[0]
    assert isinstance(found, Job)
    return found


def seconds(gpu: str, each: int, machines: int = 1, *changes: str, only_16_bits: bool = False) -> float | None:
    """Return the seconds in which machines answer the prompts."""
    card = LIBRARY.architecture("llama-3.1-8b")
    found = generating_on(job(*changes), card, gpu, each, LIBRARY, only_16_bits)
    return None if found is None else found.seconds(machines)


def test_more_prompts_and_longer_answers_take_longer_and_more_gpus_less() -> None:
    """Replicas share the prompts: four GPUs take a quarter, up to the last round."""
    one, four = seconds("A100-80GB", 1), seconds("A100-80GB", 4)
    assert one is not None and four is not None
    assert 0.2 < four / one < 0.35
    for change in ("requests=8000", "output_tokens=300", "input_tokens=1800"):
        more = seconds("A100-80GB", 1, 1, f"{STAGE}.{change}")
        assert more is not None and more > one


def test_weights_that_do_not_fit_are_held_in_4_bits_on_the_training_machine_and_not_at_all_elsewhere() -> None:
    """8 billion weights of 2 bytes exceed 12 GiB."""
    assert seconds("RTX3060", 1, only_16_bits=True) is None
    held, large = seconds("RTX3060", 1), seconds("A100-80GB", 1)
    assert held is not None and large is not None and held > large


@pytest.mark.slow
@pytest.mark.parametrize("place", ["machine", "one_gpu"])
def test_the_hours_are_in_the_plan_the_bill_and_the_audit(place: str) -> None:
    """On the training machine, or on a cheap machine of one GPU; an edited amount is found."""
    scenario = asked(f"{STAGE}.on=[{place}]", f"offers.1={SMALL}", "limits.gpus=[A100-80GB, L40S]")
    plan = solve(scenario)
    found = plan.jobs[0]
    assert found.stage_hours["evaluation"] > 0
    assert any("evaluation" in line.item and line.usd > 0 for line in found.bill)
    assert bool(found.separate_machines) == (place == "one_gpu")
    assert "answers prompts with vLLM" in " ".join(found.notes)
    assert audit(plan, scenario, LIBRARY) == []
    other = change_scenario(scenario, [f"{STAGE}.requests=5000"])
    assert any("evaluation" in str(one) for one in audit(plan, other, LIBRARY))


@pytest.mark.slow
def test_the_hours_on_the_machine_are_loading_and_answering() -> None:
    """Worked: weights of 16.06 GB from disk and over PCIe, 15 s and two minutes of compilation, then the answers."""
    plan = solve(asked())
    found = plan.jobs[0]
    answering = seconds(found.gpu, found.gpus_per_instance, found.instances)
    stages = LIBRARY.calibrations["stages"].values
    size = LIBRARY.architecture("llama-3.1-8b").download_gb
    disk, pcie = 0.5 * 0.6, 31.5 * stages["pcie_load_share"]
    loading = size / disk + size / pcie + stages["load_fixed_seconds"] + stages["compile_seconds"]
    assert answering is not None
    assert found.stage_hours["evaluation"] * 3600 == pytest.approx(answering + loading, rel=0.01)


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        ("{requests: 5}", "input_tokens and output_tokens missing; give all three of test prompts"),
        ("{requests: 5, input_tokens: 9, output_tokens: 0}", "output_tokens"),
        ("{requests: 5, input_tokens: 9, output_tokens: 9, share: 0.1}", "share and requests contradict each other"),
        ("{requests: 5, input_tokens: 9, output_tokens: 9, on: cpu}", "prompts are answered on GPUs"),
        ("{requests: -1, input_tokens: 9, output_tokens: 9}", "requests"),
        ("{}", "give share or tokens, or requests, input_tokens and output_tokens"),
    ],
)
def test_a_wrong_stage_is_refused(stage: str, said: str) -> None:
    """With what would be right."""
    with pytest.raises(InputError) as error:
        asked(f"{STAGE}={stage}")
    assert said in str(error.value)


def test_prompts_beyond_the_context_are_refused() -> None:
    """131,072 tokens."""
    with pytest.raises(InputError, match=r"131,222 tokens exceed the context of llama-3\.1-8b; at most 131,072"):
        solve(asked(f"{STAGE}.input_tokens=131072"))

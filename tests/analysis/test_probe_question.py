"""A probe against its plan: keep, change, give back."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.analysis.probe_question import WORTH_IT, changes, choose
from planner.errors import InputError
from planner.loading.scenario_file import parse_scenario
from planner.report.run_text import render_probe
from planner.results.plan import Plan
from planner.results.plan_parts import Hours, Techniques
from planner.results.run_results import ProbeChoice, ProbeVerdict
from planner.scenario.scenario import Scenario, SolveOptions
from tests.helpers.documents import blocks
from tests.helpers.exported_plans import AS_OF, changed, solved
from tests.helpers.probes import out_of_memory, probed, write_probe_file

pytestmark = pytest.mark.slow


def judged(folder: Path, plan: Plan, found: dict[str, Any]) -> ProbeVerdict:
    return planner.judge_probe(plan, planner.plan_scenario(plan), write_probe_file(folder, found))


@pytest.mark.parametrize("name", ["quickstart", "secure", "fsdp", "zero2", "spot"])
@pytest.mark.parametrize(("seconds", "memory"), [(1.0, 1.0), (0.98, 1.02)])
def test_a_probe_that_measures_what_was_planned_says_keep(
    name: str, seconds: float, memory: float, tmp_path: Path
) -> None:
    """At the planned seconds also for the planned dollars."""
    plan = solved(name)
    found = judged(tmp_path, plan, probed(plan, seconds, memory))
    assert found.verdict == "keep" and found.is_kept and found.plan == plan
    assert found.choices[0].cost_usd == pytest.approx(plan.jobs[0].cost_usd, rel=0.04)
    assert f"tokens_per_second: {found.measured['tokens_per_second']:g}," in found.block


def test_a_slower_machine_costs_what_its_steps_take_longer(tmp_path: Path) -> None:
    """Twice the seconds: nearly twice the dollars of training; other runs on this GPU do not seem to gain by it."""
    plan = solved("quickstart")
    found = judged(tmp_path, plan, probed(plan, 2.0))
    ways = {one.what: one for one in found.choices}
    assert 1.7 < ways["keep"].cost_usd / plan.jobs[0].cost_usd < 2.1
    assert all(one.cost_usd >= 0.9 * ways["keep"].cost_usd for one in found.choices if one.what == "change")


def test_far_too_slow_a_machine_is_given_back(tmp_path: Path) -> None:
    """The deadline is missed, and the plan to go on with is one of other machines."""
    plan = solved("quickstart")
    found = judged(tmp_path, plan, probed(plan, 20.0))
    assert found.verdict == "give back" and "misses its limits" in found.reason
    kept = next(one for one in found.choices if one.what == "keep")
    assert not kept.meets_limits and (kept.deadline_probability or 0.0) < 0.5
    if found.plan is not None:
        assert found.plan.jobs[0].offer != plan.jobs[0].offer
    else:
        assert found.choices[0] == kept
        text = " ".join(render_probe(found).split())
        assert text.startswith(f"quickstart: give back {kept.machines} at {kept.provider}: nothing meets the limits")
        assert "and rent" not in text and f"keep {kept.machines} at {kept.provider}: $" in text


def test_the_verdict_in_the_document_is_one_that_is_printed(tmp_path: Path) -> None:
    """Word for word; its figures are those of some day's prices."""
    plan = solved("quickstart")
    printed = render_probe(judged(tmp_path, plan, probed(plan, 12.0))).partition("\n\n")[0]
    shown = [block.body for block in blocks("docs/run.md", "text") if "give back" in block.body]
    assert [masked(text) for text in shown] == [masked(printed)]


def masked(text: str) -> str:
    """Return a text with a sign for each number, in one line."""
    return " ".join(re.sub(r"\d+(\.\d+)?", "#", text).split())


def test_memory_that_ran_out_changes_to_the_smaller_run_of_the_plan(tmp_path: Path) -> None:
    plan = solved("quickstart")
    smaller = plan.jobs[0].vram_gib.fallback
    assert smaller is not None
    found = judged(tmp_path, plan, out_of_memory(plan))
    best = found.choices[0]
    assert found.status == "oom" and found.measured == {} and found.block == ""
    if found.verdict == "change":
        assert f"micro-batch {smaller.micro_batch}" in best.change
        assert best.cost_usd == pytest.approx(plan.jobs[0].cost_usd + smaller.usd, rel=0.01)
        assert f"set {best.change} in the exported files" in found.notes[0]
    assert all(one.what != "keep" for one in found.choices)


def choice(what: Any, usd: float, meets: bool = True) -> ProbeChoice:
    hours = Hours(expected=1, low=1, high=1, at_confidence=1)
    return ProbeChoice(
        what=what, change="", machines="", provider="", cost_usd=usd, hours=hours, deadline_probability=None,
        meets_limits=meets,
    )  # fmt: skip


def test_another_way_must_be_worth_the_work() -> None:
    """Within the share it is not; beyond it, or where the machine misses the limits, it is."""
    for what in ("change", "give back"):
        near, far = 10.0 * (1 - WORTH_IT[what]) + 0.01, 10.0 * (1 - WORTH_IT[what]) - 0.01
        assert choose([choice("keep", 10.0), choice(what, near)]).what == "keep"
        assert choose([choice("keep", 10.0), choice(what, far)]).what == what
        assert choose([choice("keep", 10.0, meets=False), choice(what, 30.0)]).what == what
    lost = choose([choice("keep", 10.0, meets=False), choice("change", 1.0, meets=False)])
    assert (lost.what, lost.meets_limits) == ("keep", False), "nothing is rented that misses the limits, too"


@pytest.mark.parametrize("name", Techniques.model_fields)
def test_each_technique_that_becomes_another_is_named(name: str) -> None:
    """A change that has no words would be none: the machine would be kept as it is."""
    job = solved("quickstart").jobs[0]
    other = {"lora_targets": ("q", "v"), "lora_rank": 64}.get(name)
    if other is None:
        now = getattr(job.techniques, name)
        other = not now if isinstance(now, bool) else 7 if isinstance(now, int) else "another"
    said = changes(job, changed(solved("quickstart"), {name: other}, framework="").jobs[0])
    assert ("framework" in said) if name == "framework" else said.startswith(name[:4]), said
    assert changes(job, job) == ""


def test_other_machines_of_the_same_kind_are_named() -> None:
    """Fewer of those that are rented, or as many GPUs on more machines."""
    plan = solved("quickstart")
    job = plan.jobs[0]
    assert changes(job, changed(plan, gpus=2).jobs[0]) == "2 x A5000"
    assert changes(job, changed(plan, instances=2).jobs[0]) == "2 machines"
    assert changes(job, changed(plan, gpus=8, instances=2, spot_share=1.0).jobs[0]) == "8 x A5000, 2 machines, spot"


TWO_JOBS = """
schema: 2
name: two
limits: {budget_usd: BUDGET}
offers:
  - {provider: a, gpu: A5000, gpus: 1, usd_per_hour: 0.2, max_nodes: 1}
  - {provider: b, gpu: H100-80GB, gpus: 1, usd_per_hour: 2.4, max_nodes: 1}
jobs:
  - {name: first, architecture: mistral-7b, work: {steps: 2000}, sequence_length: 2048, global_batch: 8, packing: fixed}
  - {name: second, architecture: mistral-7b, work: {steps: 2000}, sequence_length: 2048, global_batch: 8,
     packing: fixed, after: [first], deadline: DEADLINE}
"""


def of_two(deadline: str, budget: str) -> Plan:
    """Return a plan of two jobs, the second after the first."""
    plan: Plan = planner.solve(asked_of_two(deadline, budget), SolveOptions(as_of=AS_OF))
    return plan


def asked_of_two(deadline: str, budget: str) -> Scenario:
    return parse_scenario(TWO_JOBS.replace("DEADLINE", deadline).replace("BUDGET", budget))


def test_a_job_after_another_has_the_hours_that_are_left_of_its_deadline(tmp_path: Path) -> None:
    """Planned anew it does not begin before the first one ends, and the other job's dollars are spent."""
    plan = of_two("20h", "1000")
    first, second = plan.jobs
    assert second.start_at_hours >= first.finish_hours > 5
    slow = probed(plan, of=1, seconds=1.6)
    asked = asked_of_two("20h", "1000")
    found = planner.judge_probe(plan, asked, write_probe_file(tmp_path, slow), "second")
    (kept,) = (one for one in found.choices if one.what == "keep")
    assert not kept.meets_limits and kept.hours.at_confidence < 20
    assert found.verdict == "give back" and found.plan is not None
    assert found.plan.jobs[0].start_at_hours == pytest.approx(second.start_at_hours)
    assert found.plan.jobs[0].finish_hours <= 20
    assert any("the other jobs are left as they are planned" in note for note in found.notes)


@pytest.mark.parametrize("spare", [0.97, 1.2])
def test_deadline_and_budget_are_judged_alike_for_every_way_to_go_on(spare: float, tmp_path: Path) -> None:
    """The second of two jobs: hours count from the start of the plan, and dollars together with the first one's."""
    plan = of_two("30h", "1000")
    second = plan.jobs[1]
    asked = planner.plan_scenario(plan)
    tight = spare * (second.cost_at_confidence + plan.jobs[0].cost_usd)
    asked = asked.model_copy(update={"limits": asked.limits.model_copy(update={"budget_usd": tight})})
    found = planner.judge_probe(plan, asked, write_probe_file(tmp_path, probed(plan, of=1, seconds=1.1)), "second")
    (kept,) = (one for one in found.choices if one.what == "keep")
    assert kept.meets_limits == (spare > 1)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"plan": "0" * 64}, "plan: the probe is of another plan"),
        ({"gpu_name": "NVIDIA L4"}, "was measured on NVIDIA L4, and quickstart is planned on A5000"),
        ({"gpu_name": "NVIDIA Z9", "gpu_gib": 47.5}, "was measured on a GPU of 47.5 GiB, and A5000 has 24"),
        ({"gpus": 64}, "was measured on 64 GPUs, and quickstart is planned on"),
        ({"gpu_gib": None, "gpu_name": "CPU"}, "was measured without a GPU"),
        ({"status": "failed", "reached": "loading", "error": "KeyError"}, "the probe failed at loading: KeyError"),
        ({"step_seconds": None}, "no step was measured"),
        ({"step_seconds": -1.0}, "step_seconds"),
        ({"probe": 2}, "probe"),
    ],
)
def test_what_cannot_be_judged_is_said_in_one_line(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    plan = solved("quickstart")
    with pytest.raises(InputError) as error:
        judged(tmp_path, plan, probed(plan, **changes))
    assert said in str(error.value) and len(error.value.faults) == 1
    assert "probe.json" in error.value.faults[0].file


@pytest.mark.parametrize("name", ["NVIDIA Z9", None])
def test_a_gpu_that_is_not_known_by_name_is_said(name: str | None, tmp_path: Path) -> None:
    """Its memory is all that can be compared; also where memory ran out."""
    plan = solved("quickstart")
    for found in (probed(plan, gpu_name=name), out_of_memory(plan) | {"gpu_name": name}):
        notes = judged(tmp_path, plan, found).notes
        assert any("of which no GPU is known: by its memory it may be the A5000 of the plan" in note for note in notes)
    assert not any("no GPU is known" in note for note in judged(tmp_path, plan, probed(plan)).notes)


def test_a_probe_of_another_micro_batch_is_refused(tmp_path: Path) -> None:
    """The folder was edited, or the plan has several jobs."""
    plan = solved("quickstart")
    other = probed(changed(plan, {"micro_batch": 1}), plan=probed(plan)["plan"])
    with pytest.raises(InputError, match="ran micro_batch 1, and quickstart is planned with"):
        judged(tmp_path, plan, other)

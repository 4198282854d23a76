"""What published work found on a technique that articles recommend, and what it would bring the jobs of a scenario."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from planner.documents.validation import meant_name
from planner.library.quality import published_techniques
from planner.results.explanation import Finding, TechniqueAnswer
from planner.scenario.inference_job import InferenceJob
from planner.solving.solve import solve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.library.schema import Library
    from planner.scenario.scenario import Scenario, SolveOptions

OF_DATA = ("caching", "prefetching")
"""Techniques whose gain follows from what the plan reads."""
LORA_SEQUENCES = 32
"""Sequences per step from which on LoRA was seen to lose more than full fine-tuning."""


def explain_technique(
    scenario: Scenario, technique: str, options: SolveOptions | None = None, library: Library | None = None
) -> TechniqueAnswer:
    """Return what published work found on a technique, and whether the program decides it, and where.

    Of caching and prefetching the scenario is solved: the answer holds what each job of its plan reads.

    Raises
    ------
    ScenarioError
        For an unknown technique.
    NoPlanError
        If there is no plan within the limits of `options`.
    """
    known = published_techniques()
    technique = meant_name(technique, known, "--technique", "nothing is known of")
    one = known[technique]
    paths = {}
    if technique in OF_DATA:
        plan = solve(scenario, options, library)
        paths = {job.name: job.data_path for job in plan.jobs if job.data_path is not None}
    found = tuple(Finding(**{key: asdict(fact)[key] for key in Finding.model_fields}) for fact in one.found)
    return TechniqueAnswer(
        scenario=scenario.name,
        technique=technique,
        decides=one.decides,
        why=one.why,
        where=one.where,
        found=found,
        data_paths=paths,
        notes=tuple(_notes(scenario, technique)),
    )


def _notes(scenario: Scenario, technique: str) -> Iterator[str]:
    """Yield what the answer means for the jobs of the scenario."""
    for job in scenario.jobs:
        if technique == "larger_batch" and not isinstance(job, InferenceJob) and isinstance(job.global_batch, int):
            of = "a step, as given"
            if job.kind == "finetune" and job.global_batch > LORA_SEQUENCES:
                of += f"; runs of LoRA that were measured keep to {LORA_SEQUENCES}"
            yield f"{job.name}: {job.global_batch:,} sequences or images {of}"
        if technique == "from_scratch" and job.kind != "pretrain":
            yield f"{job.name} starts from a pretrained model: kind: pretrain asks for the other"

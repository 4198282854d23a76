"""Faults of what a scenario leaves open: families without models, losses that no model reaches, contradictions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.documents.validation import name_fix
from planner.errors import ScenarioError, raise_faults
from planner.library.model_ladder import families, members
from planner.scenario.definite import architectures_of, choice_faults
from planner.scenario.open_job import MOST_ALTERNATIVES, Family, OpenJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.documents.source_map import Source
    from planner.documents.strict_yaml import KeyPath
    from planner.scenario.scenario import Scenario, ScenarioFile


def check_choices(scenario: Scenario | ScenarioFile, source: Source) -> None:
    """Raise ScenarioError with every fault of what a scenario leaves open."""
    faults = [source.fault(tuple(where.split(".")), what, fix) for where, what, fix in choice_faults(scenario)]
    for index, job in enumerate(scenario.jobs):
        if isinstance(job, OpenJob):
            found = _model_faults(job)
            faults += [source.fault(("jobs", index, *place), what, fix) for place, what, fix in found]
    raise_faults(faults, ScenarioError)


def _model_faults(job: OpenJob) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield place, fault and remedy of the models that a job leaves open."""
    asked = job.models
    if isinstance(asked, Family):
        known = families()
        if asked.family not in known:
            yield ("architecture", "family"), f"unknown family {asked.family!r}", name_fix(asked.family, sorted(known))
            return
        least, most = asked.parameters.least, asked.parameters.most
        if not members(asked.family, least, most):
            near = (*members(asked.family, 0, least)[-1:], *members(asked.family, most, math.inf)[:1])
            what = f"no model of {asked.family} has {least:,} to {most:,} parameters"
            fix = f"widen the range to the nearest: {' or '.join(near)}"
            yield ("architecture", "parameters"), what, fix
            return
    elif len(set(asked)) < len(asked):
        twice = next(one for one in asked if asked.count(one) > 1)
        yield ("architecture",), f"{twice} is listed twice", "list each model once"
    count = len(architectures_of(job)) * len(job.batches)
    if count > MOST_ALTERNATIVES:
        what = f"{count:,} models and batches are more than {MOST_ALTERNATIVES}"
        yield ("architecture",), what, "narrow the range of sizes or of batches"

"""Names of a plan that nothing is known of: a plan that was changed by hand is refused before files are made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.documents.validation import name_fix
from planner.errors import Fault, InputError
from planner.library.engines import read_engines
from planner.library.reading import CardNames
from planner.library.technique_tables import TECHNIQUE_FIELDS, read_techniques
from planner.results.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Iterator


def check_names(plan: Plan, path: str) -> None:
    """Raise InputError that names each GPU, engine and technique of a plan file that the library does not have."""
    faults = [Fault(path, 0, where, f"unknown: {name!r}", fix) for where, name, fix in _unknown(plan)]
    if faults:
        raise InputError(faults)


def _unknown(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Yield place, name and what may have been meant of each unknown name."""
    gpus, engines, techniques = CardNames("gpus"), read_engines().engines, read_techniques()
    named_gpus = [(f"jobs.{part.name}.{place}", gpu) for part in plan.planned for place, gpu in part.gpus_named]
    named_engines = [(f"jobs.{part.name}.{place}", name) for part in plan.planned for place, name in part.engines_named]
    yield from ((place, gpu, gpus.suggestion(gpu)) for place, gpu in named_gpus if gpus.canonical(gpu) is None)
    yield from ((place, name, name_fix(name, sorted(engines))) for place, name in named_engines if name not in engines)
    for job in plan.jobs:
        if job.inference is not None or not job.gpus:
            continue
        for field in TECHNIQUE_FIELDS:
            value = getattr(job.techniques, field)
            if isinstance(value, str) and value not in techniques.planned(field):
                known = sorted(map(str, techniques.allowed(field)))
                yield f"jobs.{job.name}.techniques.{field}", value, name_fix(value, known)

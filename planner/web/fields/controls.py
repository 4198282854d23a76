"""All fields of a scenario: those of each job, then those of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.web.fields.control import Control, plain_text
from planner.web.fields.jobs import job_controls
from planner.web.fields.settings import FORBID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.scenario.limits import AllowForbid
    from planner.scenario.scenario import Scenario


def controls_of(scenario: Scenario) -> list[Control]:
    """Return the fields of a scenario: those of each job, then those of all."""
    jobs = scenario.jobs_written or scenario.jobs
    found = [control for index, job in enumerate(jobs) for control in job_controls(job, index, len(jobs) == 1)]
    return found + list(_of_all(scenario))


def _of_all(scenario: Scenario) -> Iterator[Control]:
    """Yield the fields that all jobs share."""
    limits = scenario.limits
    shared = "Limits"
    for key, label, kind, name, hint in (
        ("budget", "Budget", "dollars", "budget_usd", "dollars for everything; empty: none"),
        ("max_gpus", "GPUs at one time", "text", "max_gpus", "empty: any number"),
    ):
        value = plain_text(getattr(limits, name))
        yield Control(key, shared, label, kind, f"limits.{name}", value, hint, may_be_empty=True)  # type: ignore[arg-type]
    spot = "on" if limits.spot_share.max > 0 else "off"
    yield Control("spot", shared, "Spot machines", "switch", "limits.spot", spot)
    rule = f"adjust.{len(scenario.adjust)}"
    yield Control("prices", shared, "Price factor", "factor", rule, "1", "1.2: every price 20 % higher")
    gpus = sorted({offer.gpu for offer in scenario.offers if offer.rents_gpus and offer.gpu})
    providers = sorted({offer.provider for offer in scenario.offers})
    for key, label, names, lists in (
        ("gpus", "GPUs", gpus, limits.gpus),
        ("providers", "Providers", providers, limits.providers),
    ):
        value = _listed(lists, names)
        yield Control(
            key, shared, label, "names", f"limits.{key}", value, choices=tuple((name, name) for name in names)
        )


def _listed(lists: AllowForbid, names: list[str]) -> str:
    """Return lists as the page writes them: what may be used, or after `!` what may not."""
    forbidden = [name for name in names if not lists.permits(name)]
    if lists.allow is not None:
        return ",".join(name for name in names if lists.permits(name)) or FORBID
    return FORBID + ",".join(forbidden) if forbidden else ""

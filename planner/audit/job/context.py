"""What the checks of the audit stand on: the record of a violation, tolerances, and names looked up.

An assignment names a job, an offer, a card and a recipe; a check needs the things behind the names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from planner.configurations.coefficients import network_of
from planner.configurations.recipe import GpuClass, Recipe, framework_of
from planner.scenario.scenario import Job, Limits, Measured, Offer, Scenario, offer_labels
from planner.units import GB

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.estimates.inputs import Network
    from planner.library.schema import Architecture, GpuSpec, Library
    from planner.library.technique_rows import FrameworkProfile
    from planner.results.plan import Assignment

Figure = float | str | None


@dataclass(frozen=True)
class Violation:
    """A disagreement of a plan with what follows from scenario and library; `job` is empty for totals."""

    job: str
    what: str
    expected: Figure
    found: Figure

    def __str__(self) -> str:
        place = f"{self.job}: " if self.job else ""
        return f"{place}{self.what}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True)
class Tolerance:
    """How far a figure may be off: hours, GiB and rates relatively, dollars absolutely."""

    hours: float = 1e-6
    gib: float = 1e-6
    usd: float = 0.005
    gap: float = 1e-5  # relative: what a solver's feasibility tolerance makes of an objective; a larger one if asked


@dataclass(frozen=True)
class AssignmentContext:
    """One assignment with what every plan of a job names, whether it is trained on machines or by a service."""

    plan: Assignment
    job: Job
    limits: Limits
    architecture: Architecture
    network: Network
    offer: Offer  # at the prices of the what-if
    offers: Mapping[str, Offer]  # label -> every offer, at those prices
    regional: bool  # whether it matters in which region a machine stands
    library: Library

    def values(self, calibration: str) -> dict[str, float]:
        """The plain numbers of a calibration by key."""
        coefficients = self.library.calibrations[calibration].coefficients
        return {key: coefficient.value for key, coefficient in coefficients.items()}

    def download_rate_of(self, offer: Offer) -> float:
        """Bytes per second between the outside and one machine: as its offer says, else as its class has it."""
        if offer.download_gb_per_second is not None:
            return offer.download_gb_per_second * GB
        return self.values("stages")["community_pull_bytes_per_second" if offer.community else "pull_bytes_per_second"]

    def data_download_rate_of(self, offer: Offer) -> float:
        """The same for the user's data, which leave their place no faster than it lets them."""
        source, pull = self.job.stages.transfer, self.download_rate_of(offer)
        if source is None or source.gb_per_second is None or source.region == offer.region:
            return pull
        return min(pull, source.gb_per_second * GB)

    def disk_rate_of(self, offer: Offer) -> float:
        """Bytes per second of a machine's own disk."""
        if offer.disk_gb_per_second is not None:
            return offer.disk_gb_per_second * GB
        return self.values("stages")["disk_bytes_per_second"]


@dataclass(frozen=True)
class AuditContext(AssignmentContext):
    """An assignment on machines, with everything that it names."""

    gpu: GpuSpec
    recipe: Recipe
    framework: FrameworkProfile

    @property
    def card(self) -> GpuClass:
        """What of the card decides whether a recipe works."""
        return GpuClass.of(self.gpu)

    @property
    def ranks(self) -> int:
        """Data-parallel ranks; rounded down where the degrees do not divide the GPUs."""
        asked = self.plan.techniques
        return max(1, self.plan.gpus // max(1, asked.tensor_parallel * asked.pipeline_parallel))

    @property
    def observed(self) -> Measured | None:
        """The run of the whole job that was seen on the plan's hardware, which its hours must follow."""
        here = (self.gpu.name, self.plan.gpus)
        seen = (run for run in self.job.measured if run.hours is not None)
        return next((run for run in seen if (run.gpu, run.gpus) == here), None)

    @property
    def observed_hours(self) -> float | None:
        """Hours of the whole job as seen on the plan's hardware; None where all are estimated."""
        return self.observed.hours if self.observed else None


def resolve_assignment(
    assignment: Assignment, scenario: Scenario, library: Library
) -> tuple[AssignmentContext | None, list[Violation]]:
    """The things behind the names, or the names that lead nowhere; without them nothing can be checked."""
    name = assignment.name
    job = next((one for one in scenario.jobs if one.name == name), None)
    offers = dict(zip(offer_labels(scenario.offers), scenario.adjusted_offers(), strict=True))
    offer = offers.get(assignment.offer)
    missing = []
    if job is None:
        missing.append(Violation(name, "job", "a job of the scenario", name))
    if offer is None or offer.is_cpu:
        missing.append(Violation(name, "offer", "an offer of the scenario that trains", assignment.offer))
    if job is None or offer is None or missing:
        return None, missing
    try:
        architecture = library.architecture(job.architecture)
    except KeyError as error:
        return None, [Violation(name, "names", "a card of the library", str(error.args[0]))]
    lists = scenario.limits.regions
    told_apart = any(one.stages.transfer and one.stages.transfer.region for one in scenario.jobs)
    return (
        AssignmentContext(
            plan=assignment,
            job=job,
            limits=scenario.limits,
            architecture=architecture,
            network=network_of(architecture),
            offer=offer,
            offers=offers,
            regional=told_apart or lists.allow is not None or bool(lists.forbid),
            library=library,
        ),
        [],
    )


def resolve_context(footing: AssignmentContext) -> AuditContext:
    """What machines need besides; KeyError for a card that the library does not have."""
    known = {one.name: getattr(footing, one.name) for one in fields(AssignmentContext)}
    return AuditContext(
        **known,
        gpu=footing.library.gpu(footing.offer.card),
        recipe=_recipe(footing.plan),
        framework=framework_of(footing.library, footing.job.framework),
    )


def _recipe(assignment: Assignment) -> Recipe:
    said = assignment.techniques
    return Recipe(
        method=said.method,
        weight_bits=said.weight_bits,
        quant=said.quant,
        precision=said.precision,
        activation_checkpointing=said.activation_checkpointing,
        sharding=said.sharding,
        attention=said.attention,
        optimizer=said.optimizer,
        tensor_parallel=said.tensor_parallel,
        pipeline_parallel=said.pipeline_parallel,
    )


def check_equal(job: str, what: str, expected: Figure, found: Figure) -> list[Violation]:
    """A violation where two names or whole numbers are not the same."""
    return [] if expected == found else [Violation(job, what, expected, found)]


def check_close(
    job: str, what: str, expected: float, found: float | None, relative: float = 0.0, absolute: float = 0.0
) -> list[Violation]:
    """A violation where two figures are further apart than the larger tolerance; nan and None always are."""
    if found is not None and math.isfinite(found):
        room = max(absolute, relative * max(abs(expected), abs(found)), 1e-12)
        if abs(expected - found) <= room:
            return []
    return [Violation(job, what, expected, found)]


def check_at_most(job: str, what: str, limit: float | None, found: float, slack: float = 0.0) -> list[Violation]:
    """A violation where a figure lies above its limit (None: no limit) by more than the slack."""
    if limit is None or found <= limit + slack:
        return []
    return [Violation(job, what, f"at most {limit:.12g}", found)]

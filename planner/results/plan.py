"""The answer: a plan as the JSON of `planner solve` writes it, typed.

Dollars are expected US dollars, hours are wall hours, memory is GiB per GPU, unless a name says otherwise.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.errors import NoPlanError
from planner.results.html import html_table
from planner.results.plan_parts import (
    BillItem,
    CommitmentUse,
    Hours,
    ObservedRun,
    Option,
    Part,
    SeparateMachine,
    SpotPlan,
    Spread,
    Techniques,
    Vram,
    describe_machines,
)

__all__ = [
    "Assignment",
    "BillItem",
    "CandidateCounts",
    "CommitmentUse",
    "Hours",
    "Infeasible",
    "NearMiss",
    "ObservedRun",
    "Option",
    "Part",
    "Plan",
    "Relaxation",
    "SeparateMachine",
    "SpotPlan",
    "Spread",
    "Status",
    "Techniques",
    "Vram",
    "describe_machines",
]

Status = Literal["optimal", "feasible", "infeasible", "no_plan"]


class Assignment(Part):
    """How one job is run."""

    name: str
    architecture: str
    provider: str
    region: str
    instance: str
    offer: str
    gpu: str
    gpus: int
    gpus_per_instance: int
    instances: int
    interconnect: str
    spot_share: float
    switch_to_on_demand_at_hours: float | None
    techniques: Techniques
    vram_gib: Vram
    tokens_per_second: float
    tokens_per_second_low: float
    tokens_per_second_high: float
    unit: Literal["tokens", "images"] = "tokens"
    sequence_length: int
    global_batch: int
    packing: str
    steps: int
    step_seconds: float
    sigma: float
    sigma_tail: float
    hours: Hours
    start_hours: float
    training_hours: float
    stage_hours: dict[str, float] = Field(default_factory=dict)
    """Hours of the stages beside start and training, on the wall clock."""
    beside: tuple[SeparateMachine, ...] = ()
    tier: str = "secure"
    trials: int = 1
    runs_at_once: int = 1
    """Gangs side by side: `gpus` and `instances` are those of one."""
    commitment: CommitmentUse | None = None
    spot: SpotPlan | None = None
    """Where the run follows a policy on spot: what it guarantees and expects."""
    fed_by_storage: bool = False
    """Whether storage, not the GPUs, sets the pace of a step."""
    observed_hours: float | None = None
    """Hours of the whole job, start included, as seen on this hardware; None where all hours are estimated."""
    observed_runs: tuple[ObservedRun, ...] = ()
    """Observed speeds and peaks that the estimates follow."""
    speed_factor: float = 1.0
    """On the speed of every way of the job, from `observed_runs`."""
    memory_factor: float = 1.0
    """On the bytes that grow with the batch, from the peaks that were observed at the same setting."""
    deadline_hours: float | None
    deadline_probability: float | None
    cost: Spread
    cost_at_confidence: float
    cost_usd: float
    bill: tuple[BillItem, ...]
    price_date: str
    price_age_days: int | None
    price_source: str
    ladder: tuple[Option, ...] = ()
    runner_up: tuple[Option, ...] = ()
    compared_by: str = ""
    """What ladder, runners-up and binding limits are measured in, where it is not plain dollars or hours."""
    binding: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def has_fallback(self) -> bool:
        """Whether the same machines can be had on demand where spot fails to deliver."""
        if self.spot is not None:
            return True
        return self.spot_share < 1 or any(line.item == "move to on demand" for line in self.bill)


class Relaxation(Part):
    """One limit to move; all entries of one `way` together make a plan possible, all other limits kept.

    `setting` is the PATH=VALUE that does it; `then`, dollars and hours are of the plan under the whole way.
    """

    limit: str
    change_from: float | str | None = Field(alias="from")
    change_to: float | str | None = Field(alias="to")
    then: str = ""
    way: int = 1
    setting: str = ""
    cost_usd: float | None = None
    hours: float | None = None


class NearMiss(Part):
    """A way that was rejected, by how much, and what would make it fit."""

    job: str
    what: str
    reason: str
    shortfall: float
    unit: str
    fix: str = ""


class Infeasible(Part):
    """Why there is no plan."""

    relax: tuple[Relaxation, ...] = ()
    nearest: tuple[NearMiss, ...] = ()


class CandidateCounts(Part):
    """Ways to run the jobs: priced, rejected with a reason, and left out because another is nowhere worse."""

    made: int
    rejected: int
    dominated: int
    reasons: dict[str, int] = Field(default_factory=dict)


class Plan(Part):
    """What `solve` found."""

    schema_version: int = 1
    scenario: str
    status: Status
    objective: float | None
    bound: float | None
    gap: float | None
    solver: str
    seconds: float
    as_of: str
    candidates: CandidateCounts
    cost_usd: Spread | None
    cost_at_confidence: float | None = None
    budget_usd: float | None = None
    budget_probability: float | None = None
    """Chance that the bill stays within the budget, all jobs being as late as each other."""
    hours: Hours | None
    jobs: tuple[Assignment, ...] = ()
    infeasible: Infeasible | None = None
    warnings: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """How a notebook shows the plan: a line per job, then the bill."""
        told = f", ${self.cost_usd.expected:,.2f}, {self.hours.expected:.1f} h" if self.cost_usd and self.hours else ""
        header = ("job", "machines", "provider", "method", "spot share", "hours", "cost")
        rows = [
            (
                job.name,
                f"{job.gpus} x {job.gpu}",
                job.provider,
                f"{job.techniques.method}, {job.techniques.weight_bits} bit",
                f"{job.spot_share:.0%}",
                f"{job.hours.expected:.1f}",
                f"${job.cost_usd:,.2f}",
            )
            for job in self.jobs
        ]
        bill = [(job.name, line.item, f"${line.usd:,.2f}") for job in self.jobs for line in job.bill]
        plan = html_table(f"{self.scenario}: {self.status}{told}", header, rows)
        return plan + (html_table("bill", ("job", "item", "dollars"), bill) if bill else "")

    def assignment(self, job: str) -> Assignment:
        """How a job is run; NoPlanError where there is no plan for it."""
        for one in self.jobs:
            if one.name == job:
                return one
        raise NoPlanError(f"no plan for {job!r}: the scenario is {self.status}")

"""The answer: a plan as the JSON of `planner solve` writes it, typed.

Dollars are expected US dollars, hours are wall hours, memory is GiB per GPU, unless a name says otherwise.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from planner.errors import NoPlanError
from planner.htmltable import html_table

Status = Literal["optimal", "feasible", "infeasible", "no_plan"]


def machines_named(gpus: int, gpu: str) -> str:
    """Such as `4 x H100-80GB`; a service that tells no machines is just that."""
    return f"{gpus:,} x {gpu}" if gpus else "managed service"


class Part(BaseModel):
    """Frozen and strict, so that a plan file that was edited by hand is checked like any other input."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True)


class Spread(Part):
    """An expected figure with its 80 % interval."""

    expected: float
    low: float
    high: float


class Hours(Spread):
    """Hours with the figure that the asked confidence holds for."""

    at_confidence: float


class Techniques(Part):
    """What to switch on, in the spelling of the scenario file."""

    method: str
    weight_bits: int
    quant: str
    precision: str
    activation_checkpointing: str
    micro_batch: int
    accumulation_steps: int
    sharding: str
    attention: str
    optimizer: str
    tensor_parallel: int
    pipeline_parallel: int
    lora_rank: int | None = None
    lora_targets: str | tuple[str, ...] | None = None


class Vram(Part):
    """Memory of one GPU: `peak` is the need of the fit rule, `allocated` the bytes in live tensors."""

    peak: float
    allocated: float
    usable: float
    fit_probability: float
    phase: str
    parts: dict[str, float]


class BillItem(Part):
    """One line of the bill: `quantity` times `rate_usd` where both are told."""

    item: str
    usd: float
    quantity: float | None = None
    unit: str = ""
    rate_usd: float | None = None
    basis: str = ""
    """Empty for a price of the offer; else what stands in for an unknown one."""


class Option(Part):
    """Another way that was priced: a rung of the ladder or a runner-up."""

    label: str
    provider: str
    gpu: str
    gpus: int
    cost_usd: float | None
    hours: float | None
    allowed: bool = True
    note: str = ""


class ObservedRun(Part):
    """A run of the job that was observed, beside what was predicted for the same configuration."""

    gpu: str
    gpus: int
    techniques: Techniques
    assumed: tuple[str, ...]
    """Settings that the run does not say: the fastest that the job allows are taken."""
    tokens_per_second: float | None
    predicted_tokens_per_second: float
    peak_vram_gib: float | None
    predicted_peak_vram_gib: float | None
    peak_kind: str | None


class Beside(Part):
    """A stage that has a machine of its own, before or after the training machines are rented."""

    stage: str
    provider: str
    offer: str
    hours: float
    usd: float


class CommitmentUse(Part):
    """A commitment that the plan takes, and how much use makes it pay; dollars and machine hours of all instances."""

    months: int
    usd: float
    used_hours: float
    term_hours: float
    on_demand_usd_per_hour: float | None
    """Of one machine alike without a commitment; None where the inventory has none."""
    break_even_hours: float | None
    """Machine hours of use from which the commitment costs less than renting by the hour."""


class SpotPlan(Part):
    """The policy that a run on spot follows: what it guarantees, and what it expects on its market.

    Hours are those of the run at the expected speed; a slower run has proportionally more of them within the deadline.
    """

    guaranteed_hours: float
    """From the first order of machines to the end of the run, on every path of the market."""
    latest_on_demand_hours: float
    """The guard: when on-demand machines must start at the latest if spot never came."""
    saving_usd: float
    """Expected, against the same machines on demand from start to end."""
    usd_sd: float
    """Spread of the cost that the market makes; the error of the speed is not in it."""
    interruptions: float
    wasted_hours: float
    """Paid without progress that lasts: starts, checkpoints, work lost."""
    waiting_hours: float
    """Nothing is rented."""
    checkpoint_interval_hours: float
    restart_hours: float
    last_checkpoint: bool
    """Whether the notice of the provider is long enough to write one."""
    availability: float
    mean_up_hours: float
    mean_outage_hours: float
    basis: str
    """Empty where the offer states its market; else the prior that stands in."""


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
    stage_hours: dict[str, float] = {}
    """Hours of the stages beside start and training, on the wall clock."""
    beside: tuple[Beside, ...] = ()
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


class Counts(Part):
    """Ways to run the jobs: priced, rejected with a reason, and left out because another is nowhere worse."""

    made: int
    rejected: int
    dominated: int
    reasons: dict[str, int] = {}


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
    candidates: Counts
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

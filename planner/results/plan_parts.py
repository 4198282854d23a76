"""The parts that a plan is made of: figures with their spread, techniques, memory, bill lines, options, policies.

Dollars are expected US dollars, hours are wall hours, memory is GiB per GPU, unless a name says otherwise.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


def describe_machines(gpus: int, gpu: str, runs_at_once: int = 1) -> str:
    """Such as `4 x H100-80GB`, or `3 x (4 x H100-80GB)` for runs side by side; a service is just that."""
    if not gpus:
        return "managed service"
    one = f"{gpus:,} x {gpu}"
    return f"{runs_at_once:,} x ({one})" if runs_at_once > 1 else one


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
    runs_at_once: int = 1
    """Gangs side by side: `gpus` are those of one."""
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


class SeparateMachine(Part):
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
    break_even_share: float | None
    """The same over the hours of the term: over 1 the commitment never pays."""


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
    hours_sd: float
    """The same of the hours."""
    luck_usd: float
    """What a market that is there all the time would save of the expected cost, at the speed expected."""
    luck_hours: float
    """The same of the hours."""
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

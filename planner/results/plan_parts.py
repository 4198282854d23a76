"""Parts of a plan: intervals, techniques, memory, bill items, alternatives, other ways, spot policies, odds of dollars.

Dollars are expected US dollars, hours are wall hours, memory is GiB per GPU, unless a name says otherwise.

Speeds of several jobs err alike, their spot markets are lucky each by itself: jobs on the same card of one provider in
one region have one market, and the unlucky runs of one are those of the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from planner.errors import escaped
from planner.units import LUCKS, MONTH_HOURS, SPEED_RANK_BOUNDS, SPEEDS


def jobs_text(count: int) -> str:
    """Return `1 job` or `3 jobs`."""
    return "1 job" if count == 1 else f"{count:,} jobs"


def describe_machines(gpus: int, gpu: str, runs_at_once: int = 1) -> str:
    """Return the machines: `4 x H100-80GB`, `3 x (4 x H100-80GB)` for parallel runs, or `managed service`."""
    if not gpus:
        return "managed service"
    machines = f"{gpus:,} x {gpu}"
    return f"{runs_at_once:,} x ({machines})" if runs_at_once > 1 else machines


BEYOND_TYPICAL_STOCK = (
    "no plan was found within limits.typical_stock (a prior), so this one is made without it: check that so many "
    "GPUs can be booked"
)
"""What a plan says that rents more side by side than typical; it is infeasible by this guess alone."""

WAYS_BEYOND_TYPICAL_STOCK = "rent more than limits.typical_stock (a prior): check that so many GPUs can be booked"
"""What is said of further ways of which no plan keeps the typical stock."""
TYPICAL_STOCK_HOLDS = "stock unknown, so limits.typical_stock (a prior) holds"
"""How a plan begins to say what it would have rented more of."""

Count = Annotated[int, Field(ge=0)]


class Part(BaseModel):
    """A frozen model without unknown keys, so that an edited plan file is validated like other input."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True, defer_build=True)

    @classmethod
    def model_json_schema(cls, *args: Any, **keys: Any) -> dict[str, Any]:
        """Return the JSON Schema, with a description of each field unless another generator is asked for."""
        if "schema_generator" not in keys:
            from planner.results.field_words import ResultSchema  # late: only schemas for people read source

            keys["schema_generator"] = ResultSchema
        return super().model_json_schema(*args, **keys)


class NeededAtOnce(Part):
    """GPUs of one model at one provider that the jobs of a plan hold at one time."""

    provider: str
    gpu: str
    gpus: Count


class Spread(Part):
    """An expected figure with its 80 % interval."""

    expected: float
    low: float
    high: float


class Hours(Spread):
    """Hours with the figure at the requested confidence."""

    at_confidence: float


class Techniques(Part):
    """Techniques in the spelling of the scenario file."""

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
    framework: str
    offload: str = "none"  # plans of earlier releases had no other
    context_parallel: int = 1
    expert_parallel: int = 1
    latents: str | None = None
    """Of an image network whose job names them."""
    tuning: str = "sft"
    """What is done with samples: `sft`, `dpo` and so on, in the words of a job's `method`."""
    reference: str | None = None
    """What preference tuning compares with."""
    lora_rank: int | None = None
    lora_targets: str | tuple[str, ...] | None = None
    dora: bool = False
    """Whether adapters have magnitudes of their own (DoRA)."""
    adapt_head: bool = False
    """Whether the output layer has adapters."""
    experts_16_bit: bool = False
    """Whether routed experts stay in 16 bits on a quantised base."""


class Fallback(Part):
    """What to switch on if memory does not suffice after all, on the same machines, and its additional cost."""

    change: str
    micro_batch: int
    accumulation_steps: int
    activation_checkpointing: str
    fit_probability: float
    hours: float
    usd: float


class Vram(Part):
    """Memory of one GPU: `peak` by the fit rule, `allocated` in live tensors."""

    peak: float
    allocated: float
    usable: float
    fit_probability: float
    phase: str
    parts: dict[str, float]
    set_aside: dict[str, float] = Field(default_factory=dict)
    """What `peak` has next to live tensors: of a plan the frozen encoders or image tower alone."""
    fallback: Fallback | None = None


class HostMemory(Part):
    """What states take of the host memory of one machine in GB; pages may come to take so much."""

    taken_gb: float
    total_gb: float
    assumed: bool
    """Whether the total is that of the machine's class, because its offer does not state it."""


class BillItem(Part):
    """One line of the bill: `quantity` times `rate_usd` if both are given."""

    item: str
    usd: float
    quantity: float | None = None
    unit: str = ""
    rate_usd: float | None = None
    basis: str = ""
    """Empty for a price of the offer; else the assumption for an unknown price."""


class Option(Part):
    """An alternative: the best plan of a method, or a runner-up."""

    label: str
    provider: str
    gpu: str
    gpus: int
    runs_at_once: int = 1
    """Runs in parallel; `gpus` are those of one run."""
    cost_usd: float | None
    hours: float | None
    hours_at_confidence: float | None = None
    """Hours that it keeps at the confidence of the job."""
    usd_per_hour: float | None = None
    """Rent of all its machines; None where they are not rented by the hour."""
    tier: str = ""
    """How its machines are had: `secure`, `community` (hosts of private persons), `own`, `bought`, `committed` ..."""
    spot_share: float = 0.0
    method: str = ""
    """Method with its bits, such as `QLoRA`; of generation the engine and its bits."""
    allowed: bool = True
    prior: bool = False
    """Whether the figures rest on documentation or on few runs: such a framework takes part only when it is named."""
    note: str = ""


EvidenceWord = Literal["measured", "fitted", "prior"]
"""What a figure rests on: a measurement of the very thing, formulas fitted to measurements of its kind, or a guess."""


class PlanEvidence(Part):
    """What the figures of a job rest on."""

    speed: EvidenceWord
    """Measured: a run of its own on that GPU; fitted: published runs or timed products of that GPU; else prior."""
    memory: EvidenceWord
    """Measured: a peak of this setting; fitted: runs of its framework, or what its engine prints; else prior."""
    price: EvidenceWord
    """Measured: read at its source at a date; else prior."""
    spot: EvidenceWord | None = None
    """Of the statistics of its spot market: stated for the offer, or a prior; None where it is never on spot."""
    known: Option | None = None
    """The best plan whose speed is no prior, where that of the job is one and there is another."""
    estimates: int | None = None
    """Estimates of which the plan is the cheapest, where that makes it too low."""
    optimizer_curse: float | None = None
    """Share by which such picks cost more on average than their estimates say; None below 2 %."""


class Pause(Part):
    """A time in which a run stands still, because its machine may not be used."""

    from_hours: float
    to_hours: float


class LossyChoice(Part):
    """A technique of the plan that may cost quality and was not asked for, and the least cost without it."""

    technique: str
    without: str
    """What takes its place, such as `16-bit`."""
    cost_usd: float | None
    """None: no plan within the limits does without it."""
    hours: float | None


class QualityNote(Part):
    """What published work says of the quality that a technique in use reaches."""

    text: str
    setting: str
    source: str


class ObservedRun(Part):
    """An observed run of the job, with the estimate of the same configuration."""

    gpu: str
    gpus: int
    techniques: Techniques
    assumed: tuple[str, ...]
    """Settings that were not given: the fastest that the job allows are assumed."""
    tokens_per_second: float | None
    predicted_tokens_per_second: float
    peak_vram_gib: float | None
    predicted_peak_vram_gib: float | None
    peak_kind: str | None


class SeparateMachine(Part):
    """A stage on a separate machine, before or after the training machines are rented."""

    stage: str
    provider: str
    offer: str
    hours: float
    usd: float


class Reservation(Part):
    """Machines that are paid once for a term and used by any job within it; hours from the start of the plan."""

    offer: str
    count: int
    start_hours: float
    end_hours: float
    terms: int = 1
    """Terms of a commitment back to back."""
    usd: float
    """Of all machines, used or not."""
    outlay_usd: float = 0.0
    """What of it is paid at once."""
    used_hours: float
    """Machine hours that jobs hold, at their confidence."""
    used_share: float
    pays_from_hours: float | None = None
    """Machine hours of use from which on it costs less than equal machines by the hour; None without such an offer."""


class SharedLimit(Part):
    """A limit that jobs of a timetable share, and what the best timetable without it saves; all others are kept."""

    limit: str
    current: float
    saving_usd: float
    saving_hours: float
    """How much earlier the last job ends; negative where the cheaper timetable ends later."""


class Baseline(Part):
    """A timetable made by a simple rule without search."""

    name: str
    compares: Literal["cost", "time"] = "cost"
    """Which of the next two the plan minimises, and is compared by."""
    cost_usd: float
    """Expected dollars with penalties, waiting and lateness."""
    hours: float = 0.0
    """Hours until its last job ends."""


class CommitmentUse(Part):
    """A commitment of the plan and its break-even; dollars and machine hours of all instances."""

    months: int
    """Of one term."""
    terms: int = 1
    """Terms back to back."""
    usd: float
    used_hours: float
    """Hours in the terms; the others that are paid for stay unused."""
    term_hours: float
    after_hours: float = 0.0
    """Machine hours on demand after the last term."""
    on_demand_usd_per_hour: float | None
    """Price of one such machine without a commitment; None if the inventory has none."""
    break_even_hours: float | None
    """Machine hours of use above which the commitment costs less than renting by the hour."""
    break_even_share: float | None
    """The same as a share of the term; above 1 the commitment never breaks even."""


class SpotPlan(Part):
    """Guarantees and expectations of the policy of a run on spot.

    Hours are those of the run at the expected speed; those of a slower run are proportionally longer.
    """

    guaranteed_hours: float
    """Hours from the first order of machines to the end of the run, on every path of the market."""
    latest_on_demand_hours: float
    """The guard: hour at which on-demand machines must start if no spot capacity appears."""
    saving_usd: float
    """Expected saving against the same machines on demand from start to end."""
    usd_sd: float
    """Standard deviation of the cost due to the market, without the error of the speed."""
    hours_sd: float
    """Standard deviation of the hours due to the market."""
    outage_usd: float
    """Expected cost minus that on a market that is always available, at the expected speed."""
    outage_hours: float
    """The same for the hours."""
    interruptions: float
    wasted_hours: float
    """Paid hours without lasting progress: starts, checkpoints, lost work."""
    waiting_hours: float
    """Hours in which nothing is rented."""
    waiting_usd_per_hour: float = 0.0
    """Price of an hour of waiting that the policy weighs; on no bill."""
    take_after_up_hours: float | None = None
    """How long the market has been up when a run that waits takes its first machine; None: it takes none."""
    take_at_once_from_hours: float | None = None
    """From when on a run without progress takes any machine; None: not before it goes on demand."""
    checkpoint_interval_hours: float
    restart_hours: float
    last_checkpoint: bool
    """Whether the notice of the provider suffices to write a checkpoint."""
    availability: float
    mean_up_hours: float
    mean_outage_hours: float
    basis: str
    """Empty if the offer states its market; else the assumed prior."""
    zones: dict[str, float] = Field(default_factory=dict)
    """Of a group of zones, dollars per instance and hour in each: a run that is lost goes on in another one."""


class Relaxation(Part):
    """One limit to relax; all entries with the same `way` together make the scenario feasible.

    `setting` is the PATH=VALUE of the change; `then`, dollars and hours are those of the resulting plan.
    """

    limit: str
    change_from: float | str | None = Field(alias="from")
    change_to: float | str | None = Field(alias="to")
    then: str = ""
    way: int = 1
    setting: str = ""
    cost_usd: float | None = None
    hours: float | None = None


class CutSamples(Part):
    """What a sequence does not hold of the samples of a job."""

    job: str
    share: float
    """Of the tokens of the samples, those that are not trained on."""
    sequence_length: int
    holds: int | None = None
    """Tokens of a sequence that cuts nothing, or of the longest that the model reads; None where this is that one."""
    setting: str = ""
    """PATH=VALUE for `--set` that asks for it."""


class NearMiss(Part):
    """A rejected candidate, its shortfall, and what makes it feasible."""

    job: str
    what: str
    reason: str
    shortfall: float
    unit: str
    fix: str = ""


# What was considered for a plan: how many candidates, and the nearest ones where there is no plan.


class Infeasible(Part):
    """Why there is no plan."""

    relax: tuple[Relaxation, ...] = ()
    nearest: tuple[NearMiss, ...] = ()


class CandidateCounts(Part):
    """Numbers of candidates: priced, rejected with a reason, and dominated by another one."""

    made: int
    rejected: int
    dominated: int
    offers: int = 0
    """Offers that candidates were made for."""
    outdated_offers: int = 0
    """Offers that were left out for the age of their price."""
    reasons: dict[str, int] = Field(default_factory=dict)


# Parts of a plan that name other ways: the purchase of its machine, and further ways if it cannot be had.


class Purchase(Part):
    """What buying the machines of a job costs or would cost, and from how many hours of such use it pays.

    Dollars are of all machines that the job holds at one time, hours are those in which all of them work.
    """

    is_bought: bool = False
    """Whether the plan buys them."""
    offer: str
    machines: int
    usd: float
    low_usd: float
    high_usd: float
    """The ends of published prices."""
    date: str
    source: str
    rent_usd_per_hour: float | None
    """What the plan pays for an hour of work: starts, losses on spot and rounding are in it.

    Of machines that the plan buys, equal ones by the hour; None where none are for rent."""
    hours_per_month: float = MONTH_HOURS
    """Hours of use in a month: those of the horizon, else day and night."""
    running_usd_per_hour: float
    """Power and place of the bought machines at that use."""
    price_back_hours: float | None = None
    """Hours of use after which the rent that is saved is the whole price; None where nothing is saved."""
    life_months: float | None = None
    """Months that such machines are used at most; None where nobody states it."""
    usd_per_hour: float | None = None
    """What an hour of machines that the plan buys costs at the use of the horizon."""
    half_use_usd_per_hour: float | None = None
    """What it costs where they are used half as much."""
    without: str = ""
    """What the price leaves out."""
    interest: float = 0.0
    """What capital costs in a year, as a share."""
    pays_from_hours: float | None
    """Hours of use from which on buying, and selling then, costs less than the rent.

    None where it never does within their life."""
    pays_from_hours_low: float | None
    pays_from_hours_high: float | None
    hours: float
    """Hours of such use that the job has."""


class FirstPurchase(Part):
    """Of all machines that the scenario may buy those that pay first for the work of a job, against the least rent.

    Dollars and hours are of all machines that the job then holds at one time.
    """

    offer: str
    gpu: str
    gpus: int
    machines: int
    usd: float
    hours_per_month: float
    """Hours of use in a month: those of the horizon, else day and night."""
    pays_from_hours: float | None
    """Hours of use from which on buying, and selling then, costs less than the least rent of the same work.

    None where no machine ever does within its life: these come nearest."""
    price_back_hours: float | None
    """Hours of use after which the rent that is saved is the whole price; None where nothing is saved."""
    hours: float
    """Hours that the job takes on them."""
    rent: Option
    """The machines by the hour that do the work for the least dollars."""


class HostedTuning(Part):
    """What the cheapest service that trains by the token takes for a job, next to machines."""

    provider: str
    usd: float
    pays_from_tokens: float | None
    """Tokens of a run from which on own machines cost less; 0: at any number; None: at none that was searched."""
    pays_on: Option | None
    """The machines that are cheapest there, with their dollars and hours for so many tokens."""


class FurtherWay(Part):
    """A plan of the same scenario without the providers and cards of the plan, and of the ways before this one."""

    provider: str
    gpu: str
    gpus: int
    runs_at_once: int = 1
    cost_usd: float
    """Expected dollars of the job."""
    hours: float
    """Expected hours until the job ends."""
    more_usd: float
    """Expected dollars of all jobs beyond those of the plan."""
    jobs: tuple[dict[str, Any], ...]
    """All jobs of that plan, in the form of `jobs`."""
    reservations: tuple[Reservation, ...] = ()
    keeps_typical_stock: bool = True
    """Whether the training jobs of that plan rent no more side by side than `limits.typical_stock`."""


# Small HTML tables and pictures for results in a notebook.


def html_table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a `<table>` with every text escaped; cells that start with a digit or a sign are aligned to the right."""
    head = "".join(f"<th>{escaped(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><caption>{escaped(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def dollars(amount: float | None) -> str:
    """Return dollars with two decimals; empty for None."""
    return "" if amount is None else f"${amount:,.2f}"


def _cell(text: str) -> str:
    side = ' style="text-align:right"' if text[:1].isdigit() or text[:1] in ("$", "-", "+") else ""
    return f"<td{side}>{escaped(text)}</td>"


class PaidJob(Protocol):
    """The dollars of a job: expected, at the confidence, and in equally likely runs at each rank of speed, if drawn."""

    @property
    def provider(self) -> str:
        """Whose machines it rents."""

    @property
    def region(self) -> str:
        """Where they are."""

    @property
    def gpu(self) -> str:
        """Their card."""

    @property
    def cost_usd(self) -> float:
        """Expected dollars."""

    @property
    def cost_at_confidence(self) -> float:
        """Dollars that hold with the confidence."""

    @property
    def usd_of_runs(self) -> Sequence[Sequence[float]]:
        """Dollars of runs by the rank of speed; empty where none were drawn."""


def joint_usd(jobs: Sequence[PaidJob], confidence: float, fixed_usd: float = 0.0) -> list[float]:
    """Return dollars of all jobs in equally likely cases, by rising dollars; `fixed_usd` is paid next to them.

    `confidence` is that of the `cost_at_confidence` of the jobs. At each speed all sums of two markets are equally
    likely; a sum of many is kept as the means of as many groups. Jobs without luck vary within a speed, too, by the
    ranks that it covers: the slowest eighth of runs of theirs spreads as far as an unlucky market.
    """
    cases: list[float] = []
    for speed in range(SPEEDS):
        sums, markets = [fixed_usd], dict[tuple[str, str, str], list[float]]()
        for job in jobs:
            together = markets.setdefault(_market_of(job) if job.usd_of_runs else _NO_MARKET, [0.0] * LUCKS)
            for luck, usd in enumerate(job.usd_of_runs[speed] if job.usd_of_runs else _usd_at(job, speed, confidence)):
                together[luck] += usd
        for _, lucks in sorted(markets.items()):  # means of groups depend on the order, which jobs must not decide
            every = sorted(total + other for total in sums for other in lucks)
            size = max(1, len(every) // LUCKS)
            sums = [math.fsum(every[at : at + size]) / size for at in range(0, len(every), size)]
        cases += [sums[number * len(sums) // LUCKS] for number in range(LUCKS)]
    return sorted(cases)


def joint_late_usd(jobs: Sequence[PaidJob], confidence: float, fixed_usd: float = 0.0) -> float:
    """Return the dollars that all jobs together stay within with this probability; `fixed_usd` is paid next to them.

    Where all luck is that of one market, what the jobs need each by itself is enough for all: they need it in the same
    runs. It was found among more runs than the cases tell, so that the lesser of the two counts.
    """
    added = fixed_usd + math.fsum(job.cost_at_confidence for job in jobs)
    markets = {_market_of(job) for job in jobs if job.usd_of_runs}
    if len(jobs) < 2 or not markets:
        return added
    simulated = share_within(joint_usd(jobs, confidence, fixed_usd), confidence)
    return min(added, simulated) if len(markets) == 1 else simulated


def joint_probability(jobs: Sequence[PaidJob], confidence: float, limit_usd: float, fixed_usd: float = 0.0) -> float:
    """Return the probability that all jobs together stay within dollars: the inverse of `joint_late_usd`."""
    share = probability_of(joint_usd(jobs, confidence, fixed_usd), limit_usd)
    return max(share, confidence if joint_late_usd(jobs, confidence, fixed_usd) <= limit_usd else 0.0)


_NO_MARKET = ("", "", "")
"""What jobs without luck have in common: their speeds err alike."""


def _market_of(job: PaidJob) -> tuple[str, str, str]:
    """Return what jobs on one spot market have in common."""
    return job.provider, job.region, job.gpu


def share_within(cases: Sequence[float], probability: float) -> float:
    """Return the figure that this share of equally likely cases stays within, between two cases in proportion."""
    place = min(max(probability * len(cases) - 0.5, 0.0), len(cases) - 1.0)
    low = min(int(place), len(cases) - 2)
    return cases[low] + (place - low) * (cases[low + 1] - cases[low])


def probability_of(cases: Sequence[float], limit: float) -> float:
    """Return the share of equally likely cases that stay within a limit: the inverse of `share_within`."""
    below = sum(case <= limit for case in cases)
    if below in (0, len(cases)):
        return below / len(cases)
    low, high = cases[below - 1], cases[below]
    return (below - 0.5 + (limit - low) / (high - low)) / len(cases)


def _usd_at(job: PaidJob, speed: int, confidence: float) -> list[float]:
    """Return the dollars of a job without luck at the ranks of a speed, by size: exp(scale * t), Student's t.

    The data say nothing beyond `SPEED_RANK_BOUNDS`.
    """
    if confidence == 0.5 or not job.cost_at_confidence > job.cost_usd > 0:
        return [job.cost_at_confidence] * LUCKS
    ranks = ((speed + (number + 0.5) / LUCKS) / SPEEDS for number in range(LUCKS))
    least, most = SPEED_RANK_BOUNDS
    known = (min(max(rank, least), most) for rank in ranks)
    ratio, asked = job.cost_at_confidence / job.cost_usd, _student(confidence)
    return [float(job.cost_usd * ratio ** (_student(rank) / asked)) for rank in known]


def _student(probability: float) -> float:
    """Return the quantile of Student's t with 2 degrees of freedom."""
    return (2 * probability - 1) / math.sqrt(2 * probability * (1 - probability))

"""What a plan says of a job of generation and of a service, and the estimate of one served configuration."""

from typing import ClassVar, Literal

from pydantic import Field

from planner.results.plan_parts import BillItem, EvidenceWord, Option, Part, Relaxation, Spread, html_table
from planner.results.result_tables import Result


class ServingMemory(Part):
    """GiB of one GPU; `parts` sum to `used`, and the cache takes the rest of what the engine may use."""

    usable: float
    parts: dict[str, float]
    kv_bytes_per_token: float
    kv_tokens: int
    """Tokens whose keys and values fit, over all requests."""
    kv_tokens_range: Spread | None = None
    """The same with what is not known of the engine's own memory and, where it was not given, of its release."""
    state_sequences: int | None = None
    """Sequences whose state of linear attention fits; None of a model without such layers."""


class RequestsThatFit(Part):
    """Requests whose cache fits at one time."""

    typical: int
    """At the mean length over a request's life: the prompt and half of the output."""
    whole: int
    """At the length of a finished request."""
    longest: int
    """At the longest context of the model; 0: not even one."""


class TokenPrices(Part):
    """Dollars per million tokens, from the price of the GPUs for the time that each kind of token takes."""

    usd_per_gpu_hour: float
    basis: str
    usd_per_million_input_tokens: float | None
    """None without input tokens that are computed."""
    usd_per_million_output_tokens: float
    usd_per_thousand_requests: float


class ApiPrice(Part):
    """What a service takes for the same tokens; never a plan, because it may not serve the tuned model."""

    offer: str
    usd: float
    usd_per_thousand_requests: float
    hosts_tuned: Literal["yes", "dedicated", "no"]
    """Whether it serves the user's own weights: no means that the figure is that of the base model."""
    pays_from_requests: float | None
    """Requests from which on own machines cost less; 0: at any number; None: at none that was searched."""
    pays_on: Option | None = None
    """The machines that are cheapest there, with their dollars; of a fleet those that work most, with all dollars."""
    source: str = ""


class BulkGeneration(Part):
    """What a plan says of a job of generation: its replicas, their speed, and dollars by prompt and by token."""

    engine: str
    weight_format: str
    kv_bits: int
    replicas: int
    """At one time, over all machines of one run."""
    gpus_per_replica: int
    requests: int
    input_tokens: float
    """Mean of a request."""
    output_tokens: float
    prefix_tokens: int
    in_flight: int
    """Of one replica at one time."""
    requests_that_fit: int
    """Of one replica, by memory alone."""
    binds: Literal["memory", "engine", "requests"]
    """What holds the number in flight: the cache, the engine's default, or that there are no more."""
    time_shares: dict[str, float]
    """Shares of the time of a step: prompts and products (compute), weights and cache (bandwidth), launches."""
    output_tokens_per_second: float
    """Of all replicas together."""
    ttft_seconds: float
    tpot_seconds: float
    usd_per_thousand_requests: float
    usd_per_million_input_tokens: float
    usd_per_million_output_tokens: float
    evidence: EvidenceWord
    api: tuple[ApiPrice, ...] = ()
    """Services that answer prompts with the model, cheapest first."""
    priors: tuple[str, ...] = ()
    """What no published measurement informs."""


class InferenceEstimate(Result):
    """Memory and speed of one model on one replica."""

    schema_version: int = 3
    architecture: str
    gpu: str
    gpus: int
    tensor_parallel: int
    pipeline_parallel: int
    engine: str
    weight_format: str
    weight_bits: int
    kv_bits: int
    input_tokens: int
    output_tokens: int
    prefix_tokens: int
    memory_gib: ServingMemory
    requests_that_fit: RequestsThatFit
    in_flight: int
    """Sequences at one time in the steady state."""
    binds: str
    """What holds the number in flight: memory, the engine's default, or the number asked for."""
    output_tokens_per_second: Spread
    """Over all GPUs, in the steady state, with its 80 % interval."""
    requests_per_second: float
    single_output_tokens_per_second: float
    """Of one request alone."""
    ttft_seconds: Spread
    tpot_seconds: Spread
    requests: int | None = None
    """Of a finite batch, where that is asked for."""
    makespan_seconds: float | None = None
    prices: TokenPrices | None = None
    sigma: float
    """Standard deviation of ln(speed)."""
    evidence: Literal["fitted", "prior"]
    """Whether published measurements stand behind engine, GPU and format."""
    conversion: str | None = None
    """What of the weights a user must make, or what frameworks make of the release; None where they are taken as is."""
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """Return the figures as a table for notebooks."""
        rate, ttft, tpot = self.output_tokens_per_second, self.ttft_seconds, self.tpot_seconds
        facts = [
            ("requests in flight", f"{self.in_flight:,}"),
            ("output tokens/s", f"{rate.expected:,.3g} ({rate.low:,.3g} to {rate.high:,.3g})"),
            ("TTFT", f"{ttft.expected:.3g} s"),
            ("TPOT", f"{tpot.expected * 1000:.3g} ms"),
            ("evidence", self.evidence),
        ]
        return html_table(f"{self.architecture} on {self.gpus} x {self.gpu}, {self.engine}", ("", ""), facts)


# What a plan says of a service: the fleet by the hour, its dollars, and how near its latency comes to the limits.
#
# Dollars are expected US dollars. A cycle is a day or a week from Monday 0:00 on, and repeats.


class FleetKind(Part):
    """Machines of one offer with replicas of one engine and format, and how many of them each hour has."""

    provider: str
    region: str
    instance: str
    offer: str
    market: Literal["on demand", "spot", "committed"]
    gpu: str
    gpus: int
    """Of one machine."""
    engine: str
    weight_format: str
    weight_bits: int
    kv_bits: int
    gpus_per_replica: int
    pipeline_parallel: int = 1
    replicas: int
    """Of one machine."""
    capacity: float
    """Greatest load of one machine, in the unit of the fleet's load."""
    binds: Literal["TPOT", "TTFT", "KV", "compute"]
    """What holds the capacity."""
    usd_per_hour: float
    """Of one machine; on spot while it is there, with the starts after its losses."""
    start_hours: float
    start_usd: float
    availability: float = 1.0
    ttft_seconds: float
    """That the asked share stays below in its hour of most use."""
    tpot_seconds: float
    committed: int
    """Machines that are paid in every hour."""
    by_hour: tuple[int, ...]
    """Machines of each hour of the cycle."""

    @property
    def gpus_per_instance(self) -> int:
        """GPUs of one machine, as a job names them."""
        return self.gpus


class LatencyLimit(Part):
    """A limit on latency and what is predicted in its hour of most use, at the confidence of the job."""

    name: Literal["ttft", "tpot"]
    limit_seconds: float | None
    predicted_seconds: float
    """Of the slowest kind; the asked share of the requests stays below."""


class FleetBaseline(Part):
    """A simpler fleet for the same load."""

    name: str
    usd_per_month: float | None
    """None: it does not exist within the limits."""
    machines: str = ""


class Fleet(Part):
    """The machines of a service in each hour of a cycle."""

    kinds: tuple[FleetKind, ...]
    load: tuple[float, ...]
    """Of each hour, without headroom."""
    unit: Literal["requests/s", "requests in flight"]
    use_by_hour: tuple[float, ...]
    """Load over capacity."""
    use: float
    """Mean of it, by load."""
    replicas_by_hour: tuple[int, ...]
    usd_per_month: float
    usd_per_million_tokens: float
    """Of prompts and answers together."""
    usd_per_thousand_requests: float
    starts: int
    """In one cycle."""
    start_usd: float
    """Of the starts of one cycle."""
    fees: tuple[BillItem, ...] = ()
    """Fees by the machine and hour in `usd_per_month`, a line each; none where no offer charges any."""
    spot_share: float
    """Of the load that machines on spot carry."""
    served_share: float
    """Of the requests on average: each spot group is lost as often as its market says, whatever the others do."""
    within_limits_share: float
    """Of the requests that each limit holds for, as asked."""
    limits: tuple[LatencyLimit, ...]
    baselines: tuple[FleetBaseline, ...] = ()
    any_mix: FleetBaseline | None = None
    """What any number of kinds would cost; None where it saves nothing, or where the scenario allows it."""
    secure: FleetBaseline | None = Field(default=None, exclude_if=lambda found: found is None)
    """The best fleet without machines of private persons, where the fleet has some; None elsewhere."""
    api: tuple[ApiPrice, ...] = ()
    """Services that answer with the model; dollars of a month, and the requests of a month from which a fleet pays."""

    @property
    def other_fleets(self) -> tuple[FleetBaseline, ...]:
        """Simpler fleets, and that of any number of kinds where it costs less."""
        return (*self.baselines, *([self.any_mix] if self.any_mix else []))

    @property
    def by_dollars(self) -> tuple[FleetKind, ...]:
        """The kinds of machines, those with most dollars first."""
        return tuple(sorted(self.kinds, key=lambda kind: -sum(kind.by_hour) * kind.usd_per_hour))


class Service(Part):
    """One service of a plan."""

    subject: ClassVar[str | None] = "serve"

    name: str
    kind: Literal["serve"] = "serve"
    architecture: str
    for_hours: float
    starts_at_hours: float = 0.0
    """When the jobs that it waits for have ended, at their confidence."""
    input_tokens: float
    """Mean of a request."""
    output_tokens: float
    prefix_tokens: int
    cost_usd: float
    """Of all hours that the service runs."""
    outlay_usd: float = 0.0
    """What of it is paid at once: commitments upfront."""
    bound_usd: float
    """Below which no fleet of these kinds costs."""
    price_date: str
    price_age_days: int | None
    price_source: str
    kinds_made: int = 0
    kinds_left: int = 0
    """Kinds that dominance left to choose from."""
    fleet: Fleet
    looser: Relaxation | None = None
    """What a quarter more of the latency that holds the fleet saves, found by solving; None where it saves nothing."""
    assumed: tuple[str, ...] = ()
    """What the scenario does not say and the plan rests on most: limits on latency by default, weights to convert."""
    notes: tuple[str, ...] = ()

    @property
    def rented(self) -> tuple[FleetKind, ...]:
        """Its machines by kind; a job has one."""
        return self.fleet.kinds

    @property
    def machines_named(self) -> set[tuple[str, str]]:
        """Providers with their GPUs, as a job names them."""
        return {(kind.provider, kind.gpu) for kind in self.rented}

    @property
    def gpus_named(self) -> list[tuple[str, str]]:
        """GPUs of its machines, each with its key in the JSON of a part."""
        return [(f"fleet.kinds.{index}.gpu", kind.gpu) for index, kind in enumerate(self.fleet.kinds)]

    @property
    def engines_named(self) -> list[tuple[str, str]]:
        """Engines that answer, each with its key."""
        return [(f"fleet.kinds.{index}.engine", kind.engine) for index, kind in enumerate(self.fleet.kinds)]

    @property
    def offers_named(self) -> set[str]:
        """Labels of the offers that its machines and the services by the token are."""
        return {kind.offer for kind in self.rented} | {hosted.offer for hosted in self.fleet.api}

    @property
    def gap(self) -> float:
        """How far the cost may lie above the least one, as a share of it."""
        return max(0.0, self.cost_usd - self.bound_usd) / max(self.cost_usd, 1e-9)

"""What a plan says of a job of generation, and the estimate of one served configuration."""

from typing import Literal

from planner.results.plan_parts import EvidenceWord, Option, Part, Spread, html_table
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

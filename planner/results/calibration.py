"""What a pilot run taught: the `measured:` entry that it is worth, and what that does to a plan."""

from __future__ import annotations

from planner.results.html import html_table
from planner.results.plan import Part, Techniques

SettingValue = str | int | float


class StepTimes(Part):
    """Seconds per optimizer step of a log."""

    seconds: float
    """The median; the mean where only the whole run was timed."""
    spread: float | None
    """Normal-equivalent median deviation over the median; None where only the whole run was timed."""
    steps: int
    dropped: int
    """First steps that were left out as warm-up."""


class Comparison(Part):
    """The run beside the estimate of the same configuration."""

    techniques: Techniques
    assumed: tuple[str, ...]
    """Settings that nobody said: the fastest that the job allows are taken."""
    tokens_per_second: float | None
    predicted_tokens_per_second: float
    peak_vram_gib: float | None
    predicted_peak_vram_gib: float | None
    speed_factor: float
    """On the speed of all ways of the job from now on, from all of its observed runs."""
    memory_factor: float
    """On the bytes that grow with the batch at the run's setting."""


class PlanSummary(Part):
    """A plan in one line; without a plan only its status."""

    status: str
    gpu: str | None = None
    gpus: int | None = None
    provider: str | None = None
    method: str | None = None
    hours: float | None = None
    hours_low: float | None = None
    hours_high: float | None = None
    cost_usd: float | None = None
    tokens_per_second: float | None = None


class CalibrationResult(Part):
    """What `planner calibrate` found in the logs of one run."""

    logs: tuple[str, ...]
    """Each with its format."""
    step_times: StepTimes | None
    measured: dict[str, SettingValue]
    """The entry for the job's list `measured`."""
    unit: str
    scenario: str | None = None
    job: str | None = None
    compared: Comparison | None = None
    before: PlanSummary | None = None
    """The job's plan without the run, and with it."""
    after: PlanSummary | None = None
    notes: tuple[str, ...] = ()

    @property
    def block(self) -> str:
        """The entry as YAML, to be pasted into the job."""
        entry = ", ".join(f"{key}: {_scalar(value)}" for key, value in self.measured.items())
        return f"measured:\n  - {{{entry}}}\n"

    def _repr_html_(self) -> str:
        """How a notebook shows it: what was seen, beside what was predicted."""
        rows = [(key.replace("_", " "), _scalar(value)) for key, value in self.measured.items()]
        if self.compared is not None:
            rows.append(("predicted tokens per second", f"{self.compared.predicted_tokens_per_second:,.0f}"))
            rows.append(("speed from now on", f"x {self.compared.speed_factor:.2f}"))
        return html_table("a pilot run", ("what", "figure"), rows)


def _scalar(value: SettingValue) -> str:
    return f"{value:g}" if isinstance(value, float) and value < 1e6 else str(value)

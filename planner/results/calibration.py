"""The result of `calibrate`: the `measured:` entry of a run, and its effect on a plan."""

from __future__ import annotations

from typing import Any

from pydantic import SerializerFunctionWrapHandler, model_serializer

from planner.results.html import html_table
from planner.results.plan_parts import Part, Techniques

SettingValue = str | int | float


class StepTimes(Part):
    """Seconds per optimizer step of a log."""

    seconds: float
    """The median; the mean if only the whole run was timed."""
    spread: float | None
    """Normal-equivalent median deviation over the median; None if only the whole run was timed."""
    steps: int
    dropped: int
    """First steps that were excluded as warm-up."""


class Comparison(Part):
    """The run compared with the estimate of the same configuration."""

    techniques: Techniques
    assumed: tuple[str, ...]
    """Settings that were not given: the fastest that the job allows are assumed."""
    tokens_per_second: float | None
    predicted_tokens_per_second: float
    peak_vram_gib: float | None
    predicted_peak_vram_gib: float | None
    speed_factor: float
    """Factor on the estimated speed of all configurations of the job, from all of its observed runs."""
    memory_factor: float
    """Factor on the bytes that grow with the batch at the setting of the run."""


class GenerationComparison(Part):
    """A measurement of one replica compared with the estimate; its speed corrects the engine on the GPU."""

    engine: str
    gpu: str
    weight_format: str
    output_tokens_per_second: float
    predicted_output_tokens_per_second: float
    ttft_seconds: float | None
    predicted_ttft_seconds: float
    tpot_seconds: float | None
    predicted_tpot_seconds: float


class PlanSummary(Part):
    """A plan in short; without a plan only its status."""

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
    """The result of `planner calibrate` for the logs of one run."""

    logs: tuple[str, ...]
    """Each with its format."""
    step_times: StepTimes | None
    measured: dict[str, SettingValue]
    """The entry for the job's list `measured`."""
    unit: str
    scenario: str | None = None
    job: str | None = None
    compared: Comparison | None = None
    generation: GenerationComparison | None = None
    """Of a measurement of generation."""
    before: PlanSummary | None = None
    """The plan of the job without the run; `after` is that with it."""
    after: PlanSummary | None = None
    notes: tuple[str, ...] = ()

    @model_serializer(mode="wrap")
    def _without_what_is_not_there(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the data of a training run without the part that only generation has."""
        data: dict[str, Any] = handler(self)
        if self.generation is None:
            data.pop("generation", None)
        return data

    @property
    def block(self) -> str:
        """Return the entry as YAML, to paste into the job."""
        entry = ", ".join(f"{key}: {_scalar(value)}" for key, value in self.measured.items())
        return f"measured:\n  - {{{entry}}}\n"

    def _repr_html_(self) -> str:
        """Return the observed and predicted figures as a table for notebooks."""
        rows = [(key.replace("_", " "), _scalar(value)) for key, value in self.measured.items()]
        if self.compared is not None:
            rows.append(("predicted tokens per second", f"{self.compared.predicted_tokens_per_second:,.0f}"))
            rows.append(("factor on estimated speed", f"x {self.compared.speed_factor:.2f}"))
        return html_table("calibration", ("what", "figure"), rows)


def _scalar(value: SettingValue) -> str:
    return f"{value:g}" if isinstance(value, float) and value < 1e6 else str(value)

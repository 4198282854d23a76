"""Chips other than NVIDIA's: what may be planned with, and how uncertain their speed is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.scenario.inference_job import InferenceJob

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planner.evaluation.run_context import RunContext


def unmeasured(context: RunContext) -> str | None:
    """Return why the plan may not use its chip: it is for estimates alone, or no published run is of such training."""
    chip = context.gpu.chip
    if chip is None or chip.estimate_only:
        return chip.estimate_only if chip else None
    if context.scenario.limits.unmeasured or isinstance(context.job, InferenceJob):
        return None
    method = context.named.techniques.method
    known = any(one.method == method and one.from_chips <= context.machine.gpus for one in chip.measured)
    return None if known else f"{method} on {context.machine.gpus} x {context.gpu.name}"


def of_another_kind(context: RunContext, values: Mapping[str, float]) -> Iterator[float]:
    """Yield what widens the speed of a chip whose published runs had another method, more chips, another precision."""
    measured = context.gpu.chip.measured if context.gpu.chip else ()
    alike = [one for one in measured if one.method == context.recipe.method]
    if context.gpu.chip and not any(one.from_chips <= context.machine.gpus for one in alike):
        yield values["unmeasured_kind"]
    if alike and context.recipe.precision not in (one.precision for one in alike):
        yield values["unmeasured_precision"]

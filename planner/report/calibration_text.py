"""The result of `calibrate` as text: observed and predicted figures, and their effect on a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import format as words
from planner.report.format import line_room

if TYPE_CHECKING:
    from planner.results.calibration import CalibrationResult, Comparison, GenerationComparison, PlanSummary, StepTimes


def render_calibration(result: CalibrationResult) -> str:
    """Return the text of a result: the entry to paste, then what it is based on."""
    entry = [result.block.rstrip(), ""]  # one line of YAML, however long
    lines = entry
    if result.compared is not None:
        lines = [_summary(result, result.compared), "", *entry]
    if result.generation is not None:
        lines = [_summary_of_generation(result, result.generation), "", *entry]
    lines += words.section("Logs", words.wrap_all(result.logs, line_room(), 2))
    if result.step_times is not None:
        lines += words.section("Step", words.wrap_lines(_step(result.step_times), line_room(), 2))
    lines += words.section("Speed", _speed(result))
    lines += words.section("Memory", _memory(result))
    if result.generation is not None:
        lines += words.section("Speed", _generation(result.generation))
    if result.before is not None and result.after is not None:
        lines += words.section("Plan", [*_plan("before", result.before), *_plan("after", result.after)])
    lines += words.section("Notes", words.wrap_all(result.notes, line_room(), 3))
    return "\n".join(line.rstrip() for line in lines)


def _summary(result: CalibrationResult, compared: Comparison) -> str:
    where = f"{result.scenario}, {result.job}" if result.scenario != result.job else str(result.job)
    if compared.tokens_per_second is None:
        return f"{where}: memory that grows with the batch x {compared.memory_factor:.2f}"
    return f"{where}: estimated speed x {compared.speed_factor:.2f} from now on"


def _summary_of_generation(result: CalibrationResult, compared: GenerationComparison) -> str:
    factor = compared.output_tokens_per_second / compared.predicted_output_tokens_per_second
    return f"{result.job}: estimated speed of {compared.engine} on {compared.gpu} x {factor:.2f} from now on"


def _generation(compared: GenerationComparison) -> list[str]:
    rate, predicted = compared.output_tokens_per_second, compared.predicted_output_tokens_per_second
    lines = [f"{words.significant(rate)} output tokens/s observed, {words.significant(predicted)} predicted"]
    for what, seen, thought in (
        ("first token", compared.ttft_seconds, compared.predicted_ttft_seconds),
        ("per token", compared.tpot_seconds, compared.predicted_tpot_seconds),
    ):
        if seen is not None:
            lines.append(f"{what} {words.significant(seen)} s observed, {words.significant(thought)} s predicted")
    return lines


def _step(times: StepTimes) -> str:
    if times.spread is None:
        return f"{words.significant(times.seconds)} s, mean of {times.steps:,} steps"
    plural = "" if times.dropped == 1 else "s"
    warm = f", {times.dropped} warm-up step{plural} excluded" if times.dropped else ""
    return f"{words.significant(times.seconds)} s, median of {times.steps:,} (± {words.percent(times.spread)}){warm}"


def _speed(result: CalibrationResult) -> list[str]:
    observed = result.measured.get("tokens_per_second")
    if not isinstance(observed, float):
        return []
    predicted = (
        f", {words.significant(result.compared.predicted_tokens_per_second)} predicted" if result.compared else ""
    )
    return [f"{words.significant(observed)} {result.unit}/s observed{predicted}"]


def _memory(result: CalibrationResult) -> list[str]:
    peak = result.measured.get("peak_vram_gib")
    if not isinstance(peak, float):
        return []
    text = f"{words.gib(peak)} GiB {result.measured.get('peak_kind')} observed"
    predicted = result.compared.predicted_peak_vram_gib if result.compared else None
    return [text + (f", {words.gib(predicted)} predicted" if predicted is not None else "")]


def _plan(when: str, plan: PlanSummary) -> list[str]:
    if plan.hours is None or plan.gpu is None or plan.gpus is None or plan.cost_usd is None:
        return [f"{when:<7} {plan.status}"]
    interval = words.between(plan.hours_low or 0.0, plan.hours_high or 0.0)
    where = words.sanitise(f"{words.gpus(plan.gpus, plan.gpu)} at {plan.provider}")
    text = f"{when:<7} {where}, {words.likely(plan.hours)} ({interval}), {words.usd(plan.cost_usd)}"
    return words.wrap_lines(text, line_room(), 2)

"""What a pilot run taught, as text: what was seen, beside what was predicted, and what it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import format as words

if TYPE_CHECKING:
    from planner.results.calibration import CalibrationResult, PlanSummary

ROOM = words.WIDTH - words.LABEL


def render_calibration(pilot: CalibrationResult) -> str:
    """The entry to paste first, then what it rests on."""
    lines = [pilot.block.rstrip(), ""] if pilot.compared is None else [_summary(pilot), "", pilot.block.rstrip(), ""]
    lines += words.section("Logs", [part for log in pilot.logs for part in words.wrap_lines(log, ROOM, 2)])
    if pilot.step_times is not None:
        lines += words.section("Step", words.wrap_lines(_step(pilot), ROOM, 2))
    lines += words.section("Speed", _speed(pilot)) if _speed(pilot) else []
    lines += words.section("Memory", _memory(pilot)) if _memory(pilot) else []
    if pilot.before is not None and pilot.after is not None:
        lines += words.section("Plan", [*_plan("before", pilot.before), *_plan("after", pilot.after)])
    if pilot.notes:
        lines += words.section("Notes", [part for note in pilot.notes for part in words.wrap_lines(note, ROOM, 3)])
    return "\n".join(_keep_entry_line(lines))


def _keep_entry_line(lines: list[str]) -> list[str]:
    """The entry stays on its one line, however long: it is YAML."""
    return [line.rstrip() for line in lines]


def _summary(pilot: CalibrationResult) -> str:
    told = pilot.compared
    assert told is not None
    where = f"{pilot.scenario}, {pilot.job}" if pilot.scenario != pilot.job else str(pilot.job)
    if told.tokens_per_second is None:
        return f"{where}: memory that grows with the batch x {told.memory_factor:.2f}"
    return f"{where}: speed x {told.speed_factor:.2f} from now on"


def _step(pilot: CalibrationResult) -> str:
    times = pilot.step_times
    assert times is not None
    if times.spread is None:
        return f"{words.significant(times.seconds)} s, mean of {times.steps:,} steps"
    warm = f", {times.dropped} of warm-up left out" if times.dropped else ""
    return f"{words.significant(times.seconds)} s, median of {times.steps:,} (+-{words.percent(times.spread)}){warm}"


def _speed(pilot: CalibrationResult) -> list[str]:
    seen = pilot.measured.get("tokens_per_second")
    if not isinstance(seen, float):
        return []
    told = pilot.compared
    if told is None:
        return [f"{words.significant(seen)} {pilot.unit}/s observed"]
    predicted = words.significant(told.predicted_tokens_per_second)
    return [f"{words.significant(seen)} {pilot.unit}/s observed, {predicted} predicted"]


def _memory(pilot: CalibrationResult) -> list[str]:
    peak = pilot.measured.get("peak_vram_gib")
    if not isinstance(peak, float):
        return []
    told, kind = pilot.compared, pilot.measured.get("peak_kind")
    seen = f"{words.gib(peak)} GiB {kind} observed"
    if told is None or told.predicted_peak_vram_gib is None:
        return [seen]
    return [f"{seen}, {words.gib(told.predicted_peak_vram_gib)} predicted"]


def _plan(when: str, told: PlanSummary) -> list[str]:
    if told.hours is None or told.gpu is None or told.gpus is None or told.cost_usd is None:
        return [f"{when:<7} {told.status}"]
    reach = words.between(told.hours_low or 0.0, told.hours_high or 0.0)
    where = words.sanitise(f"{words.gpus(told.gpus, told.gpu)} at {told.provider}")
    return words.wrap_lines(
        f"{when:<7} {where}, {words.hours(told.hours)} ({reach}), {words.usd(told.cost_usd)}", ROOM, 2
    )

"""The summary of a sweep over many variants as text; its rows are in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import format as words
from planner.report.plan_sections import variant_cut_lines
from planner.report.what_if.sweep import axis_name, describe_hardware

if TYPE_CHECKING:
    from planner.results.sweep import ManyVariants, Variant

STATUS_WORDS = {"infeasible": "infeasible", "no_plan": "stopped without a plan", "error": "with an error"}


def render_variants(answer: ManyVariants) -> str:
    """Return the text of a summary without a final newline."""
    counts: dict[str, int] = {str(status): count for status, count in answer.counts.items()}
    found = sum(count for status, count in counts.items() if status not in STATUS_WORDS)
    parts = [f"{answer.variants:,} variants", f"{found:,} with a plan"]
    parts += [f"{counts[status]:,} {what}" for status, what in STATUS_WORDS.items() if status in counts]
    lines = [words.first_fitting(answer.scenario, ", ".join(parts))]
    lines += [*variant_cut_lines(answer.cut, answer.cutting, answer.variants), ""]
    if answer.cheapest is not None:
        lines += words.section("Cheapest", _lines(answer, answer.cheapest))
    if answer.fastest is not None and answer.fastest != answer.cheapest:
        lines += words.section("Fastest", _lines(answer, answer.fastest))
    lines += words.section("Errors", [line for one in answer.errors for line in _error(answer, one)])
    resumed = f", {answer.resumed:,} of them before an interruption" if answer.resumed else ""
    return "\n".join([*lines, "", f"written to {words.sanitise(answer.file)}{resumed}"])


def _values(answer: ManyVariants, one: Variant) -> str:
    """Return the values of a variant, such as `deadline = 6h, budget_usd = 4`."""
    pairs = zip(answer.paths, one.values, strict=True)
    return words.sanitise(", ".join(f"{axis_name(path)} = {value}" for path, value in pairs))


def _lines(answer: ManyVariants, one: Variant) -> list[str]:
    hours = "" if one.hours is None else f", {words.likely(one.hours)}"
    figures = f"{words.usd(one.cost_usd or 0.0)}{hours}: {_values(answer, one)}"
    return [figures, *words.wrap_lines(describe_hardware(one), words.line_room(), 2)]


def _error(answer: ManyVariants, one: Variant) -> list[str]:
    return words.wrap_lines(f"{_values(answer, one)}: {words.sanitise(one.error)}", words.line_room(), 3)

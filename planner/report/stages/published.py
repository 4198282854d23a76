"""The answer of `explain --technique` as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import format as words
from planner.report.format import line_room
from planner.report.stages.lines import data_path_text

if TYPE_CHECKING:
    from planner.results.explanation import TechniqueAnswer

MOST_LINES_EACH = 4
"""Lines of one finding."""


def render(answer: TechniqueAnswer) -> str:
    """Return the text without a final newline: the verdict, the findings, and what they mean for the jobs."""
    verdict = {"no": "the program does not decide it", "yes": "the program decides it"}.get(
        answer.decides, f"the program decides it {answer.decides}"
    )
    lines = [f"{answer.technique}: {verdict}", ""]
    lines += words.section("Why", words.wrap_lines(answer.why, line_room(), 3))
    lines += words.section("Where", [answer.where] if answer.where else [])
    found = [f"{one.finding} ({one.setting}; {one.source})" for one in answer.found]
    lines += words.section("Found", words.wrap_all(found, line_room(), MOST_LINES_EACH))
    several = len(answer.data_paths) > 1
    here = [
        f"{name}: {text}" if several else text
        for name, path in answer.data_paths.items()
        for text in [data_path_text(path, name)]
    ]
    lines += words.section("Here", words.wrap_all([*here, *answer.notes], line_room(), 3))
    return "\n".join(lines)

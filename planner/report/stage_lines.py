"""One line for the data path, one for the exported result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import format as words
from planner.report.format import line_room
from planner.units import MEGA

if TYPE_CHECKING:
    from planner.results.explanation import TechniqueAnswer
    from planner.results.plan import Assignment, DataPath


WORTH_A_LINE = 0.01
"""Share of storage or cores from which on a plan shows the data path; its JSON and `explain --technique` always do."""
NOTICED_HOURS = 1 / 60


def data_path(job: Assignment) -> list[str]:
    """Return the data path where it is worth a line: data are prepared, images, or a hundredth of storage or cores."""
    path = job.data_path
    if path is None:
        return []
    shares = (
        path.read_bytes_per_second / path.storage_bytes_per_second,
        (path.cores_used or 0.0) / path.cores,
        WORTH_A_LINE * (path.cores_used is None or "prepare data" in job.stage_hours),
    )
    return words.wrap_lines(data_path_text(path, job.name), line_room(), 2) if max(shares) >= WORTH_A_LINE else []


def data_path_text(path: DataPath, job: str) -> str:
    """Return what is read and used, and what caching or prefetching would bring."""
    rates = (words.significant(one / MEGA) for one in (path.read_bytes_per_second, path.storage_bytes_per_second))
    text = "reads {} of {} MB/s".format(*rates)
    if path.cores_used is not None:
        about = "" if path.cores_known else " (assumed)"
        text += f", {words.significant(path.cores_used)} of {path.cores:g} cores{about} if tokenised on the way"
    if path.saved_hours >= NOTICED_HOURS:
        return f"{text}: faster storage or a cache would save {words.hours(path.saved_hours)}"
    if path.latents_saved_hours >= NOTICED_HOURS:
        saved = words.hours(path.latents_saved_hours)
        return f"{text}; cached latents would save about {saved}: --set jobs.{job}.techniques.latents=cached"
    return f"{text}: faster storage, caching or prefetching would save no time"


def export(job: Assignment) -> list[str]:
    """Return what leaves and where it is made; nothing where the result is sent as it was trained."""
    made = job.export
    if made is None or made.format == "adapters":
        return []
    kind = "16-bit weights" if made.bits is None else f"{made.format} of {made.bits} bits"
    where = f", made at {words.sanitise(made.offer)}" if made.offer else ""
    needs = f"; merging needs {made.ram_gb:,.0f} GB of RAM" if made.ram_gb else ""
    known = "" if made.ram_known or not made.ram_gb else " (unknown here)"
    return words.wrap_lines(f"{kind}, {words.significant(made.gb)} GB{where}{needs}{known}", line_room(), 2)


# The answer of `explain --technique` as text.


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

"""A plan as text: the verdict first, at most 25 lines of 80 columns for one job."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from planner.report import bill as billing
from planner.report import format as words
from planner.report import plan_sections as parts
from planner.report.infeasible import render_infeasible
from planner.report.plan_sections import ROOM

if TYPE_CHECKING:
    from planner.results.plan import Assignment, Plan

LINES = 25
"""Most lines of the text of a plan for one job."""

NOTE_LINES = 3
"""Most lines of one remark."""

MORE_LINES = 10
"""Lines more where a job has stages, trials or a commitment to tell of."""

BOLD, DIM, PLAIN = "\033[1m", "\033[36m", "\033[0m"


def render(plan: Plan, color: bool = False) -> str:
    """The text of a plan, without a final newline; `color` marks the verdict and the labels."""
    if plan.status in ("infeasible", "no_plan") or not plan.jobs:
        lines = render_infeasible(plan)
    elif len(plan.jobs) == 1:
        lines = _single(plan)
    else:
        lines = _joint(plan)
    return "\n".join(colorize(lines) if color else lines)


def _single(plan: Plan) -> list[str]:
    """The sections of one job; the bill and the warnings get the lines that the others leave."""
    job = plan.jobs[0]
    verdict = _summary_line(plan.scenario, *(f"{said}, {parts.format_optimality(plan)}" for said in _headlines(job)))
    above = [
        *words.section("Train", parts.train(job)),
        *words.section("Memory", parts.memory(job)),
        *words.section("Speed", parts.speed(job)),
        *words.section("Time", parts.time(job)),
        *words.section("Spot", parts.spot(job)),
        *words.section("Term", parts.commitment(job)),
    ]
    below = [
        *words.section("Methods", parts.methods(job)),
        *words.section("Next", parts.format_alternatives(job)),
        *words.section("Limits", [*([sure] if (sure := parts.budget(plan)) else []), *parts.limits(job)]),
        *words.section("Prices", parts.prices(job)),
    ]
    told = tuple(dict.fromkeys((*job.notes, *plan.warnings)))
    most = LINES + MORE_LINES * bool(job.stage_hours or job.trials > 1 or job.commitment or job.spot)
    room = most - 1 - len(above) - len(below) - bool(told)
    bill = words.section("Bill", billing.bill(job, max(3, room)))
    remarks = warnings(told, most - 1 - len(above) - len(bill) - len(below))
    spare = most - 1 - len(above) - len(bill) - len(below) - len(remarks)
    first, second = [""] * (spare > 0), [""] * (spare > 1)  # space is for those who can afford it
    return [verdict, *first, *above, *bill, *second, *below, *remarks]


SHORT_NAME = 24
"""A name up to this length is never cut for the sake of the place."""


def _joint(plan: Plan) -> list[str]:
    """Several jobs: what they cost together, a block each, and the joint bill; as much as the lines allow."""
    for detail in (6, 4, 3, 2):
        lines = _joint_lines(plan, detail)
        if len(lines) <= LINES:
            return lines
    return _joint_lines(plan, 1)


def _joint_lines(plan: Plan, detail: int) -> list[str]:
    """The joint text with blocks of at most `detail` lines; below 6 the bill is left to the blocks' headlines."""
    full = detail == 6
    figures = []
    if plan.hours is not None:
        figures.append(words.hours(plan.hours.expected))
    if plan.cost_usd is not None:
        figures.append(words.usd(plan.cost_usd.expected))
    lines = [
        _summary_line(plan.scenario, ", ".join((f"{len(plan.jobs)} jobs", *figures, parts.format_optimality(plan))))
    ]
    for job in plan.jobs:
        lines += [*[""] * full, *_block(job)[:detail]]
    binding = "; ".join(f"{job.name}: {', '.join(job.binding)}" for job in plan.jobs if job.binding)
    ages = dict.fromkeys(parts.prices(job)[0] for job in plan.jobs)
    lines += ["", *words.section("Bill", _joint_bill(plan) if full else _joint_bill(plan)[-1:])]
    sure = parts.budget(plan)
    binds = words.wrap_lines(binding or "none binds a job alone", ROOM, 2)
    lines += words.section("Limits", [*([sure] if sure else []), *binds])
    lines += words.section("Prices", list(ages)[:2])
    return [*lines, *warnings(_joint_notes(plan), 4 if full else 3)]


def _joint_notes(plan: Plan) -> tuple[str, ...]:
    """What holds for the plan, remarks that hold for every job once, and those of some jobs under their names."""
    shared = set.intersection(*(set(job.notes) for job in plan.jobs))
    own = [f"{job.name}: {note}" for job in plan.jobs for note in job.notes if note not in shared]
    told = {note for job in plan.jobs for note in job.notes}
    common = [note for note in plan.jobs[0].notes if note in shared]
    rest = [note for note in plan.warnings if note not in told]
    return tuple(dict.fromkeys((*rest, *common, *own)))


def _block(job: Assignment) -> list[str]:
    """One of several jobs, in at most six lines."""
    vram = job.vram_gib
    fit = f"{words.gib(vram.peak)} of {words.gib(vram.usable)} GiB"
    sure = f"; {holds}" if (holds := parts.format_job_deadline(job)) else ""
    interval = words.between(job.hours.low, job.hours.high)
    lines = [
        *words.wrap_lines(parts.techniques(job, brief=True), ROOM, 1),
        *([words.shorten(made, ROOM)] if (made := parts.batch(job)) else []),
        words.shorten(f"{fit}; {parts.rate(job)}" if job.gpus else parts.rate(job), ROOM),
        words.shorten(f"{interval}{sure}", ROOM),
        *(words.wrap_lines(parts.methods_brief(job), ROOM, 1) if job.ladder else []),
    ]
    verdict = _summary_line(job.name, *_headlines(job), width=words.WIDTH - 2)
    return [f"  {verdict}", *(" " * words.LABEL + line for line in lines)]


def _joint_bill(plan: Plan) -> list[str]:
    """One line per job and the total."""
    rows = [(job.name, parts.format_place(job), words.usd(job.cost_usd)) for job in plan.jobs]
    if plan.cost_usd is not None:
        spread = f"({words.usd_between(plan.cost_usd.low, plan.cost_usd.high)})"
        rows.append(("total", spread, words.usd(plan.cost_usd.expected)))
    return [
        f"{words.shorten(words.sanitise(name), 19):<20}{words.shorten(how, 34):<35}{amount.replace('$', ''):>13}"
        for name, how, amount in rows
    ]


def _headlines(job: Assignment) -> tuple[str, str, str, str]:
    """Hardware, place, hours and dollars; then without the region, without the market, without the place."""
    figures = f", {words.hours(job.hours.expected)}, {words.usd(job.cost_usd)}"
    rest = f", {parts.format_market(job.spot_share, job.tier)}{figures}"
    short = parts.format_place(job, with_region=False)
    least = words.sanitise(parts.machines_of_all(job))
    return parts.format_place(job) + rest, short + rest, short + figures, f"{least}{figures}"


def _summary_line(name: str, *said: str, width: int = words.WIDTH) -> str:
    """`name: said` in the first wording that fits; if none does, the name gives way and then the hardware.

    Hours, dollars and proof stand at the end and are never cut.
    """
    name = words.sanitise(name)
    # A short name is worth more than market and place, which stand below; a long one gives way itself.
    wordings = said if len(name) <= SHORT_NAME else said[:2]
    for wording in wordings:
        if len(name) + len(wording) + 2 <= width:
            return f"{name}: {wording}"
    shortest = wordings[-1]
    name = words.shorten(name, max(12, width - len(shortest) - 2))
    over = len(name) + 2 + len(shortest) - width
    if over > 0:
        what, comma, rest = shortest.partition(", ")
        shortest = words.shorten(what, max(3, len(what) - over)) + comma + rest
    return f"{name}: {shortest}"


def warnings(told: tuple[str, ...], room: int) -> list[str]:
    """Remarks in at most `room` lines, each in full or not at all; the last line says how many are left out."""
    lines: list[str] = []
    left = list(told)
    while left:
        wrapped = words.wrap_lines(left[0], ROOM, NOTE_LINES)
        if len(lines) + len(wrapped) + (len(left) > 1) > room:
            break
        lines += wrapped
        left.pop(0)
    if left:
        more = f" ({len(left) - 1} more: --json)" if len(left) > 1 else ""
        short = next((one for one in left if len(one) + len(more) <= ROOM), None)
        counted = f"{len(left)} {'more' if lines else 'remarks'}: --json"
        lines.append(f"{words.sanitise(short)}{more}" if short else counted)
    return words.section("Notes", lines)


def colorize(lines: list[str]) -> list[str]:
    """The first line bold, the section labels in colour."""
    rest = [re.sub(r"^(  )([A-Z][a-z]+)", rf"\1{DIM}\2{PLAIN}", line) for line in lines[1:]]
    return [f"{BOLD}{lines[0]}{PLAIN}", *rest]

"""A job of reinforcement learning in the report, in pictures and on the page: figures, key figures, what changed."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from planner.analysis.overview import TORNADO, job_tasks, run_tasks
from planner.drawing.charts import Lane, Ranged, Stack, Stretch, lanes, ranged, stacked
from planner.drawing.scene import Caption, Scene, headed
from planner.library.reading import read_library
from planner.reinforcement.rl_chain import ChainSearch
from planner.reinforcement.rl_chain_questions import explain_times_and_dollars, frontier_of_chain
from planner.reinforcement.rl_choice import frontier_of_rl, searched
from planner.reinforcement.rl_reasons import explain_rl
from planner.reinforcement.rl_text import risk_lines, rl_sections, waiting_words
from planner.report import plan_text, report_page, words
from planner.report.frontier_figure import frontier_figure
from planner.report.plan_figures import PICTURE, Figure, Table, alternative_figures, bill_figure
from planner.report.plan_sections import format_place
from planner.report.report_page import SECTION_NAMES, Group, analysis_groups, deadline_of
from planner.report.what_if_text import format_difference, shown_difference
from planner.results.subject_runs import RL_PHASE_NAMES, SAMPLING_PHASES, TRAINER_PHASES, RlRun
from planner.results.what_if import Overview
from planner.scenario.scenario import architectures_of
from planner.solving.solve import solve

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from planner.library.schema import Library
    from planner.results.plan import Assignment, Plan
    from planner.results.what_if import Section
    from planner.scenario.scenario import Scenario, SolveOptions

Row = tuple[str, ...]

# The step as a strip of phases: a lane for each side.


PHASE_ROLES = {
    **{"rollout": "c2", "own_reward": "c4", "reward": "c4", "log_probabilities": "c5", "training": "c0"},
    **{"new_weights": "c3", "fixed": "c6"},
}
"""Colours of the phases; the rollout has that of spot, the training that of what is rented by the hour."""
SIDE_WAITS = "soft"


def step_figure(run: RlRun, key: str = "step") -> Figure:
    """Return the phases of a step on a line of seconds: a lane where all GPUs do both, else one for each side."""
    seconds = {name: value for name, value in run.phases.items() if value > 0}
    rows = [Lane(label, tuple(stretches)) for label, stretches in _lanes(run, seconds)]
    lead = f"{words.significant(run.step_seconds)} s a step; {waiting_words(run.overlapped, run.idle, run.idle_share)}"
    legend = [(f"{RL_PHASE_NAMES[name]} {_seconds(value)}", PHASE_ROLES[name]) for name, value in seconds.items()]
    waits = any(stretch.role == SIDE_WAITS for row in rows for stretch in row.stretches)
    legend += [(f"{run.idle or 'one side'} waits", SIDE_WAITS)] if waits else []
    draw = functools.partial(lanes, rows, (), legend, Caption("A step", lead, "seconds of a step"))
    table = [(RL_PHASE_NAMES[name], _seconds(value)) for name, value in seconds.items()]
    table.append(("from one step to the next", _seconds(run.step_seconds)))
    return Figure(key, "A step", f"{lead}.", draw, Table(("phase", "takes"), tuple(table)))


def _seconds(value: float) -> str:
    return f"{words.significant(value)} s"


def _lanes(run: RlRun, seconds: dict[str, float]) -> list[tuple[str, list[Stretch]]]:
    """Return the sides with their stretches: both take part in new weights, and wait for each other before."""
    sampling, training, both = SAMPLING_PHASES, TRAINER_PHASES, ("new_weights", "fixed")
    if run.placement == "colocated":
        return [("all GPUs", _one_by_one(0.0, (*sampling, *training, *both), seconds))]
    sampled = sum(seconds.get(name, 0.0) for name in sampling)
    trained = sum(seconds.get(name, 0.0) for name in training)
    begins = 0.0 if run.overlapped else sampled
    end = max(sampled, begins + trained)
    sides = {
        f"engines, {words.gpus(run.rollout_gpus, run.pools[-1].gpu)}": (0.0, sampling),
        f"trainer, {words.gpus(run.training_gpus, run.gpu)}": (begins, training),
    }
    lanes = []
    for label, (start, names) in sides.items():
        work = _one_by_one(start, names, seconds)
        waits = [(0.0, start), (work[-1].end, end)]
        idle = [
            Stretch(low, high, SIDE_WAITS, "", f"waits {_seconds(high - low)}") for low, high in waits if high > low
        ]
        lanes.append((words.sanitise(label), [*idle, *work, *_one_by_one(end, both, seconds)]))
    return lanes


def _one_by_one(start: float, names: tuple[str, ...], seconds: dict[str, float]) -> list[Stretch]:
    """Return phases one after the other from a second on."""
    stretches = []
    for name in names:
        if name in seconds:
            text = RL_PHASE_NAMES[name]
            end = start + seconds[name]
            stretches.append(Stretch(start, end, PHASE_ROLES[name], text, f"{text}: {_seconds(seconds[name])}"))
            start = end
    return stretches


def step_scenes(plan: Plan) -> list[Scene]:
    """Return the step of each job, named where anything else is planned."""
    figures = [(run, step_figure(run).draw) for run in plan.reinforcement]
    alone = len(plan.planned) == 1
    return [draw(PICTURE) if alone else headed(draw(PICTURE), _name(run)) for run, draw in figures if draw is not None]


def _name(run: Assignment | RlRun) -> str:
    return words.sanitise(run.name)


# Other figures of a run.


def turns_figure(plan: Plan) -> Figure:
    """Return the jobs of a chain, each from its start to its end at its confidence, on a line of hours."""
    every: list[Assignment | RlRun] = [*plan.jobs, *plan.reinforcement]
    jobs = sorted(every, key=lambda job: job.start_at_hours)
    rows, table = list[Lane](), list[Row]()
    for job in jobs:
        role = PHASE_ROLES["rollout" if isinstance(job, RlRun) else "training"]
        took = f"{words.plain_number(job.start_at_hours)} to {words.plain_number(job.finish_hours)} h"
        due = () if job.deadline_hours is None else (job.deadline_hours,)
        stretch = Stretch(job.start_at_hours, job.finish_hours, role, "", f"{_name(job)}: {took}")
        rows.append(Lane(_name(job), (stretch,), due))
        machines = words.sanitise(job.described if isinstance(job, RlRun) else format_place(job))
        table.append((_name(job), machines, took, words.usd(job.cost_usd)))
    lead = (
        f"{len(jobs)} jobs one after the other; the last one ends by hour {words.plain_number(jobs[-1].finish_hours)}"
    )
    legend = [("training", PHASE_ROLES["training"]), ("reinforcement learning", PHASE_ROLES["rollout"])]
    caption = Caption("Timetable", lead, "at the confidence of each job, hours")
    draw = functools.partial(lanes, rows, (), legend, caption)
    return Figure("turns", "Timetable", f"{lead}.", draw, Table(("job", "machines", "hours", "cost"), tuple(table)))


def ways_figure(run: RlRun, key: str = "ways") -> Figure | None:
    """Return the best way of each kind with what it costs; None where there is the plan alone."""
    if len(run.ways) < 2:
        return None
    bars = [
        Ranged(
            way.label,
            way.cost_usd,
            f"{words.usd(way.cost_usd)}, {words.by(way.hours_at_confidence)}",
            is_chosen=way.label == "plan",
        )
        for way in run.ways
    ]
    rows = [
        (
            way.label, words.sanitise(way.machines), f"${way.usd_per_hour:,.2f}", words.usd(way.cost_usd),
            words.hours_by(way.hours_at_confidence), _seconds(way.step_seconds), words.sanitise(way.how),
        )
        for way in run.ways
    ]  # fmt: skip
    lead = f"The best way of each kind within the limits; the plan is {words.sanitise(run.described)}"
    head = ("way", "GPUs", "an hour", "cost", "by", "step", "how")
    draw = functools.partial(ranged, bars, Caption("Ways", lead))
    return Figure(key, "Ways", f"{lead}.", draw, Table(head, tuple(rows)))


def memory_figure(run: RlRun, key: str = "memory") -> Figure:
    """Return the memory of one GPU in each phase by part, against what is usable."""
    stacks = [
        Stack(
            f"{phase.phase}, {words.sanitise(phase.gpu)}",
            tuple((_part(name), size) for name, size in phase.parts.items() if size >= LEAST_GIB),
            f"{words.gib(phase.peak)} of {words.gib(phase.usable)} GiB",
            phase.usable,
        )
        for phase in run.memory
    ]
    rows = [
        (phase.phase, name, f"{words.gib(size)} GiB")
        for phase in run.memory
        for name, size in [
            *((_part(name), size) for name, size in phase.parts.items() if size >= LEAST_GIB),
            ("needed", phase.peak),
            (f"usable on {words.sanitise(phase.gpu)}", phase.usable),
        ]
    ]
    lead = "; ".join(f"{stack.label}: {stack.words}" for stack in stacks)
    caption = Caption("Memory of one GPU", lead)
    draw = functools.partial(stacked, stacks, caption, words.gib_text, "usable memory of the GPU", has_sums=False)
    return Figure(key, caption.title, f"{lead}.", draw, Table(("phase", "part", "size"), tuple(rows)))


LEAST_GIB = 0.05
"""GiB below which a part of the memory is not shown."""


def _part(name: str) -> str:
    return words.sanitise(name.replace("_", " "))


def changes_figure(run: RlRun, key: str = "changes") -> Figure | None:
    """Return the dollars of 100 steps with one change of the work on the same machines; None without any."""
    if not run.changes:
        return None
    planned = "as planned"
    changes = {planned: run.usd_per_100_steps, **run.changes}
    known = {change: usd for change, usd in changes.items() if usd is not None}
    bars = [Ranged(change, usd, words.usd(usd), is_chosen=change == planned) for change, usd in known.items()]
    rows = tuple((change, "does not fit" if usd is None else words.usd(usd)) for change, usd in changes.items())
    lead = f"{words.usd(run.usd_per_100_steps)} for each 100 steps; each change alone, on the same machines"
    title = "Dollars of 100 steps with other work"
    draw = functools.partial(ranged, bars, Caption(title, lead))
    return Figure(key, title, f"{lead}.", draw, Table(("work", "100 steps"), rows))


def assumptions(plan: Plan) -> Table:
    """Return what the figures rest on, with source and age."""
    rows: dict[Row, None] = {}
    for run in plan.reinforcement:
        age = "unknown age" if run.price_age_days is None else f"{run.price_age_days:,} days old at most"
        source = ", ".join(part for part in (run.price_source, run.price_date, age) if part)
        rows["; ".join(f"price of {pool.offer}" for pool in run.pools), "as offered", source] = None
        error = f"within {words.percent(run.sigma)} in 68 of 100 cases"
        rows[f"seconds of a step of {run.name}", error, "published steps around the formulas, a prior"] = None
        for pool in run.pools:
            if pool.market == "spot":
                share = f"machines are there {words.percent(pool.availability)} of the time"
                rows[f"spot market of {pool.offer}", share, "stated by the offer, or the prior"] = None
        for text in run.assumed:
            rows[text, "", "not in the scenario"] = None
        for note in run.notes:
            rows["note", note, ""] = None
    cells = [tuple(map(words.sanitise, row)) for row in rows]
    versions = plan.inputs.versions if plan.inputs else {}
    if versions:
        cells.append(("versions", words.sanitise(", ".join(" ".join(pair) for pair in versions.items())), ""))
    cells.append(("ages counted to", plan.as_of, f"solver {plan.solver}"))
    return Table(("assumption", "value", "source"), tuple(cells))


POINTS_OF_CHAIN = 8
"""Points of the curve of several jobs in a report: each is a search of about a second."""

OTHER_LIMITS = "what GPUs at one time, quotas and lists cost takes a search for each: planner explain"

# The report: its analyses, figures under their headings, key figures, reasons.


def overview_of_rl(
    scenario: Scenario,
    plan: Plan | None,
    options: SolveOptions,
    library: Library | None,
    wanted: Collection[Section] | None,
    runs: int | None,
    seed: int,
) -> Overview:
    """Return the plan and the analyses around it, without the tornado, whose searches take longer than all others."""
    given = plan is not None
    library = library or read_library([name for job in scenario.jobs for name in architectures_of(job)])
    in_chain = len(scenario.jobs) > 1
    plan = solve(scenario, options, library) if plan is None else plan
    if not plan.planned:
        return Overview(plan=plan, of_file=given)
    own: dict[str, Callable[[], object]]
    if in_chain:
        shared = ChainSearch(library, options)
        own = {
            "frontier": lambda: frontier_of_chain(scenario, shared, None, POINTS_OF_CHAIN),
            "reasons": lambda: explain_times_and_dollars(scenario, plan, shared),
        }
    else:
        search = functools.cache(lambda: searched(scenario, library))  # one for both questions
        own = {
            "frontier": lambda: frontier_of_rl(scenario, options, library, None, search()),
            "reasons": lambda: explain_rl(scenario, None, library, search()),
        }
    tasks = job_tasks(scenario, plan, options, library, runs, seed)
    tasks = [(name, field, own.get(name, ask)) for name, field, ask in tasks]
    left_out: dict[Section, str] = {"tornado": f"takes a search for every change: {TORNADO}"}
    if in_chain and plan.gap:  # on spot, where each search takes seconds
        left_out["reasons"] = "takes a search for every limit: planner explain"
    return Overview(plan=plan, of_file=given, **run_tasks(tasks, wanted, left_out))


def groups_of_rl(overview: Overview) -> list[Group]:
    """Return the figures of a report in their order."""
    plan, several = overview.plan, len(overview.plan.reinforcement) > 1
    if not plan.reinforcement:
        return []
    groups: list[Group] = []
    if len(plan.planned) > 1:
        turns = turns_figure(plan)
        groups.append(Group(turns.key, turns.title, (turns,)))
    for number, run in enumerate(plan.reinforcement):
        suffix, of = (f"-{number}", f" of {_name(run)}") if several else ("", "")
        own = (step_figure(run, f"step{suffix}"), ways_figure(run, f"ways{suffix}"))
        groups += [Group(figure.key, f"{figure.title}{of}", (figure,)) for figure in own if figure is not None]
    if overview.frontier is not None and overview.frontier.points:
        curve = frontier_figure(overview.frontier, deadline_of(plan))
        groups.append(Group("cost-time", SECTION_NAMES["frontier"], (curve,)))
    bill = bill_figure(plan)
    groups.append(Group(bill.key, bill.title, (bill,)))
    for number, run in enumerate(plan.reinforcement):
        suffix, of = (f"-{number}", f" of {_name(run)}") if several else ("", "")
        own = (memory_figure(run, f"memory{suffix}"), changes_figure(run, f"changes{suffix}"))
        groups += [Group(figure.key, f"{figure.title}{of}", (figure,)) for figure in own if figure is not None]
    others = alternative_figures(plan, overview.explanation)
    groups += [Group("alternatives", "Alternatives", tuple(others))] if others else []
    groups += analysis_groups(overview)
    lead = "What the figures rest on, with source and age."
    table = Figure("assumptions", "Assumptions", lead, None, assumptions(plan))
    return [*groups, Group("assumptions", "Assumptions", (table,))]


def tiles(plan: Plan) -> list[tuple[str, str, str]]:
    """Return the key figures: dollars, hours, dollars of 100 steps, seconds of a step."""
    if plan.cost is None or plan.hours is None:
        return []
    cost, hours = plan.cost, plan.hours
    by = "at the confidence asked for"
    deadline = deadline_of(plan)
    tiles_of_plan = [
        ("expected cost", words.usd(cost.expected), f"{words.usd_between(cost.low, cost.high)} with 80 % probability"),
        ("likely finish", words.hours(hours.expected), f"{words.between(hours.low, hours.high)} with 80 % probability"),
        (
            "ends by",
            words.hours(hours.at_confidence),
            by if deadline is None else f"{by}; deadline {words.hours(deadline)}",
        ),
    ]
    for run in plan.reinforcement:
        of = f", {_name(run)}" if len(plan.reinforcement) > 1 else ""
        tiles_of_plan.append((f"100 steps{of}", words.usd(run.usd_per_100_steps), f"{run.steps:,} steps in all"))
        waits = f"the {run.idle} waits {words.percent(run.idle_share)}" if run.idle else "no side waits"
        tiles_of_plan.append((f"a step{of}", _seconds(run.step_seconds), waits))
    return tiles_of_plan


def facts(plan: Plan) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the name of each job with the labels and texts of its sections."""
    with words.unwrapped():
        return [
            (_name(run), [(label, words.sanitise("; ".join(lines))) for label, lines in rl_sections(run) if lines])
            for run in plan.reinforcement
        ]


def reasons(overview: Overview) -> list[tuple[str, str]]:
    """Return how far the plan is proven, which limits bind, and what it is worth to relax them."""
    if not overview.plan.reinforcement:
        return []
    others, in_chain = report_page.reasons(overview.plan, overview.explanation), len(overview.plan.planned) > 1
    own = {"Proof", "Simple rule"} if in_chain else {"Proof"}  # a simple rule is one of the jobs around the runs
    kept = [("Proof", proof_of(overview.plan)), *(row for row in others if row[0] not in own)]
    return [*kept, ("Left out", OTHER_LIMITS)] if in_chain and overview.explanation is not None else kept


def proof_of(plan: Plan) -> str:
    """Return what was compared, and how far the plan is proven."""
    if plan.gap:
        return plan_text.proof_text(plan)
    return f"proven cheapest of {plan.candidates.made:,} ways"


# The page of `planner app`.


def chips(plan: Plan) -> list[tuple[str, str, str]]:
    """Return proof and risks in a few words: tone, text, and the whole sentence."""
    shown = [("attention", "not proven optimal", proof_of(plan))] if plan.gap else []
    shown = shown or [("good", "proven optimal", proof_of(plan))]
    risks = dict.fromkeys(risk for run in plan.reinforcement for risk in risk_lines(run))
    return shown + [("attention", words.shorten(risk.partition(":")[0], 30), words.sanitise(risk)) for risk in risks]


def compared(plan: Plan) -> list[tuple[str, str]]:
    """Return the rows of a pinned plan: names and figures."""
    cost, hours = plan.cost, plan.hours
    rows = [] if cost is None else [("cost", words.usd(cost.expected))]
    if hours is not None:
        rows += [("likely finish", words.hours(hours.expected)), ("ends by", words.hours(hours.at_confidence))]
    for run in plan.reinforcement:
        of = f" of {_name(run)}" if len(plan.reinforcement) > 1 else ""
        rows += [(f"machines{of}", words.sanitise(run.described)), (f"step{of}", _seconds(run.step_seconds))]
    return rows


def change_parts(before: Plan, after: Plan) -> dict[str, Any]:
    """Return the rows of what changed between two plans; there are no reasons of single settings."""
    old, new = (dict(compared(plan)) if plan.planned else {} for plan in (before, after))
    rows = [
        (name, old.get(name, "no plan"), new.get(name, "no plan"), _difference(name, before, after, old, new))
        for name in dict.fromkeys((*old, *new))
    ]
    return {"summary": "nothing changes" if old == new else "", "rows": rows, "reasons": []}


def _difference(name: str, before: Plan, after: Plan, old: dict[str, str], new: dict[str, str]) -> str:
    if old.get(name) == new.get(name):
        return ""
    if name == "cost" and before.cost is not None and after.cost is not None:
        return format_difference(shown_difference(before.cost.expected, after.cost.expected))
    return "changed"

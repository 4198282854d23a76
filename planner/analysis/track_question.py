"""A running job against its plan: when it will end, why that differs, and what to do with what is left."""

from __future__ import annotations

import datetime
import json
import math
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planner.analysis.log_files import read_history
from planner.analysis.logged_steps import LogHistory, group_micro_batches
from planner.analysis.run_progress import (
    BEFORE_STAGES,
    Progress,
    Projection,
    after_term_usd,
    budget_note,
    causes_of,
    end_of,
    hourly_usd,
    join_logs,
    observed_step_seconds,
    paid_share,
    planned_step_seconds,
    project,
    read_progress,
)
from planner.documents.quantities import parse_instant
from planner.documents.validation import MOST_NAMES, meant_name
from planner.errors import Fault, InputError
from planner.estimates.uncertainty import confidence_factor
from planner.evaluation.evaluate import AFTER_TERM, FIXED
from planner.library.technique_tables import read_techniques
from planner.loading.question import Asked, as_scenario
from planner.loading.scenario_file import parse_scenario
from planner.results.plan import Assignment, Plan, require_plan
from planner.results.plan_parts import Spread, describe_machines
from planner.results.run_results import Choice, ObservedProgress, PlannedProgress, Tracking
from planner.scenario.job import Job, Measured
from planner.scenario.limits import with_offers
from planner.scenario.naming import without_unoffered
from planner.scenario.offer import Offer, fee_items, offer_data
from planner.scenario.scenario import Scenario, SolveOptions, scenario_data
from planner.solving.solve import solve
from planner.subjects import check_named, check_supported, planner_of
from planner.units import GB, GIB, HOUR

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


# What to do with what is left of a run: stay on the machines at hand, or move to others.
#
# To stay costs no start: the hours left are observed ones, to which nothing is added (`measured: {hours}`), on an
# inventory of the one offer. To move is the scenario of what is left on all offers, with the observed speed and memory
# as an observed run, so that the estimates of other machines follow them. A job takes one candidate, so the better of
# the two optima is the optimum of both.


LEAST_HOURS = 0.01
"""What a deadline that is over is planned with: no plan keeps it, and the diagnosis says what would."""


def replan(
    tracked: Tracking,
    job: Assignment,
    scenario: Scenario,
    progress: Progress,
    projection: Projection,
    options: SolveOptions | None = None,
) -> Tracking:
    """Return the tracked job with what could be done now, the best first, and the plan of it.

    `scenario`: the offers to move to. `projection`: what is left on the machines at hand.
    """
    if progress.steps >= job.steps:
        return tracked.model_copy(update={"notes": (*tracked.notes, "all steps are done: nothing is left to plan")})
    left = _left(tracked, job, scenario, progress)
    stay, move = (
        _stay(left, job, scenario, tracked, projection, options),
        _move(left, job, scenario, tracked, progress, options),
    )
    choices: list[tuple[Choice, Plan]] = [(_staying(tracked, job, projection), stay)]
    notes = ["the running term is not paid again"] if job.tier == "committed" else []
    if move.jobs:
        choices.append((_moving(move, job), move))
    else:
        notes.append(f"no machines to move to: {move.status}")
    notes += own_offers_note(scenario, {job.offer})
    wanted, tie = tracked.planned.confidence, scenario.near_tie_usd(projection.left_usd)
    choices.sort(key=lambda choice: rank_choice(choice[0], wanted, tie))
    return tracked.model_copy(
        update={
            "choices": tuple(choice for choice, _ in choices),
            "replan": choices[0][1],
            "notes": (*tracked.notes, *notes),
        }
    )


def own_offers_note(scenario: Scenario, named: Collection[str]) -> list[str]:
    """Return what is said where there is nothing to move to but the offers that the plan names, by their labels."""
    if any(label not in named for label, _ in scenario.labelled_offers()):
        return []
    return ["only the machines of the plan were compared: --scenario FILE has others to move to"]


def rank_choice(choice: Choice, confidence: float, tie_usd: float) -> tuple[bool, float]:
    """Return the order of choices: those in time by dollars, then the others by how likely they are in time.

    To move must save more than a near tie of plans: it is work, and the start may fail.
    """
    chance = 1.0 if choice.deadline_probability is None else choice.deadline_probability
    late = chance < confidence
    return late, -chance if late else choice.cost_usd + (0.0 if choice.what == "stay" else tie_usd)


def _left(tracked: Tracking, job: Assignment, scenario: Scenario, progress: Progress) -> dict[str, Any]:
    """Return the scenario of the steps, hours and dollars that are left, as data without offers."""
    data = scenario_data(scenario)
    data.pop("inventory", None)
    data.pop("now", None)
    data.get("limits", {}).pop("fallbacks", None)  # the machine was had
    job_data: dict[str, Any] = next(entry for entry in data["jobs"] if entry["name"] == job.name)
    kept = {
        key: value
        for key, value in job_data["work"].items()
        if key in ("tokens_per_sample", "lengths", "resolution", "frames")
    }
    before = job.steps_before + progress.steps
    job_data["work"] = {**kept, "steps": job.steps - progress.steps, "steps_before": before}
    for key in ("after", "release", "due", "late_usd_per_hour", "start_slack"):
        job_data.pop(key, None)
    if job.deadline_hours is not None:
        job_data["deadline"] = f"{max(LEAST_HOURS, job.deadline_hours - tracked.observed.elapsed_hours)}h"
    stages = job_data.get("stages", {})
    stages.pop("ingest", None)
    if "checkpoints" in stages:
        share = 1.0 - progress.steps / job.steps
        count = max(1, round(share * stages["checkpoints"]["count"]))
        keep = min(count, stages["checkpoints"].get("keep", 1))
        stages["checkpoints"] = {**stages["checkpoints"], "count": count, "keep": keep}
    data["jobs"] = [job_data]
    limits = data.get("limits", {})
    if limits.get("budget_usd") is not None:
        limits["budget_usd"] = max(0.01, limits["budget_usd"] - tracked.observed.spent_usd)
    if limits.get("outlay_usd") is not None:
        limits["outlay_usd"] = max(0.01, limits["outlay_usd"] - job.outlay_usd)
    return data


def _stay(
    left: dict[str, Any],
    job: Assignment,
    scenario: Scenario,
    tracked: Tracking,
    projection: Projection,
    options: SolveOptions | None,
) -> Plan:
    """Return the plan of what is left on the machines at hand, set up as they are, without a start."""
    used = job.techniques.model_dump()
    given = {name: [used[name]] for name in settings_of(job) if name not in ("framework", "micro_batch", "quant")}
    job_data = {**left["jobs"][0], "framework": job.framework or used["framework"]}
    job_data["techniques"] = {**job_data.get("techniques", {}), **given}
    if used["weight_bits"] == 4:
        job_data["techniques"]["quant"] = [used["quant"]]
    if job.spot_share <= 0:
        job_data["measured"] = [{"gpu": job.gpu, "gpus": job.gpus, "hours": projection.left_hours}]
        job_data["stages"] = {key: value for key, value in job_data.get("stages", {}).items() if key == "export"}
    offers = [
        offer_data(
            offer.model_copy(update={"max_nodes": job.instances} | _paid_already(offer, job, tracked, projection))
        )
        for label, offer in scenario.labelled_offers()
        if label == job.offer
    ]
    limits = {**left.get("limits", {}), "max_gpus": job.gpus}
    limits |= {"spot_share": {"max": 0}} if job.spot_share <= 0 else {}
    return solve(read_with_offers({**left, "jobs": [job_data], "limits": limits}, offers), options)


def _paid_already(offer: Offer, job: Assignment, tracked: Tracking, projection: Projection) -> dict[str, Any]:
    """Return what of an offer changes for a run that is on it: a purchase and a term are not paid again.

    The hours of a bought machine cost what they did. A term has so many prepaid machine hours left. Where the run is
    expected to need more, an hour costs on average what those beyond the term cost.
    """
    if job.tier == "bought":
        return {"buy": None, "lead_hours": 0.0}
    if not offer.is_reservation:
        return {}
    paid = {"commitment": None, "block": None, "lead_hours": 0.0}
    needed, passed = job.instances * projection.left_hours, tracked.observed.elapsed_hours
    beyond = after_term_usd(job, passed, passed + projection.left_hours)
    if beyond > 0:
        return {**paid, "usd_per_hour": beyond / needed}
    term = job.commitment.term_hours if job.commitment is not None else job.instances * offer.term_hours
    late = needed * float(confidence_factor(projection.sigma, tracked.planned.confidence))
    left = max(term - job.instances * passed, late, LEAST_HOURS)
    return {**paid, "usd_per_hour": None, "committed_hours": left}


def _move(
    left: dict[str, Any],
    job: Assignment,
    scenario: Scenario,
    tracked: Tracking,
    progress: Progress,
    options: SolveOptions | None,
) -> Plan:
    """Return the plan of what is left on other machines, with the run so far as an observed one.

    Where the machines at hand, started again, are the best, their offer is left out.
    """
    run = _observed_run(job, tracked, progress)
    job_data = left["jobs"][0]
    measured = [*job_data.get("measured", []), *([run] if run else [])]
    data = {**left, "jobs": [{**job_data, "measured": measured}]}
    plan = solve(read_with_offers(data, list(map(offer_data, scenario.offers))), options)
    if not plan.jobs or (plan.jobs[0].offer, plan.jobs[0].gpus) != (job.offer, job.gpus):
        return plan
    others = [offer for label, offer in scenario.offers_as_read() if label != job.offer]
    if not any(offer.rents_gpus for offer in others):
        return plan
    return solve(read_with_offers(data, list(map(offer_data, others))), options)


def read_with_offers(data: dict[str, Any], offers: Sequence[dict[str, Any]]) -> Scenario:
    """Return a scenario given as data, on these offers alone."""
    data = without_unoffered(data, offers)
    return parse_scenario(json.dumps(with_offers(data, offers)), file=str(data["name"]))


def settings_of(job: Assignment) -> list[str]:
    """Return the techniques of a plan that an observed run can state."""
    known = {"framework", *Measured.model_fields}
    used = job.techniques.model_dump()
    return [name for name in used if name in known and name != "accumulation_steps" and used[name] is not None]


def entry_of(job: Assignment) -> dict[str, Any]:
    """Return how a planned run is set up, as an entry of `measured` without what was observed."""
    used = job.techniques.model_dump()
    run: dict[str, Any] = {name: used[name] for name in settings_of(job)}
    if used["weight_bits"] != 4:
        run.pop("quant", None)
    return run | {
        "gpu": job.gpu,
        "gpus": job.gpus,
        "instances": job.instances,
        "framework": job.framework or used["framework"],
    }


def _observed_run(job: Assignment, tracked: Tracking, progress: Progress) -> dict[str, Any] | None:
    """Return the run so far as an entry of `measured`; None where neither speed nor memory was observed."""
    run = entry_of(job)
    seconds = observed_step_seconds(job, progress)
    peak = tracked.observed.peak_vram_gib
    if seconds is not None:
        stops = planned_step_seconds(job) - job.step_seconds
        run["tokens_per_second"] = job.tokens_per_step / max(seconds - stops, 0.1 * seconds)
    if peak is not None:
        run |= {"peak_vram_gib": peak, "peak_kind": tracked.observed.peak_kind}
    return run if seconds is not None or peak is not None else None


def _staying(tracked: Tracking, job: Assignment, projection: Projection) -> Choice:
    end, passed = tracked.projected, tracked.observed.elapsed_hours
    hours = {key: getattr(end.hours, key) - passed for key in Spread.model_fields}
    return Choice(
        what="stay",
        machines=describe_machines(job.gpus, job.gpu),
        provider=job.provider,
        cost_usd=projection.left_usd,
        hours=Spread(**hours),
        deadline_probability=end.deadline_probability,
    )


def _moving(plan: Plan, before: Assignment) -> Choice:
    job = plan.jobs[0]
    return Choice(
        what="restart" if (job.offer, job.gpus) == (before.offer, before.gpus) else "move",
        machines=describe_machines(job.gpus, job.gpu),
        provider=job.provider,
        cost_usd=job.cost_usd + _checkpoint_usd(before),
        hours=Spread(expected=job.hours.expected, low=job.hours.low, high=job.hours.high),
        deadline_probability=job.deadline_probability,
    )


def _checkpoint_usd(job: Assignment) -> float:
    """Return the dollars to take the last checkpoint out: trained weights and optimizer, at the price of the result."""
    rate = math.fsum(line.rate_usd or 0.0 for line in job.bill if line.item in fee_items("GB out"))
    parts = job.vram_gib.parts
    trained = parts.get("adapters" if job.techniques.method == "lora" else "weights", 0.0)
    stage = read_techniques().values.sharding.values[job.techniques.sharding].zero_stage
    whole = trained * (job.gpus if stage == 3 else 1) + parts.get("optimizer", 0.0) * (job.gpus if stage else 1)
    return rate * whole * GIB / GB


# A running job against its plan: what its logs say, when it will end, and why that differs.


TOKENS_SLACK = 1.05
"""Ratio of logged to planned tokens of a step beyond which the log is of another run: counts may include padding."""


@dataclass(frozen=True)
class Stated:
    """What only the user knows of a run."""

    started: str | None = None
    """Day and time at which the machines were ordered; without it the start takes as long as planned."""
    spent_usd: float | None = None
    """Without it the prices of the plan hold."""
    now: str | None = None
    """Day and time up to which the hours count; without it they count up to the last logged step."""


def track(
    plan: Plan,
    scenario: Asked,
    logs: Sequence[str],
    job: str | None = None,
    stated: Stated | None = None,
    market: Scenario | None = None,
    options: SolveOptions | None = None,
) -> Tracking:
    r"""Return a running job of a plan against what was planned.

    `scenario`: what the plan was made from. `logs`: paths of the logs of one run, of all of its attempts.
    `market`: plan what is left anew, on the offers of this scenario; without it nothing is planned.
    Raises `InputError` for logs that say nothing that can be used, or that cannot be of this job.

    >>> plan = planner.solve("quickstart")
    >>> log = "step,elapsed_seconds\n" + "".join(f"{step},{20 * step}\n" for step in range(1, 101))
    >>> _ = Path("steps.csv").write_text(log)
    >>> found = planner.track(plan, planner.plan_scenario(plan), ["steps.csv"])
    >>> round(found.observed.share_done, 2) == round(100 / plan.jobs[0].steps, 2)
    True
    """
    require_plan(plan)
    scenario = as_scenario(scenario)
    stated = stated or Stated()
    check_named(plan, job)
    subject = next((planner_of(part) for part in plan.planned if job in (None, part.name)), None)
    if subject is not None or not plan.jobs:
        check_supported(scenario, "track")
    if subject is not None:
        return subject.track(plan, scenario, logs, job, stated, market, options)
    chosen, asked = _job_of(plan, scenario, job)
    read = [read_history(path) for path in logs]
    log = _without_extra_step(_since(_of_steps(join_logs(read), chosen), chosen.steps_before), chosen.steps)
    progress = read_progress(log)
    notes = [*progress.remarks, *_doubts(log, chosen, progress)]
    before = chosen.start_hours + math.fsum(chosen.stage_hours.get(name, 0.0) for name in BEFORE_STAGES)
    elapsed = elapsed_hours(before, progress.run_hours, progress.last_clock, log.file, stated, notes)
    projection = project(chosen, progress)
    projection = replace(
        projection, left_usd=projection.left_usd + after_term_usd(chosen, elapsed, elapsed + projection.left_hours)
    )
    spent = _spent_usd(chosen, progress, elapsed) if stated.spent_usd is None else stated.spent_usd
    end = end_of(chosen, projection, elapsed, spent, asked.confidence)
    observed = _observed(chosen, progress, read, elapsed, spent).model_copy(
        update={"spent_is_given": stated.spent_usd is not None}
    )
    notes += _remarks(chosen, asked, scenario, progress, observed, projection)
    tracked = Tracking(
        scenario=plan.scenario,
        job=chosen.name,
        logs=tuple(f"{run_log.file} ({run_log.kind})" for run_log in read),
        observed=observed,
        planned=_planned(chosen, asked, scenario),
        projected=end,
        causes=causes_of(chosen, progress, projection, elapsed, end),
        notes=tuple(dict.fromkeys(notes)),
    )
    if market is None:
        return tracked

    return replan(tracked, chosen, market, progress, projection, options)


def _job_of(plan: Plan, scenario: Scenario, name: str | None) -> tuple[Assignment, Job]:
    """Return the job that is tracked; `InputError` where it is not clear which, or where there is none to track."""
    job, asked = job_on_machines(plan, scenario, name)
    if job.trials > 1:
        problem = f"the plan has {job.trials} trials of this run"
        fix = "track a plan of one run: --set jobs.NAME.trials=1"
        raise InputError([Fault("plan", 0, f"jobs.{job.name}", problem, fix)])
    return job, asked


def job_on_machines(plan: Plan, scenario: Scenario, name: str | None) -> tuple[Assignment, Job]:
    """Return the job of a plan that is meant, and as it was asked; `InputError` where none runs, or several may be."""
    names = [planned_job.name for planned_job in plan.jobs]
    if not plan.jobs:
        raise InputError([Fault("plan", 0, "jobs", f"nothing runs: the plan is {plan.status}", "give one with jobs")])
    name = name if name is None else meant_name(name, names, "--job", "the plan has no job")
    jobs = [planned_job for planned_job in plan.jobs if name in (None, planned_job.name)]
    if len(jobs) != 1:
        fix = f"name one, such as {' or '.join(names[:MOST_NAMES])}"
        raise InputError([Fault("--job", 0, "", f"{len(plan.jobs)} jobs", fix)])
    (job,) = jobs
    asked = next((scenario_job for scenario_job in scenario.jobs if scenario_job.name == job.name), None)
    where = f"jobs.{job.name}"
    if asked is None:
        raise InputError([Fault("plan", 0, "inputs", f"the scenario has no job {job.name}", "solve it again")])
    if not job.gpus or job.step_seconds <= 0:
        problem = "it has no steps on machines: a managed service trains it, or it answers prompts"
        raise InputError([Fault("plan", 0, where, problem, "give a plan that trains on machines")])
    return job, asked


def _of_steps(log: LogHistory, job: Assignment) -> LogHistory:
    """Return a log of optimizer steps with their seconds: what the log lacks for that is taken from the plan."""
    remarks, points, tokens = list(log.remarks), log.points, log.tokens_per_step
    if log.counts_micro_batches:
        per_step = job.techniques.accumulation_steps
        remarks.append(f"the log counts micro-batches: {per_step} make a step, as planned")
        points, tokens = tuple(group_micro_batches(points, per_step)), tokens * per_step if tokens else None
    if not any(point.is_timed or point.seconds is not None for point in points) and any(p.rate for p in points):
        planned = job.tokens_per_step
        remarks.append(f"the log states tokens per second alone: a step is the {planned:,.0f} tokens of the plan")
        points = tuple(
            replace(point, seconds=planned / (point.rate * job.gpus)) if point.rate else point for point in points
        )
    return replace(log, points=points, tokens_per_step=tokens, remarks=tuple(remarks))


def _since(log: LogHistory, before: int) -> LogHistory:
    """Return the log of the steps after those that were done before the plan, counted from there."""
    if not before:
        return log
    points = tuple(replace(point, step=point.step - before) for point in log.points if point.step > before)
    if not points:
        problem = f"ends at step {log.points[-1].step:,}, but the plan begins after step {before:,}"
        raise InputError([Fault(log.file, log.points[-1].line, "", problem, "give the log of the run that went on")])
    return replace(log, points=points, total_steps=log.total_steps - before if log.total_steps else None)


def _without_extra_step(log: LogHistory, steps: int) -> LogHistory:
    """Return the log of at most the planned steps: a trainer that goes on from its last step takes one more."""
    if not log.points or log.points[-1].step != steps + 1:
        return log
    *before, last = log.points
    points = before if before and before[-1].step == steps else [*before, replace(last, step=steps)]
    remark = f"the trainer went on from its last step and took one more, step {steps + 1:,}, which is left out"
    return replace(log, points=tuple(points), remarks=(*log.remarks, remark))


def _doubts(log: LogHistory, job: Assignment, progress: Progress) -> list[str]:
    """Return what speaks against a log being of this job; `InputError` where it cannot be."""
    if progress.steps > job.steps:
        problem = f"step {progress.steps:,}, but the plan has {job.steps:,}"
        raise InputError(
            [Fault(log.file, log.points[-1].line, "", problem, "give the log of this job, or its own plan")]
        )
    differences = []
    if log.total_steps is not None and log.total_steps != job.steps:
        differences.append(f"the log is of a run of {log.total_steps:,} steps, the plan has {job.steps:,}")
    if log.micro_batch is not None and log.micro_batch != job.techniques.micro_batch:
        differences.append(f"the log has micro-batch {log.micro_batch}, the plan {job.techniques.micro_batch}")
    if log.gpus is not None and log.gpus != job.gpus:
        differences.append(f"the log is of {log.gpus} GPUs, the plan has {job.gpus}")
    if log.global_batch is not None and log.global_batch != job.global_batch:
        differences.append(f"the log has global batch {log.global_batch:,}, the plan {job.global_batch:,}")
    answers = read_techniques().values.tuning[job.techniques.tuning].answers
    most = job.global_batch * answers * job.sequence_length
    if job.unit == "tokens" and log.tokens_per_step is not None and log.tokens_per_step > TOKENS_SLACK * most:
        differences.append(f"the log counts {log.tokens_per_step:,.0f} tokens per step, the plan at most {most:,}")
    return [f"{difference}: is it this job?" for difference in differences]


def elapsed_hours(
    before: float, ran: float | None, last_clock: float | None, file: str, stated: Stated, notes: list[str]
) -> float:
    """Return the hours since the machines were ordered, and add to the notes what is assumed of them.

    `before`: planned hours until the first step. `ran`: hours of the log. `last_clock`: that of its last step.
    """
    until = last_clock if stated.now is None else stated_moment(stated.now, "--now")
    if stated.started is None:
        if ran is None:
            fix = "give --started, the time at which the machines were ordered, or a log that times its steps"
            raise InputError([Fault(file, 1, "", "nothing says how long the run took", fix)])
        notes.append("the start is assumed to have taken as long as planned: the time of the order tells it")
        if until is not None and last_clock is not None:
            ran += max(0.0, until - last_clock) / HOUR
        return before + ran
    began = stated_moment(stated.started, "--started")
    if until is None:
        until = _modified(file)
        notes.append("the log has no clock times: its file's own time is that of the last step")
    if until < began:
        problem = "the machines were ordered after the last step of the log"
        raise InputError([Fault("--started", 0, "", problem, "check the day and the zone: 2026-11-25 09:00 UTC")])
    return (until - began) / HOUR


def stated_moment(text: str, option: str) -> float:
    """Return the seconds since 1970 of a day and time; `InputError`, which names the option, where it is none."""
    from pydantic_core import PydanticCustomError

    try:
        return parse_instant(text).timestamp()
    except PydanticCustomError as error:
        context = error.context or {}
        raise InputError([Fault(option, 0, "", context["what"], context["fix"])]) from None


def _modified(file: str) -> float:
    """Return when a file was written last; now for standard input."""
    try:
        return max(os.path.getmtime(path) for path in file.split(", "))
    except OSError:
        return datetime.datetime.now(datetime.UTC).timestamp()


def _spent_usd(job: Assignment, progress: Progress, elapsed: float) -> float:
    """Return the dollars spent at the prices of the plan."""
    fixed = math.fsum(line.usd for line in job.bill if line.item in FIXED - fee_items("GB out") - {AFTER_TERM})
    fixed += after_term_usd(job, 0.0, elapsed)
    if job.spot_share > 0:
        pace = observed_step_seconds(job, progress) or planned_step_seconds(job)
        return fixed + hourly_usd(job) * paid_share(job, (progress.steps + progress.repeated_steps) * pace / HOUR)
    return fixed + hourly_usd(job) * paid_share(job, elapsed)


def _observed(
    job: Assignment, progress: Progress, logs: Sequence[LogHistory], elapsed: float, spent: float
) -> ObservedProgress:
    pace, seconds = progress.pace, observed_step_seconds(job, progress)
    peaks = [(log.peak_gib, log.peak_kind) for log in logs if log.peak_gib is not None]
    peak, kind = max(peaks, default=(None, None))
    busy = [log.utilisation for log in logs if log.utilisation is not None]
    return ObservedProgress(
        steps=progress.steps,
        share_done=progress.steps / job.steps,
        step_seconds=seconds,
        step_spread=pace.spread if pace else None,
        timed_steps=pace.steps if pace else 0,
        warm_up_steps=pace.warm_up_steps if pace else 0,
        tokens_per_second=job.tokens_per_step / seconds if seconds else None,
        elapsed_hours=elapsed,
        standing_hours=progress.standing_hours,
        restarts=progress.attempts - 1,
        repeated_steps=progress.repeated_steps,
        peak_vram_gib=peak,
        peak_kind=kind,
        free_vram_gib=job.vram_gib.usable - peak if peak is not None else None,
        gpu_utilisation=math.fsum(busy) / len(busy) if busy else None,
        last_loss=progress.last_loss,
        spent_usd=spent,
        spent_is_given=False,
    )


def _planned(job: Assignment, asked: Job, scenario: Scenario) -> PlannedProgress:
    return PlannedProgress(
        steps=job.steps,
        step_seconds=planned_step_seconds(job),
        tokens_per_second=job.tokens_per_step / planned_step_seconds(job),
        unit=job.unit,
        hours=job.hours,
        cost=job.cost,
        peak_vram_gib=job.vram_gib.peak,
        usable_vram_gib=job.vram_gib.usable,
        deadline_hours=job.deadline_hours,
        deadline_probability=job.deadline_probability,
        confidence=asked.confidence,
        budget_usd=scenario.limits.budget_usd,
    )


def _remarks(
    job: Assignment,
    asked: Job,
    scenario: Scenario,
    progress: Progress,
    observed: ObservedProgress,
    projection: Projection,
) -> list[str]:
    """Return what a reader must know of a run and its projection."""
    notes = []
    if progress.diverged_at is not None:
        notes.append(f"the loss is no number since step {progress.diverged_at:,}: the run may have diverged")
    if progress.pace is None:
        notes.append("too few steps are timed: the pace is that of the plan")
    slow = projection.pace_seconds / planned_step_seconds(job) - 1.0
    if observed.gpu_utilisation is not None and slow > 0 and 1.0 - observed.gpu_utilisation >= slow / (1.0 + slow):
        idle = 100 * (1.0 - observed.gpu_utilisation)
        notes.append(f"the GPUs are idle {idle:.0f} % of the time, which explains the slower steps: they wait for data")
    if observed.peak_vram_gib is not None and observed.peak_vram_gib > job.vram_gib.peak:
        notes.append(f"memory peaks above the {job.vram_gib.peak:.1f} GiB of the plan")
    if asked.early_stopping < 1:
        notes.append("projected to the last step: without early stopping")
    if len(scenario.jobs) == 1:
        more = projection.left_usd * (
            float(confidence_factor(projection.sigma, scenario.limits.budget_confidence)) - 1.0
        )
        likely = observed.spent_usd + projection.left_usd
        notes += budget_note(scenario.limits, likely, likely + math.hypot(more, projection.market_sd_usd))
    return notes

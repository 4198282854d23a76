"""What to do with what is left of a run: stay on the machines at hand, or move to others.

To stay costs no start: the hours left are observed ones, to which nothing is added (`measured: {hours}`), on an
inventory of the one offer. To move is the scenario of what is left on all offers, with the observed speed and memory
as an observed run, so that the estimates of other machines follow them. A job takes one candidate, so the better of
the two optima is the optimum of both.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from planner.analysis.run_projection import Projection, observed_step_seconds, planned_step_seconds
from planner.library.technique_tables import read_techniques
from planner.loading.scenario_file import parse_scenario
from planner.results.plan_parts import Spread, describe_machines
from planner.results.tracking import Choice
from planner.scenario.horizon import with_offers
from planner.scenario.naming import without_unoffered
from planner.scenario.observed_run import Measured
from planner.scenario.offer import offer_data, offer_labels
from planner.scenario.scenario import scenario_data
from planner.solving.solve import solve
from planner.units import GB, GIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.analysis.run_progress import Progress
    from planner.results.plan import Assignment, Plan
    from planner.results.tracking import Tracking
    from planner.scenario.scenario import Scenario, SolveOptions

LEAST_HOURS = 0.01
"""What a deadline that is over is planned with: no plan keeps it, and the diagnosis says what would."""


def replan(
    tracked: Tracking,
    job: Assignment,
    scenario: Scenario,
    progress: Progress,
    found: Projection,
    options: SolveOptions | None = None,
) -> Tracking:
    """Return the tracked job with what could be done now, the best first, and the plan of it.

    `scenario`: the offers to move to. `found`: what is left on the machines at hand.
    """
    if progress.steps >= job.steps:
        return tracked.model_copy(update={"notes": (*tracked.notes, "all steps are done: nothing is left to plan")})
    left = _left(tracked, job, scenario, progress)
    stay, move = _stay(left, job, scenario, found, options), _move(left, job, scenario, tracked, progress, options)
    choices: list[tuple[Choice, Plan]] = [(_staying(tracked, job, found), stay)]
    notes = []
    if move.jobs:
        choices.append((_moving(move, job), move))
    else:
        notes.append(f"no machines to move to: {move.status}")
    wanted, tie = tracked.planned.confidence, scenario.near_tie_usd(found.left_usd)
    choices.sort(key=lambda one: _rank(one[0], wanted, tie))
    return tracked.model_copy(
        update={
            "choices": tuple(choice for choice, _ in choices),
            "replan": choices[0][1],
            "notes": (*tracked.notes, *notes),
        }
    )


def _rank(one: Choice, confidence: float, tie_usd: float) -> tuple[bool, float]:
    """Return the order of choices: those in time by dollars, then the others by how likely they are in time.

    To move must save more than a near tie of plans: it is work, and the start may fail.
    """
    chance = 1.0 if one.deadline_probability is None else one.deadline_probability
    late = chance < confidence
    return late, -chance if late else one.cost_usd + (0.0 if one.what == "stay" else tie_usd)


def _left(tracked: Tracking, job: Assignment, scenario: Scenario, progress: Progress) -> dict[str, Any]:
    """Return the scenario of the steps, hours and dollars that are left, as data without offers."""
    data = scenario_data(scenario)
    data.pop("inventory", None)
    data.pop("now", None)
    data.get("limits", {}).pop("fallbacks", None)  # the machine was had
    one: dict[str, Any] = next(each for each in data["jobs"] if each["name"] == job.name)
    kept = {key: value for key, value in one["work"].items() if key in ("tokens_per_sample", "lengths", "resolution")}
    before = job.steps_before + progress.steps
    one["work"] = {**kept, "steps": job.steps - progress.steps, "steps_before": before}
    for key in ("after", "release", "due", "late_usd_per_hour", "start_slack"):
        one.pop(key, None)
    if job.deadline_hours is not None:
        one["deadline"] = f"{max(LEAST_HOURS, job.deadline_hours - tracked.observed.elapsed_hours)}h"
    stages = one.get("stages", {})
    stages.pop("ingest", None)
    if "checkpoints" in stages:
        share = 1.0 - progress.steps / job.steps
        count = max(1, round(share * stages["checkpoints"]["count"]))
        keep = min(count, stages["checkpoints"].get("keep", 1))
        stages["checkpoints"] = {**stages["checkpoints"], "count": count, "keep": keep}
    data["jobs"] = [one]
    limits = data.get("limits", {})
    if limits.get("budget_usd") is not None:
        limits["budget_usd"] = max(0.01, limits["budget_usd"] - tracked.observed.spent_usd)
    return data


def _stay(
    left: dict[str, Any], job: Assignment, scenario: Scenario, found: Projection, options: SolveOptions | None
) -> Plan:
    """Return the plan of what is left on the machines at hand, set up as they are, without a start."""
    used = job.techniques.model_dump()
    given = {name: [used[name]] for name in _settings_of(job) if name not in ("framework", "micro_batch", "quant")}
    one = {**left["jobs"][0], "framework": job.framework or used["framework"]}
    one["techniques"] = {**one.get("techniques", {}), **given}
    if used["weight_bits"] == 4:
        one["techniques"]["quant"] = [used["quant"]]
    if job.spot_share <= 0:
        one["measured"] = [{"gpu": job.gpu, "gpus": job.gpus, "hours": found.left_hours}]
        one["stages"] = {key: value for key, value in one.get("stages", {}).items() if key == "export"}
    offers = [
        offer_data(offer.model_copy(update={"max_nodes": job.instances}))
        for label, offer in scenario.labelled_offers()
        if label == job.offer
    ]
    limits = {**left.get("limits", {}), "max_gpus": job.gpus}
    limits |= {"spot_share": {"max": 0}} if job.spot_share <= 0 else {}
    return solve(_read({**left, "jobs": [one], "limits": limits}, offers), options)


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
    one = left["jobs"][0]
    measured = [*one.get("measured", []), *([run] if run else [])]
    data = {**left, "jobs": [{**one, "measured": measured}]}
    plan = solve(_read(data, list(map(offer_data, scenario.offers))), options)
    if not plan.jobs or (plan.jobs[0].offer, plan.jobs[0].gpus) != (job.offer, job.gpus):
        return plan
    labelled = zip(offer_labels(scenario.offers), scenario.offers, strict=True)
    others = [offer for label, offer in labelled if label != job.offer]
    if not any(offer.rents_gpus for offer in others):
        return plan
    return solve(_read(data, list(map(offer_data, others))), options)


def _read(data: dict[str, Any], offers: Sequence[dict[str, Any]]) -> Scenario:
    data = without_unoffered(data, offers)
    return parse_scenario(json.dumps(with_offers(data, offers)), file=str(data["name"]))


def _settings_of(job: Assignment) -> list[str]:
    """Return the techniques of a plan that an observed run can state."""
    known = {"framework", *Measured.model_fields}
    used = job.techniques.model_dump()
    return [name for name in used if name in known and name != "accumulation_steps" and used[name] is not None]


def _observed_run(job: Assignment, tracked: Tracking, progress: Progress) -> dict[str, Any] | None:
    """Return the run so far as an entry of `measured`; None where neither speed nor memory was observed."""
    used = job.techniques.model_dump()
    run: dict[str, Any] = {name: used[name] for name in _settings_of(job)}
    if used["weight_bits"] != 4:
        run.pop("quant", None)
    run |= {
        "gpu": job.gpu,
        "gpus": job.gpus,
        "instances": job.instances,
        "framework": job.framework or used["framework"],
    }
    seconds = observed_step_seconds(job, progress)
    peak = tracked.observed.peak_vram_gib
    if seconds is not None:
        stops = planned_step_seconds(job) - job.step_seconds
        run["tokens_per_second"] = job.tokens_per_second * job.step_seconds / max(seconds - stops, 0.1 * seconds)
    if peak is not None:
        run |= {"peak_vram_gib": peak, "peak_kind": tracked.observed.peak_kind}
    return run if seconds is not None or peak is not None else None


def _staying(tracked: Tracking, job: Assignment, found: Projection) -> Choice:
    end, passed = tracked.projected, tracked.observed.elapsed_hours
    hours = {key: getattr(end.hours, key) - passed for key in Spread.model_fields}
    return Choice(
        what="stay",
        machines=describe_machines(job.gpus, job.gpu),
        provider=job.provider,
        cost_usd=found.left_usd,
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
    rate = next((line.rate_usd for line in job.bill if line.item == "transfer out"), None)
    parts = job.vram_gib.parts
    trained = parts.get("adapters" if job.techniques.method == "lora" else "weights", 0.0)
    stage = read_techniques().values.sharding.values[job.techniques.sharding].zero_stage
    whole = trained * (job.gpus if stage == 3 else 1) + parts.get("optimizer", 0.0) * (job.gpus if stage else 1)
    return (rate or 0.0) * whole * GIB / GB

"""A probe of a plan against its estimates: keep the machine, change the run on it, or give the machine back.

The run as it is planned is evaluated once more with the measurement, which is an observed run of the job. The same
measurement corrects the estimates of all other configurations, and the job is planned again, on the machine at hand and
on all other offers. The three are compared in dollars, among those that meet the limits.
"""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING, Any

from planner.analysis.calibration.probe_file import ProbeFile, check_is_of, read_probe
from planner.analysis.track_question import entry_of, read_with_offers
from planner.documents.files import file_name
from planner.documents.validation import MOST_NAMES, meant_name
from planner.errors import Fault, InputError
from planner.evaluation.evaluate import evaluate
from planner.evaluation.named_run import NamedRun, resolve_names
from planner.library.reading import read_library
from planner.loading.building import Question, as_scenario
from planner.records import record
from planner.results.plan import Assignment, Plan, plan_fingerprint, require_plan
from planner.results.plan_parts import Hours, describe_machines
from planner.results.run_results import ProbeChoice, ProbedMemory, ProbedStep, ProbeVerdict
from planner.scenario.job import Job
from planner.scenario.offer import Offer, offer_data, offer_labels
from planner.scenario.scenario import Scenario, SolveOptions, scenario_data
from planner.solving.solve import solve
from planner.units import round_digits

if TYPE_CHECKING:
    from collections.abc import Sequence

AS_PLANNED = 0.03
"""Share by which seconds and bytes may be off the plan and say nothing new: runs of one machine differ as much."""
WORTH_IT = {"keep": 0.0, "change": 0.05, "give back": 0.10}
"""Share that another way must save: it is work, a start that may fail, and an estimate where this one is measured."""
_ROOM = 0.97
"""Share of the usable memory above which a run of other lengths may fail: it is told."""


@record(frozen=True)
class _Probed:
    """A probe and all that it is judged by."""

    plan: Plan
    job: Assignment
    asked: Job
    scenario: Scenario  # with what the plan chose
    market: Scenario  # the offers to move to
    probe: ProbeFile


def judge_probe(
    plan: Plan,
    scenario: Question,
    path: str,
    job: str | None = None,
    market: Scenario | None = None,
    options: SolveOptions | None = None,
) -> ProbeVerdict:
    """Return whether to keep the machine of a plan, to change the run on it, or to give it back.

    Parameters
    ----------
    scenario
        What the plan was made from, as `plan_scenario` returns it.
    path
        The `probe.json` that the files of `planner probe` wrote on the machine.
    job
        Its name, where the plan has several.
    market
        Offers to move to; by default those that the plan names.

    Raises
    ------
    InputError
        The file is no result of a probe, has failed, or is of another plan, job or GPU.

    Examples
    --------
    >>> plan = planner.solve("quickstart")
    >>> verdict = judge_probe(plan, planner.plan_scenario(plan), "probe.json")  # doctest: +SKIP
    >>> verdict.verdict  # doctest: +SKIP
    'keep'
    """
    require_plan(plan)
    probe, asked = read_probe(path), as_scenario(scenario)
    chosen, question = _job_of(plan, asked, job)
    check_is_of(probe, file_name(path), chosen, plan_fingerprint(plan))
    found = _Probed(plan, chosen, question, asked, market or asked, probe)
    return _out_of_memory(found, options) if probe.status == "oom" else _measured(found, options)


def _job_of(plan: Plan, scenario: Scenario, name: str | None) -> tuple[Assignment, Job]:
    """Return the job that was probed; `InputError` where it is not clear which."""
    names = [job.name for job in plan.jobs]
    name = name if name is None else meant_name(name, names, "--job", "the plan has no job")
    found = [job for job in plan.jobs if name in (None, job.name)]
    if len(found) != 1:
        fix = f"name one, such as {' or '.join(names[:MOST_NAMES])}" if names else "give a plan with jobs"
        raise InputError([Fault("--job", 0, "", f"the plan has {len(names)} jobs", fix)])
    asked = next((job for job in scenario.jobs if job.name == found[0].name), None)
    if not isinstance(asked, Job) or not found[0].gpus:
        raise InputError([Fault("plan", 0, f"jobs.{found[0].name}", "trains on no machines of its own", "")])
    return found[0], asked


# A step was measured.


def _measured(found: _Probed, options: SolveOptions | None) -> ProbeVerdict:
    """Return the verdict on a run that fits: by its dollars and hours, as it is and as it could be."""
    entry = _entry(found)
    all_offers = [offer_data(offer) for offer in found.scenario.offers]
    stay = _choice("keep", _figures(found, found.job, entry, all_offers), found)
    choices, plans = [stay], [found.plan]
    if not (stay.meets_limits and _is_as_planned(found)):
        here, alike, others = _offers(found)
        for what, offers in (("change", here), ("give back", alike), ("give back", others)):
            plan = _solved(found, entry, offers, what == "change", options)
            if plan is None or not plan.jobs or (what == "change" and not changes(found.job, plan.jobs[0])):
                continue
            choice = _choice(what, plan.jobs[0], found, is_planned=True)
            if offers is not others:
                choice = _as_measured(found, stay, plan.jobs[0], choice, offers)
            choices.append(choice)
            plans.append(plan)
    best = choose(choices)
    plan = next((plan for one, plan in zip(choices, plans, strict=True) if one is best), None)
    ranked = (best, *(one for one in choices if one is not best))
    return _verdict(found, best, _reason(found, stay, best), ranked, entry, plan, _notes(found))


def choose(choices: Sequence[ProbeChoice]) -> ProbeChoice:
    """Return the way to go on, of those that meet the limits; to switch must save `WORTH_IT`.

    Without any, the machine is given back: nothing that is known keeps the limits.
    """
    good = [one for one in choices if one.meets_limits]
    if good:
        return min(good, key=lambda one: one.cost_usd / (1.0 - WORTH_IT[one.what]))
    stay = choices[0]
    return stay.model_copy(update={"what": "give back", "change": ""})


def _entry(found: _Probed) -> dict[str, Any]:
    """Return the observed run: how it was set up, its real tokens per second, its allocated peak."""
    job, probe = found.job, found.probe
    assert probe.step_seconds is not None and probe.allocated_gib is not None
    speed = round_digits(job.tokens_per_second * job.step_seconds / probe.step_seconds)
    peak = {"peak_vram_gib": round_digits(max(probe.allocated_gib, 1e-3)), "peak_kind": "allocated"}
    setup = {name: list(value) if isinstance(value, tuple) else value for name, value in entry_of(job).items()}
    return {**setup, "sequence_length": job.sequence_length, "tokens_per_second": speed, **peak}


def _is_as_planned(found: _Probed) -> bool:
    """Return whether neither seconds nor bytes say anything new."""
    job, probe = found.job, found.probe
    assert probe.step_seconds is not None and probe.allocated_gib is not None
    off = (probe.step_seconds / job.step_seconds, probe.allocated_gib / job.vram_gib.allocated)
    return all(abs(ratio - 1.0) <= AS_PLANNED for ratio in off)


def _data(found: _Probed, entry: dict[str, Any]) -> dict[str, Any]:
    """Return the scenario of the job alone, with the run that was observed, as data without offers."""
    data = scenario_data(found.scenario)
    data.pop("inventory", None)
    one: dict[str, Any] = next(each for each in data["jobs"] if each["name"] == found.job.name)
    one["measured"] = [*one.get("measured", []), *([entry] if entry else [])]
    one.pop("after", None)
    data["jobs"] = [one]
    data.pop("services", None)
    limits = data.get("limits", {})
    if limits.get("budget_usd") is not None:
        others = math.fsum(part.cost_usd for part in found.plan.planned if part.name != found.job.name)
        limits["budget_usd"] = max(0.01, limits["budget_usd"] - others)
    return data


def _offers(found: _Probed) -> tuple[list[dict[str, Any]], ...]:
    """Return the offer of the machine at hand, at most as many as are rented; others of its GPU; all other offers."""
    job = found.job
    here = [
        offer_data(offer.model_copy(update={"max_nodes": job.instances}))
        for label, offer in _labelled(found.scenario)
        if _is_rented(label, offer, job)
    ]
    away = [offer for label, offer in _labelled(found.market) if not _is_rented(label, offer, job)]
    alike = [offer_data(offer) for offer in away if offer.gpu == job.gpu]
    return here, alike, [offer_data(offer) for offer in away if offer.gpu != job.gpu]


def _labelled(scenario: Scenario) -> list[tuple[str, Offer]]:
    return list(zip(offer_labels(scenario.offers), scenario.offers, strict=True))


def _is_rented(label: str, offer: Offer, job: Assignment) -> bool:
    """Return whether an offer is the machine of a job; one of a group of zones has a label of its own."""
    same = (offer.provider, offer.instance, offer.gpu) == (job.provider, job.instance, job.gpu)
    return label == job.offer or (same and job.region.startswith("any"))


def _figures(found: _Probed, job: Assignment, entry: dict[str, Any], offers: Sequence[dict[str, Any]]) -> Assignment:
    """Return the figures of a run, exactly as it is set up, that follow from a measurement; empty: from none."""
    scenario = read_with_offers(_data(found, entry), offers)
    library = read_library([job.architecture for job in scenario.jobs])
    context, broken = resolve_names(NamedRun.of(job), scenario, library)
    if context is None:
        what = f"{broken[0].what} of the plan is not in its scenario"
        raise InputError([Fault("plan", 0, f"jobs.{job.name}", what, "solve it again")])
    return evaluate(context, datetime.date.fromisoformat(found.plan.as_of)).assignment


def _as_measured(
    found: _Probed, stay: ProbeChoice, job: Assignment, choice: ProbeChoice, offers: Sequence[dict[str, Any]]
) -> ProbeChoice:
    """Return another run on the same kind of GPU, as much slower or faster than estimated as the one that was measured.

    The estimates of a job follow a measurement only in part, so that each other run would seem to gain by it.
    """
    usd, slower = stay.cost_usd / max(found.job.cost_usd, 1e-9), stay.hours.expected / found.job.hours.expected
    plain = _figures(found, job, {}, offers)
    hours = Hours(**{name: getattr(plain.hours, name) * slower for name in Hours.model_fields})
    deadline, budget = job.deadline_hours, found.scenario.limits.budget_usd
    in_time = deadline is None or hours.at_confidence <= deadline
    figures = {"cost_usd": plain.cost_usd * usd, "hours": hours, "deadline_probability": None}
    is_paid = budget is None or plain.cost_at_confidence * usd <= budget
    return choice.model_copy(update={**figures, "meets_limits": in_time and is_paid})


def _solved(
    found: _Probed, entry: dict[str, Any], offers: Sequence[dict[str, Any]], is_here: bool, options: SolveOptions | None
) -> Plan | None:
    """Return the plan of the job on some offers with what was measured; None where nothing is offered."""
    if not offers:
        return None
    data = _data(found, entry)
    if is_here:
        data["limits"] = {**data.get("limits", {}), "max_gpus": found.job.gpus}
    options = options or SolveOptions()
    as_of = options.as_of or datetime.date.fromisoformat(found.plan.as_of)
    return solve(read_with_offers(data, offers), options.model_copy(update={"as_of": as_of}))


def _choice(what: Any, job: Assignment, found: _Probed, is_planned: bool = False) -> ProbeChoice:
    """Return one way to go on; what was planned anew meets the limits."""
    machines = describe_machines(job.gpus, job.gpu)
    change = {"keep": "", "change": changes(found.job, job), "give back": machines}[what]
    return ProbeChoice(
        what=what,
        change=change,
        machines=machines,
        provider=job.provider,
        cost_usd=job.cost_usd,
        hours=Hours(**{name: getattr(job.hours, name) for name in Hours.model_fields}),
        deadline_probability=job.deadline_probability,
        meets_limits=is_planned or _meets(job, found),
    )


def _meets(job: Assignment, found: _Probed) -> bool:
    """Return whether a run keeps deadline and budget with the probabilities that are asked for."""
    chance, budget = job.deadline_probability, found.scenario.limits.budget_usd
    others = math.fsum(part.cost_usd for part in found.plan.planned if part.name != found.job.name)
    in_time = chance is None or chance >= found.asked.confidence - 1e-9
    return in_time and (budget is None or job.cost_at_confidence + others <= budget * (1 + 1e-9))


_CHANGED = ("method", "quant", "precision", "activation_checkpointing", "sharding", "offload", "attention", "optimizer")
_DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")


def changes(before: Assignment, after: Assignment) -> str:
    """Return what of a run becomes another, `micro-batch 4, activation checkpointing selective`; empty if nothing."""
    old, new = before.techniques.model_dump(), after.techniques.model_dump()
    found = [f"micro-batch {new['micro_batch']}"] if old["micro_batch"] != new["micro_batch"] else []
    found += [f"{name.replace('_', ' ')} {new[name]}" for name in (*_CHANGED, *_DEGREES) if old[name] != new[name]]
    if before.framework != after.framework:
        found.append(f"framework {after.framework}")
    if (before.spot_share > 0) != (after.spot_share > 0):
        found.append("spot" if after.spot_share > 0 else "on demand")
    return ", ".join(found)


# Memory ran out.


def _out_of_memory(found: _Probed, options: SolveOptions | None) -> ProbeVerdict:
    """Return the verdict on a run that does not fit: a smaller one on the same machine, or other GPUs."""
    job, choices, plans, notes = found.job, list[ProbeChoice](), dict[str, Plan](), list[str]()
    if (smaller := _smaller(found)) is not None:
        choices.append(smaller)
        notes.append("set both fields in the exported file, and probe again: the smaller run is an estimate")
    others = [offer_data(offer) for offer in found.market.offers if offer.gpu != job.gpu]
    plan = _solved(found, {}, others, False, options)
    if plan is not None and plan.jobs:
        choices.append(_choice("give back", plan.jobs[0], found, is_planned=True))
        plans["give back"] = plan
    stay = _choice("keep", job, found).model_copy(update={"meets_limits": False})
    best = choose([stay, *choices])
    reason = f"memory ran out in {found.probe.reached or 'the first step'}"
    ranked = (best, *(one for one in choices if one is not best))
    return _verdict(found, best, reason, ranked, {}, plans.get(best.what), notes)


def _smaller(found: _Probed) -> ProbeChoice | None:
    """Return the smaller run that the plan names for this case; None where it names none."""
    job, smaller = found.job, found.job.vram_gib.fallback
    if smaller is None:
        return None
    hours = {name: getattr(job.hours, name) + smaller.hours for name in Hours.model_fields}
    deadline, budget = job.deadline_hours, found.scenario.limits.budget_usd
    late_usd = job.cost_at_confidence + smaller.usd
    change = f"micro-batch {smaller.micro_batch}, accumulation steps {smaller.accumulation_steps}"
    if smaller.activation_checkpointing != job.techniques.activation_checkpointing:
        change += f", activation checkpointing {smaller.activation_checkpointing}"
    return ProbeChoice(
        what="change",
        change=change,
        machines=describe_machines(job.gpus, job.gpu),
        provider=job.provider,
        cost_usd=job.cost_usd + smaller.usd,
        hours=Hours(**hours),
        deadline_probability=None,
        meets_limits=(deadline is None or hours["at_confidence"] <= deadline)
        and (budget is None or late_usd <= budget),
    )


# The verdict.


def _verdict(
    found: _Probed,
    best: ProbeChoice,
    reason: str,
    choices: tuple[ProbeChoice, ...],
    entry: dict[str, Any],
    plan: Plan | None,
    notes: list[str],
) -> ProbeVerdict:
    job, probe = found.job, found.probe
    scale = job.tokens_per_second * job.step_seconds
    step = ProbedStep(
        planned=job.step_seconds,
        low=scale / job.tokens_per_second_high,
        high=scale / job.tokens_per_second_low,
        measured=probe.step_seconds,
    )
    memory = ProbedMemory(
        allocated_planned=job.vram_gib.allocated,
        allocated=probe.allocated_gib,
        reserved=probe.reserved_gib,
        driver=probe.driver_gib,
        usable=job.vram_gib.usable,
    )
    return ProbeVerdict(
        scenario=found.plan.scenario,
        job=job.name,
        verdict=best.what,
        reason=reason,
        planned_usd=job.cost_usd,
        status="oom" if probe.status == "oom" else "ok",
        gpu_name=probe.gpu_name,
        step_seconds=step,
        memory=memory,
        timed_steps=len(probe.steps) - probe.warm_up_steps,
        choices=choices,
        measured=entry,
        plan=plan,
        notes=tuple(notes),
    )


def _reason(found: _Probed, stay: ProbeChoice, best: ProbeChoice) -> str:
    """Return in a few words why."""
    assert found.probe.step_seconds is not None
    off = found.probe.step_seconds / found.job.step_seconds - 1.0
    speed = f"a step takes {100 * abs(off):.0f} % {'longer' if off > 0 else 'less'} than planned"
    if abs(off) <= AS_PLANNED:
        speed = "a step takes as long as planned"
    if best.what == "keep" or stay.meets_limits:
        return speed
    return f"{speed}, and the run as it is misses its limits"


def _notes(found: _Probed) -> list[str]:
    """Return what a reader must know of the measurement."""
    job, probe = found.job, found.probe
    notes = []
    planned = job.global_batch * job.sequence_length
    if job.packing != "padded" and probe.tokens_per_step is not None:
        off = probe.tokens_per_step / planned - 1.0
        if abs(off) > 0.1:
            notes.append(f"a step had {probe.tokens_per_step:,.0f} tokens, and the plan has {planned:,}")
    if probe.driver_gib is not None and probe.driver_gib > _ROOM * job.vram_gib.usable:
        notes.append("memory is nearly full: longer samples, evaluation or a saved checkpoint may not fit")
    if job.packing == "padded":
        notes.append("samples are padded: the longest batch of the data may take more memory than those of the probe")
    if len(found.plan.planned) > 1:
        notes.append("the other jobs are left as they are planned")
    return notes

"""A probe of a plan: what it wrote, held against the estimates, what to do with the machine, and a row to share.

The run as it is planned is evaluated once more with the measurement, which is an observed run of the job. The same
measurement corrects the estimates of all other configurations, and the job is planned again, on the machine at hand and
on all other offers. The three are compared in dollars, among those that meet the limits.
"""

from __future__ import annotations

import csv
import datetime
import hashlib
import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from planner.analysis.track_question import entry_of, job_on_machines, read_with_offers
from planner.documents.files import check_writable, file_name, read_text, write_text_atomically
from planner.documents.quantities import NotNegative, Positive, PositiveInteger, StrictModel
from planner.documents.tables import read_json
from planner.documents.validation import Source
from planner.errors import Fault, InputError
from planner.evaluation.evaluate import evaluate
from planner.evaluation.evaluated_physics import NamedRun, resolve_names
from planner.library.reading import CardNames, read_library
from planner.library.schema import Architecture
from planner.loading.question import Asked, as_scenario
from planner.results.plan import Assignment, Plan, plan_fingerprint, require_plan
from planner.results.plan_parts import Fallback, Hours, Techniques, describe_machines
from planner.results.run_results import ProbeChoice, ProbedMemory, ProbedStep, ProbeVerdict
from planner.scenario.job import Job
from planner.scenario.offer import Offer, offer_data
from planner.scenario.scenario import Scenario, SolveOptions, scenario_data
from planner.solving.solve import solve
from planner.units import round_digits

if TYPE_CHECKING:
    from collections.abc import Sequence


_LEAST_SEEN, _MOST_SEEN = 0.85, 1.05
"""Shares of its nominal memory that a GPU may show: error correction takes up to 9 % (T4, L40S)."""
WANTED = "give the probe.json that probe.sh wrote on the machine"


class ProbeFile(StrictModel):
    """The result of a probe; peaks are the largest of the GPUs of the machine, seconds the median of a step."""

    probe: Literal[1]
    status: Literal["ok", "oom", "failed"]
    plan: str
    """SHA-256 of the plan that it ran."""
    run: dict[str, Any]
    reached: str = ""
    error: str = ""
    gpu_name: str | None
    gpu_gib: Positive | None
    gpus: PositiveInteger
    allocated_gib: NotNegative | None
    reserved_gib: NotNegative | None
    driver_gib: NotNegative | None
    load_gib: NotNegative | None
    host_gib: NotNegative | None
    steps: list[NotNegative]
    warm_up_steps: int = Field(ge=0)
    step_seconds: Positive | None
    step_spread: NotNegative | None = None
    tokens_per_step: Positive | None = None
    tokens_per_second: Positive | None = None
    versions: dict[str, str] = Field(default_factory=dict)


def is_probe(path: str) -> bool:
    """Return whether a file is the result of a probe, whole or damaged; false for what is none or cannot be read."""
    if path == "-" or not path.endswith(".json"):
        return False
    try:
        data = read_json(path, WANTED).data
    except InputError:
        return False
    return isinstance(data, dict) and "probe" in data


def read_probe(path: str) -> ProbeFile:
    """Return the result of a probe; `InputError` for what is none, and for one that measured nothing."""
    document = read_json(path, WANTED)
    if not isinstance(document.data, dict) or "probe" not in document.data:
        raise InputError([document.fault((), "is no result of a probe", WANTED)])
    probe: ProbeFile = Source(document.file, document).validate(ProbeFile, document.data)
    if probe.status == "failed":
        problem = f"the probe failed at {probe.reached or 'its start'}: {probe.error or 'no reason was written'}"
        raise InputError([document.fault(("status",), problem, "read what probe.sh printed, and run it again")])
    if probe.gpu_gib is None:
        raise InputError([document.fault(("gpu_name",), "was measured without a GPU", "run probe.sh there")])
    if probe.status == "ok" and (probe.step_seconds is None or probe.allocated_gib is None):
        raise InputError([document.fault(("steps",), "no step was measured", "run probe.sh again")])
    return probe


def check_is_of(probe: ProbeFile, file: str, job: Assignment, fingerprint: str) -> None:
    """Raise `InputError` where a probe ran another plan, another job of it, or on other GPUs."""
    faults = []
    if probe.plan != fingerprint:
        fix = "give the plan that planner probe was given, or probe this one"
        faults.append(Fault(file, 0, "plan", "the probe is of another plan", fix))
    fix = "give that machine back, or plan with its GPU: limits.gpus"
    card, planned_gib = known_gpu(probe), read_library().gpu(job.gpu).vram_gib
    if card is not None and card != job.gpu:
        problem = f"was measured on {probe.gpu_name}, and {job.name} is planned on {job.gpu}"
        faults.append(Fault(file, 0, "gpu_name", problem, fix))
    elif not _LEAST_SEEN * planned_gib <= (probe.gpu_gib or 0.0) <= _MOST_SEEN * planned_gib:
        problem = f"was measured on a GPU of {probe.gpu_gib:g} GiB, and {job.gpu} has {planned_gib:g}"
        faults.append(Fault(file, 0, "gpu_gib", problem, fix))
    if probe.gpus != job.gpus:
        problem = f"was measured on {probe.gpus} GPUs, and {job.name} is planned on {job.gpus}"
        faults.append(Fault(file, 0, "gpus", problem, "name the job that was probed with --job"))
    used = job.techniques.model_dump()
    names = [name for name in used if name in probe.run and name != "framework"]  # that of the job may be another
    other = [name for name in names if _plain(probe.run[name]) != _plain(used[name])]
    if other and not faults:
        problem = f"ran {other[0]} {probe.run[other[0]]}, and {job.name} is planned with {used[other[0]]}"
        faults.append(Fault(file, 0, f"run.{other[0]}", problem, "name the job that was probed with --job"))
    if faults:
        raise InputError(faults)


def known_gpu(probe: ProbeFile) -> str | None:
    """Return the GPU that the driver named; None for a name that no GPU of the library has."""
    return CardNames("gpus").canonical(probe.gpu_name or "")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


AS_PLANNED = 0.03
"""Share by which seconds and bytes may be off the plan and say nothing new: runs of one machine differ as much."""
WORTH_IT = {"keep": 0.0, "change": 0.05, "give back": 0.10}
"""Share that another way must save: it is work, a start that may fail, and an estimate where this one is measured."""
_ROUNDING = 1 + 1e-9
_ROOM = 0.97
"""Share of the usable memory above which a run of other lengths may fail: a note says so."""


@dataclass(frozen=True)
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
    scenario: Asked,
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
    chosen, question = job_on_machines(plan, asked, job)
    check_is_of(probe, file_name(path), chosen, plan_fingerprint(plan))
    probed = _Probed(plan, chosen, question, asked, market or asked, probe)
    return _out_of_memory(probed, options) if probe.status == "oom" else _measured(probed, options)


# A step was measured.


def _measured(probed: _Probed, options: SolveOptions | None) -> ProbeVerdict:
    """Return the verdict on a run that fits: by its dollars and hours, as it is and as it could be."""
    entry = _entry(probed)
    all_offers = [offer_data(offer) for offer in probed.scenario.offers]
    stay = _choice("keep", _figures(probed, probed.job, entry, all_offers), probed)
    choices, plans = [stay], [probed.plan]
    if not (stay.meets_limits and _is_as_planned(probed)):
        here, alike, others = _offers(probed)
        for kind, offers in (("change", here), ("give back", alike), ("give back", others)):
            plan = _solved(probed, entry, offers, kind == "change", options)
            if plan is None or not plan.jobs or (kind == "change" and not changes(probed.job, plan.jobs[0])):
                continue
            choice = _choice(kind, plan.jobs[0], probed, is_planned=True)
            if offers is not others:
                choice = _as_measured(probed, stay, plan.jobs[0], choice, offers)
            choices.append(choice)
            plans.append(plan)
    best = choose(choices)
    plan = next(plan for way, plan in zip(choices, plans, strict=True) if way is best)
    ranked = (best, *(way for way in choices if way is not best))
    reason = _reason(probed, stay)
    return _verdict(probed, reason, ranked, entry, plan if best.meets_limits else None, _notes(probed))


def choose(choices: Sequence[ProbeChoice]) -> ProbeChoice:
    """Return the way to go on, of those that meet the limits; to switch must save `WORTH_IT`. Without any the first."""
    good = [choice for choice in choices if choice.meets_limits]
    return min(good or choices[:1], key=lambda choice: choice.cost_usd / (1.0 - WORTH_IT[choice.what]))


def _entry(probed: _Probed) -> dict[str, Any]:
    """Return the observed run: how it was set up, its real tokens per second, its allocated peak."""
    job, probe = probed.job, probed.probe
    assert probe.step_seconds is not None and probe.allocated_gib is not None
    speed = round_digits(job.tokens_per_step / probe.step_seconds)
    peak = {"peak_vram_gib": round_digits(max(probe.allocated_gib, 1e-3)), "peak_kind": "allocated"}
    setup = {name: list(value) if isinstance(value, tuple) else value for name, value in entry_of(job).items()}
    return {**setup, "sequence_length": job.sequence_length, "tokens_per_second": speed, **peak}


def _is_as_planned(probed: _Probed) -> bool:
    """Return whether neither seconds nor bytes say anything new."""
    job, probe = probed.job, probed.probe
    assert probe.step_seconds is not None and probe.allocated_gib is not None
    off = (probe.step_seconds / job.step_seconds, probe.allocated_gib / job.vram_gib.allocated)
    return all(abs(ratio - 1.0) <= AS_PLANNED for ratio in off)


def _data(probed: _Probed, entry: dict[str, Any]) -> dict[str, Any]:
    """Return the scenario of the job alone, with the run that was observed, as data without offers."""
    data = scenario_data(probed.scenario)
    data.pop("inventory", None)
    job: dict[str, Any] = next(part for part in data["jobs"] if part["name"] == probed.job.name)
    job["measured"] = [*job.get("measured", []), *([entry] if entry else [])]
    if job.pop("after", None) is not None:  # the jobs before it end when they are planned to
        job["release"] = f"{max(probed.asked.release_hours, probed.job.start_at_hours):g}h"
    data["jobs"] = [job]
    data.pop("services", None)
    limits = data.get("limits", {})
    if limits.get("budget_usd") is not None:
        limits["budget_usd"] = max(0.01, limits["budget_usd"] - _others_usd(probed))
    return data


def _others_usd(probed: _Probed) -> float:
    """Return the dollars of the other jobs and services, which are left as they are planned."""
    return math.fsum(part.cost_usd for part in probed.plan.planned if part.name != probed.job.name)


def _offers(probed: _Probed) -> tuple[list[dict[str, Any]], ...]:
    """Return the offer of the machine at hand, at most as many as are rented; others of its GPU; all other offers."""
    job = probed.job
    here = [
        offer_data(offer.model_copy(update={"max_nodes": job.instances}))
        for label, offer in probed.scenario.offers_as_read()
        if _is_rented(label, offer, job)
    ]
    away = [offer for label, offer in probed.market.offers_as_read() if not _is_rented(label, offer, job)]
    alike = [offer_data(offer) for offer in away if offer.gpu == job.gpu]
    return here, alike, [offer_data(offer) for offer in away if offer.gpu != job.gpu]


def _is_rented(label: str, offer: Offer, job: Assignment) -> bool:
    """Return whether an offer is the machine of a job; one of a group of zones has a label of its own."""
    same = (offer.provider, offer.instance, offer.gpu) == (job.provider, job.instance, job.gpu)
    return label == job.offer or (same and job.region.startswith("any"))


def _figures(probed: _Probed, job: Assignment, entry: dict[str, Any], offers: Sequence[dict[str, Any]]) -> Assignment:
    """Return the figures of a run, exactly as it is set up, that follow from a measurement; empty: from none."""
    scenario = read_with_offers(_data(probed, entry), offers)
    library = read_library([job.architecture for job in scenario.jobs])
    context, broken = resolve_names(NamedRun.of(job), scenario, library)
    if context is None:
        problem = f"{broken[0].what} of the plan is not in its scenario"
        raise InputError([Fault("plan", 0, f"jobs.{job.name}", problem, "solve it again")])
    return evaluate(context, datetime.date.fromisoformat(probed.plan.as_of)).assignment


def _as_measured(
    probed: _Probed, stay: ProbeChoice, job: Assignment, choice: ProbeChoice, offers: Sequence[dict[str, Any]]
) -> ProbeChoice:
    """Return another run on the same kind of GPU, as much slower or faster than estimated as the one that was measured.

    The estimates of a job follow a measurement only in part, so that each other run would seem to gain by it.
    """
    usd, slower = stay.cost_usd / max(probed.job.cost_usd, 1e-9), stay.hours.expected / probed.job.hours.expected
    plain = _figures(probed, job, {}, offers)
    hours = Hours(**{name: getattr(plain.hours, name) * slower for name in Hours.model_fields})
    meets = _keeps(probed, job.delay_hours + hours.at_confidence, plain.cost_at_confidence * usd)
    figures = {"cost_usd": plain.cost_usd * usd, "hours": hours, "deadline_probability": None}
    return choice.model_copy(update={**figures, "meets_limits": meets})


def _solved(
    probed: _Probed,
    entry: dict[str, Any],
    offers: Sequence[dict[str, Any]],
    is_here: bool,
    options: SolveOptions | None,
) -> Plan | None:
    """Return the plan of the job on some offers with what was measured; None where nothing is offered."""
    if not offers:
        return None
    data = _data(probed, entry)
    if is_here:
        data["limits"] = {**data.get("limits", {}), "max_gpus": probed.job.gpus}
    options = options or SolveOptions()
    as_of = options.as_of or datetime.date.fromisoformat(probed.plan.as_of)
    return solve(read_with_offers(data, offers), options.model_copy(update={"as_of": as_of}))


def _choice(kind: Any, job: Assignment, probed: _Probed, is_planned: bool = False) -> ProbeChoice:
    """Return one way to go on; what was planned anew meets the limits."""
    machines = describe_machines(job.gpus, job.gpu)
    change = {"keep": "", "change": changes(probed.job, job), "give back": machines}[kind]
    return ProbeChoice(
        what=kind,
        change=change,
        machines=machines,
        provider=job.provider,
        cost_usd=job.cost_usd,
        hours=Hours(**{name: getattr(job.hours, name) for name in Hours.model_fields}),
        deadline_probability=job.deadline_probability,
        meets_limits=is_planned or _keeps(probed, job.finish_hours, job.cost_at_confidence),
    )


def _keeps(probed: _Probed, late_hours: float, late_usd: float) -> bool:
    """Return whether a run keeps the deadline of its job and the budget of all, by its figures at their confidence.

    `late_hours` count from the start of the plan.
    """
    deadline, budget = probed.asked.planned_deadline_hours, probed.scenario.limits.budget_usd
    in_time = deadline is None or late_hours <= deadline * _ROUNDING
    return in_time and (budget is None or late_usd + _others_usd(probed) <= budget * _ROUNDING)


_NO_CHANGE = {"framework"}
"""Techniques that are named otherwise: the framework is that of the job."""


def changes(before: Assignment, after: Assignment) -> str:
    """Return what of a run becomes another, `micro-batch 4, activation checkpointing selective`; empty if nothing."""
    texts = []
    if (before.gpus, before.gpu) != (after.gpus, after.gpu):
        texts.append(describe_machines(after.gpus, after.gpu))
    if before.instances != after.instances:
        texts.append(f"{after.instances} machine{'s' * (after.instances > 1)}")
    old, new = before.techniques.model_dump(), after.techniques.model_dump()
    names = (name for name in new if old[name] != new[name] and name not in _NO_CHANGE)
    texts += [f"{_label(name)} {_value(new[name])}" for name in names]
    if (framework := after.framework or new["framework"]) != (before.framework or old["framework"]):
        texts.append(f"framework {framework}")
    if (before.spot_share > 0) != (after.spot_share > 0):
        texts.append("spot" if after.spot_share > 0 else "on demand")
    return ", ".join(texts)


def _label(technique: str) -> str:
    return "micro-batch" if technique == "micro_batch" else technique.replace("_", " ")


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(value)
    return ("on" if value else "off") if isinstance(value, bool) else "none" if value is None else str(value)


# Memory ran out.


def _out_of_memory(probed: _Probed, options: SolveOptions | None) -> ProbeVerdict:
    """Return the verdict on a run that does not fit: a smaller one on the same machine, or other GPUs."""
    job, choices, plans, notes = probed.job, list[ProbeChoice](), dict[str, Plan](), _unknown_gpu(probed)
    if job.vram_gib.fallback is not None:
        choices.append(_choice("change", _smaller(probed, job.vram_gib.fallback), probed))
        notes.append(f"set {choices[0].change} in the exported files: no plan is written for it, and it is an estimate")
    others = [offer_data(offer) for offer in probed.market.offers if offer.gpu != job.gpu]
    plan = _solved(probed, {}, others, False, options)
    if plan is not None and plan.jobs:
        choices.append(_choice("give back", plan.jobs[0], probed, is_planned=True))
        plans["give back"] = plan
    stay = _choice("keep", job, probed).model_copy(update={"meets_limits": False})
    best = choose([stay, *choices])
    reason = f"memory ran out in {probed.probe.reached or 'the first step'}"
    ranked = (best, *(way for way in choices if way is not best))
    return _verdict(probed, reason, ranked, {}, plans.get(best.what), notes)


def _smaller(probed: _Probed, smaller: Fallback) -> Assignment:
    """Return the figures of the smaller run that the plan names for this case."""
    names = ("micro_batch", "accumulation_steps", "activation_checkpointing")
    techniques = probed.job.techniques.model_copy(update={name: getattr(smaller, name) for name in names})
    run = probed.job.model_copy(update={"techniques": techniques})
    return _figures(probed, run, {}, [offer_data(offer) for offer in probed.scenario.offers])


# The verdict.


def _verdict(
    probed: _Probed,
    reason: str,
    choices: tuple[ProbeChoice, ...],
    entry: dict[str, Any],
    plan: Plan | None,
    notes: list[str],
) -> ProbeVerdict:
    job, probe, best = probed.job, probed.probe, choices[0]
    step = ProbedStep(
        planned=job.step_seconds,
        low=job.tokens_per_step / job.tokens_per_second_high,
        high=job.tokens_per_step / job.tokens_per_second_low,
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
        scenario=probed.plan.scenario,
        job=job.name,
        verdict=best.what if best.meets_limits else "give back",
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


def _reason(probed: _Probed, stay: ProbeChoice) -> str:
    """Return in a few words why."""
    assert probed.probe.step_seconds is not None
    ratio = probed.probe.step_seconds / probed.job.step_seconds
    speed = f"a step takes {100 * abs(ratio - 1.0):.0f} % {'longer' if ratio > 1 else 'less'} than planned"
    if ratio >= 2:
        speed = f"a step takes {ratio:.3g}x as long as planned"
    if abs(ratio - 1.0) <= AS_PLANNED:
        speed = "a step takes as long as planned"
    return speed if stay.meets_limits else f"{speed}, and the run as it is misses its limits"


def _unknown_gpu(probed: _Probed) -> list[str]:
    if known_gpu(probed.probe) is not None:
        return []
    said = f"{probed.probe.gpu_name or 'a GPU without a name'}, of which no GPU is known"
    return [f"the driver names {said}: by its memory it may be the {probed.job.gpu} of the plan"]


def _notes(probed: _Probed) -> list[str]:
    """Return what a reader must know of the measurement."""
    job, probe = probed.job, probed.probe
    notes = _unknown_gpu(probed)
    planned = job.global_batch * job.sequence_length
    if job.packing != "padded" and probe.tokens_per_step is not None:
        off = probe.tokens_per_step / planned - 1.0
        if abs(off) > 0.1:
            notes.append(f"a step had {probe.tokens_per_step:,.0f} tokens, and the plan has {planned:,}")
    if probe.driver_gib is not None and probe.driver_gib > _ROOM * job.vram_gib.usable:
        notes.append("memory is nearly full: longer samples, evaluation or a saved checkpoint may not fit")
    if job.packing == "padded":
        notes.append("samples are padded: the longest batch of the data may take more memory than those of the probe")
    if len(probed.plan.planned) > 1:
        notes.append("the other jobs are left as they are planned: machines that they use are not kept free for them")
    return notes


ROW_SOURCE = "planner/probe"
"""Where the rows of all users say that they come from: they share the program, and none says whose it is."""
ROW_COLUMNS = (
    *("id", "source", "model", "params_b", "layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "method"),
    *("lora_rank", "lora_targets", "dora", "adapt_head", "train_embeddings", "experts_16_bit", "weight_quant"),
    *("precision", "optimizer", "gpu", "gpu_mem_gb", "num_gpus", "sharding", "tp", "pp", "cp", "ep", "act_ckpt"),
    *("cpu_offload", "attention", "compile", "micro_batch", "grad_accum"),
    *("global_batch", "seq_len", "packed", "status", "peak_mem_gb_per_gpu", "mem_unit", "mem_kind", "alt_mem"),
    *("alt_mem_kind", "tokens_per_s_total", "step_time_s", "quality", "framework", "weights_dtype", "gpu_name"),
    *("device_used_gib", "load_gib", "host_gib", "step_spread", "steps", "python", "torch", "transformers", "trl"),
    *("accelerate", "peft", "bitsandbytes", "deepspeed", "liger_kernel", "driver"),
)
"""Those of models/measurements/own.csv as far as a probe has them, and what its runs do not have.

`benchmarks.accuracy` reads the table.
"""
_ATTENTION = {"flash": "flash2", "flash_3": "flash3", "flash_4": "flash4", "mem_efficient": "sdpa memory-efficient"}
_PRECISION = {
    "bf16_mixed": "bf16 mixed",
    "fp16_mixed": "fp16 mixed",
    "bf16": "bf16 pure",
    "tf32": "fp32",
    "fp32": "fp32 (no tf32)",
}
_OFFLOAD = {"none": "no", "optimizer": "optimizer", "optimizer_and_weights": "optimizer + parameters"}


def append_row(table: str, path: str, plan: Plan, name: str) -> None:
    """Append the row of a probe to a table, which is made where there is none; a row that it has is not added again.

    `InputError` for a table of other columns, and for one that cannot be written.
    """
    job = next(job for job in plan.jobs if job.name == name)
    check_writable(table)
    row = shared_row(read_probe(path), job)
    before = read_text(table) if Path(table).exists() else ""
    head = before.split("\n", 1)[0].strip()
    if head and head.split(",") != list(ROW_COLUMNS):
        fix = "give a table that --share wrote, or the name of a new one"
        raise InputError([Fault(table, 1, "", "has other columns than the row of a probe", fix)])
    if any(known["id"] == row["id"] for known in csv.DictReader(io.StringIO(before))):
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, ROW_COLUMNS, lineterminator="\n")
    if not head:
        writer.writeheader()
    writer.writerow(row)
    write_text_atomically(table, before + ("\n" if before and not before.endswith("\n") else "") + text.getvalue())


def shared_row(probe: ProbeFile, job: Assignment) -> dict[str, Any]:
    """Return the row of a probe; a model that is not public has its dimensions and no name."""
    (card,) = read_library([job.architecture]).architectures.values()
    measured, embeddings = _measured_figures(probe, job), _flag(bool(probe.run.get("trains_embeddings")))
    setup = {**_setup(job), "train_embeddings": embeddings}
    row = {"source": ROW_SOURCE, **_network(card), **setup, **measured, "gpu_name": probe.gpu_name}
    row |= {name: probe.versions.get(name.replace("_", "-"), "") for name in ROW_COLUMNS[-10:]}
    shared = {name: _cell(row.get(name)) for name in ROW_COLUMNS}
    shared["id"] = hashlib.sha256("\x1f".join(shared.values()).encode()).hexdigest()[:12]
    return shared


def _cell(value: Any) -> str:
    """Return a figure as a table has it; a text that a spreadsheet would run as a formula is no name of anything."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value).lstrip("=+-@\t\r")


def _network(card: Architecture) -> dict[str, Any]:
    is_public = card.name in read_library().architectures
    return {
        "model": card.name if is_public else "",
        "params_b": round(card.parameters / 1e9, 6),
        **{name: getattr(card, name) for name in ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")},
    }


def _setup(job: Assignment) -> dict[str, Any]:
    """Return how the run was set up, in the words of tables of published runs."""
    used = job.techniques
    lora = used.method == "lora"
    targets = used.lora_targets
    padded = f"no (mean {job.tokens_per_step / job.global_batch:.0f} tokens)"
    return {
        "method": "qlora" if lora and used.weight_bits == 4 else used.method,
        "lora_rank": used.lora_rank if lora else None,
        "lora_targets": ("all linear" if targets == "all-linear" else _words(targets)) if lora else None,
        **{name: _flag(getattr(used, name)) for name in ("dora", "adapt_head", "experts_16_bit")},
        "weight_quant": "nf4 dq" if used.quant == "nf4_dq" else used.quant,
        "precision": _PRECISION.get(used.precision, used.precision),
        "optimizer": used.optimizer.replace("_", " "),
        **{"gpu": job.gpu, "num_gpus": job.gpus, "sharding": used.sharding},
        **{"tp": used.tensor_parallel, "pp": used.pipeline_parallel, "cp": used.context_parallel},
        "ep": used.expert_parallel,
        "act_ckpt": used.activation_checkpointing,
        "cpu_offload": _OFFLOAD.get(used.offload, used.offload),
        "attention": _ATTENTION.get(used.attention, used.attention),
        **{"compile": "no", "micro_batch": used.micro_batch, "grad_accum": used.accumulation_steps},
        **{"global_batch": job.global_batch, "seq_len": job.sequence_length},
        "packed": padded if job.packing == "padded" else "yes",
        "framework": job.framework or used.framework,
        "weights_dtype": _weights_dtype(used),
    }


def _weights_dtype(used: Techniques) -> str:
    """Return the type of the weights that are not quantised: full training under autocast keeps them in fp32."""
    keeps_fp32 = used.precision in ("fp32", "tf32") or (used.method == "full" and used.precision.endswith("_mixed"))
    return "fp32" if keeps_fp32 else used.precision[:4]


def _flag(is_used: bool) -> str:
    return "yes" if is_used else ""


def _words(targets: str | tuple[str, ...] | None) -> str | None:
    return " ".join(targets) if isinstance(targets, tuple) else targets


def _measured_figures(probe: ProbeFile, job: Assignment) -> dict[str, Any]:
    """Return what was measured; of a run out of memory no figure of a step."""
    figures: dict[str, Any] = {"status": probe.status, "quality": "A", "gpu_mem_gb": round(probe.gpu_gib or 0)}
    figures |= {"load_gib": probe.load_gib, "host_gib": probe.host_gib}
    if probe.status == "oom" or probe.step_seconds is None:
        return figures
    return figures | {
        **{"peak_mem_gb_per_gpu": probe.allocated_gib, "mem_unit": "GiB", "mem_kind": "torch max_memory_allocated"},
        **{"alt_mem": probe.reserved_gib, "alt_mem_kind": "torch max_memory_reserved"},
        "device_used_gib": probe.driver_gib,
        "tokens_per_s_total": job.tokens_per_step / probe.step_seconds,
        **{"step_time_s": probe.step_seconds, "step_spread": probe.step_spread, "steps": len(probe.steps)},
    }

"""What the log of a run of reinforcement learning says in the terms of its plan, and what it corrects: `calibrate`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planner.analysis.calibrate_question import CALIBRATE_COMMAND
from planner.analysis.logged_steps import fault
from planner.analysis.rl_logs import SCORES, TIMED_PHASES, MeasuredSteps, RlLog, measured_steps, read_rl_logs
from planner.documents.validation import MOST_NAMES, Source, meant_name
from planner.errors import Fault, InputError
from planner.estimates.uncertainty import is_implausible_speed
from planner.library.reading import read_library
from planner.loading.scenario_file import change_scenario
from planner.reinforcement.evaluated_rl import (
    EvaluatedRl,
    NamedRl,
    evaluate_rl,
    predicted_phases,
    run_factors,
    spread_of,
)
from planner.reinforcement.rl_step import OF_REWARD_MODELS, RlPhases
from planner.results.plan import Plan
from planner.results.run_results import (
    CalibrationResult,
    MeasuredAnswers,
    PhaseSeconds,
    PlanSummary,
    SettingValue,
    StepTimes,
)
from planner.results.subject_runs import RL_PHASE_NAMES, RlRun
from planner.scenario.rl_job import TRAINER_DEGREES, MeasuredRl, RlJob
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.solve import solve
from planner.units import GB, round_digits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.library.schema import Library

WAITED_SHARE = 0.05
"""Share of a step that a trainer waits for answers beyond which the rollout is the longer side."""
ROUNDED = 1.02
"""Times its steps that the phases of a log may take by rounding."""
GROWTH = 1.1
"""Growth of the mean length of answers over a log beyond which a reader is warned."""


# What a log says in the terms of a plan.


def phase_seconds(log: RlLog, seen: MeasuredSteps, planned: RlPhases | None = None) -> dict[str, float]:
    """Return the measured seconds of the phases of a step; those of a reward model where the planned step has one.

    Where the log has the seconds that the trainer waited for answers, the rollout took as long as the trainer and the
    wait; where it hardly waited, the rollout is not known: it was the shorter side.
    """
    phases = dict(seen.phases)
    scores = phases.pop(SCORES, None)
    place = next((name for name in OF_REWARD_MODELS if planned is not None and getattr(planned, name) > 0), None)
    if scores is not None and place is not None:
        phases[place] = scores
    if log.waits and (wait := phases.pop("rollout", None)) is not None and wait > WAITED_SHARE * seen.seconds:
        phases["rollout"] = phases.get("log_probabilities", 0.0) + phases.get("training", 0.0) + wait
    return {name: seconds for name, seconds in phases.items() if seconds > 0}


def compared_phases(
    planned: RlPhases | None, measured: Mapping[str, float], factors: RlPhases | None, overlapped: bool = False
) -> tuple[PhaseSeconds, ...]:
    """Return the phases, planned and measured; without a plan those that were measured."""
    if planned is None or factors is None:
        return tuple(PhaseSeconds(phase=name, planned=None, measured=measured[name], factor=None) for name in measured)
    is_whole = all(name in measured for name in TIMED_PHASES)  # what is left of the step is the last phase
    rest = {"fixed": planned.fixed * factors.fixed} if is_whole and not overlapped else {}
    known = {**measured, **rest}
    return tuple(
        PhaseSeconds(phase=name, planned=seconds, measured=known.get(name), factor=getattr(factors, name))
        for name, seconds in planned.by_name.items()
    )


def measured_answers(seen: MeasuredSteps, mean: float | None, longest: float | None) -> MeasuredAnswers | None:
    """Return the lengths of answers (tokens) in a log next to those of the plan; None where the log has none."""
    if seen.mean is None:
        return None
    return MeasuredAnswers(mean=seen.mean, longest=seen.longest, planned_mean=mean, planned_longest=longest)


def log_notes(log: RlLog, seen: MeasuredSteps, measured: Mapping[str, float]) -> list[str]:
    """Return what a reader must know of a log: what is not in it, and what changes over it."""
    notes = list(log.remarks)
    missing = [RL_PHASE_NAMES[name] for name in TIMED_PHASES if name not in measured]
    if len(missing) == len(TIMED_PHASES):
        where = " (TRL times phases in Weights & Biases alone)" if log.tool.counts_updates else ""
        notes.append(f"the log times whole steps alone{where}: all phases have the same factor")
    elif missing:
        notes.append(f"not in the log: {', '.join(missing)}")
    if not log.waits and math.fsum(measured.values()) > ROUNDED * seen.seconds:
        notes.append("the phases in the log take longer than its steps: they overlap, or are of other steps")
    if not seen.warm_up_steps:
        notes.append("only the first step is timed, in which engines start: a second one says more")
    if seen.growth is not None and not 1 / GROWTH <= seen.growth <= GROWTH:
        change = f"{seen.growth:.2f} times as long at the end of the log as at its beginning"
        notes.append(f"answers are {change}: later steps may take {'longer' if seen.growth > 1 else 'less'}")
    if seen.mean is None:
        notes.append(f"no lengths of answers are in the log: {' or '.join(log.tool.mean)}")
    return notes


def run_of_log(plan: Plan, scenario: Scenario, name: str | None) -> tuple[RlRun, RlJob]:
    """Return the run of a plan that is meant and its job; `InputError` where it is not clear which."""
    names = [run.name for run in plan.reinforcement]
    name = name if name is None else meant_name(name, names, "--job", "the plan has no run")
    runs = [run for run in plan.reinforcement if name in (None, run.name)]
    if len(runs) != 1:
        fix = f"name one, such as {' or '.join(names[:MOST_NAMES])}"
        raise InputError([Fault("--job", 0, "", f"{len(runs)} runs", fix)])
    job = next((job for job in scenario.jobs if job.name == runs[0].name), None)
    if not isinstance(job, RlJob):
        raise InputError([Fault("plan", 0, "inputs", f"the scenario has no job {runs[0].name}", "solve it again")])
    return runs[0], job


def steps_of_plan(log: RlLog, run: RlRun, job: RlJob) -> RlLog:
    """Return the log of the steps after those that were done before the plan, counted from there."""
    before = run.steps_before * (job.work.updates if log.tool.counts_updates else 1)
    if not before:
        return log
    steps = tuple(replace(step, step=step.step - before) for step in log.steps if step.step > before)
    if not steps:
        problem = f"ends at step {log.steps[-1].step:,}, but the plan begins after step {before:,}"
        raise fault(log.file, log.steps[-1].line, problem, "give the log of the run that went on")
    return replace(log, steps=steps, total_steps=log.total_steps - before if log.total_steps else None)


def evaluated_run(run: RlRun, job: RlJob, scenario: Scenario, library: Library) -> EvaluatedRl:
    """Return a run of a plan with everything behind its names; `InputError` where the scenario lacks its offers."""
    offers = dict(scenario.labelled_offers())
    if unknown := run.offers_named - offers.keys():
        problem = f"the scenario has no offer {', '.join(sorted(unknown))}"
        raise InputError([Fault("plan", 0, run.name, problem, "give the scenario of the plan")])
    return evaluate_rl(NamedRl.of(run), job, scenario, offers, library)


# `calibrate`: the entry for `measured`, and what it changes.


def measured_entry(
    job: RlJob | None, log: RlLog, seen: MeasuredSteps, run: EvaluatedRl | Mapping[str, Any]
) -> dict[str, Any]:
    """Return the entry of `measured` for a log: the seconds, the work of the run, and how it was set up.

    The rollout of engines on spot is stated without the losses that the plan has.
    """
    measured, seconds = phase_seconds(log, seen), seen.seconds
    if isinstance(run, EvaluatedRl):
        entry = _set_up(run)
        if (with_losses := measured.get("rollout")) is not None:
            rollout = with_losses * run.sampling_seconds(run.step) / run.phases.rollout
            trainer = measured.get("log_probabilities", 0.0) + measured.get("training", 0.0)
            seconds -= with_losses - (max(rollout, trainer) if run.named.overlapped else rollout)
            measured["rollout"] = rollout
    else:
        entry = dict(run)
    entry |= {"step_seconds": round_digits(seconds)}
    entry |= {f"{name}_seconds": round_digits(measured[name]) for name in TIMED_PHASES if name in measured}
    work = None if job is None else job.work
    if work is not None:
        entry |= {"prompts": work.prompts, "answers": work.answers, "updates": work.updates}
        entry |= {
            "input_tokens": work.input_tokens,
            "output_tokens": work.mean_output,
            "output_cv": round_digits(spread_of(work)),
        }
    entry |= {"input_tokens": round_digits(seen.prompt)} if seen.prompt else {}
    entry |= {"output_tokens": round_digits(seen.mean)} if seen.mean else {}
    longest = (work.cut_at if work is not None else None) or seen.longest
    if longest is not None and seen.mean is not None:
        entry["longest_output"] = math.ceil(max(longest, seen.mean))
    return entry


def _set_up(made: EvaluatedRl) -> dict[str, Any]:
    """Return how a run of a plan is set up, as an entry of `measured` without what was observed."""
    named, trainer, engines = made.named, made.trainer, made.engines_pool
    setup: dict[str, Any] = {"gpu": trainer.card.name, "gpus": made.training_gpus}
    setup["tensor_parallel"] = named.gpus_per_engine
    if named.rollout_weight_bits != made.job.rollout.weight_bits[0]:
        setup["rollout_weight_bits"] = named.rollout_weight_bits
    setup |= {name: value for name, value in _machines_of_trainer(made).items() if value is not None}
    if named.placement != "colocated":
        setup["rollout_gpus"] = named.rollout_gpus
        setup |= {"rollout_gpu": engines.card.name} if engines.card.name != trainer.card.name else {}
        setup |= {"shares_machine": True} if named.placement == "one machine" else {}
        setup |= {"overlapped": True} if named.overlapped else {}
    if made.rollout is not None and made.step.between:
        setup["weights_gbps"] = round_digits(made.step.between * 8.0 / GB)
    for name in ("method", "activation_checkpointing", "optimizer", "micro_batch"):
        setup[name] = getattr(named, name)
    degrees = {("trainer_" * (name == "tensor_parallel")) + name: getattr(named, name) for name in TRAINER_DEGREES}
    setup |= {name: degree for name, degree in degrees.items() if degree > 1}
    setup |= {"framework": named.framework} if named.framework != made.job.framework[0] else {}
    setup |= {"sharding": named.sharding} if made.training_gpus > 1 else {}
    return setup | ({"weight_bits": named.weight_bits, "lora_rank": named.lora_rank} if named.method != "full" else {})


def _machines_of_trainer(made: EvaluatedRl) -> dict[str, Any]:
    """Return machines, link and network of the trainer where there are several machines or GPUs."""
    offer, count = made.trainer.offer, made.named.trainer.instances
    links = {"nvlink", "nvswitch", "pcie"}
    return {
        "instances": count if count > 1 else None,
        "interconnect": offer.interconnect if offer.gpus > 1 and offer.interconnect in links else None,
        "network_gbps": offer.network_gbps if count > 1 else None,
    }


def calibrate_rl(
    logs: Sequence[str], scenario: Scenario, name: str, run: dict[str, Any], options: SolveOptions | None
) -> CalibrationResult:
    """Return the entry of `measured` for the logs of a run, and the plan of its job before and after.

    `run` has how the run was set up, in the names of the entry, or a plan under `plan`.
    Raises `InputError` for logs that say too little, and for a set-up that cannot be estimated.
    """
    job = next(other for other in scenario.jobs if other.name == name)
    assert isinstance(job, RlJob)
    plan = run.get("plan")
    planned = None if plan is None else run_of_log(plan, scenario, name)[0]
    log = read_rl_logs(logs)
    log = log if planned is None else steps_of_plan(log, planned, job)
    if planned is None and log.waits and "rollout_gpus" not in run:
        problem = "the engines sampled while the trainer worked, on GPUs that the log does not say"
        raise fault(log.file, 1, problem, "give the plan of the run: --plan plan.json")
    seen = measured_steps(log, job.work.updates)
    library = read_library([other.architecture for other in scenario.jobs])
    made = None if planned is None else evaluated_run(planned, job, scenario, library)
    entry = measured_entry(job, log, seen, run if made is None else made)
    observed = Source(CALIBRATE_COMMAND).validate(MeasuredRl, dict(entry))
    architecture = library.architecture(job.architecture)
    predicted = predicted_phases(job, observed, architecture, library)
    factors = run_factors(job, observed, architecture, library)
    notes = log_notes(log, seen, observed.phase_seconds)
    whole = predicted.step_seconds(observed.overlapped)
    if is_implausible_speed(whole, seen.seconds):
        notes.append(
            f"a step takes {seen.seconds / whole:.2g} times its estimate: check GPU, number of GPUs and lengths"
        )
    mean = job.work.mean_output
    if seen.mean is not None and not 1 / GROWTH <= seen.mean / mean <= GROWTH:
        place = f"jobs.{[other.name for other in scenario.jobs].index(name)}.work.output_tokens"
        notes.append(f"answers have another length than the job says: --set {place}={seen.mean:.0f}")
    if planned is not None and any(pool.market == "spot" for pool in planned.pools):
        notes.append("engines are on spot: what the plan loses with them is not counted as rollout")
    text = ", ".join(f"{key}: {_yaml(value)}" for key, value in entry.items())
    changed = change_scenario(scenario, [f"jobs.{name}.measured.{len(job.measured)}={{{text}}}"])
    return CalibrationResult(
        logs=tuple(f"{file} ({log.kind})" for file in log.file.split(", ")),
        step_times=_step_times(seen),
        measured=entry,
        unit="tokens",
        scenario=scenario.name,
        job=name,
        phases=compared_phases(predicted, observed.phase_seconds, factors, observed.overlapped),
        answers=measured_answers(seen, mean, job.work.cut_at),
        before=_outcome(plan if plan is not None else solve(scenario, options), name),
        after=_outcome(solve(changed, options), name),
        notes=tuple(notes),
    )


def measurements(logs: Sequence[str], run: dict[str, SettingValue]) -> CalibrationResult:
    """Return the entry of `measured` for the logs of a run without a scenario, which nothing is compared with."""
    log = read_rl_logs(logs)
    seen = measured_steps(log)
    measured = phase_seconds(log, seen)
    notes = log_notes(log, seen, measured)
    notes.append("compared with nothing: give --plan of the run, or --scenario with its job")
    return CalibrationResult(
        logs=tuple(f"{file} ({log.kind})" for file in log.file.split(", ")),
        step_times=_step_times(seen),
        measured=measured_entry(None, log, seen, run),
        unit="tokens",
        phases=compared_phases(None, measured, None),
        answers=measured_answers(seen, None, None),
        notes=tuple(notes),
    )


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _step_times(seen: MeasuredSteps) -> StepTimes:
    return StepTimes(seconds=seen.seconds, spread=None, steps=seen.steps, dropped=seen.warm_up_steps)


def _outcome(plan: Plan, name: str) -> PlanSummary:
    run = next((run for run in plan.reinforcement if run.name == name), None)
    if run is None:
        return PlanSummary(status=plan.status)
    return PlanSummary(
        status=plan.status,
        gpu=" + ".join(dict.fromkeys(pool.gpu for pool in run.pools)),
        gpus=sum(pool.gpus for pool in run.pools),
        provider=" + ".join(dict.fromkeys(pool.provider for pool in run.pools)),
        method=run.method,
        hours=run.hours.expected,
        hours_low=run.hours.low,
        hours_high=run.hours.high,
        cost_usd=run.cost_usd,
        tokens_per_second=run.sequences * (run.input_tokens + run.output_tokens) / run.step_seconds,
    )

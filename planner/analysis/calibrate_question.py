"""The `measured:` entry of a job from the logs of its training or generation, and what it changes in a plan."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from planner import generation, reinforcement
from planner.analysis.log_files import read_log
from planner.analysis.logged_steps import RunLog, compute_pace, compute_rate, fault
from planner.analysis.rl_logs import is_rl_log
from planner.configurations.compared_runs import Correction, learn_correction, memory_setting, real_units
from planner.configurations.grid import shape_of
from planner.documents.files import file_name, read_text
from planner.documents.tables import parse_json
from planner.documents.validation import MOST_NAMES, Source, meant_name
from planner.errors import Fault, ScenarioError
from planner.estimates.uncertainty import is_implausible_speed
from planner.library.reading import CardNames, read_library
from planner.library.schema import Library
from planner.loading.scenario_file import change_scenario
from planner.results.plan import Plan
from planner.results.run_results import (
    CalibrationResult,
    Comparison,
    GenerationComparison,
    PlanSummary,
    SettingValue,
    StepTimes,
)
from planner.scenario.inference_job import InferenceJob
from planner.scenario.job import Job, Measured, ServedRun
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.notes import describe_observed_run
from planner.solving.prepare import check_is_definite, prepare
from planner.solving.solve import solve_prepared
from planner.subjects import SUBJECTS, check_supported
from planner.units import round_digits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


FULL = "measure with every request sent at once, or as many at one time as the plan has in flight"


@dataclass(frozen=True)
class Measurement:
    """What one file says; lengths are means of a request."""

    file: str
    kind: str
    requests: int
    in_flight: int
    input_tokens: float
    output_tokens: float
    output_tokens_per_second: float
    ttft_seconds: float | None
    tpot_seconds: float | None
    failed: int


def read_measurements(paths: Sequence[str]) -> tuple[Measurement | None, dict[str, Any]]:
    """Return the measurement among files, and the settings of an export that are among them too.

    None and no settings where no file is one of generation; `InputError` where one is that says nothing useful.
    """
    measured, settings = None, {}
    for path in paths:
        text, file = read_text(path), file_name(path)
        if not any(sign in text for sign in ('"output_throughput"', '"benchmarks"', '"tokens_per_second"', '"serve"')):
            continue
        data = parse_json(text, file, "give a JSON of vllm bench serve or guidellm").data
        if not isinstance(data, dict):
            continue
        if "serve" in data and "weight_format" in data:
            settings = data
            continue
        if measured is not None:
            raise fault(file, 1, f"{measured.file} already contains the measurement", "give one at a time")
        if "output_throughput" in data:
            measured = _of_vllm(data, file)
        elif isinstance(data.get("benchmarks"), list):
            measured = _of_guidellm(data["benchmarks"], file)
        elif {"tokens_per_second", "num_requests"} <= data.keys():
            problem = "tokens of prompts and of answers are not apart in it"
            raise fault(file, 1, problem, "use vllm bench serve, as generate.py --measure does")
    if settings and measured is None:
        raise fault(file_name(paths[0]), 1, "settings without a measurement", "give the JSON of generate.py --measure")
    return measured, settings


def _of_vllm(data: dict[str, Any], file: str) -> Measurement:
    """Return what `vllm bench serve --save-result` wrote."""
    requests = int(_number(data, "completed", file))
    rate = data.get("request_rate", "inf")
    if rate not in ("inf", None) and data.get("max_concurrency") is None:
        raise fault(file, 1, f"requests arrived at {rate} per second: the engine may have waited for them", FULL)
    limit = data.get("max_concurrency")
    return Measurement(
        file,
        "vllm bench serve",
        requests,
        min(requests, int(_number(data, "max_concurrency", file)) if limit is not None else requests),
        _number(data, "total_input_tokens", file) / requests,
        _number(data, "total_output_tokens", file) / requests,
        _number(data, "output_throughput", file),
        _milliseconds(data, "mean_ttft_ms", file),
        _milliseconds(data, "mean_tpot_ms", file),
        int(data["failed"]) if isinstance(data.get("failed"), int) else 0,
    )


def _of_guidellm(benchmarks: list[Any], file: str) -> Measurement:
    """Return the fastest of the benchmarks of GuideLLM: the others have fewer requests in flight."""
    measurements = [_of_benchmark(benchmark, file) for benchmark in benchmarks]
    if not measurements:
        raise fault(file, 1, "benchmarks is empty", "give the JSON of a finished run of guidellm")
    return max(measurements, key=lambda measurement: measurement.output_tokens_per_second)


def _of_benchmark(benchmark: Any, file: str) -> Measurement:
    metrics = benchmark.get("metrics") if isinstance(benchmark, dict) else None
    if not isinstance(metrics, dict):
        raise fault(file, 1, "a benchmark without metrics", "give the JSON of a finished run of guidellm")

    def mean(name: str) -> dict[str, Any]:
        part = metrics.get(name)
        done = part.get("successful") if isinstance(part, dict) else None
        return {name: done.get("mean")} if isinstance(done, dict) else {}

    def figure(name: str) -> float:
        return _number(mean(name), name, file)

    totals = metrics.get("request_totals")
    totals = totals if isinstance(totals, dict) else {}
    requests = int(_number(totals, "successful", file))
    flight = min(requests, max(1, round(figure("request_concurrency"))))
    return Measurement(
        file, "guidellm", requests, flight,
        figure("prompt_token_count"), figure("output_token_count"), figure("output_tokens_per_second"),
        _milliseconds(mean("time_to_first_token_ms"), "time_to_first_token_ms", file),
        _milliseconds(mean("inter_token_latency_ms"), "inter_token_latency_ms", file),
        int(totals["errored"]) if isinstance(totals.get("errored"), int) else 0,
    )  # fmt: skip


def _milliseconds(data: dict[str, Any], key: str, file: str) -> float | None:
    """Return seconds; None where they are not there, or 0 because answers have one token."""
    return _number(data, key, file) / 1000.0 if data.get(key) else None


def _number(data: dict[str, Any], key: str, file: str) -> float:
    """Return a figure; `InputError` where it is missing or cannot be one."""
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e15 or math.isnan(value):
        problem = f"{key} is missing" if value is None else f"{key} is {str(value)[:40]}"
        raise fault(file, 1, problem, "a number above 0; is it the file of a finished measurement?")
    return float(value)


# The `measured` entry of a job of generation from a measurement, and what the entry changes in a plan.


CALIBRATE_COMMAND = "planner calibrate"


def generation_entry(
    measured: Measurement, settings: Mapping[str, Any], gpu: str, gpus: int, job: InferenceJob | None
) -> dict[str, SettingValue]:
    """Return the entry for `measured` of a job of generation.

    Engine and formats are those of the exported settings, else those of the job where it has one of each.
    """
    entry: dict[str, SettingValue] = {"engine": _one("engine", settings, job), "gpu": gpu}
    replica = settings.get("gpus_per_replica", gpus)
    tensor = settings.get("tensor_parallel", replica)
    if replica != 1:
        entry |= {"gpus": replica, "tensor_parallel": tensor}
    entry["weight_format"] = _one("weight_format", settings, job)
    bits = settings.get("kv_bits", 16)
    prefix = settings.get("prefix_tokens", 0 if job is None else job.work.prefix_tokens)
    entry |= {"kv_bits": bits} if bits != 16 else {}
    entry |= {
        "input_tokens": round_digits(measured.input_tokens),
        "output_tokens": round_digits(measured.output_tokens),
        **({"prefix_tokens": prefix} if prefix else {}),
        "in_flight": measured.in_flight,
        "requests": measured.requests,
        "output_tokens_per_second": round_digits(measured.output_tokens_per_second),
    }
    for name in ("ttft_seconds", "tpot_seconds"):
        value = getattr(measured, name)
        entry |= {name: round_digits(value)} if value else {}
    Source(CALIBRATE_COMMAND).validate(ServedRun, dict(entry))
    return entry


def _one(name: str, settings: Mapping[str, Any], job: InferenceJob | None) -> str:
    """Return engine or format: of the exported settings, else the only one that the job allows."""
    if isinstance(settings.get(name), str):
        return str(settings[name])
    allowed = None if job is None else getattr(job.techniques, name)
    if not allowed or len(allowed) != 1:
        problem = f"the {name} of the measurement is not known"
        fix = f"give generate.json of the export too, or a scenario whose job names one techniques.{name}"
        raise ScenarioError([Fault(CALIBRATE_COMMAND, 0, name, problem, fix)])
    return str(allowed[0])


def calibrate_generation(
    measured: Measurement,
    settings: Mapping[str, Any],
    card: str,
    gpus: int,
    scenario: Scenario | None,
    job: Job | None,
    outcomes: Callable[[Scenario, Scenario, str], dict[str, Any]],
) -> CalibrationResult:
    """Return the entry, and with a scenario the comparison with the estimate and the plan before and after.

    `outcomes(before, after, job)` solves both scenarios.
    """
    if job is not None and not isinstance(job, InferenceJob):
        problem = f"{measured.file} measures generation, and {job.name} is a job of training"
        raise ScenarioError([Fault(CALIBRATE_COMMAND, 0, "--job", problem, "name a job of kind: inference")])
    entry = generation_entry(measured, settings, card, gpus, job)
    notes = [f"{measured.failed:,} requests failed: they do not count"] if measured.failed else []
    result = CalibrationResult(
        logs=(f"{measured.file} ({measured.kind})",), step_times=None, measured=entry, unit="output tokens",
        notes=tuple(notes),
    )  # fmt: skip
    if scenario is None or job is None:
        return result
    text = ", ".join(f"{key}: {value}" for key, value in entry.items())
    changed = change_scenario(scenario, [f"jobs.{job.name}.measured.{len(job.measured)}={{{text}}}"])
    after = next(changed_job for changed_job in changed.jobs if changed_job.name == job.name)
    assert isinstance(after, InferenceJob)
    library = read_library([scenario_job.architecture for scenario_job in scenario.jobs])
    run = after.measured[-1]
    predicted = generation.predicted_run(run, after, library.architecture(after.architecture), library)
    rate = run.output_tokens_per_second
    if is_implausible_speed(rate, predicted.output_tokens_per_second):
        ratio = rate / predicted.output_tokens_per_second
        notes.append(f"{ratio:.2g} times the estimate: check GPU, number of GPUs, format and lengths")
    compared = GenerationComparison(
        engine=run.engine,
        gpu=run.gpu,
        weight_format=run.weight_format,
        output_tokens_per_second=rate,
        predicted_output_tokens_per_second=predicted.output_tokens_per_second,
        ttft_seconds=run.ttft_seconds,
        predicted_ttft_seconds=predicted.ttft_seconds,
        tpot_seconds=run.tpot_seconds,
        predicted_tpot_seconds=predicted.tpot_seconds,
    )
    more = {"scenario": scenario.name, "job": job.name, "generation": compared, "notes": tuple(notes)}
    return result.model_copy(update={**more, **outcomes(scenario, changed, job.name)})


_DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel")
"""Settings that take GPUs from the data-parallel ranks."""


def calibrate(
    logs: Sequence[str],
    gpu: str | None = None,
    gpus: int = 1,
    scenario: Scenario | None = None,
    job: str | None = None,
    tokens_per_step: float | None = None,
    options: SolveOptions | None = None,
    **settings: Any,
) -> CalibrationResult:
    r"""Return the `measured` entry that the logs of one run support; with a scenario also what it changes.

    `logs` are paths of files of one run: one with its time, one with its memory, or both.
    `settings` are those of the run in the spelling of the scenario file, such as `method` or `micro_batch`.
    `tokens_per_step` are the real tokens of one optimizer step over all GPUs; without it those of the scenario's job.
    A run of reinforcement learning has `plan`, its plan, in place of `gpu`, `gpus` and settings; with its scenario.
    Raises `InputError` for logs that cannot be read or say too little, and for settings that do not work together.

    >>> log = "step,elapsed_seconds\n" + "".join(f"{step},{2.5 * step}\n" for step in range(1, 41))
    >>> _ = Path("steps.csv").write_text(log)
    >>> found = planner.calibrate(["steps.csv"], "A10G", tokens_per_step=8192, method="lora", weight_bits=4)
    >>> found.measured["tokens_per_second"]
    3277.0
    """
    if scenario is not None:
        check_supported(scenario, "calibrate")
    own = _by_subject(logs, {"gpu": gpu, "gpus": gpus, **settings}, scenario, job, options)
    if own is not None:
        return own
    card = _card(gpu)
    measured, exported = read_measurements(logs)
    if measured is not None:
        measured_job = _job_of(scenario, job) if scenario is not None else None
        return calibrate_generation(
            measured, exported, card, gpus, scenario, measured_job, partial(_before_and_after, options)
        )
    # Settings are computed with before there is an observation: any peak will do.
    Source(CALIBRATE_COMMAND).validate(Measured, {"gpu": card, "gpus": gpus, "peak_vram_gib": 1.0, **settings})
    asked = _trained_job(scenario, job, logs)
    read = [read_log(path) for path in logs]
    for log in read:
        _check_gpus(log, gpus)
    timed = _only([log for log in read if log.step_seconds or log.whole or log.rates], "the speed of the run")
    sized = _only([log for log in read if log.peak_gib is not None], "the memory use of the run")
    pace: StepTimes | None = None
    entry: dict[str, SettingValue] = {"gpu": card, "gpus": gpus}
    notes: list[str] = []
    settings = {**_from_log(timed, settings, gpus, notes), **settings}
    if timed is not None:
        speed, pace = _speed(timed, asked, {"gpus": gpus, **settings}, tokens_per_step, notes)
        entry["tokens_per_second"] = round_digits(speed)
        notes += timed.notes
    if sized is not None and sized.peak_gib is not None:
        entry |= {"peak_vram_gib": round_digits(sized.peak_gib), "peak_kind": str(sized.peak_kind)}
    entry |= settings
    Source(CALIBRATE_COMMAND).validate(Measured, dict(entry))
    result = CalibrationResult(
        logs=tuple(f"{log.file} ({log.kind})" for log in read),
        step_times=pace,
        measured=entry,
        unit="images" if asked is not None and asked.work.images is not None else "tokens",
        notes=tuple(notes),
    )
    return result if scenario is None or asked is None else _in_scenario(result, scenario, asked, options)


def _check_gpus(log: RunLog, gpus: int) -> None:
    """Refuse a number of GPUs that the figures of a log contradict: its speed is that of all of them."""
    if log.gpus is not None and log.gpus != gpus:
        problem = f"the log is of a run on {log.gpus} GPUs, by its figures of all and of each device"
        raise fault(log.file, 1, problem, f"give --gpus {log.gpus}", "--gpus")


def _speed(
    log: RunLog, job: Job | None, settings: Mapping[str, Any], given: float | None, notes: list[str]
) -> tuple[float, StepTimes | None]:
    """Return the tokens per second over all GPUs, and the pace where the log times steps."""
    gpus = settings["gpus"]
    is_known = given is not None or job is not None or log.tokens_per_step is not None
    if log.rates and (not is_known or not log.step_seconds or (given is None and log.counts_micro_batches)):
        rate = compute_rate(log)
        notes.append(f"{rate:,.1f} tokens per second of one GPU as the log states them, times {gpus} GPUs")
        return rate * gpus, None
    pace = compute_pace(log)
    assert pace is not None
    if log.counts_micro_batches:
        micro_batches = _micro_batches(settings, job)
        if micro_batches is not None:
            pace = pace.model_copy(update={"seconds": pace.seconds * micro_batches})
            notes.append(f"a step is {micro_batches} micro-batches, which the log times one by one")
            log = replace(log, tokens_per_step=log.tokens_per_step * micro_batches if log.tokens_per_step else None)
        elif given is not None or log.tokens_per_step is None:
            problem = "times micro-batches, and does not say how many make an optimizer step"
            raise fault(log.file, 1, problem, "give --accumulation-steps")
        else:
            notes.append("times and tokens are those of micro-batches: the log does not say how many make a step")
            return log.tokens_per_step / pace.seconds, None
    tokens, how = _tokens(log, job, settings, given)
    notes.append(how)
    if pace.spread is None and log.whole is not None and not log.step_seconds:
        notes.append("only the whole run is timed: warm-up and saving count as training")
    return tokens / pace.seconds, pace


def _micro_batches(settings: Mapping[str, Any], job: Job | None) -> int | None:
    """Return the micro-batches of one optimizer step on each GPU, as the settings or the job say; None if neither."""
    if "accumulation_steps" in settings:
        return int(settings["accumulation_steps"])
    batch = settings.get("global_batch", job.global_batch if job is not None else None)
    if batch is None or "micro_batch" not in settings:
        return None
    ranks = settings["gpus"] // math.prod(settings.get(name, 1) for name in _DEGREES)
    micro_batches = batch / (settings["micro_batch"] * max(1, ranks))
    return int(micro_batches) if micro_batches.is_integer() and micro_batches >= 1 else None


def _by_subject(
    logs: Sequence[str], run: dict[str, Any], scenario: Scenario | None, job: str | None, options: SolveOptions | None
) -> CalibrationResult | None:
    """Return what the package of the job says of the logs; None where the core reads them."""
    asked = None if scenario is None else _job_of(scenario, job)
    subject = None if asked is None or asked.subject is None else SUBJECTS[asked.subject]()
    is_own = subject is not None and subject.reads_logs
    if "plan" in run and not is_own:
        problem = "a plan of reinforcement learning goes with the scenario of its job"
        raise ScenarioError([Fault(CALIBRATE_COMMAND, 0, "plan", problem, "give it, or the GPU of the run")])
    run = {"plan": run["plan"]} if "plan" in run else {**run, "gpu": _card(run["gpu"])}
    if subject is not None and scenario is not None and asked is not None and is_own:
        return subject.calibrate(logs, scenario, asked.name, run, options)
    if scenario is None and any(map(is_rl_log, logs)):
        return reinforcement.measurements(logs, run)
    return None


def _trained_job(scenario: Scenario | None, name: str | None, logs: Sequence[str]) -> Job | None:
    """Return the job of a scenario that was trained; logs of reinforcement learning are refused for it."""
    if scenario is None:
        return None
    check_is_definite(scenario)
    job = _job_of(scenario, name)
    if (path := next(filter(is_rl_log, logs), None)) is not None:
        problem = f"is a log of reinforcement learning, and {job.name} is another job"
        raise fault(file_name(path), 1, problem, "name a job of kind: rl", "--job")
    return job


def _card(gpu: str | None) -> str:
    if gpu is None:
        raise ScenarioError([Fault(CALIBRATE_COMMAND, 0, "--gpu", "the GPU of the run is missing", "give its name")])
    names = CardNames("gpus")
    card = names.canonical(gpu)
    if card is None:
        raise ScenarioError([Fault(CALIBRATE_COMMAND, 0, "--gpu", f"unknown GPU {gpu!r}", names.suggestion(gpu))])
    return card


def _job_of(scenario: Scenario, name: str | None) -> Job:
    names = [job.name for job in scenario.jobs]
    name = name if name is None else meant_name(name, names, "--job", f"{scenario.name} has no job")
    jobs = [job for job in scenario.jobs if name in (None, job.name)]
    if len(jobs) != 1:
        named = [job.name for job in jobs if job.subject is None or SUBJECTS[job.subject]().reads_logs]
        fix = f"name one, such as {' or '.join(named[:MOST_NAMES])}"
        raise ScenarioError([Fault(CALIBRATE_COMMAND, 0, "--job", f"{scenario.name} has several jobs", fix)])
    return jobs[0]


def _only(logs: Sequence[RunLog], what: str) -> RunLog | None:
    if len(logs) > 1:
        raise fault(logs[1].file, 1, f"{logs[0].file} already contains {what}", "give the logs of one run at a time")
    return logs[0] if logs else None


def _from_log(log: RunLog | None, given: Mapping[str, Any], gpus: int, notes: list[str]) -> dict[str, SettingValue]:
    """Return the batch sizes of the log, unless the settings give any."""
    if log is None or any(key in given for key in ("micro_batch", "accumulation_steps", "global_batch")):
        return {}
    settings: dict[str, SettingValue] = {}
    if log.micro_batch is not None:
        settings["micro_batch"] = log.micro_batch
    ranks = gpus // math.prod(given.get(name, 1) for name in _DEGREES)
    if log.global_batch is not None and log.global_batch % max(1, ranks * (log.micro_batch or 1)) == 0:
        settings["global_batch"] = log.global_batch
    elif log.possible_batches is not None:
        notes.append(_left_out(log.possible_batches))
    if settings:
        verb = "are" if len(settings) > 1 else "is"
        notes.append(f"{' and '.join(settings)} {verb} taken from the log".replace("_", " "))
    return settings


def _left_out(batches: range) -> str:
    """Return why the global batch of a log is not used: its figures are rounded, and fit several."""
    return f"global batch is left out: the rounded rates of the log fit {batches[0]} to {batches[-1]} samples per step"


def _tokens(log: RunLog, job: Job | None, settings: Mapping[str, Any], given: float | None) -> tuple[float, str]:
    """Return the real tokens (images) of one optimizer step, and the source of the figure."""
    if given is not None:
        return given, f"{given:,.0f} tokens per step as given"
    if job is not None:
        architecture = read_library([job.architecture]).architecture(job.architecture)
        length = settings.get("sequence_length") or job.sequence_length
        shape = shape_of(job.model_copy(update={"sequence_length": length}), architecture)
        batch = _batch(settings, job)
        tokens = batch * real_units(job, shape)
        unit = "images" if shape.unit == "images" else "real tokens"
        return tokens, f"{tokens:,.0f} {unit} per step: {batch:,} of the job's sequences"
    if log.tokens_per_step is not None:
        tokens = log.tokens_per_step
        padding = "possibly with padding" if log.counts_padding else "without padding"
        return tokens, f"{tokens:,.0f} tokens per step as counted in the log, {padding}"
    fix = "give --tokens-per-step, or --scenario with --job"
    raise fault(log.file, 1, "the tokens per step are missing", fix)


def _batch(settings: Mapping[str, Any], job: Job) -> int:
    """Return the sequences of one optimizer step: those of the run, else those of the job."""
    if "global_batch" in settings or not {"micro_batch", "accumulation_steps"} <= set(settings):
        return int(settings.get("global_batch", job.global_batch))
    ranks = settings["gpus"] // math.prod(settings.get(name, 1) for name in _DEGREES)
    return int(settings["micro_batch"] * settings["accumulation_steps"] * ranks)


def _in_scenario(
    result: CalibrationResult, scenario: Scenario, job: Job, options: SolveOptions | None
) -> CalibrationResult:
    """Add the comparison of the run with its estimate, and the plan before and after."""
    entry = ", ".join(f"{key}: {value}" for key, value in result.measured.items())
    changed = change_scenario(scenario, [f"jobs.{job.name}.measured.{len(job.measured)}={{{entry}}}"])
    after = next(changed_job for changed_job in changed.jobs if changed_job.name == job.name)
    library = read_library([scenario_job.architecture for scenario_job in scenario.jobs])
    learned = learn_correction(after, library.architecture(job.architecture), library)
    run = after.measured[-1]
    compared = _compare_run(after, run, learned, library)
    notes = [*result.notes, *_doubts(run, compared, learned)]
    told = {"scenario": scenario.name, "job": job.name, "compared": compared, "notes": tuple(notes)}
    return result.model_copy(update={**told, **_before_and_after(options, scenario, changed, job.name)})


def _before_and_after(options: SolveOptions | None, scenario: Scenario, changed: Scenario, job: str) -> dict[str, Any]:
    """Return the plan of a job without and with what was learned."""
    before = prepare(scenario, read_library([scenario_job.architecture for scenario_job in scenario.jobs]))
    plans = [solve_prepared(prepared, options) for prepared in (before, prepare(changed, before.library, before))]
    return {"before": _outcome(plans[0], job), "after": _outcome(plans[1], job)}


def _compare_run(job: Job, run: Measured, learned: Correction, library: Library) -> Comparison | None:
    """Return the comparison of the run with its estimate; None where nothing can be compared."""
    observed = next((learned_run for learned_run in learned.runs if learned_run.run is run), None)
    if observed is None:
        return None
    probed = learned.probed.get(memory_setting(observed.recipe, observed.machine.gpus))
    shown = describe_observed_run(observed, job, library)
    return Comparison(
        **{name: figure for name, figure in shown if name in Comparison.model_fields},
        speed_factor=learned.speed_factor(library),
        memory_factor=probed.scale if probed else 1.0,
    )


def _doubts(run: Measured, compared: Comparison | None, learned: Correction) -> list[str]:
    """Return notes on what may be wrong with a run."""
    if compared is None:
        why = next((why for unused_run, why in learned.unused if unused_run is run), "")
        return [f"the run does not change the estimates: {why}"]
    speed, predicted = run.tokens_per_second, compared.predicted_tokens_per_second
    if speed is not None and is_implausible_speed(speed, predicted):
        return [f"{speed / predicted:.2g} times the estimate: check unit, GPU and settings"]
    return []


def _outcome(plan: Plan, name: str) -> PlanSummary:
    job = next((job for job in plan.jobs if job.name == name), None)
    if job is None:
        return PlanSummary(status=plan.status)
    return PlanSummary(
        status=plan.status,
        gpu=job.gpu,
        gpus=job.gpus,
        provider=job.provider,
        method=job.techniques.method,
        hours=job.hours.expected,
        hours_low=job.hours.low,
        hours_high=job.hours.high,
        cost_usd=job.cost_usd,
        tokens_per_second=job.tokens_per_second,
    )

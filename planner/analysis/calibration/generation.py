"""The `measured` entry of a job of generation from a measurement, and what the entry changes in a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.configurations.replicas.measured import predicted_run
from planner.documents.source_map import Source
from planner.errors import Fault, ScenarioError
from planner.estimates.observed_runs import is_implausible_speed
from planner.library.reading import read_library
from planner.loading.scenario_file import change_scenario
from planner.results.calibration import CalibrationResult, GenerationComparison, SettingValue
from planner.scenario.inference import InferenceJob
from planner.scenario.observed_run import ServedRun
from planner.units import round_digits

CALIBRATE_COMMAND = "planner calibrate"

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from planner.analysis.calibration.generation_logs import Measurement
    from planner.scenario.job import Job
    from planner.scenario.scenario import Scenario


def generation_entry(
    measured: Measurement, settings: Mapping[str, Any], gpu: str, gpus: int, job: Job | None
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
    prefix = settings.get("prefix_tokens", job.work.prefix_tokens if isinstance(job, InferenceJob) else 0)
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


def _one(name: str, settings: Mapping[str, Any], job: Job | None) -> str:
    """Return engine or format: of the exported settings, else the only one that the job allows."""
    if isinstance(settings.get(name), str):
        return str(settings[name])
    found = getattr(job.techniques, name) if isinstance(job, InferenceJob) else None
    if not found or len(found) != 1:
        what = f"the {name} of the measurement is not known"
        fix = f"give generate.json of the export too, or a scenario whose job names one techniques.{name}"
        raise ScenarioError([Fault(CALIBRATE_COMMAND, 0, name, what, fix)])
    return str(found[0])


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
        what = f"{measured.file} measures generation, and {job.name} is a job of training"
        raise ScenarioError([Fault(CALIBRATE_COMMAND, 0, "--job", what, "name a job of kind: inference")])
    entry = generation_entry(measured, settings, card, gpus, job)
    notes = [f"{measured.failed:,} requests failed: they do not count"] if measured.failed else []
    result = CalibrationResult(
        logs=(f"{measured.file} ({measured.kind})",), step_times=None, measured=entry, unit="output tokens",
        notes=tuple(notes),
    )  # fmt: skip
    if scenario is None or not isinstance(job, InferenceJob):
        return result
    text = ", ".join(f"{key}: {value}" for key, value in entry.items())
    changed = change_scenario(scenario, [f"jobs.{job.name}.measured.{len(job.measured)}={{{text}}}"])
    after = next(one for one in changed.jobs if one.name == job.name)
    assert isinstance(after, InferenceJob)
    library = read_library([one.architecture for one in scenario.jobs])
    run = after.measured[-1]
    predicted = predicted_run(run, after, library.architecture(after.architecture), library)
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

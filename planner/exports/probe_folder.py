"""Files that run the step of a plan some twenty times on its machine, with the trainer's own settings."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from planner.documents.files import data_folder
from planner.documents.strict_yaml import yaml_text
from planner.documents.tables import json_text, read_json
from planner.errors import Fault, InputError, LibraryError, raise_faults
from planner.exports.export import export_faults
from planner.exports.facts import Given, Wishes, job_facts, unknown_values
from planner.exports.field_map import Facts, FieldMap, field_maps
from planner.exports.machine_names import MEETING_PORT, start_command, task_name
from planner.exports.run_script import GIVE_BACK, VARIABLES, usd_per_hour
from planner.exports.script_parts import (
    commented,
    environment_lines,
    environment_remark,
    requirements,
    split_packages,
    trying_lines,
    wrapped,
    written_by,
)
from planner.library.config_writer import config_of, decoder_config
from planner.library.reading import read_library
from planner.results.plan import plan_fingerprint
from planner.results.plan_parts import describe_machines
from planner.scenario.job import Job

if TYPE_CHECKING:
    from collections.abc import Sequence

TRAINER = "trl"
"""The trainer that a probe runs: the first that an export takes."""
PROBE_RUN, PROGRAM, PROBE_PLANNED = "probe.sh", "probe.py", "planned.json"
PROBE_RESULT, DATA = "probe.json", "data.jsonl"
STEPS, LEAST_STEPS = 20, 5
SECONDS = 150.0
"""What the steps may take together, where the plan is right: with loading some three minutes."""
_MOST_TOKENS = 4_000_000
"""Tokens of made-up data at most: a short file is read again and again."""
_CLASSES = 32
"""Lengths that replace a log-normal distribution, all equally frequent."""


def probe_steps(step_seconds: float) -> int:
    """Return the steps of a probe: twenty, fewer where they would take long, and at least five."""
    return max(LEAST_STEPS, min(STEPS, int(SECONDS / max(step_seconds, 1e-9))))


def probe_files(given: Given, file: str, steps: int | None = None) -> dict[str, str]:
    """Return the files of a probe by name; `InputError` where the job is none that it can run.

    The settings are those of the export: same fields, from the same facts. Other are weights, data and the number of
    steps, and nothing is saved.
    """
    job = given.job
    where = f"jobs.{job.name}"
    asked = next(one for one in given.scenario.jobs if one.name == job.name)
    if job.inference is not None or not isinstance(asked, Job):
        fix = "measure it with the benchmark of its engine: planner export, then planner calibrate"
        raise InputError([Fault(file, 0, where, "a probe trains, and this job generates", fix)])
    if asked.tuning != "sft":
        fix = "train twenty steps, then planner calibrate"
        raise InputError([Fault(file, 0, where, f"a probe is of supervised fine-tuning, not of {asked.tuning}", fix)])
    if unknown := unknown_values(job):
        fix = "planner check lists every edited figure; re-solve the scenario"
        raise InputError([Fault(file, 0, where, f"unknown: {', '.join(unknown)}", fix)])
    tool, count = field_maps()[TRAINER], steps or probe_steps(job.step_seconds)
    facts = job_facts(given, Wishes("model", DATA), on_task=False) | {
        **{"steps": count, "steps_before": 0, "saves": False, "save_steps": None, "output_dir": "out"},
        **{"needs_token": False, "result": None, "result_remarks": []},
    }
    raise_faults(export_faults(tool, facts, where, file))
    planned = _planned(given, tool, asked, facts, count, file)
    return {
        PROBE_RUN: _run_script(given, tool, facts, count),
        PROGRAM: (data_folder("models") / "exports" / PROGRAM).read_text(encoding="utf-8"),
        PROBE_PLANNED: json_text(planned) + "\n",
        tool.file: _settings(given, tool, facts),
        **tool.files_of(facts),
        "requirements.txt": requirements(tool, facts, job.gpu),
    }


def _settings(given: Given, tool: FieldMap, facts: Facts) -> str:
    """Return the settings of the trainer: those of the export, for the made-up model and data."""
    lines = [
        f"Probe of job {given.job.name} of plan {given.plan.scenario}, for {tool.label} {tool.version}: the fields of",
        "the export, on random weights and data, for a few steps. Nothing is saved.",
        written_by(given.plan),
    ]
    return commented(wrapped(lines)) + yaml_text(tool.settings(facts))


def _planned(given: Given, tool: FieldMap, asked: Job, facts: Facts, steps: int, file: str) -> dict[str, Any]:
    """Return what the program reads: the network, the samples, the trainer, and what the result must say of the run."""
    job = given.job
    used = job.techniques.model_dump(exclude_none=True)
    run = {
        **{name: value for name, value in used.items() if name != "framework"},
        "framework": job.framework or job.techniques.framework,
        **{"gpus": job.gpus, "instances": job.instances, "sequence_length": job.sequence_length},
        **{"global_batch": job.global_batch, "packing": job.packing, "trains_embeddings": facts["trains_embeddings"]},
    }
    return {
        "plan": plan_fingerprint(given.plan),
        "steps": steps,
        "processes": job.gpus_per_instance,
        "entry": tool.entry[0],
        "arguments": list(tool.entry[1:]),
        "data": DATA,
        "samples": _samples(asked, job.sequence_length, job.global_batch, steps),
        "run": run,
        "config": _config(asked.architecture, job.architecture, f"jobs.{job.name}.architecture", file),
    }


def _config(asked: str, name: str, where: str, file: str) -> dict[str, Any]:
    """Return the config.json of a model: the file that the job names, else one of the shape that is known."""
    if asked.endswith(".json"):
        return decoder_config(read_json(asked, "give the config.json that the plan was made with").data)
    (card,) = read_library([name]).architectures.values()
    try:
        return config_of(card)
    except LibraryError as error:
        fault = error.faults[0]
        raise InputError([Fault(file, 0, where, fault.what, fault.fix)]) from None


def _samples(asked: Job, sequence: int, batch: int, steps: int) -> list[tuple[int, int]]:
    """Return tokens and number of the samples: those of whole steps, in the lengths that the plan counts with."""
    most = max(1, min(steps, _MOST_TOKENS // (batch * sequence)))
    mean = asked.work.tokens_per_sample
    if asked.packing == "fixed" or mean is None:
        return [(sequence, most * batch)]
    classes = _classes(asked.work.sample_lengths, mean, asked.length_cv)
    kept = [(max(2, min(sequence, tokens)), share) for tokens, share in classes]
    length = math.fsum(tokens * share for tokens, share in kept)
    samples = most * batch * (sequence / length if asked.packing == "packed" else 1.0)
    return [(tokens, max(1, math.ceil(samples * share))) for tokens, share in kept]


def _classes(table: Sequence[tuple[float, int]], mean: float, spread: float) -> list[tuple[int, float]]:
    """Return lengths and their shares: of a table, else of a log-normal distribution of a mean and a spread."""
    if table:
        total = sum(count for _, count in table)
        return [(round(tokens), count / total) for tokens, count in table]
    if spread <= 0:
        return [(round(mean), 1.0)]
    sigma = math.sqrt(math.log1p(spread**2))
    at = [NormalDist().inv_cdf((index + 0.5) / _CLASSES) for index in range(_CLASSES)]
    return [(round(mean * math.exp(sigma * z - sigma**2 / 2)), 1 / _CLASSES) for z in at]


def _run_script(given: Given, tool: FieldMap, facts: Facts, steps: int) -> str:
    """Return the script that one machine runs."""
    job, several = given.job, given.job.instances > 1
    start = start_command(tool, facts, MEETING_PORT)
    usd = usd_per_hour(given)
    about = [
        f"Probe of job {job.name} of plan {given.plan.scenario}: {steps} steps with random weights and tokens.",
        written_by(given.plan),
        f"Machines: {describe_machines(job.gpus, job.gpu)} at {job.provider}"
        + (f", ${usd:,.2f} per hour from the first minute on." if usd is not None else "."),
        f"Run: bash {PROBE_RUN}, on the machine; it writes {PROBE_RESULT}, and needs no data, no weights and no token",
        f"Then: planner calibrate {PROBE_RESULT} --plan plan.json; or {GIVE_BACK}",
        f"Note: {environment_remark(job.gpu)}",
        f"Note: the random weights take {_weights_gb(job.architecture):,.0f} GB of disk, which the run needs too",
    ]
    if several:
        about.append("Note: every machine runs it, with NODE_RANK and HEAD_IP set; the result is that of machine 0")
    lines = [
        "set -euo pipefail",
        'cd "$(dirname "$0")"',
        *(f"{name}={value}" for name, value in VARIABLES.items() if several),
        *environment_lines(task_name(job)),
        "pip install -r requirements.txt",
        *(f"pip install {package}" for package in split_packages(tool, facts)[1]),
        *trying_lines(facts),
        f"python {PROGRAM} make",
        "# To run out of memory is a result: the last line says how it ended.",
        "ended=0",
        f"{start} {PROGRAM} train || ended=$?",
        f'python {PROGRAM} sum "$ended"',
    ]
    return "#!/usr/bin/env bash\n" + commented(wrapped(about)) + "\n".join(lines) + "\n"


def _weights_gb(name: str) -> float:
    (card,) = read_library([name]).architectures.values()
    return card.download_gb

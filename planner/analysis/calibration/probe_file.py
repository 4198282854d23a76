"""What the program of a probe wrote on the rented machine, read back and held against its plan."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from planner.documents.overrides import Source
from planner.documents.quantities import NotNegative, Positive, PositiveInteger, StrictModel
from planner.documents.tables import read_json
from planner.errors import Fault, InputError
from planner.library.reading import CardNames, read_library
from planner.results.plan import Assignment

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
    found: ProbeFile = Source(document.file, document).validate(ProbeFile, document.data)
    if found.status == "failed":
        what = f"the probe failed at {found.reached or 'its start'}: {found.error or 'no reason was written'}"
        raise InputError([document.fault(("status",), what, "read what probe.sh printed, and run it again")])
    if found.gpu_gib is None:
        raise InputError([document.fault(("gpu_name",), "was measured without a GPU", "run probe.sh there")])
    if found.status == "ok" and (found.step_seconds is None or found.allocated_gib is None):
        raise InputError([document.fault(("steps",), "no step was measured", "run probe.sh again")])
    return found


def check_is_of(probe: ProbeFile, file: str, job: Assignment, fingerprint: str) -> None:
    """Raise `InputError` where a probe ran another plan, another job of it, or on other GPUs."""
    faults = []
    if probe.plan != fingerprint:
        fix = "give the plan that planner probe was given, or probe this one"
        faults.append(Fault(file, 0, "plan", "the probe is of another plan", fix))
    fix = "give that machine back, or plan with its GPU: limits.gpus"
    card, planned_gib = known_gpu(probe), read_library().gpu(job.gpu).vram_gib
    if card is not None and card != job.gpu:
        what = f"was measured on {probe.gpu_name}, and {job.name} is planned on {job.gpu}"
        faults.append(Fault(file, 0, "gpu_name", what, fix))
    elif not _LEAST_SEEN * planned_gib <= (probe.gpu_gib or 0.0) <= _MOST_SEEN * planned_gib:
        what = f"was measured on a GPU of {probe.gpu_gib:g} GiB, and {job.gpu} has {planned_gib:g}"
        faults.append(Fault(file, 0, "gpu_gib", what, fix))
    if probe.gpus != job.gpus:
        what = f"was measured on {probe.gpus} GPUs, and {job.name} is planned on {job.gpus}"
        faults.append(Fault(file, 0, "gpus", what, "name the job that was probed with --job"))
    used = job.techniques.model_dump()
    names = [name for name in used if name in probe.run and name != "framework"]  # that of the job may be another
    other = [name for name in names if _plain(probe.run[name]) != _plain(used[name])]
    if other and not faults:
        what = f"ran {other[0]} {probe.run[other[0]]}, and {job.name} is planned with {used[other[0]]}"
        faults.append(Fault(file, 0, f"run.{other[0]}", what, "name the job that was probed with --job"))
    if faults:
        raise InputError(faults)


def known_gpu(probe: ProbeFile) -> str | None:
    """Return the GPU that the driver named; None for a name that no GPU of the library has."""
    return CardNames("gpus").canonical(probe.gpu_name or "")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value

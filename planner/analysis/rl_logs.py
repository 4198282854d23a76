r"""Logs of reinforcement learning by TRL, verl and NeMo-RL: seconds of each phase of a step, and lengths of answers.

Names of keys are those of the sources:

- TRL 1.10.0.dev0 (f2cd577), trl/trainer/grpo_trainer.py and trl/extras/profiling.py: `step_time` is one optimizer step
  with its share of the sampling, `completions/mean_length` and `completions/max_length` are of all answers. Phases are
  in Weights & Biases, MLflow and trackio alone: a row for each call, `profiling/Time taken: GRPOTrainer.vLLM.generate`.
- verl 0.8.0.dev (b178a3c), verl/trainer/ppo/ray_trainer.py and metric_utils.py: `step:1 - timing_s/gen:16.2 - ...` on
  the console (utils/logger/aggregate_logger.py), `{"step": 1, "data": {...}}` in a file (utils/tracking.py). Earlier
  releases have no `timing_s/update_weights`: there `timing_s/reshard` is a part of `timing_s/gen`.
- NeMo-RL of August 2026 (7ea279a), nemo_rl/algorithms/grpo.py and ppo.py: `timing/train/generation` and so on, sums of
  a step; on the console `  • generation: 16.20s (33.3%)` below `===== Step 1/100 =====`. tests/json_dump_tb_logs.py
  writes `{"timing/train/generation": {"1": 16.2, ...}, ...}`.

Where the engines sample while the trainer works, logs have the seconds that the trainer waited for answers, not those
of the rollout (`waits`).
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from planner.analysis.line_logs import PREFIX, lines_of, mappings_of
from planner.analysis.log_files import MAX_LOG_BYTES, read_history
from planner.analysis.logged_steps import as_number, fault, stamp_seconds
from planner.documents.files import file_name, read_text
from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Row = tuple[int, "Mapping[str, Any]"]
"""Line of a log, and the figures on it by their key."""
TIMED_PHASES = ("rollout", "log_probabilities", "training", "new_weights")
"""Phases that a log may time, in the order of a step; the rest of a step is rewards and bookkeeping."""
SCORES = "reward"
"""Seconds of all rewards: a phase where a model gives them, and of the rest of a step where a rule does."""
RL_FORMATS = (
    "give a log of TRL (trainer_state.json, JSON lines or the export of Weights & Biases), verl (console, JSON lines, "
    "export) or NeMo-RL (console, metrics.json, export)"
)
PROFILE = "profiling/Time taken: "
"""How the keys of TRL begin that time one call; then follow the class of the trainer, a dot and what is called."""


@dataclass(frozen=True)
class RlTool:
    """The keys of one tool; of each phase the seconds of all its keys add up, one key of a group of names counts."""

    name: str
    signs: tuple[str, ...]
    """Keys of which one is in every step of a log."""
    phases: Mapping[str, tuple[str, ...]]
    step: tuple[str, ...]
    within: tuple[str, ...] = ()
    """Seconds of a step that are none of it: checkpoints, validation."""
    pauses: tuple[str, ...] = ()
    """Checkpoints and validation that are in the seconds of a step in some releases alone: other steps are taken."""
    mean: tuple[str, ...] = ()
    longest: tuple[str, ...] = ()
    prompt: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    """Keys of which one is there where the engines sample while the trainer works."""
    counts_updates: bool = False
    """Whether a logged step is an optimizer step, of which the answers of one sampling may have several."""


TRL = RlTool(
    "TRL", ("completions/mean_length",),
    {
        "rollout": ("vLLM.generate", "transformers.generate", "transformers.generate_batch"),
        "new_weights": ("sync_weights",),
    },
    step=("step_time",), mean=("completions/mean_length",), longest=("completions/max_length",), counts_updates=True,
)  # fmt: skip
VERL = RlTool(
    "verl", ("timing_s/step", "timing_s/gen", "timing_s/update_actor"),
    {
        "rollout": ("timing_s/gen", "timing_s/gen_max"),
        "log_probabilities": ("timing_s/old_log_prob", "timing_s/ref", "timing_s/values"),
        "training": ("timing_s/update_actor", "timing_s/update_critic"),
        "new_weights": ("timing_s/update_weights", "timing_s/sync_rollout_weights", "timing_s/param_sync"),
        SCORES: ("timing_s/reward",),
    },
    step=("timing_s/step", "perf/time_per_step"), pauses=("timing_s/testing", "timing_s/save_checkpoint"),
    mean=("response_length/mean",), longest=("response_length/max",), prompt=("prompt_length/mean",),
    waits=("timing_s/sync_rollout_weights", "timing_s/param_sync", "fully_async/total_wait_time"),
)  # fmt: skip
_NEMO = "timing/train/"
NEMO_RL = RlTool(
    "NeMo-RL", (f"{_NEMO}total_step_time", f"{_NEMO}policy_training"),
    {
        "rollout": (f"{_NEMO}generation", f"{_NEMO}exposed_generation"),
        "log_probabilities": (
            f"{_NEMO}logprob_inference_prep", f"{_NEMO}policy_and_reference_logprobs", f"{_NEMO}value_inference",
        ),
        "training": (
            f"{_NEMO}training_prep", f"{_NEMO}policy_training",
            f"{_NEMO}value_training_prep", f"{_NEMO}value_training",
        ),
        "new_weights": (f"{_NEMO}prepare_for_generation/total", f"{_NEMO}weight_sync"),
    },
    step=(f"{_NEMO}total_step_time",),
    within=(f"{_NEMO}checkpointing", "timing/validation/total_validation_time"),
    mean=("train/mean_gen_tokens_per_sample", "train/gen_tokens_per_sample/mean"),
    longest=("train/max_gen_tokens_per_sample", "train/gen_tokens_per_sample/max"),
    prompt=("train/mean_prompt_length",),
    waits=(f"{_NEMO}exposed_generation",),
)  # fmt: skip
RL_TOOLS = (VERL, NEMO_RL, TRL)
RESHARD = "timing_s/reshard"
"""Of earlier releases of verl: new weights, a part of `timing_s/gen`."""
STEP_KEYS = ("training/global_step", "train/global_step", "global_step", "step", "_step")
"""Keys of the step, the preferred first: `_step` of Weights & Biases counts the rows of TRL."""
CLOCK_KEY = "_timestamp"
"""Seconds since the epoch in exports of Weights & Biases."""


@dataclass(frozen=True)
class RlLogStep:
    """What a log says of one of its steps; seconds by phase, those that are not there are not in the log."""

    line: int
    step: int
    seconds: float | None
    phases: Mapping[str, float]
    mean: float | None = None
    """Tokens of an answer on average."""
    longest: float | None = None
    prompt: float | None = None
    clock: float | None = None
    has_pause: bool = False
    """Whether a checkpoint or a validation may be in its seconds."""


@dataclass(frozen=True)
class RlLog:
    """The steps of a run in the order of its log; after a restart steps may go back."""

    file: str
    tool: RlTool
    steps: tuple[RlLogStep, ...]
    waits: bool
    """Whether the seconds of rollout are those in which the trainer waited for answers."""
    total_steps: int | None = None
    remarks: tuple[str, ...] = field(default=())

    @property
    def kind(self) -> str:
        """The format, as users call it."""
        return f"log of {self.tool.name}"


def is_rl_log(path: str) -> bool:
    """Return whether a file is a log of reinforcement learning; false where it cannot be read."""
    try:
        text = read_text(path, MAX_LOG_BYTES, lossy=True)
    except InputError:
        return False
    return _tool_of(_rows(text)) is not None


def read_rl_logs(paths: Sequence[str]) -> RlLog:
    """Return the log of one run of reinforcement learning; several files are those of its attempts, or of other keys.

    `InputError` for logs of another tool, without a step, of several tools, and without any time.
    """
    read = [_read(path) for path in paths]
    odd = next((log for log in read if log.tool is not read[0].tool), None)
    if odd is not None:
        problem = f"is a {odd.kind}, {read[0].file} one of {read[0].tool.name}"
        raise fault(odd.file, 1, problem, "give the logs of one run")
    joined = read[0]
    for log in sorted(read[1:], key=lambda log: log.steps[0].step):
        joined = _joined(joined, log)
    if not any(step.seconds for step in joined.steps):
        keys = " or ".join(joined.tool.step)
        raise fault(joined.file, 1, f"a {joined.kind} that times no step", f"give one with {keys}")
    return joined


def _joined(first: RlLog, other: RlLog) -> RlLog:
    """Return two logs as one: the same steps with other keys, or one after another."""
    mine, theirs = ({step.step for step in log.steps} for log in (first, other))
    steps: list[RlLogStep]
    if theirs <= mine or mine <= theirs:
        longer, shorter = (first, other) if theirs <= mine else (other, first)
        known = {step.step: step for step in shorter.steps}
        steps = [_with(step, known.get(step.step)) for step in longer.steps]
    else:
        steps = [*first.steps, *other.steps]
    total = first.total_steps or other.total_steps
    return RlLog(
        f"{first.file}, {other.file}", first.tool, tuple(steps), first.waits or other.waits, total,
        (*first.remarks, *other.remarks),
    )  # fmt: skip


def _with(step: RlLogStep, more: RlLogStep | None) -> RlLogStep:
    """Return a step with what another log adds to it."""
    if more is None:
        return step
    values = {name: getattr(step, name) for name in RlLogStep.__annotations__}
    values |= {name: getattr(more, name) for name, value in values.items() if value is None}
    return RlLogStep(**{**values, "phases": {**more.phases, **step.phases}})


def _read(path: str) -> RlLog:
    text, file = read_text(path, MAX_LOG_BYTES, lossy=True), file_name(path)
    if not text.strip():
        raise fault(file, 1, "is empty", RL_FORMATS)
    rows = _rows(text)
    tool = _tool_of(rows)
    if tool is None:
        raise fault(file, 1, _what_else(path), RL_FORMATS)
    steps = tuple(_steps(rows, tool))
    if not steps:
        raise fault(file, 1, f"a log of {tool.name} without any step", "let the run log some steps first")
    keys = {key for _, row in rows for key in row}
    total = max((int(_finite(row.get(_TOTAL)) or 0) for _, row in rows), default=0)
    return RlLog(file, tool, steps, any(key in keys for key in tool.waits), total or None)


def _what_else(path: str) -> str:
    """Return what a file is that no tool of reinforcement learning wrote."""
    try:
        kind = read_history(path).kind
    except InputError:
        return "no key of TRL, verl or NeMo-RL is in it"
    return f"is a {kind}, in which no answers are sampled"


def _tool_of(rows: Iterable[Row]) -> RlTool | None:
    """Return the tool whose keys a log has."""
    keys = {_plain(key) for _, row in rows for key in row}
    return next((tool for tool in RL_TOOLS if any(sign in keys for sign in tool.signs)), None)


def _plain(key: str) -> str:
    """Return a key of TRL without what Transformers puts before it for Weights & Biases; others as they are."""
    bare = key.removeprefix("train/")
    return bare if bare in ("step_time", "num_tokens") or bare.startswith("completions/") else key


# Rows: what stands together in a log, whatever its format.


_CONSOLE = re.compile(r"\bstep:(\d+) - (?=\S+:)")
_FIGURE = re.compile(r"^(?:np\.float\d+\()?([^()]+)\)?$")
"""A number as Python prints it, also one of numpy 2."""
_HEADER = re.compile(r"={5,} Step (\d+)/(\d+) ={5,}")
_EPOCH = re.compile(r"={5,} Epoch (\d+)/\d+ ={5,}")
_TIMING = re.compile(PREFIX + r"\s*• ([\w/]+): ([\d.]+)s \(")
_TOTAL_TIME = re.compile(r"• Total step time: ([\d.]+)s")
_VALIDATION = re.compile(r"• Total validation time: ([\d.]+)s")
_LENGTH = re.compile(r"• Mean Generation Length: ([\d.]+)")
_BAR_STEP = re.compile(r"\d+%\|[^|]*\|\s*(\d+)/(\d+) \[")
_TOTAL = "steps in all"


def _rows(text: str) -> list[Row]:
    """Return the rows of a log in their order."""
    start = text.lstrip()[:1]
    if start in ("{", "[") and (rows := _document_rows(text)) is not None:
        return rows
    if start not in ("{", "[") and "\n" in text and "," in text.lstrip().split("\n", 1)[0]:
        rows = _table_rows(text)
        if _tool_of(rows) is not None:
            return rows
    return list(_line_rows(text))


def _document_rows(text: str) -> list[Row] | None:
    """Return the rows of a trainer_state.json, of a list of rows, and of NeMo-RL's metrics by name; None for lines."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(data, dict) and isinstance(data.get("log_history"), list):
        total = {_TOTAL: data.get("max_steps")}
        return [(1, {**total, **row}) for row in data["log_history"] if isinstance(row, dict)]
    if isinstance(data, list):
        return [(1, _flat(row)) for row in data if isinstance(row, dict)]
    if isinstance(data, dict) and data and all(isinstance(series, dict) for series in data.values()):
        by_step: dict[str, dict[str, Any]] = {}
        for key, series in data.items():
            for step, value in series.items():
                by_step.setdefault(str(step), {"step": step})[key] = value
        return [(1, by_step[step]) for step in sorted(by_step, key=lambda step: as_number(step) or 0.0)]
    return None


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of verl's file with its figures next to its step."""
    data = row.get("data")
    return {**row, **data} if isinstance(data, dict) else dict(row)


def _table_rows(text: str) -> list[Row]:
    """Return the rows of an export of Weights & Biases: a history, or charts with the run's name before each key."""
    reader = csv.reader(io.StringIO(text))
    try:
        names = [name.strip().rpartition(" - ")[2] for name in next(reader, [])]
        names = ["step" if name == "Step" else name for name in names]
        # charts have a column of the least and of the largest figure next to each key
        kept = [bool(name) and not name.endswith(("__MIN", "__MAX")) for name in names]
        return [
            (
                reader.line_num,
                {name: cell for name, cell, keep in zip(names, cells, kept, strict=False) if keep and cell.strip()},
            )
            for cells in reader
        ]
    except csv.Error:
        return []


def _line_rows(text: str) -> Iterator[Row]:
    """Yield the rows of lines: verl's console, JSON or Python mappings, NeMo-RL's console."""
    step, total, bar = None, None, 0
    before, done = dict[str, int](), 0  # steps before each epoch of NeMo-RL, which counts its steps anew
    for number, line in lines_of(text):
        if (match := _EPOCH.search(line)) is not None:
            done = before.setdefault(match[1], step or 0)
        elif (match := _CONSOLE.search(line)) is not None:
            yield number, {"step": match[1], **dict(_console_figures(line[match.end() :])), **_clock_of(line)}
        elif (match := _HEADER.search(line)) is not None:
            step = done + int(match[1])
        elif step is not None and (nemo := _nemo_figure(line)):
            yield number, {"step": step, **nemo, **_clock_of(line)}
        elif (match := _BAR_STEP.search(line)) is not None:
            bar, total = int(match[1]), match[2]
        for row in _mappings(line):
            placed = {} if not bar or any(key in row for key in STEP_KEYS) else {"step": bar, _TOTAL: total}
            yield number, {**placed, **_clock_of(line), **_flat(row)}


def _mappings(line: str) -> Iterator[Mapping[str, Any]]:
    """Yield the mapping of a line, as JSON of any length or as Python prints it."""
    if not line.lstrip().startswith("{"):
        yield from mappings_of(line)
        return
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        yield from mappings_of(line)
        return
    if isinstance(row, dict):
        yield row


def _clock_of(line: str) -> dict[str, float]:
    clock = stamp_seconds(line)
    return {} if clock is None else {CLOCK_KEY: clock}


def _console_figures(text: str) -> Iterator[tuple[str, str]]:
    """Yield keys and figures of verl's console: `timing_s/gen:16.2 - timing_s/step:np.float64(48.7)`."""
    for part in text.split(" - "):
        key, _, value = part.strip().rpartition(":")
        match = _FIGURE.match(value)
        if key and match is not None and as_number(match[1]) is not None:
            yield key, match[1]


def _nemo_figure(line: str) -> dict[str, str]:
    if (match := _TOTAL_TIME.search(line)) is not None:
        return {f"{_NEMO}total_step_time": match[1]}
    if (match := _VALIDATION.search(line)) is not None:
        return {NEMO_RL.within[1]: match[1]}
    if (match := _LENGTH.search(line)) is not None:
        return {NEMO_RL.mean[0]: match[1]}
    match = _TIMING.search(line)
    return {} if match is None else {_NEMO + match[1]: match[2]}


# Steps: the rows of one step together.


def _steps(rows: Sequence[Row], tool: RlTool) -> Iterator[RlLogStep]:
    """Yield the steps: rows of one step that follow one another make one, until a row times it again: a restart."""
    is_numbered = any(key in row for _, row in rows for key in _step_keys(tool))
    line, at, here = 0, 0, dict[str, Any]()
    for number, row in _with_calls(rows, tool):
        step = _step_of(row, tool)
        if not is_numbered and any(key in row for key in tool.signs):
            step = at + 1
        if step is None:
            continue
        if here and (step != at or any(key in here and row.get(key, here[key]) != here[key] for key in tool.step)):
            yield from _closed(line, at, here, tool)
            here = {}
        line, at = (line if here else number), step
        here.update(row)
    yield from _closed(line, at, here, tool)


def _with_calls(rows: Sequence[Row], tool: RlTool) -> Iterator[Row]:
    """Yield the rows of steps with bare keys; calls that TRL profiled since the row before are in them, as means."""
    calls, before = dict[str, float](), 0
    for line, raw in rows:
        row = {_plain(str(key)): value for key, value in raw.items()}
        for key in (key for key in row if key.startswith(PROFILE)):
            name = key.removeprefix(PROFILE).partition(".")[2]
            calls[name] = calls.get(name, 0.0) + (_finite(row[key]) or 0.0)
        if not tool.counts_updates:
            yield line, row
        elif any(key in row for key in (*tool.signs, *tool.step)):
            step = _step_of(row, tool) or before + 1
            yield line, {**row, **{name: seconds / max(step - before, 1) for name, seconds in calls.items()}}
            calls, before = {}, step


def _closed(line: int, step: int, row: Mapping[str, Any], tool: RlTool) -> Iterator[RlLogStep]:
    """Yield the step of its rows; none where they have neither time nor length."""
    figures = {key: number for key, value in row.items() if (number := _finite(value)) is not None}

    def first(keys: Sequence[str]) -> float | None:
        return next((figures[key] for key in keys if key in figures), None)

    phases = {}
    for phase, keys in tool.phases.items():
        if known := [figures[key] for key in keys if key in figures]:
            phases[phase] = math.fsum(known)
    if RESHARD in figures and "rollout" in phases and "new_weights" not in phases:
        phases["new_weights"] = figures[RESHARD]
        phases["rollout"] = max(0.0, phases["rollout"] - figures[RESHARD])
    seconds = first(tool.step)
    if seconds is not None:
        seconds -= math.fsum(figures[key] for key in tool.within if key in figures)
    mean = first(tool.mean)
    if seconds is None and not phases and mean is None:
        return
    positive = seconds if seconds is not None and seconds > 0 else None
    yield RlLogStep(
        line, step, positive, phases, mean or None, first(tool.longest) or None, first(tool.prompt) or None,
        figures.get(CLOCK_KEY), any(key in figures for key in tool.pauses),
    )  # fmt: skip


def _finite(value: Any) -> float | None:
    number = as_number(value)
    return number if number is not None and 0.0 <= number < 1e12 else None


def _step_keys(tool: RlTool) -> tuple[str, ...]:
    return STEP_KEYS[:-1] if tool.counts_updates else STEP_KEYS


def _step_of(row: Mapping[str, Any], tool: RlTool) -> int | None:
    number = next((as_number(row[key]) for key in _step_keys(tool) if key in row), None)
    return int(number) if number is not None and 0 < number < 1e12 else None


# What several steps say together.


@dataclass(frozen=True)
class MeasuredSteps:
    """Means over the steps of a run without the first of each attempt, which compiles and fills caches."""

    seconds: float
    spread: float | None
    """Standard deviation of ln(seconds) of one step; None with a single one."""
    steps: int
    warm_up_steps: int
    phases: Mapping[str, float]
    mean: float | None
    longest: float | None
    """Longest answer of all steps."""
    prompt: float | None
    growth: float | None
    """Mean length of the last third of the steps over that of the first third; None with few steps."""


LEAST_GROWTH_STEPS = 6


def measured_steps(log: RlLog, updates: int = 1) -> MeasuredSteps:
    """Return what the steps of a log say; `updates` optimizer steps make one step where the tool counts those."""
    per_step = updates if log.tool.counts_updates else 1
    timed = [[step for step in attempt if step.seconds] for attempt in attempts_of(log)]
    kept = [step for attempt in timed for step in _settled(attempt, per_step)] or [
        step for attempt in timed for step in attempt
    ]
    warm = sum(map(len, timed)) - len(kept)
    kept = [step for step in kept if not step.has_pause] or kept
    logs = [math.log(step.seconds or 1.0) for step in kept]
    middle = math.fsum(logs) / len(logs)
    deviation = math.sqrt(math.fsum((value - middle) ** 2 for value in logs) / max(len(logs) - 1, 1))
    names = [name for name in (*TIMED_PHASES, SCORES) if any(name in step.phases for step in kept)]
    lengths = [step.mean for step in log.steps if step.mean]
    third = len(lengths) // 3
    is_long = len(lengths) >= LEAST_GROWTH_STEPS
    growth = math.fsum(lengths[-third:]) / math.fsum(lengths[:third]) if is_long else None
    return MeasuredSteps(
        seconds=per_step * _mean([step.seconds for step in kept]),
        spread=deviation if len(kept) > 1 else None,
        steps=len(kept),
        warm_up_steps=warm,
        phases={name: per_step * _mean([step.phases.get(name) for step in kept]) for name in names},
        mean=_mean([step.mean for step in kept]) or None,
        longest=max((step.longest for step in log.steps if step.longest), default=None),
        prompt=_mean([step.prompt for step in kept]) or None,
        growth=growth,
    )


def _settled(attempt: Sequence[RlLogStep], per_step: int) -> Sequence[RlLogStep]:
    """Return the steps of an attempt after the first; of optimizer steps whole groups, as the first one samples."""
    if per_step == 1 or len(attempt) < 2 * per_step or attempt[1].step - attempt[0].step > 1:
        return attempt[1:]
    return attempt[per_step : len(attempt) // per_step * per_step]


def attempts_of(log: RlLog) -> list[list[RlLogStep]]:
    """Return the steps by attempt: one ends where the steps go back."""
    cuts = [at for at, (before, after) in enumerate(pairwise(log.steps), 1) if after.step <= before.step]
    return [list(log.steps[start:end]) for start, end in pairwise([0, *cuts, len(log.steps)])]


def _mean(values: Sequence[float | None]) -> float:
    """Return the mean of the values that are there, 0 for none."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else 0.0

"""Runs as text: an estimate with its bars, `calibrate` and `track`, what a probe says, how a run will end."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from planner.report import plan_sections, words
from planner.report.words import LABEL, WIDTH, line_room
from planner.results.explanation import device_noun
from planner.results.run_results import (
    CalibrationResult,
    ChainEnd,
    Choice,
    Comparison,
    Estimate,
    GenerationComparison,
    MeasuredAnswers,
    PhaseSeconds,
    PlanSummary,
    ProbeChoice,
    ProbeVerdict,
    StepTimes,
    Tracking,
)
from planner.results.subject_runs import RL_PHASE_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


# The result of `calibrate` as text: observed and predicted figures, and their effect on a plan.


def render_calibration(result: CalibrationResult) -> str:
    """Return the text of a result: the entry to paste, then what it is based on."""
    entry = [result.block.rstrip(), ""]  # one line of YAML, however long
    lines = entry
    if result.compared is not None:
        lines = [_calibration_summary(result, result.compared), "", *entry]
    if result.generation is not None:
        lines = [_summary_of_generation(result, result.generation), "", *entry]
    if result.phases and result.job is not None:
        lines = [*words.wrap_lines(_summary_of_phases(result), words.width(), 2), "", *entry]
    lines += words.section("Logs", words.wrap_all(result.logs, line_room(), 2))
    if result.step_times is not None:
        lines += words.section("Step", words.wrap_lines(_step(result.step_times), line_room(), 2))
    lines += phase_sections(result.phases, result.answers)
    lines += words.section("Speed", _calibration_speed(result))
    lines += words.section("Memory", _calibration_memory(result))
    if result.generation is not None:
        lines += words.section("Speed", _generation(result.generation))
    if result.before is not None and result.after is not None:
        lines += words.section("Plan", [*_plan("before", result.before), *_plan("after", result.after)])
    lines += words.section("Notes", words.wrap_all(result.notes, line_room(), 3))
    return "\n".join(line.rstrip() for line in lines)


def _calibration_summary(result: CalibrationResult, compared: Comparison) -> str:
    where = f"{result.scenario}, {result.job}" if result.scenario != result.job else str(result.job)
    if compared.tokens_per_second is None:
        return f"{where}: memory that grows with the batch x {compared.memory_factor:.2f}"
    return f"{where}: estimated speed x {compared.speed_factor:.2f} from now on"


def _summary_of_generation(result: CalibrationResult, compared: GenerationComparison) -> str:
    factor = compared.output_tokens_per_second / compared.predicted_output_tokens_per_second
    return f"{result.job}: estimated speed of {compared.engine} on {compared.gpu} x {factor:.2f} from now on"


def _summary_of_phases(result: CalibrationResult) -> str:
    seen = [phase for phase in result.phases if phase.factor is not None and phase.factor != 1.0]
    if len({phase.factor for phase in seen}) == 1 and len(seen) == len(result.phases):
        return f"{result.job}: all phases x {seen[0].factor:.2f} from now on"
    factors = ", ".join(f"{RL_PHASE_NAMES[phase.phase]} x {phase.factor:.2f}" for phase in seen)
    return f"{result.job}: {factors} from now on"


def phase_sections(phases: Sequence[PhaseSeconds], answers: MeasuredAnswers | None) -> list[str]:
    """Return the seconds of the phases of a step and the lengths of its answers, measured and planned."""
    wide = max((len(RL_PHASE_NAMES[phase.phase]) for phase in phases), default=0)
    rows = [f"{RL_PHASE_NAMES[phase.phase]:<{wide}}  {_phase(phase)}" for phase in phases]
    return [*words.section("Phases", rows), *words.section("Answers", [_answers(answers)] if answers else [])]


def _phase(phase: PhaseSeconds) -> str:
    seen = "not in the log" if phase.measured is None else f"{words.significant(phase.measured)} s measured"
    if phase.planned is None:
        return seen
    factor = "" if phase.factor is None or phase.factor == 1.0 else f" (x {phase.factor:.2f})"
    return f"{seen}, {words.significant(phase.planned)} planned{factor}"


def _answers(answers: MeasuredAnswers) -> str:
    longest = "" if answers.longest is None else f", the longest {answers.longest:,.0f}"
    text = f"{answers.mean:,.0f} tokens on average{longest}"
    if answers.planned_mean is None:
        return text
    cut = "" if answers.planned_longest is None else f", cut at {answers.planned_longest:,.0f}"
    return f"{text}; {answers.planned_mean:,.0f}{cut} planned"


def _generation(compared: GenerationComparison) -> list[str]:
    rate, predicted = compared.output_tokens_per_second, compared.predicted_output_tokens_per_second
    lines = [f"{words.significant(rate)} output tokens/s observed, {words.significant(predicted)} predicted"]
    for what, seen, thought in (
        ("first token", compared.ttft_seconds, compared.predicted_ttft_seconds),
        ("per token", compared.tpot_seconds, compared.predicted_tpot_seconds),
    ):
        if seen is not None:
            lines.append(f"{what} {words.significant(seen)} s observed, {words.significant(thought)} s predicted")
    return lines


def _step(times: StepTimes) -> str:
    if times.spread is None:
        return f"{words.significant(times.seconds)} s, mean of {times.steps:,} steps"
    plural = "" if times.dropped == 1 else "s"
    warm = f", {times.dropped} warm-up step{plural} excluded" if times.dropped else ""
    return f"{words.significant(times.seconds)} s, median of {times.steps:,} (± {words.percent(times.spread)}){warm}"


def _calibration_speed(result: CalibrationResult) -> list[str]:
    observed = result.measured.get("tokens_per_second")
    if not isinstance(observed, float):
        return []
    predicted = (
        f", {words.significant(result.compared.predicted_tokens_per_second)} predicted" if result.compared else ""
    )
    return [f"{words.significant(observed)} {result.unit}/s observed{predicted}"]


def _calibration_memory(result: CalibrationResult) -> list[str]:
    peak = result.measured.get("peak_vram_gib")
    if not isinstance(peak, float):
        return []
    text = f"{words.gib(peak)} GiB {result.measured.get('peak_kind')} observed"
    predicted = result.compared.predicted_peak_vram_gib if result.compared else None
    return [text + (f", {words.gib(predicted)} predicted" if predicted is not None else "")]


def _plan(when: str, plan: PlanSummary) -> list[str]:
    if plan.hours is None or plan.gpu is None or plan.gpus is None or plan.cost_usd is None:
        return [f"{when:<7} {plan.status}"]
    interval = words.between(plan.hours_low or 0.0, plan.hours_high or 0.0)
    where = words.sanitise(f"{words.gpus(plan.gpus, plan.gpu)} at {plan.provider}")
    text = f"{when:<7} {where}, {words.likely(plan.hours)} ({interval}), {words.usd(plan.cost_usd)}"
    return words.wrap_lines(text, line_room(), 2)


# The result of `track` as text: what was observed, what was planned, and how it will end.


MIN_CAUSE_HOURS = 0.05
"""Parts of a difference up to this are not shown."""


def render_tracking(found: Tracking) -> str:
    """Return the text of a tracked job."""
    lines = words.wrap_lines(_summary(found), words.width(), 2)
    lines += ["", *words.section("Done", words.wrap_all(_done(found), line_room(), 2))]
    lines += words.section("Speed", words.wrap_all(_speed(found), line_room(), 2))
    if found.observed.peak_vram_gib is not None:
        lines += words.section("Memory", words.wrap_all(_memory(found), line_room(), 2))
    lines += phase_sections(found.phases, found.answers)
    lines += words.section("End", words.wrap_all(_end(found), line_room(), 2))
    if found.chain is not None:
        lines += words.section("Chain", words.wrap_all(_chain(found.chain), line_room(), 2))
    lines += words.section("Because", _causes(found))
    for choice in found.choices:
        lines += words.section(
            "Now" if choice is found.choices[0] else "", words.wrap_lines(_choice(choice), line_room(), 3)
        )
    lines += words.section("Logs", words.wrap_all(found.logs, line_room(), 2))
    lines += words.section("Notes", words.wrap_all(found.notes, line_room(), 3))
    return "\n".join(line.rstrip() for line in lines)


def _summary(found: Tracking) -> str:
    end, chance = found.projected, found.projected.deadline_probability
    text = (
        f"{found.job}: {100 * found.observed.share_done:.0f} % done, ends after {words.likely(end.hours.expected)} "
        f"for {words.usd(end.cost.expected)}"
    )
    if chance is None or found.planned.deadline_hours is None:
        return text
    deadline = words.given_hours(found.planned.deadline_hours)
    return f"{text}, meets the {deadline} h deadline with {words.chance_text(chance)} probability"


def _done(found: Tracking) -> list[str]:
    seen = found.observed
    how = "spent" if seen.spent_is_given else "spent at the prices of the plan"
    lines = [
        f"{seen.steps:,} of {found.planned.steps:,} steps in {words.hours(seen.elapsed_hours)}, "
        f"{words.usd(seen.spent_usd)} {how}"
    ]
    if seen.restarts:
        plural = "" if seen.restarts == 1 else "s"
        again = f", {seen.repeated_steps:,} steps done again" if seen.repeated_steps else ""
        lines.append(f"{seen.restarts} restart{plural}{again}")
    if seen.standing_hours >= MIN_CAUSE_HOURS:
        lines.append(f"stood still for {words.hours(seen.standing_hours)}")
    return lines


def _speed(found: Tracking) -> list[str]:
    seen, plan = found.observed, found.planned
    planned = f"{words.significant(plan.tokens_per_second)} planned"
    if seen.tokens_per_second is None or seen.step_seconds is None:
        return [f"not timed; {planned}"]
    ratio = seen.tokens_per_second / plan.tokens_per_second - 1.0
    spread = f" (± {words.percent(seen.step_spread)} each)" if seen.step_spread is not None else ""
    warm = f", {seen.warm_up_steps:,} of warm-up excluded" if seen.warm_up_steps else ""
    lines = [
        f"{words.significant(seen.tokens_per_second)} {plan.unit}/s observed, {planned} ({100 * ratio:+.0f} %)",
        f"{words.significant(seen.step_seconds)} s per step{spread} over {seen.timed_steps:,} steps{warm}; "
        f"{words.significant(plan.step_seconds)} s planned",
    ]
    if seen.gpu_utilisation is not None:
        lines.append(f"GPUs busy {100 * seen.gpu_utilisation:.0f} % of the time")
    return lines


def _memory(found: Tracking) -> list[str]:
    seen, plan = found.observed, found.planned
    return [
        f"{words.gib(seen.peak_vram_gib or 0.0)} of {words.gib(plan.usable_vram_gib)} GiB ({seen.peak_kind}), "
        f"{words.gib(seen.free_vram_gib or 0.0)} free; peak of {words.gib(plan.peak_vram_gib)} planned"
    ]


def _end(found: Tracking) -> list[str]:
    end, plan = found.projected, found.planned
    lines = [
        f"{words.likely(end.hours.expected)} ({words.between(end.hours.low, end.hours.high)}), "
        f"{words.hours(end.left_hours)} left; {words.likely(plan.hours.expected)} planned",
        f"{words.usd(end.cost.expected)} ({words.usd_between(end.cost.low, end.cost.high)}); "
        f"{words.usd(plan.cost.expected)} planned",
    ]
    if end.deadline_probability is not None:
        asked = f"asked for: {words.probability_text(plan.confidence)}"
        lines.append(f"deadline: {words.chance_text(end.deadline_probability)}; {asked}")
    return lines


def _chain(end: ChainEnd) -> list[str]:
    """Return when the last job ends, what all cost, and how surely deadlines and the budget are kept."""
    hours, sure = end.hours, words.probability_text(end.budget_confidence)
    budget = ""
    if end.budget_usd is not None and end.budget_probability is not None:
        kept = words.chance_text(end.budget_probability)
        budget = f": {words.usd(end.budget_usd)} budget kept with {kept} probability; asked for: {sure}"
    return [
        f"last end likely {words.plain_number(hours.expected)} h after the start of the plan, "
        f"{words.by(hours.at_confidence)}",
        *(
            f"{words.sanitise(one.job)}: {words.given_hours(one.deadline_hours)} h deadline kept with "
            f"{words.chance_text(one.probability)} probability; asked for: {words.probability_text(one.confidence)}"
            for one in end.deadlines
        ),
        f"{words.usd(end.cost.expected)} for all jobs ({words.usd_between(end.cost.low, end.cost.high)}), "
        f"{words.usd(end.cost_at_confidence)} at {sure} confidence{budget}",
    ]


def _causes(found: Tracking) -> list[str]:
    shown = [cause for cause in found.causes if abs(cause.hours) >= MIN_CAUSE_HOURS]
    if not shown:
        return ["as planned within 3 minutes"]
    wide = max(len(cause.what) for cause in shown)
    return [
        f"{cause.what:<{wide}}  {cause.hours:+.1f} h" for cause in sorted(shown, key=lambda cause: -abs(cause.hours))
    ]


def _choice(one: Choice) -> str:
    chance = "" if one.deadline_probability is None else f", {words.chance_text(one.deadline_probability)} on time"
    where = words.sanitise(f"{one.machines} at {one.provider}")
    return f"{one.what}: {where}, {words.usd(one.cost_usd)}, {words.likely(one.hours.expected)} left{chance}"


# The result of `calibrate` for a probe as text: the verdict, then what was measured and what was compared.


def render_probe(found: ProbeVerdict) -> str:
    """Return the text of a verdict: what to do and what it costs in the first line."""
    lines = [*words.wrap_lines(_verdict_line(found), words.width(), 3), ""]
    lines += [found.block.rstrip(), ""] if found.measured else []
    step = found.step_seconds
    speed = [
        f"{words.significant(step.planned)} s per step planned "
        f"({words.significant(step.low)} to {words.significant(step.high)})"
    ]
    if step.measured is not None:
        speed[0] = f"{words.significant(step.measured)} s per step over {found.timed_steps:,} steps; " + speed[0]
    lines += words.section("Speed", words.wrap_all(speed, line_room(), 2))
    lines += words.section("Memory", words.wrap_all(_probed_memory(found), line_room(), 2))
    for number, one in enumerate(found.choices):
        lines += words.section("" if number else "Ways", words.wrap_lines(_way(one), line_room(), 3))
    lines += words.section("Notes", words.wrap_all(found.notes, line_room(), 3))
    return "\n".join(line.rstrip() for line in lines)


def _verdict_line(found: ProbeVerdict) -> str:
    best = found.choices[0]
    there = f"{words.usd(best.cost_usd)}, {words.likely(best.hours.expected)}"
    planned = f"{words.usd(found.planned_usd)} planned"
    where = words.sanitise(f"{best.machines} at {best.provider}")
    if found.is_kept:
        return f"{found.job}: keep {where}: {there} ({planned}); {found.reason}"
    if not best.meets_limits:
        why = f"nothing meets the limits, and here it is {there} ({planned})"
        return f"{found.job}: give back {where}: {why}; {found.reason}"
    if best.what == "change":
        return f"{found.job}: change to {best.change}: {there} ({planned}); {found.reason}"
    return f"{found.job}: give back, and rent {where}: {there} ({planned}); {found.reason}"


def _probed_memory(found: ProbeVerdict) -> list[str]:
    memory = found.memory
    if found.status == "oom":
        return [
            f"ran out of {words.gib(memory.usable)} GiB; {words.gib(memory.allocated_planned)} GiB planned (allocated)"
        ]
    lines = [f"{words.gib(memory.allocated or 0.0)} GiB allocated; {words.gib(memory.allocated_planned)} planned"]
    if memory.driver is not None:
        lines.append(f"{words.gib(memory.driver)} of {words.gib(memory.usable)} GiB taken, as the driver counts")
    return lines


def _way(one: ProbeChoice) -> str:
    chance = "" if one.deadline_probability is None else f", {words.chance_text(one.deadline_probability)} on time"
    where = words.sanitise(f"{one.machines} at {one.provider}")
    how = f"change to {one.change} on {where}" if one.what == "change" else where
    name = {"keep": "keep", "change": "", "give back": "rent"}[one.what]
    limits = "" if one.meets_limits else "; misses the limits"
    return f"{name} {how}: {words.usd(one.cost_usd)}, {words.likely(one.hours.expected)}{chance}{limits}".strip()


PART_COLUMNS, FIGURE_COLUMNS = 22, 7
"""Columns of the name and of the figure before a bar."""

BAR_WIDTH = WIDTH - LABEL - PART_COLUMNS - FIGURE_COLUMNS - 2

MIN_SHARE = 0.005
"""Parts below this share of the whole are only in --json."""

PART_NAMES = {
    "step_temporary": "optimizer temporary",
    "cast_weights": "16-bit weight copies",
    "gathered_weights": "gathered weights",
    "gathered_gradients": "gathered gradients",
    "bucket": "gradients to reduce",
    "input_gradients": "gradients of inputs",
    "head_gradient": "gradient of the head",
    "dequantised": "dequantised matrix",
    "working_set": "one layer recomputed",
    "margin": "margin of the estimate",
    "context": "CUDA context, NCCL",
    "encoders": "text, image encoders",
    "matmul": "matrix products",
    "head": "head and loss",
    "elementwise": "elementwise traffic",
    "dequantisation": "dequantising weights",
    "gradients": "adding gradients",
    "launch": "kernel launches",
    "hooks": "waiting for Python",
    "sharding": "sharding traffic",
    "host_copies": "copies over PCIe",
    "data_parallel": "gradient reduction",
    "bubble": "pipeline bubble",
    "fixed": "loader and logging",
    "node_loss": "loss across machines",
    "further_forwards": "passes without gradients",
    "image_tower": "image tower",
}


def render_estimate(estimate: Estimate) -> str:
    """Return the text without a final newline."""
    lines = [
        _estimate_summary(estimate),
        *plan_sections.cut_lines([estimate.cut] if estimate.cut else []),
        *words.second_lines(estimate.conversion),
        "",
        *words.section("Train", _train(estimate)),
        *words.section("Memory", _memory_bars(estimate)),
        *words.section("Remedies", _remedies(estimate)),
        *words.section("Limits", _limits(estimate)),
        *words.section("Step", _step_bars(estimate)),
        *words.section("Basis", words.wrap_all(_basis(estimate), line_room(), 2)),
        *words.section(
            "Assumed", words.wrap_lines(", ".join(estimate.assumed), line_room(), 3) if estimate.assumed else []
        ),
        *words.section("Notes", words.wrap_all(estimate.notes, line_room(), 2)),
    ]
    return "\n".join(lines)


def _estimate_summary(estimate: Estimate) -> str:
    """Return whether it fits, the memory and the speed with its interval; without room, less of the memory."""
    vram = estimate.vram_gib
    what = f"{words.sanitise(estimate.architecture)} on {words.gpus(estimate.gpus, estimate.gpu)}"
    if vram.fits:
        taken, speed = words.gib(vram.peak), plan_sections.rate(estimate)
        rooms = (f"fits, {taken} of {words.gib(vram.usable)} GiB", f"fits, {taken} GiB", "fits")
        wordings = [f"{room}, {speed}" for room in rooms]
    else:
        wordings = [f"does not fit: {words.gib(estimate.short_gib)} GiB short of {words.gib(vram.usable)} GiB"]
    form = next((form for form in wordings if len(what) + len(form) + 2 <= words.width()), wordings[-1])
    return f"{words.shorten(what, words.width() - len(form) - 2)}: {form}"


def _train(estimate: Estimate) -> list[str]:
    """Return technique, batch, machines, and the number of trained weights."""
    share = f"{_count(estimate.trainable_parameters)} trained weights"
    if estimate.techniques.method == "lora":
        share += f", {words.percent(estimate.trainable_parameters / estimate.parameters)} of the model"
    machines = [plan_sections.machines(estimate)] if estimate.gpus > 1 else []
    return words.wrap_all(
        [plan_sections.techniques(estimate), plan_sections.batch(estimate), *machines, share], line_room(), 2
    )


def _count(weights: int) -> str:
    """Return a number of weights, such as `41.9 million` or `8.03 billion`."""
    unit, name = (1e9, "billion") if weights >= 1e9 else (1e6, "million")
    return f"{words.significant(weights / unit)} {name}"


def _memory_bars(estimate: Estimate) -> list[str]:
    """Return a bar for each part of the peak, on the scale of the usable memory or of the peak if that is larger."""
    vram = estimate.vram_gib
    scale = max(vram.usable, vram.peak)
    chance = words.probability_text(vram.fit_probability)
    device = device_noun(estimate.gpu)
    taken = f"{words.gib(vram.peak)} of {words.gib(vram.usable)} GiB per {device}"
    lines = words.wrap_lines(f"{taken}, fits with {chance} probability", line_room(), 1)
    is_gpu = device == "GPU"
    shown = {**vram.parts, **vram.set_aside}
    if not is_gpu:
        shown = {"runtime" if name == "context" else name: size for name, size in shown.items()}
    lines += _bars(shown, scale, vram.peak, 1)
    free = vram.usable - vram.peak
    if free >= 0.05:
        lines.append(draw_bar("free", free, scale, words.gib, "."))
    shown_there = f"; nvidia-smi shows about {words.gib(vram.device_used)} GiB" if vram.fits and is_gpu else ""
    peak = words.wrap_lines(f"peak in: {vram.phase}{shown_there}", line_room(), 1)
    return [*lines, *peak, *plan_sections.host_memory(estimate.host_memory)]


def _step_bars(estimate: Estimate) -> list[str]:
    """Return a bar for each part of the step, on the scale of the step."""
    step = estimate.step_seconds
    each = f"{words.significant(step.total)} s per step"
    if not estimate.vram_gib.fits:
        each += f", {plan_sections.rate(estimate)} if it did fit"
    elif estimate.unit == "tokens":
        counted = words.significant(estimate.processed_tokens_per_second)
        each += f", {counted} tokens/s with {'padding' if estimate.packing == 'padded' else 'unfilled positions'}"
    lines = words.wrap_lines(each, line_room(), 1)
    if estimate.gpus > 1:  # traffic and computation overlap, so that a part may take longer than its bar
        lines += words.wrap_lines("time that each part adds, without what overlaps with another part", line_room(), 2)
    decimals = max(0, 2 - math.floor(math.log10(step.total))) if step.total > 0 else 0
    return [*lines, *_bars(step.parts, step.total, float(words.significant(step.total).replace(",", "")), decimals)]


def _limits(estimate: Estimate) -> list[str]:
    """Return the largest micro-batch and the longest sequence, if requested, and of images the largest ones."""
    lines: list[str] = []
    most, side = estimate.largest_micro_batch, estimate.largest_resolution
    if most == 0 and side:
        lines.append(f"none fits at {estimate.resolution:,} pixels; at micro-batch 1 up to {side:,} pixels a side")
        side = None
    elif most is not None:
        lines.append(f"largest micro-batch {most:,}" if most else "not even a micro-batch of 1 fits")
    if side:
        lines.append(f"at micro-batch 1 up to {side:,} pixels a side")
    if estimate.longest_sequence is not None:
        longest, batch = estimate.longest_sequence, f"at micro-batch {estimate.techniques.micro_batch}"
        lines.append(f"longest sequence {longest:,} tokens {batch}" if longest else f"no sequence fits {batch}")
    return lines


def _remedies(estimate: Estimate) -> list[str]:
    if estimate.vram_gib.fits:
        return []
    if not estimate.remedies:
        return ["no single change makes it fit on this GPU"]
    return words.wrap_all(
        (f"{remedy.change}: {words.gib(remedy.peak)} GiB" for remedy in estimate.remedies), line_room(), 2
    )


def _basis(estimate: Estimate) -> list[str]:
    """Return the framework profile and the uncertainty of the speed."""
    memory = "memory calibrated on measured peaks" if estimate.profiled else "memory not calibrated, a rough guess"
    return [
        f"framework {estimate.profile}: {memory}",
        f"speed ± {100 * (math.exp(estimate.sigma) - 1):.0f} % (one standard deviation)",
    ]


def _bars(sizes: Mapping[str, float], scale: float, total: float, decimals: int) -> list[str]:
    """Return the parts above `MIN_SHARE`, largest first, and one of all others; figures add up to the total as shown.

    Where parts do not make up the total (they overlap), each is rounded alone.
    """
    worth = {PART_NAMES.get(name, name): size for name, size in sizes.items() if size >= MIN_SHARE * scale}
    rest = total - math.fsum(worth.values())
    unit = 10.0**-decimals
    worth |= {"other": rest} if rest >= unit * max(1, len(worth)) else {}
    parts = sorted(worth.items(), key=lambda part: -part[1])
    shown = words.rounded_to_total([size for _, size in parts], total, decimals)
    return [
        draw_bar(name, size, scale, partial(_as_rounded, text), "#")
        for (name, size), text in zip(parts, shown, strict=True)
    ]


def _as_rounded(text: str, _: float) -> str:
    return text


def draw_bar(name: str, size: float, scale: float, figure: Callable[[float], str], mark: str) -> str:
    """Return one part of a whole as name, figure and bar."""
    room = min(BAR_WIDTH, line_room() - PART_COLUMNS - FIGURE_COLUMNS - 2)
    length = max(1, round(size / scale * room))
    return f"{name.replace('_', ' '):<{PART_COLUMNS}}{figure(size):>{FIGURE_COLUMNS}}  {mark * length}"

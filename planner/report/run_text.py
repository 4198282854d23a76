"""Runs as text: an estimate with its bars, `calibrate` and `track`, a probe, and the replays of a plan."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from planner.report import plan_sections, words
from planner.report.explanation_text import render_infeasible
from planner.report.plan_sections import cut_lines
from planner.report.words import draw_bar, line_room
from planner.results.explanation import device_noun, spot_percent
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
from planner.results.simulation import OPTIMUM, Histogram, JobReplays, PolicyFigures, Simulation
from planner.results.subject_runs import RL_PHASE_NAMES
from planner.subjects import shown_by

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
    for name, seen, thought in (
        ("first token", compared.ttft_seconds, compared.predicted_ttft_seconds),
        ("per token", compared.tpot_seconds, compared.predicted_tpot_seconds),
    ):
        if seen is not None:
            lines.append(f"{name} {words.significant(seen)} s observed, {words.significant(thought)} s predicted")
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


def render_tracking(tracking: Tracking) -> str:
    """Return the text of a tracked job."""
    lines = words.wrap_lines(_summary(tracking), words.width(), 2)
    lines += ["", *words.section("Done", words.wrap_all(_done(tracking), line_room(), 2))]
    lines += words.section("Speed", words.wrap_all(_speed(tracking), line_room(), 2))
    if tracking.observed.peak_vram_gib is not None:
        lines += words.section("Memory", words.wrap_all(_memory(tracking), line_room(), 2))
    lines += phase_sections(tracking.phases, tracking.answers)
    lines += words.section("End", words.wrap_all(_end(tracking), line_room(), 2))
    if tracking.chain is not None:
        lines += words.section("Chain", words.wrap_all(_chain(tracking.chain), line_room(), 2))
    lines += words.section("Because", _causes(tracking))
    for choice in tracking.choices:
        lines += words.section(
            "Now" if choice is tracking.choices[0] else "", words.wrap_lines(_choice(choice), line_room(), 3)
        )
    lines += words.section("Logs", words.wrap_all(tracking.logs, line_room(), 2))
    lines += words.section("Notes", words.wrap_all(tracking.notes, line_room(), 3))
    return "\n".join(line.rstrip() for line in lines)


def _summary(tracking: Tracking) -> str:
    end, chance = tracking.projected, tracking.projected.deadline_probability
    text = (
        f"{tracking.job}: {100 * tracking.observed.share_done:.0f} % done, "
        f"ends after {words.likely(end.hours.expected)} for {words.usd(end.cost.expected)}"
    )
    if chance is None or tracking.planned.deadline_hours is None:
        return text
    deadline = words.given_hours(tracking.planned.deadline_hours)
    return f"{text}, meets the {deadline} h deadline with {words.chance_text(chance)} probability"


def _done(tracking: Tracking) -> list[str]:
    seen = tracking.observed
    how = "spent" if seen.spent_is_given else "spent at the prices of the plan"
    lines = [
        f"{seen.steps:,} of {tracking.planned.steps:,} steps in {words.hours(seen.elapsed_hours)}, "
        f"{words.usd(seen.spent_usd)} {how}"
    ]
    if seen.restarts:
        plural = "" if seen.restarts == 1 else "s"
        again = f", {seen.repeated_steps:,} steps done again" if seen.repeated_steps else ""
        lines.append(f"{seen.restarts} restart{plural}{again}")
    if seen.standing_hours >= MIN_CAUSE_HOURS:
        lines.append(f"stood still for {words.hours(seen.standing_hours)}")
    return lines


def _speed(tracking: Tracking) -> list[str]:
    seen, plan = tracking.observed, tracking.planned
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


def _memory(tracking: Tracking) -> list[str]:
    seen, plan = tracking.observed, tracking.planned
    return [
        f"{words.gib(seen.peak_vram_gib or 0.0)} of {words.gib(plan.usable_vram_gib)} GiB ({seen.peak_kind}), "
        f"{words.gib(seen.free_vram_gib or 0.0)} free; peak of {words.gib(plan.peak_vram_gib)} planned"
    ]


def _end(tracking: Tracking) -> list[str]:
    end, plan = tracking.projected, tracking.planned
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
            f"{words.sanitise(due.job)}: {words.given_hours(due.deadline_hours)} h deadline kept with "
            f"{words.chance_text(due.probability)} probability; asked for: {words.probability_text(due.confidence)}"
            for due in end.deadlines
        ),
        f"{words.usd(end.cost.expected)} for all jobs ({words.usd_between(end.cost.low, end.cost.high)}), "
        f"{words.usd(end.cost_at_confidence)} at {sure} confidence{budget}",
    ]


def _causes(tracking: Tracking) -> list[str]:
    shown = [cause for cause in tracking.causes if abs(cause.hours) >= MIN_CAUSE_HOURS]
    if not shown:
        return ["as planned within 3 minutes"]
    wide = max(len(cause.what) for cause in shown)
    return [
        f"{cause.what:<{wide}}  {cause.hours:+.1f} h" for cause in sorted(shown, key=lambda cause: -abs(cause.hours))
    ]


def _choice(choice: Choice) -> str:
    chance = (
        "" if choice.deadline_probability is None else f", {words.chance_text(choice.deadline_probability)} on time"
    )
    where = words.sanitise(f"{choice.machines} at {choice.provider}")
    return f"{choice.what}: {where}, {words.usd(choice.cost_usd)}, {words.likely(choice.hours.expected)} left{chance}"


# The result of `calibrate` for a probe as text: the verdict, then what was measured and what was compared.


def render_probe(verdict: ProbeVerdict) -> str:
    """Return the text of a verdict: what to do and what it costs in the first line."""
    lines = [*words.wrap_lines(_verdict_line(verdict), words.width(), 3), ""]
    lines += [verdict.block.rstrip(), ""] if verdict.measured else []
    step = verdict.step_seconds
    speed = [
        f"{words.significant(step.planned)} s per step planned "
        f"({words.significant(step.low)} to {words.significant(step.high)})"
    ]
    if step.measured is not None:
        speed[0] = f"{words.significant(step.measured)} s per step over {verdict.timed_steps:,} steps; " + speed[0]
    lines += words.section("Speed", words.wrap_all(speed, line_room(), 2))
    lines += words.section("Memory", words.wrap_all(_probed_memory(verdict), line_room(), 2))
    for number, choice in enumerate(verdict.choices):
        lines += words.section("" if number else "Ways", words.wrap_lines(_way(choice), line_room(), 3))
    lines += words.section("Notes", words.wrap_all(verdict.notes, line_room(), 3))
    return "\n".join(line.rstrip() for line in lines)


def _verdict_line(verdict: ProbeVerdict) -> str:
    best = verdict.choices[0]
    there = f"{words.usd(best.cost_usd)}, {words.likely(best.hours.expected)}"
    planned = f"{words.usd(verdict.planned_usd)} planned"
    where = words.sanitise(f"{best.machines} at {best.provider}")
    if verdict.is_kept:
        return f"{verdict.job}: keep {where}: {there} ({planned}); {verdict.reason}"
    if not best.meets_limits:
        why = f"nothing meets the limits, and here it is {there} ({planned})"
        return f"{verdict.job}: give back {where}: {why}; {verdict.reason}"
    if best.what == "change":
        return f"{verdict.job}: change to {best.change}: {there} ({planned}); {verdict.reason}"
    return f"{verdict.job}: give back, and rent {where}: {there} ({planned}); {verdict.reason}"


def _probed_memory(verdict: ProbeVerdict) -> list[str]:
    memory = verdict.memory
    if verdict.status == "oom":
        return [
            f"ran out of {words.gib(memory.usable)} GiB; {words.gib(memory.allocated_planned)} GiB planned (allocated)"
        ]
    lines = [f"{words.gib(memory.allocated or 0.0)} GiB allocated; {words.gib(memory.allocated_planned)} planned"]
    if memory.driver is not None:
        lines.append(f"{words.gib(memory.driver)} of {words.gib(memory.usable)} GiB taken, as the driver counts")
    return lines


def _way(choice: ProbeChoice) -> str:
    chance = (
        "" if choice.deadline_probability is None else f", {words.chance_text(choice.deadline_probability)} on time"
    )
    where = words.sanitise(f"{choice.machines} at {choice.provider}")
    how = f"change to {choice.change} on {where}" if choice.what == "change" else where
    name = {"keep": "keep", "change": "", "give back": "rent"}[choice.what]
    limits = "" if choice.meets_limits else "; misses the limits"
    return f"{name} {how}: {words.usd(choice.cost_usd)}, {words.likely(choice.hours.expected)}{chance}{limits}".strip()


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
    where = f"{words.sanitise(estimate.architecture)} on {words.gpus(estimate.gpus, estimate.gpu)}"
    if vram.fits:
        taken, speed = words.gib(vram.peak), plan_sections.rate(estimate)
        rooms = (f"fits, {taken} of {words.gib(vram.usable)} GiB", f"fits, {taken} GiB", "fits")
        wordings = [f"{room}, {speed}" for room in rooms]
    else:
        wordings = [f"does not fit: {words.gib(estimate.short_gib)} GiB short of {words.gib(vram.usable)} GiB"]
    form = next((form for form in wordings if len(where) + len(form) + 2 <= words.width()), wordings[-1])
    return f"{words.shorten(where, words.width() - len(form) - 2)}: {form}"


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
    per_step = f"{words.significant(step.total)} s per step"
    if not estimate.vram_gib.fits:
        per_step += f", {plan_sections.rate(estimate)} if it did fit"
    elif estimate.unit == "tokens":
        counted = words.significant(estimate.processed_tokens_per_second)
        per_step += f", {counted} tokens/s with {'padding' if estimate.packing == 'padded' else 'unfilled positions'}"
    lines = words.wrap_lines(per_step, line_room(), 1)
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


# The result of `simulate` as text: replayed and planned figures, their distribution, and the other policies.


HISTOGRAM_LINES = 5

NAME = 23
"""Columns of the name of a policy or a job."""

POLICY_NAMES = {OPTIMUM: "offline optimum"}
"""Names on the screen that differ from those of the data."""


def render_simulation(simulation: Simulation) -> str:
    """Return the text of a simulation without a final newline."""
    if not simulation.jobs or simulation.predicted is None or simulation.cost_usd is None or simulation.hours is None:
        first, *rest = render_infeasible(simulation.plan)
        return "\n".join([first, *cut_lines(simulation.plan.cut), *rest])
    lines = [
        *format_summary(simulation),
        *words.lines_below_first(simulation.fixed),
        *cut_lines(simulation.plan.cut),
        "",
    ]
    cost, hours = simulation.cost_usd, simulation.hours
    spread = f"{words.usd_between(cost.p05, cost.p95)} in 90 % of runs, median {words.usd(cost.p50)}"
    lines += words.section("Cost", [spread, *_budget(simulation)])
    lines += _draw_histogram(simulation.cost_histogram, words.usd)
    spread = f"{words.between(hours.p05, hours.p95)} in 90 % of runs, median {words.hours(hours.p50)}"
    lines += words.section("Hours", [spread, *_deadline(simulation)])
    lines += _draw_histogram(simulation.hours_histogram, words.hours)
    if simulation.spot_share:
        lines += words.section("Spot", words.wrap_lines(_spot(simulation), line_room(), 3))
    if len(simulation.policies) > 1:
        lines += ["", *_policies(simulation.policies)]
    if any(job.end_at_hours for job in simulation.jobs):
        lines += ["", *_jobs_in_turn(simulation.jobs)]
    elif len(simulation.jobs) > 1:
        lines += ["", *_jobs(simulation.jobs)]
    lines += ["", *words.section("Sampled", words.wrap_lines("; ".join(_sources(simulation)), line_room(), 5))]
    if (subject := shown_by(simulation)) is not None:
        lines += ["", *subject.replays(simulation)]
    return "\n".join([*lines, *words.section("Notes", words.wrap_all(simulation.notes, line_room(), 3))])


def format_summary(simulation: Simulation) -> list[str]:
    """Return mean cost and share of met deadlines of the runs, each with the figure of the plan."""
    if simulation.cost_usd is None or simulation.predicted is None:
        return []
    cost = f"{words.usd(simulation.cost_usd.mean)} on average over {simulation.runs:,} {_runs(simulation)}"
    planned = f" (plan: {words.usd(simulation.predicted.cost_usd)})"
    met = ""
    if simulation.deadline_hit_rate is not None:
        several = "s" if sum(job.deadline_hours is not None for job in simulation.jobs) > 1 else ""
        rate = format_frequency(simulation.deadline_hit_rate)
        met = f", deadline{several} met in {rate} of runs{_format_guarantee(simulation)}"
    name = words.shorten(words.sanitise(simulation.scenario), 40)
    others = simulation.next_to_jobs_usd
    beside = "" if others is None else f"; the service below costs {words.usd(others)} more"
    return words.wrap_lines(f"{name}: {cost}{planned}{met}{beside}", words.width(), 4)


def _runs(simulation: Simulation) -> str:
    if any(job.market and job.market.source == "traces" for job in simulation.jobs):
        return "recorded windows" if simulation.runs > 1 else "recorded window"
    noun = "market" if any(job.market for job in simulation.jobs) else "speed"
    return noun if simulation.runs == 1 else f"{noun}s"


def format_frequency(share: float) -> str:
    """Return a share of runs, such as `97.8 %`; only exact shares are shown as 0 or 100 %."""
    return f"{share * 100:.0f} %" if share in (0.0, 1.0) else f"{min(99.9, max(0.1, share * 100)):.1f} %"


def _format_guarantee(simulation: Simulation) -> str:
    plan = simulation.predicted
    if plan is None or plan.deadline_probability is None:
        return ""
    return f" (plan: {words.chance_text(plan.deadline_probability, plan.at_least)})"


def _budget(simulation: Simulation) -> list[str]:
    if simulation.budget_usd is None or simulation.budget_hit_rate is None:
        return []
    rate = format_frequency(simulation.budget_hit_rate)
    return [f"within the {words.usd(simulation.budget_usd)} budget in {rate} of runs"]


def _deadline(simulation: Simulation) -> list[str]:
    """Return the mean hours, those of the plan, and the deadline if all jobs have the same."""
    if simulation.hours is None or simulation.predicted is None:
        return []
    planned = words.likely(simulation.predicted.hours)
    if simulation.plan.hours is not None:
        planned += f", {words.by(simulation.plan.hours.at_confidence)}"
    text = f"{words.hours(simulation.hours.mean)} on average (plan: {planned})"
    deadlines = {job.deadline_hours for job in simulation.jobs if job.deadline_hours is not None}
    return [text + (f"; deadline {words.given_hours(deadlines.pop())} h" if len(deadlines) == 1 else "")]


def _draw_histogram(histogram: Histogram | None, form: Callable[[float], str]) -> list[str]:
    """Return columns of `#` over an axis with its ends; nothing if all runs are equal."""
    if histogram is None or len(histogram.counts) < 2:
        return []
    most = max(histogram.counts)
    margin = " " * words.LABEL
    heights = [-(-HISTOGRAM_LINES * count // most) for count in histogram.counts]
    rows = ["".join("#" if height >= row else " " for height in heights) for row in range(HISTOGRAM_LINES, 0, -1)]
    low, high = (form(edge) for edge in (histogram.edges[0], histogram.edges[-1]))
    axis = f"{low}{high:>{len(histogram.counts) - len(low)}}"
    return [*(f"{margin}{row}".rstrip() for row in rows), f"{margin}{'-' * len(histogram.counts)}", f"{margin}{axis}"]


def _spot(simulation: Simulation) -> str:
    facts = [f"{percent(simulation.spot_share)} of the work"]
    if simulation.interruptions is not None:
        facts.append(f"{simulation.interruptions:,.1f} interruptions")
    for hours, cause in ((simulation.wasted_hours, "of restarts and lost work"), (simulation.waiting_hours, "waiting")):
        facts += [f"{words.hours(hours)} {cause}"] if hours is not None else []
    return ", ".join(facts)


def percent(share: float | None) -> str:
    """Return a share in whole percent; only exact shares are shown as 0 or 100 %."""
    return "-" if share is None else spot_percent(share)


def _policies(policies: dict[str, PolicyFigures]) -> list[str]:
    """Return a row per policy: cost, mean hours, cost above the offline optimum, share in time, share on spot."""
    lines = [f"  {'policy':<{NAME}}{'cost':>11}{'hours':>8}{'above optimum':>17}{'in time':>9}{'spot':>10}"]
    for name, figures in policies.items():
        cost = words.usd(figures.cost_usd.mean) if figures.cost_usd else "-"
        over = "-"
        if figures.usd_over_optimum is not None and figures.share_over_optimum is not None:
            over = f"{words.usd(figures.usd_over_optimum)} {figures.share_over_optimum * 100:5.1f} %"
        hours = f"{figures.hours.mean:,.1f}" if figures.hours else "-"
        met = "-" if figures.deadline_hit_rate is None else f"{figures.deadline_hit_rate * 100:.1f} %"
        label = POLICY_NAMES.get(name, name)
        share = percent(figures.spot_share)
        lines.append(f"  {label:<{NAME}}{cost:>11}{hours:>8}{over:>17}{met:>9}{share:>10}")
    return lines


def _jobs(jobs: Sequence[JobReplays]) -> list[str]:
    """Return a row per job."""
    lines = [f"  {'job':<{NAME}}{'cost':>11}{'plan':>11}{'hours':>8}{'likely':>8}{'in time':>9}{'spot':>8}"]
    for job in jobs:
        if job.cost_usd is None or job.hours is None:
            continue
        name = words.shorten(words.sanitise(job.name), NAME - 1)
        met = "-" if job.deadline_hit_rate is None else f"{job.deadline_hit_rate * 100:.1f} %"
        usd = (words.usd(job.cost_usd.mean), words.usd(job.predicted.cost_usd))
        hours = (f"{job.hours.mean:,.1f}", f"{job.predicted.hours:,.1f}")
        share = f"{(job.spot_share or 0.0) * 100:.0f} %"
        lines.append(f"  {name:<{NAME}}{usd[0]:>11}{usd[1]:>11}{hours[0]:>8}{hours[1]:>8}{met:>9}{share:>8}")
    return lines


def _jobs_in_turn(jobs: Sequence[JobReplays]) -> list[str]:
    """Return a row per job of a timetable: start and end with 95 % of the runs before it, share in time."""
    head = f"{'cost':>11}{'start':>9}{'end':>9}{'95 % by':>9}{'deadline':>10}{'in time':>9}"
    lines = [f"  {'job':<{NAME}}{head}"]
    for job in jobs:
        if job.cost_usd is None or job.start_at_hours is None or job.end_at_hours is None:
            continue
        times = (job.start_at_hours.mean, job.end_at_hours.mean, job.end_at_hours.p95)
        row = "".join(f"{hours:>9,.1f}" for hours in times)
        due = "-" if job.deadline_hours is None else words.given_hours(job.deadline_hours)
        met = "-" if job.deadline_hit_rate is None else f"{job.deadline_hit_rate * 100:.1f} %"
        name = words.shorten(words.sanitise(job.name), NAME - 1)
        lines.append(f"  {name:<{NAME}}{words.usd(job.cost_usd.mean):>11}{row}{due:>10}{met:>9}")
    cut = [job for job in jobs if job.outlasts_machines]
    for job in cut[:3]:
        rate = format_frequency(job.outlasts_machines or 0.0)
        lines.append(
            f"  {words.sanitise(job.name)} outlasts the window or reservation of its machines in {rate} of runs"
        )
    return lines


def _sources(simulation: Simulation) -> list[str]:
    """Return what was sampled: seed, speed and markets."""
    markets = [_market(job, len(simulation.jobs) > 1) for job in simulation.jobs if job.market is not None]
    speed = "speed with the error of the estimate (Student t, 2 degrees of freedom, cut at its 2.5 and 97.5 % ranks)"
    if simulation.exact_speed:
        speed = "every run at the expected speed"
    return [f"seed {simulation.seed}", speed, *markets]


def _market(job: JobReplays, several: bool) -> str:
    market = job.market
    if market is None:
        return ""
    name = f"{words.sanitise(job.name)}: " if several else ""
    group = f" of {market.instances} machines together" if market.instances > 1 else ""
    share = f"available {percent(market.availability)} of the time"
    tick = "each machine by itself"
    if market.tick_hours is not None:
        tick = f"a decision every {words.significant(market.tick_hours * 60, 2)} min"
    if market.source == "traces":
        count = f"{market.windows:,} window{'s' if market.windows != 1 else ''}"
        names = f"{len(market.traces)} trace{'s' if len(market.traces) > 1 else ''}"
        return f"{name}{names}{group}, {share}, {count} long enough for the job, {tick}"
    stays = "never interrupted"
    if market.mean_up_hours is not None and market.mean_outage_hours is not None:
        up, outage = words.hours(market.mean_up_hours), words.hours(market.mean_outage_hours)
        stays = f"mean up-time {up}, mean outage {outage}"
    return f"{name}market{group} {share}, {stays}, heavy-tailed, {tick}"

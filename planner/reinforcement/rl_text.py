"""An estimate of reinforcement learning as text: the step as a strip of phases, memory, ways to divide the GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.reinforcement.rl_results import PreferenceEstimate, RlEstimate, RlWay
from planner.reinforcement.rl_step import RlPhases
from planner.report import words
from planner.report.words import draw_bar, line_room
from planner.results.plan_parts import Spread
from planner.results.subject_runs import RL_PHASE_NAMES, PhaseMemory, RlRun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.results.simulation import Simulation

SPEED_RISK = "speed is a prior: published steps differ from the formulas by 18 % in the median, others may by more"
NETWORK_RISK = "weights cross a network that no offer states"
"""Notes of a plan that may change the decision begin with one of these."""
MEGATRON_NOTE = (
    "the trainer is Megatron: published steps with it took 18 % longer than the formulas say (median of 34), and none "
    "states its memory"
)
"""Note of a plan whose trainer is Megatron: published steps of NeMo-RL (31) and verl (3)."""
NAMED_PARTS = 4
"""Parts of a memory that are named; the rest is one figure."""


def corrected_words(factors: RlPhases) -> list[str]:
    """Return how observed runs correct the phases of a step."""
    changed = {name: factor for name, factor in factors.by_name.items() if factor != 1.0}
    named = ", ".join(f"{RL_PHASE_NAMES[name]} x {factor:.2f}" for name, factor in changed.items())
    return [f"seconds are corrected by observed runs of this job: {named or 'nothing'}"]


def render_rl(estimate: RlEstimate) -> str:
    """Return the text without a final newline."""
    lines = [
        *words.wrap_lines(_summary(estimate), words.width(), 2),
        *(_does_not_fit(phase) for phase in estimate.memory if not phase.fits),
        *_warned("a prior, with guessed figures: run two steps and compare before you rent for the whole run"),
        "",
        *words.section("Sample", words.wrap_all(_sample(estimate), line_room(), 2)),
        *words.section("Step", _step(estimate)),
        *words.section("Memory", words.wrap_all(memory_lines(estimate.memory), line_room(), 2)),
        *words.section("Cost", words.wrap_all(_cost(estimate), line_room(), 2)),
        *words.section("Ways", _ways(estimate)),
        *words.section("Changes", words.wrap_all(_changes(estimate), line_room(), 2)),
        *words.section("Assumed", words.wrap_lines(", ".join(estimate.assumed), line_room(), 3)),
        *words.section("Notes", words.wrap_all(estimate.notes, line_room(), 3)),
    ]
    return "\n".join(lines)


def _changes(estimate: RlEstimate) -> list[str]:
    return [f"{what}: {_seconds(seconds)}" for what, seconds in estimate.changes.items()]


def _summary(estimate: RlEstimate) -> str:
    """Return model, GPUs, seconds of a step and hours of all."""
    place = words.gpus(estimate.training_gpus, estimate.gpu)
    if estimate.rollout_gpus:
        place += f" + {words.gpus(estimate.rollout_gpus, estimate.rollout_gpu)} for rollouts"
    if estimate.reward_gpus:
        place += f" + {words.gpus(estimate.reward_gpus, estimate.gpu)} for rewards"
    what = f"{estimate.algorithm} of {words.sanitise(estimate.architecture)} on {place}"
    hours = f"{estimate.steps:,} steps {_range(estimate.hours)} h"
    return f"{what}: {_range(estimate.step_seconds)} s per step, {hours}"


def _warned(text: str) -> list[str]:
    return words.hang("! ", words.wrap_lines(text, words.width() - 2, 2))


def _does_not_fit(phase: PhaseMemory) -> str:
    short = words.gib(phase.peak - phase.usable)
    return f"! {phase.phase} does not fit: {short} GiB short of {words.gib(phase.usable)} GiB"


def _sample(estimate: RlEstimate) -> list[str]:
    drawn = f"{estimate.sequences:,} answers a step"
    if estimate.sampled > estimate.sequences:
        drawn += f", {estimate.sampled:,} sampled"
    lengths = f"{estimate.input_tokens:,.0f} tokens in, {estimate.output_tokens:,.0f} out, cut at"
    scores = [reward_words(estimate)] if estimate.reward_model else []
    return [f"{drawn}, {lengths} {estimate.longest_output:,}", engine_words(estimate, estimate.rollout_gpu), *scores]


def engine_words(step: RlEstimate | RlRun, gpu: str) -> str:
    """Return how many engines of how many GPUs sample, and how many answers each works on."""
    weights = " with fp8 weights" if step.rollout_weight_bits < 16 else ""
    engines = f"{step.engines} x {step.engine} of {words.gpus(step.gpus_per_engine, gpu)}{weights}"
    return f"{engines}, {step.seats:,} answers at a time each"


def reward_words(step: RlEstimate | RlRun) -> str:
    """Return which model scores the answers, and where."""
    where = "the GPUs that train"
    if step.reward_gpus:
        where = f"{step.reward_gpus} GPU{'s' * (step.reward_gpus > 1)} of its own, after the last answer"
    return f"{words.sanitise(step.reward_model)} scores each answer in one pass, on {where}"


def _step(estimate: RlEstimate) -> list[str]:
    """Return a bar for each phase, the tail of the rollout, and who waits."""
    scale = max(estimate.phases.values())
    bars = [
        draw_bar(RL_PHASE_NAMES[name], seconds, scale, words.significant, "#")
        for name, seconds in estimate.phases.items()
        if seconds > 0
    ]
    waits = waiting_words(estimate.overlapped, estimate.idle, estimate.idle_share)
    return [*bars, *words.wrap_all([tail_words(estimate), waits], line_room(), 2)]


def tail_words(step: RlEstimate | RlRun) -> str:
    """Return how the tail of a rollout ends."""
    whole = step.tail_seconds >= 0.999 * step.phases["rollout"]
    when = "in the rollout" if whole else f"in the last {_seconds(step.tail_seconds)} of the rollout"
    empty = f"{words.percent(step.tail_ended_share)} of the engines' places are empty on average"
    return f"{when} {empty}: they wait for the longest answers"


def waiting_words(overlapped: bool, idle: str, idle_share: float) -> str:
    """Return whether sides overlap, and who waits."""
    together = "rollout and training overlap" if overlapped else "the phases follow one another"
    return together + (f", the {idle} waits {words.percent(idle_share)} of a step" if idle else "")


def memory_lines(memory: Sequence[PhaseMemory]) -> list[str]:
    """Return a line for the memory of each phase."""
    return [_memory(phase) for phase in memory]


def _memory(phase: PhaseMemory) -> str:
    room = f"{words.gib(phase.peak)} of {words.gib(phase.usable)} GiB per {phase.gpu}"
    return f"{phase.phase}: {room} ({_largest(phase.parts)})"


def _largest(parts: Mapping[str, float]) -> str:
    """Return the largest parts of a memory in GiB, and the rest."""
    largest = sorted(parts.items(), key=lambda part: -part[1])
    named = [f"{name.replace('_', ' ')} {words.gib(size)}" for name, size in largest[:NAMED_PARTS]]
    rest = sum(size for _, size in largest[NAMED_PARTS:])
    return ", ".join([*named, f"rest {words.gib(rest)}"] if rest >= 0.05 else named)


def _cost(estimate: RlEstimate) -> list[str]:
    if estimate.usd_per_100_steps is None:
        return ["no price: the shipped market does not rent this GPU; give --usd-per-gpu-hour"]
    return [f"{_dollars(estimate.usd_per_100_steps)} for each 100 steps ({estimate.price_basis})"]


def _ways(estimate: RlEstimate) -> list[str]:
    """Return a line for each other way to divide as many GPUs."""
    return [_way(way) for way in estimate.ways]


def _way(way: RlWay) -> str:
    place = (
        f"{way.training_gpus} train, {way.rollout_gpus} sample"
        if way.rollout_gpus
        else f"all {way.training_gpus} in turn"
    )
    waits = f"{way.idle} waits {words.percent(way.idle_share)}" if way.idle else ""
    usd = f"${words.significant(way.usd_per_100_steps)} per 100" if way.usd_per_100_steps else ""
    return f"{place:<22}{_seconds(way.step_seconds):>9} a step  {usd:<16}  {waits}".rstrip()


def _seconds(value: float) -> str:
    return f"{words.significant(value)} s"


def _dollars(spread: Spread) -> str:
    return f"{words.usd(spread.expected)} ({words.usd_between(spread.low, spread.high)})"


def _range(spread: Spread) -> str:
    figures = (words.significant(value) for value in (spread.expected, spread.low, spread.high))
    return "{} ({} to {})".format(*figures)


# Replays of a plan.


def replay_lines(found: Simulation) -> list[str]:
    """Return steps, rollouts and engines that were lost, each with what was planned."""
    lines, several = list[str](), sum(job.steps is not None for job in found.jobs) > 1
    for job in found.jobs:
        if (steps := job.steps) is None:
            continue
        of = f"{words.sanitise(job.name)}: " if several else ""
        rollout, step = steps.rollout_seconds, steps.step_seconds
        share = f"{words.percent(steps.within_hours)} of runs end within the planned hours"
        texts = [
            f"{of}{_seconds(step.mean)} on average at the expected speed "
            f"(plan: {_seconds(steps.planned_step_seconds)})",
            f"rollout {_seconds(rollout.mean)}, 90 % of them {_seconds(rollout.p05)} to {_seconds(rollout.p95)} "
            f"(plan: {_seconds(steps.planned_rollout_seconds)}), with engines that are always there",
            f"{share} (plan: {words.percent(steps.planned_within)})",
        ]
        lines += words.section("Step", words.wrap_all(texts, line_room(), 2))
        if job.interruptions is not None and job.predicted.interruptions is not None:
            lost = f"{job.interruptions:,.1f} times a machine is lost (plan: {job.predicted.interruptions:,.1f})"
            wasted = f"{words.hours(job.wasted_hours or 0.0)} of machines for restarts and lost answers"
            lines += words.section("Engines", words.wrap_lines(f"{lost}, {wasted}", line_room(), 2))
    return lines


# Preference tuning.


REFERENCES = {
    "model": "a copy of the model",
    "adapter": "the model with its adapter switched off",
    "precomputed": "log-probabilities of an earlier pass",
    "offloaded_model": "a copy of the model in host memory",
    "none": "none",
}


def render_preference(estimate: PreferenceEstimate) -> str:
    """Return the text without a final newline."""
    lines = [
        *words.wrap_lines(_preference_summary(estimate), words.width(), 2),
        *_warned("a prior: no published run informs preference tuning; try twenty steps first"),
        "",
        *words.section("Pairs", words.wrap_all(_pairs(estimate), line_room(), 2)),
        *words.section("Memory", words.wrap_all(_preference_memory(estimate), line_room(), 2)),
        *words.section("Time", words.wrap_all(_preference_time(estimate), line_room(), 2)),
        *words.section("Assumed", words.wrap_lines(", ".join(estimate.assumed), line_room(), 3)),
        *words.section("Notes", words.wrap_all(estimate.notes, line_room(), 3)),
    ]
    return "\n".join(lines)


def _preference_summary(estimate: PreferenceEstimate) -> str:
    place = words.gpus(estimate.gpus, estimate.gpu)
    what = f"{estimate.objective} of {words.sanitise(estimate.architecture)}, {estimate.method}, on {place}"
    room = f"{words.gib(estimate.peak_gib)} of {words.gib(estimate.usable_gib)} GiB"
    if not estimate.fits:
        return f"{what}: does not fit, {room}"
    usd = f", {_dollars(estimate.usd)}" if estimate.usd else ""
    return f"{what}: fits, {room}, {_range(estimate.hours)} h{usd}"


def _pairs(estimate: PreferenceEstimate) -> list[str]:
    each = "chosen and rejected answers" if estimate.sequences_per_pair == 2 else "single answers"
    lengths = f"{estimate.input_tokens:,.0f} tokens in, {estimate.output_tokens:,.0f} out, at most"
    return [
        f"{estimate.pairs:,} with {each}, {estimate.pairs_at_once:,} at once on a GPU, {estimate.packing}",
        f"{lengths} {estimate.longest_output:,}; reference: {REFERENCES[estimate.reference]}",
    ]


def _preference_memory(estimate: PreferenceEstimate) -> list[str]:
    parts = dict(estimate.parts)
    if estimate.reference_gib:
        parts["reference"] = estimate.reference_gib
    return [f"{words.gib(estimate.peak_gib)} GiB per GPU with the longest answers ({_largest(parts)})"]


def _preference_time(estimate: PreferenceEstimate) -> list[str]:
    shares = ", ".join(f"{name} {words.percent(share)}" for name, share in estimate.shares.items() if share)
    cost = "no price: give --usd-per-gpu-hour" if estimate.usd is None else f"price: {estimate.price_basis}"
    return [shares, cost]

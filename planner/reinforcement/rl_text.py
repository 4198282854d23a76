"""Reinforcement learning as text: the answer of a plan, its changes and replays, estimates of a step and of pairs."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from planner import timetable
from planner.report import plan_answer, plan_sections, plan_text, words
from planner.report.explanation_text import render_infeasible
from planner.report.words import draw_bar, line_room
from planner.results.plan_parts import Spread
from planner.results.subject_runs import (
    NETWORK_RISK,
    RL_PHASE_NAMES,
    SAMPLING_PHASES,
    SECURE,
    SPEED_RISK,
    TRAINER_PHASES,
    PhaseMemory,
    PreferenceEstimate,
    RlEstimate,
    RlRun,
    RlWay,
    layout_words,
    reward_gpus_words,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.results.plan import Plan
    from planner.results.simulation import Simulation
    from planner.results.subject_runs import RlPool
    from planner.results.what_if import WhatIf

STRIP = 56
"""Characters of the strip of a step, where there is room."""
ROOM_FOR_STEPS = 70
"""Columns below which the table of ways has no seconds of a step."""
STRIP_MARGIN = 12
"""Characters of a line that a strip leaves: for its name, and for phases that are shorter than a character."""
RISKS = {SPEED_RISK: "speed is a prior", NETWORK_RISK: "an unstated network"}
"""Notes that are risks, by how they begin, with a few words for each."""
PRIVATE = "a private person's machine"
EXCLUDES_HOSTS = "--set 'limits.tiers.forbid=[community]'"
SIGNS = {
    **{"rollout": "R", "own_reward": "M", "reward": "M", "log_probabilities": "L", "training": "T"},
    **{"new_weights": "W", "fixed": "."},
}
"""One character of the strip for each phase."""
NAMED_PARTS = 4
"""Parts of a memory that are named; the rest is one figure."""


def render_rl_answer(plan: Plan) -> str:
    """Return the answer without a final newline."""
    if len(plan.planned) > 1:
        return _chain_answer(plan)
    (run,) = plan.reinforcement
    return "\n".join(
        [
            *words.wrap_lines(f"{words.sanitise(plan.scenario)}: {_headline(plan)}", words.width(), 2),
            *(
                line
                for risk in risk_lines(run)
                for line in words.hang("! ", words.wrap_lines(risk, words.width() - 2, 2))
            ),
            "",
            *_ways(run),
            *([""] if run.ways else []),
            *words.section("Step", words.wrap_all(_step(run), line_room(), 3)),
            *words.section("Train", words.wrap_all(_train(run), line_room(), 2)),
            *words.section("Rollout", words.wrap_all(_rollout(run), line_room(), 2)),
            *words.section("Memory", words.wrap_all(memory_lines(run.memory), line_room(), 2)),
            *words.section("Time", words.wrap_all(_time(run), line_room(), 2)),
            *words.section("Bill", plan_sections.bill(run)),
            *words.section("Per 100", words.wrap_all(_per_100(run), line_room(), 4)),
            *words.section("Assumed", words.wrap_lines(", ".join(run.assumed), line_room(), 3) if run.assumed else []),
            *words.section("Notes", words.wrap_all(_notes(run), line_room(), 3)),
            *words.section("Why", words.wrap_all([_why(plan)], line_room(), 2)),
        ]
    )


def _chain_answer(plan: Plan) -> str:
    """Return the answer of a plan with several jobs: all as a table, then each run by itself."""
    room = line_room()
    lines = [
        plan_answer.first_line_of_jobs(plan),
        *plan_answer.risk_lines(risks_of_chain(plan)),
        "",
        *plan_answer.job_lines(plan, [_row(plan, run) for run in plan.reinforcement]),
        "",
    ]
    for run in plan.reinforcement:
        lines += words.section("Step", words.wrap_all([f"of {words.sanitise(run.name)}:", *_step(run)], room, 3))
        lines += words.section("Train", words.wrap_all(_train(run), room, 2))
        lines += words.section("Rollout", words.wrap_all(_rollout(run), room, 2))
    return "\n".join(
        [
            *lines,
            *words.section("Time", words.wrap_lines(_chain_time(plan), room, 2 + len(plan.reinforcement))),
            *words.section("Bill", words.wrap_lines(_chain_bill(plan), room, 6)),
            *words.section("Why", words.wrap_lines(plan_answer.why_text_of_jobs(plan), room, 4)),
            *words.section("Notes", plan_answer.first_note(plan.warnings)),
        ]
    )


def render_chain_details(plan: Plan, other_jobs: Plan | None) -> str:
    """Return the answer, then the other jobs with all that there is to say of them, then what is left of each run.

    `other_jobs` is the plan without its runs; None where there are none.
    """
    room, own = line_room(), list[str]()
    for run in plan.reinforcement:
        own += [
            "",
            *words.wrap_lines(f"{words.sanitise(run.name)}: {_run_words(run)}", words.width(), 3),
            *(["", *_ways(run), ""] if run.ways else []),
            *words.section("Memory", words.wrap_all(memory_lines(run.memory), room, 2)),
            *words.section("Bill", plan_sections.bill(run)),
            *words.section("Per 100", words.wrap_all(_per_100(run), room, 4)),
            *words.section("Assumed", words.wrap_lines(", ".join(run.assumed), room, 3) if run.assumed else []),
            *words.section("Notes", words.wrap_all(run.notes, room, 3)),
        ]
    others = [] if other_jobs is None else ["", plan_text.render(other_jobs)]
    return "\n".join([_chain_answer(plan), *others, *own])


def _row(plan: Plan, run: RlRun) -> plan_answer.JobRow:
    """Return the run as a row of the table of jobs."""
    late = timetable.end_text(plan, run.finish_hours)
    how = f"{run.algorithm}, {run.placement}"
    machines = " + ".join(map(_pool_words, run.pools))
    return plan_answer.JobRow([run.name], machines, run.start_at_hours, late, run.cost_usd, how, is_reserved=False)


def risks_of_chain(plan: Plan) -> list[plan_answer.Risk]:
    """Return what of the runs and of the other jobs would change the decision; of a run alone what of it does."""
    if len(plan.planned) == 1:
        return [plan_answer.Risk("", text) for run in plan.reinforcement for text in risk_lines(run)]
    hosts = [part.name for part in plan.parts_that_end if any(m.tier == "community" for m in part.rented)]
    whose = " and ".join(map(words.sanitise, hosts)) if len(hosts) < len(plan.planned) else "every job"
    private = plan_answer.Risk(PRIVATE, f"{whose}: a private person's machine ({EXCLUDES_HOSTS} excludes it)")
    said: dict[tuple[str, str], list[str]] = {}
    for run in plan.reinforcement:
        for note in run.notes:
            for kind in (kind for begin, kind in RISKS.items() if note.startswith(begin)):
                said.setdefault((kind, note), []).append(words.sanitise(run.name))
    own = [plan_answer.Risk(kind, f"{' and '.join(names)}: {note}") for (kind, note), names in said.items()]
    others = [risk for risk in plan_answer.risks_of_jobs(plan) if risk.kind != PRIVATE]
    return [*([private] if hosts else []), *own, *others]


def _chain_time(plan: Plan) -> str:
    """Return when the last job ends, and the steps and the deadline of each run."""
    texts = []
    if plan.hours is not None:
        likely = timetable.moment_text(plan, plan.hours.expected)
        texts.append(f"last end likely {likely}, by {timetable.end_text(plan, plan.hours.at_confidence)}")
    for run in plan.reinforcement:
        by = f", deadline {words.hours(run.deadline_hours)}" if run.deadline_hours is not None else ""
        steps = f"{run.steps:,} steps in {words.hours(run.hours.low)} to {words.hours(run.hours.high)}"
        texts.append(f"{words.sanitise(run.name)}: {steps}{by}")
    return "; ".join(texts)


def _chain_bill(plan: Plan) -> str:
    """Return the bill of all jobs, with what it is at the confidence of a budget."""
    assert plan.cost is not None
    text = plan_sections.bill_text(plan.parts_that_end, plan.cost, plan.reservations)
    if plan.budget_usd is None or plan.cost_at_confidence is None:
        return text
    return f"{text}; {words.usd(plan.cost_at_confidence)} of the {words.usd(plan.budget_usd)} budget at its confidence"


def _pool_words(pool: RlPool) -> str:
    place = pool.provider + (", spot" if pool.market == "spot" else "")
    hosts = ", private host" if pool.tier == "community" else ""
    return words.sanitise(f"{words.gpus(pool.gpus, pool.gpu)} at {place}{hosts}")


def _headline(plan: Plan) -> str:
    """Return machines, how they share the work, dollars and the hours at the confidence."""
    (run,) = plan.reinforcement
    return _run_words(run)


def _run_words(run: RlRun) -> str:
    """Return machines, how they share the work, dollars and the end of a run."""
    first, *others = run.pools
    scores = reward_gpus_words(run.reward_gpus)
    if others:
        machines = f"{_pool_words(first)} train{scores}, {_pool_words(others[0])} sample"
    elif run.placement == "one machine":
        machines = f"{_pool_words(first)}, {run.training_gpus} train and {run.rollout_gpus} sample{scores}"
    else:
        machines = f"{_pool_words(first)}, sampling and training in turn{scores}"
    return f"{machines}, {words.usd(run.cost_usd)}, {words.by(run.finish_hours)}"


def risk_lines(run: RlRun) -> list[str]:
    """Return what would change the decision, a line each."""
    lines = [note for note in run.notes if note.startswith(tuple(RISKS))]
    if any(pool.tier == "community" for pool in run.pools):
        lines.append(f"{PRIVATE}{_secure_text(run)}")
    if run.price_age_days is not None and run.price_age_days > 60:
        lines.append(f"prices {run.price_age_days} days old: {plan_sections.RENEWS_PRICES}")
    return lines


def _secure_text(run: RlRun) -> str:
    """Return what the run costs without machines of private persons, where other ways are known."""
    secure = next((way for way in run.ways if way.label == SECURE), None)
    if secure is not None:
        return f": secure ones from {words.usd(secure.cost_usd)} ({EXCLUDES_HOSTS})"
    return "; no other is within the limits" if run.ways else f" ({EXCLUDES_HOSTS} excludes it)"


def _notes(run: RlRun) -> list[str]:
    """Return the notes that are no risk."""
    return [note for note in run.notes if not note.startswith(tuple(RISKS))]


def _ways(run: RlRun) -> list[str]:
    """Return a row for each way, the plan's with its sign."""
    if not run.ways:
        return []
    rows = [("way", "GPUs", "$/h", "cost", "by", "step")]
    rows += [
        (
            way.label,
            way.machines,
            f"{way.usd_per_hour:,.2f}",
            words.usd(way.cost_usd),
            words.hours_by(way.hours_at_confidence),
            f"{words.significant(way.step_seconds)} s",
        )
        for way in run.ways
    ]
    marked = next((number for number, row in enumerate(rows) if row[0] == "plan"), None)
    shown = len(rows[0]) - (words.width() < ROOM_FOR_STEPS)
    return words.table([row[:shown] for row in rows], right=range(2, shown), cut=1, marked=marked)


def _strip(run: RlRun) -> list[str]:
    """Return the step as strips: one where phases follow one another, one for each side where they overlap."""
    room = min(STRIP, line_room() - STRIP_MARGIN)

    def strip(names: tuple[str, ...]) -> str:
        there = [name for name in names if name in run.phases]
        return "".join(SIGNS[name] * max(round(room * run.phases[name] / run.step_seconds), 1) for name in there)

    sides, rest = (SAMPLING_PHASES, TRAINER_PHASES), ("new_weights", "fixed")
    if not run.overlapped:
        return [strip((*sides[0], *sides[1], *rest))]
    sampling, training = map(strip, sides)
    size = max(len(sampling), len(training))
    end = strip(rest)
    return [f"engines {sampling.ljust(size, '-')}{end}", f"trainer {training.ljust(size, '-')}{end}"]


def _step(run: RlRun) -> list[str]:
    named = {name: seconds for name, seconds in run.phases.items() if seconds > 0}
    legend = ", ".join(
        f"{SIGNS[name]} {RL_PHASE_NAMES[name]} {words.significant(seconds)} s" for name, seconds in named.items()
    )
    first = f"{words.significant(run.step_seconds)} s: {legend}" + (", - waits" if run.overlapped else "")
    return [*_strip(run), first, waiting_words(run.overlapped, run.idle, run.idle_share), tail_words(run)]


def _train(run: RlRun) -> list[str]:
    trained = "all weights" if run.method == "full" else f"LoRA r{run.lora_rank} on {run.weight_bits}-bit weights"
    sharding = "" if run.sharding == "none" else f"{run.sharding}, "
    layout = "".join(f"{words}, " for words in layout_words(run))
    how = f"{trained}, {layout}{sharding}{run.activation_checkpointing} checkpointing, {run.optimizer}"
    where = "a GPU" if run.gpus_per_copy == 1 else f"{run.gpus_per_copy} GPUs"
    count = f"{run.sequences:,} answers a step, at most {run.micro_batch} of the longest on {where} at a time"
    return [f"{run.algorithm}, {how}", count]


def _rollout(run: RlRun) -> list[str]:
    lengths = f"{run.input_tokens:,.0f} tokens in, {run.output_tokens:,.0f} out, cut at {run.longest_output:,}"
    scores = [reward_words(run)] if run.reward_model else []
    return [f"{run.sampled:,} answers a step: {lengths}", engine_words(run, run.pools[-1].gpu), *scores]


def _time(run: RlRun) -> list[str]:
    deadline = f"; deadline {words.hours(run.deadline_hours)}" if run.deadline_hours is not None else ""
    likely = f"{words.likely(run.hours.expected)} ({words.between(run.hours.low, run.hours.high)})"
    return [f"{run.steps:,} steps, {likely}, {words.by(run.hours.at_confidence)}{deadline}"]


def _per_100(run: RlRun) -> list[str]:
    """Return the dollars of 100 steps, and what they would be with other work on the same machines."""
    changed = [
        f"{change}: {'does not fit on these machines' if usd is None else words.usd(usd)}"
        for change, usd in run.changes.items()
    ]
    return [f"{words.usd(run.usd_per_100_steps)} for each 100 steps", *changed]


def _why(plan: Plan) -> str:
    return f"proven cheapest of {plan.candidates.made:,} ways; check with planner check"


def rl_sections(run: RlRun) -> list[tuple[str, list[str]]]:
    """Return the sections of the answer with their lines, as a page shows them; step, ways and bill are figures."""
    return [
        ("Machines", [", ".join([_pool_words(pool), pool.role]) for pool in run.pools]),
        ("Step", [waiting_words(run.overlapped, run.idle, run.idle_share), tail_words(run)]),
        ("Train", _train(run)),
        ("Rollout", _rollout(run)),
        ("Memory", memory_lines(run.memory)),
        ("Time", _time(run)),
        ("Per 100", _per_100(run)),
        ("Assumed", list(run.assumed)),
        ("Notes", _notes(run)),
    ]


# Before and after a change.


def render_rl_what_if(answer: WhatIf) -> str:
    """Return the text of a what-if without a final newline: both plans, and what changed."""
    before, after = answer.before, answer.after
    if not after.reinforcement:
        return "\n".join([words.first_fitting(answer.scenario, "no plan after the change"), *render_infeasible(after)])
    is_chain = any(len(plan.planned) > 1 for plan in (before, after))
    figures = [_chain_figures(plan) if is_chain else _figures(plan) for plan in (before, after)]
    rows = [(name, figures[0].get(name, ""), figures[1][name]) for name in figures[1]]
    usd, hours = answer.delta.cost_usd, answer.delta.hours
    changed = "feasible after the change"
    if usd is not None and hours is not None:
        later = f"likely {abs(hours):,.1f} h {'later' if hours >= 0 else 'earlier'}"
        changed = f"{words.usd(abs(usd))} {'more' if usd >= 0 else 'less'}, {later}"
        changed = "nothing changes" if all(old == new for _, old, new in rows) else changed
    lines = [f"{words.sanitise(answer.scenario)}: {changed}", ""]
    size = max(10, *(len(name) + 2 for name, _, _ in rows))
    most = (words.width() - size - 4) // 2
    half = min(max(len(cell) for _, *cells in rows for cell in cells), most)
    for name, *cells in [("", "before", "after"), *rows]:
        of_before, of_after = (words.wrap_lines(cell, half, words.CELL_LINES) for cell in cells)
        for label, old, new in zip_longest([name], of_before, of_after, fillvalue=""):
            lines.append(f"  {label:<{size}}{old:<{half}}  {new}".rstrip())
    return "\n".join(lines)


def _figures(plan: Plan) -> dict[str, str]:
    """Return the figures of a plan by the names of its rows; of no plan that there is none."""
    if not plan.reinforcement:
        return {"machines": plan.status}
    (run,) = plan.reinforcement
    return {
        "machines": " + ".join(f"{words.gpus(pool.gpus, pool.gpu)} {pool.provider}" for pool in run.pools),
        "way": f"{run.placement}, {'overlapped' if run.overlapped else 'in turn'}"
        + (", fp8" if run.rollout_weight_bits < 16 else "")
        + ("" if run.engine == "vllm" else f", {run.engine}")
        + reward_gpus_words(run.reward_gpus),
        "step": f"{words.significant(run.step_seconds)} s",
        "cost": words.usd(run.cost_usd),
        "by": words.hours_by(run.hours.at_confidence),
        "per 100": words.usd(run.usd_per_100_steps),
    }


def _chain_figures(plan: Plan) -> dict[str, str]:
    """Return the machines, dollars and end of each job of a plan with several, then of all."""
    if plan.cost is None or plan.hours is None:
        return {"all jobs": plan.status}
    figures = {}
    for part in plan.parts_that_end:
        machines = " + ".join(f"{gpus} x {gpu}" for _, gpu, gpus in part.held)
        figures[words.sanitise(part.name)] = (
            f"{machines}, {words.usd(part.cost_usd)}, {words.hours_by(part.finish_hours)}"
        )
    return figures | {"all jobs": f"{words.usd(plan.cost.expected)}, {words.hours_by(plan.hours.at_confidence)}"}


# Replays of a plan.


def replay_lines(simulation: Simulation) -> list[str]:
    """Return steps, rollouts and engines that were lost, each with what was planned."""
    lines, several = list[str](), sum(job.steps is not None for job in simulation.jobs) > 1
    for job in simulation.jobs:
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


# What is said of a step of a plan and of an estimate alike.


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


def _seconds(value: float) -> str:
    return f"{words.significant(value)} s"


def _dollars(spread: Spread) -> str:
    return f"{words.usd(spread.expected)} ({words.usd_between(spread.low, spread.high)})"


def _range(spread: Spread) -> str:
    figures = (words.significant(value) for value in (spread.expected, spread.low, spread.high))
    return "{} ({} to {})".format(*figures)


# The estimate of a step: phases as bars, memory, ways to divide the GPUs.


def render_rl(estimate: RlEstimate) -> str:
    """Return the text without a final newline."""
    lines = [
        *words.wrap_lines(_summary(estimate), words.width(), 2),
        *(_does_not_fit(phase) for phase in estimate.memory if not phase.fits),
        *_warned("a prior, with guessed figures: run two steps and compare before you rent for the whole run"),
        "",
        *words.section("Sample", words.wrap_all(_sample(estimate), line_room(), 2)),
        *words.section("Step", _estimated_step(estimate)),
        *words.section("Memory", words.wrap_all(memory_lines(estimate.memory), line_room(), 2)),
        *words.section("Cost", words.wrap_all(_cost(estimate), line_room(), 2)),
        *words.section("Ways", _estimated_ways(estimate)),
        *words.section("Changes", words.wrap_all(_changes(estimate), line_room(), 2)),
        *words.section("Assumed", words.wrap_lines(", ".join(estimate.assumed), line_room(), 3)),
        *words.section("Notes", words.wrap_all(estimate.notes, line_room(), 3)),
    ]
    return "\n".join(lines)


def _changes(estimate: RlEstimate) -> list[str]:
    return [f"{change}: {_seconds(seconds)}" for change, seconds in estimate.changes.items()]


def _summary(estimate: RlEstimate) -> str:
    """Return model, GPUs, seconds of a step and hours of all."""
    place = words.gpus(estimate.training_gpus, estimate.gpu)
    if estimate.rollout_gpus:
        place += f" + {words.gpus(estimate.rollout_gpus, estimate.rollout_gpu)} for rollouts"
    if estimate.reward_gpus:
        place += f" + {words.gpus(estimate.reward_gpus, estimate.gpu)} for rewards"
    run = f"{estimate.algorithm} of {words.sanitise(estimate.architecture)} on {place}"
    hours = f"{estimate.steps:,} steps {_range(estimate.hours)} h"
    return f"{run}: {_range(estimate.step_seconds)} s per step, {hours}"


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


def _estimated_step(estimate: RlEstimate) -> list[str]:
    """Return a bar for each phase, the tail of the rollout, and who waits."""
    scale = max(estimate.phases.values())
    bars = [
        draw_bar(RL_PHASE_NAMES[name], seconds, scale, words.significant, "#")
        for name, seconds in estimate.phases.items()
        if seconds > 0
    ]
    waits = waiting_words(estimate.overlapped, estimate.idle, estimate.idle_share)
    return [*bars, *words.wrap_all([tail_words(estimate), waits], line_room(), 2)]


def _cost(estimate: RlEstimate) -> list[str]:
    if estimate.usd_per_100_steps is None:
        return ["no price: the shipped market does not rent this GPU; give --usd-per-gpu-hour"]
    return [f"{_dollars(estimate.usd_per_100_steps)} for each 100 steps ({estimate.price_basis})"]


def _estimated_ways(estimate: RlEstimate) -> list[str]:
    """Return a line for each other way to divide as many GPUs."""
    return [_estimated_way(way) for way in estimate.ways]


def _estimated_way(way: RlWay) -> str:
    place = (
        f"{way.training_gpus} train, {way.rollout_gpus} sample"
        if way.rollout_gpus
        else f"all {way.training_gpus} in turn"
    )
    waits = f"{way.idle} waits {words.percent(way.idle_share)}" if way.idle else ""
    usd = f"${words.significant(way.usd_per_100_steps)} per 100" if way.usd_per_100_steps else ""
    return f"{place:<22}{_seconds(way.step_seconds):>9} a step  {usd:<16}  {waits}".rstrip()


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
    run = f"{estimate.objective} of {words.sanitise(estimate.architecture)}, {estimate.method}, on {place}"
    room = f"{words.gib(estimate.peak_gib)} of {words.gib(estimate.usable_gib)} GiB"
    if not estimate.fits:
        return f"{run}: does not fit, {room}"
    usd = f", {_dollars(estimate.usd)}" if estimate.usd else ""
    return f"{run}: fits, {room}, {_range(estimate.hours)} h{usd}"


def _pairs(estimate: PreferenceEstimate) -> list[str]:
    answers = "chosen and rejected answers" if estimate.sequences_per_pair == 2 else "single answers"
    lengths = f"{estimate.input_tokens:,.0f} tokens in, {estimate.output_tokens:,.0f} out, at most"
    return [
        f"{estimate.pairs:,} with {answers}, {estimate.pairs_at_once:,} at once on a GPU, {estimate.packing}",
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

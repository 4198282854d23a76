"""The answer of a plan for one job: what to rent, what could go wrong, what else there is; the rest is in the details.

Who reads only the first line knows what to do; who reads ten seconds knows the risks and the other ways.
"""

from __future__ import annotations

from typing import NamedTuple

from planner import generation, open_choices
from planner.report import plan_alternatives, plan_sections, plan_text, words
from planner.report.words import line_room
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import Option

MOST_RISKS = 3
"""Risks in full; one more line names the others."""
MOST_WAYS = 6
"""Rows of the table of ways, the plan's among them."""


def render_answer(plan: Plan) -> str:
    """Return the answer of a plan without a final newline; of a timetable, a service and no plan their whole text."""
    if len(plan.jobs) != 1 or plan.services or plan.is_timetable or plan.status in ("infeasible", "no_plan"):
        return plan_text.render_brief(plan)
    job = plan.jobs[0]
    chosen = open_choices.answer_lines(job.model) if job.model else []
    lines = [_first_line(plan, job), *chosen, *_risk_lines(risks_of(plan, job))]
    ways = ways_of(plan, job)
    if len(ways) > 1:
        lines += ["", *_way_lines(ways)]
    return "\n".join([*lines, "", *_sections(plan, job)])


def _first_line(plan: Plan, job: Assignment) -> str:
    """Return machine, place, method, dollars and the hours at the confidence; the place is shortened where it must."""
    bought = plan_alternatives.purchase_price(plan, job)
    price = f" for ${bought:,.0f}" if bought is not None else ""
    hosts = ["private host"] if job.tier == "community" else []
    market = "".join(f", {word}" for word in (*hosts, _paid(job.tier, job.spot_share)) if word)
    figures = f"{words.usd(job.cost_usd)}{' for this job' if price else ''}, {words.by(job.hours.at_confidence)}"
    method = f", {_method(job)}"
    full, short = plan_sections.format_place(job), plan_sections.format_place(job, with_region=False)
    least = words.sanitise(words.gpus(job.gpus, job.gpu, job.runs_at_once))
    forms = [
        *(f"{place}{market}{price}{method}, {figures}" for place in (full, short)),
        f"{short}{price}{method}, {figures}",
        *(f"{place}{price}, {figures}" for place in (short, least)),
    ]
    return plan_text.summary_line(plan.scenario, *forms)


MOSTLY = 0.9
"""Share of the hours on spot from which on a plan is called one on spot."""


def _paid(tier: str, spot_share: float) -> str:
    """Return how machines are paid where that is not by the hour on demand; empty where it is."""
    if tier in ("secure", "community", "") and spot_share >= MOSTLY:
        return "spot"
    paid = plan_sections.format_market(spot_share, tier)
    return "" if paid == "on demand" else paid


def _method(job: Assignment) -> str:
    """Return the method of a job as the table of ways names it."""
    made = job.inference
    if made is not None:
        cache = "" if made.kv_bits == 16 else f", {made.kv_bits}-bit cache"
        return f"{generation.engine_name(made.engine)} {job.techniques.weight_bits}-bit{cache}"
    return plan_sections.method_label(job)


# What would change the decision.


class Risk(NamedTuple):
    """What a reader must know before renting: a few words for it, and the sentence."""

    kind: str
    text: str


def risks_of(plan: Plan, job: Assignment) -> list[Risk]:
    """Return what would change the decision, the greatest first."""
    texts = (
        *(("samples are cut", plan_sections.cut_text(cut)) for cut in plan.cut),
        ("weights to convert", job.conversion),
        ("an outlay", plan_sections.outlay_text(plan)),
        ("a private person's machine", _private_text(job)),
        ("spot without fallback", _no_fallback_text(job)),
        ("speed is a prior", plan_sections.prior_text(job)),
        ("speed is an upper bound", _bound_text(job)),
        *_priors(job),
        ("an assumed market keeps the budget", plan_sections.assumed_market_text(plan)),
        ("rounding", plan_alternatives.lossy_text(job)),
        ("old prices", _old_prices_text(plan)),
        ("host memory is assumed", _host_text(job)),
    )
    return [Risk(kind, text) for kind, text in texts if text]


def _priors(job: Assignment) -> list[tuple[str, str]]:
    """Return what else than the speed of a job is a guess."""
    rests, said = job.evidence, []
    if rests is not None and rests.memory == "prior":
        said.append(("memory is a prior", f"the memory of {job.framework} is a prior, not from measurements"))
    if rests is not None and rests.spot == "prior":
        said.append(("spot market is a prior", "how often spot machines are lost is a prior, not recorded"))
    return said


def _old_prices_text(plan: Plan) -> str:
    age = plan_sections.old_prices_text(plan)
    return f"{age}: {plan_sections.RENEWS_PRICES}" if age else ""


def _bound_text(job: Assignment) -> str:
    return "the speed is an upper bound: the run may take longer" if plan_sections.is_upper_bound(job) else ""


def _host_text(job: Assignment) -> str:
    host = job.host_memory
    return f"memory of the host: {plan_sections.host_memory_text(host)}" if host is not None and host.assumed else ""


def _private_text(job: Assignment) -> str:
    if job.tier != "community":
        return ""
    secure, text = _safer(job, "secure"), "a private person's machine"
    if secure is None:  # not searched for: other ways were left out for want of time
        return text
    if secure.cost_usd is None:
        return f"{text}; no other is within the limits"
    return f"{text}: secure ones from {words.usd(secure.cost_usd)} (--set {secure.note})"


def _no_fallback_text(job: Assignment) -> str:
    if job.has_fallback:
        return ""
    on_demand = _safer(job, "on demand")
    text = "spot machines only: the run waits while there are none, and no deadline is guaranteed"
    if on_demand is None:
        return text
    if on_demand.cost_usd is None:
        return f"{text}; none on demand is within the limits"
    return f"{text}; on demand from {words.usd(on_demand.cost_usd)} (--set {on_demand.note})"


def _safer(job: Assignment, label: str) -> Option | None:
    return next((option for option in job.safer if option.label == label), None)


def _risk_lines(found: list[Risk]) -> list[str]:
    """Return the first risks in at most two lines each, and one line that names the others."""
    shown, others = found[:MOST_RISKS], found[MOST_RISKS:]
    if len(others) == 1:  # a line for its name is a line for itself
        shown, others = found, []
    texts = [risk.text for risk in shown]
    if others:
        texts.append(f"also: {', '.join(risk.kind for risk in others)} (--details)")
    wrapped = (words.wrap_lines(text, words.width() - 2, 2) for text in texts)
    return [f"{'  ' if number else '! '}{line}" for lines in wrapped for number, line in enumerate(lines)]


# The table of ways.


class Way(NamedTuple):
    """A row: a word for the way, what it rents, and what it costs; `note` says what excludes it."""

    name: str
    machine: str
    usd_per_hour: float | None
    cost_usd: float
    late_hours: float
    method: str
    note: str = ""


def ways_of(plan: Plan, job: Assignment) -> list[Way]:
    """Return the plan and what else could be rented, at most `MOST_WAYS` rows that differ, the cheapest first."""
    own = Way("plan", _machine(job), rent_per_hour(job), job.cost_usd, job.hours.at_confidence, _method(job))
    known = job.evidence.known if job.evidence else None
    named = [
        *((option.label, option) for option in job.safer),
        *([("measured", known)] if known is not None else []),
        *(("at risk", option) for option in job.riskier),
        *(("faster", option) for option in plan.faster),
        *((_rung_name(option, own), option) for option in job.ladder),
        *(("next", option) for option in job.runner_up),
    ]
    rows = [own]
    for name, option in named:
        way = _way(name, option)
        if way is not None and all(_differs(way, row) for row in rows):
            rows.append(way)
    return sorted(rows[:MOST_WAYS], key=lambda way: way.cost_usd)


def _rung_name(option: Option, own: Way) -> str:
    """Return the word for the best plan of a method: its name, but `cheaper` for one of the plan's own method."""
    if option.method == own.method and option.cost_usd is not None and option.cost_usd < own.cost_usd:
        return "cheaper"
    return option.label


def _way(name: str, option: Option) -> Way | None:
    """Return another way as a row; None where its figures are unknown."""
    if option.cost_usd is None or option.hours_at_confidence is None:
        return None
    note = "" if option.allowed else option.note.partition(":")[0].replace("fits with", "fits")
    note = "excluded" if note.startswith("excluded") else note
    return Way(
        name, _machine(option), option.usd_per_hour, option.cost_usd, option.hours_at_confidence, option.method, note
    )


def _differs(way: Way, row: Way) -> bool:
    """Return whether two ways rent or do something else, or differ in a cent."""
    return way[1:3] != row[1:3] or way.method != row.method or abs(way.cost_usd - row.cost_usd) >= 0.01


def _machine(run: Assignment | Option) -> str:
    """Return machines, place and market, such as `4 x A5000 at runpod, spot`."""
    paid = _paid(run.tier, run.spot_share)
    place = f"{words.gpus(run.gpus, run.gpu, run.runs_at_once)} at {run.provider}"
    return words.sanitise(f"{place}, {paid}" if paid else place)


def rent_per_hour(job: Assignment) -> float | None:
    """Return the rent of the machines of a job, as its bill counts it; None where they are not rented by the hour."""
    items = [item for item in job.bill if item.item in ("gpu on demand", "gpu spot") and item.rate_usd]
    hours = sum(item.quantity or 0.0 for item in items)
    return sum((item.quantity or 0.0) * (item.rate_usd or 0.0) for item in items) / hours if hours > 0 else None


def _way_lines(ways: list[Way]) -> list[str]:
    """Return the table; columns are as wide as their widest cell, and the machine is shortened first."""
    cells = [("way", "machine", "$/h", "cost", "by", "how"), *map(_cells, ways)]
    name, rent, cost, late = (max(len(row[column]) for row in cells) for column in (0, 2, 3, 4))
    how = max(len(row[5]) for row in cells)
    room = words.width() - (4 + name + 2 + 2 + rent + 2 + cost + 2 + late + 2 + how)
    machine = min(max(len(row[1]) for row in cells), max(room, 20))
    lines = []
    for number, row in enumerate(cells):
        mark = ">" if number and ways[number - 1].name == "plan" else " "
        what = f"{row[0]:<{name}}  {words.shorten(row[1], machine):<{machine}}"
        line = f"  {mark} {what}  {row[2]:>{rent}}  {row[3]:>{cost}}  {row[4]:>{late}}  {row[5]}"
        lines.append(words.shorten(line.rstrip(), words.width()))
    return lines


def _cells(way: Way) -> tuple[str, str, str, str, str, str]:
    rent = "-" if way.usd_per_hour is None else words.rate(way.usd_per_hour).removeprefix("$")
    named = way.method if way.name != way.method else ""
    how = ", ".join(part for part in (named, way.note) if part)
    return way.name, way.machine, rent, words.usd(way.cost_usd), words.hours(way.late_hours), how


# What the plan is, in as few lines as can be.


def _sections(plan: Plan, job: Assignment) -> list[str]:
    made, room = job.inference, line_room()
    label = "Serve" if made else "Train"
    parts = (
        ("Model", open_choices.model_lines(job.model)[:3] if job.model else []),
        (label, _train(job)),
        ("Memory", _memory(plan, job)),
        ("Speed", plan_sections.speed(job)[:1] if made else []),
        ("Data", plan_sections.data_path(job)),
        ("Export", plan_sections.export(job)),
        ("Time", words.wrap_lines(_time_text(job), room, 2) + plan_sections.deadline_day(plan, job)),
        ("Spot", plan_sections.spot(job)),
        ("Term", plan_sections.commitment(job)),
        ("Price", generation.price_lines(made) if made else []),
        ("Service", plan_alternatives.services(job)),
        ("Bill", words.wrap_lines(_bill_text(job), room, 3)),
        ("Else", plan_alternatives.further_ways(job)),
        ("Buy", plan_alternatives.purchase(job)),
        ("Why", words.wrap_lines(_why_text(plan, job), room, 4)),
        ("Notes", _notes(plan, job)),
    )
    return [line for name, lines in parts for line in words.section(name, lines)]


def _train(job: Assignment) -> list[str]:
    """Return technique and framework, batch, and how several machines share the work."""
    if job.inference is not None:
        return plan_sections.train(job)
    framework = plan_sections.framework_label(job)
    how = plan_sections.techniques(job, brief=True)
    how += f", {job.packing}" if job.unit == "tokens" and job.gpus else ""
    lines = words.wrap_lines(f"{how}; {framework}" if framework else how, line_room(), 2)
    rest = (plan_sections.batch(job), plan_sections.machines(job) if job.gpus > 1 else "", plan_sections.trials(job))
    return [*lines, *(words.shorten(line, line_room()) for line in rest if line)]


def _memory(plan: Plan, job: Assignment) -> list[str]:
    """Return what the peak takes of the card and how sure it fits, and what to do if it does not."""
    vram = job.vram_gib
    if not job.gpus:
        return []
    taken = f"{words.gib(vram.peak)} of {words.gib(vram.usable)} GiB"
    if job.inference is not None:
        return words.wrap_lines(f"{taken}; {generation.flight_words(job.inference)}", line_room(), 2)
    sure = (
        f"fits with {words.probability_text(vram.fit_probability)}" if job.observed_hours is None else "fits: observed"
    )
    return [f"{taken}, {sure}", *plan_alternatives.if_out_of_memory(plan, job)]


def _time_text(job: Assignment) -> str:
    """Return the likely hours with their range, those at the confidence, and how sure the deadline is kept."""
    span = words.between(job.hours.low, job.hours.high)
    chance = plan_sections.format_job_deadline(job)
    starts = f"; the machine is there at hour {words.plain_number(job.lead_hours)}" if job.lead_hours else ""
    return f"{words.likely(job.hours.expected)} ({span}), {words.by(job.hours.at_confidence)}{starts}" + (
        f"; {chance}" if chance else ""
    )


def _bill_text(job: Assignment) -> str:
    """Return the items that cost a cent or more, the greatest first, what is not included, and the total."""
    unknown = [item.item for item in job.bill if plan_sections.NOT_INCLUDED in item.basis]
    known = [item for item in job.bill if item.item not in unknown and round(item.usd, 2) != 0]
    paid = [
        f"{words.usd(item.usd)} {plan_sections.item_name(item.item, job.gpu).replace(', ', ' and ')}"
        for item in sorted(known, key=lambda item: -item.usd)
    ]
    span = words.usd_between(job.cost.low, job.cost.high)
    certain = words.usd(job.cost.low) == words.usd(job.cost.high)
    total = f"{words.usd(job.cost.expected)} in all" + ("" if certain else f" ({span})")
    missing = [f"not included: {', '.join(unknown)}"] if unknown else []
    return "; ".join([f"{total}: {', '.join(paid)}" if len(paid) > 1 else total, *missing])


def _why_text(plan: Plan, job: Assignment) -> str:
    """Return what is proven, what binds, and what a choice among many estimates costs."""
    proof = {"optimal": "proven best"}.get(plan_sections.format_optimality(plan), plan_sections.format_optimality(plan))
    counts = plan.candidates
    among = f" of {counts.made:,} candidates of {plan_alternatives.offers_text(counts.offers)}" if counts.offers else ""
    compared = f", by {job.compared_by}" if job.compared_by else ""
    parts = [f"{proof}{among}{compared}", *plan_sections.budget(plan)]
    parts += [f"binding: {', '.join(job.binding)}"] if job.binding else ["no limit binds"]
    least = " ".join(plan_alternatives.near_tie(plan))
    parts += [least] if least else []
    pick = plan_sections.pick_text(job)
    return "; ".join([*parts, pick] if pick else parts)


def _notes(plan: Plan, job: Assignment) -> list[str]:
    """Return how many notes there are, and the first of them as far as a line goes."""
    notes = tuple(dict.fromkeys((*job.notes, *plan.warnings)))
    if not notes:
        return []
    more = f" ({len(notes) - 1} more: --details)" if len(notes) > 1 else ""
    return [words.shorten(words.sanitise(notes[0]), line_room() - len(more)) + more]

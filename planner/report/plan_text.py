"""A plan as text with everything that there is to say, its alternatives too; the summary first."""

from __future__ import annotations

import math
import re

from planner import generation, open_choices, timetable
from planner.report import plan_sections, words
from planner.report.plan_sections import bill, format_optimality, price_back, render_notes
from planner.report.words import line_room
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import Fallback, FirstPurchase, Option, Purchase
from planner.subjects import shown_by


def methods(job: Assignment) -> list[str]:
    """Return every method with its least cost."""
    rungs = [format_method(option, job) for option in job.methods]
    lines = 3 if job.inference is None else max(3, len(rungs))
    return words.join_parts(rungs, "   ", line_room(), lines) if rungs else []


FRAMEWORKS = "Frameworks"
"""Label of the section: wider than the margin of the others."""


def frameworks(job: Assignment) -> list[str]:
    """Return the frameworks with their least cost, cheapest first, and then what rests on priors."""
    options = sorted(job.frameworks, key=lambda option: (option.prior, option.cost_usd))
    priced = [
        (option.label, words.usd(option.cost_usd), option.prior) for option in options if option.cost_usd is not None
    ]
    rungs = [f"{label} about {usd} (prior)" if prior else f"{label} {usd}" for label, usd, prior in priced]
    room = line_room() - (len(FRAMEWORKS) + 3 - words.LABEL)
    return words.join_parts(rungs, "   ", room, 2) if len(rungs) > 1 else []


def format_method(option: Option, job: Assignment) -> str:
    """Return one method: its cost, and its hardware if it is not that of the plan."""
    if option.cost_usd is None:
        return f"{option.label}: {option.note or 'infeasible'}"
    other = (option.gpu, option.gpus) != (job.gpu, job.gpus)
    count = f"{option.gpus:,} x " if option.gpus > 1 else ""
    on = f" on {count}{option.gpu}" if other and option.gpu else ""
    mark = "" if option.allowed else f" ({option.note or 'excluded'})"
    return f"{option.label} {words.usd(option.cost_usd)}{on}{mark}"


def lossy(job: Assignment) -> list[str]:
    """Return what the plan rounds without being asked to, with the price of doing without: at most two lines."""
    return words.second_lines(lossy_text(job))


def lossy_text(job: Assignment) -> str:
    """Return what the plan rounds without being asked to, with the price of doing without; empty where nothing."""
    told = []
    for choice in job.lossy_techniques:
        price = "not within the limits"
        if choice.cost_usd is not None and choice.hours is not None:
            price = f"{words.usd(choice.cost_usd)}, {words.likely(choice.hours)}"
        told.append(f"{choice.technique} ({choice.without}: {price})")
    return f"uses {' and '.join(told)}" if told else ""


def conversion(job: Assignment) -> list[str]:
    """Return what of the weights a user must make, or what frameworks make of the release: at most two lines."""
    return words.second_lines(job.conversion)


def quality(job: Assignment) -> list[str]:
    """Return what published work says of the quality of the techniques in use, in at most two lines."""
    return [line for note in job.quality[:2] for line in words.wrap_lines(note.text, line_room(), 1)]


def methods_brief(job: Assignment) -> str:
    """Return the methods without hardware, those that the scenario excludes last."""
    allowed: list[str] = []
    excluded: list[str] = []
    for option in job.methods:
        if option.cost_usd is not None:
            (allowed if option.allowed else excluded).append(f"{option.label} {words.usd(option.cost_usd)}")
    allowed += [f"excluded: {', '.join(excluded)}"] if excluded else []
    return "; ".join(allowed)


def format_alternatives(job: Assignment) -> list[str]:
    """Return the two best alternatives in two lines each, after the objective if it is more than dollars."""
    lines = [words.shorten(f"compared by {job.compared_by}:", line_room())] if job.compared_by and job.next_best else []
    for option in job.next_best[:2]:
        machines = f"{words.gpus(option.gpus, option.gpu, option.runs_at_once)} at {option.provider}"
        cost = f" {words.usd(option.cost_usd)}" if option.cost_usd is not None else ""
        took = f", {words.likely(option.hours)}" if option.hours is not None else ""
        note = f": {option.note}" if option.note else ""
        lines += words.wrap_lines(f"{machines}{cost}{took}{note}", line_room(), 2)
    return lines


def memory_risk(plan: Plan, job: Assignment) -> list[str]:
    """Return what to do if it is out of memory after all, and a cheaper plan that only that risk excludes."""
    lines = if_out_of_memory(plan, job)
    for option in job.cheaper_at_risk:
        machines = f"{words.gpus(option.gpus, option.gpu, option.runs_at_once)} with {option.label}"
        usd = words.usd(option.cost_usd) if option.cost_usd is not None else ""
        lines += words.wrap_lines(f"cheaper at risk: {machines}, {usd}, {option.note}", line_room(), 3)
    return lines


def if_out_of_memory(plan: Plan, job: Assignment) -> list[str]:
    """Return the change that takes less memory, with what it costs; none where the job is sure to fit."""
    fallback = job.vram_gib.fallback
    if fallback is None or job.vram_gib.fit_probability >= SURE_TO_FIT:
        return []
    more = f"+{words.hours(fallback.hours)}, +{words.usd(fallback.usd)}"
    crossed = crossed_limits(plan, job, fallback)
    text = f"if out of memory: {fallback.change}, {more}{crossed and f', which {crossed}'}"
    return words.wrap_lines(text, line_room(), 2)


SURE_TO_FIT = 0.995
"""Probability to fit from which on no fallback is shown: the text says over 99 %."""


def crossed_limits(plan: Plan, job: Assignment, fallback: Fallback) -> str:
    """Return which of deadline and budget the slower run misses or may miss; empty if it keeps both.

    It misses a limit that its expected figure exceeds, and may miss one that only its figure at confidence exceeds.
    """
    late = job.hours.at_confidence / job.hours.expected if job.hours.expected > 0 else 1.0
    wait, hours, cost = job.delay_hours, fallback.hours, plan.cost.expected if plan.cost else 0.0
    limits = (
        ("the deadline", job.deadline_hours, job.hours.expected + wait, job.hours.at_confidence + wait, hours),
        ("the budget", plan.budget_usd, cost, plan.cost_at_confidence, fallback.usd),
    )
    misses, may_miss = [], []
    for name, limit, expected, at_confidence, more in limits:
        if limit is not None and expected + more > limit:
            misses.append(name)
        # A spot policy leaves spot earlier for a slower run, so that its late figure is no sum.
        elif limit is not None and job.spot is None and (at_confidence or 0.0) + more * late > limit:
            may_miss.append(name)
    said = [f"misses {' and '.join(misses)}"] if misses else []
    said += [f"may miss {' and '.join(may_miss)}"] if may_miss else []
    return " and ".join(said)


def further_ways(job: Assignment) -> list[str]:
    """Return the ways to go where the machines of the plan cannot be had, and what the most expensive adds."""
    if not job.fallbacks:
        return []
    told = [
        f"{words.gpus(fallback.gpus, fallback.gpu, fallback.runs_at_once)} at {fallback.provider} "
        f"{words.usd(fallback.cost_usd)}, {words.likely(fallback.hours)}"
        for fallback in job.fallbacks
    ]
    most = words.usd(max(fallback.more_usd for fallback in job.fallbacks))
    text = "; ".join([*told, f"the most expensive adds {most}"]) if told[1:] else f"{told[0]}, which adds {most}"
    return words.wrap_lines(f"if it cannot be had: {text}", line_room(), 2 + len(told))


def further_ways_of_all(plan: Plan) -> list[str]:
    """Return the further ways of each of several jobs in at most two lines."""
    told = [(job.name, " ".join(further_ways(job))) for job in plan.jobs if job.fallbacks]
    return [line for name, ways in told for line in words.wrap_lines(f"{name}: {ways}", line_room(), 2)]


def purchase_price(plan: Plan, job: Assignment) -> float | None:
    """Return what the machines cost that a job runs on, all of them; None unless the plan buys them."""
    if job.tier != "bought" or plan.inputs is None:
        return None
    sold = {"provider": job.provider, "gpu": job.gpu, "gpus": job.gpus_per_instance}
    for offer in plan.inputs.offers:
        if "buy" in offer and all(offer.get(key) == value for key, value in sold.items()):
            return float(offer["buy"]["purchase_usd"]) * job.instances * job.runs_at_once
    return None


def purchase(job: Assignment) -> list[str]:
    """Return what buying the machines of the plan costs or would cost, and from how many hours of such use it pays."""
    bought = job.purchase
    if bought is None:
        return _pays_first(job)
    if bought.is_bought:
        back = f"its price is {price_back(bought)}{_back_at_half(bought)}"
        text = "" if bought.rent_usd_per_hour is None else f"{_pays(bought)}; {back}"
        pays = words.wrap_lines(text, line_room(), 4) if text else []
        return [*_hour_of_bought(bought), *pays, *_left_out(bought), *_pays_first(job)]
    low_usd, high_usd = f"{bought.low_usd:,.0f}", f"{bought.high_usd:,.0f}"
    dated = f"{low_usd} to {high_usd}; {bought.date}" if low_usd != high_usd else bought.date
    price = f"{words.gpus(job.gpus, job.gpu, job.runs_at_once)} for ${bought.usd:,.0f} ({dated})"
    if bought.price_back_hours is None:
        return words.wrap_lines(
            f"{price} is never cheaper than renting: its power and place cost as much", line_room(), 2
        ) + _pays_first(job)
    use = f"this job has {words.hours(bought.hours)}"
    return [
        *words.wrap_lines(f"{price}: {_pays(bought)}; its price is {price_back(bought)}; {use}", line_room(), 5),
        *_left_out(bought),
        *_pays_first(job),
    ]


def _back_at_half(bought: Purchase) -> str:
    """Return when the price of bought machines is back where they are used half as much; nothing where it never is."""
    if bought.price_back_hours is None:
        return ""
    months = 2.0 * bought.price_back_hours / bought.hours_per_month
    if bought.life_months is not None and months > bought.life_months:
        return f", at half the use not in the {bought.life_months:,.0f} months that it lives"
    return f", at half the use after {words.significant(months)}"


def _pays_first(job: Assignment) -> list[str]:
    """Return which machine for sale pays first for such work, where the lines on the plan's own do not say it."""
    first, bought = job.pays_first, job.purchase
    if first is None or (bought is not None and _pay_alike(bought, first)):
        return []
    rent = f"{words.gpus(first.rent.gpus, first.rent.gpu, first.rent.runs_at_once)} at "
    rent += words.sanitise(first.rent.provider)
    if first.pays_from_hours is None:
        return words.wrap_lines(f"nothing for sale is cheaper than renting {rent} within its life", line_room(), 2)
    months = words.significant(first.pays_from_hours / first.hours_per_month)
    text = f"{words.gpus(first.gpus, first.gpu)} for ${first.usd:,.0f} pays first of what is for sale, if sold then: "
    text += f"from {words.significant(first.pays_from_hours)} h of such use, {months} months, against {rent}"
    return words.wrap_lines(text, line_room(), 3)


def _pay_alike(bought: Purchase, first: FirstPurchase) -> bool:
    """Return whether both are the same machines and pay from the same hours on, against whatever rent."""
    hours = [purchase.pays_from_hours for purchase in (bought, first) if purchase.pays_from_hours is not None]
    same = math.isclose(*hours, rel_tol=0.01) if len(hours) == 2 else not hours
    return same and (bought.offer, bought.machines) == (first.offer, first.machines)


def _hour_of_bought(bought: Purchase) -> list[str]:
    """Return what an hour of bought machines costs, at half the use and where equal ones are rented."""
    costs = bought.usd_per_hour, bought.half_use_usd_per_hour, bought.rent_usd_per_hour
    hour, half, rent = (None if usd is None else words.rate(usd) for usd in costs)
    text = f"an hour costs {hour}, at half the use ({bought.hours_per_month / 2:,.0f} h a month) {half}"
    rented = "equal machines are not for rent" if rent is None else f"renting costs {rent}"
    return words.wrap_lines(f"{text}; {rented}", line_room(), 2)


def _pays(bought: Purchase) -> str:
    """Return from how many hours of use, and months, buying is cheaper than renting, with the range of the months."""
    low, likely, high = (
        None if hours is None else words.significant(hours / bought.hours_per_month)
        for hours in (bought.pays_from_hours_low, bought.pays_from_hours, bought.pays_from_hours_high)
    )
    life = f" in the {bought.life_months:,.0f} months that it lives" if bought.life_months is not None else ""
    if likely is None or bought.pays_from_hours is None:
        return f"never cheaper than renting{life}" + (f"; at best from {low} months of such use" if low else "")
    ranged = "" if low == high else f" ({low} to {high or 'never'})"
    if bought.pays_from_hours == 0:
        return "cheaper than renting from the first hour on, if sold then"
    hours = words.significant(bought.pays_from_hours)
    return f"cheaper than renting from {hours} h of such use, {likely} months{ranged}, if sold then"


def _left_out(bought: Purchase) -> list[str]:
    """Return what the price leaves out, and what the capital of a machine that is bought costs."""
    capital = f"capital at {100 * bought.interest:g} % a year (horizon.interest)" if bought.is_bought else ""
    without = f"not in the price: {bought.without}" if bought.without else ""
    text = "; ".join(filter(None, (without, capital)))
    return words.wrap_lines(text, line_room(), 2) if text else []


def service_prices(job: Assignment) -> list[str]:
    """Return what services by the token take, and from how much work own machines cost less."""
    if job.inference:
        return generation.api_lines(job.inference)
    if (hosted := job.hosted) is None:
        return []
    pays = words.pays_from(hosted.pays_from_tokens, "tokens", hosted.pays_on)
    return words.wrap_lines(
        "; ".join([f"{words.sanitise(hosted.provider)}: {words.usd(hosted.usd)}", *pays]), line_room(), 2
    )


def faster(plan: Plan) -> list[str]:
    """Return what it costs to end in half and in a quarter of the hours, a line each.

    They count at the confidence asked for: a plan on spot that is likely to end early may end late.
    """
    lines = []
    for option in plan.faster:
        if option.cost_usd is None or option.hours is None:
            continue
        more = _more_usd(plan, option.cost_usd)
        machines = words.gpus(option.gpus, option.gpu, option.runs_at_once)
        late = "" if option.hours_at_confidence is None else f", {words.by(option.hours_at_confidence)},"
        trade = f"{words.likely(option.hours)}{late} for {words.usd(option.cost_usd)} ({more})"
        where = f"{machines} at {option.provider}"
        if where == plan_sections.format_place(plan.jobs[0], with_region=False):
            where += f", {difference_on_same_machines(plan.jobs[0], option)}"
        lines += words.wrap_lines(words.sanitise(f"{trade}: {where}"), line_room(), 2)
    return lines


def difference_on_same_machines(job: Assignment, option: Option) -> str:
    """Return what another way does otherwise on the machines and with the method of the plan.

    Two runs on spot that are as rarely on demand differ in the hour from which on they are on demand at the latest,
    which decides the hours at the confidence, or in how long they wait for spot, which decides the likely ones.
    """
    if option.spot_share <= 0:
        return "other settings"
    on_demand = round(100 * (1.0 - option.spot_share))
    if on_demand != round(100 * (1.0 - job.spot_share)):
        return f"{on_demand} % on demand"
    late, own_late = option.hours_at_confidence, job.hours.at_confidence
    if late is not None and words.shown_by(late) != words.shown_by(own_late):
        return f"on demand {'earlier' if late < own_late else 'later'}"
    if option.hours is None or option.hours == job.hours.expected:
        return "other settings"
    return "waits for spot longer" if option.hours > job.hours.expected else "waits for spot less"


def _more_usd(plan: Plan, usd: float) -> str:
    """Return how many dollars more a faster plan costs; of one that costs less, why it is not the plan."""
    more = usd - plan.jobs[0].cost_usd
    amount = words.usd(abs(more))
    if more >= 0 or amount == words.usd(0.0):
        return f"+{amount}"
    return (
        f"-{amount}, {'a near tie' if plan.least_cost_usd is not None else 'with penalties or a near tie'}: solve.ties"
    )


def scope(plan: Plan) -> list[str]:
    """Return among what the plan is the best one: what "optimal" covers.

    Of a chosen model the candidates are its own; how many models and batches were compared is counted apart.
    """
    counts = plan.candidates
    if not counts.offers:  # a plan that was written before offers were counted
        return []
    best = format_optimality(plan)
    best = best if best == "optimal" else f"{best}: best found"
    among = f"{best} among {counts.made:,} candidates of {offers_text(counts.offers)}"
    models = [job.model for job in plan.jobs if job.model is not None]
    model = models[0] if models else None
    if model is not None and model.above_least is not None:
        compared = sum(model.compared for model in models)
        proof = f"at most {max(model.above_least, 0.0005):.3f} above the least"
        among = f"sum of losses {proof} of {compared:,} models compared; {among} for the chosen ones"
    elif model is not None and model.compared > 1:
        goal = "least loss" if model.more_money is not None else "the best"
        choices = "models and batches" if model.batch and model.loss else "batches" if model.batch else "models"
        among = f"{goal} of {model.compared:,} {choices} compared; {among} for the chosen one"
    left = f"; {counts.outdated_offers:,} prices too old" if counts.outdated_offers else ""
    return words.wrap_lines(among + left, line_room(), 2) + near_tie(plan)


def proof_text(plan: Plan) -> str:
    """Return how far a plan is proven, and among how many candidates of how many offers."""
    proof = format_optimality(plan)
    counts = plan.candidates
    made = f"{counts.made:,} candidate{'' if counts.made == 1 else 's'}"
    among = f" of {made} of {offers_text(counts.offers)}" if counts.offers else ""
    return f"{'proven best' if proof == 'optimal' else proof}{among}"


def offers_text(count: int) -> str:
    """Return a number of offers."""
    return f"{count:,} offer{'' if count == 1 else 's'}"


LEAST_COST_IS = {
    "own": "but not on an own machine, or paid at once",
    "host": "but on a private host",
    "evidence": "but its speed was measured less",
    "stock": "but of unknown stock",
    "machines": "but on more machines",
    "pauses": "but with more pauses",
    "hours": "later",
    "rounding": "but rounds more",
}
"""Why the plan of least cost is not the one that a near tie prefers, by the step that decides."""


def near_tie(plan: Plan) -> list[str]:
    """Return the least cost where the plan costs a near tie more, and what the plan has in return.

    Of a tie within a cent that hours do not decide, too: a row of the table may then be faster at the same dollars.
    """
    least = plan.least_cost_usd
    if least is None or plan.cost is None:
        return []
    if words.usd(least) == words.usd(plan.cost.expected):
        if plan.tie_decided_by in (None, "hours"):
            return []
        text = f"another plan costs the same, {LEAST_COST_IS[plan.tie_decided_by]}: --set solve.ties=0"
        return words.wrap_lines(text, line_room(), 2)
    has_loss = any(job.model is not None and job.model.loss is not None for job in plan.jobs)
    of = " of this run" if has_loss else ""
    in_return = LEAST_COST_IS[plan.tie_decided_by or "hours"]
    return words.wrap_lines(f"least cost{of} {words.usd(least)}, {in_return}: --set solve.ties=0", line_room(), 2)


LINES = 30
"""Most lines of a plan for several jobs."""
NOTE_LINES_OF_JOB = 6
"""Most lines of the notes of one job."""

BOLD, DIM, ATTENTION, PLAIN = "\033[1m", "\033[36m", "\033[33m", "\033[0m"
GOOD, BAD = "\033[32m", "\033[31m"
"""Of differences: cheaper or earlier, and more expensive or later."""
AMOUNT = r"(?:likely )?[$]?[0-9][0-9,.]*(?: (?:h|min|%))?"


def render(plan: Plan) -> str:
    """Return all that there is to say of a plan, without a final newline."""
    with words.whole():
        return render_brief(plan)


def render_brief(plan: Plan) -> str:
    """Return the text of a plan with its notes and rows as far as they fit a screen."""
    if (subject := shown_by(plan)) is not None:
        return subject.details(plan)
    if plan.status in ("infeasible", "no_plan") or not plan.jobs:
        from planner.report.explanation_text import render_infeasible

        lines = render_infeasible(plan)
    elif plan.is_timetable:
        lines = timetable.render_timetable(plan)
    elif len(plan.jobs) == 1:
        lines = _single(plan)
    else:
        lines = _joint(plan)
    return "\n".join(with_cut_samples(lines, plan))


def with_cut_samples(lines: list[str], plan: Plan) -> list[str]:
    """Return the text of a plan with what is cut of its samples below its first line."""
    return [*lines[:1], *plan_sections.cut_lines(plan.cut), *lines[1:]]


def _single(plan: Plan) -> list[str]:
    """Return all sections of one job."""
    job = plan.jobs[0]
    headlines = _headlines(job, purchase_price(plan, job) if words.width() >= words.WIDTH else None)
    summary = [
        summary_line(plan.scenario, *(f"{text}{unproven_text(plan)}" for text in headlines)),
        *plan_sections.outlay(plan),
        *plan_sections.old_prices(plan),
        *plan_sections.on_a_prior(job),
        *words.second_lines(plan_sections.assumed_market_text(plan)),
        *(open_choices.answer_lines(job.model) if job.model else []),
        *conversion(job),
        *lossy(job),
    ]
    above = [
        *words.section("Model", open_choices.model_lines(job.model) if job.model else []),
        *words.section("Batch", open_choices.batch_lines(job.model) if job.model else []),
        *words.section("Serve" if job.inference else "Train", plan_sections.train(job)),
        *words.section("Memory", [*plan_sections.memory(job), *memory_risk(plan, job)]),
        *words.section("Speed", plan_sections.speed(job)),
        *words.section("Data", plan_sections.data_path(job)),
        *words.section("Export", plan_sections.export(job)),
        *words.section("Price", generation.price_lines(job.inference) if job.inference else []),
        *words.section("Time", [*plan_sections.time(job), *plan_sections.deadline_day(plan, job)]),
        *words.section("Spot", plan_sections.spot(job)),
        *words.section("Term", plan_sections.commitment(job)),
    ]
    below = [
        *words.section("Faster", faster(plan)),
        *words.section("Engines" if job.inference else "Methods", [*methods(job), *quality(job)]),
        *words.section(FRAMEWORKS, frameworks(job)),
        *words.section("Service", service_prices(job)),
        *words.section("Next", format_alternatives(job)),
        *words.section("Else", further_ways(job)),
        *words.section("Buy", purchase(job)),
        *words.section(
            "Limits",
            words.wrap_all([*plan_sections.budget(plan), "; ".join(job.binding) or "none binds"], line_room(), 2),
        ),
        *words.section("Prices", plan_sections.prices(job)),
        *words.section("Evidence", plan_sections.evidence(job)),
        *words.section("Scope", scope(plan)),
    ]
    remarks = render_notes(tuple(dict.fromkeys((*job.notes, *plan.warnings))), words.most(NOTE_LINES_OF_JOB))
    return [*summary, "", *above, *words.section("Bill", bill(job)), "", *below, *remarks]


def unproven_text(plan: Plan) -> str:
    """Return how far from the optimum a plan can be, as the end of a first line; empty where it is proven."""
    proof = format_optimality(plan)
    return "" if proof == "optimal" else f", {proof}"


SHORT_NAME = 24
"""A name up to this length is never cut to show the place."""


def _joint(plan: Plan) -> list[str]:
    """Return the total, a block per job and the joint bill of several jobs, in as much detail as fits `LINES`."""
    for detail in (6, 4, 3, 2):
        lines, room = _joint_lines(plan, detail), words.most(LINES)
        if len(lines) <= room:
            return [*lines, *words.section("Scope", scope(plan))][:room]
    return _joint_lines(plan, 1)


def _joint_lines(plan: Plan, detail: int) -> list[str]:
    """Return the joint text with blocks of at most `detail` lines; below 6 the bill shows only the total."""
    full = detail == 6
    figures = [f"{len(plan.jobs)} jobs"]
    times = [words.likely_and_by(plan.hours), words.by(plan.hours.at_confidence)] if plan.hours else [""]
    rest = [words.usd(plan.cost.expected)] if plan.cost else []
    forms = (", ".join([*figures, *([time] if time else []), *rest]) + unproven_text(plan) for time in times)
    lines = [
        summary_line(plan.scenario, *forms),
        *plan_sections.outlay(plan),
        *plan_sections.old_prices(plan),
        *plan_sections.at_one_time(plan),
    ]
    priors = [job.name for job in plan.jobs if job.evidence is not None and job.evidence.speed == "prior"]
    lines += words.second_lines(f"the speed of {', '.join(priors)} is a prior" if priors else None)
    lines += words.second_lines(plan_sections.assumed_market_text(plan))
    for job in plan.jobs:
        lines += [*[""] * full, *_block(job)[:detail]]
    binding = "; ".join(f"{job.name}: {', '.join(job.binding)}" for job in plan.jobs if job.binding)
    ages = dict.fromkeys(words.shorten(plan_sections.price_text(job), line_room()) for job in plan.jobs)
    lines += ["", *words.section("Bill", _joint_bill(plan) if full else _joint_bill(plan)[-1:])]
    binds = [*plan_sections.budget(plan), binding or "no limit of a single job binds"]
    lines += words.section("Limits", words.wrap_all(binds, line_room(), 2))
    lines += words.section("Prices", list(ages)[: words.most(2)])
    lines += words.section("Else", further_ways_of_all(plan))
    return [*lines, *render_notes(_joint_notes(plan), words.most(4 if full else 3))]


def _joint_notes(plan: Plan) -> tuple[str, ...]:
    """Return the notes of the plan, those of every job once, and those of some jobs with the job's name."""
    shared = set.intersection(*(set(job.notes) for job in plan.jobs))
    own = [f"{job.name}: {note}" for job in plan.jobs for note in job.notes if note not in shared]
    of_jobs = {note for job in plan.jobs for note in job.notes}
    common = [note for note in plan.jobs[0].notes if note in shared]
    above = plan_sections.guesses_of_stock(plan)
    rest = [note for note in plan.warnings if note not in of_jobs and note not in above]
    return tuple(dict.fromkeys((*rest, *common, *own)))


def _block(job: Assignment) -> list[str]:
    """Return one of several jobs in at most seven lines."""
    vram = job.vram_gib
    fit = f"{words.gib(vram.peak)} of {words.gib(vram.usable)} GiB"
    chance = f"; {text}" if (text := plan_sections.format_job_deadline(job)) else ""
    time = f"{words.hours_between(job.hours)}, {words.by(job.hours.at_confidence)}{chance}"
    lines = [
        *(
            words.shorten(line.strip(), line_room())
            for line in (open_choices.answer_lines(job.model) if job.model else [])
        ),
        *(words.wrap_lines(job.conversion, line_room(), 2) if job.conversion else []),
        *words.wrap_lines(plan_sections.techniques(job, brief=True), line_room(), 1),
        *([words.shorten(made, line_room())] if (made := plan_sections.batch(job)) else []),
        words.shorten(f"{fit}; {plan_sections.rate(job)}" if job.gpus else plan_sections.rate(job), line_room()),
        words.shorten(time if len(time) <= line_room() else time.removesuffix(" probability"), line_room()),
        *(words.wrap_lines(methods_brief(job), line_room(), 1) if job.methods else []),
    ]
    summary = summary_line(job.name, *_headlines(job), width=words.width() - 2)
    return [f"  {summary}", *(" " * words.LABEL + line for line in lines)]


def _joint_bill(plan: Plan) -> list[str]:
    """Return one line per job and the total."""
    amounts, rest = [job.cost_usd for job in plan.jobs], 0.0
    if plan.cost is not None:
        amounts, rest = plan_sections.added_up(amounts, plan.cost.expected)
    named = zip(plan.jobs, amounts, strict=True)
    rows = [(job.name, plan_sections.format_place(job), words.usd(usd)) for job, usd in named]
    if plan.cost is not None:
        rows += [("rounding", "", words.usd(rest))] if rest else []
        spread = f"({words.usd_between(plan.cost.low, plan.cost.high)})"
        rows.append(("total", spread, words.usd(plan.cost.expected)))
    place = min(35, line_room() - 33)
    return [
        f"{words.shorten(words.sanitise(name), 19):<20}{words.shorten(how, place - 1):<{place}}"
        f"{amount.replace('$', ''):>13}"
        for name, how, amount in rows
    ]


def _headlines(job: Assignment, purchase_usd: float | None = None) -> tuple[str, ...]:
    """Return hardware, place, market, hours and dollars; then without the likely hours, the region and the place.

    How a machine is paid stands in every form: what may be lost at any time must not read as what stays. Of a bought
    machine its price is named too, of which the job carries its share.
    """
    full, figures = (
        f", {time}, {words.usd(job.cost_usd)}"
        for time in (words.likely_and_by(job.hours), words.by(job.hours.at_confidence))
    )
    if purchase_usd is not None:
        full, figures = (f" for ${purchase_usd:,.0f}{text} for this job" for text in (full, figures))
    paid = plan_sections.format_market(job.spot_share, job.tier)
    market = "" if paid == "on demand" else f", {paid}"
    rest = f"{market}{figures}"
    short = plan_sections.format_place(job, with_region=False)
    least = words.sanitise(words.gpus(job.gpus, job.gpu, job.runs_at_once))
    place = plan_sections.format_place(job)
    forms = (place + market + full, short + market + full, place + rest, short + rest)
    return *forms, f"{least}{market}{full}", f"{least}{market}{figures}"


def summary_line(name: str, *texts: str, width: int | None = None) -> str:
    """Return `name: text` with the first text that fits; if none fits, cut the name and then the hardware.

    Figures at the end are never cut.
    """
    name, width = words.sanitise(name), words.width() if width is None else width
    # The place is shown below too: drop it before a short name is cut.
    forms = texts if len(name) <= SHORT_NAME else texts[:-2]
    for form in forms:
        if len(name) + len(form) + 2 <= width:
            return f"{name}: {form}"
    shortest = forms[-1]
    name = words.shorten(name, max(12, width - len(shortest) - 2))
    over = len(name) + 2 + len(shortest) - width
    if over > 0:
        machines, comma, rest = shortest.partition(", ")
        shortest = words.shorten(machines, max(3, len(machines) - over)) + comma + rest
    return f"{name}: {shortest}"


def colorize(lines: list[str]) -> list[str]:
    """Return the first line and the plan's row bold, risks yellow, labels in colour, differences green or red."""
    return [f"{BOLD}{lines[0]}{PLAIN}", *map(_colored, lines[1:])]


def _colored(line: str) -> str:
    if line.startswith(("! ", "  > ")):
        return f"{ATTENTION if line[0] == '!' else BOLD}{line}{PLAIN}"
    line = re.sub(rf"({AMOUNT} (?:less|earlier|cheaper))\b", rf"{GOOD}\1{PLAIN}", line)
    line = re.sub(rf"({AMOUNT} (?:more(?: expensive)?|later))(?=[,;:)]|$)", rf"{BAD}\1{PLAIN}", line)
    return re.sub(r"^(  )([A-Z][a-z]+)", rf"\1{DIM}\2{PLAIN}", line)

"""A service before and after a change as text: dollars of a month, what they buy, and the fleets side by side."""

from __future__ import annotations

from planner.report import words
from planner.report.infeasible_text import render_infeasible
from planner.report.sweep_text import describe_setting, format_difference, shown_difference, shown_differences
from planner.report.what_if_text import is_same, table_lines, with_choice
from planner.results.fleet import Service
from planner.results.plan import Plan
from planner.results.service_results import FLEET_FEATURES, ServiceDelta, jobs_alone, services_usd
from planner.results.what_if import WhatIf
from planner.services.fleet_text import both_headline, fleet_headline, proven

SIDE_LABEL, LEFT_SIDE, RIGHT_SIDE = 12, 33, 35
"""Columns of the label and of either side; together 80."""


def render_service_what_if(answer: WhatIf) -> str:
    """Return the text of a what-if with a service, without a final newline."""
    before, after = answer.before, answer.after
    if after.services and after.jobs and not answer.unchanged:
        return with_choice(answer, _both(answer))
    if after.cost is None:
        ends = "infeasible" if after.status == "infeasible" else "stopped without a plan"
        lines = [words.first_fitting(answer.scenario, f"{ends} after the change"), *_stays("before", before)]
        alone = [effect for effect in answer.effects if effect.alone_status == "infeasible"]
        for one in alone:
            lines += words.wrap_hanging(f"{describe_setting(one.setting)} alone is infeasible", 3)
        lines += ["", *render_infeasible(after)]
    elif before.cost is None:
        lines = [words.first_fitting(answer.scenario, "feasible after the change"), "", *_blocks(answer)]
    elif answer.unchanged:
        lines = [words.first_fitting(answer.scenario, "nothing changes"), *_stays("stays", after)]
        lines += [line for hint in answer.it_would_take for line in words.wrap_hanging(hint, 3)]
    else:
        lines = [*summary(answer), "", *_blocks(answer), *shares_of_settings(answer)]
    return "\n".join(line.rstrip() for line in lines)


def _both(answer: WhatIf) -> list[str]:
    """Return what jobs and services cost together, then the table of the jobs, and that of the services."""
    before, after = answer.before, answer.after
    old = jobs_alone(before) if before.jobs else before
    jobs = answer.model_copy(update={"before": old, "after": jobs_alone(after), "services": ()})
    lines = _both_summary(answer, jobs)
    if before.jobs and all(is_same(job) for job in answer.jobs):
        lines += ["", *words.wrap_lines(f"unchanged: {', '.join(job.name for job in after.jobs)}", words.width(), 2)]
    else:
        name = after.jobs[0].name if len(after.jobs) == 1 else "jobs"
        lines += ["", words.shorten(words.sanitise(name), words.width()), *table_lines(jobs)]
    return [*lines, "", *service_lines(answer), *shares_of_settings(answer)]


def _both_summary(answer: WhatIf, jobs: WhatIf) -> list[str]:
    """Return the difference in all, and of it that of the jobs and that of the services."""
    before, after = answer.before, answer.after
    assert after.cost is not None
    whole = words.usd(after.cost.expected)
    if before.cost is None:
        text = f"feasible after the change: {whole} in all, of it {words.usd(services_usd(after))} for the service"
        return words.wrap_lines(f"{words.sanitise(answer.scenario)}: {text}", words.width(), 3)
    cost, hours = shown_differences(answer)
    unmoved = abs(services_usd(after) - services_usd(before)) < 0.005  # a cent of rounding is then the jobs'
    of_jobs = cost if unmoved else shown_differences(jobs)[0]
    time = "" if abs(hours) < 0.05 else f", {words.likely(abs(hours))} {'later' if hours > 0 else 'earlier'}"
    parts = [
        f"{name} {'the same' if abs(usd) < 0.005 else format_difference(usd)}"
        for name, usd in (("jobs", of_jobs), ("service", round(cost - of_jobs, 2)))
    ]
    text = f"{words.usd(before.cost.expected)} -> {whole} in all ({format_difference(cost)}{time})"
    return words.wrap_lines(f"{words.sanitise(answer.scenario)}: {text}: {', '.join(parts)}", words.width(), 3)


def service_lines(answer: WhatIf) -> list[str]:
    """Return the services of a plan with other jobs: what changed of them, and their tables where anything did."""
    names = [words.sanitise(service.name) for service in answer.after.services]
    if (
        not any(service.changes or abs(service.usd_per_month) >= 0.005 for service in answer.services)
        and answer.services
    ):
        return [f"unchanged: {', '.join(names)}"]
    own = answer if len(names) > 1 else answer.model_copy(update={"scenario": names[0]})
    lines = summary(own) if answer.services else [f"{', '.join(names)}: new"]
    return [*lines, "", *_blocks(answer)]


def _stays(label: str, plan: Plan) -> list[str]:
    """Return the headline of each service of a plan, after that of all where other jobs stand next to them."""
    texts = [fleet_headline(service) for service in plan.services]
    texts = [both_headline(plan), *texts] if plan.jobs else texts
    return [line for text in texts for line in words.wrap_hanging(f"{label}: {text}", 4)]


def summary(answer: WhatIf) -> list[str]:
    """Return dollars of a month more or less, what they buy, and whether that is more than what is proven."""
    texts = []
    old, later = ({service.name: service for service in plan.services} for plan in (answer.before, answer.after))
    for service in answer.services:
        usd, before = service.usd_per_month, old[service.name].fleet.usd_per_month
        new = before + usd
        difference = shown_difference(before, new)
        money = "the same dollars a month"
        if abs(difference) >= 0.005:
            share = words.percent(abs(usd) / before)
            money = f"{words.usd(abs(difference))} {'more' if usd > 0 else 'less'} a month ({share})"
        bought = _bought(service)
        buys = (
            " buys "
            if usd > 0 and abs(difference) >= 0.005 and _is_better(service, old[service.name], later[service.name])
            else ": "
        )
        what = f"{buys}{bought}" if bought else ""
        texts.append(f"{service.name if len(answer.services) > 1 else answer.scenario}: {money}{what}")
    lines = [line for text in texts for line in words.wrap_lines(words.sanitise(text), words.width(), 3)]
    for service in answer.services:
        if 0 < abs(service.usd_per_month) < service.proven_usd_per_month:
            proven = words.usd(service.proven_usd_per_month)
            text = f"either plan is proven to {proven} a month: the difference may be none"
            lines += words.wrap_hanging(text, 2)
    if not answer.services and answer.delta.cost_usd is not None:
        lines = [words.first_fitting(answer.scenario, f"{format_difference(answer.delta.cost_usd)} in all")]
    return lines


BOUGHT = {
    "load": "{} instead of {}",
    "per token": "{} per token instead of {}",
    "first token": "{} to the first token instead of {}",
    "served": "{} of the requests served instead of {}",
    "model": "{} instead of {}",
    "tokens": "{} tokens instead of {}",
}
"""What dollars buy or give up, in the order in which it is named."""


def _is_better(one: ServiceDelta, before: Service, after: Service) -> bool:
    """Return whether something other than a latency changed, or a latency fell."""
    other = {each.what for each in one.changes} & set(BOUGHT) - {"per token", "first token"}
    times = zip(before.fleet.limits, after.fleet.limits, strict=True)
    return bool(other) or any(new.predicted_seconds < old.predicted_seconds for old, new in times)


def _bought(one: ServiceDelta) -> str:
    """Return what the dollars buy or give up, at most two things."""
    found = {each.what: each for each in one.changes}
    pairs = [(text, found[what]) for what, text in BOUGHT.items() if what in found]
    return " and ".join(text.format(_peak(each.after), _peak(each.before)) for text, each in pairs[:2])


def _peak(text: str) -> str:
    """Return the end of a span: of a load the peak."""
    return text.rpartition(" to ")[2]


def _blocks(answer: WhatIf) -> list[str]:
    """Return the table of each service."""
    old = {service.name: service for service in answer.before.services}
    lines = _row("", "before", "after")
    for service in answer.after.services:
        if len(answer.after.services) > 1:
            lines += ["", words.shorten(words.sanitise(service.name), words.width())]
        lines += _block(old.get(service.name), service)
    return lines


def _block(old: Service | None, new: Service) -> list[str]:
    """Return dollars, proof, and whatever differs."""
    month = [f"{words.usd(service.fleet.usd_per_month)}" if service else "no plan" for service in (old, new)]
    whole = [words.usd(service.cost_usd) if service else "" for service in (old, new)]
    tokens = [f"{words.rate(one.fleet.usd_per_million_tokens)} a million" if one else "" for one in (old, new)]
    if old is not None:
        month[1] += f"  ({format_difference(shown_difference(old.fleet.usd_per_month, new.fleet.usd_per_month))})"
        whole[1] += f"  ({format_difference(shown_difference(old.cost_usd, new.cost_usd))})"
    lines = _row("a month", *month) + _row(words.duration(new.for_hours), *whole) + _row("tokens", *tokens)
    lines += _row("proven", *(proven(service.gap).removeprefix("proven ") if service else "" for service in (old, new)))
    for name, describe in FLEET_FEATURES:
        first, last = describe(old) if old is not None else "", describe(new)
        if first != last:
            lines += _row(name, first, last) if name != "fleet" else _fleets(first, last)
    return lines


def _fleets(before: str, after: str) -> list[str]:
    """Return the kinds of both fleets, one below the other."""
    sides = []
    for text, room in ((before, LEFT_SIDE - 2), (after, RIGHT_SIDE)):
        sides.append([line for kind in text.split("; ") for line in words.wrap_lines(kind, room, 2) if line])
    return words.hang(f"{'fleet':<{SIDE_LABEL}}", words.columns(sides[0], sides[1], LEFT_SIDE))


def _row(label: str, before: str, after: str) -> list[str]:
    """Return one row; a long cell continues below."""
    cells = words.columns(
        words.wrap_lines(words.sanitise(before), LEFT_SIDE - 2, 3),
        words.wrap_lines(words.sanitise(after), RIGHT_SIDE, 3),
        LEFT_SIDE,
    )
    return words.hang(f"{label:<{SIDE_LABEL}}", cells)


def shares_of_settings(answer: WhatIf) -> list[str]:
    """Return the share of each of several settings in the difference of the whole time."""
    lines = []
    for effect in answer.effects:
        usd = effect.share.cost_usd
        text = "no plan alone" if effect.alone_status == "infeasible" else "no plan without the others"
        if usd is not None and answer.delta.cost_usd is not None:
            text = f"{format_difference(usd)} of the {format_difference(answer.delta.cost_usd)}"
        lines += words.wrap_lines(f"{describe_setting(effect.setting)}: {text}", words.width() - SIDE_LABEL, 3)
    if lines:
        note = "shares: mean of the effect of each setting alone and as the last of all"
        lines += words.wrap_lines(note, words.width() - SIDE_LABEL, 2)
    return words.hang(f"{'why':<{SIDE_LABEL}}", lines)

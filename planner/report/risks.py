"""What a reader must know before renting: cut samples, private hosts, guesses, old prices, spot without a fallback."""

from __future__ import annotations

import re
from typing import NamedTuple

from planner.report import plan_alternatives, plan_sections, words
from planner.results.chosen_model import END_OF_SIZES, OTHER_DATA, REPEATED_DATA, WASTED_TOKENS
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import Option

MOST_RISKS = 3
"""Risks in full; one more line names the others."""
NAMES_OF_RISK = 2
"""Jobs that a risk of several names; of more it says how many."""


class Risk(NamedTuple):
    """What a reader must know before renting: a few words for it, and the sentence."""

    kind: str
    text: str


def risks_of(plan: Plan, job: Assignment) -> list[Risk]:
    """Return what of one job would change the decision, the greatest first."""
    return [Risk(kind, text) for kind, text in _texts_of(plan, job) if text]


def _texts_of(plan: Plan, job: Assignment) -> list[tuple[str, str]]:
    """Return every kind of risk, the greatest first, with its sentence; empty where the job has none of it."""
    return [
        *(("samples are cut", plan_sections.cut_text(cut)) for cut in plan.cut),
        *(("a licence", note) for note in job.notes if note.startswith("licence of ")),
        ("weights to convert", job.conversion or ""),
        ("an outlay", plan_sections.outlay_text(plan)),
        ("a private person's machine", _private_text(job, len(plan.jobs) > 1)),
        ("spot without fallback", _no_fallback_text(job)),
        ("speed is a prior", plan_sections.prior_text(job)),
        ("speed is an upper bound", _bound_text(job)),
        *_priors(job),
        *_beyond_the_law(job),
        ("an assumed market keeps the budget", plan_sections.assumed_market_text(plan)),
        ("rounding", plan_alternatives.lossy_text(job)),
        ("old prices", _old_prices_text(plan)),
        ("host memory is assumed", _host_text(job)),
    ]


def risks_of_jobs(plan: Plan) -> list[Risk]:
    """Return what of several jobs would change the decision: a line of each kind, with the jobs that it is about."""
    jobs_of: dict[str, dict[str, list[str]]] = {}
    for job in plan.jobs:
        for kind, text in _texts_of(plan, job):
            of_kind = jobs_of.setdefault(kind, {})
            if text:
                of_kind.setdefault(text, []).append(job.name)
    guessed = [Risk("stock is a guess", note) for note in plan_sections.guesses_of_stock(plan)]
    return [*(risk for kind, found in jobs_of.items() for risk in _joined(kind, found, len(plan.jobs))), *guessed]


def _joined(kind: str, found: dict[str, list[str]], count: int) -> list[Risk]:
    """Return the risks of one kind: a sentence that all jobs share once, else with the jobs, else how many have it."""
    if all(len(names) == count for names in found.values()) or kind == "samples are cut":
        return [Risk(kind, text) for text in found]  # what is cut names its job
    if len(found) > 1:
        whose = list(dict.fromkeys(name for names in found.values() for name in names))
        return [Risk(kind, f"{_named(whose, count)}: {kind}")]
    return [Risk(kind, f"{_named(names, count)}: {text}") for text, names in found.items()]


def _named(names: list[str], count: int) -> str:
    return " and ".join(names) if len(names) <= NAMES_OF_RISK else f"{len(names):,} of {count:,} jobs"


def _priors(job: Assignment) -> list[tuple[str, str]]:
    """Return what else than the speed of a job is a guess."""
    rests = job.evidence
    memory = f"the memory of {job.framework} is a prior, not from measurements"
    market = "how often spot machines are lost is a prior, not recorded"
    return [
        ("memory is a prior", memory if rests is not None and rests.memory == "prior" else ""),
        ("spot market is a prior", market if rests is not None and rests.spot == "prior" else ""),
    ]


def _beyond_the_law(job: Assignment) -> list[tuple[str, str]]:
    """Return what else a loss may cost, and where it leaves what its law has seen: large steps, repeated data."""
    kinds = {
        END_OF_SIZES: "the size is at the end of its range",
        WASTED_TOKENS: "large steps waste tokens",
        REPEATED_DATA: "data repeated too often",
        OTHER_DATA: "other data have other losses",
    }
    if job.model is None:
        return []
    ends = ", and beyond them|, which the loss counts"  # of a note that says more than a line takes
    short = {each: re.split(ends, note)[0] for note in job.notes for each in kinds if each in note}
    return [(kind, short.get(each, "")) for each, kind in kinds.items()]


def _old_prices_text(plan: Plan) -> str:
    age = plan_sections.old_prices_text(plan)
    return f"{age}: {plan_sections.RENEWS_PRICES}" if age else ""


def _bound_text(job: Assignment) -> str:
    return "the speed is an upper bound: the run may take longer" if plan_sections.is_upper_bound(job) else ""


def _host_text(job: Assignment) -> str:
    host = job.host_memory
    return f"memory of the host: {plan_sections.host_memory_text(host)}" if host is not None and host.assumed else ""


def _private_text(job: Assignment, of_several: bool) -> str:
    if job.tier != "community":
        return ""
    secure, text = _safer(job, "secure"), "a private person's machine"
    if secure is None:  # not searched for: of several jobs, or for want of time
        return f"{text} (--set limits.tiers.forbid=[community] excludes it)" if of_several else text
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


def risk_lines(found: list[Risk]) -> list[str]:
    """Return the first risks in at most two lines each, and one line that names the others."""
    shown, others = found[:MOST_RISKS], found[MOST_RISKS:]
    if len(others) == 1:  # a line for its name is a line for itself
        shown, others = found, []
    texts = [risk.text for risk in shown]
    if others:
        texts.append(f"also: {', '.join(risk.kind for risk in others)} (--details)")
    wrapped = (words.wrap_lines(text, words.width() - 2, 2) for text in texts)
    return [f"{'  ' if number else '! '}{line}" for lines in wrapped for number, line in enumerate(lines)]

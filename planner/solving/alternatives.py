"""What else was priced: the ladder of methods, the runner-up, and what each limit costs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.screening import ScreenedCandidates, screen
from planner.configurations.recipe import is_allowed
from planner.decode.assignment_parts import describe_break_even
from planner.results.plan import Option
from planner.scenario.limits import UNLIMITED_HOURS, Limits, max_run_hours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.arrays import Flags, Floats
    from planner.candidate_table import CandidateTable
    from planner.candidates.job_candidates import JobCandidates
    from planner.candidates.market import Market
    from planner.library.schema import Library
    from planner.solving.scoring import Objective

METHOD_LABELS = ("QLoRA", "LoRA", "full")
MAX_RUNNERS_UP = 2
OUTLIER_SHARE = 0.5
RATIO_THRESHOLD = 10.0
"""Ratio from which on a difference is told as one: 41,043 % says less than 411 x."""
NO_DIFFERENCE = "no real difference"
PAYMENT_LABELS: dict[str, str] = {"own": "own machine", "managed": "by the service", "committed": "committed"}
"""How tiers are paid that are not rented by the hour."""
MIN_PEERS = 3
"""A spot price under this share of the median ratio of the same instance, known at so many places, is an outlier."""


def find_cheapest_shares(table: CandidateTable) -> tuple[Floats, Floats]:
    """Least dollars (penalties in) of each row over its spot shares, and the share that gives them; shapes (n,)."""
    low = table.cost_usd(table.share_low)
    high = table.cost_usd(table.share_high)
    better = high < low
    return np.where(better, high, low) + table.penalty_usd, np.where(better, table.share_high, table.share_low)


def best_by_method(
    candidates: JobCandidates, wide: CandidateTable, market: Market, measure: Objective
) -> tuple[Option, ...]:
    """The best way of each method under all other limits; a method that the job excludes says so."""
    if candidates.job.kind == "pretrain":
        return ()
    recipes = candidates.recipes
    labels = np.asarray([recipe.method_label for recipe in recipes])
    value, share = measure.best(wide)
    rungs = []
    for rung in METHOD_LABELS:
        permitted = any(is_allowed(recipe, candidates.job) for recipe in recipes if recipe.method_label == rung)
        rows = np.flatnonzero((labels[wide.recipe] == rung) & np.isfinite(value)) if len(labels) else np.zeros(0, int)
        if len(rows):
            best = rows[np.argmin(value[rows])]
            rungs.append(_option(rung, wide, int(best), float(share[best]), market, permitted))
        else:
            rungs.append(
                Option(
                    label=rung,
                    provider="",
                    gpu="",
                    gpus=0,
                    cost_usd=None,
                    hours=None,
                    allowed=permitted,
                    note="not observed there" if _all_observed(candidates) else "no way within the limits",
                )
            )
    return tuple(rungs)


def _all_observed(candidates: JobCandidates) -> bool:
    """Whether every way is a whole run that was observed: others are not ruled out, nobody has seen them."""
    observed = candidates.physics.ways.observed_hours
    return len(observed) > 0 and bool(np.isfinite(observed).all())


def find_runners_up(
    screened: ScreenedCandidates, chosen: int, share: float, market: Market, library: Library, measure: Objective
) -> tuple[Option, ...]:
    """The best ways on another card, at another provider or paid in another way, and whether they are really worse.

    `chosen` is the row of the screened table that the plan takes, at the spot share `share`.
    """
    table = screened.table
    value, shares = measure.best(table)
    reached = float(measure.values(table.rows(np.asarray([chosen])), share)[0])
    # The best row of each offer is enough: thousands of rows hang on a few hundred of them.
    best = np.full(len(market.offers), np.inf)
    np.minimum.at(best, table.offer, value)
    leading = np.flatnonzero(np.isfinite(value) & (value <= best[table.offer]))

    def named(row: int) -> str:
        place = int(table.offer[row])
        return f"{market.offers[place].provider} {market.gpus[place]}"

    def paid(row: int) -> str:
        return PAYMENT_LABELS.get(market.offers[int(table.offer[row])].tier, "by the hour")

    taken = {(named(chosen), paid(chosen))}
    gpu = market.gpus[int(table.offer[chosen])]
    less, more, much = measure.comparatives
    if less == "cheaper":
        less = "cheaper, but slower"  # within the half cent that a plan gives for its hours
    found: list[Option] = []
    for row in leading[np.argsort(value[leading], kind="stable")]:
        name, how = named(int(row)), paid(int(row))
        if (name, how) in taken:
            continue
        taken.add((name, how))
        same_card = market.gpus[int(table.offer[row])] == gpu
        note = describe_difference(float(value[row]), reached, difference_sigma(library, same_card), less, more, much)
        offer = market.offers[int(table.offer[row])]
        if how != paid(chosen):
            note = f"{note}, {how}".removeprefix(", ")
        if pays := describe_break_even(market, offer, float(table.instances[row])):
            note = f"{note}: {pays}"
        found.append(_option(name, table, int(row), float(shares[row]), market, True, note))
        if len(found) == MAX_RUNNERS_UP:
            break
    return tuple(found)


def flag_spot_outliers(market: Market) -> Flags:
    """Offers (offers,) whose spot discount is far from that of the same instance elsewhere: likely an error.

    A least-cost search over thousands of prices finds their errors first.
    """
    ratios: dict[tuple[str, str, str], list[float]] = {}
    own = np.full(len(market.offers), np.nan)
    for index, offer in enumerate(market.offers):
        if offer.has_spot and offer.usd_per_hour and offer.spot_usd_per_hour is not None:
            own[index] = offer.spot_usd_per_hour / offer.usd_per_hour
            ratios.setdefault((offer.provider, offer.instance, offer.card), []).append(float(own[index]))
    usual = np.asarray(
        [
            np.median(peers) if len(peers := ratios.get((o.provider, o.instance, o.card), [])) >= MIN_PEERS else np.nan
            for o in market.offers
        ],
        dtype=float,
    )
    return np.asarray(own < OUTLIER_SHARE * usual)


def describe_spot_outlier(
    screened: ScreenedCandidates, offer: int, share: float, market: Market, measure: Objective
) -> tuple[str, ...]:
    """A warning where the plan rests on a spot price that is out of line, with the best plan without such prices."""
    if share == 0:
        return ()
    flagged = flag_spot_outliers(market)
    if not flagged[offer]:
        return ()
    rest = screened.table.rows(~flagged[screened.table.offer])
    value, shares = measure.best(rest)
    without = "no plan"
    if np.isfinite(value).any():
        without = f"${rest.cost_usd(shares)[np.argmin(value)]:,.2f}"
    return (f"the spot price is under half of what this instance costs elsewhere; without such prices: {without}",)


def difference_sigma(library: Library, same_card: bool) -> float:
    """Spread of the difference of two estimates' log errors, on one card or on two."""
    return library.calibrations["uncertainty"].value(f"difference.{'same' if same_card else 'other'}_card")


def describe_difference(
    value: float, against: float, sigma: float, less: str = "cheaper", more: str = "dearer", much: str = "dear"
) -> str:
    """Whether two figures really differ: `63 % dearer`, `12 x as dear`, or no real difference within `sigma`."""
    if value <= 0 or against <= 0:
        return ""
    gap = math.log(value / against)
    if abs(gap) < sigma:
        return NO_DIFFERENCE
    if value >= RATIO_THRESHOLD * against:
        return f"{value / against:,.0f} x as {much}"
    return f"{abs(math.expm1(gap)):,.0%} {more if gap > 0 else less}".replace("%", " %")


def _option(
    label: str, table: CandidateTable, row: int, share: float, market: Market, permitted: bool, note: str = ""
) -> Option:
    offer = market.offers[int(table.offer[row])]
    one = table.rows(np.asarray([row]))
    return Option(
        label=label,
        provider=offer.provider,
        gpu=market.gpus[int(table.offer[row])],
        gpus=int(table.run_gpus[row]),
        runs_at_once=int(table.node_groups[row]),
        cost_usd=float(one.cost_usd(share)[0]),
        hours=float(one.hours(share)[0]),
        allowed=permitted,
        note=note,
    )


def find_binding_limits(
    candidates: JobCandidates,
    screened: ScreenedCandidates,
    market: Market,
    limits: Limits,
    library: Library,
    measure: Objective,
) -> tuple[str, ...]:
    """Limits without which this job would do better, and by how much; each lifted alone, all else kept."""
    now = float(np.min(measure.best(screened.table)[0], initial=np.inf))
    if not math.isfinite(now):
        return ()
    # Limits only cut shares and billing steps only add: a row that is no better without either changes nothing.
    unspent = replace(measure, budget_usd=math.inf)
    hopes = np.fmin(unspent.best(candidates.table)[0], _spot_lower_bound(candidates, measure))
    better = np.flatnonzero(hopes < now - measure.min_gain(now))
    if not len(better):
        return ()
    promising = candidates.rows(better)
    found = []
    for name, default, asked, offered, kept in _lift_limits(promising, market, limits):
        by = unspent if name == "budget" else measure
        open_ = screen(asked, offered, kept, library, name != "techniques", measure.waiting_usd)
        value = by.best(open_.table)[0]
        saved = now - float(np.min(value, initial=np.inf))
        if saved > measure.min_gain(now):
            found.append(f"{name} ({default}without it {measure.saved(saved)})")
    return tuple(found)


def _spot_lower_bound(candidates: JobCandidates, measure: Objective) -> Floats:
    """What no policy on spot gets below (n,): all of the work at the spot price; nan where there is none to follow."""
    if measure.waiting_usd is None:
        return np.full(len(candidates.table), np.nan)
    table, hours = candidates.table, candidates.hours
    price = candidates.columns.spot_usd[table.offer] * table.instances / hours.node_groups
    return np.asarray(table.fixed_usd + table.penalty_usd + price * hours.group_run + measure.usd_per_hour * hours.run)


def _lift_limits(
    asked: JobCandidates, market: Market, limits: Limits
) -> Iterator[tuple[str, str, JobCandidates, Market, Limits]]:
    """Every limit on the job by its name, whether it is the default, and candidates, market and limits without it.

    What an offer has left, in machines or in hours paid for, limits a job no less than what its user sets.
    """
    job = asked.job
    if job.deadline_hours is not None:
        yield "deadline", "", replace(asked, job=job.model_copy(update={"deadline_hours": None})), market, limits
    longest = max_run_hours(job, limits)
    if job.deadline_hours is None or job.deadline_hours > longest:
        default = f"default {longest:,.0f} h; " if limits.max_hours is None else ""
        yield "max_hours", default, asked, market, limits.model_copy(update={"max_hours": UNLIMITED_HOURS})
    if job.techniques.method is not None or job.techniques.weight_bits is not None:
        yield "techniques", "", asked, market, limits
    plain = Limits()
    for name in ("budget_usd", "max_gpus", "quota", "spot_share", "providers", "gpus", "regions", "tiers"):
        if getattr(limits, name) != getattr(plain, name):
            free = limits.model_copy(update={name: getattr(plain, name)})
            yield name.removesuffix("_usd"), "", asked, market, free
    if any(offer.stock is not None for offer in market.offers):
        yield "stock", "", asked, market.without_stock(), limits
    if np.isfinite(asked.columns.committed_hours).any():
        yield "hours paid for", "", asked.without_hours_limit(), market, limits

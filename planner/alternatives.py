"""What else was priced: the ladder of methods, the runner-up, and what each limit costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from planner.candidates import JobCandidates, Market
from planner.library import Library
from planner.plan import Assignment, Option
from planner.recipes import allowed
from planner.scenario import AllowForbid, Limits, SpotShare
from planner.screening import Screened, screen
from planner.table import CandidateTable, Flags, Floats

RUNGS = ("QLoRA", "LoRA", "full")
RUNNERS_UP = 2
OUTLIER_SHARE = 0.5
PEERS = 3
"""A spot price under this share of the median ratio of the same instance, known at so many places, is an outlier."""


def cheapest(table: CandidateTable) -> tuple[Floats, Floats]:
    """Least dollars (penalties in) of each row over its spot shares, and the share that gives them; shapes (n,)."""
    low = table.cost_usd(table.share_low)
    high = table.cost_usd(table.share_high)
    better = high < low
    return np.where(better, high, low) + table.penalty_usd, np.where(better, table.share_high, table.share_low)


def least_usd(table: CandidateTable) -> float:
    """Least dollars (penalties in) of any row at any share; infinite where there is none."""
    return float(np.min(cheapest(table)[0])) if len(table) else math.inf


def ladder(candidates: JobCandidates, wide: CandidateTable, market: Market) -> tuple[Option, ...]:
    """The cheapest way of each method under all other limits; a method that the job excludes says so."""
    if candidates.job.kind == "pretrain":
        return ()
    recipes = candidates.physics.ways.recipes
    labels = np.asarray([recipe.method_label for recipe in recipes])
    cost, share = cheapest(wide)
    rungs = []
    for rung in RUNGS:
        permitted = any(allowed(recipe, candidates.job) for recipe in recipes if recipe.method_label == rung)
        rows = np.flatnonzero(labels[wide.recipe] == rung) if len(labels) else np.zeros(0, dtype=int)
        if len(rows):
            best = rows[np.argmin(cost[rows])]
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
                    note="no way within the limits",
                )
            )
    return tuple(rungs)


def runner_up(
    candidates: JobCandidates, screened: Screened, chosen: int, made: Assignment, market: Market, library: Library
) -> tuple[Option, ...]:
    """The cheapest ways on another card or at another provider, and whether they are really dearer."""
    table = screened.table
    cost, share = cheapest(table)
    names = np.asarray(
        [f"{offer.provider} {card.name}" for offer, card in zip(market.offers, market.cards, strict=True)]
    )
    taken = {names[candidates.table.offer[chosen]]}
    found: list[Option] = []
    for row in np.argsort(cost, kind="stable"):
        name = str(names[table.offer[row]])
        if name in taken:
            continue
        taken.add(name)
        same_card = market.cards[int(table.offer[row])].name == made.gpu
        note = verdict(float(cost[row]), made.cost_usd, difference_sigma(library, same_card), "cheaper, but slower")
        found.append(_option(name, table, int(row), float(share[row]), market, True, note))
        if len(found) == RUNNERS_UP:
            break
    return tuple(found)


def spot_outliers(market: Market) -> Flags:
    """Offers (offers,) whose spot discount is far from that of the same instance elsewhere: likely an error.

    A least-cost search over thousands of prices finds their errors first.
    """
    ratios: dict[tuple[str, str, str], list[float]] = {}
    own = np.full(len(market.offers), np.nan)
    for index, offer in enumerate(market.offers):
        if offer.has_spot and offer.usd_per_hour and offer.spot_usd_per_hour is not None:
            own[index] = offer.spot_usd_per_hour / offer.usd_per_hour
            ratios.setdefault((offer.provider, offer.instance, offer.gpu), []).append(float(own[index]))
    usual = np.asarray(
        [
            np.median(peers) if len(peers := ratios.get((o.provider, o.instance, o.gpu), [])) >= PEERS else np.nan
            for o in market.offers
        ],
        dtype=float,
    )
    return np.asarray(own < OUTLIER_SHARE * usual)


def outlier_note(screened: Screened, offer: int, share: float, market: Market) -> tuple[str, ...]:
    """A warning where the plan rests on a spot price that is out of line, with the best plan without such prices."""
    if share == 0:
        return ()
    flagged = spot_outliers(market)
    if not flagged[offer]:
        return ()
    rest = ~flagged[screened.table.offer]
    cost = cheapest(screened.table.rows(rest))[0]
    without = f"${np.min(cost):,.2f}" if len(cost) else "no plan"
    return (f"the spot price is under half of what this instance costs elsewhere; without such prices: {without}",)


def difference_sigma(library: Library, same_card: bool) -> float:
    """Spread of the difference of two estimates' log errors, on one card or on two."""
    return library.calibrations["uncertainty"].value(f"difference.{'same' if same_card else 'other'}_card")


def verdict(value: float, against: float, sigma: float, less: str = "cheaper", more: str = "dearer") -> str:
    """Whether two figures really differ: `63 % dearer`, or no real difference within the spread `sigma`."""
    if value <= 0 or against <= 0:
        return ""
    gap = math.log(value / against)
    if abs(gap) < sigma:
        return "no real difference"
    return f"{abs(math.expm1(gap)):,.0%} {more if gap > 0 else less}".replace("%", " %")


def _option(
    label: str, table: CandidateTable, row: int, share: float, market: Market, permitted: bool, note: str = ""
) -> Option:
    offer = market.offers[int(table.offer[row])]
    one = table.rows(np.asarray([row]))
    return Option(
        label=label,
        provider=offer.provider,
        gpu=market.cards[int(table.offer[row])].name,
        gpus=int(table.gpus[row]),
        cost_usd=float(one.cost_usd(share)[0]),
        hours=float(one.hours(share)[0]),
        allowed=permitted,
        note=note,
    )


def binding_limits(
    candidates: JobCandidates, screened: Screened, market: Market, limits: Limits, library: Library
) -> tuple[str, ...]:
    """Limits without which this job would be cheaper, and by how much; each lifted alone, all else kept."""
    job = candidates.job
    now = least_usd(screened.table)
    # Limits only cut shares and billing steps only add: a row that is no cheaper without either changes nothing.
    cheaper = np.flatnonzero(cheapest(candidates.table)[0] < now - 0.005)
    if not len(cheaper):
        return ()
    promising = candidates.rows(cheaper)

    def least(lifted: Limits, method_filter: bool = True, deadline: bool = True) -> float:
        free = promising.job.model_copy(update={"deadline_hours": None})
        asked = promising if deadline else replace(promising, job=free)
        return min(now, least_usd(screen(asked, market, lifted, library, method_filter).table))

    trials: list[tuple[str, bool, Callable[[], float]]] = [
        ("deadline", job.deadline_hours is not None, lambda: least(limits, deadline=False)),
        (
            "techniques",
            job.techniques.method is not None or job.techniques.weight_bits is not None,
            lambda: least(limits, False),
        ),
        (
            "max_gpus",
            limits.max_gpus is not None,
            lambda: least(limits.model_copy(update={"max_gpus": None})),
        ),
        ("quota", bool(limits.quota), lambda: least(limits.model_copy(update={"quota": {}}))),
        (
            "spot_share",
            limits.spot_share != SpotShare(),
            lambda: least(limits.model_copy(update={"spot_share": SpotShare()})),
        ),
        *(
            (
                name,
                getattr(limits, name) != AllowForbid(),
                lambda name=name: least(limits.model_copy(update={name: AllowForbid()})),
            )
            for name in ("providers", "gpus", "regions")
        ),
    ]
    found = []
    for name, given, without in trials:
        if given and (saved := now - without()) > 0.005:
            found.append(f"{name} (without it ${saved:,.2f} less)")
    return tuple(found)

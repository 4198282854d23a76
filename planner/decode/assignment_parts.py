"""Parts of an assignment: cost, stages, spot policy, commitment, techniques."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from planner.candidates.spot.odds import Cases, cases_of_runs, draw_dollars, told_of_runs
from planner.decode.bill import FIXED_ITEMS, build_bill
from planner.estimates.billing import break_even_hours, required_use_share
from planner.estimates.uncertainty import interval
from planner.results.plan_parts import CommitmentUse, SpotPlan, Spread, Techniques
from planner.scenario.zones.groups import zone_prices

if TYPE_CHECKING:
    from planner.candidates.market import Market
    from planner.candidates.spot.choices import SpotChoice
    from planner.candidates.spot.odds import SpotOnlyCosts
    from planner.configurations.recipe import Recipe
    from planner.decode.chosen import ChosenCandidate
    from planner.scenario.job import Job
    from planner.scenario.limits import Limits
    from planner.scenario.offer import Offer


def build_costs(
    chosen: ChosenCandidate,
    factors: tuple[float, float],
    spot: SpotPlan | None = None,
    alone: SpotOnlyCosts | None = None,
) -> dict[str, Any]:
    """Return the bill, its sum and its interval: only lines that depend on hours are uncertain."""
    lines = build_bill(chosen)
    cost = math.fsum(line.usd for line in lines)
    fixed = math.fsum(line.usd for line in lines if line.item in FIXED_ITEMS)
    least, spread = (cost - spot.luck_usd, spot.usd_sd) if spot else (cost, 0.0)
    low, high = interval(cost - fixed, least - fixed, factors, spread)
    if spot is not None and spot.basis:
        low, high = _as_wide_as_guessed((low, high), cost - fixed, spot.luck_usd, spot.saving_usd, factors)
    late_lines = build_bill(chosen, late=True)
    cases: Cases = ()
    hours: Cases = ()
    late = math.fsum(line.usd for line in late_lines)
    if chosen.spot is not None:
        (usd,) = draw_dollars([chosen.policy_costs(chosen.spot)])
        late, cases = told_of_runs(usd, chosen.candidates.run_hours.budget_confidence)
    elif alone is not None:
        drawn_hours, usd = alone.draw()
        usd = usd + math.fsum(line.usd for line in late_lines if line.item == "rounded up")
        late, cases = told_of_runs(usd, chosen.candidates.run_hours.budget_confidence)
        hours = cases_of_runs(drawn_hours)
    return {
        "cost": Spread(expected=cost, low=fixed + low, high=fixed + high),
        "cost_at_confidence": late,
        "usd_of_runs": cases,
        "hours_of_runs": hours,
        "cost_usd": cost,
        "bill": lines,
    }


def _as_wide_as_guessed(
    ends: tuple[float, float], expected: float, luck: float, waiting: float, factors: tuple[float, float]
) -> tuple[float, float]:
    """Return an interval that holds what follows where an assumed market is always there, and where it never is.

    Then the run pays (or takes) `luck` less than expected, or `waiting` more: all that it waits in vain.
    """
    return min(ends[0], (expected - luck) * factors[0]), max(ends[1], (expected + waiting) * factors[1])


def hours_as_guessed(
    ends: tuple[float, float], expected: float, policy: SpotPlan, spot: SpotChoice, factors: tuple[float, float]
) -> tuple[float, float]:
    """Return the interval of hours of a policy on an assumed market: from no wait at all to its guarantee."""
    waiting = spot.point.hours - spot.point.finish_hours
    return _as_wide_as_guessed(ends, expected, policy.luck_hours, waiting, factors)


def stage_hours_of(chosen: ChosenCandidate) -> dict[str, float]:
    """Return the expected hours of the stages other than start and training, on separate machines too."""
    h, row, placement = chosen.candidates.hours, chosen.row, chosen.candidates.placement_of(chosen.row)
    found = {
        "prepare data": float(h.ingest[row]) + placement.hours_of("ingest"),
        "evaluation": float(h.evaluation[row]) + placement.hours_of("evaluation"),
        "checkpoints": float(h.checkpoints[row]),
        "load between trials": float(h.reload[row]),
        "export": float(h.export[row]) + placement.hours_of("export"),
    }
    return {name: hours for name, hours in found.items() if hours > 0}


def build_spot_plan(chosen: ChosenCandidate, spot: SpotChoice, limits: Limits) -> SpotPlan:
    """Return what the policy of a choice guarantees and expects; hours count from the order of the first machines."""
    candidates, row, point, run = chosen.candidates, chosen.row, spot.point, spot.run
    offer, h = candidates.table.offer[row], candidates.hours
    before = stage_hours_of(chosen).get("prepare data", 0.0)
    storage = float(candidates.columns.storage_usd_per_hour(offer, h.stored_gb[row]))
    needed = run.work_hours + run.restart_hours
    on_demand = needed * (run.on_demand_usd_per_hour + storage)
    # The point includes the value of time, which is not on the bill.
    paid = point.usd - (run.standing_usd_per_hour - storage) * point.finish_hours
    return SpotPlan(
        guaranteed_hours=point.hours,
        latest_on_demand_hours=before + point.hours - needed,
        saving_usd=on_demand - paid,
        usd_sd=point.usd_sd,
        hours_sd=point.finish_sd,
        luck_usd=paid - needed * (run.spot_usd_per_hour + storage),
        luck_hours=point.finish_hours - needed,
        interruptions=point.interruptions,
        wasted_hours=point.wasted_hours,
        waiting_hours=point.waiting_hours,
        waiting_usd_per_hour=chosen.waiting_usd + (limits.waiting_usd_per_hour or 0.0),
        **asdict(spot.rule(candidates.policies)),
        checkpoint_interval_hours=run.interval_hours,
        restart_hours=run.restart_hours,
        last_checkpoint=run.last_checkpoint,
        availability=spot.states.availability(),
        mean_up_hours=spot.states.up.mean(),
        mean_outage_hours=spot.states.down.mean(),
        basis=candidates.spot[chosen.place].basis,
        zones=zone_prices(chosen.offer),
    )


def build_commitment_use(chosen: ChosenCandidate) -> CommitmentUse | None:
    """Return the cost of a commitment, how much of it the job uses, and its break-even point; None without one."""
    offer, machines = chosen.offer, float(chosen.candidates.table.instances[chosen.row])
    if offer.commitment is None or chosen.is_reserved:
        return None
    price = hourly_equivalent_usd(chosen.market, offer)
    committed, term = offer.committed_usd * machines, offer.term_hours * machines
    return CommitmentUse(
        months=offer.commitment.months,
        usd=committed,
        used_hours=chosen.used_machine_hours,
        term_hours=term,
        on_demand_usd_per_hour=price,
        break_even_hours=float(break_even_hours(committed, price)) if price else None,
        break_even_share=float(required_use_share(committed, price, term)) if price else None,
    )


def describe_break_even(market: Market, offer: Offer, machines: float) -> str:
    """Return the use above which a commitment costs less than equal machines by the hour, such as `pays from 365 h`.

    Empty without a commitment, and where no offer has equal machines by the hour.
    """
    price = hourly_equivalent_usd(market, offer) if offer.commitment is not None else None
    if not price:
        return ""
    hours = float(break_even_hours(offer.committed_usd * machines, price))
    return f"pays from {hours:,.0f} h of use" if hours <= offer.term_hours * machines else "never pays in its term"


def pays_from_hours(market: Market, offer: Offer, machines: float) -> float | None:
    """Return the machine hours of use from which on a reservation pays; None without equal machines by the hour."""
    price = hourly_equivalent_usd(market, offer)
    return float(break_even_hours(offer.committed_usd * machines, price)) if price else None


def hourly_equivalent_usd(market: Market, offer: Offer) -> float | None:
    """Return the lowest price per hour of as many equal GPUs, at the same provider if it has one."""
    prices = [
        (one.provider != offer.provider, one.usd_per_hour)
        for one in market.offers
        if one.gpu == offer.gpu and one.gpus == offer.gpus and one.tier in ("secure", "community") and one.usd_per_hour
    ]
    return min(prices)[1] if prices else None


def techniques_of(recipe: Recipe, job: Job, micro_batch: int, accumulation: int) -> Techniques:
    """Return a recipe and its batch as a plan states them."""
    adapts = recipe.method == "lora"
    settings = {name: value for name, value in asdict(recipe).items() if name in Techniques.model_fields}
    return Techniques(
        **{**settings, "lora_rank": (recipe.lora_rank or job.lora.rank[0]) if adapts else None},
        micro_batch=micro_batch,
        accumulation_steps=accumulation,
        lora_targets=job.lora.targets if adapts else None,
    )

"""Parts of an assignment: place, cost, stages, spot policy, commitment, techniques."""

from __future__ import annotations

import datetime
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from planner.decode.bill import FIXED_ITEMS, ChosenCandidate
from planner.decode.notes import age_in_days
from planner.estimates.billing import break_even_hours, required_use_share
from planner.estimates.uncertainty import interval
from planner.results.plan import BillItem, CommitmentUse, SpotPlan, Spread, Techniques

if TYPE_CHECKING:
    from planner.candidates.job_candidates import JobCandidates
    from planner.candidates.market import Market
    from planner.configurations.recipe import Recipe
    from planner.scenario.job import Job
    from planner.scenario.offer import Offer


def describe_place(candidates: JobCandidates, row: int, market: Market) -> dict[str, Any]:
    """Return where the machines are: provider, region, instance, offer and tier."""
    place = int(candidates.table.offer[row])
    offer, alike = market.offers[place], market.merged[place]
    return {
        "provider": offer.provider,
        "region": offer.region if alike == 1 else f"any of {alike}",
        "instance": offer.instance,
        "offer": market.labels[place],
        "tier": offer.tier,
    }


def build_costs(
    lines: tuple[BillItem, ...], late: tuple[BillItem, ...], factors: tuple[float, float], spot: SpotPlan | None = None
) -> dict[str, Any]:
    """Return the bill, its sum and its interval: only lines that depend on hours are uncertain."""
    cost = math.fsum(line.usd for line in lines)
    fixed = math.fsum(line.usd for line in lines if line.item in FIXED_ITEMS)
    least, spread = (cost - spot.luck_usd, spot.usd_sd) if spot else (cost, 0.0)
    low, high = interval(cost - fixed, least - fixed, factors, spread)
    return {
        "cost": Spread(expected=cost, low=fixed + low, high=fixed + high),
        "cost_at_confidence": math.fsum(line.usd for line in late),
        "cost_usd": cost,
        "bill": lines,
    }


def describe_prices(offer: Offer, as_of: datetime.date) -> dict[str, Any]:
    """Return the age and the source of the price."""
    return {
        "price_date": offer.date.isoformat() if isinstance(offer.date, datetime.date) else str(offer.date or ""),
        "price_age_days": age_in_days(offer, as_of),
        "price_source": offer.source,
    }


def stage_hours_of(candidates: JobCandidates, row: int) -> dict[str, float]:
    """Return the expected hours of the stages other than start and training, on separate machines too."""
    h, placement = candidates.hours, candidates.placement_of(row)
    found = {
        "prepare data": float(h.ingest[row]) + (placement.ingest.hours if placement.ingest else 0.0),
        "evaluation": float(h.evaluation[row]) + (placement.evaluation.hours if placement.evaluation else 0.0),
        "checkpoints": float(h.checkpoints[row]),
        "load between trials": float(h.reload[row]),
        "export": float(h.export[row]),
    }
    return {name: hours for name, hours in found.items() if hours > 0}


def hours_before_run(candidates: JobCandidates, row: int) -> float:
    """Return the hours until training begins: preparing data on any machine, then the start."""
    h = candidates.hours
    return float(h.start[row]) + float(h.ingest[row]) + separate_ingest_hours(candidates, row)


def spot_plan(candidates: JobCandidates, chosen: ChosenCandidate) -> SpotPlan:
    """Return what the policy of a choice guarantees and expects; hours count from the order of the first machines."""
    spot = chosen.spot
    if spot is None:
        raise ValueError("a choice without a policy")
    h, row, point, run = candidates.hours, chosen.row, spot.point, spot.run
    place = int(candidates.table.offer[row])
    before = float(h.ingest[row]) + separate_ingest_hours(candidates, row)
    storage = float(candidates.columns.storage_usd_per_hour(candidates.table.offer[row], h.stored_gb[row]))
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
        checkpoint_interval_hours=run.interval_hours,
        restart_hours=run.restart_hours,
        last_checkpoint=run.last_checkpoint,
        availability=spot.states.availability(),
        mean_up_hours=spot.states.up.mean(),
        mean_outage_hours=spot.states.down.mean(),
        basis=candidates.spot[place].basis,
    )


def separate_ingest_hours(candidates: JobCandidates, row: int) -> float:
    """Return the hours of preparing data on a separate machine, before the training machines are rented."""
    ingest = candidates.placement_of(row).ingest
    return ingest.hours if ingest else 0.0


def build_commitment_use(candidates: JobCandidates, row: int, market: Market) -> CommitmentUse | None:
    """Return the cost of a commitment, how much of it the job uses, and its break-even point; None without one."""
    table, place = candidates.table, int(candidates.table.offer[row])
    offer, machines = market.offers[place], float(table.instances[row])
    if offer.commitment is None:
        return None
    price = hourly_equivalent_usd(market, offer)
    used = float(candidates.hours.once[row]) * candidates.hours.node_groups + float(candidates.hours.group_run[row])
    committed = offer.committed_usd * machines
    return CommitmentUse(
        months=offer.commitment.months,
        usd=committed,
        used_hours=used * machines / candidates.hours.node_groups,
        term_hours=offer.term_hours * machines,
        on_demand_usd_per_hour=price,
        break_even_hours=find_break_even(market, offer, machines),
        break_even_share=float(required_use_share(committed, price, offer.term_hours * machines)) if price else None,
    )


def find_break_even(market: Market, offer: Offer, machines: float) -> float | None:
    """Return the machine hours of use above which a commitment costs less than equal machines by the hour.

    None without a commitment, and where no offer has equal machines by the hour.
    """
    price = hourly_equivalent_usd(market, offer) if offer.commitment is not None else None
    return float(break_even_hours(offer.committed_usd * machines, price)) if price else None


def describe_break_even(market: Market, offer: Offer, machines: float) -> str:
    """Return the break-even point as text, such as `pays from 365 h of use`; empty where there is none."""
    hours = find_break_even(market, offer, machines)
    if hours is None:
        return ""
    return f"pays from {hours:,.0f} h of use" if hours <= offer.term_hours * machines else "never pays in its term"


def hourly_equivalent_usd(market: Market, offer: Offer) -> float | None:
    """Return the lowest price per hour of as many equal GPUs, at the same provider if it has one."""
    alike = [
        one
        for one in market.offers
        if one.gpu == offer.gpu and one.gpus == offer.gpus and one.tier in ("secure", "community") and one.usd_per_hour
    ]
    here = [one for one in alike if one.provider == offer.provider]
    return min((one.usd_per_hour or 0.0 for one in here or alike), default=None)


def techniques_of(recipe: Recipe, job: Job, micro_batch: int, accumulation: int) -> Techniques:
    """Return a recipe and its batch as a plan states them."""
    adapts = recipe.method == "lora"
    return Techniques(
        **asdict(recipe),
        micro_batch=micro_batch,
        accumulation_steps=accumulation,
        lora_rank=job.lora.rank if adapts else None,
        lora_targets=job.lora.targets if adapts else None,
    )

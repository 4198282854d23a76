"""Managed services as candidates: no machine, no memory, a price per token or per run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.candidate_table import CandidateTable
from planner.candidates.run_hours import evaluated_tokens, export_gb
from planner.candidates.stage_hours import RowHours, node_group_ratios
from planner.candidates.stage_placement import Placement, data_egress_usd_per_gb, data_transfer_seconds, download_rate
from planner.configurations.coefficients import recipe_coefficients
from planner.configurations.recipe import Recipe
from planner.estimates.managed_service import service_tokens_per_second, service_usd
from planner.estimates.time.data_stages import retained_gb_months, upload_seconds
from planner.estimates.trials import trial_work
from planner.estimates.uncertainty import confidence_factor
from planner.units import GB, HOUR

if TYPE_CHECKING:
    from planner.candidates.enumeration import JobCandidates
    from planner.candidates.market import Market
    from planner.library.schema import Library
    from planner.scenario.scenario import Offer

RECIPES = {
    method: Recipe(method, 16, "none", "managed", "none", "none", "managed", "managed") for method in ("lora", "full")
}
"""What a service trains; how it does so, it does not tell."""
SIZING_RECIPES = {
    method: Recipe(method, 16, "none", "bf16_mixed", "none", "none", "flash", "adamw") for method in ("lora", "full")
}
"""Recipes whose result has the size of the service's."""


@dataclass(frozen=True)
class ManagedRows:
    """Rows of services, to be put after those of machines."""

    table: CandidateTable
    placement: np.ndarray[tuple[int], np.dtype[np.int64]]
    hours: RowHours
    placements: tuple[Placement, ...]
    recipes: tuple[Recipe, ...]


@dataclass(frozen=True)
class ServiceRun:
    """One job at one service, all trials of it: hours of training on the wall clock, dollars of it, what moves."""

    tokens_per_second: float  # images, of a network that draws
    assumed_speed: bool
    hours: float
    late_hours: float  # at the confidence, the run in full
    usd: float
    late_usd: float
    late: float
    sigma: float
    sigma_tail: float
    tokens: float  # billed, of all trials
    late_tokens: float  # the runs in full
    upload_hours: float  # the user's data on their way in, once for all trials
    export_hours: float  # the result on its way out, where that is a stage
    data_gb: float
    own_gb: float  # of them what is charged for leaving its place
    result_gb: float
    kept_gb_months: float  # of the result after the run
    moved_usd: float  # what moves and is kept, as far as fees are told


def managed_rows(made: JobCandidates, market: Market, library: Library) -> ManagedRows | None:
    """A row for each service that takes the job's network; None where there is none."""
    places = market.services(made.job.kind, made.architecture.name)
    if not places:
        return None
    job = made.job
    services = [build_service_run(made, market, place, library) for place in places]
    methods = [told.method for place in places if (told := market.offers[place].managed) is not None]
    recipes = tuple(RECIPES[method] for method in dict.fromkeys(methods))
    base = len(made.physics.ways.recipes)
    n = len(places)
    zeros, nans = np.zeros(n), np.full(n, np.nan)
    offer = np.asarray(places, dtype=np.int64)
    providers = {name: index for index, name in enumerate(market.providers)}

    def column(name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.asarray([getattr(one, name) for one in services], dtype=float)

    def on_demand(name: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        return np.stack([column(name), nans], axis=1)

    late = column("late")
    once = column("upload_hours") + column("export_hours")
    uses = np.asarray([RECIPES[method].uses(False) for method in methods], dtype=bool)
    table = CandidateTable(
        jobs=made.table.jobs,
        offers=made.table.offers,
        providers=made.table.providers,
        job=np.full(n, made.table.jobs.index(job.name), dtype=np.int64),
        offer=offer,
        provider=np.asarray([providers[market.offers[p].provider] for p in places], dtype=np.int64),
        recipe=np.asarray([base + recipes.index(RECIPES[method]) for method in methods], dtype=np.int64),
        instances=np.full(n, job.trials.at_once, dtype=np.int64),
        gpus=np.zeros(n, dtype=np.int64),
        node_groups=np.full(n, job.trials.at_once, dtype=np.int64),
        start_h=once,
        late_start_h=once * late,
        run_h=on_demand("hours"),
        late_h=on_demand("late_hours"),
        fixed_usd=column("moved_usd"),
        run_usd=on_demand("usd"),
        late_usd=on_demand("late_usd"),
        share_low=zeros,
        share_high=zeros,
        uses=uses,
        penalty_usd=uses @ job.techniques.penalties_usd,
        fit_gib=zeros,
        usable_gib=zeros,
        rented_h=zeros,
    )
    hours = RowHours(
        start=column("upload_hours"),
        export=column("export_hours"),
        **{name: zeros for name in ("restart", "ingest", "aside", "late_separate")},
        **{name: zeros for name in ("evaluation", "checkpoints", "reload")},
        training=column("hours"),
        waiting=zeros,
        group_run=column("hours"),
        stretch=column("late_hours") / late / column("hours"),
        late=late,
        switch=zeros,
        spot_paid=nans,
        spot_wall=nans,
        late_spot_wall=nans,
        moved_gb=zeros,
        own_gb=zeros,
        raw_gb=zeros,
        node_group_ratios=node_group_ratios(job),
    )
    # Data go to the service as they are, and it evaluates what it trains: nothing is placed elsewhere.
    placed = (*made.placements, Placement())
    return ManagedRows(table, np.full(n, len(placed) - 1), hours, placed, recipes)


def build_service_run(made: JobCandidates, market: Market, place: int, library: Library) -> ServiceRun:
    """What the job takes and costs at the service behind an offer of the market."""
    offer = market.offers[place]
    told = offer.managed
    if told is None:
        raise ValueError(f"{market.labels[place]} is no managed service")
    job, shape = made.job, made.physics.shape
    stages = library.calibrations["stages"]
    assumed = told.tokens_per_second is None
    guess = service_tokens_per_second(shape.network.active_parameters, stages.value("managed_flop_per_second"))
    rate = told.tokens_per_second or guess * shape.units_per_token
    trials = trial_work(job.trials.count, job.trials.at_once, job.trials.halving)
    real = (shape.tokens + evaluated_tokens(job, shape)) * shape.units_per_token
    sigma = stages.value("managed_sigma_assumed" if assumed else "managed_sigma_told")
    late = float(confidence_factor(sigma, job.confidence))
    full = real * trials.wall / rate / HOUR

    def usd(share: float) -> float:
        return service_usd(
            real * trials.work * share,
            job.trials.count,
            told.usd_per_million_tokens or 0.0,
            told.usd_per_run or 0.0,
            told.minimum_usd,
        )

    return ServiceRun(
        tokens_per_second=rate,
        assumed_speed=assumed,
        hours=full * job.early_stopping,
        late_hours=full * late,
        usd=usd(job.early_stopping),
        late_usd=usd(1.0),
        late=late,
        sigma=sigma,
        sigma_tail=sigma,
        tokens=real * trials.work * job.early_stopping,
        late_tokens=real * trials.work,
        **_transfer(made, offer, library),
    )


def _transfer(made: JobCandidates, offer: Offer, library: Library) -> dict[str, float]:
    """What goes to the service and comes back: raw data as they are, once for all trials, and one result."""
    job, stages, fees = made.job, made.job.stages, offer.fees
    pull = download_rate(offer, library)
    data = job.data_gb + (stages.ingest.raw_gb if stages.ingest else 0.0)
    recipe = SIZING_RECIPES[offer.managed.method if offer.managed else "lora"]
    setup = recipe_coefficients(recipe, job, made.physics.shape.network, library)
    result = export_gb(recipe, setup, made.architecture, job)
    kept = float(retained_gb_months(result, stages.retention_hours or 0.0))
    leaving = data_egress_usd_per_gb(job, offer)
    out = pull
    if stages.export is not None and stages.export.gb_per_second is not None:
        out = min(pull, stages.export.gb_per_second * GB)
    usd = data * (leaving + (fees.ingress_usd_per_gb or 0.0)) + result * (fees.egress_usd_per_gb or 0.0)
    return {
        "upload_hours": data_transfer_seconds(data, job, offer, pull) / HOUR,
        "export_hours": float(upload_seconds(result * GB, out)) / HOUR if stages.export is not None else 0.0,
        "data_gb": data,
        "own_gb": data if leaving else 0.0,
        "result_gb": result,
        "kept_gb_months": kept,
        "moved_usd": usd + kept * (fees.network_storage_usd_per_gb_month or 0.0),
    }

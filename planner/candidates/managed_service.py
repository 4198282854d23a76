"""Candidates of managed services: no machine, no memory, a price per token or per run."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.arrays import Floats, Integers
from planner.candidate_table import CandidateTable
from planner.candidates.market import Market, data_egress_usd_per_gb, data_transfer_seconds, download_rate, fee_usd
from planner.candidates.preference import Evidence, offer_steps, tie_steps
from planner.candidates.stage_hours import RowHours, node_group_ratios
from planner.configurations.coefficients import recipe_coefficients
from planner.configurations.grid import JobShape, evaluated_tokens, trained_gb
from planner.configurations.recipe import Recipe
from planner.estimates.billing import service_tokens_per_second, service_usd
from planner.estimates.time.stage_seconds import retained_gb_months, transfer_seconds
from planner.estimates.uncertainty import confidence_factor
from planner.estimates.work import trial_work
from planner.library.schema import Architecture, Library
from planner.records import record
from planner.scenario.job import Job
from planner.scenario.offer import Offer
from planner.units import GB, HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence

RECIPES = {
    method: Recipe(method, 16, "none", "managed", "none", "none", "managed", "managed", framework="managed")
    for method in ("lora", "full")
}
"""What a service trains; it does not state how."""
SIZING_RECIPES = {
    method: Recipe(method, 16, "none", "bf16_mixed", "none", "none", "flash", "adamw") for method in ("lora", "full")
}
"""Recipes whose result has the size of the service's."""


@record(frozen=True)
class ServiceRun:
    """One job at one service, all its trials: hours on the wall clock, dollars, data."""

    method: str
    tokens_per_second: float  # images, for a diffusion model
    assumed_speed: bool
    hours: float  # of training
    late_hours: float  # at the confidence, without early stopping
    usd: float
    late_usd: float
    late: float  # factor on hours at the confidence
    sigma: float
    tokens: float  # billed, of all trials
    late_tokens: float  # without early stopping
    upload_hours: float  # the user's data on their way in, once for all trials
    export_hours: float  # the result on its way out; 0 where the job has no such stage
    data_gb: float
    own_gb: float  # of `data_gb`, what the storage of the user charges for
    result_gb: float
    kept_gb_months: float  # of the result after the run
    moved_usd: float  # what moves and is kept, as far as the fees are known


@record(frozen=True)
class ManagedServiceCandidates:
    """The managed services that take the model of a job: one candidate each, columns (m,)."""

    job: Job
    offer: Integers  # places in the market
    runs: tuple[ServiceRun, ...]

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """Return the recipes of the services, each once."""
        return tuple(RECIPES[method] for method in dict.fromkeys(run.method for run in self.runs))

    def run_at(self, offer: int) -> ServiceRun:
        """Return the run at the service of an offer, given by its place in the market."""
        return self.runs[int(np.flatnonzero(self.offer == offer)[0])]

    def table(self, market: Market, jobs: Sequence[str], first_recipe: int) -> CandidateTable:
        """Return the table of the services; `first_recipe` is the index of the first of `recipes`."""
        job, count, recipes = self.job, len(self.runs), self.recipes
        zeros, no_gpus = np.zeros(count), np.zeros(count, dtype=np.int64)
        once = self._column("upload_hours") + self._column("export_hours")
        uses = np.asarray([RECIPES[run.method].uses(False) for run in self.runs], dtype=bool)
        at_once = np.full(count, job.trials.at_once, dtype=np.int64)
        return CandidateTable(
            **market.identity_columns(jobs, job.name, self.offer),
            recipe=np.asarray([first_recipe + recipes.index(RECIPES[run.method]) for run in self.runs], dtype=np.int64),
            instances=at_once,
            gpus=no_gpus,
            node_groups=at_once,
            start_h=once,
            late_start_h=once * self._column("late"),
            run_h=self._on_demand("hours"),
            late_h=self._on_demand("late_hours"),
            fixed_usd=self._column("moved_usd"),
            run_usd=self._on_demand("usd"),
            late_usd=self._on_demand("late_usd"),
            share_low=zeros,
            share_high=zeros,
            uses=uses,
            penalty_usd=uses @ job.techniques.penalties_usd,
            tie_steps=tie_steps(offer_steps([market.offers[place] for place in self.offer]), no_gpus + Evidence.PRIOR),
            lossiness=np.zeros(count, dtype=np.int64),
            fit_gib=zeros,
            usable_gib=zeros,
            rented_h=zeros,
            term_usd=np.zeros((count, 3)),
        )

    def hours(self) -> RowHours:
        """Return the hours of the services by stage: upload, training, export; there is no spot market."""
        zeros, nans = np.zeros(len(self.runs)), np.full(len(self.runs), np.nan)
        hours, late = self._column("hours"), self._column("late")
        columns: dict[str, Any] = {field.name: zeros for field in fields(RowHours)}
        columns |= dict.fromkeys(("spot_paid", "spot_wall", "late_spot_wall", "budget_spot_wall"), nans)
        columns |= {
            "start": self._column("upload_hours"),
            "export": self._column("export_hours"),
            "training": hours,
            "group_run": hours,
            "stretch": self._column("late_hours") / late / hours,
            "late": late,
            "budget": late,  # a service is not paid by the hour
            "node_group_ratios": node_group_ratios(self.job),
        }
        return RowHours(**columns)

    def _column(self, name: str) -> Floats:
        """Return a field of the runs (m,)."""
        return np.asarray([getattr(run, name) for run in self.runs], dtype=float)

    def _on_demand(self, name: str) -> Floats:
        """Return a field of the runs per market (m, 2): a service has no spot market."""
        column = self._column(name)
        return np.stack([column, np.full_like(column, np.nan)], axis=1)


def find_services(
    job: Job, architecture: Architecture, shape: JobShape, market: Market, library: Library
) -> ManagedServiceCandidates:
    """Return the managed services of the market that take the job's model; none states a price of preference tuning."""
    offers = market.services(job.kind, architecture.name) if job.tuning == "sft" else ()
    runs = [_build_run(job, architecture, shape, market.offers[place], library) for place in offers]
    return ManagedServiceCandidates(job, np.asarray(offers, dtype=np.int64), tuple(runs))


def _build_run(job: Job, architecture: Architecture, shape: JobShape, offer: Offer, library: Library) -> ServiceRun:
    """Return what the job takes and costs at the service of an offer."""
    service = offer.managed
    if service is None:
        raise ValueError(f"{offer.provider} is not a managed service")
    stages = library.calibrations["stages"]
    assumed_speed = service.tokens_per_second is None
    assumed = service_tokens_per_second(shape.network.active_parameters, stages.value("managed_flop_per_second"))
    rate = service.tokens_per_second or assumed * shape.units_per_token
    trials = trial_work(job.trials.count, job.trials.at_once, job.trials.halving)
    tokens = (shape.tokens + evaluated_tokens(job, shape)) * shape.units_per_token
    sigma = stages.value("managed_sigma_assumed" if assumed_speed else "managed_sigma_told")
    late = float(confidence_factor(sigma, job.confidence))
    full_hours = tokens * trials.wall / rate / HOUR
    prices = (service.usd_per_million_tokens or 0.0, service.usd_per_run or 0.0, service.minimum_usd)
    usd, late_usd = (
        service_usd(tokens * trials.work * share, job.trials.count, *prices) for share in (job.early_stopping, 1.0)
    )
    return ServiceRun(
        method=service.method,
        tokens_per_second=rate,
        assumed_speed=assumed_speed,
        hours=full_hours * job.early_stopping,
        late_hours=full_hours * late,
        usd=usd,
        late_usd=late_usd,
        late=late,
        sigma=sigma,
        tokens=tokens * trials.work * job.early_stopping,
        late_tokens=tokens * trials.work,
        **_transfer(job, architecture, shape, offer, service.method, library),
    )


def _transfer(
    job: Job, architecture: Architecture, shape: JobShape, offer: Offer, method: str, library: Library
) -> dict[str, float]:
    """Return hours, GB and dollars of the data that go to the service, raw ones unprepared, and of the result."""
    stages = job.stages
    pull = download_rate(offer, library)
    data = job.data_gb + (stages.ingest.raw_gb if stages.ingest else 0.0)
    recipe = SIZING_RECIPES[method]
    made = trained_gb(recipe, recipe_coefficients(recipe, job, shape.network, library), architecture)
    # A service hands over 16-bit weights where more than adapters are asked for: it quantises nothing.
    result = made if stages.export is None or stages.export.form == "adapters" else architecture.download_gb
    kept = float(retained_gb_months(result, stages.retention_hours or 0.0))
    egress = data_egress_usd_per_gb(job, offer)
    line = pull
    if stages.export is not None and stages.export.gb_per_second is not None:
        line = min(pull, stages.export.gb_per_second * GB)
    usd = data * (egress + fee_usd(offer, "GB in")) + result * fee_usd(offer, "GB out")
    return {
        "upload_hours": data_transfer_seconds(data, job, offer, pull) / HOUR,
        "export_hours": float(transfer_seconds(result * GB, line)) / HOUR if stages.export is not None else 0.0,
        "data_gb": data,
        "own_gb": data if egress else 0.0,
        "result_gb": result,
        "kept_gb_months": kept,
        "moved_usd": usd + kept * fee_usd(offer, "GB kept"),
    }

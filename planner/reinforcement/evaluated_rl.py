"""The figures of one named run of reinforcement learning, one run at a time: every plan is made here, and checked."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.candidates.market import disk_gb, download_rate, market_of_nodes, spot_markets
from planner.configurations.coefficients import DEFAULT_NETWORK_BYTES_PER_SECOND, PCIE_BYTES_PER_SECOND
from planner.documents.validation import Source
from planner.errors import ScenarioError
from planner.estimates.billing import round_up_hours
from planner.estimates.stage_seconds import (
    NodeGroupCoefficients,
    StageCoefficients,
    boot_seconds,
    load_seconds,
    transfer_seconds,
)
from planner.estimates.uncertainty import confidence_factor, tail_of_68_percent, time_factors_of_68_percent
from planner.evaluation.evaluate import bill_line, fee_lines
from planner.library.names import typical_ram_gb
from planner.library.reading import teacher_card
from planner.library.schema import Architecture, GpuSpec, Library
from planner.reinforcement.rl_estimate import (
    KEPT_SHARE,
    MICRO_BATCHES,
    RlSettings,
    RlStep,
    lasting_gib,
    phase_memory,
    step_sigma,
)
from planner.reinforcement.rl_step import (
    RlPhases,
    SpotEngines,
    StaleRollout,
    luck_hours,
    mean_factors,
    measured_factors,
    spot_step,
    spread_before_cut,
)
from planner.results.plan_parts import BillItem, Hours, Spread
from planner.results.subject_runs import Placement, RlPool, RlRun
from planner.scenario.offer import Offer
from planner.scenario.rl_job import RL_FRAMEWORK, TRAINER_DEGREES, Judge, MeasuredRl, RlJob, RlWork
from planner.scenario.scenario import Scenario
from planner.scenario.techniques import WHERE, Configuration
from planner.units import GB, GIB, HOUR, MONTH_HOURS

if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping


USUAL_CHECKPOINTING = "full"
"""Of a trainer where a job does not say it."""
PRIVATE_NETWORK_GBPS = 1.0
"""Gbit/s between hosts of private people, where their offers state none. Prior: a line of a household or an office."""

# What decides every figure of a run, as the search chooses it or as a plan states it.


@dataclass(frozen=True)
class NamedPool:
    """Machines of one offer."""

    offer: str  # label
    instances: int
    on_spot: bool = False


@dataclass(frozen=True)
class NamedRl:
    """Names of a run: pools, division of the GPUs, techniques of the trainer, engine."""

    placement: Placement
    trainer: NamedPool
    rollout: NamedPool | None  # machines of its own
    rollout_gpus: int
    gpus_per_engine: int
    offloads: bool
    overlapped: bool
    method: str
    weight_bits: int
    sharding: str
    activation_checkpointing: str
    optimizer: str
    micro_batch: int
    lora_rank: int
    rollout_weight_bits: int = 16
    engine: str = "vllm"
    reward_gpus: int = 0
    reward_offloads: bool = False
    framework: str = RL_FRAMEWORK
    tensor_parallel: int = 1  # of the trainer, as the degrees below
    pipeline_parallel: int = 1
    context_parallel: int = 1
    expert_parallel: int = 1

    @classmethod
    def of(cls, stated: RlRun) -> NamedRl:
        """Return what a plan names."""
        pools = [NamedPool(pool.offer, pool.instances, pool.market == "spot") for pool in stated.pools]
        own: dict[str, Any] = {"trainer": pools[0], "rollout": pools[1] if len(pools) > 1 else None}
        names = [name for name in cls.__annotations__ if name not in own]
        return cls(**own, **{name: getattr(stated, name) for name in names})


def rl_settings(job: RlJob) -> dict[str, Any]:
    """Return the sampling side of a job in the terms of the estimate."""
    work = job.work
    return {
        "algorithm": job.algorithm,
        "prompts": work.prompts,
        "answers": work.answers,
        "input": work.input_tokens,
        "output": work.mean_output,
        "longest_output": work.cut_at,
        "output_cv": spread_of(work),
        "updates": work.updates,
        "sampled_per_kept": work.sampled_per_kept,
        "reference": job.reference,
        "reward_model": job.reward_model and job.reward_model.model,
        "steps": work.steps,
    }


def spread_of(work: RlWork) -> float:
    """Return the spread of the lengths of answers before they are cut: of a log, which has cut ones, by its lengths."""
    if work.output_cv is not None or not work.lengths or work.cut_at is None:
        return work.spread
    return spread_before_cut(work.mean_output, work.cut_at, work.spread)


@dataclass(frozen=True)
class EvaluatedPool:
    """Machines of one offer with their start, and how their market behaves."""

    named: NamedPool
    offer: Offer
    card: GpuSpec
    start_hours: float
    availability: float
    mean_up_hours: float
    luck_hours: float  # as `luck_hours` of the formulas

    @property
    def price(self) -> float:
        """Dollars per hour of one machine."""
        usd = self.offer.spot_usd_per_hour if self.named.on_spot else self.offer.usd_per_hour
        if usd is None:
            raise ValueError(f"{self.named.offer} is not sold so")
        return usd

    @property
    def billed_machines(self) -> float:
        """Machines that are paid on average: on spot while they are there."""
        return self.named.instances * self.availability

    def report(self, role: Any) -> RlPool:
        """Return what a plan says of it."""
        offer = self.offer
        return RlPool(
            role=role,
            provider=offer.provider,
            region=offer.region,
            instance=offer.instance,
            offer=self.named.offer,
            market="spot" if self.named.on_spot else "on demand",
            tier=offer.tier,
            gpu=self.card.name,
            gpus_per_instance=offer.gpus,
            instances=self.named.instances,
            usd_per_hour=self.price * self.named.instances,
            start_hours=self.start_hours,
            availability=self.availability,
        )


def trainer_data_gb(job: RlJob) -> float:
    """Return the GB that a machine of the trainer gets next to the policy: data, and the weights of a reward model."""
    reward = job.reward_model
    return job.data_gb + (0.0 if reward is None else teacher_card(reward.model).release_gb)


def start_hours_of(
    job: RlJob, architecture: Architecture, offer: Offer, card: GpuSpec, library: Library, trains: bool
) -> float:
    """Return the hours from the order of a machine to a loaded model: boot, image, weights and data, engine compiled.

    16 GB of weights at 0.25 GB/s take 64 s, the compilation of an engine two minutes.
    """
    stages = StageCoefficients.of(library.calibrations["stages"].values)
    pull, size = download_rate(offer, library), architecture.release_gb * GB
    disk = job.storage_gb_per_second * GB / stages.disk_efficiency * job.load_efficiency
    loaded = load_seconds(size, offer.gpus, disk, PCIE_BYTES_PER_SECOND[card.pcie_gen], stages, 0, 1)
    moved = transfer_seconds(size + (trainer_data_gb(job) if trains else job.data_gb) * GB, pull)
    return float(boot_seconds(pull, stages) + moved + loaded) / HOUR


def same_place(first: Offer, other: Offer) -> bool:
    """Return whether machines of two offers stand at one provider in one region, so that nothing leaves it."""
    return (first.provider, first.regions) == (other.provider, other.regions)


def bytes_per_second_between(trainer: Offer, rollout: Offer, library: Library) -> float:
    """Return the bytes per second from the trainer to the engines: the network of a region, else the way outside."""
    if not same_place(trainer, rollout):
        return min(download_rate(trainer, library), download_rate(rollout, library))
    known = min(network_rate(trainer), network_rate(rollout))
    return DEFAULT_NETWORK_BYTES_PER_SECOND if math.isinf(known) else known


def network_rate(offer: Offer) -> float:
    """Return the bytes per second within a region: as the offer states, of private hosts a prior, else infinity."""
    gbps = offer.network_gbps or (PRIVATE_NETWORK_GBPS if offer.community else math.inf)
    return gbps * GB / 8.0


def states_network(trainer: Offer, rollout: Offer) -> bool:
    """Return whether both offers state the network that new weights cross."""
    within = same_place(trainer, rollout)
    return all(offer.network_gbps if within else offer.download_gb_per_second for offer in (trainer, rollout))


# One run: its step, its memory, its hours, its bill.


@dataclass(frozen=True)
class EvaluatedRl:
    """A named run with everything behind its names."""

    named: NamedRl
    job: RlJob
    scenario: Scenario
    architecture: Architecture
    library: Library
    offers: Mapping[str, Offer]
    factors_of_job: RlPhases | None = None  # of its observed runs, where other work of the same job is asked for

    @cached_property
    def factors(self) -> RlPhases:
        """Factors of the phases by the observed runs of the job."""
        if self.factors_of_job is not None:
            return self.factors_of_job
        return learned_factors(self.job, self.architecture, self.library)

    def _pool(self, named: NamedPool, trains: bool) -> EvaluatedPool:
        offer = self.offers[named.offer]
        card = self.library.gpu(offer.card)
        start = start_hours_of(self.job, self.architecture, offer, card, self.library, trains)
        availability, up, luck = 1.0, math.inf, 0.0
        if named.on_spot:
            (spot,) = spot_markets([offer], self.library)
            coefficients = NodeGroupCoefficients.of(self.library.calibrations["stages"].values)
            states = market_of_nodes(offer, spot, 1, coefficients, self.library)
            availability, up, luck = float(states.availability()), spot.mean_up_hours, luck_hours(states, start)
        return EvaluatedPool(named, offer, card, start, availability, up, luck)

    @cached_property
    def trainer(self) -> EvaluatedPool:
        """The machines that train."""
        return self._pool(self.named.trainer, trains=True)

    @cached_property
    def rollout(self) -> EvaluatedPool | None:
        """The machines that sample alone."""
        return None if self.named.rollout is None else self._pool(self.named.rollout, trains=False)

    @property
    def engines_pool(self) -> EvaluatedPool:
        """The machines with engines."""
        return self.rollout or self.trainer

    @cached_property
    def training_gpus(self) -> int:
        """GPUs that train."""
        named = self.named
        whole = self.trainer.offer.gpus * named.trainer.instances - named.reward_gpus
        return whole - named.rollout_gpus if named.placement == "one machine" else whole

    @property
    def training_machines(self) -> int:
        """Machines that train: of the trainer's those that a reward model does not have for itself."""
        return self.named.trainer.instances - self.named.reward_gpus // self.trainer.offer.gpus

    def _step(self, share: float) -> RlStep:
        named, trainer, engines = self.named, self.trainer, self.engines_pool
        apart = named.placement != "colocated"
        settings = rl_settings(self.job) | {"rollout_parallel": named.gpus_per_engine, "overlap": named.overlapped}
        settings |= {"rollout_weight_bits": named.rollout_weight_bits, "reward_gpus": named.reward_gpus or None}
        settings |= {"reward_offload": named.reward_offloads, "rollout_engine": named.engine}
        settings |= {"rollout_gpus": named.rollout_gpus, "rollout_gpu": engines.card.name} if apart else {}
        techniques = named.framework, named.method, named.weight_bits, named.activation_checkpointing
        of_trainer = trainer_settings(self.job, *techniques) | {name: getattr(named, name) for name in TRAINER_DEGREES}
        of_trainer |= {
            "optimizer": named.optimizer,
            "lora_rank": named.lora_rank,
            "sharding": named.sharding,
            "micro_batch": named.micro_batch,
            "gpus": self.training_gpus,
            "vram_headroom": self.scenario.limits.vram_headroom,
            **machine_settings(trainer.offer, self.training_machines),
        }
        names = {"architecture": self.architecture.name, "gpu": trainer.card.name}
        asked = Source(WHERE).validate(RlSettings, settings)
        configuration = Source(WHERE).validate(Configuration, names | of_trainer)
        network = bytes_per_second_between(trainer.offer, engines.offer, self.library)
        own = {key: value for key, value in of_trainer.items() if key not in ("micro_batch", "gpus")}
        return RlStep(
            asked, configuration, own, self.architecture, trainer.card, engines.card, self.library,
            engines_link=engine_link(engines.offer), engine_share=share, between=network,
            shares_machine=named.placement == "one machine", factors=self.factors,
        )  # fmt: skip

    @cached_property
    def kept_gib(self) -> float:
        """GiB of one GPU that the states of the trainer keep while its engines sample."""
        if self.named.placement != "colocated" or self.named.offloads:
            return 0.0
        return self._states_gib(self._step(KEPT_SHARE))

    @staticmethod
    def _states_gib(step: RlStep) -> float:
        """Return GiB of one GPU that stay from step to step: a reward model that lies in host memory does not."""
        parts = step.training_memory(step.largest).parts
        copies = lasting_gib(step.largest) * (2.0 if step.criticises else 1.0)
        return copies + parts.get("reference", 0.0) + parts.get("reward model", 0.0)

    @cached_property
    def step(self) -> RlStep:
        """The step, in the terms of its estimate."""
        return self._step(engine_share(self.kept_gib, self.trainer.card))

    @cached_property
    def fits(self) -> bool:
        """Whether both phases fit, and what leaves the GPUs in between has room in the host."""
        held = self.host_gb <= host_room_gb(self.trainer.offer, self.trainer.card)
        return held and all(phase.fits for phase in phase_memory(self.step))

    @property
    def _longest_tokens(self) -> float:
        """Tokens of a prompt with the longest answer."""
        return self.step.asked.input + self.step.longest

    def changed(self, **work: Any) -> EvaluatedRl | None:
        """Return other work on the same machines at its fastest micro-batch; None where none of them fits.

        Longer answers get no more tokens on a GPU at a time than the search tries with those of the job.
        """
        job = self.job.model_copy(update={"work": self.job.work.model_copy(update=work)})
        variants = list[EvaluatedRl]()
        for micro_batch in MICRO_BATCHES:
            named = replace(self.named, micro_batch=micro_batch)
            other = replace(self, job=job, named=named, factors_of_job=self.factors)
            most = max(MICRO_BATCHES[-1] * self._longest_tokens, other._longest_tokens)
            try:
                variants += [other] if micro_batch * other._longest_tokens <= most and other.fits else []
            except ScenarioError:  # no engine holds the longest answer
                continue
        return min(variants, key=lambda other: other.step_seconds, default=None)

    @cached_property
    def host_gb(self) -> float:
        """GB in the host memory of a machine while its engines sample."""
        leaves = self.named.placement == "colocated" and self.named.offloads
        held = self._states_gib(self.step) if leaves else 0.0
        held += self.step.reward_shard_gib(self.step.largest) if self.named.reward_offloads else 0.0
        return held * GIB / GB * min(self.trainer.offer.gpus, self.training_gpus)

    def sampling_seconds(self, step: RlStep) -> float:
        """Return the seconds of a rollout with engines that are always there."""
        seconds = step.phases.rollout
        if self.named.overlapped and self.job.staleness > 1:
            seconds = min(seconds, stale_seconds(step, self.job.staleness))
        return seconds

    def _on_spot(self, step: RlStep) -> tuple[float, float]:
        """Return the seconds of a step with engines on spot, and the variance that their luck gives it, times hours."""
        pool, phases = self.engines_pool, step.phases
        states = pool.named.instances, pool.availability, pool.mean_up_hours, pool.start_hours, pool.luck_hours
        sampling, rest = self.sampling_seconds(step), phases.new_weights + phases.fixed
        scored = phases.own_reward
        both = spot_step(sampling, phases.trainer, rest, self.named.overlapped, SpotEngines(*states), scored)
        return float(both[0][0]), float(both[1][0])

    def phases_of(self, step: RlStep) -> RlPhases:
        """Return the seconds of the phases; the rollout has what engines on spot are waited for."""
        seconds, phases = self.sampling_seconds(step), step.phases
        if self.engines_pool.named.on_spot:
            others = phases.new_weights + phases.fixed + (0.0 if self.named.overlapped else phases.trainer)
            others += phases.own_reward
            seconds = self._on_spot(step)[0] - others
        return replace(phases, rollout=float(seconds))

    @cached_property
    def phases(self) -> RlPhases:
        """Seconds of the phases of one step."""
        return self.phases_of(self.step)

    @cached_property
    def step_seconds(self) -> float:
        """Seconds from one step to the next."""
        return self.phases.step_seconds(self.named.overlapped)

    @property
    def run_hours(self) -> float:
        """Expected hours of all steps, with what the luck of spot adds: a run may meet a market that is out."""
        return self.job.work.steps * self.step_seconds / HOUR + self.luck_hours / 2.0

    @cached_property
    def luck_hours(self) -> float:
        """Variance of ln(hours) that engines on spot give the run, times its hours."""
        return self._on_spot(self.step)[1] if self.engines_pool.named.on_spot else 0.0

    @property
    def start_hours(self) -> float:
        """Hours until all machines have started."""
        return max(pool.start_hours for pool in self.pools)

    @property
    def pools(self) -> tuple[EvaluatedPool, ...]:
        """The machines by offer, those of the trainer first."""
        return (self.trainer, self.rollout) if self.rollout else (self.trainer,)

    @cached_property
    def sigma(self) -> float:
        """Standard deviation of ln(hours)."""
        return math.sqrt(step_sigma(self.step) ** 2 + self.luck_hours / self.run_hours)

    def late(self, confidence: float) -> float:
        """Return the factor on the hours that is kept with a probability."""
        return float(confidence_factor(tail_of_68_percent(self.sigma), confidence))

    @property
    def late_hours(self) -> float:
        """Hours at the confidence of the job, start included."""
        return (self.start_hours + self.run_hours) * self.late(self.job.confidence)

    def bill(self, factor: float = 1.0, run_hours: float | None = None) -> tuple[BillItem, ...]:
        """Return every line of the bill with all hours times a factor."""
        run = (self.run_hours if run_hours is None else run_hours) * factor
        lines: list[BillItem] = []
        for index, pool in enumerate(self.pools):
            suffix = ", rollout" if index else ""
            own = [*_machine_lines(pool, run, pool.start_hours * factor), *self._fees(pool, run, factor, index > 0)]
            lines += [line.model_copy(update={"item": line.item + suffix}) for line in own]
        return tuple(line for line in [*lines, *self._between(), *self._judged()] if line.quantity)

    def _fees(self, pool: EvaluatedPool, run: float, factor: float, is_rollout: bool) -> list[BillItem]:
        """Return addresses, disks, and what enters and leaves the machines of a pool."""
        offer, machines, hours = pool.offer, pool.named.instances, run + pool.start_hours * factor
        data = 0.0 if is_rollout else trainer_data_gb(self.job)
        disk = disk_gb(self.architecture.download_gb, data) * machines * hours / MONTH_HOURS
        moved = (self.architecture.release_gb + data) * machines
        sent = 0.0 if is_rollout else self.result_gb
        return [
            *fee_lines(offer, {"machine hours": pool.billed_machines * hours}),
            *fee_lines(offer, {"GB on disk": disk, "GB in": moved, "GB out": sent}),
        ]

    @property
    def result_gb(self) -> float:
        """GB of what is trained: all weights, or the adapters in 16 bits."""
        if self.named.method == "full":
            return self.architecture.download_gb
        return 2.0 * self.step.speed.trainable_parameters / GB

    def _between(self) -> list[BillItem]:
        """Return what leaves the trainer's region for engines elsewhere: all weights once a step."""
        if self.rollout is None or same_place(self.trainer.offer, self.rollout.offer):
            return []
        gb = self.step.weight_bytes / GB * self.job.work.steps
        out = fee_lines(self.trainer.offer, {"GB out": gb})
        into = fee_lines(self.rollout.offer, {"GB in": gb})
        return [line.model_copy(update={"item": f"new weights, {line.item}"}) for line in (*out, *into)]

    def _judged(self) -> list[BillItem]:
        """Return what a judge by API takes."""
        if not isinstance(self.job.reward, Judge):
            return []
        answers = self.step.sampled * self.job.work.steps
        usd = self.job.reward.usd(answers, self.step.mean_tokens)
        return [bill_line("judge by API", answers, "answers", usd / answers)]

    def usd(self, factor: float = 1.0, run_hours: float | None = None) -> float:
        """Return the dollars with all hours times a factor."""
        return math.fsum(line.usd for line in self.bill(factor, run_hours))


def stale_seconds(step: RlStep, staleness: int) -> float:
    """Return the seconds of the rollout of a step where answers may be several steps behind the policy."""
    setup, asked = step.engine.setup, step.asked
    stale = StaleRollout(asked.input, asked.answers, step.sampled, staleness)
    inputs = (setup.model, setup.hardware, setup.stack)
    seconds = stale.seconds(inputs, step.lengths, float(setup.seats), step.engine.engines)
    return float(np.ravel(seconds)[0]) * step.factors.rollout


# Observed runs of a job: what they were predicted to take, and the factors that follow.


def learned_factors(job: RlJob, architecture: Architecture, library: Library) -> RlPhases:
    """Return the factors of the phases of all ways to run a job, by its observed runs: 1 where nothing was measured."""
    return mean_factors([run_factors(job, run, architecture, library) for run in job.measured])


def run_factors(job: RlJob, run: MeasuredRl, architecture: Architecture, library: Library) -> RlPhases:
    """Return the factors of the phases by one observed run."""
    predicted = predicted_phases(job, run, architecture, library)
    return measured_factors(predicted, run.step_seconds, run.phase_seconds, run.overlapped)


def predicted_phases(job: RlJob, run: MeasuredRl, architecture: Architecture, library: Library) -> RlPhases:
    """Return the estimate of an observed run; what it does not state is that of the job.

    Raises `ScenarioError` where the estimate cannot run what was run.
    """
    work = {"prompts": "prompts", "answers": "answers", "input_tokens": "input", "output_tokens": "output"}
    work |= {name: name for name in ("longest_output", "output_cv", "updates", "rollout_gpus", "rollout_gpu")}
    given = {key: value for name, key in work.items() if (value := getattr(run, name)) is not None}
    settings = {**rl_settings(job), **given, "rollout_parallel": run.tensor_parallel, "overlap": run.overlapped}
    settings |= {"rollout_weight_bits": run.rollout_weight_bits or job.rollout.weight_bits[0]}
    settings |= {"rollout_engine": job.rollout.engine[0]}
    asked = job.techniques
    method = run.method or asked.method[0]
    bits = run.weight_bits or ((asked.weight_bits or (16,))[0] if method != "full" else 16)
    checkpointing = run.activation_checkpointing or (asked.activation_checkpointing or (USUAL_CHECKPOINTING,))[0]
    own = trainer_settings(job, run.framework or job.framework[0], method, bits, checkpointing) | {"gpus": run.gpus}
    own |= {"lora_rank": run.lora_rank or job.lora.rank[0], **run.degrees}
    of_job = {name: (getattr(asked, name) or (None,))[0] for name in ("sharding", "optimizer")}
    of_job |= {"sharding": None} if run.gpus == 1 else {}
    of_run = {
        name: getattr(run, name) for name in (*of_job, "micro_batch", "instances", "interconnect", "network_gbps")
    }
    for several in (of_job, of_run):
        own |= {name: value for name, value in several.items() if value is not None}
    names = {"architecture": architecture.name, "gpu": run.gpu}
    configuration = Source(WHERE).validate(Configuration, names | own)
    card, engines = library.gpu(run.gpu), library.gpu(run.rollout_gpu or run.gpu)
    given_to_trainer = {key: value for key, value in own.items() if key not in ("micro_batch", "gpus")}
    step = RlStep(
        Source(WHERE).validate(RlSettings, settings), configuration, given_to_trainer, architecture, card, engines,
        library, engines_link=run.interconnect, shares_machine=run.shares_machine,
        between=None if run.weights_gbps is None else run.weights_gbps * GB / 8.0,
    )  # fmt: skip
    phases = step.phases
    if run.overlapped and job.staleness > 1:
        phases = replace(phases, rollout=min(phases.rollout, stale_seconds(step, job.staleness)))
    return phases


def trainer_settings(job: RlJob, framework: str, method: str, bits: int, checkpointing: str) -> dict[str, Any]:
    """Return the trainer of a job in the terms of the estimate, without machines."""
    lora = job.lora
    adapters = {"lora_targets": lora.targets, "dora": lora.dora, "adapt_head": lora.adapt_head}
    settings = {
        "framework": framework,
        "method": method,
        "weight_bits": bits,
        "activation_checkpointing": checkpointing,
    }
    return settings | (adapters if method != "full" else {})


def machine_settings(offer: Offer, instances: int) -> dict[str, Any]:
    """Return machines of an offer in the terms of the estimate."""
    link = (offer.interconnect or "pcie") if offer.gpus > 1 else "pcie"
    network = offer.network_gbps if instances > 1 else None
    return {"instances": instances, "interconnect": link, "network_gbps": network, "ram_gb": offer.ram_gb}


def engine_link(offer: Offer) -> str | None:
    """Return the link between the GPUs of an engine."""
    return (offer.interconnect or "pcie") if offer.gpus > 1 else None


def host_room_gb(offer: Offer, card: GpuSpec) -> float:
    """Return the GB of host memory of one machine: as the offer states it, else the typical one of its class."""
    return offer.ram_gb or typical_ram_gb(card.vram_gib * offer.gpus, offer.is_private_host)


def engine_share(kept_gib: float, card: GpuSpec) -> float:
    """Return the share of a GPU's memory for the engine, next to what the trainer keeps there."""
    return max(KEPT_SHARE - kept_gib / card.usable_gib, 0.01)


def _machine_lines(pool: EvaluatedPool, run: float, start: float) -> list[BillItem]:
    """Return the hours of machines: running, starting, and what the billing rounds up."""
    name = "gpu spot" if pool.named.on_spot else "own machine" if pool.offer.own is not None else "gpu on demand"
    machines, price, billing = pool.billed_machines, pool.price, pool.offer.billing
    hours = start + run
    rounded = float(round_up_hours(hours, billing.step_seconds / HOUR, billing.minimum_hours)) - hours
    lines = [bill_line(name, run * machines, "h", price), bill_line("start and load", start * machines, "h", price)]
    return [*lines, *([bill_line("rounded up", rounded * machines, "h", price)] if rounded > 1e-6 else [])]


# What a plan says of a run.


def report_rl(made: EvaluatedRl, as_of: datetime.date) -> RlRun:
    """Return the figures of a run; ways, changes, notes and the bound are those of the search."""
    named, step, phases, limits = made.named, made.step, made.phases, made.scenario.limits
    low, high = (float(factor) for factor in time_factors_of_68_percent(made.sigma))
    hours, late = made.start_hours + made.run_hours, made.late(made.job.confidence)
    bill, usd = made.bill(), made.usd()
    idle, share = phases.idle(named.overlapped, named.placement != "colocated")
    roles = ("training", "rollout") if made.rollout else ("training and rollout",)
    offers = [pool.offer for pool in made.pools]
    return RlRun(
        name=made.job.name,
        architecture=made.architecture.name,
        algorithm=made.job.algorithm,
        **{key: getattr(named, key) for key in _NAMES},
        reward_model=step.asked.reward_model or "",
        training_gpus=made.training_gpus,
        staleness=made.job.staleness if named.overlapped else 0,
        engine=step.engine.setup.served.name,
        engines=step.engine.engines,
        seats=step.engine.setup.seats,
        pools=tuple(pool.report(role) for pool, role in zip(made.pools, roles, strict=True)),
        sequences=step.sequences,
        sampled=round(step.sampled),
        input_tokens=step.asked.input,
        output_tokens=step.asked.output,
        longest_output=step.longest,
        steps=made.job.work.steps,
        steps_before=made.job.work.steps_before,
        step_seconds=made.step_seconds,
        phases=phases.by_name,
        tail_seconds=step.engine.rollout.tail_seconds,
        tail_ended_share=step.engine.rollout.tail_share,
        idle=idle,
        idle_share=share,
        memory=phase_memory(step),
        host_gb=made.host_gb,
        hours=Hours(expected=hours, low=hours * low, high=hours * high, at_confidence=hours * late),
        deadline_hours=made.job.deadline_hours,
        cost=Spread(expected=usd, low=made.usd(low), high=made.usd(high)),
        cost_usd=usd,
        cost_at_confidence=made.usd(made.late(limits.budget_confidence)),
        usd_per_100_steps=100.0 * usd / made.job.work.steps,
        bill=bill,
        bound_usd=usd,
        price_date=max(offer.date_text for offer in offers),
        price_age_days=max(((as_of - offer.first_date).days for offer in offers if offer.first_date), default=None),
        price_source="; ".join(dict.fromkeys(offer.source for offer in offers if offer.source)),
        sigma=made.sigma,
    )


def changes_of(made: EvaluatedRl, start_at_hours: float = 0.0) -> dict[str, float | None]:
    """Return dollars of 100 steps on the same machines with one thing of the work changed; None: it does not fit.

    What then ends after the deadline of a run that starts at `start_at_hours` says so.
    """
    work, longest, changes = made.job.work, made.step.longest, dict[str, float | None]()

    def add(name: str, **changed: Any) -> None:
        other = made.changed(**changed)
        late = other is not None and start_at_hours + other.late_hours > (made.job.planned_deadline_hours or math.inf)
        changes[name + ", after the deadline" * late] = None if other is None else 100.0 * other.usd() / work.steps

    add("twice the answers to each prompt", answers=2 * work.answers)
    longer = min(2 * longest, int(made.architecture.max_sequence - work.input_tokens))
    if longer > longest:
        add(f"answers up to {longer:,} tokens, of the same mean", longest_output=longer)
    add("answers of twice the spread in length", output_cv=min(2.0 * spread_of(work), 5.0))
    return changes


_NAMES = (
    *("placement", "rollout_gpus", "gpus_per_engine", "offloads", "overlapped", "method", "weight_bits"),
    *("rollout_weight_bits", "sharding", "activation_checkpointing", "optimizer", "micro_batch", "lora_rank"),
    *("reward_gpus", "reward_offloads"),
    *("framework", *TRAINER_DEGREES),
)
"""Names of a run that a plan states as they are."""


def evaluate_rl(
    named: NamedRl, job: RlJob, scenario: Scenario, offers: Mapping[str, Offer], library: Library
) -> EvaluatedRl:
    """Return a named run with everything behind its names.

    Raises `ScenarioError`, `KeyError` or `ValueError` for names that lead nowhere, and for what cannot run.
    """
    return EvaluatedRl(named, job, scenario, library.architecture(job.architecture), library, offers)

"""A job of kind rl: the least of all ways against brute force, against simple rules, its check, its faults."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import planner
from planner.cli import main
from planner.documents.files import data_folder
from planner.errors import ScenarioError
from planner.evaluation.comparison import Tolerance
from planner.library.reading import read_library
from planner.reinforcement.audited_rl import audit_rl
from planner.reinforcement.evaluated_rl import EvaluatedRl, NamedPool, NamedRl, changes_of, evaluate_rl, report_rl
from planner.reinforcement.rl_choice import MEGATRON_NOTE, evaluated_way, network_risk
from planner.reinforcement.rl_estimate import FP8_CAUTION, MICRO_BATCHES, SGLANG_CAUTION
from planner.reinforcement.rl_sides import ENGINE_TOO_LARGE, EngineKey, RlQuantities, find_engines
from planner.reinforcement.rl_text import risk_lines
from planner.reinforcement.rl_ways import search_rl
from planner.results.subject_runs import RlRun
from planner.scenario.rl_job import RlJob
from planner.scenario.scenario import rl_job_of
from planner.solving.solve import solve
from tests.helpers.costs import OPTIONS, plan_of
from tests.helpers.frozen_data import frozen_scenarios

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from planner.scenario.scenario import Scenario

LIBRARY = read_library(["qwen2.5-1.5b", "qwen2.5-7b"])
FILES = sorted((data_folder("scenarios") / "reinforcement").glob("*.yaml"))
OFFERS: list[dict[str, Any]] = [
    {
        **{"provider": "one", "region": "eu", "gpu": "H100-80GB", "gpus": 2, "usd_per_hour": 5.0},
        **{"interconnect": "nvlink", "ram_gb": 400, "fees": {"egress_usd_per_gb": 0.09}},
    },
    {
        **{"provider": "two", "region": "us", "gpu": "L40S", "gpus": 2, "usd_per_hour": 1.6, "ram_gb": 400},
        **{"spot_usd_per_hour": 0.7, "fees": {"storage_usd_per_gb_month": 0.1}},
        "billing": {"step_seconds": 3600},
    },
]


def scenario(limits: dict[str, Any] | None = None, offers: Any = None, **job: Any) -> Scenario:
    """Return a small job on two offers, with some of it changed."""
    work = {"steps": 300, "prompts": 32, "answers": 8, "input_tokens": 300, "output_tokens": 600}
    own = {
        **{"name": "math", "kind": "rl", "architecture": "qwen2.5-1.5b", "staleness": 1},
        "techniques": {"sharding": ["zero3"]},
        "rollout": {"tensor_parallel": [1, 2]},
        **job,
        "work": {**work, **job.get("work", {})},
    }
    data = {"schema": 2, "name": "small", "jobs": [own], "offers": offers or OFFERS, "limits": limits or {}}
    return planner.build_scenario(data)


def solved(one: Scenario) -> planner.Plan:
    """Return the plan of a scenario, by the library of these tests."""
    return planner.solve(one, library=LIBRARY)


def run_of(plan: planner.Plan) -> RlRun:
    """Return the only run of a plan."""
    assert plan.status == "optimal", plan.infeasible
    (run,) = plan.reinforcement
    return run


def every_way(one: Scenario) -> Iterator[NamedRl]:
    """Yield every way of the small scenario on at most two machines, whether it keeps the limits or not."""
    labels = [label for label, _ in one.labelled_offers()]
    spots = {label: [False, True] if offer.has_spot else [False] for label, offer in one.labelled_offers()}
    (job,) = one.jobs
    assert isinstance(job, RlJob)
    engines = itertools.product(job.rollout.weight_bits, job.rollout.engine)
    for micro, trainer, (bits, engine) in itertools.product(MICRO_BATCHES, labels, [*engines]):
        own = {"offloads": False, "method": "full", "weight_bits": 16, "activation_checkpointing": "full"}
        own |= {"rollout_weight_bits": bits, "engine": engine}
        own |= {"optimizer": "adamw", "micro_batch": micro, "lora_rank": 16, "trainer": NamedPool(trainer, 1)}
        for count in (1, 2):
            given = {**own, "rollout": None, "gpus_per_engine": count, "sharding": "zero3", "overlapped": False}
            yield NamedRl(**given | {"placement": "colocated", "rollout_gpus": 2, "offloads": True})
            for other in labels:
                for spot in spots[other]:
                    pool = {"rollout": NamedPool(other, 1, spot), "rollout_gpus": 2, "overlapped": True}
                    yield NamedRl(**given | pool | {"placement": "apart"})
        given = {**own, "rollout": None, "gpus_per_engine": 1, "sharding": "none", "overlapped": True}
        yield NamedRl(**given | {"placement": "one machine", "rollout_gpus": 1})


@pytest.mark.long
@pytest.mark.parametrize("limits", [{"max_gpus": 4}, {"max_gpus": 2}, {"max_gpus": 4, "spot": False}])
def test_the_plan_is_the_least_of_all_ways_evaluated_one_by_one(limits: dict[str, Any]) -> None:
    """Brute force: every way on at most two machines, each by the evaluation, those that break a limit left out."""
    is_least_of_all(scenario(limits, deadline="60h"))


@pytest.mark.slow
@pytest.mark.parametrize(("gpus", "bits"), [(("H100-80GB", "A100-80GB"), 8), (("A100-80GB",), 16)])
def test_fp8_engines_are_chosen_where_they_are_least_and_the_gpu_has_fp8(gpus: tuple[str, ...], bits: int) -> None:
    """Brute force over both bits; an A100 has no kernels for fp8, which a plan that is edited so breaks."""
    offers = [{**OFFERS[0], "gpu": gpu, "provider": gpu.lower()} for gpu in gpus]
    rollout = {"tensor_parallel": [1], "weight_bits": [16, 8]}
    one = scenario({"max_gpus": 2}, offers, deadline="60h", rollout=rollout)
    plan = is_least_of_all(one)
    run = run_of(plan)
    assert run.rollout_weight_bits == bits and (FP8_CAUTION in run.notes) == (bits == 8)
    answer = planner.what_if(one, ["jobs.0.rollout.weight_bits=16"], library=LIBRARY)
    usual = run_of(answer.after)
    assert ("overlapped, fp8 " in str(answer)) == ("with fp8 weights" in str(plan)) == (bits == 8)
    assert "rollout_weight_bits" not in usual.model_dump() and usual.cost_usd >= run.cost_usd
    assert not planner.check(plan, one)
    edited = run.model_copy(update={"rollout_weight_bits": 24 - bits})
    assert planner.check(plan.model_copy(update={"reinforcement": (edited,)}), one)
    other = planner.change_scenario(one, [f"jobs.0.rollout.weight_bits={24 - bits}"])
    assert "rollout_weight_bits" in {violation.what for violation in audit_rl(plan, other, LIBRARY, Tolerance())}


@pytest.mark.slow
def test_the_engine_is_chosen_among_those_that_are_allowed() -> None:
    """Brute force over engines; the other one is priced, an edited one is found, and SGLang's has its note."""
    rollout = {"tensor_parallel": [1], "placement": "colocated"}
    one = scenario({"max_gpus": 2}, OFFERS[:1], staleness=0, rollout={**rollout, "engine": ["vllm", "sglang"]})
    ways = (named for named in every_way(one) if named.placement == "colocated" and named.gpus_per_engine == 1)
    plan = is_least_of_all(one, ways)
    run = run_of(plan)
    assert (SGLANG_CAUTION in run.notes) == (run.engine == "sglang")
    assert not planner.check(plan, one)
    other = "vllm" if run.engine == "sglang" else "sglang"
    edited = run.model_copy(update={"engine": other})
    assert planner.check(plan.model_copy(update={"reinforcement": (edited,)}), one)
    usual = scenario({"max_gpus": 2}, OFFERS[:1], staleness=0, rollout=rollout)
    assert run_of(solved(usual)).cost_usd >= run.cost_usd
    found = planner.explain(usual, "engine=sglang", library=LIBRARY).why_not
    assert found is not None and [change.limit for change in found.relax] == ["jobs.math.rollout.engine"]


def test_an_engine_fits_with_fp8_weights_where_16_bits_are_too_large() -> None:
    """15.2 GB of a 7B and 8 GiB that the trainer keeps are more than 90 % of an L4; of an A100 no engine has fp8."""
    (job,) = scenario(architecture="qwen2.5-7b").jobs
    assert isinstance(job, RlJob)
    one = RlQuantities.of(job, LIBRARY.architecture("qwen2.5-7b"), LIBRARY)
    keys = [EngineKey("L4", "", 1, 8.0, 16), EngineKey("L4", "", 1, 8.0, 8), EngineKey("A100-80GB", "", 1, 0.0, 8)]
    engines, rejected = find_engines(one, keys, LIBRARY)
    assert engines.keys == (keys[1],)
    assert set(rejected) == {ENGINE_TOO_LARGE, "A100-80GB has no kernels for fp8"}


def divided_ways(one: Scenario) -> Iterator[NamedRl]:
    """Yield every way on one machine of four GPUs that trains and samples in turn: each trainer, each layout."""
    (label,) = (label for label, _ in one.labelled_offers())
    shared = {"placement": "colocated", "rollout": None, "trainer": NamedPool(label, 1), "rollout_gpus": 4}
    shared |= {"offloads": True, "overlapped": False, "method": "full", "weight_bits": 16, "lora_rank": 16}
    shared |= {"activation_checkpointing": "full", "optimizer": "adamw"}
    degrees = [(tensor, pipeline) for tensor in (1, 2, 4) for pipeline in (1, 2, 4) if tensor * pipeline <= 4]
    layouts = [("fsdp", "zero3", 1, 1), *(("megatron", "zero1", *each) for each in degrees)]
    for (framework, sharding, tensor, pipeline), micro in itertools.product(layouts, MICRO_BATCHES):
        own = {"framework": framework, "sharding": sharding, "tensor_parallel": tensor, "pipeline_parallel": pipeline}
        yield NamedRl(**shared, **own, micro_batch=micro, gpus_per_engine=2)


LONG: dict[str, Any] = {"work": {"longest_output": 24_000, "output_tokens": 2_000, "prompts": 16, "steps": 20}}
"""Answers of which a GPU that shards alone holds none of the longest."""


def on_four(gpu: str = "H100-80GB", **job: Any) -> Scenario:
    """Return a job of a 7B on one machine of four GPUs, in turn."""
    offer = {**OFFERS[0], "gpu": gpu, "gpus": 4, "ram_gb": 800}
    rollout = {"placement": "colocated", "tensor_parallel": 2}
    given = {"architecture": "qwen2.5-7b", "staleness": 0, "techniques": {}, "rollout": rollout}
    return scenario({"max_gpus": 4}, [offer], **{**given, **job})


@pytest.mark.slow
@pytest.mark.parametrize("job", [{"work": {"prompts": 16, "steps": 20}}, LONG], ids=["short", "long"])
def test_the_layout_of_the_trainer_is_the_least_of_all_layouts(job: dict[str, Any]) -> None:
    """Brute force: FSDP, and Megatron at each degree of tensor and pipeline parallel, one by one."""
    one = on_four(framework=["fsdp", "megatron"], **job)
    run = run_of(is_least_of_all(one, divided_ways(one)))
    assert run.framework == "megatron" or not job["work"].get("longest_output")


@pytest.mark.slow
def test_where_no_sharded_trainer_holds_the_longest_answer_megatron_is_offered_and_does() -> None:
    """The setting that is named gives the plan; the answer names the layout, and says that its speed is a prior."""
    one = on_four(**LONG)
    refused = solved(one)
    assert refused.status == "infeasible" and refused.infeasible is not None
    (change,) = (one for one in refused.infeasible.relax if one.limit == "jobs.math.framework")
    assert change.setting == "jobs.math.framework=[fsdp,megatron]"
    plan = solved(planner.change_scenario(one, [change.setting]))
    run = run_of(plan)
    assert run.framework == "megatron" and run.gpus_per_copy > 1 and MEGATRON_NOTE in run.notes
    assert f"megatron, {'tensor' if run.tensor_parallel > 1 else 'pipeline'} parallel" in " ".join(str(plan).split())
    assert run.cost_usd == pytest.approx(change.cost_usd)


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "sharding", "crossing"), [("fsdp", "zero3", 0.5), ("megatron", "zero1", 0.0)])
def test_engines_on_the_machines_of_the_trainer_get_what_their_machine_lacks(
    framework: str, sharding: str, crossing: float
) -> None:
    """Two machines at 1 Gbit/s: half of what FSDP shards crosses; layers within a machine are whole on each."""
    offer = {**OFFERS[0], "gpus": 2, "max_nodes": 2, "network_gbps": 1.0}
    techniques = {"sharding": [sharding]}
    one = scenario(
        {"max_gpus": 4},
        [offer],
        framework=framework,
        techniques=techniques,
        rollout={"placement": "colocated"},
        staleness=0,
    )
    (label,), (job,) = dict(one.labelled_offers()), one.jobs
    assert isinstance(job, RlJob)
    named = NamedRl(
        "colocated", NamedPool(label, 2), None, 4, 2, True, False, "full", 16, sharding, "full", "adamw", 1, 16,
        framework=framework, tensor_parallel=1 if framework == "fsdp" else 2,
    )  # fmt: skip
    made = evaluate_rl(named, job, one, dict(one.labelled_offers()), LIBRARY)
    gb = 2 * LIBRARY.architecture("qwen2.5-1.5b").parameters / 1e9
    assert made.phases.new_weights == pytest.approx(max(crossing * gb / 0.125, 1.3 * math.sqrt(gb)))
    search = search_rl(one, job, LIBRARY)
    assert {2, 4} <= set(search.ways.rollout.gpus.tolist())
    for way in range(len(search.ways)):  # the arrays of the search say the same, or this stops
        evaluated_way(search, way)


@pytest.mark.slow
def test_a_large_model_says_that_megatron_was_not_compared_and_how_it_is() -> None:
    """From 30B on; with the setting that is named the note is gone, and the plan costs no more."""
    offer = {**OFFERS[0], "gpu": "H200", "gpus": 8, "ram_gb": 2000}
    one = scenario({"max_gpus": 8}, [offer], architecture="qwen2.5-32b", techniques={}, rollout={}, work={"steps": 5})
    plan = planner.solve(one)
    (note,) = (note for note in run_of(plan).notes if "was not compared" in note)
    setting = note.partition("--set '")[2].rstrip("'")
    other = planner.solve(planner.change_scenario(one, [setting]))
    assert not [note for note in run_of(other).notes if "was not compared" in note]
    assert run_of(other).cost_usd <= run_of(plan).cost_usd * (1 + 1e-9)
    assert not [note for note in run_of(solved(on_four())).notes if "was not compared" in note]


@pytest.mark.slow
def test_an_edited_layout_is_found_and_a_named_one_is_kept() -> None:
    """Degrees that the job names are the plan's; one that does not divide, and one that the job excludes, is found."""
    one = on_four(framework=["fsdp", "megatron"], techniques={"tensor_parallel": 2, "pipeline_parallel": [1, 2]})
    plan = solved(one)
    run = run_of(plan)
    assert run.tensor_parallel == 2 and run.pipeline_parallel * run.training_ranks == 2
    assert not planner.check(plan, one)
    for update in ({"tensor_parallel": 4, "pipeline_parallel": 1}, {"pipeline_parallel": 4}, {"tensor_parallel": 1}):
        edited = plan.model_copy(update={"reinforcement": (run.model_copy(update=update),)})
        assert planner.check(edited, one), update


def is_least_of_all(one: Scenario, ways: Iterable[NamedRl] | None = None) -> planner.Plan:
    """Return the plan, which is the least of every way (left out: on at most two machines), each by the evaluation."""
    plan = solved(one)
    run = run_of(plan)
    offers = dict(one.labelled_offers())
    (job,) = one.jobs
    assert isinstance(job, RlJob)
    found = list[RlRun]()
    for named in ways or every_way(one):
        try:
            made = report_rl(evaluate_rl(named, job, one, offers, LIBRARY), _day(plan))
        except ScenarioError:
            continue
        found.append(made)
    found.sort(key=lambda made: made.cost_usd)
    stated = ((made, plan.model_copy(update={"reinforcement": (made,), "cost": made.cost})) for made in found)
    least = next(made for made, other in stated if not audit_rl(other, one, LIBRARY, Tolerance()))
    assert run.cost_usd == pytest.approx(least.cost_usd, rel=1e-6)
    return plan


def _day(plan: planner.Plan) -> datetime.date:
    import datetime

    return datetime.date.fromisoformat(plan.as_of)


KINDS = ("H100-80GB", "A100-80GB")
"""What the examples of verl, NeMo-RL and TRL run on."""


def simple_rules(one: Scenario, job: RlJob) -> Iterator[tuple[str, NamedRl]]:
    """Yield what people do without a search, on the cheapest machines of each kind, by name.

    All GPUs in turn, and half train and half sample. With engines of one or two GPUs on machines of eight these are the
    layouts of examples, too: verl, examples/grpo_trainer/run_qwen2-7b.sh (in turn, two), and NeMo-RL's performance
    recipes (in turn, one; *async-1off*: as many machines that train as sample).
    """
    most, asked = int(one.limits.max_gpus or 64), job.techniques
    size = min(8, most)
    offers = sorted(one.labelled_offers(), key=lambda each: each[1].usd_per_hour or math.inf)
    own: dict[str, Any] = {
        **{"method": (asked.method or ("full",))[0], "weight_bits": (asked.weight_bits or (16,))[0], "lora_rank": 16},
        **{"activation_checkpointing": "full", "optimizer": "adamw", "sharding": "none" if size == 1 else "zero3"},
    }
    turn: dict[str, Any] = {"placement": "colocated", "rollout": None, "overlapped": False, "offloads": True}
    half: dict[str, Any] = {"placement": "apart", "overlapped": job.staleness > 0, "offloads": False}
    for kind, count, engine, micro in itertools.product(KINDS, (1, 2, 4), (1, 2), (1, 4)):
        fitting = (
            label
            for label, offer in offers
            if (offer.card, offer.gpus) == (kind, size) and offer.max_nodes >= count and one.limits.permits(offer)
        )
        label = next(fitting, None)
        if label is None or engine > size or count * size > most:
            continue
        own |= {"trainer": NamedPool(label, count), "gpus_per_engine": engine, "micro_batch": micro}
        yield "in turn", NamedRl(**own, **turn, rollout_gpus=size * count)
        if 2 * count * size <= most:
            yield "half and half", NamedRl(**own, **half, rollout=NamedPool(label, count), rollout_gpus=size * count)


@pytest.mark.long
@pytest.mark.parametrize("path", [path for path in FILES if "chain" not in path.stem], ids=lambda path: path.stem)
def test_a_shipped_scenario_is_proven_audited_and_never_above_simple_rules(path: Any) -> None:
    """Its check agrees; all colocated on one kind, half and half on it, or a framework's layout cost no less.

    Each rule is evaluated by itself, and counts where it keeps the limits; the least of each is a plan of its own.
    """
    one, plan = planner.read_scenario(frozen_scenarios()[path.stem]), plan_of(path.stem)
    run = run_of(plan)
    assert plan.gap == 0.0
    assert not planner.check(plan, one)
    assert min(way.cost_usd for way in run.ways) == pytest.approx(run.cost_usd)
    (job,) = one.jobs
    assert isinstance(job, RlJob)
    library, costs = read_library([job.architecture]), dict[str, float]()
    for rule, named in simple_rules(one, job):
        try:
            made = report_rl(evaluate_rl(named, job, one, dict(one.labelled_offers()), library), _day(plan))
        except ScenarioError:  # a framework or an engine that cannot run it
            continue
        own = {"reinforcement": (made,), "cost": made.cost, "cost_usd": made.cost_usd, "hours": made.hours}
        is_less = made.cost_usd < costs.get(rule, math.inf)
        if is_less and not audit_rl(plan.model_copy(update=own), one, library, Tolerance()):
            costs[rule] = made.cost_usd
    assert costs
    colocated = planner.change_scenario(one, ["jobs.0.rollout.placement=colocated", "jobs.0.staleness=0"])
    costs["the cheapest single kind"] = run_of(solve(colocated, OPTIONS, explains=False)).cost_usd
    for rule, cost in costs.items():
        assert run.cost_usd <= cost * (1 + 1e-9), rule


@pytest.mark.long
def test_the_shipped_chain_is_proven_audited_and_never_above_a_forced_placement() -> None:
    """Its check agrees, and a placement that is chosen beforehand costs no less."""
    (name,) = [path.stem for path in FILES if "chain" in path.stem]
    one, plan = planner.read_scenario(frozen_scenarios()[name]), plan_of(name)
    assert plan.gap == 0.0
    assert not planner.check(plan, one)
    at = next(index for index, job in enumerate(one.jobs) if isinstance(job, RlJob))
    for placement in ("colocated", "apart"):
        changed = planner.change_scenario(one, [f"jobs.{at}.rollout.placement={placement}", f"jobs.{at}.staleness=0"])
        other = solve(changed, OPTIONS, explains=False)
        assert not other.reinforcement or plan.objective <= other.objective * (1 + 1e-9)


@pytest.mark.slow
def test_bill_phases_and_hundred_steps_add_up() -> None:
    """Lines sum to the dollars; overlapped, a step is its longer side, new weights and the rest."""
    run = run_of(solved(scenario({"max_gpus": 4})))
    assert sum(line.usd for line in run.bill) == pytest.approx(run.cost_usd)
    assert run.usd_per_100_steps == pytest.approx(run.cost_usd / 3)
    sides = run.phases["rollout"], run.phases["log_probabilities"] + run.phases["training"]
    joined = max(sides) if run.overlapped else sum(sides)
    assert run.step_seconds == pytest.approx(joined + run.phases["new_weights"] + run.phases["fixed"])
    assert run.hours.expected == pytest.approx(
        max(pool.start_hours for pool in run.pools) + 300 * run.step_seconds / 3600
    )


@pytest.mark.slow
def test_weights_that_cross_to_another_provider_pay_egress() -> None:
    """300 steps of 3.1 GB at $0.09 leave the trainer; on machines of one region nothing does."""
    one = scenario({"max_gpus": 4, "spot": False})
    label, other = (label for label, _ in one.labelled_offers())
    named = NamedRl(
        "apart",
        NamedPool(label, 1),
        NamedPool(other, 1),
        2,
        1,
        False,
        True,
        "full",
        16,
        "zero3",
        "full",
        "adamw",
        1,
        16,
    )
    (job,) = one.jobs
    assert isinstance(job, RlJob)
    made = evaluate_rl(named, job, one, dict(one.labelled_offers()), LIBRARY)
    (line,) = (line for line in made.bill() if line.item == "new weights, transfer out")
    gb = 2 * LIBRARY.architecture("qwen2.5-1.5b").parameters / 1e9
    assert line.usd == pytest.approx(300 * gb * 0.09)
    (result,) = (line for line in made.bill() if line.item == "transfer out")
    assert result.usd == pytest.approx(LIBRARY.architecture("qwen2.5-1.5b").download_gb * 0.09)
    near = evaluate_rl(
        NamedRl(**{**_fields(named), "rollout": NamedPool(label, 1)}), job, one, dict(one.labelled_offers()), LIBRARY
    )
    assert not [line for line in near.bill() if line.item.startswith("new weights")]
    assert near.phases.new_weights < made.phases.new_weights


def _fields(named: NamedRl) -> dict[str, Any]:
    return {name: getattr(named, name) for name in NamedRl.__annotations__}


@pytest.mark.slow
def test_a_judge_by_api_adds_its_dollars_to_every_way() -> None:
    """76,800 answers of 900 tokens at $1, verdicts of 100 at $2, per million: $69.12 + $15.36."""
    judge = {"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 2.0, "output_tokens": 100}
    plain, judged = (run_of(solved(scenario({"max_gpus": 4}, **given))) for given in ({}, {"reward": judge}))
    assert judged.cost_usd - plain.cost_usd == pytest.approx(69.12 + 15.36)


@pytest.mark.slow
def test_what_breaks_the_deadline_or_the_budget_names_the_least_change() -> None:
    """Both are said with the setting that is enough; with it there is a plan."""
    one = scenario({"max_gpus": 4, "budget_usd": 1}, deadline="48h")
    plan = solved(one)
    assert plan.status == "infeasible"
    assert plan.infeasible is not None
    (change,) = plan.infeasible.relax
    assert change.limit == "limits.budget_usd"
    assert solved(planner.change_scenario(one, [change.setting])).status == "optimal"


@pytest.mark.slow
def test_an_edited_figure_of_a_plan_is_found() -> None:
    """A phase, a dollar and the micro-batch: each is noticed by itself."""
    one = scenario({"max_gpus": 4})
    plan = solved(one)
    run = run_of(plan)
    assert not planner.check(plan, one)
    for update in (
        {"phases": {**run.phases, "rollout": run.phases["rollout"] * 1.01}},
        {"cost_usd": run.cost_usd + 0.5},
        {"micro_batch": run.micro_batch * 4},
        {"seats": run.seats + 1},
        {"changes": {what: (usd or 0.0) + 1.0 for what, usd in run.changes.items()}},
        {"changes": {}},
        {"ways": tuple(way.model_copy(update={"cost_usd": way.cost_usd + 1.0}) for way in run.ways)},
        {"ways": tuple(way for way in run.ways if way.label != "plan")},
        {"ways": ()},
    ):
        edited = plan.model_copy(update={"reinforcement": (run.model_copy(update=update),)})
        assert planner.check(edited, one), update
    assert plan.hours is not None
    later = plan.hours.model_copy(update={"expected": plan.hours.expected + 1.0})
    assert planner.check(plan.model_copy(update={"hours": later}), one)


def test_a_limit_that_changes_nothing_says_so_and_one_on_the_stock_is_checked() -> None:
    """Nothing is paid before; where a list states no stock, none is too little, and where it does, the check asks."""
    offers = [{**OFFERS[0], "stock_status": "low"}, OFFERS[1]]
    one = scenario({"max_gpus": 4, "outlay_usd": 100, "stock_status": "medium"}, offers)
    plan = solved(one)
    notes = " ".join(run_of(plan).notes)
    assert "limits.outlay_usd has no effect" in notes
    assert "limits.stock_status has no effect on" in notes and "one" not in {
        pool.provider for pool in run_of(plan).pools
    }
    (job,) = one.jobs
    assert isinstance(job, RlJob)
    label = one.labelled_offers()[0][0]
    own = next(named for named in every_way(one) if named.trainer.offer == label and named.placement == "colocated")
    made = report_rl(evaluate_rl(own, job, one, dict(one.labelled_offers()), LIBRARY), _day(plan))
    stated = plan.model_copy(update={"reinforcement": (made,), "cost": made.cost})
    assert "offer" in {violation.what for violation in audit_rl(stated, one, LIBRARY, Tolerance())}
    assert not any("no effect" in note for note in run_of(solved(scenario({"max_gpus": 4}))).notes)


@pytest.mark.parametrize(
    ("job", "limits", "words"),
    [
        ({"critic": True}, {}, "jobs.0.critic: grpo has no critic"),
        (
            {"work": {"longest_output": 140_000}},
            {},
            "jobs.0.work.longest_output: 300 + 140,000 tokens exceed the context",
        ),
        ({"rollout": {"placement": "apart"}}, {"max_gpus": 1}, "limits.max_gpus: 1 GPU cannot have two roles"),
        ({"teacher": "qwen2.5-7b"}, {}, "jobs.0.teacher: not modelled for kind rl: a teacher"),
        ({"techniques": {"reference": "adapter"}}, {}, "jobs.0.techniques.reference: not modelled for kind rl"),
        ({"work": {"answers": 1}}, {}, "jobs.0.work.answers: grpo compares the answers to a prompt"),
        ({"trials": 3}, {}, "not modelled for kind rl: several trials"),
        ({}, {"fallbacks": 1}, "not modelled for kind rl: further ways"),
        ({"work": {"longest_output": 500}}, {}, "500 tokens are fewer than the mean of 600"),
        ({"algorithm": "dpo"}, {}, "unknown algorithm 'dpo'"),
        ({"framework": "unsloth"}, {}, "jobs.0.framework: not modelled for kind rl: framework 'unsloth'"),
        ({"techniques": {"tensor_parallel": 4}}, {}, "framework fsdp shards, and divides no layers; allow framework"),
    ],
)
def test_a_wrong_question_is_one_line_with_its_place(job: dict[str, Any], limits: dict[str, Any], words: str) -> None:
    """What cannot be is said by name, before anything is searched."""
    with pytest.raises(ScenarioError) as raised:
        solved(scenario(limits, **job))
    (fault,) = raised.value.faults
    assert words in str(fault)


def test_a_command_that_has_no_answer_for_a_plan_is_one_line_and_ends_with_2(tmp_path: Path) -> None:
    """A probe is refused by name, not with a wrong reason."""
    one, saved = scenario(), tmp_path / "plan.json"
    saved.write_text(solved(one).model_dump_json())
    said = CliRunner().invoke(main, ["probe", str(saved)])
    assert said.exit_code == 2, said.output
    assert "of reinforcement learning is not modelled" in said.output
    assert len(said.output.strip().splitlines()) == 1
    asked = {"technique": lambda: planner.explain_technique(one, "caching")}
    for name, ask in asked.items():
        with pytest.raises(ScenarioError, match=f"{name}: .*reinforcement learning (is|are) not modelled"):
            ask()


def test_values_of_a_sweep_are_plans_of_their_own() -> None:
    """More answers cost more; the cell has the machines of the run."""
    found = planner.sweep(scenario({"max_gpus": 4}), ["jobs.0.work.answers=4:8:4"])
    less, more = found.cells
    assert less.cost_usd is not None
    assert more.cost_usd is not None
    assert less.cost_usd < more.cost_usd
    assert less.jobs[0].name == "math"


@pytest.mark.slow
def test_what_if_compares_both_plans() -> None:
    """Twice the answers cost more; the text has both plans."""
    found = planner.what_if(scenario({"max_gpus": 4}), ["jobs.0.work.answers=16"])
    assert found.delta.cost_usd is not None
    assert found.delta.cost_usd > 0
    assert "before" in str(found)


def test_a_log_of_lengths_gives_mean_spread_and_cut() -> None:
    """100 answers of 200 tokens and 100 of 1,000: mean 600, spread 2/3, cut at 1,000."""
    table = [{"tokens": 200, "count": 100}, {"tokens": 1000, "count": 100}]
    one = scenario(work={"output_tokens": None, "lengths": table})
    (job,) = one.jobs
    assert isinstance(job, RlJob)
    assert (job.work.mean_output, job.work.cut_at) == (600, 1000)
    assert job.work.spread == pytest.approx(2 / 3)


def two_pools(one: Scenario, trainer: str, rollout: str, **changed: Any) -> EvaluatedRl:
    """Return the evaluation of a trainer and engines on one machine of two GPUs each."""
    job = rl_job_of(one)
    assert job is not None
    named = {"offloads": False, "overlapped": True, "method": "full", "weight_bits": 16, "sharding": "zero3"}
    named |= {"activation_checkpointing": "full", "optimizer": "adamw", "micro_batch": 1, "lora_rank": 16}
    pools = {"trainer": NamedPool(trainer, 1), "rollout": NamedPool(rollout, 1), "rollout_gpus": 2}
    given: dict[str, Any] = {"placement": "apart", "gpus_per_engine": 1, **pools, **named, **changed}
    return evaluate_rl(NamedRl(**given), job, one, dict(one.labelled_offers()), LIBRARY)


@pytest.mark.parametrize(
    ("offer", "said"),
    [
        ({}, "100 Gbit/s assumed, at 1 Gbit/s new weights take 25 s a step"),
        ({"community": True}, "1 Gbit/s assumed, new weights take 25 s a step"),
        ({"network_gbps": 400}, ""),
    ],
)
def test_a_network_that_no_offer_states_is_a_risk_with_seconds(offer: dict[str, Any], said: str) -> None:
    """3.1 GB take 25 s at 1 Gbit/s, which is what hosts of private people are assumed to have."""
    one = scenario(offers=[{**OFFERS[0], **offer}])
    ((label, _),) = one.labelled_offers()
    made = two_pools(one, label, label)
    risks = [note.partition(": ")[2] for note in network_risk(made)]
    assert risks == ([said] if said else [])
    assert (made.phases.new_weights > 20) == ("community" in offer)


def test_the_answer_shows_an_unknown_network_before_the_ways() -> None:
    """A line with `!`, and none of the notes repeats it."""
    one = scenario({"max_gpus": 4}, offers=OFFERS[:1], rollout={"placement": "apart", "tensor_parallel": [1]})
    one = planner.change_scenario(one, ["offers.0.gpus=1", "limits.max_gpus=2"])
    plan = solved(one)
    run = run_of(plan)
    assert run.placement == "apart"
    assert sum("a network that no offer states" in line for line in risk_lines(run)) == 1
    assert str(plan).count("a network that no offer") == 1


@pytest.mark.parametrize("longest", [1200, 2400, 4800, 9600])
def test_longer_answers_on_the_same_machines_never_cost_less(longest: int) -> None:
    """Each change has the fastest micro-batch that fits: what fits with the longer answers fits with the shorter."""
    one = scenario(work={"longest_output": longest}, architecture="qwen2.5-7b", techniques={"method": "lora"})
    labels = [label for label, _ in one.labelled_offers()]
    for label in labels:
        own = two_pools(one, label, labels[0], method="lora").changed()
        assert own is not None and own.fits
        changes = changes_of(own)
        longer = next(usd for what, usd in changes.items() if "tokens" in what)
        assert longer is None or longer >= 100.0 * own.usd() / 300
        assert own.changed(longest_output=longest) == own


def test_a_change_that_does_not_fit_says_so() -> None:
    """Answers of 8,000 tokens fit on two L40S, those of 16,000 do not; the other changes have dollars."""
    one = scenario(work={"longest_output": 8_000}, architecture="qwen2.5-1.5b")
    first, second = (label for label, _ in one.labelled_offers())
    changes = list(changes_of(two_pools(one, second, first)).values())
    assert [usd is None for usd in changes] == [False, True, False]


def test_twice_the_answers_are_judged_twice() -> None:
    """The judge reads what is sampled, also in a change: its dollars double."""
    judge = {"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 2.0}
    one = scenario(reward=judge)
    label, other = (label for label, _ in one.labelled_offers())
    made = two_pools(one, label, other)
    twice = made.changed(answers=16)
    assert twice is not None
    mine, theirs = (next(line.usd for line in run.bill() if line.item == "judge by API") for run in (made, twice))
    assert theirs == pytest.approx(2 * mine)


def test_a_deadline_that_cannot_be_kept_is_named_without_an_index_and_its_setting_gives_the_plan_shown() -> None:
    """The first line has the deadline of the job; the setting gives a plan of the dollars that stand next to it."""
    one = scenario({"max_gpus": 4}, deadline="30m")
    plan = solved(one)
    assert plan.infeasible is not None
    (change,) = plan.infeasible.relax
    assert change.limit == "jobs.math.deadline"
    assert "deadline of math, 0.5 h" in str(plan)
    after = run_of(solved(planner.change_scenario(one, [change.setting])))
    assert after.cost_usd == pytest.approx(change.cost_usd)


def test_changed_work_that_ends_after_the_deadline_says_so() -> None:
    """Twice the answers take longer than a deadline that just holds; a later start leaves no time for any."""
    one = scenario({"max_gpus": 2})
    run, (job,), offers = run_of(solved(one)), one.jobs, dict(one.labelled_offers())
    assert isinstance(job, RlJob)

    def late(deadline: float | None, start: float = 0.0) -> list[bool]:
        asked = job.model_copy(update={"deadline_hours": deadline})
        found = changes_of(evaluate_rl(NamedRl.of(run), asked, one, offers, LIBRARY), start)
        return [what.endswith(", after the deadline") for what in found]

    hours = run.hours.at_confidence
    assert late(1.2 * hours)[0] and not any(late(None)) and not any(late(100.0 * hours))
    assert all(late(100.0 * hours, 100.0 * hours))

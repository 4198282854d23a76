"""The framework as a decision: which take part, what each costs, and what a job that fits with none is told."""

from __future__ import annotations

import datetime
from functools import cache

import pytest

from planner.configurations.recipe import frameworks_of, unnamed_frameworks
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.library.technique_tables import LEAST_RUNS, read_techniques
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.prepare import prepare
from planner.solving.solve import solve, solve_prepared
from tests.helpers.scenarios import parse_scenario

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
LIBRARY = read_library(["llama-2-7b", "falcon-7b", "opt-6.7b", "stable-diffusion-1.5", "llama-3.1-8b"])
SCENARIO = """
name: choice
offers:
  - {provider: a, gpu: RTX4090, gpus: 1, usd_per_hour: 0.5, max_nodes: 1}
  - {provider: a, gpu: A100-80GB, gpus: 1, usd_per_hour: 1.6}
  - {provider: b, gpu: A100-80GB, gpus: 4, usd_per_hour: 6.0, spot_usd_per_hour: 2.4}
jobs:
  - {name: j, architecture: llama-2-7b, work: {tokens: 20e6}, sequence_length: 1024, global_batch: 32, deadline: 30h}
"""
LONG = (
    "jobs.j.architecture=llama-3.1-8b", "jobs.j.sequence_length=131072", "jobs.j.global_batch=4",
    "jobs.j.techniques.method=lora", "limits.max_gpus=1", "jobs.j.deadline=20d",
)  # fmt: skip


def asked(*settings: str) -> Scenario:
    return parse_scenario(SCENARIO, set_=settings)


@cache
def solved(*settings: str) -> Plan:
    return solve(asked(*settings), OPTIONS, LIBRARY)


@pytest.mark.parametrize(
    ("architecture", "kind", "names"),
    [
        ("llama-2-7b", "finetune", {"hf", "hf-fused", "litgpt"}),
        ("llama-2-7b", "pretrain", {"hf", "hf-fused", "litgpt", "torchtitan"}),
        ("falcon-7b", "finetune", {"hf", "litgpt"}),
        ("opt-6.7b", "finetune", {"hf"}),
        ("stable-diffusion-1.5", "finetune", {"simpletuner"}),
    ],
)
def test_a_profile_takes_part_where_it_is_maintained_measured_and_trains_the_job(
    architecture: str, kind: str, names: set[str]
) -> None:
    """By the facts of its card: kinds of jobs and families of architectures."""
    work = "{steps: 100}"
    job = asked(f"jobs.j.architecture={architecture}", f"jobs.j.kind={kind}", f"jobs.j.work={work}").jobs[0]
    profiles = read_techniques().frameworks
    assert {one for one in frameworks_of(job, LIBRARY) if "NVIDIA" in profiles[one].vendors} == names
    assert not names & set(unnamed_frameworks(job, LIBRARY))


def test_a_profile_on_few_runs_or_documentation_takes_part_only_when_named() -> None:
    """Each that takes part rests on published runs, and says where its facts come from."""
    for name, profile in read_techniques().frameworks.items():
        assert profile.facts
        if profile.takes_part and "NVIDIA" in profile.vendors:  # of another chip it is the only one
            assert profile.runs >= LEAST_RUNS and profile.basis in ("peaks", "fits", "shared"), name
    assert not read_techniques().frameworks["unsloth"].takes_part
    assert frameworks_of(asked("jobs.j.framework=unsloth").jobs[0], LIBRARY) == ("unsloth",)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["cost", "time"])
@pytest.mark.parametrize("more", [(), ("jobs.j.techniques.method=full",), ("limits.budget_usd=8",)])
def test_the_choice_of_frameworks_is_the_best_of_each_alone(objective: str, more: tuple[str, ...]) -> None:
    """Leaving out what another framework outdoes never changes the optimum, and the ladder is what each would cost."""
    asked_for = (f"objective={objective}", "solve.ties=0", *more)
    named = {name: solved(f"jobs.j.framework={name}", *asked_for) for name in ("hf", "hf-fused")}
    both = solved("jobs.j.framework=[hf,hf-fused]", *asked_for)
    best = [plan.objective for plan in named.values() if plan.objective is not None]
    assert both.objective == pytest.approx(min(best), rel=1e-9)
    ladder = {option.label: option.cost_usd for option in both.jobs[0].frameworks if not option.prior}
    for label, plan in zip(("hf", "hf + Liger"), named.values(), strict=True):
        assert plan.cost is not None
        if objective == "cost" and not more:
            alone, half_cent = plan.cost.expected, 0.006  # of the second pass
            assert ladder[label] >= alone - half_cent  # the ladder is of the plan's GPU
            if plan.jobs[0].gpu == both.jobs[0].gpu:
                assert ladder[label] == pytest.approx(alone, abs=half_cent)


@pytest.mark.slow
def test_a_prior_never_wins_by_being_optimistic() -> None:
    """It stands in the ladder with its figure, marked; named, it is the plan of that figure on the same GPU."""
    job = solved("solve.ties=0").jobs[0]
    prior = next(option for option in job.frameworks if option.label == "unsloth")
    assert prior.prior and not prior.allowed
    assert job.framework == job.techniques.framework != "unsloth"
    named = solved("jobs.j.framework=unsloth", f"limits.gpus.allow=[{job.gpu}]", "solve.ties=0")
    assert named.cost is not None and named.jobs[0].framework == "unsloth"
    assert prior.cost_usd == pytest.approx(named.cost.expected, abs=0.006)


def test_a_job_that_fits_with_no_framework_of_its_own_is_told_which_one_would() -> None:
    """Before any limit is relaxed, and the setting has a plan."""
    plan = solved(*LONG, "jobs.j.framework=hf")
    assert plan.infeasible is not None
    first = plan.infeasible.relax[0]
    assert first.limit == "jobs.j.framework" and first.way == 1
    again = solved(*LONG, first.setting)
    assert again.cost is not None and first.cost_usd == pytest.approx(again.cost.expected, abs=0.006)


def test_an_observed_run_says_its_framework() -> None:
    """Its speed is compared with the estimate of that framework."""
    from planner.configurations.compared_runs import ComparedRun, compare_run

    rates = {}
    for name in ("hf", "hf-fused"):
        run = f"[{{gpu: A100-80GB, gpus: 1, method: full, framework: {name}, tokens_per_second: 4000}}]"
        job = asked(f"jobs.j.measured={run}").jobs[0]
        found = compare_run(job, job.measured[0], LIBRARY.architecture("llama-2-7b"), LIBRARY)
        assert isinstance(found, ComparedRun) and found.recipe.framework == name
        rates[name] = found.predicted
    assert rates["hf-fused"] > rates["hf"]


@pytest.mark.slow
def test_a_method_that_is_allowed_again_brings_back_its_frameworks() -> None:
    """A second question shares what the first computed, and not that some frameworks had nothing to offer."""
    first, setting = prepare(asked("jobs.j.techniques.weight_bits=4"), LIBRARY), "jobs.j.techniques.method=[lora, full]"
    solve_prepared(first, OPTIONS)
    again = solve_prepared(prepare(asked(setting), LIBRARY, first), OPTIONS)
    assert again.jobs[0].frameworks == solved(setting).jobs[0].frameworks


SPOT = ("jobs.j.techniques.method=lora", "jobs.j.deadline=60h", "limits.providers.allow=[b]")


@pytest.mark.slow
def test_what_cannot_go_on_from_a_checkpoint_is_not_planned_on_spot() -> None:
    """LitGPT saves adapters without their optimizer, so on demand alone. Transformers takes spot, both do in full."""

    def share(name: str, method: str) -> float:
        return solved(*SPOT, f"jobs.j.framework={name}", f"jobs.j.techniques.method={method}").jobs[0].spot_share

    shares = {(name, method): share(name, method) for name in ("hf", "litgpt") for method in ("lora", "full")}
    assert shares["litgpt", "lora"] == 0
    assert all(share > 0.5 for key, share in shares.items() if key != ("litgpt", "lora"))


def test_the_audit_knows_what_cannot_go_on() -> None:
    """A plan on spot whose framework is changed to LitGPT is refused for its share of spot, too."""
    plan = solved(*SPOT, "jobs.j.framework=[hf, litgpt]")
    (job,) = plan.jobs
    techniques = job.techniques.model_copy(update={"framework": "litgpt"})
    changed = plan.model_copy(update={"jobs": (job.model_copy(update={"techniques": techniques}),)})
    assert job.spot_share > 0 and job.techniques.framework == "hf"
    violations = audit(changed, asked(*SPOT, "jobs.j.framework=[hf, litgpt]"), LIBRARY)
    assert any("cannot go on with adapters" in str(one) for one in violations)

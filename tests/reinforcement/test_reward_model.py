"""Rewards by a model of one's own: seconds and memory by hand, where it is, the least of all ways, what tools get."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml

import planner
from planner.errors import InputError, ScenarioError
from planner.exports.facts import Wishes
from planner.exports.rl_configs import read_training_file
from planner.exports.rl_export import choose_rl, export_rl, rl_checklist
from planner.library.reading import teacher_card
from planner.reinforcement.evaluated_rl import EvaluatedRl, NamedPool, NamedRl, evaluate_rl
from planner.reinforcement.rl_estimate import REWARD_CAUTION
from planner.reinforcement.rl_simulation import draw_rollouts, replay_run
from planner.reinforcement.rl_step import RlPhases, SpotEngines, spot_step
from planner.reinforcement.rl_text import rl_sections
from planner.scenario.rl_job import RlJob
from planner.units import GIB
from tests.exports.test_rl_export import held
from tests.reinforcement.test_rl_solve import LIBRARY, OFFERS, every_way, is_least_of_all, run_of, scenario, solved

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from planner.results.subject_runs import PhaseMemory
    from planner.scenario.scenario import Scenario

SIZES = ("qwen2.5-0.5b", "qwen2.5-7b", "qwen2.5-32b")


def estimate(gpu: str = "8xH100", **given: Any) -> planner.RlEstimate:
    """Return the estimate of a 7B with answers of 1,500 tokens, with some settings changed."""
    return planner.estimate_rl("qwen2.5-7b", gpu, **{"output": 1500, "longest_output": 8192, **given})


def phase(found: planner.RlEstimate | Any, name: str) -> PhaseMemory:
    """Return the memory of a phase."""
    return next(one for one in found.memory if one.phase == name)


def test_a_model_as_large_as_the_policy_takes_what_a_reference_takes() -> None:
    """Policy and reference are two passes of log-probabilities; of dapo three answers are scored for each that is kept.

    On two GPUs of its own it takes four times as long as on the eight that train.
    """
    one = estimate(reward_model="qwen2.5-7b")
    assert one.phases["reward"] == pytest.approx(one.phases["log_probabilities"] / 2)
    assert one.step_seconds.expected == pytest.approx(estimate().step_seconds.expected + one.phases["reward"])
    dapo = estimate(algorithm="dapo", reward_model="qwen2.5-7b")
    assert dapo.phases["reward"] == pytest.approx(3 * dapo.phases["log_probabilities"])
    own = estimate(reward_model="qwen2.5-7b", reward_gpus=2)
    assert own.phases["own_reward"] == pytest.approx(4 * one.phases["reward"]) and "reward" not in own.phases
    assert own.usd_per_100_steps is not None and one.usd_per_100_steps is not None
    seconds = own.step_seconds.expected / one.step_seconds.expected
    assert own.usd_per_100_steps.expected == pytest.approx(10 / 8 * seconds * one.usd_per_100_steps.expected)


def test_seconds_and_bytes_of_another_size_by_hand() -> None:
    """An 8B (8.03e9 weights) next to a 7B (7.62e9): 1.0545 passes; 16.06 GB in eight parts are 1.87 GiB of a GPU.

    From host memory 2.008 GB come at 0.825 of 48 GB/s (PCIe 5) in 51 ms; they then leave room while it trains.
    """
    plain = estimate()
    held_there, hosted = (estimate(reward_model="llama-3.1-8b", reward_offload=away) for away in (False, True))
    policy, reward = (teacher_card(name) for name in ("qwen2.5-7b", "llama-3.1-8b"))
    passes = plain.phases["log_probabilities"] / 2 * reward.parameters / policy.parameters
    shard = 2 * reward.parameters / 8
    assert held_there.phases["reward"] == pytest.approx(passes)
    assert hosted.phases["reward"] - passes == pytest.approx(shard / (0.825 * 48e9), rel=0.01)
    usual, more, same = (phase(found, "training").peak for found in (plain, held_there, hosted))
    assert more - usual == pytest.approx(shard / GIB) and same == usual
    scoring = phase(held_there, "rewards").parts
    assert scoring["reward model"] == pytest.approx(shard / GIB)
    tokens, widest = 512 + 8192, 3 * 14336
    assert scoring["activations"] == pytest.approx((2 * tokens * (4 * 4096 + widest) + 4) / GIB, rel=1e-3)
    assert "reward model" in " ".join(held_there.model_dump_json().split()) and REWARD_CAUTION in held_there.notes
    assert "reward_model" not in plain.model_dump() and "reward" not in plain.phases


@pytest.mark.parametrize("given", [{}, {"reward_offload": True}, {"reward_gpus": 4}])
def test_a_larger_reward_model_never_lowers_seconds_or_memory(given: dict[str, Any]) -> None:
    """Of any phase, wherever it is."""
    found = [estimate(reward_model=name, **given) for name in SIZES]
    for less, more in itertools.pairwise([estimate(), *found]):
        assert less.step_seconds.expected < more.step_seconds.expected
        peaks = {one.phase: one.peak for one in less.memory}
        assert all(one.peak >= peaks.get(one.phase, 0.0) for one in more.memory)


def test_own_scores_count_on_the_side_that_samples() -> None:
    """60 s of rollout and 20 s of scores against 70 s of the trainer, overlapped, with 5 s of the rest: 85 s."""
    phases = RlPhases(60.0, 10.0, 60.0, 2.0, 3.0, own_reward=20.0)
    assert phases.step_seconds(overlapped=True) == 85.0 and phases.step_seconds(overlapped=False) == 155.0
    side, share = phases.idle(overlapped=True, apart=True)
    assert side == "trainer" and share == pytest.approx(10 / 85)
    shared = RlPhases(60.0, 10.0, 60.0, 2.0, 3.0, reward=20.0)
    assert shared.step_seconds(overlapped=True) == 95.0
    engines = SpotEngines(1.0, 0.8, 1e9, 0.0, 0.0)
    assert float(spot_step(60.0, 70.0, 5.0, True, engines, 20.0)[0][0]) == pytest.approx(85.0 / 0.8)


# Jobs: the search against every way, one by one.


def every_way_with_rewards(one: Scenario) -> Iterator[NamedRl]:
    """Yield every way of the small scenario with the reward model held, in host memory, or on one GPU of the two."""
    for named in every_way(one):
        if named.gpus_per_engine > 1:
            continue
        fields = {name: getattr(named, name) for name in NamedRl.__annotations__}
        for hosted in (False, True):
            yield NamedRl(**fields | {"reward_offloads": hosted})
        alone = {"reward_gpus": 1, "sharding": "none"}
        if named.placement == "colocated":
            yield NamedRl(**fields | alone | {"rollout_gpus": 1})
        elif named.placement == "apart":
            yield NamedRl(**fields | alone)


@pytest.mark.long
def test_the_plan_is_the_least_of_all_places_of_the_reward_model() -> None:
    """Brute force over placements, pools and where it lies, each by the evaluation; what breaks a limit is left out."""
    reward = {"model": "qwen2.5-1.5b", "placement": ["shared", "own"]}
    one = scenario({"max_gpus": 4}, OFFERS[:1], rollout={"tensor_parallel": [1]}, reward=reward)
    ways = [*every_way_with_rewards(one)]
    assert REWARD_CAUTION in run_of(is_least_of_all(one, ways)).notes
    own = planner.change_scenario(one, ["jobs.0.reward.placement=own"])
    assert run_of(is_least_of_all(own, [named for named in ways if named.reward_gpus])).reward_gpus == 1


def with_rewards(**reward: Any) -> Scenario:
    """Return the small job with a reward model on one offer with colocated engines, which is quick to solve."""
    given = {"model": "qwen2.5-1.5b", **reward}
    rollout = {"placement": "colocated", "tensor_parallel": [1]}
    return scenario({"max_gpus": 2}, OFFERS[:1], staleness=0, rollout=rollout, reward=given)


@pytest.mark.slow
def test_a_plan_shows_where_answers_are_scored_and_what_is_edited_is_found() -> None:
    """In the strip, in words and in the memory; each edited figure breaks the check."""
    one = with_rewards()
    plan = solved(one)
    run = run_of(plan)
    assert not planner.check(plan, one)
    assert "M reward model" in str(plan) and "scores each answer in one pass, on the GPUs that train" in " ".join(
        str(plan).split()
    )
    assert dict(rl_sections(run))["Memory"][1].startswith("rewards: ")
    (start,) = (line.usd for line in run.bill if line.item == "start and load")
    bare = run_of(solved(planner.change_scenario(one, ["jobs.0.reward=rule"])))
    assert bare.reward_model == "" and not {"reward_model", "reward_gpus", "reward_offloads"} & bare.model_dump().keys()
    assert start > next(line.usd for line in bare.bill if line.item == "start and load")
    for update in (
        {"phases": {**run.phases, "reward": run.phases["reward"] * 1.01}},
        {"reward_offloads": not run.reward_offloads},
        {"reward_gpus": 1},
        {"reward_model": "qwen2.5-7b"},
        {"memory": tuple(one for one in run.memory if one.phase != "rewards")},
    ):
        edited = plan.model_copy(update={"reinforcement": (run.model_copy(update=update),)})
        assert planner.check(edited, one), update


@pytest.mark.slow
def test_own_gpus_are_asked_for_and_priced() -> None:
    """One GPU of two scores alone: the plan says so; why-not prices it where the job leaves it out."""
    one = with_rewards(placement="own")
    plan = solved(one)
    run = run_of(plan)
    assert not planner.check(plan, one)
    assert (run.reward_gpus, run.training_gpus, run.rollout_gpus) == (1, 1, 1)
    assert "1 for rewards" in str(plan) and "1 GPU of its own, after the last answer" in " ".join(str(plan).split())
    shared = with_rewards()
    found = planner.explain(shared, "reward_placement=own", library=LIBRARY).why_not
    assert found is not None and found.status == "beyond"
    assert found.cost_usd == pytest.approx(run.cost_usd, abs=0.01)
    (change,) = found.relax
    assert change.limit == "jobs.math.reward.placement"
    changed = planner.change_scenario(shared, [change.setting])
    assert run_of(solved(changed)).cost_usd == pytest.approx(run.cost_usd)  # the plan that is named


def evaluated() -> EvaluatedRl:
    """Return a trainer of one machine with engines on another, and a reward model on one GPU of the trainer's."""
    one = scenario(reward={"model": "qwen2.5-1.5b", "placement": "own"})
    (job,) = one.jobs
    assert isinstance(job, RlJob)
    labels = [label for label, _ in one.labelled_offers()]
    named = NamedRl(
        placement="apart", trainer=NamedPool(labels[0], 1), rollout=NamedPool(labels[1], 1, on_spot=False),
        rollout_gpus=2, gpus_per_engine=1, offloads=False, overlapped=True, method="full", weight_bits=16,
        sharding="none", activation_checkpointing="full", optimizer="adamw", micro_batch=1, lora_rank=16, reward_gpus=1,
    )  # fmt: skip
    return evaluate_rl(named, job, one, dict(one.labelled_offers()), LIBRARY)


@pytest.mark.slow
def test_a_replay_waits_for_the_scores() -> None:
    """Hours of the formula and of drawn answers agree within 10 %, overlapped."""
    made = evaluated()
    rng = np.random.default_rng(1)
    found = replay_run(made, draw_rollouts(made, rng), np.ones(50), rng)
    assert made.phases.own_reward > 0
    assert found.hours.mean() == pytest.approx(made.start_hours + made.run_hours, rel=0.10)


@pytest.mark.parametrize(
    ("reward", "words"),
    [
        ("model", "a reward model without its name"),
        ({"model": "qwen2.5-1.5"}, "unknown architecture 'qwen2.5-1.5'"),
        ({"model": "qwen2.5-1.5b", "output_tokens": 50}, "not modelled for kind rl: a model of one's own that writes"),
        ({"model": "qwen2.5-1.5b", "placement": "own", "offload": True}, "on GPUs of its own stays there"),
        ({"model": "gpt2"}, "exceed the context of gpt2, which scores them"),
        ({"model": "qwen2.5-1.5b", "placement": "elsewhere"}, "jobs.0.reward"),
    ],
)
def test_a_wrong_reward_model_is_one_line(reward: Any, words: str) -> None:
    """With its place, before anything is searched."""
    with pytest.raises(ScenarioError) as raised:
        solved(scenario(reward=reward))
    (fault,) = raised.value.faults
    assert words in str(fault)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"reward_gpus": 2}, "no model scores answers"),
        ({"reward_model": "qwen2.5-7b", "reward_gpus": 2, "reward_offload": True}, "stays there"),
        ({"reward_model": "qwen9"}, "unknown architecture 'qwen9'"),
    ],
)
def test_an_estimate_refuses_what_scores_nothing(given: dict[str, Any], words: str) -> None:
    """In one line."""
    with pytest.raises(ScenarioError, match=words):
        estimate(**given)


# Tools.


WISHES = Wishes("my/policy", "data.parquet")


def exported(one: Scenario, target: str, **update: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the settings of a tool for the plan of a job, and what is left to a person."""
    plan = solved(one)
    run = run_of(plan).model_copy(update=update)
    given = choose_rl(plan.model_copy(update={"reinforcement": (run,)}), one, "plan", None)
    files = export_rl(given, [target], WISHES, "plan")
    text = next(text for name, text in files.items() if name.endswith(".yaml"))
    return yaml.safe_load(text), list(rl_checklist(given, WISHES, "plan", files).see_to)


@pytest.mark.slow
def test_tools_get_the_reward_model_of_the_plan() -> None:
    """verl's worker of FSDP on the GPUs that train, or a pool of its own; TRL holds it. Its weights are the user's."""
    found, left = exported(with_rewards(offload=True), "verl")
    assert found["reward_model"]["enable"] and not found["reward_model"]["use_reward_loop"]
    assert found["reward_model"]["model"]["fsdp_config"]["param_offload"] is True
    assert "custom_reward_function" not in found
    assert any("reward_model.model.path: your reward model, which was planned as qwen2.5-1.5b" in line for line in left)
    found, _ = exported(with_rewards(placement="own"), "verl", engine="sglang")
    assert found["actor_rollout_ref"]["rollout"]["name"] == found["reward_model"]["rollout"]["name"] == "sglang"
    pool = {name: found["reward_model"][name] for name in ("enable_resource_pool", "nnodes", "n_gpus_per_node")}
    assert pool == {"enable_resource_pool": True, "nnodes": 1, "n_gpus_per_node": 1}
    assert found["trainer"]["n_gpus_per_node"] == 1 and found["trainer"]["nnodes"] == 1
    found, left = exported(with_rewards(offload=False), "trl", offloads=False)
    assert "reward_funcs" not in found and any(line.startswith("grpo.yaml: reward_model_name_or_path") for line in left)
    assert not any("reward.py" in line for line in left)
    for given, words in (
        ({"placement": "own"}, "reward.placement=shared"),
        ({"offload": True}, "reward.offload=false"),
    ):
        with pytest.raises(InputError, match=words):
            exported(with_rewards(**given), "trl", offloads=False)


VERL = "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct trainer.nnodes=1 "
NEMO = """grpo: {{num_prompts_per_step: 4}}
policy: {{model_name: q}}
env: {{reward_model: {{enabled: {}, model_name: a/b}}}}
"""


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("a.sh", "reward_model.enable=True reward_model.model.path=a/b", {"reward.model": "a/b"}),
        (
            "a.sh", "reward_model.enable=True reward_model.model.path=a/b actor_rollout_ref.rollout.name=sglang",
            {"rollout.engine": ["sglang"]},
        ),
        (
            "a.sh", "reward_model.enable=True reward_model.model.path=a/b reward_model.enable_resource_pool=True",
            {"reward.placement": ["own"]},
        ),
        ("a.sh", "reward_model.enable=False reward_model.model.path=a/b", {}),
        ("a.sh", "reward_model.model.path=a/b reward_model.model.fsdp_config.param_offload=True", {}),
        ("a.yaml", "model_name_or_path: q\nrloo_k: 4\nreward_model_path: a/b\n", {"reward.model": "a/b"}),
        ("a.yaml", NEMO.format("true"), {"reward.model": "a/b", "reward.placement": ["own"]}),
        ("a.yaml", NEMO.format("false"), {}),
    ],
)  # fmt: skip
def test_files_with_a_reward_model_hold_it(name: str, text: str, wanted: dict[str, Any], tmp_path: Path) -> None:
    """One that is named and not switched on is none."""
    (tmp_path / name).write_text(VERL + text if name.endswith(".sh") else text)
    found = held(read_training_file(tmp_path / name))
    assert wanted.items() <= found.items()
    assert any(key.startswith("reward.") for key in found) == bool(wanted)


def test_a_reward_model_that_is_switched_on_without_a_name_is_refused(tmp_path: Path) -> None:
    """With the field that is missing."""
    (tmp_path / "a.sh").write_text(VERL + "reward_model.enable=True")
    with pytest.raises(InputError, match=r"a reward model without reward_model\.model\.path"):
        read_training_file(tmp_path / "a.sh")


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        ({"model": "qwen2.5-14b", "plcement": "own"}, "reward.plcement: unknown key; did you mean placement?"),
        ({"model": "qwen2.5-14b", "placement": "both"}, "reward.placement: 'both' is not one of shared, own"),
        ({"placement": "own"}, "reward.model: is missing; add it"),
        ({"model": "qwen9.5-14b"}, "reward.model: unknown architecture 'qwen9.5-14b'; did you mean"),
    ],
)
def test_a_fault_of_a_reward_model_is_at_its_key(reward: dict[str, str], said: str) -> None:
    """The key `model` of a reward is not the name of its form."""
    with pytest.raises(ScenarioError, match=re.escape(said)):
        scenario(reward=reward)

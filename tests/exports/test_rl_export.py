"""Jobs of kind rl as files: TRL with vLLM, verl, tasks of two pools; and configurations of these tools as scenarios."""

from __future__ import annotations

import runpy
import shlex
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import planner
from planner.cli import main
from planner.documents.files import data_folder
from planner.errors import InputError
from planner.estimates.inputs import Layout
from planner.exports.export import check_folder
from planner.exports.facts import Wishes
from planner.exports.read_configs import ToolFile, describe
from planner.exports.rl_configs import read_training_file
from planner.exports.rl_export import choose_rl, export_all_rl, export_rl, rl_checklist, trl_micro_batch, trl_share
from planner.loading.scenario_file import change_scenario
from planner.results.plan import Plan
from planner.results.subject_runs import RlRun
from planner.scenario.rl_job import RlJob
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.solve import solve

OFFERS: list[dict[str, Any]] = [
    {
        **{"provider": "aws", "region": "us-east-1", "gpu": "H100-80GB", "gpus": 4, "usd_per_hour": 12.0},
        **{"interconnect": "nvlink", "ram_gb": 800},
    },
    {
        **{"provider": "gcp", "region": "us-central1", "gpu": "L40S", "gpus": 2, "usd_per_hour": 1.6, "ram_gb": 400},
        "spot_usd_per_hour": 0.7,
    },
]
WISHES = Wishes(None, "math.parquet")


@cache
def solved(placement: str = "colocated", staleness: int = 0) -> tuple[Plan, Scenario]:
    """Return the plan of a small job and its scenario; one apart has too little time for one machine."""
    job = {
        **{"name": "math", "kind": "rl", "architecture": "qwen2.5-1.5b", "staleness": staleness},
        "deadline": "7h" if placement == "apart" else None,
        "rollout": {"placement": placement, "tensor_parallel": [1]},
        "techniques": {"sharding": ["zero3"]},
        "work": {
            **{"steps": 300, "prompts": 32, "answers": 8, "input_tokens": 300, "output_tokens": 600, "updates": 2},
            "sampled_per_kept": 1,
        },
    }
    scenario = planner.build_scenario(schema=2, name="small", jobs=[job], offers=OFFERS, limits={"max_gpus": 8})
    return planner.solve(scenario), scenario


def of_algorithm(algorithm: str) -> tuple[Plan, Scenario]:
    """Return the same with another algorithm."""
    plan, scenario = solved()
    (job,) = scenario.jobs
    other = scenario.model_copy(update={"jobs": (job.model_copy(update={"algorithm": algorithm}),)})
    return changed(plan, algorithm=algorithm), other


def changed(plan: Plan, **update: Any) -> Plan:
    """Return the plan with figures of its run changed."""
    (run,) = plan.reinforcement
    return plan.model_copy(update={"reinforcement": (run.model_copy(update=update),)})


def settings(plan: Plan, scenario: Scenario, target: str, wishes: Wishes = WISHES) -> dict[str, Any]:
    """Return the settings that a trainer gets."""
    files = export_rl(choose_rl(plan, scenario, "plan", None), [target], wishes, "plan")
    name = next(name for name in files if name.endswith(".yaml"))
    found: dict[str, Any] = yaml.safe_load(files[name])
    return found


def run_of(plan: Plan) -> RlRun:
    (run,) = plan.reinforcement
    return run


@pytest.mark.parametrize("algorithm", ["grpo", "dapo", "rloo"])
def test_trl_gets_the_batches_lengths_and_engines_of_the_plan(algorithm: str) -> None:
    """Answers of a step, an update and a pass are those of the plan, counted as TRL does."""
    plan, scenario = of_algorithm(algorithm)
    run, found = run_of(plan), settings(plan, scenario, "trl")
    step = found["per_device_train_batch_size"] * run.training_gpus * found["steps_per_generation"]
    update = found["per_device_train_batch_size"] * run.training_gpus * found["gradient_accumulation_steps"]
    assert (step, update) == (run.sequences, run.sequences // 2) and found["max_steps"] == 2 * run.steps
    assert found["num_generations"] == 8 and found["max_completion_length"] == run.longest_output
    assert found["vllm_mode"] == "colocate" and found["vllm_tensor_parallel_size"] == run.gpus_per_engine
    assert found.get("loss_type") == {"grpo": "grpo", "dapo": "dapo", "rloo": None}[algorithm]
    assert (found["beta"] > 0) == (algorithm != "dapo") and ("epsilon_high" in found) == (algorithm == "dapo")


def test_a_run_that_goes_on_ends_at_all_its_steps() -> None:
    """Tools count them from the beginning, TRL in updates; the list and the README ask for the checkpoint."""
    plan, scenario = solved()
    rest = changed(plan, steps=280, steps_before=20)
    assert settings(rest, scenario, "trl")["max_steps"] == 600 == settings(plan, scenario, "trl")["max_steps"]
    assert settings(rest, scenario, "verl")["trainer"]["total_training_steps"] == 300
    given = choose_rl(rest, scenario, "plan", None)
    files, _ = export_all_rl(given, WISHES, "plan", ["trl"])
    wanted = "it goes on after step 40: have its checkpoint in"
    assert any(wanted in line for line in rl_checklist(given, WISHES, "plan", files).see_to)
    assert wanted in " ".join(files["README.md"].split())


def test_trl_leaves_the_engine_what_the_states_of_the_trainer_leave() -> None:
    """TRL does not move them to host memory, as the plan does: fewer answers at a time, which a note says."""
    plan, scenario = solved()
    run = run_of(plan)
    given = choose_rl(changed(plan, offloads=True, host_gb=20.0), scenario, "plan", None)
    share, seats = trl_share(given)
    alone, all_seats = trl_share(choose_rl(changed(plan, offloads=False), scenario, "plan", None))
    assert share < alone and seats < all_seats == run.seats
    files = export_rl(given, ["trl"], WISHES, "plan")
    assert f"room for {seats:,} answers at a time" in files["grpo.yaml"].replace("\n#   ", " ")
    crowded = choose_rl(changed(plan, offloads=True, host_gb=10_000.0), scenario, "plan", None)
    with pytest.raises(InputError, match="no engine has room: export with --to verl"):
        export_rl(crowded, ["trl"], WISHES, "plan")


def test_a_pass_has_answers_that_divide_an_update() -> None:
    """As many as the plan has, or fewer."""
    run = run_of(solved()[0])
    for micro, sequences, gpus, updates, wanted in (
        (8, 256, 4, 2, 8),
        (6, 256, 4, 2, 4),
        (8, 96, 4, 2, 6),
        (4, 10, 4, 1, 0),
    ):
        one = run.model_copy(update={"micro_batch": micro, "sequences": sequences, "training_gpus": gpus})
        assert trl_micro_batch(one, updates) == wanted


def keys(data: dict[str, Any], before: str = "") -> set[str]:
    """Return the dotted names of the values."""
    found = set[str]()
    for key, value in data.items():
        found |= keys(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}"}
    return found


_OF_VERL = """
algorithm.adv_estimator algorithm.use_kl_in_reward algorithm.rollout_correction.bypass_mode data.train_files
algorithm.rollout_correction.rollout_is actor_rollout_ref.rollout.quantization
data.val_files data.train_batch_size data.max_prompt_length data.max_response_length data.filter_overlong_prompts
actor_rollout_ref.hybrid_engine actor_rollout_ref.model.path actor_rollout_ref.model.use_remove_padding
actor_rollout_ref.model.enable_gradient_checkpointing actor_rollout_ref.model.enable_activation_offload
actor_rollout_ref.model.lora_rank actor_rollout_ref.model.lora_alpha actor_rollout_ref.model.target_modules
actor_rollout_ref.actor.strategy actor_rollout_ref.actor.ppo_mini_batch_size actor_rollout_ref.actor.use_dynamic_bsz
actor_rollout_ref.actor.ppo_max_token_len_per_gpu actor_rollout_ref.actor.use_kl_loss
actor_rollout_ref.actor.clip_ratio_low actor_rollout_ref.actor.clip_ratio_high actor_rollout_ref.actor.loss_agg_mode
actor_rollout_ref.actor.fsdp_config.param_offload actor_rollout_ref.actor.fsdp_config.optimizer_offload
actor_rollout_ref.actor.fsdp_config.reshard_after_forward actor_rollout_ref.actor.fsdp_config.fsdp_size
actor_rollout_ref.ref.fsdp_config.param_offload actor_rollout_ref.rollout.name actor_rollout_ref.rollout.n
actor_rollout_ref.rollout.tensor_model_parallel_size actor_rollout_ref.rollout.gpu_memory_utilization
actor_rollout_ref.rollout.max_num_seqs actor_rollout_ref.rollout.free_cache_engine
actor_rollout_ref.rollout.load_format actor_rollout_ref.rollout.calculate_log_probs critic.strategy critic.model.path
critic.model.enable_gradient_checkpointing critic.model.fsdp_config.param_offload
critic.model.fsdp_config.optimizer_offload critic.ppo_max_token_len_per_gpu custom_reward_function.path
reward_model.enable reward_model.use_reward_loop reward_model.model.path reward_model.model.use_remove_padding
reward_model.model.fsdp_config.param_offload reward_model.use_dynamic_bsz reward_model.forward_max_token_len_per_gpu
reward_model.enable_resource_pool reward_model.nnodes reward_model.n_gpus_per_node reward_model.rollout.name
reward_model.rollout.tensor_model_parallel_size reward_model.rollout.prompt_length
reward_model.rollout.response_length custom_reward_function.name trainer.nnodes trainer.n_gpus_per_node
trainer.total_training_steps trainer.total_epochs
trainer.save_freq trainer.test_freq trainer.val_before_train trainer.default_local_dir
trainer.max_actor_ckpt_to_keep trainer.logger
"""
VERL_KEYS = set(_OF_VERL.split())
"""Keys of verl/trainer/config/_generated_ppo_trainer.yaml of volcengine/verl, commit b178a3cd, that are written."""
ONE_STEP_OFF = {"rollout.nnodes", "rollout.n_gpus_per_node"}
"""Further keys of verl/experimental/one_step_off_policy/config/one_step_off_ppo_trainer.yaml of that commit."""
OF_HYDRA = {"hydra.searchpath", "defaults"}
_OF_MEGATRON = """
tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size expert_model_parallel_size
expert_tensor_parallel_size param_offload grad_offload optimizer_offload
override_transformer_config.recompute_granularity override_transformer_config.recompute_method
override_transformer_config.recompute_num_layers
"""
MEGATRON_KEYS = {
    f"{part}.megatron.{key}" for part in ("actor_rollout_ref.actor", "critic") for key in _OF_MEGATRON.split()
}
"""Keys of verl/trainer/config/_generated_ppo_megatron_trainer.yaml of the same commit, which has no others of FSDP."""
LAYOUT: dict[str, Any] = {
    "framework": "megatron", "sharding": "zero1", "training_gpus": 16, "tensor_parallel": 2, "pipeline_parallel": 2,
    "context_parallel": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    ("algorithm", "estimator"),
    [("grpo", "grpo"), ("dapo", "grpo"), ("rloo", "rloo"), ("ppo", "gae"), ("reinforce++", "reinforce_plus_plus")],
)
def test_verl_gets_keys_that_it_has_and_the_work_of_the_plan(algorithm: str, estimator: str) -> None:
    """Of each algorithm; a step is counted in prompts, a pass in tokens."""
    plan, scenario = of_algorithm(algorithm)
    run, found = run_of(plan), settings(plan, scenario, "verl")
    assert keys(found) <= VERL_KEYS | OF_HYDRA
    actor, rollout = found["actor_rollout_ref"]["actor"], found["actor_rollout_ref"]["rollout"]
    assert found["algorithm"]["adv_estimator"] == estimator and ("critic" in found) == (algorithm == "ppo")
    assert found["data"]["train_batch_size"] * rollout["n"] == run.sequences and actor["ppo_mini_batch_size"] == 16
    assert actor["ppo_max_token_len_per_gpu"] >= run.micro_batch * (300 + run.longest_output)
    assert actor["fsdp_config"]["optimizer_offload"] == run.offloads and found["trainer"]["total_training_steps"] == 300
    assert found["trainer"]["nnodes"] * found["trainer"]["n_gpus_per_node"] == run.training_gpus


@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
def test_the_layout_of_a_megatron_trainer_is_that_of_verl_and_is_read_back(algorithm: str, tmp_path: Path) -> None:
    """Its strategy and degrees, its own checkpointing, tokens of a GPU; the critic is divided alike."""
    plan, scenario = of_algorithm(algorithm)
    plan = changed(plan, **LAYOUT)
    files = export_rl(choose_rl(plan, scenario, "plan", None), ["verl"], WISHES, "p")
    found = yaml.safe_load(files["verl.yaml"])
    assert keys(found) <= {key for key in VERL_KEYS if "fsdp" not in key} | MEGATRON_KEYS | OF_HYDRA
    actor = found["actor_rollout_ref"]["actor"]
    assert found["defaults"][0] == "ppo_megatron_trainer" and actor["strategy"] == "megatron"
    sizes = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
    assert [actor["megatron"][name] for name in sizes] == [2, 2, 2]
    assert actor["megatron"]["override_transformer_config"]["recompute_granularity"] == "full"
    assert "expert_tensor_parallel_size" not in actor["megatron"], "there are no experts"
    usual = settings(*of_algorithm(algorithm), "verl")["actor_rollout_ref"]["actor"]["ppo_max_token_len_per_gpu"]
    assert actor["ppo_max_token_len_per_gpu"] == -(-usual // 2), "verl counts them times context parallel"
    assert "critic" not in found or found["critic"]["megatron"] == actor["megatron"]
    (tmp_path / "verl.yaml").write_text(files["verl.yaml"])
    back = held(read_training_file(tmp_path / "verl.yaml"))
    degrees = {
        "techniques.tensor_parallel": [2],
        "techniques.pipeline_parallel": [2],
        "techniques.context_parallel": [2],
    }
    wanted = {"framework": ["megatron"], "techniques.activation_checkpointing": ["full"], **degrees}
    assert wanted.items() <= back.items()
    assert planner.read_training_config(tmp_path / "verl.yaml").jobs[0].framework == ("megatron",)


def test_each_expert_is_shared_as_the_plan_counts_it() -> None:
    """By the GPUs of a layer where that and the experts' GPUs divide a stage, else by one."""
    run = run_of(solved()[0])
    for gpus, tensor, expert, wanted in ((16, 2, 8, 2), (8, 2, 8, 1), (8, 2, 1, None)):
        update = {"training_gpus": gpus, "tensor_parallel": tensor, "expert_parallel": expert}
        one = run.model_copy(update={"framework": "megatron", **update})
        layout = Layout(1, 1, 1, 1, gpus, gpus, tensor=tensor, expert=expert)
        assert one.expert_tensor_parallel == wanted and (wanted is None or float(layout.expert_tensor) == wanted)


def test_engines_with_fp8_weights_are_corrected_in_verl_and_read_back(tmp_path: Path) -> None:
    """The option of verl, the probabilities of the engines, and the correction of each token."""
    plan, scenario = solved()
    files = export_rl(choose_rl(changed(plan, rollout_weight_bits=8), scenario, "plan", None), ["verl"], WISHES, "p")
    found = yaml.safe_load(files["verl.yaml"])
    rollout = found["actor_rollout_ref"]["rollout"]
    assert keys(found) <= VERL_KEYS | OF_HYDRA and "corrected token by token" in files["verl.yaml"]
    assert rollout["quantization"] == "fp8" and rollout["calculate_log_probs"]
    assert found["algorithm"]["rollout_correction"] == {"rollout_is": "token"}
    (tmp_path / "verl.yaml").write_text(files["verl.yaml"])
    assert held(read_training_file(tmp_path / "verl.yaml"))["rollout.weight_bits"] == [8]
    assert "quantization" not in settings(plan, scenario, "verl")["actor_rollout_ref"]["rollout"]


def test_engines_one_step_ahead_are_those_of_verl_and_have_machines_of_their_own() -> None:
    """Two tasks: the trainer on demand and the engines on their market, each with its GPUs."""
    plan, scenario = solved("apart", 1)
    run, found = run_of(plan), settings(plan, scenario, "verl")
    assert keys(found) <= VERL_KEYS | ONE_STEP_OFF | OF_HYDRA and not found["actor_rollout_ref"]["hybrid_engine"]
    assert found["rollout"]["nnodes"] * found["rollout"]["n_gpus_per_node"] == run.rollout_gpus
    with pytest.raises(InputError, match=r"--to verl; plan with --set jobs\.math\.staleness=0"):
        settings(plan, scenario, "trl")
    files, left_out = export_all_rl(choose_rl(plan, scenario, "plan", None), WISHES, "plan")
    assert not left_out and len(run.pools) == 2, "the cheapest way of this scenario has two pools"
    tasks = {name: yaml.safe_load(files[name]) for name in ("task.yaml", "rollouts.yaml")}
    for pool, task in zip(run.pools, tasks.values(), strict=True):
        assert list(task["resources"]["accelerators"].split(":"))[1] == str(pool.gpus_per_instance)
        assert task["resources"]["use_spot"] == (pool.market == "spot") and task["num_nodes"] == pool.instances
    assert "one_step_off_policy" in tasks["task.yaml"]["run"] and "ray start --address" in tasks["rollouts.yaml"]["run"]


def test_what_a_lost_engine_costs_more_than_in_the_plan_is_said_where_it_is_started() -> None:
    """In the list and the README, with and without tasks; of engines on demand nowhere."""
    plan, scenario = solved("apart", 1)
    for market, by_task in (("spot", True), ("spot", False), ("on demand", True)):
        first, last = run_of(plan).pools
        pools = (first, last.model_copy(update={"market": market}))
        given = choose_rl(changed(plan, pools=pools), scenario, "plan", None)
        files, _ = export_all_rl(given, WISHES, "plan")
        readme = " ".join(files["README.md"].split())
        kept = [name for name in files if by_task or name not in ("task.yaml", "rollouts.yaml")]
        lines = [line for line in rl_checklist(given, WISHES, "plan", kept).see_to if "a lost machine" in line]
        assert len(lines) == (market == "spot") and ("a lost machine ends the step" in readme) == (market == "spot")
        assert all(("SkyPilot starts a new one" in line) == by_task for line in lines)


def test_engines_that_wait_for_the_trainer_are_a_server_of_trl() -> None:
    """On GPUs of the same machine, or on another machine; verl has no such layout and says so."""
    plan, scenario = solved("apart")
    run = run_of(plan)
    assert run.placement == "one machine"
    with pytest.raises(InputError, match="that wait for the trainer; plan with staleness 1"):
        settings(plan, scenario, "verl")
    script = export_all_rl(choose_rl(plan, scenario, "plan", None), WISHES, "plan")[0]["run.sh"]
    devices = ",".join(str(gpu) for gpu in range(run.training_gpus, run.training_gpus + run.rollout_gpus))
    assert f"CUDA_VISIBLE_DEVICES={devices} trl vllm-serve" in script
    assert '--vllm_server_host "$ROLLOUT_HOST"' in script and f"--data_parallel_size {run.engines} " in script
    (pool,) = run.pools
    two = tuple(pool.model_copy(update={"role": role}) for role in ("training", "rollout"))
    files, _ = export_all_rl(
        choose_rl(changed(plan, placement="apart", pools=two), scenario, "plan", None), WISHES, "p"
    )
    assert "trl vllm-serve" in files["rollouts.sh"] and "trl vllm-serve" not in files["run.sh"]
    assert yaml.safe_load(files["grpo.yaml"])["vllm_mode"] == "server"


@pytest.mark.parametrize(
    ("update", "target", "said"),
    [
        ({"algorithm": "ppo"}, "trl", "TRL has no trainer of ppo: export with --to verl"),
        ({"weight_bits": 8, "method": "lora"}, "trl", "8-bit weights of bitsandbytes"),
        ({"weight_bits": 4, "method": "lora"}, "verl", r"verl has no quant nf4; plan with .*weight_bits=\[16\]"),
        ({"sampled": 768}, "verl", "verl drops no groups .*sampled_per_kept=1"),
        ({"sequences": 250, "sampled": 250}, "trl", "cannot divide 250 answers among"),
        ({"rollout_weight_bits": 8}, "trl", r"TRL samples with 16-bit weights.*rollout\.weight_bits=16"),
        ({"rollout_weight_bits": 8, "method": "lora"}, "verl", "adapters next to engines with fp8 .* not checked"),
        ({"rollout_weight_bits": 8, "placement": "apart", "overlapped": True}, "verl", "cast no weights to fp8"),
        (LAYOUT, "trl", "TRL has no trainer megatron: export with --to verl"),
        ({**LAYOUT, "activation_checkpointing": "offloaded"}, "verl", "Megatron moves no checkpoints"),
        ({**LAYOUT, "sequences": 255, "sampled": 255}, "verl", "cannot divide 255 answers among 2 groups of GPUs"),
        ({"engine": "sglang"}, "trl", "samples with vLLM, and the plan with sglang"),
        ({"optimizer": "adamw_8bit"}, "verl", "verl has no optimizer adamw_8bit"),
        ({}, "axolotl", "axolotl does not run kind rl; --to trl, verl, skypilot"),
    ],
)
def test_what_a_tool_cannot_express_is_refused_by_its_name(update: dict[str, Any], target: str, said: str) -> None:
    """One line, with the setting or the tool that can."""
    plan, scenario = solved()
    with pytest.raises(InputError, match=said):
        settings(changed(plan, **update), scenario, target)


def _refused_with(plan: Plan, scenario: Scenario) -> list[Any]:
    """Return the faults of an export that may choose its tool."""
    with pytest.raises(InputError) as refused:
        export_all_rl(choose_rl(plan, scenario, "plan", None), WISHES, "plan")
    return list(refused.value.faults)


def test_a_plan_that_no_tool_runs_is_exported_with_the_settings_that_are_named() -> None:
    """All that a tool lacks is said at one time, so that its settings together give a plan that it runs."""
    plan, scenario = solved("apart", 1)
    lora = changed(plan, method="lora", rollout_weight_bits=8)
    (fix,) = [fault.fix for fault in _refused_with(lora, scenario) if fault.what.startswith("no tool runs math")]
    settings_of_trl, settings_of_verl = fix.removeprefix("solve again with ").partition(";")[0].split(", or with ")
    assert settings_of_trl.endswith("(for trl)") and settings_of_verl.endswith("(for verl)")
    job = "jobs.math."
    assert shlex.split(settings_of_trl)[1:4:2] == [job + "staleness=0", job + "rollout.weight_bits=16"]
    assert shlex.split(settings_of_verl)[1] == job + "techniques.method=[full]"
    (fix,) = [one.fix for one in _refused_with(changed(plan, engine="sglang"), scenario) if "no tool" in one.what]
    assert fix.count("jobs.math.rollout.engine=vllm") == 2


@pytest.mark.parametrize(
    ("gpus", "updates", "target", "setting"),
    [
        (5, 1, "verl", "prompts=30"),
        (5, 1, "trl", "prompts=30"),
        (8, 64, "trl", "updates=1"),
        (3, 2, "trl", "prompts=30"),
    ],
)
def test_answers_that_gpus_do_not_divide_name_a_number_that_they_do(
    gpus: int, updates: int, target: str, setting: str
) -> None:
    """256 answers, 8 to a prompt: fewer updates are named only where they help, and then alone."""
    plan, scenario = solved()
    (job,) = scenario.jobs
    assert isinstance(job, RlJob)
    work = job.work.model_copy(update={"updates": updates})
    other = scenario.model_copy(update={"jobs": (job.model_copy(update={"work": work}),)})
    with pytest.raises(InputError) as refused:
        settings(changed(plan, training_gpus=gpus), other, target)
    fault = next(fault for fault in refused.value.faults if "cannot divide" in fault.what)
    assert fault.fix == f"plan with --set jobs.math.work.{setting}"
    assert ("updates" in fault.what) == (updates > 1)


def test_verl_without_stale_answers_has_its_engines_on_the_gpus_that_train() -> None:
    """Else the next plan may have engines that wait, for which staleness 1 would be named again."""
    plan, scenario = solved("apart", 1)
    ppo = changed(plan, algorithm="ppo")
    (fix,) = [one.fix for one in _refused_with(ppo, scenario) if "no tool" in one.what]
    assert fix.count("staleness=0") == 1 == fix.count("rollout.placement=colocated") and "(for verl)" in fix


@pytest.mark.long
@pytest.mark.parametrize("name", ["rl-30b-mixture", "rl-32b-dapo"])
def test_a_shipped_plan_that_no_tool_runs_is_run_by_each_tool_with_its_settings(name: str) -> None:
    scenario = planner.read_scenario(name)
    options = SolveOptions(as_of=date(2026, 11, 21))
    fix = _refused_with(solve(scenario, options, explains=False), scenario)[0].fix.removeprefix("solve again with ")
    for way in fix.partition(";")[0].split(", or with "):
        words, _, targets = way.partition(" (for ")
        other = change_scenario(scenario, [word for word in shlex.split(words) if word != "--set"])
        plan = solve(other, options, explains=False)
        for target in targets.removesuffix(")").split(" or "):
            assert settings(plan, other, target)


def test_a_folder_is_whole_and_its_checklist_names_what_is_left(tmp_path: Path) -> None:
    """By the command; the check finds no fault, a field that is changed is one."""
    plan, scenario = solved()
    path, folder = tmp_path / "plan.json", tmp_path / "run"
    path.write_text(plan.model_dump_json())
    words = ["export", str(path), "--all", "--dataset", "math.parquet", "-o", str(folder)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "reward.py: the rule compares the last number" in result.stderr and "$" in result.stderr
    assert not check_folder(str(folder), planner.read_plan(path)).unchecked
    settings_file = next(name for name in ("grpo.yaml", "verl.yaml") if (folder / name).exists())
    text = (folder / settings_file).read_text()
    (folder / settings_file).write_text(text.replace("n: 8\n", "n: 4\n").replace("generations: 8", "generations: 4"))
    with pytest.raises(InputError, match="the plan counts with 8"):
        check_folder(str(folder))
    given = choose_rl(plan, scenario, "plan", None)
    judged = given.asked.model_copy(update={"reward": "judge"})
    rewarded = type(given)(given.plan, given.scenario, given.run, judged, given.card)
    assert any("judge by API" in line for line in rl_checklist(rewarded, WISHES, "plan", ["grpo.yaml"]).see_to)
    refused = CliRunner().invoke(main, ["export", str(path), "--to", "axolotl"])
    assert refused.exit_code == 2 and len(refused.stderr.strip().splitlines()) == 1


def test_the_reward_that_is_written_compares_the_last_number() -> None:
    """As TRL and as verl call it; without the expected answers it says which column is missing."""
    # Run, not imported: an import leaves its compiled form in the folder that the wheel carries.
    written = runpy.run_path(str(data_folder("models") / "exports" / "reward.py"))
    rule_reward, compute_score = written["rule_reward"], written["compute_score"]
    texts = ["so it is 1,024.", "\\boxed{7} of 9", "12", "no number"]
    assert rule_reward(texts, answer=["1024", "7.0", "13", "none"]) == [1.0, 1.0, 0.0, 0.0]
    assert rule_reward([[{"role": "assistant", "content": "= 5"}]], answer=[5]) == [1.0]
    assert compute_score("gsm8k", "the answer is 3", "3", extra_info={}) == 1.0
    with pytest.raises(ValueError, match="no column answer"):
        rule_reward(["1"], prompts=["a"])


def held(found: ToolFile) -> dict[str, Any]:
    return {".".join(map(str, place)): one.value for place, one in found.held.items()}


@pytest.mark.parametrize("algorithm", ["grpo", "dapo", "rloo"])
@pytest.mark.parametrize("target", ["trl", "verl"])
def test_an_exported_file_is_read_back_as_the_same_job(algorithm: str, target: str, tmp_path: Path) -> None:
    """Model, algorithm, steps, answers, updates, lengths and layout; a file of TRL does not know its GPUs."""
    plan, scenario = of_algorithm(algorithm)
    files = export_rl(choose_rl(plan, scenario, "plan", None), [target], WISHES, "plan")
    name = next(name for name in files if name.endswith(".yaml"))
    (tmp_path / name).write_text(files[name])
    found, run = held(read_training_file(tmp_path / name)), run_of(plan)
    wanted = {"kind": "rl", "algorithm": algorithm, "work.steps": 300, "work.answers": 8, "work.updates": 2}
    wanted |= {"work.prompts": 32 // run.training_gpus if target == "trl" else 32, "reference": algorithm != "dapo"}
    wanted |= {"work.longest_output": run.longest_output, "rollout.placement": ["colocated"]}
    assert wanted.items() <= found.items()
    job = planner.read_training_config(tmp_path / name).jobs[0]
    assert job.kind == "rl" and job.architecture == "qwen2.5-1.5b"


TRL = "model_name_or_path: Qwen/Qwen2.5-7B\nnum_generations: 4\nmax_completion_length: 1024\n"
VERL = """
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=gae data.train_batch_size=$BATCH actor_rollout_ref.rollout.n=2 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B data.max_response_length=2048 trainer.total_training_steps=50 \\
    data.train_files=$MISSING
"""
NEMO = """
grpo: {num_prompts_per_step: 32, num_generations_per_prompt: 16, max_num_steps: 1000000, use_dynamic_sampling: false,
  async_grpo: {enabled: true, max_trajectory_age_steps: 2}}
loss_fn: {reference_policy_kl_penalty: 0}
policy: {model_name: Qwen/Qwen2.5-1.5B, train_global_batch_size: 128, max_total_sequence_length: 2048,
  generation: {max_new_tokens: "${policy.max_total_sequence_length}", colocated: {enabled: false},
    vllm_cfg: {precision: fp8}}}
"""
MEGATRON = """
TP=${TP:-4}
python3 -m verl.trainer.main_ppo --config-name='ppo_megatron_trainer.yaml' \\
    algorithm.adv_estimator=grpo data.train_batch_size=64 actor_rollout_ref.rollout.n=8 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B data.max_response_length=2048 \\
    actor_rollout_ref.actor.megatron.tensor_model_parallel_size=${TP} \\
    actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=$PP data.train_files=$MISSING
"""
NEMO_MEGATRON = NEMO.replace(
    "generation:",
    "megatron_cfg: {enabled: true, pipeline_model_parallel_size: 2, activation_checkpointing: true},\n  generation:",
)
OPENRLHF = """
python3 -m openrlhf.cli.train_ppo_ray --pretrain a/b --rollout_batch_size 128 --n_samples_per_prompt 4 \\
   --train_batch_size 256 --advantage_estimator rloo --generate_max_len 1024 --colocate_all_models --zero_stage 3
"""


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("a.yaml", TRL + "use_peft: true\nlora_r: 8\nload_in_4bit: true\n", {"lora.rank": 8, "work.prompts": 2}),
        ("a.yaml", TRL + "generation_batch_size: 256\nvllm_mode: server\n", {"work.prompts": 64}),
        ("a.yaml", TRL + "beta: 0.04\nnormalize_advantages: true\n", {"algorithm": "rloo", "reference": True}),
        ("a.sh", "BATCH=512\n" + VERL, {"algorithm": "ppo", "work.prompts": 512, "work.updates": 2, "work.steps": 50}),
        ("a.yaml", NEMO, {"work.updates": 4, "staleness": 2, "rollout.placement": ["apart"], "reference": False}),
        ("a.yaml", NEMO, {"rollout.weight_bits": [8]}),
        ("a.yaml", NEMO, {"work.longest_output": 1536, "work.steps": 100, "algorithm": "grpo"}),
        ("a.sh", MEGATRON, {"framework": ["megatron"], "techniques.tensor_parallel": [4]}),
        ("a.sh", MEGATRON, {"techniques.context_parallel": [1], "techniques.activation_checkpointing": ["none"]}),
        ("a.yaml", NEMO_MEGATRON, {"framework": ["megatron"], "techniques.pipeline_parallel": [2]}),
        ("a.yaml", NEMO_MEGATRON, {"techniques.tensor_parallel": [1], "techniques.activation_checkpointing": ["full"]}),
        ("a.sh", OPENRLHF, {"algorithm": "rloo", "work.updates": 2, "techniques.sharding": ["zero3"]}),
    ],
)
def test_configurations_of_reinforcement_learning_are_jobs_of_kind_rl(
    name: str, text: str, wanted: dict[str, Any], tmp_path: Path
) -> None:
    """Never supervised fine-tuning; means of lengths, which no file has, are said to be assumed."""
    (tmp_path / name).write_text(text)
    found = read_training_file(tmp_path / name)
    assert "$PP" not in text or "techniques.pipeline_parallel" not in held(found), "what is not known is left open"
    assert ("framework" in held(found)) == ("megatron" in text), "FSDP is what is assumed"
    assert (wanted | {"kind": "rl"}).items() <= held(found).items()
    said = "\n".join(describe(found))
    assert "are assumed" in said and ("$MISSING" not in text or "data.train_files: variables of the shell" in said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TRL.replace("4", "many", 1), "num_generations: many is not a positive whole number"),
        ("actor_rollout_ref: {model: {path: a}}\nalgorithm: {adv_estimator: remax}\n", "no algorithm of a plan"),
    ],
)
def test_what_no_plan_has_of_reinforcement_learning_is_refused_by_its_field(
    text: str, said: str, tmp_path: Path
) -> None:
    """With its line, and what to do."""
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InputError, match=said):
        read_training_file(tmp_path / "a.yaml")


@pytest.mark.parametrize(("name", "what"), [("grpo.py", "a Python script"), ("grpo.ipynb", "a notebook")])
def test_a_program_is_refused_as_what_it_is_with_what_can_be_read(name: str, what: str, tmp_path: Path) -> None:
    """Its text may be YAML, or have the command of a tool in it."""
    path = tmp_path / name
    path.write_text("#!/usr/bin/env python\n# trl grpo --num_generations 8\nfrom trl import GRPOConfig\n")
    with pytest.raises(InputError, match=rf"{name}:1: is {what}: .*trl grpo --config"):
        read_training_file(path)


@pytest.mark.ecosystem
@pytest.mark.parametrize("algorithm", ["grpo", "dapo", "rloo"])
@pytest.mark.parametrize("update", [{}, {"method": "lora", "lora_rank": 32}, {"method": "lora", "weight_bits": 4}])
def test_trl_parses_every_field_of_reinforcement_learning(
    algorithm: str, update: dict[str, Any], tmp_path: Path
) -> None:
    """Checked with trl 1.16.0; unknown keys are errors of its parser, and it derives the batch of a step itself."""
    trl = pytest.importorskip("trl")
    scripts = pytest.importorskip(f"trl.scripts.{'rloo' if algorithm == 'rloo' else 'grpo'}")
    plan, scenario = of_algorithm(algorithm)
    plan = changed(plan, **update)
    files = export_rl(choose_rl(plan, scenario, "plan", None), ["trl"], WISHES, "plan")
    name = next(name for name in files if name.endswith(".yaml"))
    (tmp_path / name).write_text(files[name])
    kind, arguments = ("RLOO", trl.RLOOConfig) if algorithm == "rloo" else ("GRPO", trl.GRPOConfig)
    kinds = (getattr(scripts, f"{kind}ScriptArguments"), arguments, trl.ModelConfig, trl.DatasetMixtureConfig)
    parsed = trl.TrlParser(kinds).parse_args_and_config(args=["--config", str(tmp_path / name), "--use_cpu", "true"])
    run, read = run_of(plan), parsed[1]
    assert read.generation_batch_size * run.training_gpus == run.sequences, "one process parses, all train"
    assert (
        read.num_generations == 8 and read.vllm_mode == "colocate" and parsed[0].reward_funcs == ["reward.rule_reward"]
    )
    peft = trl.get_peft_config(parsed[2])
    assert (peft.r if peft is not None else 0) == (run.lora_rank if run.method == "lora" else 0)

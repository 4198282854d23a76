"""A job of reinforcement learning to the files that run it: TRL with vLLM, verl, and SkyPilot tasks of its pools.

TRL samples and trains in turn: its engines are on the GPUs of the trainer, or one server on other GPUs. verl moves the
states of the trainer to host memory while engines sample, and runs engines on other GPUs one step ahead.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.documents.files import yaml_text
from planner.errors import Fault, InputError, raise_faults
from planner.exports.facts import Wishes, start_facts, technique_facts
from planner.exports.field_map import FieldMap, field_maps, launch_maps, rl_maps
from planner.exports.launchers import (
    GIVE_BACK,
    IDLE_MINUTES,
    SKYPILOT_TASK_VARIABLES,
    TOKEN,
    VARIABLES,
    Checklist,
    hourly_text,
    token_remark,
)
from planner.exports.machine_names import PRICE_MARGIN, command, find_machines, launch_script, missing_fields, slug
from planner.exports.script_parts import (
    commented,
    document,
    environment_lines,
    in_environment,
    shell_word,
    wrapped,
    written_by,
)
from planner.library.reading import is_config_path, read_library
from planner.library.schema import Architecture
from planner.results.plan import Plan
from planner.results.subject_runs import RlPool, RlRun, reward_gpus_words
from planner.scenario.rl_job import CRITIC, REFERENCE, RL_FRAMEWORK, TRAINER_DEGREES, RlJob
from planner.scenario.scenario import Scenario
from planner.units import GB, GIB, round_up

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


TRAINERS = ("trl", "verl")
"""Tools that train and sample, the preferred one first."""
LAUNCHER = "skypilot"
ROLLOUTS, ROLLOUTS_TASK, TASK = "rollouts.sh", "rollouts.yaml", "task.yaml"
SERVER_PORT, RAY_PORT = 8000, 6379
SAVE_SECONDS = 1800.0
"""Between two checkpoints: a lost engine ends a step, and at most so much is done again."""
RUN_TRIES = 20
"""Times that a run goes on after the loss of an engine."""
KL_COEFFICIENT = {"grpo": 0.04, "rloo": 0.05}
"""Weight of the divergence from the reference: arXiv:2402.03300 (4.2), and the default of TRL's RLOOConfig."""
CLIP_HIGH = 0.28
"""Upper bound of DAPO (arXiv:2503.14476, 4.1)."""
_ESTIMATORS = {"grpo": "grpo", "dapo": "grpo", "rloo": "rloo", "ppo": "gae", "reinforce++": "reinforce_plus_plus"}
FOUR_BITS = 4
_TUNINGS = {"grpo": "grpo", "dapo": "grpo", "rloo": "rloo"}


@dataclass(frozen=True)
class GivenRl:
    """A run of a plan, the job that asks for it, and its model."""

    plan: Plan
    scenario: Scenario
    run: RlRun
    asked: RlJob
    card: Architecture

    @property
    def where(self) -> str:
        """Return what faults name."""
        return f"jobs.{self.run.name}"

    @property
    def trainer(self) -> RlPool:
        """Return the machines that train."""
        return self.run.pools[0]

    @property
    def training_machines(self) -> int:
        """Return how many of them train: others are those of a reward model."""
        return self.trainer.instances - self.run.reward_gpus // self.trainer.gpus_per_instance

    @property
    def engines(self) -> RlPool:
        """Return the machines with engines."""
        return self.run.pools[-1]

    @property
    def is_apart(self) -> bool:
        """Whether engines have machines of their own."""
        return len(self.run.pools) > 1


@dataclass(frozen=True)
class Rented:
    """A pool as launchers ask for machines."""

    name: str
    provider: str
    region: str
    instance: str
    gpu: str
    spot_share: float


def choose_rl(plan: Plan, scenario: Scenario, file: str, name: str | None) -> GivenRl:
    """Return the run that is exported; `InputError` where the plan has none, or the scenario not its job."""
    run = next((run for run in plan.reinforcement if name in (None, run.name)), None)
    if run is None:
        raise InputError(
            [Fault(file, 0, "jobs", f"nothing to run: the plan is {plan.status}", "export a feasible one")]
        )
    asked = next((job for job in scenario.jobs if job.name == run.name), None)
    if not isinstance(asked, RlJob):
        raise InputError([Fault(file, 0, "inputs", f"the scenario has no job {run.name} of kind rl", "solve it again")])
    (card,) = read_library([run.architecture]).architectures.values()
    return GivenRl(plan, scenario, run, asked, card)


# Facts, and which tool can express them.


def rl_facts(given: GivenRl, wishes: Wishes, target: str, on_task: bool = False) -> dict[str, Any]:
    """Return what the field map of a trainer needs to know, by name.

    `on_task`: a task launches the files, whose machines mount a folder for checkpoints.
    """
    run, asked, work = given.run, given.asked, given.asked.work
    lora, of_trl = asked.lora, target == "trl"
    quant = {16: "none", 8: "int8", 4: "nf4"}.get(run.weight_bits, f"{run.weight_bits} bits")
    techniques = {
        **{"method": run.method, "weight_bits": run.weight_bits, "quant": quant, "precision": "bf16_mixed"},
        **{"activation_checkpointing": run.activation_checkpointing, "attention": "flash", "optimizer": run.optimizer},
        **{"sharding": run.sharding, "offload": "none", "framework": "hf" if of_trl else run.framework},
        **{name: getattr(run, name) for name in TRAINER_DEGREES},
        **{"lora_rank": run.lora_rank, "lora_targets": lora.targets if run.method == "lora" else None},
    }
    longest_prompt = _longest_prompt(given)
    facts = technique_facts(techniques, asked, given.card, run.gpu, 1, wishes.dataset)
    folder = f"/checkpoints/{slug(run.name)}" if on_task else f"out/{slug(run.name)}"
    facts |= {
        **{"tuning": _TUNINGS.get(run.algorithm, run.algorithm) if of_trl else "sft", "algorithm": run.algorithm},
        **start_facts(run.name, given.scenario, given.card, wishes),
        **{"output_dir": folder, "result": None},
        **{"gpus": run.training_gpus, "instances": given.training_machines, "cuts_samples": False},
        **{"several_machines": given.trainer.instances > 1, "hybrid_variables": "", "sequence_length": None},
        **{"multi_gpu": "--multi_gpu" if run.training_gpus > 1 else "", "lora_alpha": 2 * run.lora_rank},
        **{"gathered_gb": math.ceil(given.card.parameters * 8 / GB), "saves": True, "save_weights_only": False},
        **{"save_limit": 2, "placement": run.placement, "overlapped": run.overlapped, "offloads": run.offloads},
        **{"several_ahead": run.staleness > 1, "criticises": run.algorithm in CRITIC, "seats": run.seats},
        **{"prompts": work.prompts, "answers": work.answers, "longest_output": run.longest_output},
        **{"longest_prompt": longest_prompt, "gpus_per_engine": run.gpus_per_engine, "server_port": None},
        **{"engine_weights": run.engine_weights, "rollout_engine": run.engine},
        **_of_reward(given),
        **_of_algorithm(given),
    }
    facts |= _trl_facts(given, longest_prompt) if of_trl else _verl_facts(given, longest_prompt)
    facts["recipe"] = _recipe(facts)
    if facts["engine"] == "deepspeed":
        facts["deepspeed_config"] = field_maps()["deepspeed"].settings({**facts, "tuning": "sft", "global_batch": 1})
    return facts


def _of_reward(given: GivenRl) -> dict[str, Any]:
    """Return what scores the answers, and where; no plan knows the weights of a reward model but by its folder."""
    run, per_machine = given.run, given.trainer.gpus_per_instance
    return {
        **{"scores": "model" if run.reward_model else "rule", "reward_offloads": run.reward_offloads},
        **{"reward_gpus": run.reward_gpus, "rewards_per_node": min(run.reward_gpus, per_machine)},
        "reward_nodes": max(run.reward_gpus // per_machine, 1),
        "reward_model_id": os.path.dirname(run.reward_model) if is_config_path(run.reward_model) else None,
    }


def _recipe(facts: Mapping[str, Any]) -> str:
    """Return what must be equal for a run to go on from a checkpoint, in one line."""
    names = ("model_id", "dataset_path", "algorithm", "method", "lora_rank", "prompts", "answers", "longest_output")
    return "; ".join(f"{name}={facts[name]}" for name in (*names, "steps") if facts[name] is not None)


def _longest_prompt(given: GivenRl) -> int:
    """Return the tokens that a prompt may have: twice the mean, in steps of 128, as far as the context reaches."""
    wanted = 128 * math.ceil(2 * given.asked.work.input_tokens / 128)
    return max(min(wanted, given.card.max_sequence - given.run.longest_output), 1)


def _of_algorithm(given: GivenRl) -> dict[str, Any]:
    """Return what the algorithm is called, and the weights that the plan does not decide."""
    name = given.run.algorithm
    compares = given.asked.reference if given.asked.reference is not None else REFERENCE[name]
    return {
        "loss_type": None if name == "rloo" else name,
        "kl_coefficient": KL_COEFFICIENT.get(name, 0.0) if compares else 0.0,
        "clip_high": CLIP_HIGH if name == "dapo" else None,
        "adv_estimator": _ESTIMATORS[name],
        "kl_loss": compares and name == "grpo",
        "kl_in_reward": compares and name != "grpo",
    }


def _trl_facts(given: GivenRl, longest_prompt: int) -> dict[str, Any]:
    """Return batches as TRL counts them, of answers, and engines on the GPUs of the trainer where they are there."""
    run, updates = given.run, given.asked.work.updates
    micro = trl_micro_batch(run, updates)
    passes = run.sequences // (micro * run.training_gpus)
    colocated = run.placement == "colocated"
    length = longest_prompt + run.longest_output
    every = max(1, round(SAVE_SECONDS / run.step_seconds))
    return {
        **{"micro_batch": micro, "steps_per_generation": passes, "accumulation_steps": max(passes // updates, 1)},
        # Tools count those of a resumed run from its beginning.
        **{"steps": (run.steps_before + run.steps) * updates, "steps_before": run.steps_before * updates},
        **{"save_steps": every * updates, "global_batch": run.sequences // updates},
        "vllm_mode": "colocate" if colocated else "server",
        "colocated_parallel": run.gpus_per_engine if colocated else None,
        "colocated_share": trl_share(given)[0] if colocated else None,
        "colocated_sleeps": True if colocated else None,
        "colocated_length": length if colocated else None,
        "server_port": None if colocated else SERVER_PORT,
    }


def trl_micro_batch(run: RlRun, updates: int) -> int:
    """Return the answers of one pass on a GPU: as many as the plan has, or fewer that divide those of an update.

    0 where an update cannot be divided among the GPUs.
    """
    per_gpu, rest = divmod(run.sequences, updates * run.training_gpus)
    return 0 if rest else next(size for size in range(min(run.micro_batch, per_gpu), 0, -1) if per_gpu % size == 0)


def trl_share(given: GivenRl) -> tuple[float, int]:
    """Return the share of a GPU for an engine next to the trainer, and the answers that it then works on at a time.

    TRL keeps the states of the trainer on the GPU; of a plan that moves them to host memory they take from the cache.
    Next to a 4-bit base its engine has 4-bit weights, too (generation/vllm_generation.py), and the plan 16-bit ones.
    """
    run = given.run
    sampling, training = (
        next(phase for phase in run.memory if phase.phase == name) for name in ("rollout", "training")
    )
    kept = run.host_gb * GB / GIB / given.trainer.gpus_per_instance if run.offloads else 0.0
    cache, saved = sampling.parts.get("kv_cache", 0.0), 0.0
    if run.weight_bits == FOUR_BITS:
        saved = max(sampling.parts.get("weights", 0.0) - training.parts.get("weights", 0.0), 0.0)
    seats = math.floor(run.seats * min(max(cache + saved - kept, 0.0) / cache, 1.0)) if cache else 0
    gpu = read_library([]).gpu(given.engines.gpu)
    return max(math.floor(100 * (sampling.peak - kept) / gpu.vram_gib) / 100, 0.01), seats


def _verl_facts(given: GivenRl, longest_prompt: int) -> dict[str, Any]:
    """Return batches as verl counts them, of prompts and of tokens, and the machines of both sides."""
    run, work = given.run, given.asked.work
    gpu = read_library([]).gpu(given.engines.gpu)
    peak = next(phase.peak for phase in run.memory if phase.phase == "rollout")
    whole = longest_prompt + run.longest_output
    tokens = max(run.micro_batch * math.ceil(work.input_tokens + run.longest_output), whole)
    divided = given.training_machines * given.trainer.gpus_per_instance > run.training_gpus
    program = "verl.experimental.one_step_off_policy.main_ppo" if run.overlapped else "verl.trainer.main_ppo"
    return {
        **{"steps": run.steps_before + run.steps, "steps_before": run.steps_before},
        **{"verl_program": program, "global_batch": run.sequences},
        **{"prompts_per_update": work.prompts // work.updates, "micro_batch": run.micro_batch},
        "tokens_per_gpu": math.ceil(tokens / run.context_parallel),
        "verl_defaults": "ppo_trainer" if run.framework == RL_FRAMEWORK else "ppo_megatron_trainer",
        "verl_strategy": "fsdp2" if run.framework == RL_FRAMEWORK else run.framework,
        "expert_tensor_parallel": run.expert_tensor_parallel,
        "engine_memory_share": max(math.floor(100 * peak / gpu.vram_gib) / 100, 0.01),
        "trainers_per_node": run.training_gpus if divided else given.trainer.gpus_per_instance,
        "rollout_nodes": given.engines.instances,
        "engines_per_node": run.rollout_gpus if run.placement == "one machine" else given.engines.gpus_per_instance,
        "save_steps": max(1, round(SAVE_SECONDS / run.step_seconds)),
    }


def _tool(given: GivenRl, target: str) -> FieldMap:
    if target == "verl":
        return rl_maps()["verl"]
    return field_maps()["trl"].of({"tuning": _TUNINGS.get(given.run.algorithm, "grpo")})


def rl_faults(given: GivenRl, wishes: Wishes, target: str, file: str) -> list[Fault]:
    """Return a fault for each thing that a trainer cannot express of the run, with the setting that it can."""
    faults = list[Fault]()
    for problem, setting in _refusals(given, wishes, target):
        is_said = any(f"{mark} plan with" in problem for mark in ":;")  # as texts of the maps do
        fix = f"plan with {_set(given, setting)}" if setting and not is_said else ""
        faults.append(Fault(file, 0, given.where, problem, fix))
    return faults


def _set(given: GivenRl, setting: str) -> str:
    """Return the option that changes a setting of the job."""
    return f"--set {shell_word(f'{given.where}.{setting}')}"


def _refusals(given: GivenRl, wishes: Wishes, target: str) -> list[tuple[str, str]]:
    """Return what a trainer cannot express of the run, and the setting of the job with which it can."""
    run, work, tool = given.run, given.asked.work, _tool(given, target)
    refused = []
    if run.sampled > run.sequences:
        refused.append(("drops no groups of answers with equal rewards", "work.sampled_per_kept=1"))
    if target == "trl" and run.engine != "vllm":
        refused.append(
            (f"samples with vLLM, and the plan with {run.engine}: export with --to verl", "rollout.engine=vllm")
        )
    updates = work.updates if target == "trl" else 1
    is_divided = not run.sequences % (run.training_ranks * updates)
    if not is_divided:
        refused.append(_not_divided(given, updates))
    elif work.prompts % work.updates and target == "verl":
        refused.append((f"cannot divide {work.prompts} prompts among {work.updates} updates", "work.updates=1"))
    if target == "verl" and wishes.dataset and not wishes.dataset.endswith(".parquet"):
        refused.append((f"reads data of Parquet files, not {wishes.dataset}: convert it", ""))
    if target == "trl":
        refused += _trl_refusals(given)
    refusals = [(f"{tool.label} {problem}", fix) for problem, fix in refused]
    if not is_divided or (target == "trl" and run.algorithm not in _TUNINGS):
        return refusals
    settings = {f"{tool.label}: {row.text}": row.setting for row in tool.refused}
    for technique, why, values in tool.refusals(rl_facts(given, wishes, target)):
        field, able = ("weight_bits", ["16"]) if technique == "quant" else (technique, [*map(str, values)])
        refusals.append((why, f"techniques.{field}=[{', '.join(able)}]" if technique else settings.get(why, "")))
    return refusals


def _not_divided(given: GivenRl, updates: int) -> tuple[str, str]:
    """Return that the answers of each of some updates cannot be divided among the GPUs, and the least change."""
    run, work = given.run, given.asked.work
    ranks = f"{run.training_ranks} {'GPUs' if run.gpus_per_copy == 1 else 'groups of GPUs'}"
    problem = f"cannot divide {run.sequences:,} answers among {ranks}{f' and {updates} updates' if updates > 1 else ''}"
    if updates > 1 and not run.sequences % run.training_ranks:
        return problem, "work.updates=1"
    parts = math.lcm(run.training_ranks * updates, work.answers * work.updates)  # verl divides prompts among updates
    prompts = parts // work.answers
    return problem, f"work.prompts={prompts * max(round(work.prompts / prompts), 1)}"


def _no_tool(given: GivenRl, wishes: Wishes, file: str) -> list[Fault]:
    """Return that no tool runs the plan, with the settings that mend all that each tool lacks, where they are known.

    No promise: the next plan may have other GPUs, and is checked anew.
    """
    by_options: dict[str, list[str]] = {}
    for target in TRAINERS:
        settings = dict.fromkeys(fix for _, fix in _refusals(given, wishes, target))
        if target == "verl" and "staleness=0" in settings and "apart" in given.asked.rollout.placement:
            settings["rollout.placement=colocated"] = None  # its engines on other GPUs are a step ahead
        if all(settings):
            by_options.setdefault(" ".join(_set(given, setting) for setting in settings), []).append(target)
    ways = [f"{options} (for {' or '.join(targets)})" for options, targets in by_options.items()]
    fix = f"solve again with {', or with '.join(ways)}; another plan may lack something else"
    return [Fault(file, 0, "jobs", f"no tool runs {given.run.name} as it is planned", fix)] if ways else []


def _trl_refusals(given: GivenRl) -> list[tuple[str, str]]:
    """Return what TRL does not do, and the setting of the job that it does."""
    run, refusals = given.run, list[tuple[str, str]]()
    if run.framework != RL_FRAMEWORK:
        refusals.append((f"has no trainer {run.framework}: export with --to verl", f"framework={RL_FRAMEWORK}"))
    if run.algorithm not in _TUNINGS:
        refusals.append((f"has no trainer of {run.algorithm}: export with --to verl", ""))
    if run.overlapped:
        refusals.append(("samples and trains in turn, and the plan samples a step ahead: --to verl", "staleness=0"))
    if run.rollout_weight_bits < 16:
        problem = "samples with 16-bit weights, and the plan with fp8: export with --to verl"
        refusals.append((problem, "rollout.weight_bits=16"))
    if given.is_apart and given.engines.instances > 1:
        refusals.append((f"asks one machine for answers, and the plan has {given.engines.instances} with engines", ""))
    if run.reward_gpus:
        problem = "scores on the GPUs that train, and the plan has others for it: export with --to verl"
        refusals.append((problem, "reward.placement=shared"))
    if run.reward_offloads:
        problem = "keeps a reward model on the GPUs, and the plan in host memory: export with --to verl"
        refusals.append((problem, "reward.offload=false"))
    if run.placement == "colocated" and not trl_share(given)[1]:
        problem = "keeps the states of the trainer on the GPU, next to which no engine has room: export with --to verl"
        refusals.append((problem, ""))
    return refusals


def _chosen(given: GivenRl, wishes: Wishes, file: str, asked: Sequence[str] = ()) -> str:
    """Return the trainer: the one asked for, the first that runs the plan as it is, or the first that runs it."""
    if asked:
        return asked[0]
    faults = {target: rl_faults(given, wishes, target, file) for target in TRAINERS}
    able = [target for target in TRAINERS if not faults[target]]
    if not able:
        raise InputError([*(fault for of_tool in faults.values() for fault in of_tool), *_no_tool(given, wishes, file)])
    exact = [target for target in able if target != "trl" or not given.run.offloads]
    return (exact or able)[0]


# Files.


def export_rl(given: GivenRl, targets: Sequence[str], wishes: Wishes, file: str) -> dict[str, str]:
    """Return the files of the targets by name, without targets those of a trainer; `InputError` for what cannot be."""
    other = next((name for name in targets if name not in (*TRAINERS, LAUNCHER)), None)
    if other is not None:
        known = ", ".join((*TRAINERS, LAUNCHER))
        raise InputError([Fault(file, 0, given.where, f"{other} does not run kind rl", f"--to {known}, or --all")])
    asked = [name for name in targets if name in TRAINERS]
    on_task, texts = LAUNCHER in targets, dict[str, str]()
    for target in asked or ([] if targets else [_chosen(given, wishes, file)]):
        raise_faults(rl_faults(given, wishes, target, file))
        facts = rl_facts(given, wishes, target, on_task)
        texts |= {_tool(given, target).file: _settings(given, target, facts), **_tool(given, target).files_of(facts)}
    if on_task:
        target = _chosen(given, wishes, file, asked)
        raise_faults(rl_faults(given, wishes, target, file))
        texts |= _tasks(given, target, rl_facts(given, wishes, target, on_task))
    return texts


def export_all_rl(
    given: GivenRl, wishes: Wishes, file: str, asked: Sequence[str] = ()
) -> tuple[dict[str, str], list[str]]:
    """Return the files of a folder to launch from, and what is left out of it and why."""
    target = _chosen(given, wishes, file, [name for name in asked if name in TRAINERS])
    texts, left_out = export_rl(given, [target], wishes, file), list[str]()
    facts = rl_facts(given, wishes, target)
    try:
        texts |= export_rl(given, [target, LAUNCHER], wishes, file)
        facts = rl_facts(given, wishes, target, on_task=True)
    except InputError as error:
        left_out.append(f"{TASK} is left out: {error.faults[0].what}")
    texts["run.sh"] = _script(given, target, facts, _trainer_lines(given, target, facts))
    if given.is_apart:
        texts[ROLLOUTS] = _script(given, target, facts, _engine_lines(given, target, facts))
    texts["requirements.txt"] = "".join(f"{package}\n" for package in _packages(given, target, facts))
    texts["README.md"] = _readme(given, target, facts, sorted(texts))
    return texts, left_out


def _packages(given: GivenRl, target: str, facts: Mapping[str, Any]) -> list[str]:
    """Return what is installed; vLLM brings a PyTorch of its own, so that none is named."""
    packages = _tool(given, target).packages_of(facts)
    return [package for package in packages if package != "trl==1.16.0" and "[kernels]" not in package]


def _head(given: GivenRl, target: str, run: str, remarks: Sequence[str]) -> str:
    """Return the comment at the top of a file: the plan, machines, what is expected, how to run it."""
    made, tool = given.run, _tool(given, target)
    versions = ", ".join(f"{package} {version}" for package, version in tool.checked.items())
    pools = " and ".join(
        f"{pool.instances} x {pool.gpus_per_instance} {pool.gpu} at {pool.provider} ({pool.market}) for {pool.role}"
        for pool in made.pools
    )
    if made.placement == "one machine":
        pools += f", {made.training_gpus} and {made.rollout_gpus} GPUs"
    pools += reward_gpus_words(made.reward_gpus)
    phases = ", ".join(f"{name.replace('_', ' ')} {seconds:.3g} s" for name, seconds in made.phases.items() if seconds)
    lines = [
        f"Job {made.name} of plan {given.plan.scenario}, for {tool.label} {tool.version} (fields of {versions}).",
        written_by(given.plan),
        f"Machines: {pools}.",
        f"Expected: {made.steps:,} steps of {made.step_seconds:.3g} s ({phases}), likely {made.hours.expected:.1f} h, "
        f"by {round_up(made.hours.at_confidence, 1):.1f} h, ${made.cost_usd:,.2f}.",
        *([f"Run: {run}"] if run else []),
    ]
    return commented(wrapped([*lines, *(f"Note: {remark}" for remark in remarks)]))


def _remarks(given: GivenRl, target: str, facts: Mapping[str, Any]) -> list[str]:
    """Return where the run differs from the plan, or rests on what the plan does not know."""
    run, remarks = given.run, list(_tool(given, target).remarks(facts))
    remarks += _resumes(facts)
    if target == "trl" and run.placement == "colocated" and run.offloads:
        remarks.append(
            "the plan moves the states of the trainer to host memory while engines sample, and TRL does not: an "
            f"engine has room for {trl_share(given)[1]:,} answers at a time in place of {run.seats:,}, and rollouts "
            "may be slower"
        )
    if target == "trl" and run.placement == "colocated" and run.weight_bits == FOUR_BITS:
        remarks.append("engines have 4-bit weights there, where the plan counts 16-bit ones: rollouts may be slower")
    if target == "trl" and facts["micro_batch"] != run.micro_batch:
        remarks.append(
            f"{facts['micro_batch']} answers in a pass in place of {run.micro_batch}, which do not divide a step"
        )
    remarks.append(
        f"prompts of more than {facts['longest_prompt']:,} tokens are not trained on: leave them out of the data"
    )
    return remarks


def _resumes(facts: Mapping[str, Any]) -> list[str]:
    """Return where the checkpoint of a run that goes on must be."""
    before = facts["steps_before"]
    return [f"it goes on after step {before:,}: have its checkpoint in {facts['output_dir']}"] if before else []


def _settings(given: GivenRl, target: str, facts: dict[str, Any]) -> str:
    """Return the file of settings of a trainer; what the plan does not decide is written as comments."""
    tool = _tool(given, target)
    settings = tool.settings(facts)
    run = "" if facts["instances"] > 1 else command(tool, {**facts, "resume": ""})
    text = _head(given, target, run, _remarks(given, target, facts)) + yaml_text(settings)
    missing = _missing(given, target, settings)
    if missing:
        text += "\n" + commented(f"{field}:  # required: {option}" for field, option in missing.items())
    text += "\n# Not decided by the plan; these are usual.\n" + commented(yaml_text(tool.defaults).splitlines())
    return text


REWARD_FIELDS = {"trl": "reward_model_name_or_path", "verl": "reward_model.model.path"}
"""The field of a reward model's weights."""


def _missing(given: GivenRl, target: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields that a tool needs and a file does not have yet, each with what gives it."""
    missing = missing_fields(_tool(given, target), settings)
    if given.run.reward_model and not is_config_path(given.run.reward_model):
        missing[REWARD_FIELDS[target]] = f"your reward model, which was planned as {given.run.reward_model}"
    return missing


# Scripts.


def _server(given: GivenRl, facts: Mapping[str, Any]) -> str:
    """Return the command of TRL's server of answers."""
    run = given.run
    peak = next(phase.peak for phase in run.memory if phase.phase == "rollout")
    share = math.floor(100 * peak / read_library([]).gpu(given.engines.gpu).vram_gib) / 100
    words = {
        **{"model": facts["model_id"] or "${MODEL:?repository or folder of the weights}"},
        **{"tensor_parallel_size": run.gpus_per_engine, "data_parallel_size": run.engines},
        **{"gpu_memory_utilization": share, "max_model_len": facts["longest_prompt"] + run.longest_output},
        "port": SERVER_PORT,
    }
    quoted = (f"--{key} {value if str(value).startswith('$') else shell_word(value)}" for key, value in words.items())
    return f"trl vllm-serve {' '.join(quoted)} --max-num-seqs {run.seats}"


def _gpu_list(first: int, count: int) -> str:
    return ",".join(map(str, range(first, first + count)))


def _wait_for(host: str) -> str:
    return f'until curl -sf "http://{host}:{SERVER_PORT}/health/" > /dev/null; do sleep 5; done'


def _trainer_lines(given: GivenRl, target: str, facts: dict[str, Any]) -> list[str]:
    """Return the lines that train; of engines on the same machine that start them too."""
    return _verl_lines(given, facts) if target == "verl" else _trl_lines(given, facts)


def _trl_lines(given: GivenRl, facts: dict[str, Any]) -> list[str]:
    run, tool = given.run, _tool(given, "trl")
    lines = list[str]()
    if run.placement == "one machine":
        devices = _gpu_list(run.training_gpus, run.rollout_gpus)
        lines += [f"CUDA_VISIBLE_DEVICES={devices} {_server(given, facts)} &", "SERVER=$!"]
        lines += ["trap 'kill \"$SERVER\"' EXIT", _wait_for("127.0.0.1")]
        lines += ["export ROLLOUT_HOST=127.0.0.1", f"export CUDA_VISIBLE_DEVICES={_gpu_list(0, run.training_gpus)}"]
    if given.is_apart:
        lines += [': "${ROLLOUT_HOST:?address of the machine with the engines}"', _wait_for("$ROLLOUT_HOST")]
    if run.placement != "colocated":
        host = ' --vllm_server_host "$$ROLLOUT_HOST"'
        tool = tool.model_copy(update={"run": tool.run + host, "launch": tool.launch + host})
    return [*lines, *launch_script(tool, facts, VARIABLES).removeprefix("set -e\n").rstrip().splitlines()]


def _verl_lines(given: GivenRl, facts: dict[str, Any]) -> list[str]:
    """Return the lines that train with verl: on one machine by itself, on several as the first of a Ray cluster."""
    run = given.run
    start = command(rl_maps()["verl"], {**facts, "resume": ""})
    machines = sum(pool.instances for pool in run.pools)
    if machines == 1:
        return [start]
    gpus = sum(pool.gpus for pool in run.pools)
    ready = f'import ray; ray.init(); raise SystemExit(ray.cluster_resources().get("GPU", 0) < {gpus})'
    wait = f"until python3 -c {shell_word(ready)} 2> /dev/null; do sleep 10; done"
    lines = list[str]()
    if given.trainer.instances > 1:
        lines += [
            'if [ "${NODE_RANK:?number of this machine, from 0}" != 0 ]; then',
            f'  ray start --address "${{HEAD_IP:?address of machine 0}}:{RAY_PORT}" --block || true',
            "  exit 0",
            "fi",
        ]
    return [
        *lines,
        f"export RAY_ADDRESS=127.0.0.1:{RAY_PORT}",
        f"ray status > /dev/null 2>&1 || env -u RAY_ADDRESS ray start --head --port {RAY_PORT}",
        f"# Waits for the {gpus} GPUs of {machines} machines; a run that ends early goes on from its last checkpoint.",
        wait,
        "tries=0",
        f"until {start}; do",
        f'  tries=$((tries + 1)); [ "$tries" -lt {RUN_TRIES} ] || exit 1',
        f"  {wait}",
        "done",
        "ray stop",
    ]


def _engine_lines(given: GivenRl, target: str, facts: Mapping[str, Any]) -> list[str]:
    """Return the lines of a machine that has engines alone."""
    if target == "trl":
        return [f"exec {_server(given, facts)}"]
    return [f'ray start --address "${{HEAD_IP:?address of the first machine that trains}}:{RAY_PORT}" --block']


def _script(given: GivenRl, target: str, facts: Mapping[str, Any], lines: Sequence[str]) -> str:
    """Return a script for one machine with its environment."""
    of_engines = list(lines) == _engine_lines(given, target, facts)
    name = ROLLOUTS if of_engines else "run.sh"
    body = [
        "set -euo pipefail",
        'cd "$(dirname "$0")"',
        *environment_lines(slug(given.run.name)),
        "pip install -r requirements.txt",
        *lines,
    ]
    remarks = ["vLLM brings a PyTorch of its own: no image and no version is named"]
    if given.is_apart:
        remarks.append(_meeting(given, target))
    text = _head(given, target, f"bash {name}", remarks)
    return "#!/usr/bin/env bash\n" + text + "\n".join(body) + "\n"


def _meeting(given: GivenRl, target: str) -> str:
    """Return how the two pools find each other."""
    if target == "trl":
        ports = f"{SERVER_PORT} and 51216"
        how = "ROLLOUT_HOST of the machine that trains is the address of the one with engines"
    else:
        ports, how = f"{RAY_PORT} and those of Ray's workers", "HEAD_IP of the machines with engines is the trainer"
    places = {pool.provider for pool in given.run.pools}
    needs = " (at two providers that takes a VPN, or addresses that both sides reach)" if len(places) > 1 else ""
    return f"the two pools reach each other at the ports {ports}{needs}; {how}"


# SkyPilot.


def _tasks(given: GivenRl, target: str, facts: dict[str, Any]) -> dict[str, str]:
    """Return the tasks of the pools by file; `InputError` for a provider or GPU that SkyPilot does not rent."""
    name, ranks = slug(given.run.name), list[str]()
    if given.trainer.instances > 1:
        ranks = [f"{variable}={value}" for variable, value in SKYPILOT_TASK_VARIABLES.items()]
        ranks.append(f"export {' '.join(SKYPILOT_TASK_VARIABLES)}")
    lines = [*ranks, *_trainer_lines(given, target, facts)]
    envs = {"ROLLOUT_HOST": None} if given.is_apart and target == "trl" else {}
    tasks = {TASK: _task(given, target, facts, given.trainer, lines, envs, f"sky launch -c {name} {TASK}")}
    if given.is_apart:
        engines = _engine_lines(given, target, facts)
        is_spot = given.engines.market == "spot"
        start = f"sky jobs launch --env HEAD_IP=$(sky status --ip {name}) {ROLLOUTS_TASK}"
        if target == "trl":
            start = f"sky launch -c {name}-rollouts {ROLLOUTS_TASK}"
        elif not is_spot:
            start = f"sky launch -c {name}-rollouts --env HEAD_IP=$(sky status --ip {name}) {ROLLOUTS_TASK}"
        envs = {"HEAD_IP": None} if target == "verl" else {}
        tasks[ROLLOUTS_TASK] = _task(given, target, facts, given.engines, engines, envs, start)
    return tasks


def _task(
    given: GivenRl,
    target: str,
    facts: Mapping[str, Any],
    pool: RlPool,
    lines: Sequence[str],
    envs: Mapping[str, Any],
    start: str,
) -> str:
    """Return the task of one pool: its machines on its market, packages, and the lines that it runs."""
    on_spot, name = pool.market == "spot", slug(given.run.name)
    of_engines = given.is_apart and pool is given.engines
    rented = Rented(given.run.name, pool.provider, pool.region, pool.instance, pool.gpu, 0.0)
    machines = find_machines(given.scenario, rented, launch_maps()[LAUNCHER])
    price = machines.spot_usd_per_hour if on_spot else machines.usd_per_hour
    places = [f"{machines.provider}/{region}" if region else machines.provider for region in machines.regions]
    most = {"max_hourly_cost": round(PRICE_MARGIN * price, 2)} if price is not None else {}
    choices = [{"infra": place, "use_spot": on_spot, **most} for place in places]
    resources: dict[str, Any] = {"accelerators": f"{machines.gpu}:{pool.gpus_per_instance}"}
    resources |= {"any_of": choices} if len(choices) > 1 else choices[0]
    if of_engines and target == "trl":
        resources["ports"] = [str(SERVER_PORT), "51216"]
    elif given.is_apart and target == "verl" and not of_engines:
        resources["ports"] = [str(RAY_PORT)]
    resources["autostop"] = {"idle_minutes": IDLE_MINUTES, "down": True}
    installs = f"pip install {' '.join(map(shell_word, _packages(given, target, facts)))}"
    task: dict[str, Any] = {
        "name": f"{name}-rollouts" if of_engines else name,
        "workdir": ".",
        "num_nodes": pool.instances,
        "resources": resources,
        **({} if of_engines else {"file_mounts": {"/checkpoints": {"name": f"checkpoints-{name}", "mode": "MOUNT"}}}),
        **({"envs": dict(envs)} if envs else {}),
        **({"secrets": {TOKEN: None}} if facts["needs_token"] else {}),
        "setup": in_environment(name, installs),
        "run": in_environment(name, *lines).removesuffix("\n"),
    }
    remarks = [f"the highest price is {100 * (PRICE_MARGIN - 1):.0f} % above that of the plan"]
    if not of_engines:
        remarks.append(f"the bucket checkpoints-{name} is made in a store that sky check lists: S3, GCS, R2, ...")
    if given.is_apart:
        remarks.append(_meeting(given, target))
        remarks.append("start the engines first" if target == "trl" else "start the trainer first")
    if of_engines and on_spot:
        remarks.append(_lost(target, by_task=True))
    if target == "trl" and given.is_apart and not of_engines:
        start = f"sky launch -c {name} --env ROLLOUT_HOST=$(sky status --ip {name}-rollouts) {TASK}"
    return _head(given, target, start + (f" --secret {TOKEN}" if facts["needs_token"] else ""), remarks) + yaml_text(
        task
    )


def _lost(target: str, by_task: bool) -> str:
    """Return what happens when machines with engines on spot are lost, which tasks start again."""
    if target == "trl":
        return "when the machine is lost, the trainer ends: start both sides again, it goes on from its last checkpoint"
    return (
        "a lost machine ends the step, where the plan goes on with the others and loses unfinished answers alone: "
        f"{'SkyPilot starts' if by_task else 'start'} a new one, and the trainer goes on from its last checkpoint when "
        "all GPUs are there; hours and dollars may be above those of the plan"
    )


def _losses(given: GivenRl, target: str, files: Collection[str]) -> list[str]:
    """Return the same where engines are on spot, for those who start the files."""
    is_lost = given.is_apart and given.engines.market == "spot"
    return [f"engines on spot: {_lost(target, ROLLOUTS_TASK in files)}"] if is_lost else []


# What the files leave to a person.


def rl_checklist(given: GivenRl, wishes: Wishes, file: str, files: Collection[str]) -> Checklist:
    """Return what the files need, leave to a person, and cost."""
    target = next((name for name in TRAINERS if _tool(given, name).file in files), None)
    target = target or _chosen(given, wishes, file)
    tool, facts = _tool(given, target), rl_facts(given, wishes, target, on_task=TASK in files)
    scripts = [name for name in ("run.sh", ROLLOUTS, TASK, ROLLOUTS_TASK) if name in files]
    needs = [tool.file, *tool.files_of(facts)] if scripts else []
    missing = _missing(given, target, tool.settings(facts))
    see_to = [f"{tool.file}: {field}: {option}" for field, option in missing.items()]
    see_to += facts["start_remarks"]
    see_to += _resumes(facts)
    if facts["criticises"] and facts["model_id"] is None:
        see_to.append("the critic: critic.model.path: as actor_rollout_ref.model.path")
    if not given.run.reward_model:
        remark = "reward.py: the rule compares the last number of an answer: write your own where the task is another"
        see_to.append(remark)
    if given.asked.reward != "rule" and not given.run.reward_model:
        see_to.append("reward.py: the plan pays a judge by API for each answer: call it there")
    if given.is_apart and scripts:
        see_to.append(f"network: {_meeting(given, target)}")
    see_to += _losses(given, target, files)
    if facts["needs_token"] and scripts:
        see_to.append(f"{TOKEN}: {token_remark(facts['model_id'])}")
    name, usd = slug(given.run.name), sum(pool.usd_per_hour for pool in given.run.pools)
    stops = [f"sky down {name}"] if TASK in files else []
    if ROLLOUTS_TASK in files:
        by_jobs = target == "verl" and given.engines.market == "spot"
        stops.append(f"sky jobs cancel -n {name}-rollouts" if by_jobs else f"sky down {name}-rollouts")
    return Checklist(tuple(needs), tuple(see_to), (hourly_text(f"${usd:,.2f}", stops),))


def _readme(given: GivenRl, target: str, facts: Mapping[str, Any], files: Sequence[str]) -> str:
    """Return what the folder is, what must be filled in, how to start both sides, and what an hour costs."""
    run, tool = given.run, _tool(given, target)
    usd = sum(pool.usd_per_hour for pool in run.pools)
    columns = "prompt and answer" if target == "trl" else "prompt, data_source and reward_model with ground_truth"
    rule = (
        "`reward.py` compares the last number of an answer with the expected one: write your own rule where the task "
        "is another."
    )
    if run.reward_model:
        columns = "prompt" if target == "trl" else "prompt, data_source and reward_model with style: model"
        rule = f"{REWARD_FIELDS[target]} in {tool.file} is your reward model, planned as {run.reward_model}."
    starts = "`bash run.sh` on the machine"
    if given.trainer.instances > 1:
        starts = f"`NODE_RANK=NUMBER HEAD_IP=ADDRESS bash run.sh` on each of the {given.trainer.instances} machines"
    if given.is_apart:
        starts += f" that trains, `bash {ROLLOUTS}` on each with engines; {_meeting(given, target)}"
    first = [*facts["start_remarks"], *_resumes(facts)]
    first += [token_remark(facts["model_id"])] if facts["needs_token"] else []
    first.append(f"rows of the data have {columns}")
    lines = [
        f"Files of job {run.name}, {run.algorithm} with {tool.label}: {', '.join(files)}.",
        f"First: {'; '.join(first)}. {rule}",
        f"Launch: {starts}" + (f", or the command at the top of {TASK}" if TASK in files else "") + ".",
        f"Expected: {run.steps:,} steps of {run.step_seconds:.3g} s.",
        *(f"Note: {loss}." for loss in _losses(given, target, files)),
        f"Stop: {GIVE_BACK}. Until then ${usd:,.2f} per hour.",
    ]
    return document("\n".join(lines) + "\n")

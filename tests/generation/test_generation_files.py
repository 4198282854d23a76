"""A plan of generation as files: every setting of the estimate, tasks of one machine each, refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from planner.cli import main
from planner.cli.options import scenario_of
from planner.errors import InputError
from planner.exports.export import choose_job, export_all
from planner.exports.facts import Wishes
from planner.exports.launchers import usd_per_hour
from planner.results.fleet import BulkGeneration
from planner.results.plan import Plan
from tests.helpers.exported_plans import changed, solved
from tests.helpers.exported_plans import texts as exported

pytestmark = pytest.mark.slow
NONE = Wishes()


def texts(plan: Plan, *targets: str, wishes: Wishes = NONE) -> dict[str, str]:
    """Return the exported files."""
    return exported(plan, *targets, wishes=wishes)


def settings(plan: Plan, wishes: Wishes = NONE) -> dict[str, Any]:
    """Return the content of `generate.json`."""
    found: dict[str, Any] = json.loads(texts(plan, wishes=wishes)["generate.json"])
    return found


def generation(plan: Plan, **changes: Any) -> Plan:
    """Return a plan whose part on generation says something else."""
    made = plan.jobs[0].inference
    assert made is not None
    return changed(plan, inference=BulkGeneration.model_validate({**made.model_dump(), **changes}))


def test_every_setting_that_the_estimate_assumed_is_written() -> None:
    """Engine, formats, division, places, memory, prefix; 300 shared tokens and 600 own ones are measured."""
    plan = solved("generation spot")
    made, found = plan.jobs[0].inference, settings(plan)
    assert made is not None
    assert (found["engine"], found["weight_format"], found["kv_bits"]) == ("vllm", made.weight_format, 16)
    assert found["max_num_seqs"] == 1024 and found["memory_share"] == 0.9 and found["prefix_caching"]
    assert found["max_tokens"] == 600 and found["max_model_len"] == 1500
    assert found["replicas_per_machine"] * found["machines"] == made.replicas
    serve = found["serve"]
    assert serve[:3] == ["vllm", "serve", "{model}"] and found["model"] == "meta-llama/Llama-3.1-8B"
    for word in ("--tensor-parallel-size=1", "--max-num-seqs=1024", "--max-model-len=1500", "--enable-prefix-caching"):
        assert word in serve
    assert ("--quantization=fp8" in serve) == (made.weight_format == "fp8")
    assert {"--random-input-len=600", "--random-prefix-len=300", "--random-output-len=150"} <= set(found["measure"])
    assert found["planned"]["usd"] == plan.jobs[0].cost_usd


def test_a_part_is_a_minute_of_a_machine() -> None:
    """The rate of a machine times 60 s, at least a ten-thousandth of all requests."""
    plan = solved("generation spot")
    made, job = plan.jobs[0].inference, plan.jobs[0]
    assert made is not None
    rate = made.output_tokens_per_second / made.output_tokens / job.instances
    assert settings(plan)["prompts_per_part"] == max(round(60 * rate), made.requests // 10_000)


def test_adapters_are_merged_by_the_user_or_served_by_the_engine() -> None:
    """vLLM has room for ranks of 32 and 64, so 48 is served with the room of 64."""
    merged, served = settings(solved("generation merged")), settings(solved("generation served"))
    assert merged["model"] == "" and "name the merged weights" in " ".join(merged["_comment"])
    assert merged["adapter"] == "merged" and "--enable-lora" not in merged["serve"]
    assert settings(solved("generation merged"), Wishes(model_id="me/merged"))["model"] == "me/merged"
    assert served["adapters"] == {"adapter-0": "", "adapter-1": "", "adapter-2": ""}
    assert served["serve"][-4:] == ["--enable-lora", "--max-loras=3", "--max-lora-rank=64", "--lora-modules"]


def test_weights_in_a_format_that_the_engine_does_not_make_must_be_named() -> None:
    """int8 weights lie in a repository of their own."""
    plan = generation(solved("generation spot"), weight_format="int8")
    assert settings(plan)["model"] == "" and "name weights in int8" in " ".join(settings(plan)["_comment"])
    assert settings(plan, Wishes(model_id="me/int8"))["model"] == "me/int8"


def test_sglang_is_spelt_in_its_own_words() -> None:
    """Two engines, one script."""
    serve = settings(solved("generation sglang"))["serve"]
    assert serve[1:4] == ["-m", "sglang.launch_server", "--model-path={model}"]
    assert "--kv-cache-dtype=fp8_e4m3" in serve


def test_each_machine_of_a_plan_is_a_task_of_its_own() -> None:
    """A machine that is lost stops no other: one node each, and the shard says which part of the prompts it has."""
    plan = changed(solved("generation spot"), instances=4, spot_share=0.0)
    job = plan.jobs[0]
    sky = texts(plan, "skypilot")["task.yaml"]
    task = yaml.safe_load(sky)
    assert task["num_nodes"] == 1 and task["envs"] == {
        "SHARD": "0", "SHARDS": str(job.instances), "PROMPTS": "prompts.jsonl"
    }  # fmt: skip
    flat = " ".join(sky.replace("#", "").split())
    assert f"seq 0 {job.instances - 1}); do sky launch -y -d -c label-2m-documents-$i --env SHARD=$i task.yaml" in flat
    assert f"${job.cost.expected:,.2f}" in sky and f"Expected: likely {job.hours.expected:.1f} h" in sky
    stack = texts(plan, "dstack")["task.dstack.yml"]
    task = yaml.safe_load(stack)
    assert task["nodes"] == 1 and task["name"] == "label-2m-documents-0" and task["env"][0] == "SHARD=0"
    assert [one["name"] for one in task["volumes"]] == ["results-label-2m-documents-0"]
    numbered = stack.replace("label-2m-documents-0\n", "label-2m-documents-3\n").replace("SHARD=0\n", "SHARD=3\n")
    assert numbered.count("-3\n") == 2 and "SHARD=3" in numbered  # what the sed of the command does


def test_the_prompts_may_have_another_name() -> None:
    """`--dataset` names them, as it names the data of training."""
    found = texts(solved("generation spot"), "skypilot", "dstack", wishes=Wishes(dataset="mine.jsonl"))
    assert yaml.safe_load(found["task.yaml"])["envs"]["PROMPTS"] == "mine.jsonl"
    assert "PROMPTS=mine.jsonl" in found["task.dstack.yml"] and "  - mine.jsonl" in found["task.dstack.yml"]


def test_the_whole_folder_says_how_to_launch_and_to_measure() -> None:
    """Every file of the plan, and no other launcher."""
    plan = solved("generation spot")
    given = choose_job(plan, scenario_of(plan, "plan.json"), "plan.json", None)
    files, left_out = export_all(given, NONE)
    assert sorted(files) == sorted(
        ["README.md", "generate.json", "generate.py", "requirements.txt", "run.sh", "task.dstack.yml", "task.yaml"]
    )
    assert left_out == [] and files["requirements.txt"] == "vllm==0.33.0\n"
    for said in ("sky jobs launch", "dstack apply", "bash run.sh --measure", "planner calibrate measure.json"):
        assert said in files["README.md"]
    usd = usd_per_hour(given)
    assert f"or give the machine back. Until then at most ${usd:,.2f} per hour.\n" in files["README.md"]
    stops = "Stop: `sky jobs cancel -n label-2m-documents`, or `dstack stop -y label-2m-documents-0`, or"
    assert stops in files["README.md"]


def test_gated_weights_are_loaded_with_a_token() -> None:
    """Each task has it, the command passes it on, and the README names it; weights that are open need none."""
    plan = solved("generation spot")
    given = choose_job(plan, scenario_of(plan, "plan.json"), "plan.json", None)
    files = export_all(given, NONE)[0]
    sky, stack = yaml.safe_load(files["task.yaml"]), yaml.safe_load(files["task.dstack.yml"])
    assert sky["secrets"] == {"HF_TOKEN": None} and "HF_TOKEN" in stack["env"]
    assert "sky jobs launch task.yaml --secret HF_TOKEN\n" in files["README.md"]
    assert "First: meta-llama/Llama-3.1-8B is gated: accept its terms" in files["README.md"]
    of_all = export_all(given, Wishes("me/model"))[0]
    assert not any("HF_TOKEN" in of_all[name] for name in ("task.yaml", "task.dstack.yml", "README.md"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"engine": "trt-llm"}, "no script runs TensorRT-LLM; plan with --set 'jobs.label-2m-documents.techniques.en"),
        ({"weight_format": "w4a8"}, "loads no w4a8"),
        ({"kv_bits": 4}, "has no 4-bit cache"),
        ({"gpus_per_replica": 64}, "does not fit on a machine"),
    ],
)
def test_what_no_script_can_run_is_refused(changes: dict[str, Any], said: str) -> None:
    """With the setting that plans for what can be run."""
    with pytest.raises(InputError) as error:
        texts(generation(solved("generation spot"), **changes))
    assert said in str(error.value)


def test_a_trainer_or_another_launcher_has_no_task_for_prompts() -> None:
    """`--to trl` and `--to slurm` say which targets there are."""
    with pytest.raises(InputError) as error:
        texts(solved("generation spot"), "trl", "slurm")
    said = str(error.value)
    assert "TRL trains, and this job answers prompts; --to skypilot or --to dstack, or --all" in said
    assert "no task for Slurm" in said


def test_the_command_writes_the_folder(tmp_path: Any) -> None:
    """Without a target the script and its settings."""
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(solved("generation spot").model_dump(mode="json", by_alias=True)))
    done = CliRunner().invoke(main, ["export", str(plan), "-o", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert sorted(one.name for one in (tmp_path / "run").iterdir()) == ["export.json", "generate.json", "generate.py"]
    done = CliRunner().invoke(main, ["export", str(plan)])
    assert done.exit_code == 2 and "name a folder with -o" in done.output

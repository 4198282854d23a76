"""What a target cannot express is refused, with the targets and the setting that can."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cli.options import scenario_of
from planner.errors import InputError
from planner.exports.export import choose_job
from planner.exports.facts import check_names, unknown_values
from planner.library.technique_tables import read_techniques
from tests.helpers.exported_plans import changed, solved, texts
from tests.helpers.plans import make_plan

pytestmark = pytest.mark.slow


def refused(*targets: str, plan: str = "quickstart", techniques: dict[str, Any] | None = None, **changes: Any) -> str:
    """Return the message of an export that must fail."""
    with pytest.raises(InputError) as error:
        texts(changed(solved(plan), techniques, **changes), *targets)
    return str(error.value)


def test_a_technique_that_the_target_lacks_names_the_targets_that_have_it() -> None:
    """Sharding inside a machine only is in the configuration of Accelerate, not in that of LLaMA-Factory."""
    said = refused("llamafactory", plan="fsdp", techniques={"sharding": "hsdp"})
    assert "LLaMA-Factory has no sharding hsdp; accelerate, axolotl, trl can, or plan with " in said
    assert "--set 'jobs.llama-2-7b-full-vs-lora.techniques.sharding=[none, ddp, zero1, zero2, zero3]'" in said


def test_another_framework_than_the_plans_is_refused_with_the_setting_that_plans_for_it() -> None:
    """Memory and speed of LitGPT are not those of TRL."""
    said = refused("trl", framework="litgpt")
    assert "TRL does not run litgpt" in said
    assert "plan with --set 'jobs.quickstart.framework=[hf, hf-fused, deepspeed]'" in said


def test_several_faults_are_told_together() -> None:
    """Nobody exports five times to learn of five faults."""
    said = refused("trl", techniques={"tensor_parallel": 2, "quant": "gptq"}, framework="litgpt")
    assert "tensor_parallel 2" in said and "quant gptq" in said and "litgpt" in said


def test_a_combination_that_fails_at_run_time_is_refused_here() -> None:
    """TRL raises on it after the model is loaded."""
    techniques = {"sharding": "zero3", "activation_checkpointing": "selective"}
    assert "does not work with adapters under DeepSpeed ZeRO-3" in refused(
        "trl", plan="spot", techniques=techniques, framework="deepspeed"
    )


def test_weights_that_the_plan_shards_with_fsdp_are_not_given_to_zero_3() -> None:
    """Their bytes differ."""
    assert "FSDP" in refused("deepspeed", plan="fsdp")


def test_images_have_no_trainer_here() -> None:
    """The field maps are those of language models."""
    assert "trains language models only" in refused("trl", unit="images")


def test_a_plan_of_several_jobs_asks_which_and_an_unknown_name_lists_them() -> None:
    """`--job` chooses."""
    plan = solved("quickstart")
    asked = scenario_of(plan, "plan.json")
    asked = asked.model_copy(update={"jobs": (*asked.jobs, asked.jobs[0].model_copy(update={"name": "other"}))})
    both = plan.model_copy(update={"jobs": (plan.jobs[0], plan.jobs[0].model_copy(update={"name": "other"}))})
    assert choose_job(both, asked, "plan.json", "other").job.name == "other"
    with pytest.raises(InputError, match="choose one with --job, such as quickstart or other"):
        choose_job(both, asked, "plan.json", None)
    with pytest.raises(InputError, match="the plan has no job 'third'; did you mean other"):
        choose_job(both, asked, "plan.json", "third")


def test_a_managed_service_and_an_infeasible_plan_have_nothing_to_launch() -> None:
    """Said before any field map is read."""
    asked = scenario_of(solved("quickstart"), "plan.json")
    with pytest.raises(InputError, match="a managed service trains this job itself"):
        choose_job(changed(solved("quickstart"), gpus=0), asked, "plan.json", None)
    with pytest.raises(InputError, match="nothing to run: the plan is infeasible"):
        choose_job(make_plan(status="infeasible", jobs=()), asked, "plan.json", None)


def test_an_edited_plan_with_a_value_that_nobody_knows_is_refused() -> None:
    """As with `planner check`, which lists what else does not agree."""
    assert "unknown: sharding zero9, offload disk" in refused(
        "trl", techniques={"sharding": "zero9", "offload": "disk"}
    )


def test_names_that_nothing_is_known_of_are_told_together() -> None:
    """A plan that was changed by hand has one message for each GPU and technique that the library does not have."""
    plan = changed(solved("quickstart"), {"sharding": "zero9", "offload": "disk"}, gpu="H1OO")
    with pytest.raises(InputError) as error:
        check_names(plan, "plan.json")
    told = str(error.value)
    assert "jobs.quickstart.gpu: unknown: 'H1OO'; the nearest are H100-80GB" in told
    assert "jobs.quickstart.techniques.sharding: unknown: 'zero9'" in told
    assert "jobs.quickstart.techniques.offload: unknown: 'disk'" in told
    check_names(solved("quickstart"), "plan.json")


@pytest.mark.parametrize("bits", read_techniques().values.weight_bits.values)
def test_a_base_of_any_bits_has_no_unknown_name(bits: int) -> None:
    """The quantisation that 8 bits bring is none that a job may ask for, and a plan has it all the same."""
    quant = read_techniques().values.weight_bits.values[bits].quant
    plan = changed(solved("quickstart"), {"weight_bits": bits, "quant": quant})
    check_names(plan, "plan.json")
    assert not unknown_values(plan.jobs[0])

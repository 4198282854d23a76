"""A plan that is solved for a tool exports to it at the first try, or the answer says why there is none."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import pytest

import planner
from planner.audit.audit import audit
from planner.cli.options import scenario_of
from planner.cli.plan_commands import TARGETS
from planner.errors import InputError
from planner.exports.export import choose_job, export
from planner.exports.facts import Wishes
from planner.exports.field_map import field_maps
from planner.library.reading import read_library, tool_names
from planner.loading.scenario_file import parse_scenario
from planner.scenario.scenario import SolveOptions
from planner.solving.optimise_choice import with_settings
from planner.solving.prepare import prepare
from planner.solving.solve import solve_prepared
from tests.helpers.frozen_data import frozen_scenarios

AS_OF = datetime.date(2026, 11, 21)
TRAINING = (
    *("quickstart", "quickstart-any", "llama-2-7b-full-vs-lora", "spot-heavy", "no-4-bit", "padded-chat"),
    *("v100-no-bf16", "frameworks-long-context", "budget-bound", "value-of-time", "pretrain-1b", "mi300x-lora"),
    *("rtx3060-only", "llama-2-70b-lora", "tpu-pretrain", "stable-diffusion-lora"),
)
EXPLAINED = ("quickstart", "no-4-bit", "pretrain-1b", "stable-diffusion-lora")
"""Where the reason is asked of each tool that has no plan: a job of text as any, one that a method is asked of, one of
pretraining, and one of images. The others have the same reasons, a second of search each."""


def solved(name: str, *tools: str, settings: tuple[str, ...] = ()) -> planner.Plan:
    """The plan of a shipped scenario for some tools, on frozen prices."""
    asked = (*settings, f"limits.tools=[{','.join(tools)}]")
    found: planner.Plan = planner.solve(
        planner.read_scenario(str(frozen_scenarios()[name]), asked), SolveOptions(as_of=AS_OF)
    )
    return found


def check_exports(plan: planner.Plan, *tools: str) -> None:
    """Every job of the plan is exported with the tools, or the plan is infeasible and names why."""
    if not plan.jobs:
        assert plan.status == "infeasible" and plan.infeasible is not None
        reasons = [one.reason for one in plan.infeasible.nearest] + [one.limit for one in plan.infeasible.relax]
        assert reasons, "an answer without a plan says why"
        return
    for job in plan.jobs:
        assert export(choose_job(plan, scenario_of(plan, "plan"), "plan", job.name), tools, Wishes(dataset="my/data"))


@pytest.mark.parametrize("tool", ["axolotl", "litgpt", "skypilot"])
def test_a_plan_for_a_tool_exports_to_it(tool: str) -> None:
    """The quickstart, whose default plan is one that few tools can have."""
    plan = solved("quickstart", tool)
    assert plan.jobs
    check_exports(plan, tool)


@pytest.mark.long
@pytest.mark.parametrize("name", TRAINING)
def test_every_training_scenario_exports_with_the_tool_that_it_is_solved_for(name: str) -> None:
    """With each tool, or the answer says that it is infeasible, and why; candidates are made once."""
    prepared, options = prepare(planner.read_scenario(str(frozen_scenarios()[name]))), SolveOptions(as_of=AS_OF)
    for tool in TARGETS:
        asked = with_settings(prepared, [f"limits.tools=[{tool}]"])
        plan = solve_prepared(replace(asked, is_slim=True), options, explains=False)  # what else there is, is not read
        if plan.jobs or name in EXPLAINED:
            check_exports(plan if plan.jobs else solve_prepared(asked, options), tool)
        assert plan.jobs or plan.status == "infeasible"


@pytest.mark.slow
def test_several_tools_are_all_able() -> None:
    """A trainer and a launcher: both files of one plan."""
    plan = solved("quickstart", "axolotl", "skypilot")
    assert (plan.jobs and plan.jobs[0].provider == "aws") or plan.jobs
    check_exports(plan, "axolotl", "skypilot")


@pytest.mark.slow
def test_tools_that_share_no_framework_are_named_in_the_answer() -> None:
    """LitGPT and LLaMA-Factory run different frameworks: the limit itself is the change that helps."""
    plan = solved("quickstart", "litgpt", "llamafactory")
    assert plan.infeasible is not None
    assert any(one.limit == "limits.tools" for one in plan.infeasible.relax)
    assert any("does not run" in one.reason for one in plan.infeasible.nearest)


def test_unknown_tools_are_told_with_the_nearest() -> None:
    """In a scenario as on the command line."""
    with pytest.raises(InputError, match="no plan is exported to 'axolotle'; did you mean axolotl"):
        solved("quickstart", "axolotle")


def test_a_job_that_answers_prompts_has_no_training_tool() -> None:
    """The limit is one of jobs of training."""
    with pytest.raises(InputError, match="tools are those of training"):
        solved("label-2m-documents", "axolotl")


def test_the_names_are_those_of_the_maps() -> None:
    """Of every file, and of the option of export."""
    assert set(tool_names()) == set(TARGETS)


def test_a_refusal_asks_only_for_what_the_search_knows() -> None:
    """Each fact of a condition is one of `technique_facts`, of which the search has all."""
    from planner.exports.facts import technique_facts
    from planner.library.reading import read_library

    scenario = planner.read_scenario("quickstart")
    plan = solved("quickstart", "axolotl")
    card = read_library(["llama-2-7b"]).architecture("llama-2-7b")
    facts = technique_facts(plan.jobs[0].techniques.model_dump(), scenario.jobs[0], card, "A100-80GB", 2048)
    asked = {key for tool in field_maps().values() for row in tool.refused for key in row.when}
    assert asked <= set(facts), asked - set(facts)
    assert {name for tool in field_maps().values() for name in tool.techniques} <= set(facts)


def test_the_files_are_where_the_names_come_from(tmp_path: Path) -> None:
    """`planner solve --for` refuses unknown names before it solves, all of them at once."""
    from click.testing import CliRunner

    from planner.cli.output import Commands
    from planner.cli.solve_command import solve

    result = CliRunner().invoke(
        Commands("planner", commands={"solve": solve}), ["solve", "quickstart", "--for", "axo,sky"]
    )
    assert result.exit_code == 2 and "'axo'" in result.stderr and "'sky'" in result.stderr


@pytest.mark.slow
def test_several_machines_on_spot_are_none_where_they_share_no_volume() -> None:
    """dstack's volumes of AWS are of one machine: two of them would lose what they have saved, and export refuses."""
    offer = (
        "{provider: aws, gpu: H200, gpus: 8, max_nodes: 2, usd_per_hour: 60, spot_usd_per_hour: 20, network_gbps: 3200,"
    )
    job = "{name: big, architecture: llama-3.1-70b, work: {tokens: 50e6}, deadline: 24h, techniques: {method: full}}"
    text = (
        f"name: t\noffers:\n  - {offer} interconnect: nvswitch, spot: {{availability: 0.9, mean_up_hours: 20}}}}\n"
        f"jobs:\n  - {job}\nlimits: {{tools: [%s]}}\n"
    )
    free, held = (planner.solve(parse_scenario(text % tool)) for tool in ("skypilot", "dstack"))
    assert free.jobs[0].instances == held.jobs[0].instances == 2
    assert free.jobs[0].spot_share > 0 and held.jobs[0].spot_share == 0
    check_exports(held, "dstack")
    changed = held.model_copy(update={"jobs": free.jobs})
    assert "limits.tools" in [
        one.what for one in audit(changed, parse_scenario(text % "dstack"), read_library(["llama-3.1-70b"]))
    ]

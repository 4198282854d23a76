"""A plan as a dstack task; the structure is that which dstack 0.22.5 reads (`test_ecosystem.py`)."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml

from planner.errors import InputError
from planner.exports.facts import Wishes
from planner.exports.launchers import dstack_profile
from planner.exports.machine_names import Machines
from tests.helpers.exported_plans import INSTALL, changed, solved, texts

pytestmark = pytest.mark.slow


def task(plan: Any, wishes: Wishes | None = None) -> dict[str, Any]:
    """Return the task of a plan that is exported with its trainer."""
    given = {} if wishes is None else {"wishes": wishes}
    found: dict[str, Any] = yaml.safe_load(texts(plan, "dstack", "trl", **given)["task.dstack.yml"])
    return found


def test_the_task_of_the_quickstart_is_complete() -> None:
    """On demand in RunPod's community cloud, which dstack rents: the whole file."""
    plan = solved("quickstart")
    job = plan.jobs[0]
    offer = next(one for one in (plan.inputs.offers if plan.inputs else ()) if one["instance"] == job.instance)
    found = task(plan)
    (run,) = found.pop("commands")
    setup = run
    assert f"\nenter_environment quickstart\n{INSTALL} trl==1.16.0" in setup and f"--num_processes {job.gpus} " in run
    assert job.provider == "runpod-community" and job.gpu == "A5000"
    assert found == {
        "type": "task",
        "name": "quickstart",
        "nodes": 1,
        "backends": ["runpod"],
        "spot_policy": "on-demand",
        "max_price": round(1.1 * offer["usd_per_hour"], 2),
        "max_duration": "36h",
        "resources": {"gpu": f"A5000:24GB:{job.gpus}", "shm_size": f"{8 * job.gpus}GB"},
        "image": "pytorch/pytorch:2.11.0-cuda12.8-cudnn9-devel",
        "files": ["sft.yaml"],
        "env": ["HF_TOKEN"],
        "volumes": [{"name": "checkpoints-quickstart", "path": "/checkpoints"}],
    }


def test_a_spot_plan_is_retried_until_its_deadline_where_a_volume_keeps_checkpoints() -> None:
    """Durations are in one unit, which is all that dstack reads."""
    plan = changed(solved("spot"), provider="aws", region="any of 3")
    found = task(plan)
    hours = math.ceil(plan.jobs[0].deadline_hours or 0)
    assert found["spot_policy"] == "auto" and found["max_duration"] == f"{hours}h"
    assert found["retry"] == {"on_events": ["no-capacity", "interruption"], "duration": f"{hours}h"}
    assert found["resources"] == {"gpu": "H200:141GB:1", "shm_size": "8GB"}


def test_spot_without_a_volume_is_refused() -> None:
    """The plan goes on from a checkpoint, which would be lost with the machine."""
    with pytest.raises(InputError, match="no volume at nebius that keeps checkpoints"):
        texts(solved("spot"), "dstack")
    plan = solved("secure")
    assert "volumes" not in task(changed(plan, provider="nebius"))


def test_several_machines_meet_at_the_first_one() -> None:
    """`NODE_RANK` and `HEAD_IP` are what dstack calls them."""
    plan = changed(solved("fsdp"), gpus=16, instances=2, provider="aws", spot_share=0.0)
    found = task(plan)
    assert found["nodes"] == 2
    (command,) = found["commands"]
    machines = Machines("aws", ("",), "H100", 20.0, 10.0)
    assert dstack_profile(solved("spot").jobs[0], machines, 2)["retry"]["on_events"][-1] == "error", (
        "a node that is lost ends the others by a fault"
    )
    assert 'NODE_RANK="$DSTACK_NODE_RANK"' in command.splitlines()
    assert 'HEAD_IP="$DSTACK_MASTER_NODE_IP"' in command and "--num_machines 2" in command


@pytest.mark.parametrize(("provider", "shares"), [("aws", False), ("gcp", False), ("runpod-secure", True)])
def test_a_volume_of_several_machines_is_one_that_they_share(provider: str, shares: bool) -> None:
    """A disk of AWS or GCP is of one machine: a plan on spot is refused, one on demand says so."""
    two = {"gpus": 16, "instances": 2, "provider": provider}
    on_demand = changed(solved("fsdp"), **two, spot_share=0.0)
    assert ("volumes" in task(on_demand)) == shares
    assert ("no network volume for 2 machines" in texts(on_demand, "dstack", "trl")["task.dstack.yml"]) != shares
    on_spot = changed(solved("spot"), instances=2, provider=provider)
    if shares:
        assert task(on_spot)["volumes"][0]["path"] == "/checkpoints"
    else:
        with pytest.raises(InputError, match="and that 2 machines can write to"):
            texts(on_spot, "dstack")


@pytest.mark.parametrize(("provider", "goes"), [("runpod-secure", "the volume"), ("nebius", "the Hub")])
def test_weights_that_lie_here_are_not_sent_and_the_task_says_where_they_go(provider: str, goes: str) -> None:
    """The server takes 2 MB; data are sent, and what lies in the volume already needs no word."""
    plan, wishes = changed(solved("secure"), provider=provider), Wishes("./weights", "chats.jsonl")
    said = " ".join(texts(plan, "dstack", "trl", wishes=wishes)["task.dstack.yml"].replace("\n#", "").split())
    option = "--model-id /checkpoints/weights" if goes == "the volume" else "--model-id OWNER/NAME"
    assert "chats.jsonl is sent: 2 MB at most" in said and "./weights is not sent (2 MB at most" in said
    assert goes in said.partition("./weights is not sent")[2] and f"export with {option}" in said
    assert task(plan, wishes)["files"] == ["sft.yaml", "chats.jsonl"]
    there = Wishes("/checkpoints/weights", "/checkpoints/chats.jsonl")
    assert task(plan, there)["files"] == ["sft.yaml"]
    assert "sent" not in texts(plan, "dstack", "trl", wishes=there)["task.dstack.yml"]

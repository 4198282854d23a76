"""A service as files: every assumption of the estimate in every file, hours, balancer, refusals."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from planner.cli import main
from planner.errors import InputError
from planner.estimates.generation import CHUNK_TOKENS
from planner.exports.facts import Wishes
from planner.results.plan import Plan
from planner.services.served_kinds import CHUNK
from planner.services.service_files import export_all_services, export_service
from tests.helpers.exported_services import LARGE, given, kind, plan, texts
from tests.helpers.fake_machine import FakeMachine

NAME = "1-l40s-on-demand"


def command(text: str) -> list[str]:
    """Return the words of the server that a script starts, variables as they are written."""
    (line,) = re.findall(r"^\s*exec (.*)", text.replace("\\\n", ""), re.MULTILINE)
    return shlex.split(line)


def flat(text: str) -> str:
    """Return a comment in one line."""
    return " ".join(text.replace("#", "").split())


def test_every_setting_that_the_estimate_assumed_is_in_the_command() -> None:
    """Format, cache, division, places, memory, chunks, prefix; the chunk is that of the estimate."""
    assert CHUNK == CHUNK_TOKENS
    words = command(texts(plan())[f"serve-{NAME}.sh"])
    assert words[:3] == ["vllm", "serve", "$MODEL"]
    assert set(words[3:]) == {
        "--port=${PORT:-8000}", "--host=0.0.0.0", "--tensor-parallel-size=1", "--pipeline-parallel-size=1",
        "--max-num-seqs=256", "--max-model-len=4000", "--gpu-memory-utilization=0.9", "--enable-chunked-prefill",
        f"--max-num-batched-tokens={CHUNK_TOKENS}", "--quantization=fp8", "--kv-cache-dtype=auto",
        "--no-enable-prefix-caching",
    }  # fmt: skip


def test_a_kind_expects_the_load_of_its_own_hours() -> None:
    """At night a small machine runs at half its capacity; the large ones of the day take all of theirs.

    worked: at night 1 request/s on one L40S of 2 requests/s, 50 %; by day 5 requests/s on a machine of 8, 62.5 %.
    """
    by_night = (1,) * 9 + (0,) * 8 + (1,) * 7
    small, large = kind(by_hour=by_night), kind(**LARGE, by_hour=tuple(1 - count for count in by_night))
    first, second = (flat(text) for name, text in texts(plan(small, large)).items() if name.startswith("serve-"))
    assert "at most 1 requests/s for each machine, 50 % of its capacity of 2" in first
    assert "at most 5 requests/s for each machine, 62 % of its capacity of 8" in second


@pytest.mark.parametrize("target", [(), ("skypilot",), ("kubernetes",)])
def test_the_head_names_plan_version_load_latency_dollars_and_assumptions(target: tuple[str, ...]) -> None:
    """The busiest hour has 5 requests/s on three machines of 2 each: 1.67, 83 %."""
    text = flat(next(iter(texts(plan(), *target).values())))
    for said in (
        "Service answers of plan s, for ",
        "Written by planner 1.2.3 from a plan of 2026-11-21.",
        "1 to 3 of 1 x L40S (g6e.xlarge) at aws, us-east-1, on demand",
        "at most 1.67 requests/s for each machine, 83 % of its capacity of 2 (limited by TPOT)",
        "95 % of requests within 500 ms to the first token and 30 ms per token",
        "$1.861 an hour for each machine",
        "$1,234.50 a month, $0.25 per million tokens",
        "fp8 weights, 16-bit KV cache, tensor parallel 1, pipeline parallel 1, up to 256 requests at once, 0.9 of the "
        "memory, prompts in chunks of 8,192 tokens",
        "prefix caching off",
        "requests of up to 4,000 tokens",
    ):
        assert said in text, said


def test_a_prefix_in_common_switches_its_caching_on() -> None:
    """300 of 800 tokens."""
    load = {"per_second": 5, "input_tokens": 800, "output_tokens": 200, "prefix_tokens": 300}
    text = texts(plan(load=load))[f"serve-{NAME}.sh"]
    assert "--enable-prefix-caching" in command(text) and "300 of them shared and kept (prefix caching)" in flat(text)


def test_the_longest_request_of_a_table_is_admitted() -> None:
    """2,000 in and 500 out, whatever the mean."""
    rows = [{"input_tokens": 100, "output_tokens": 50, "count": 9}, {"input_tokens": 2000, "output_tokens": 500}]
    assert "--max-model-len=2500" in command(texts(plan(load={"per_second": 5, "lengths": rows}))[f"serve-{NAME}.sh"])


def test_skypilot_scales_between_the_hours_of_the_plan() -> None:
    """One to three machines, a further one from the capacity on: in 24 of 24 hours what the plan has."""
    text = texts(plan(), "skypilot")[f"skypilot-{NAME}.yaml"]
    found = yaml.safe_load(text)
    assert found["service"]["replica_policy"] == {
        "min_replicas": 1, "max_replicas": 3, "target_qps_per_replica": 2.0
    }  # fmt: skip
    assert found["service"]["readiness_probe"]["path"] == "/health"
    assert found["resources"] == {
        "accelerators": "L40S:1", "ports": 8000, "infra": "aws/us-east-1", "use_spot": False, "max_hourly_cost": 2.05
    }  # fmt: skip
    said = "at the planned load this asks for the machines of the plan in 24 of 24 hours, 7 minutes after the load"
    assert said in flat(text)
    assert found["envs"] == {"MODEL": "meta-llama/Llama-3.1-8B"}


def test_skypilot_has_one_market_and_no_recovery() -> None:
    """It refuses services of both markets; headroom asks for machines earlier."""
    made = plan(kind(market="spot", usd_per_hour=0.8, availability=0.6), headroom=0.25)
    text = texts(made, "skypilot")["skypilot-1-l40s-spot.yaml"]
    found = yaml.safe_load(text)
    assert found["resources"]["use_spot"] is True and found["resources"]["max_hourly_cost"] == 0.88
    assert "job_recovery" not in found["resources"]
    assert found["service"]["replica_policy"]["target_qps_per_replica"] == 1.6
    assert "on spot (there 60 % of the time)" in flat(text) and "dynamic_ondemand_fallback" in text


def test_a_load_in_flight_becomes_requests_per_second() -> None:
    """16 in flight over half a second and 199 tokens of 30 ms: 2.47 a second at the least."""
    load = {"concurrent": 40, "input_tokens": 800, "output_tokens": 200}
    found = yaml.safe_load(texts(plan(kind(capacity=16.0), load=load), "skypilot")[f"skypilot-{NAME}.yaml"])
    assert found["service"]["replica_policy"]["target_qps_per_replica"] == pytest.approx(16 / (0.5 + 199 * 0.03), 1e-3)


def test_one_server_has_all_replicas_of_a_machine_where_the_engine_can() -> None:
    """vLLM and SGLang on four GPUs; in Kubernetes a pod is one replica."""
    for engine in ("vllm", "sglang"):
        made = plan(kind(**LARGE, engine=engine))
        assert "--data-parallel-size=4" in command(texts(made)[f"serve-{NAME}.sh"])
        pods = next(yaml.safe_load_all(texts(made, "kubernetes")[f"kubernetes-{NAME}.yaml"]))
        (container,) = pods["spec"]["template"]["spec"]["containers"]
        assert "--data-parallel-size=4" not in command(container["command"][2])
        assert pods["spec"]["replicas"] == 12 and container["resources"]["limits"] == {"nvidia.com/gpu": "1"}


def test_tensorrt_llm_has_a_server_for_each_replica() -> None:
    """Kubernetes has a pod for each, SkyPilot one port for all."""
    made = plan(kind(**LARGE, engine="trt-llm"))
    script = texts(made, model_id="fp8=me/fp8")[f"serve-{NAME}.sh"]
    assert command(script)[0] == "trtllm-serve" and "start it for each, with PORT of its own" in flat(script)
    assert texts(made, "kubernetes")
    with pytest.raises(InputError, match="4 servers on a machine, and SkyPilot sends requests to one port"):
        texts(made, "skypilot")


def test_adapters_are_served_from_a_folder_and_merged_ones_are_named() -> None:
    """vLLM has room for ranks of 32 and 64, so 48 is served with the room of 64."""
    served = plan(adapter={"rank": 48, "served": 3})
    script = texts(served)[f"serve-{NAME}.sh"]
    assert command(script)[-5:] == ["--enable-lora", "--max-loras=3", "--max-lora-rank=64", "--lora-modules",
                                    "${MODULES[@]}"]  # fmt: skip
    found = yaml.safe_load(texts(served, "skypilot")[f"skypilot-{NAME}.yaml"])
    assert found["workdir"] == "." and found["envs"]["ADAPTERS"] == "adapters"
    merged = plan(adapter={"rank": 16, "merged": True})
    assert yaml.safe_load(texts(merged, "skypilot")[f"skypilot-{NAME}.yaml"])["envs"] == {"MODEL": None}
    assert "merged with the adapter" in texts(merged)[f"serve-{NAME}.sh"]
    named = texts(merged, model_id="me/merged")[f"serve-{NAME}.sh"]
    assert 'MODEL="${MODEL:-me/merged}"' in named and "--quantization=fp8" in command(named)


def test_the_shell_finds_the_adapters_of_a_folder(tmp_path: Path) -> None:
    """Each folder is an adapter of that name; weights without a name stop the script before anything is installed."""
    files = texts(plan(adapter={"rank": 16, "served": 2}))
    unnamed = texts(plan(kind(weight_format="int8")))[f"serve-{NAME}.sh"]
    machine = FakeMachine(tmp_path, {**files, "unnamed.sh": unnamed})
    for name in ("de", "fr"):
        (machine.run / "adapters" / name).mkdir(parents=True)
    ended = machine.run_script(f"serve-{NAME}.sh", ADAPTERS="adapters", PORT="9000")
    assert ended.code == 0 and ended.calls[0] == "pip install vllm==0.33.0", "in the environment"
    assert ended.calls[1].endswith("--lora-modules de=adapters/de fr=adapters/fr") and "--port=9000 " in ended.calls[1]
    ended = machine.run_script("unnamed.sh")
    assert ended.code != 0 and "MODEL: name the weights (in int8)" in ended.said and ended.calls == []


def test_each_format_may_have_weights_of_its_own() -> None:
    """A kind of 8-bit integers next to one of fp8."""
    made = plan(kind(), kind(weight_format="int8", gpu="L40S", offer="b"))
    found = texts(made, model_id="me/base,int8=me/int8")
    assert 'MODEL="${MODEL:-me/base}"' in found["serve-1-l40s-on-demand.sh"]
    assert 'MODEL="${MODEL:-me/int8}"' in found["serve-2-l40s-on-demand.sh"]


def test_kubernetes_changes_the_pods_by_the_hour() -> None:
    """Three pods are ordered at 8:53, two given back at 17:00, by an account that may do nothing else."""
    found = texts(plan(), "kubernetes")
    documents = list(yaml.safe_load_all(found[f"kubernetes-{NAME}.yaml"]))
    assert [one["kind"] for one in documents] == ["Deployment", "Service", "CronJob", "CronJob"]
    said = {one["spec"]["schedule"]: _commands(one)[0][-2:] for one in documents[2:]}
    assert said == {
        "53 8 * * *": ["deployment/answers-1", "--replicas=3"],
        "0 17 * * *": ["deployment/answers-1", "--replicas=1"],
    }
    assert documents[1]["metadata"]["name"] == "answers" and "kubernetes-balancer.yaml" not in found
    account, role, binding = yaml.safe_load_all(found["kubernetes-hours.yaml"])
    pod = documents[2]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["metadata"]["name"] == binding["subjects"][0]["name"]
    assert {resource for rule in role["rules"] for resource in rule["resources"]} == {
        "deployments", "deployments/scale"
    }  # fmt: skip


def _commands(job: dict[str, Any]) -> list[list[str]]:
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return [one["command"] for one in pod["containers"]]


def test_several_kinds_share_the_load_by_what_they_can_have_in_flight() -> None:
    """Two machines with the same time per request and capacities of 2 and 8: weights 64 and 256."""
    made = plan(kind(), kind(**LARGE, engine="vllm"))
    found = texts(made, "kubernetes")
    config = next(yaml.safe_load_all(found["kubernetes-balancer.yaml"]))["data"]["haproxy.cfg"]
    lines = [line.split() for line in config.splitlines() if "server-template" in line]
    assert [(line[2], line[line.index("weight") + 1]) for line in lines] == [("3", "64"), ("12", "256")]
    service = list(yaml.safe_load_all(found["kubernetes-1-l40s-on-demand.yaml"]))[1]
    assert service["spec"]["clusterIP"] == "None" and service["metadata"]["name"] == "answers-1"
    cron = texts(made, "skypilot")["skypilot-hours.cron"]
    assert sum(line[:1].isdigit() for line in cron.splitlines()) == 4


def test_the_folder_says_how_to_start_every_kind() -> None:
    """Weights without a name are asked for; kinds of two providers need more than one cluster of one of them."""
    made = plan(kind(), kind(weight_format="int8", by_hour=(1,) * 24))
    text = export_all_services(given(made), Wishes(), "plan.json")[0]["README.md"]
    assert "    sky serve up -n answers-1 skypilot-1-l40s-on-demand.yaml\n" in text
    assert "    sky serve up -n answers-2 --env MODEL=OWNER/NAME skypilot-2-l40s-on-demand.yaml\n" in text
    assert "skypilot-hours.cron changes the machines by the hour" in text and "one cluster" not in text
    assert "    bash serve-1-l40s-on-demand.sh\n    MODEL=OWNER/NAME bash serve-2-l40s-on-demand.sh\n" in text
    assert "First: MODEL=OWNER/NAME: a repository with the weights in int8.\n" in text
    elsewhere = plan(kind(), kind(provider="gcp"))
    text = export_all_services(given(elsewhere), Wishes(), "plan.json")[0]["README.md"]
    assert "The kinds are at aws, gcp: one cluster needs nodes of all of them" in text


def test_the_folder_says_how_to_stop_and_what_an_hour_costs() -> None:
    """Every service of SkyPilot by its name, the objects of Kubernetes, the crontab."""
    made = plan(kind(), kind(**LARGE, engine="vllm"))
    text = export_all_services(given(made), Wishes(), "plan.json")[0]["README.md"]
    assert "    sky serve down -y answers-1 answers-2\n" in text
    assert "    for one in kubernetes-*.yaml; do kubectl delete -f $one; done\n" in text
    usd = given(made).fleet.usd_per_month / 730
    assert "Take the lines of skypilot-hours.cron out of your crontab, and give the machines back " in text
    assert f"Until then ${usd:,.2f} per hour on average.\n" in text
    assert "meta-llama/Llama-3.1-8B is gated: accept its terms on the Hub, and give a token" in text


def test_a_line_of_cron_pins_the_machines_of_a_service(tmp_path: Path) -> None:
    """What its sed makes of the file is the service with exactly so many machines."""
    made = plan(kind(), kind(**LARGE, engine="vllm"))
    for name, text in texts(made, "skypilot").items():
        (tmp_path / name).write_text(text)
    line = next(one for one in (tmp_path / "skypilot-hours.cron").read_text().splitlines() if one.startswith("53 8"))
    shell = line.split(" ", 5)[5].split(" && sky")[0]
    subprocess.run(["bash", "-c", shell], cwd=tmp_path, env={"DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}, check=True)
    (now,) = tmp_path.glob("now-*.yaml")
    before = yaml.safe_load((tmp_path / f"skypilot-{NAME}.yaml").read_text())
    before["service"]["replica_policy"] = {"min_replicas": 3, "max_replicas": 3}
    assert yaml.safe_load(now.read_text()) == before


def test_a_flat_load_has_no_schedule() -> None:
    """Two machines at every hour: no target of SkyPilot, no CronJobs."""
    made = plan(kind(by_hour=(3,) * 24))
    found = texts(made, "skypilot", "kubernetes")
    assert sorted(found) == [f"kubernetes-{NAME}.yaml", f"skypilot-{NAME}.yaml"]
    policy = yaml.safe_load(found[f"skypilot-{NAME}.yaml"])["service"]["replica_policy"]
    assert policy == {"min_replicas": 3, "max_replicas": 3}


@pytest.mark.parametrize(
    ("changes", "job", "said"),
    [
        ({"engine": "llama.cpp"}, {}, "kind 1: no command serves with llama.cpp; plan with --set 'jobs.answers.tech"),
        ({"weight_format": "w4a8"}, {}, "vLLM loads no w4a8"),
        ({"kv_bits": 4}, {}, "vLLM has no 4-bit cache"),
        ({"replicas": 8}, {}, "8 replicas of 1 GPUs do not fit on a machine of 1"),
        ({}, {"adapter": {"rank": 1024, "served": 2}}, "vLLM serves no adapters of rank 1024; a rank up to 512"),
        ({"engine": "trt-llm"}, {"adapter": {"rank": 8, "served": 2}}, "serves no adapters; plan with --set"),
    ],
)
def test_what_cannot_be_served_is_refused(changes: dict[str, Any], job: dict[str, Any], said: str) -> None:
    """With the setting that plans for what can be."""
    with pytest.raises(InputError) as error:
        texts(plan(kind(**changes), **job))
    assert said in str(error.value)


def test_other_targets_serve_nothing() -> None:
    """`--to trl` and `--to slurm` say which targets there are; a name that no service has is refused."""
    with pytest.raises(InputError) as error:
        texts(plan(), "trl", "slurm")
    assert "TRL trains, and this is a service; --to skypilot or --to kubernetes, or --all" in str(error.value)
    assert "no service for Slurm" in str(error.value)


def test_a_provider_that_skypilot_does_not_have_leaves_kubernetes() -> None:
    """The folder says what is missing and why."""
    made = plan(kind(provider="hyperstack", by_hour=(2,) * 24))
    files, left_out = export_all_services(given(made), Wishes(), "plan.json")
    assert sorted(files) == ["README.md", f"kubernetes-{NAME}.yaml", f"serve-{NAME}.sh"]
    assert left_out == ["the files of SkyPilot are left out: SkyPilot rents nothing from hyperstack"]


@pytest.mark.parametrize("arguments", [[], ["--to", "skypilot"], ["--all"]])
def test_the_command_writes_the_files(tmp_path: Path, arguments: list[str]) -> None:
    """One script, one service, or all with the machines by the hour."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan().model_dump(mode="json", by_alias=True)))
    done = CliRunner().invoke(main, ["export", str(path), *arguments, "-o", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    names = {one.name for one in (tmp_path / "run").iterdir()}
    if arguments == ["--all"]:
        assert {"README.md", "plan.json", "kubernetes-hours.yaml", f"serve-{NAME}.sh"} <= names
        text = (tmp_path / "run" / "README.md").read_text()
        assert "1 1 1 1 1 1 1 1 1 3 3 3 3 3 3 3 3 1 1 1 1 1 1 1" in text and "cron 53 8 * * *: 3" in text
        again = Plan.model_validate(json.loads((tmp_path / "run" / "plan.json").read_text()))
        assert again.services == plan().services
    else:
        files = {f"skypilot-{NAME}.yaml", "skypilot-hours.cron"} if arguments else {f"serve-{NAME}.sh"}
        assert names == files | {"export.json"}
    done = CliRunner().invoke(main, ["export", str(path), "--job", "other"])
    assert done.exit_code == 2 and "the plan has no service 'other'; known: answers" in done.output


INT8 = {"weight_format": "int8"}


@pytest.mark.parametrize(
    ("changes", "wishes", "said"),
    [
        (INT8, Wishes("int9=me/x"), "--model-id int9=me/x: the plan has no weights in int9; give int8=OWNER/NAME"),
        (INT8, Wishes("me/x"), "--model-id me/x: names 16-bit weights, and the plan has int8 alone; give int8=me/x"),
        (
            INT8,
            Wishes("int8=me/y,me/x"),
            "--model-id me/x: names 16-bit weights, and the plan has int8 alone; leave it out",
        ),
        (
            {"weight_format": "bf16", "weight_bits": 16},
            Wishes("int8=me/x"),
            "--model-id int8=me/x: the plan has no weights in int8; give OWNER/NAME",
        ),
        ({}, Wishes(None, "my/data"), "--dataset: a service reads no data; leave it out"),
    ],
)
def test_a_wish_that_no_kind_takes_up_is_refused(changes: dict[str, Any], wishes: Wishes, said: str) -> None:
    """Weights in a format that the plan lacks, and data, are said instead of dropped."""
    with pytest.raises(InputError) as caught:
        export_service(given(plan(kind(**changes))), [], wishes, "plan.json")
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("changes", "model_id", "named"),
    [(INT8, "int8=me/x", "me/x"), ({}, "me/x", "me/x"), ({"weight_format": "bf16", "weight_bits": 16}, "me/x", "me/x")],
)
def test_weights_that_a_kind_loads_are_taken_up(changes: dict[str, Any], model_id: str, named: str) -> None:
    """In the format of the plan, or in 16 bits where the engine makes the format of them (fp8)."""
    (text,) = texts(plan(kind(**changes)), model_id=model_id).values()
    assert f"MODEL:={named}" in text or f"MODEL:-{named}" in text, text

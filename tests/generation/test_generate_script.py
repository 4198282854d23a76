"""The exported script against a server that speaks the engines' protocol: reading, sharing, resuming, failing."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from planner.documents.files import data_folder
from planner.generation.generation_settings import OF_ANSWERS
from tests.helpers import openai_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCRIPT = data_folder("models") / "exports" / "generate.py"
SETTINGS = {
    "model": "m", "weight_format": "bf16", "kv_bits": 16, "max_tokens": 8, "sampling": {"temperature": 0},
    "prompts_per_part": 3, "concurrency": 4, "replicas_per_machine": 1, "gpus_per_replica": 1, "adapters": {},
    "first_port": 8000,
    "serve": [], "measure": [],
}  # fmt: skip


@pytest.fixture
def server() -> Iterator[openai_server.Server]:
    with openai_server.Server() as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten prompts, a blank line, and settings: four parts of at most three."""
    lines = [json.dumps({"id": f"p{number}", "prompt": f"text {number}\u2028"}) for number in range(9)]
    lines.append(json.dumps({"messages": [{"role": "user", "content": "hello"}]}))
    (tmp_path / "prompts.jsonl").write_text("\n".join((*lines[:4], "", *lines[4:])) + "\n")
    (tmp_path / "generate.json").write_text(json.dumps(SETTINGS))
    return tmp_path


def run(folder: Path, *arguments: str, server: openai_server.Server | None = None, **settings: Any) -> Any:
    """Run the script in a folder as a user does, without packages, and return how it ended."""
    (folder / "generate.json").write_text(json.dumps(SETTINGS | settings))
    engine = ["--endpoint", server.address] if server else []
    files = () if "--measure" in arguments else ("prompts.jsonl", "results")
    command = [sys.executable, "-I", "-S", str(SCRIPT), *files, "--settings", "generate.json"]
    return subprocess.run([*command, *engine, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def answers(folder: Path) -> list[dict[str, Any]]:
    """Return all answers in the order of the parts."""
    parts = sorted((folder / "results").glob("part-*.jsonl"))
    return [json.loads(line) for part in parts for line in part.read_bytes().splitlines()]


def test_every_prompt_is_answered_once_and_in_order(folder: Path, server: openai_server.Server) -> None:
    """Ten prompts in four parts; one without an id has its place as id."""
    done = run(folder, server=server)
    assert done.returncode == 0, done.stderr
    found = answers(folder)
    assert [one["id"] for one in found] == [*(f"p{number}" for number in range(9)), 9]
    assert found[0]["text"] == "\u20280 txet" and found[9]["text"] == "olleh"
    assert set(server.asked.values()) == {1}
    assert {(one["model"], one["max_tokens"], one["temperature"]) for one in server.bodies} == {("m", 8, 0)}
    assert "10 of 10 prompts answered" in done.stdout


def test_script_and_bucket_agree_on_what_answers_depend_on() -> None:
    """The bucket of a task has another name for the same settings as the folder of the script is refused for."""
    assert runpy.run_path(str(SCRIPT))["OF_ANSWERS"] == OF_ANSWERS


def test_what_is_done_is_not_done_again(folder: Path, server: openai_server.Server) -> None:
    """A part that is lost is answered again, no other; then there is nothing to do."""
    run(folder, server=server)
    whole = answers(folder)
    (folder / "results" / "part-000001.jsonl").unlink()
    (folder / "results" / ".part-000001.jsonl.host.7").write_text('{"id": "p3", "te')  # what a lost machine left
    server.asked.clear()
    assert run(folder, server=server).returncode == 0
    assert sorted(one[:6] for one in server.asked) == ["text 3", "text 4", "text 5"]
    assert answers(folder) == whole
    assert "nothing to do" in run(folder).stdout  # no engine is started


def test_machines_share_the_prompts(folder: Path, server: openai_server.Server) -> None:
    """Parts 0 and 2 on one machine, 1 and 3 on the other; a third way of sharing finds nothing left."""
    run(folder, "--shards", "2", server=server)
    assert len(answers(folder)) == 6
    run(folder, "--shards", "2", "--shard", "1", server=server)
    assert len(answers(folder)) == 10 and set(server.asked.values()) == {1}
    assert "nothing to do" in run(folder, "--shards", "3", "--shard", "2").stdout


def test_a_busy_engine_is_asked_again_and_a_refused_prompt_is_not(folder: Path) -> None:
    """503 passes, 400 is an answer with an error, which --retry-errors asks again, alone."""
    with openai_server.Server(failing=2) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (folder / "prompts.jsonl").write_text('{"prompt": "bad"}\n{"prompt": "good"}\n')
        done = run(folder, server=server)
        assert done.returncode == 0 and "1 refused" in done.stdout
        assert sorted(answers(folder)[0]) == ["error", "id"] and sum(server.asked.values()) == 4
        server.asked.clear()
        assert run(folder, "--retry-errors", server=server).returncode == 0
        assert server.asked == {"bad": 1}
        server.shutdown()


@pytest.mark.slow
def test_an_engine_that_dies_ends_the_run_with_its_log(folder: Path) -> None:
    """Exit code 1, so that a launcher starts it again; the log says why."""
    done = run(folder, serve=[sys.executable, "-c", "raise SystemExit('out of memory')"])
    assert done.returncode == 1 and "the engine ended with 1" in done.stderr and "out of memory" in done.stderr


@pytest.mark.slow
def test_the_script_starts_the_engine_on_its_gpus_and_stops_it(folder: Path) -> None:
    """The command of the settings, with the port of the replica; nothing is left running."""
    with openai_server.Server() as probe:
        port = probe.server_address[1]
    serve = [sys.executable, openai_server.__file__, str(port)]
    code = f"import os, sys; print(os.environ['CUDA_VISIBLE_DEVICES']); os.execv(sys.executable, {serve!r})"
    done = run(folder, serve=[sys.executable, "-u", "-c", code], gpus_per_replica=2, first_port=port)
    assert done.returncode == 0, done.stderr
    assert len(answers(folder)) == 10
    assert (folder / "engine-0.log").read_text().split()[0] == "0,1"
    with openai_server.Server(port) as free:  # the port is free again
        assert free.address


def test_a_measurement_runs_the_command_of_the_settings(folder: Path, server: openai_server.Server) -> None:
    """`{port}` and `{out}` are filled in."""
    measure = [sys.executable, "-c", "import sys; open(sys.argv[1], 'w').write(sys.argv[2])", "{out}", "{port} {model}"]
    assert run(folder, "--measure", "m.json", server=server, measure=measure).returncode == 0
    assert (folder / "m.json").read_text() == f"{server.server_address[1]} m"


def test_answers_of_another_run_are_not_mixed(folder: Path, server: openai_server.Server) -> None:
    """Other prompts or other weights need another folder."""
    run(folder, server=server)
    done = run(folder, server=server, max_tokens=9)
    assert done.returncode == 2 and "max_tokens was 8 and is 9" in done.stderr
    with (folder / "prompts.jsonl").open("a") as file:
        file.write('{"prompt": "one more"}\n')
    assert "prompts was" in run(folder, server=server).stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "has no prompts"),
        ("{\n", "prompts.jsonl:1: no JSON"),
        ("[1]\n", "prompts.jsonl:1: no object"),
        ('{"id": [1], "prompt": "a"}\n', "prompts.jsonl:1: no object"),
        ('{"prompt": ""}\n', "give either prompt"),
        ('{"prompt": "a", "messages": []}\n', "give either prompt"),
        ('{"messages": "a"}\n', "give either prompt"),
        ('{"id": 1, "prompt": "a"}\n\n{"id": 1, "prompt": "b"}\n', "prompts.jsonl:3: id 1 is there twice"),
        ("{\n" * 30, "and 10 more"),
    ],
)
def test_wrong_prompts_are_found_before_an_engine_starts(folder: Path, lines: str, said: str) -> None:
    """Every fault with its line, exit code 2, and nothing is written."""
    (folder / "prompts.jsonl").write_text(lines)
    done = run(folder)
    assert done.returncode == 2 and said in done.stderr
    assert not (folder / "results").exists()


def test_empty_weights_and_wrong_shards_are_refused(folder: Path) -> None:
    """Before prompts are read."""
    assert "model: empty" in run(folder, model="").stderr
    assert "adapter-1: empty" in run(folder, adapters={"adapter-0": "x", "adapter-1": ""}).stderr
    assert "--shard 2 is not from 0 to 1" in run(folder, "--shard", "2", "--shards", "2").stderr

"""One case of the loop: exported, run, killed, resumed, loaded and tracked, compared with its plan line by line."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import planner
from benchmarks.loop.cases import OF_SCRIPTS, SAVES, Case, plan_case
from benchmarks.loop.machine import Machines
from benchmarks.loop.missing_gpu import apply_changes
from planner.exports.export import choose_job, export, export_all
from planner.exports.facts import CHECKPOINT_FOLDER, Wishes
from planner.results.plan import Assignment, Plan
from planner.results.run_results import Tracking
from planner.scenario.scenario import Scenario

HERE = Path(__file__).parent
DATA = {"llamafactory": "pairs", "axolotl": "chats.jsonl"}
"""Trainer -> its data set in the folder of the model; of the others plain text."""
LEARNING_RATE = {"axolotl": "\nlearning_rate: 0.0001\n", "llamafactory": "\ntemplate: empty\n"}
"""Trainer -> what a person adds to its file."""


class Line(NamedTuple):
    """A line of the comparison: what the plan says and what the run did."""

    what: str
    planned: object
    found: object

    @property
    def agrees(self) -> bool:
        """Return whether both are the same; numbers to a hundredth of a percent."""
        if isinstance(self.planned, float) and isinstance(self.found, (int, float)):
            return math.isclose(self.planned, self.found, rel_tol=1e-4)
        return self.planned == self.found


class Result(NamedTuple):
    """What came of a case."""

    changes: list[str]
    resumed_from: str
    lines: list[Line]
    consoles: str
    tracked: str = ""
    """Seconds of a step by `track`, and by the trainer's own clock in its last start, saving included."""


def run_case(case: Case, python: Path, model: Path, folder: Path, port: int) -> Result:
    """Run a case in an empty folder; `model` holds the tiny model and its data."""
    scenario, plan = plan_case(case, str(model / "model"))
    out = folder / "out" / "tiny"
    machines = Machines(_export(case, scenario, plan, model, folder, out), python, folder, port)
    changes = [name for each in machines.folders for name in apply_changes(each, case.trainer)]
    lines, resumed_from = list[Line](), "not killed"
    if case.kill is not None:
        kill = replace(case.kill, step=max(plan.jobs[0].steps // SAVES, 1))
        first = machines.start(out, kill)
        lines += [
            Line("a killed run has an exit code of its own", True, first.code != 0),
            Line("no process outlives the script", 0, first.orphans),
            Line("the kill came at its moment", True, kill.was_in_time(out)),
        ]
    last = machines.start(out)
    resumed_from = _resumed_from(last.console) if case.kill is not None else resumed_from
    lines.append(Line("exit code", 0, last.code))
    if last.code:
        return Result(sorted(set(changes)), resumed_from, lines, last.console)
    newest = max(out.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    log = folder / "machine-0" / "console.log" if case.trainer in OF_SCRIPTS else newest / "trainer_state.json"
    tracked = planner.track(plan, scenario, [str(log)])
    lines += [*_compare(case, plan, out, newest, python, model), *_of_tracking(plan, tracked)]
    seconds = _seconds_of_steps(tracked, last.console, resumed_from, plan.jobs[0].steps)
    return Result(sorted(set(changes)), resumed_from, lines, last.console, seconds)


def _seconds_of_steps(tracked: Tracking, console: str, resumed_from: str, steps: int) -> str:
    """Return the seconds of a step that `track` reads, and those by the runtime that a trainer prints at its end."""
    began = re.match(r"step (\d+)", resumed_from)
    runtimes = re.findall(r"['\"]train_runtime['\"]: ['\"]?([\d.]+)", console)  # so far, and at the end
    read, own = tracked.observed.step_seconds, None
    if runtimes and steps > (first := int(began[1]) if began else 0):
        own = float(runtimes[-1]) / (steps - first)
    return " of ".join("-" if seconds is None else f"{seconds:.3g} s" for seconds in (read, own))


def _export(case: Case, scenario: Scenario, plan: Plan, model: Path, folder: Path, out: Path) -> list[Path]:
    """Write the exported folder of each machine; all save into one folder, as on a shared disk."""
    data = DATA.get(case.trainer, "data.jsonl")
    wishes = Wishes(str(model / "model"), str(model / data) if data.endswith("jsonl") else data)
    given = choose_job(plan, scenario, "plan.json", None)
    if case.trainer in OF_SCRIPTS:
        texts = export(given, [case.trainer], wishes)
    else:
        texts, _ = export_all(given, wishes, trainers=(case.trainer,))
    found = []
    for rank in range(case.machines):
        place = folder / f"machine-{rank}"
        place.mkdir(parents=True)
        for name, text in texts.items():
            (place / name).write_text(text.replace(f"{CHECKPOINT_FOLDER}/tiny", str(out)))
        if case.trainer in OF_SCRIPTS:
            given_by_hand = {"engine": case.trainer, "out": str(out), "model": wishes.model_id, "data": wishes.dataset}
            _own_script(case, texts[FILE[case.trainer]], rank, place, given_by_hand)
        with (place / FILE[case.trainer]).open("a") as file:
            file.write(LEARNING_RATE.get(case.trainer, ""))
        if case.trainer == "llamafactory":
            shutil.copytree(model / "data", place / "data")
        found.append(place)
    return found


FILE = {
    "trl": "sft.yaml", "llamafactory": "llamafactory.yaml", "axolotl": "axolotl.yml", "accelerate": "accelerate.yaml",
    "deepspeed": "ds_config.json",
}  # fmt: skip


def _own_script(case: Case, text: str, rank: int, place: Path, given: dict[str, Any]) -> None:
    """Write what a person does with a file for a script of one's own: the script, its settings, and the command.

    Settings and command are those at the head of the file, so that one which it does not say ends the run.
    """
    head = _head_of(text)
    command = re.search(rf"\b{OF_SCRIPTS[case.trainer]}.*?train\.py", head)
    asked = re.search(r"must set what this file cannot: (.*?)(?= \w+: |$)", head)
    assert command and asked, head
    settings = dict(part.split(" ", 1) for part in asked[1].split(", "))
    numbers = {name: int(value) if value.isdigit() else value for name, value in settings.items()}
    (place / "train.json").write_text(json.dumps({**numbers, **given}))
    shutil.copy(HERE / "own_script" / "train.py", place)
    said = {
        "machine_rank K": f"machine_rank {rank}",
        "node_rank K": f"node_rank {rank}",
        "IP_OF_MACHINE_0": "127.0.0.1",
    }
    start = command[0]
    for word, value in said.items():
        start = start.replace(word, value)
    (place / "run.sh").write_text(f"exec {start}\n")
    if "hosts.txt" in start:
        hosts = [f"machine-{number} slots={case.gpus}" for number in range(case.machines)]
        (place / "hosts.txt").write_text("\n".join(hosts) + "\n")


def _head_of(text: str) -> str:
    """Return the head of an exported file in one line."""
    is_json = text.startswith("{")
    lines = json.loads(text)["_comment"] if is_json else [row[1:] for row in text.splitlines() if row.startswith("#")]
    return " ".join(" ".join(lines).split())


def _resumed_from(console: str) -> str:
    """Return the checkpoint that a start went on from, as the script says it, and those that it passed over."""
    passed = sorted(set(re.findall(r"checkpoint-(\d+) is incomplete: passed over", console)), key=int)
    found = re.search(r"starts from .*?(checkpoint-\d+|the beginning)", console)
    said = found[1].replace("checkpoint-", "step ") if found else "not said"
    return said + (f", {', '.join(passed)} passed over" if passed else "")


def _compare(case: Case, plan: Plan, out: Path, newest: Path, python: Path, model: Path) -> list[Line]:
    """Return the lines of plan and run: steps, batch, memory's settings, checkpoints, result."""
    job = plan.jobs[0]
    state: dict[str, Any] = json.loads((newest / "trainer_state.json").read_text())
    result = out / "merged" if case.result == "merged" else out
    read = subprocess.run(
        [str(python), str(HERE / "read_result.py"), str(result), str(model / "model")], capture_output=True, text=True,
        check=False, env={"PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    lines = [
        # Transformers takes one more step where it goes on from its last one.
        Line("steps", job.steps, min(state["global_step"], job.steps + 1) - (state["global_step"] > job.steps)),
        Line("steps that were asked for", job.steps, state["max_steps"]),
        Line("micro-batch", job.techniques.micro_batch, state["train_batch_size"]),
        Line("checkpoints kept", 2, len(list(out.glob("checkpoint-*")))),
        Line("the result loads", 0, read.returncode),
    ]
    if case.packing == "packed" and case.kill is None:
        lines.append(Line("tokens", job.steps * job.global_batch * job.sequence_length, state["num_input_tokens_seen"]))
    if read.returncode:
        return [*lines, Line("its fault", "", read.stderr.strip().splitlines()[-1][:200])]
    return [*lines, *_of_result(job, case, json.loads(read.stdout.strip().splitlines()[-1]))]


def _of_result(job: Assignment, case: Case, result: dict[str, Any]) -> list[Line]:
    """Return the lines of what was saved and of the arguments that the trainer ran with."""
    arguments, techniques = result.get("arguments", {}), job.techniques
    lines = [
        Line("one token is generated", 1, result["new_tokens"]),
        Line("all weights finite", True, result["finite"]),
    ]
    if case.result == "merged":
        lines.append(Line("merged in 16 bit", "BF16", result["saved_type"]))
    elif techniques.method == "lora":
        lines += [
            Line("rank", techniques.lora_rank, result["adapter"]["r"]),
            Line("alpha is twice the rank", 2 * (techniques.lora_rank or 0), result["adapter"]["lora_alpha"]),
        ]
    planned = {
        "per_device_train_batch_size": techniques.micro_batch,
        "gradient_accumulation_steps": techniques.accumulation_steps,
        "max_length": job.sequence_length,
        "packing": job.packing == "packed",
        "max_steps": job.steps,
        "optim": "adamw_torch" if techniques.optimizer == "adamw" else techniques.optimizer,
    }
    return [*lines, *(Line(name, value, arguments[name]) for name, value in planned.items() if name in arguments)]


def _of_tracking(plan: Plan, tracked: Tracking) -> list[Line]:
    """Return the lines of `track` on the state that a trainer left, or on the console of a script's last start."""
    job = plan.jobs[0]
    return [
        Line("steps that track reads", job.steps, tracked.observed.steps),
        Line("share done", 1.0, tracked.observed.share_done),
        Line("track takes it for this job", False, any("is it this job?" in note for note in tracked.notes)),
    ]

"""The files of a job of generation: the script, its settings, and the tasks that launch it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from planner.errors import Fault, InputError, collect_faults, raise_faults
from planner.exports.field_map import field_maps, launch_maps
from planner.exports.generation import generate
from planner.exports.generation.settings import engine_of, remarks_of, script_settings
from planner.exports.generation.tasks import dstack_command, dstack_generation, skypilot_command, skypilot_generation
from planner.exports.header import header
from planner.exports.quoting import document, shell_word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.exports.facts import Given, Wishes

_TASKS = {"skypilot": (skypilot_generation, skypilot_command), "dstack": (dstack_generation, dstack_command)}
PROMPTS = "prompts.jsonl"
RUN = "python generate.py prompts.jsonl results"


def export_generation(given: Given, targets: Sequence[str], wishes: Wishes, file: str) -> dict[str, str]:
    """Return the task of each target, the script and its settings by the names of the files.

    `InputError` for a target that trains, for a launcher that has no such task, and for an engine without a script.
    """
    engine, maps = engine_of(given, file), launch_maps()
    where = f"jobs.{given.job.name}"
    remarks = remarks_of(given, engine, wishes)
    faults, found = [], {}
    for name in targets:
        if name not in _TASKS:
            label = (maps | field_maps())[name].label
            what = f"{label} trains, and this job answers prompts" if name in field_maps() else f"no task for {label}"
            faults.append(Fault(file, 0, where, what, f"--to {' or --to '.join(_TASKS)}, or --all"))
            continue
        with collect_faults(faults):
            found[maps[name].file] = _TASKS[name][0](given, maps[name], engine, remarks, wishes.dataset or PROMPTS)
    raise_faults(faults)
    comment = header(given.plan, given.job, engine.tool, RUN, remarks)
    found["generate.py"] = Path(generate.__file__).read_text(encoding="utf-8")
    found["generate.json"] = json.dumps(script_settings(given, engine, wishes, comment), indent=2) + "\n"
    return found


def export_all_generation(given: Given, wishes: Wishes, file: str) -> tuple[dict[str, str], list[str]]:
    """Return the files of a folder to launch from, by name, and which launchers are left out and why."""
    found, left_out, starts = export_generation(given, [], wishes, file), [], []
    for name, (_, command) in _TASKS.items():
        try:
            found |= export_generation(given, [name], wishes, file)
            starts.append(command(given))
        except InputError as error:
            left_out.append(f"{launch_maps()[name].file} is left out: {error.faults[0].what}")
    engine = engine_of(given, file)
    found["requirements.txt"] = "".join(f"{one}\n" for one in engine.packages)
    found["README.md"] = _readme(given, sorted(found), starts)
    return found, left_out


def _readme(given: Given, files: Sequence[str], starts: Sequence[str]) -> str:
    """Return what the folder is, how to launch it, and how to measure before."""
    job = given.job
    launch = "".join(f"    {one}\n" for one in starts)
    of_machine = f"    {RUN}" + (f" --shard NUMBER --shards {job.instances}" if job.instances > 1 else "") + "\n"
    return document(
        f"Files of job {job.name} ({job.gpus} x {job.gpu} at {job.provider}): {', '.join(files)}.\n\n"
        'Prompts: prompts.jsonl, a line for each: {"id": "a1", "prompt": "..."} or {"id": "a1", "messages": [...]}.\n'
        "Answers: parts in the folder of results, in the order of the prompts. What is there is not done again.\n\n"
        f"Launch {'one machine' if job.instances == 1 else f'{job.instances} machines'}:\n\n{launch}"
        f"or on the machine itself:\n\n    pip install -r requirements.txt\n{of_machine}\n"
        "Measure for ten minutes first, on one machine, and correct the plan:\n\n"
        "    python generate.py --measure measure.json\n"
        f"    planner calibrate measure.json generate.json --gpu {shell_word(job.gpu)} --scenario SCENARIO "
        f"--job {shell_word(job.name)}\n"
    )

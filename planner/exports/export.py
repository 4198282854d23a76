"""The files of one job of a plan: those of the chosen targets, or those that try it, and the check of a written folder.

Every reason why a file cannot be made is reported. The check needs no trainer: files, fields, scripts.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import itertools
import json
import math
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from planner import generation
from planner.documents.files import Document, data_folder, file_name, parse_document, read_text, yaml_text
from planner.documents.tables import json_text, read_json
from planner.documents.validation import MOST_NAMES, meant_name
from planner.errors import Fault, InputError, LibraryError, collect_faults, plan_with, raise_faults
from planner.exports import spot_policy
from planner.exports.facts import Given, Wishes, job_facts, unknown_values
from planner.exports.field_map import (
    STARTING_ALL,
    Facts,
    FieldMap,
    LaunchMap,
    field_maps,
    first_able,
    launch_maps,
    rl_maps,
)
from planner.exports.launchers import (
    GIVE_BACK,
    TOKEN,
    VARIABLES,
    Checklist,
    dstack_task,
    hf_job,
    job_hourly,
    kubernetes_job,
    local_paths,
    readme,
    result_script,
    run_script,
    skypilot_needs,
    skypilot_task,
    slurm_script,
    stop_commands,
    token_remark,
    usd_per_hour,
)
from planner.exports.machine_names import (
    MEETING_PORT,
    missing_fields,
    remarks_file,
    start_command,
    task_name,
    trainer_file,
)
from planner.exports.read_configs import is_known_field, known_fields
from planner.exports.script_parts import (
    SCRIPT,
    commented,
    environment_lines,
    environment_remark,
    requirements,
    split_packages,
    trying_lines,
    wrapped,
    written_by,
)
from planner.library.huggingface import config_of, decoder_config
from planner.library.reading import read_library
from planner.results.plan import Plan, plan_fingerprint
from planner.results.plan_parts import describe_machines
from planner.scenario.job import Job
from planner.scenario.scenario import Scenario
from planner.subjects import planner_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

LIST = "export.json"
"""File with the list, next to the files."""
_WANTED = f"give a folder that planner export -o wrote: it has {LIST}"
_AGAIN = "export the plan again into this folder"
_SECONDS = 60.0
"""Most that the check of one script may take."""


@dataclass(frozen=True)
class CheckedFolder:
    """A folder without a fault: what was read of it, and what is still left to a person."""

    scenario: str
    files: int
    scripts: int
    see_to: tuple[str, ...]
    unchecked: tuple[str, ...]
    """What this machine could not check, and why."""


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def folder_list(
    plan: Plan, texts: Mapping[str, str], needs: Collection[str], see_to: Collection[str], folder: Path | None = None
) -> str:
    """Return the list of a folder: its files with their hashes, the plan, what it needs and leaves to a person.

    `needs`: files that those here start or read. `folder`: where they are written, if they are; files of the same plan
    that an earlier export wrote there stay in the list.
    """
    own, entries = plan_fingerprint(plan), dict[str, Any]()
    try:
        before = _read_list(folder) if folder is not None else {}
    except InputError:
        before = {}
    if before.get("plan") == own:
        entries |= before["files"]
        kept = [line for line in before["see_to"] if line.partition(": ")[0] not in texts]
        needs, see_to = [*before["needs"], *needs], [*kept, *see_to]
    for name, text in texts.items():
        tool = _tool_of(name)
        is_table = tool is not None and tool.format != "python"
        fields = {"fields": _parsed(name, text).data} if is_table else {}
        entries[name] = {"sha256": _hash(text), **fields}
    listed = {
        "scenario": plan.scenario,
        "plan": own,
        "needs": list(dict.fromkeys(needs)),
        # Whether a field is filled in, the check sees for itself.
        "see_to": [line for line in dict.fromkeys(see_to) if _tool_of(line.partition(": ")[0]) is None],
        "files": entries,
    }
    return json_text(listed) + "\n"


def _read_list(folder: Path) -> dict[str, Any]:
    """Return the list of a folder; `InputError` where there is none."""
    path = folder / LIST
    if not path.is_file():
        raise InputError([Fault(str(folder), 0, "", f"has no {LIST}", _WANTED)])
    try:  # not by read_text: what a command has read it does not write
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        data = None
    kinds = {"scenario": str, "plan": str, "needs": list, "see_to": list, "files": dict}
    if not isinstance(data, dict) or any(not isinstance(data.get(key), kind) for key, kind in kinds.items()):
        raise InputError([Fault(str(path), 0, "", "is no list of an export", _WANTED)])
    return data


def _tool_of(name: str) -> FieldMap | None:
    """Return the trainer whose settings a file has by its name."""
    maps = (*field_maps().values(), *rl_maps().values())
    tuned = (tool.of({"tuning": tuning}) for tool in maps for tuning in tool.tuning)
    return next((tool for tool in (*maps, *tuned) if tool.file == Path(name).name), None)


def check_folder(folder: str, plan: Plan | None = None) -> CheckedFolder:
    """Return what is left to do of an exported folder; `InputError` with a line for each fault.

    `plan`: the plan of which the files should be.
    """
    place, faults = Path(folder), list[Fault]()
    listed = _read_list(place)
    if plan is not None and plan_fingerprint(plan) != listed["plan"]:
        faults.append(Fault(str(place / LIST), 0, "plan", "these files are of another plan", _AGAIN))
    for name in listed["needs"]:
        if name not in listed["files"] and not (place / name).exists():
            faults.append(
                Fault(str(place / name), 0, "", "is missing, and a file here starts or reads it", _to_get(name))
            )
    scripts, unchecked = 0, list[str]()
    for name, entry in listed["files"].items():
        with collect_faults(faults):
            text = _text_of(place / name)
            document = _parsed(str(place / name), text)
            faults += _changes(place / name, text, entry, document, listed["plan"])
            faults += _fields(name, str(place / name), document, unchecked)
            for title, script in _scripts(name, text, document):
                scripts += 1
                faults += _script_faults(str(place / name), title, script, unchecked)
    raise_faults(faults)
    left = tuple(dict.fromkeys(unchecked))
    return CheckedFolder(listed["scenario"], len(listed["files"]), scripts, tuple(listed["see_to"]), left)


def _to_get(name: str) -> str:
    tool = _tool_of(name)
    if any(name in launcher.starts for launcher in launch_maps().values()):
        return "export the whole folder: --all"
    return f"export it into this folder: --to {tool.target}" if tool is not None else "copy it into this folder"


def _text_of(path: Path) -> str:
    if not path.is_file():
        raise InputError([Fault(str(path), 0, "", "is missing: it was exported with the others", _AGAIN)])
    return read_text(path)


def _parsed(file: str, text: str) -> Document:
    """Return the data of a file of YAML or JSON, else none; `InputError` where it is not what its name says."""
    kind = Path(file).suffix
    if kind == ".json":
        return _json(file, text)
    if kind in (".yaml", ".yml"):
        first, *others = text.split("\n---\n")  # a Job and its Service are two documents
        for other in others:
            parse_document(other, file)
        return parse_document(first, file)
    if kind == ".py":
        try:
            ast.parse(text)
        except SyntaxError as error:
            raise InputError([Fault(file, error.lineno or 0, "", f"is no Python: {error.msg}", _AGAIN)]) from None
    return Document(file, {}, "")


def _json(file: str, text: str) -> Document:
    try:
        data = json.loads(text)
    except ValueError as error:
        line = getattr(error, "lineno", 0)
        raise InputError([Fault(file, line, "", f"is no JSON: {getattr(error, 'msg', error)}", _AGAIN)]) from None
    return Document(file, data if isinstance(data, dict) else {}, text)


def _changes(path: Path, text: str, entry: Mapping[str, Any], document: Document, plan: str) -> Iterator[Fault]:
    """Yield what a file no longer has as it was exported; fields that are added to settings are filled in."""
    if path.name == "plan.json" and _hash(text.removesuffix("\n")) != plan:
        yield Fault(str(path), 0, "", "is another plan than that of these files", _AGAIN)
        return
    if _hash(text) == entry["sha256"]:
        return
    if "fields" not in entry:
        yield Fault(str(path), 0, "", "was changed after the export", f"{_AGAIN}, or check by hand what differs")
        return
    for field, value in _flat(entry["fields"]).items():
        now = _flat(document.data).get(field)
        if now != value and field.partition(".")[0] != "_comment":
            problem = f"is {_short(now)}, and the plan counts with {_short(value)}"
            fix = f"put it back, or plan with it: planner solve --from {path}"
            yield Fault(str(path), document.line(tuple(field.split("."))), field, problem, fix)


def _flat(data: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in data.items():
        flat |= _flat(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value}
    return flat


def _short(value: object) -> str:
    return "left out" if value is None else json.dumps(value)[:60]


def _fields(name: str, file: str, document: Document, unchecked: list[str]) -> Iterator[Fault]:
    """Yield the required fields that settings lack, and fields whose names are no field of the tool."""
    tool = _tool_of(name)
    if tool is None:
        return
    data = _constants(file) if tool.format == "python" else document.data
    for field, option in missing_fields(tool, data).items():
        yield Fault(file, 0, field, "is required and missing", f"fill it in ({option})")
    if tool.format == "python":
        return
    known = known_fields(tool)
    for field in _flat(document.data):
        if is_known_field(field, known) or field.startswith("_comment"):
            continue
        near = difflib.get_close_matches(field, known, 1, 0.85)
        if near:
            line = document.line(tuple(field.split(".")))
            yield Fault(file, line, field, f"is no field that {tool.label} {tool.version} has", f"write {near[0]}")
        else:
            unchecked.append(f"{name}: {field}: no field that is known here")


def _constants(file: str) -> dict[str, Any]:
    """Return the settings of a training script: the entries of its tables."""
    constants: dict[str, Any] = {}
    for node in ast.parse(read_text(file)).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            constants |= ast.literal_eval(node.value)
    return constants


def _scripts(name: str, text: str, document: Document) -> Iterator[tuple[str, str]]:
    """Yield the shell scripts of a file, each with its place in it."""
    if Path(name).suffix in (".sh", ".slurm"):
        yield "", text
    for key in ("setup", "run"):
        if isinstance(script := document.data.get(key), str):
            yield key, script
    for number, script in enumerate(document.data.get("commands") or ()):
        yield f"commands.{number}", str(script)


def _script_faults(file: str, title: str, script: str, unchecked: list[str]) -> Iterator[Fault]:
    """Yield what `bash -n` and, where it is installed, shellcheck find wrong with a script."""
    for tool, words in (("bash", ("-n",)), ("shellcheck", ("--severity=error", "--shell=bash", "--format=gcc", "-"))):
        program = shutil.which(tool)
        if program is None and tool == "bash":
            unchecked.append("no bash here: nothing has read the scripts")
        if program is None:
            continue
        done = subprocess.run(
            [program, *words], input=script, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines() or ["is no shell script"]
            yield Fault(file_name(file), 0, title, f"{tool}: {said[0]}", _AGAIN)
            return


_LAUNCHERS = {
    "skypilot": skypilot_task,
    "dstack": dstack_task,
    "huggingface": hf_job,
    "kubernetes": kubernetes_job,
    "slurm": slurm_script,
}


def target_names() -> tuple[str, ...]:
    """Return the targets that have a field map."""
    return (*launch_maps(), *field_maps())


def choose_job(plan: Plan, scenario: Scenario, file: str, name: str | None) -> Given:
    """Return the job of a plan that is exported, with the scenario that the plan carries.

    `InputError` where it is not clear which, or where it runs nothing.
    """
    names = [job.name for job in plan.jobs]
    if not plan.jobs:
        raise InputError(
            [Fault(file, 0, "jobs", f"nothing to run: the plan is {plan.status}", "export a plan with jobs")]
        )
    if name is None and len(plan.jobs) > 1:
        fix = f"choose one with --job, such as {' or '.join(names[:MOST_NAMES])}"
        raise InputError([Fault(file, 0, "jobs", f"{len(plan.jobs)} jobs", fix)])
    name = name if name is None else meant_name(name, names, "--job", "the plan has no job")
    chosen = [job for job in plan.jobs if name in (None, job.name)]
    if not chosen[0].gpus:
        problem = "a managed service trains this job itself: there is nothing to launch"
        raise InputError([Fault(file, 0, f"jobs.{chosen[0].name}", problem, "forbid the service in limits.providers")])
    if all(job.name != chosen[0].name for job in scenario.jobs):
        raise InputError([Fault(file, 0, "inputs", f"the scenario has no job {chosen[0].name}", "solve it again")])
    return Given(plan, scenario, chosen[0])


def default_trainer(given: Given, file: str) -> str:
    """Return the trainer that runs the framework of the plan; `InputError` where none does, with those that can be."""
    maps, framework = field_maps(), given.job.framework or given.job.techniques.framework
    trainer = next((name for name in STARTING_ALL if framework in maps[name].frameworks), None)
    if trainer is None:
        where = f"jobs.{given.job.name}"
        unit = "tokens" if given.job.unit == "tokens" else "images"
        able = (maps[name].frameworks for name in STARTING_ALL if maps[name].unit == unit)
        known = dict.fromkeys(itertools.chain.from_iterable(able))
        fix = f"{plan_with(f'{where}.framework', known)}, or export the machines alone with --to"
        raise InputError([Fault(file, 0, where, f"no target has a file for {framework}", fix)])
    return trainer


def export(
    given: Given, targets: Sequence[str], wishes: Wishes, file: str = "plan", on_task: bool = False
) -> dict[str, str]:
    """Return the text of each file by its name; `InputError` with everything that a target cannot express.

    `on_task`: a task launches the files, also where none is among the targets.
    """
    launchers, job = launch_maps(), given.job
    where = f"jobs.{job.name}"
    if job.inference is not None:
        return generation.export_generation(given, targets, wishes, file)
    unknown = unknown_values(job)
    if unknown:
        fix = "planner check lists every edited figure; re-solve the scenario"
        raise InputError([Fault(file, 0, where, f"unknown: {', '.join(unknown)}", fix)])
    on_task = on_task or any(name in launchers for name in targets)
    facts = job_facts(given, wishes, on_task)
    maps = {name: tool.of(facts) for name, tool in field_maps().items()}
    trainers = [maps[name] for name in targets if name in maps]
    launched = next((trainer for trainer in trainers if trainer.launch), None) or first_able(facts)
    faults: list[Fault] = []
    for tool in {tool.target: tool for tool in (*trainers, *([launched] if on_task else []))}.values():
        faults += export_faults(tool, facts, where, file)
    texts: dict[str, str] = {}
    for name in targets:
        with collect_faults(faults):
            if name in launchers:
                texts[launchers[name].file] = _LAUNCHERS[name](given, launchers[name], launched, facts)
            elif not faults:
                texts[maps[name].file] = trainer_file(given.plan, job, maps[name], facts)
                texts |= maps[name].files_of(facts) | remarks_file(given.plan, job, maps[name], facts)
    raise_faults(faults)
    return texts


def export_all(
    given: Given,
    wishes: Wishes,
    file: str = "plan",
    policy: Mapping[str, Any] | None = None,
    trainers: Sequence[str] = (),
) -> tuple[dict[str, str], list[str]]:
    """Return the files of a folder to launch from, by name, and which launchers are left out and why.

    The trainer is the first of `trainers` (default: all) that can express the plan; `InputError` of that first one
    where none can. `policy`: the table of a run that follows one on spot.
    """
    launchers, job = launch_maps(), given.job
    if job.inference is not None:
        return generation.export_all_generation(given, wishes, file)
    facts = job_facts(given, wishes, on_task=True)
    trainer = first_able(facts, trainers)
    texts = export(given, [trainer.target], wishes, file, on_task=True)
    left_out, able = [], dict[str, LaunchMap]()
    for name, tool in launchers.items():
        try:
            texts |= export(given, [name, trainer.target], wishes, file)
            able[name] = tool
        except InputError as error:
            left_out.append(f"{tool.file} is left out: {error.faults[0].what}")
    texts["run.sh"] = run_script(given, trainer, facts)
    texts["requirements.txt"] = requirements(trainer, facts, job.gpu)
    if (text := result_script(given, facts)) is not None:
        texts[SCRIPT] = text
    if policy is not None:
        texts["policy.json"] = json.dumps(policy) + "\n"
        texts["spot_policy.py"] = Path(spot_policy.__file__).read_text(encoding="utf-8")
    texts["README.md"] = readme(given, sorted(texts), able, facts)
    return texts, left_out


def checklist(
    plan: Plan, scenario: Scenario, file: str, wishes: Wishes, folders: Mapping[str, str], files: Collection[str]
) -> Checklist:
    """Return what the exported files of jobs and services need, leave to a person, and cost.

    `folders`: the folder of the files of each job or service by its name; empty where they lie in none.
    """
    parts = []
    for name, folder in folders.items():
        own = [path.removeprefix(f"{folder}/") for path in files if not folder or path.startswith(f"{folder}/")]
        subject = next((planner_of(part) for part in plan.planned if part.name == name), None)
        if subject is not None:
            of_job = subject.checklist(plan, scenario, file, name, wishes, own)
        else:
            of_job = _job_checklist(choose_job(plan, scenario, file, name), wishes, own)
        parts.append(of_job.inside(folder, own))
    return Checklist(
        tuple(line for part in parts for line in part.needs),
        tuple(line for part in parts for line in part.see_to),
        tuple(line for part in parts for line in part.hourly),
    )


def _job_checklist(given: Given, wishes: Wishes, files: Collection[str]) -> Checklist:
    """Return the same of the files of one job, by their names."""
    if given.job.inference is not None:
        return generation.generation_checklist(given, wishes, files)
    facts, maps = job_facts(given, wishes, on_task=True), launch_maps()
    launched = [name for name, tool in maps.items() if tool.file in files]
    started = next((tool for tool in _maps_of(facts) if tool.launch and tool.file in files), None)
    trainer, is_launched = started or first_able(facts), bool(launched) or "run.sh" in files
    needs = [trainer.file, *trainer.files_of(facts)] if is_launched else []
    needs += local_paths(facts) if is_launched or started else []
    needs += [name for target in launched for name in maps[target].starts]
    stops = stop_commands(given)
    hourly = job_hourly(given, [stops[name] for name in launched])
    return Checklist(tuple(needs), tuple(_to_fill_in(given, facts, files, is_launched)), (hourly,))


def _maps_of(facts: Facts) -> list[FieldMap]:
    """Return the maps of trainers as they are for what the job does with samples."""
    return [tool.of(facts) for tool in field_maps().values()]


def _to_fill_in(given: Given, facts: Facts, files: Collection[str], is_launched: bool) -> list[str]:
    """Return what a user must still fill in or see to, of the files of a job of training."""
    remarks = list(facts["start_remarks"])
    for tool in _maps_of(facts):
        if tool.file in files:
            settings = tool.settings(facts)
            if tool.format == "python":
                settings = {name: value for part in settings.values() for name, value in part.items()}
            remarks += [f"{tool.file}: {field}: {how}" for field, how in missing_fields(tool, settings).items()]
            if tool.elsewhere:
                remarks.append(f"training script: train.py is yours, and sets what the head of {tool.file} lists")
    task = launch_maps()["skypilot"].file
    remarks += [f"{path}: next to these files on each machine" for path in local_paths(facts) if is_launched]
    for launcher in (tool for tool in launch_maps().values() if tool.file in files):
        missing = " and ".join(name for name in launcher.starts if name not in files)
        remarks += [f"{launcher.file}: {missing}: --all writes them"] if missing else []
        need = launcher.first_needs(task_name(given.job), facts["needs_token"])
        if launcher.file != task and need:
            remarks.append(f"{launcher.file}: first: {need}")
    if task in files:
        remarks += [f"{task}: {word}: {need}" for word, need in skypilot_needs(given.job, facts)]
    elif facts["needs_token"] and is_launched:
        remarks.append(f"{TOKEN}: {token_remark(facts['model_id'])}")
    return remarks


def export_faults(tool: FieldMap, facts: Facts, where: str, file: str) -> list[Fault]:
    """Return a fault for each thing that a tool cannot express, with the targets and the setting that can."""
    faults = []
    for technique, why, values in tool.refusals(facts):
        ways = [f"{_able(technique, facts)} can"] if technique and _able(technique, facts) else []
        if values:
            name = technique if technique == "framework" else f"techniques.{technique}"
            ways.append(f"or {plan_with(f'{where}.{name}', values)}")
        faults.append(Fault(file, 0, where, why, ", ".join(ways).removeprefix("or ")))
    return faults


def _able(technique: str, facts: Facts) -> str:
    """Return the trainers that have the value of a technique."""
    others = [tool for tool in field_maps().values() if tool.unit == facts["unit"]]
    if technique == "framework":
        return ", ".join(other.target for other in others if other.launch and facts["framework"] in other.frameworks)
    return ", ".join(other.target for other in others if str(facts[technique]) in other.techniques.get(technique, ()))


TRAINER = "trl"
"""The trainer that a probe runs: the first that an export takes."""
PROBE_RUN, PROGRAM, PROBE_PLANNED = "probe.sh", "probe.py", "planned.json"
PROBE_RESULT, DATA = "probe.json", "data.jsonl"
STEPS, LEAST_STEPS = 20, 5
SECONDS = 150.0
"""What the steps may take together, where the plan is right: with loading some three minutes."""
_MOST_TOKENS = 4_000_000
"""Tokens of made-up data at most: a short file is read again and again."""
_CLASSES = 32
"""Lengths that replace a log-normal distribution, all equally frequent."""


def probe_steps(step_seconds: float) -> int:
    """Return the steps of a probe: twenty, fewer where they would take long, and at least five."""
    return max(LEAST_STEPS, min(STEPS, int(SECONDS / max(step_seconds, 1e-9))))


def probe_files(given: Given, file: str, steps: int | None = None) -> dict[str, str]:
    """Return the files of a probe by name; `InputError` where the job is none that it can run.

    The settings are those of the export: same fields, from the same facts. Other are weights, data and the number of
    steps, and nothing is saved.
    """
    job = given.job
    where = f"jobs.{job.name}"
    asked = next(known for known in given.scenario.jobs if known.name == job.name)
    if job.inference is not None or not isinstance(asked, Job):
        fix = "measure it with the benchmark of its engine: planner export, then planner calibrate"
        raise InputError([Fault(file, 0, where, "a probe trains, and this job generates", fix)])
    if asked.tuning != "sft":
        fix = "train twenty steps, then planner calibrate"
        raise InputError([Fault(file, 0, where, f"a probe is of supervised fine-tuning, not of {asked.tuning}", fix)])
    if asked.work.images is not None:
        fix = f"run its export for twenty steps, and give what it took as {where}.measured"
        raise InputError([Fault(file, 0, where, "a probe makes up text, and this job trains on images", fix)])
    if asked.work.image_input is not None:
        fix = "train twenty steps, then planner calibrate"
        raise InputError([Fault(file, 0, where, "a probe makes up text, and this job has images", fix)])
    if unknown := unknown_values(job):
        fix = "planner check lists every edited figure; re-solve the scenario"
        raise InputError([Fault(file, 0, where, f"unknown: {', '.join(unknown)}", fix)])
    tool, count = field_maps()[TRAINER], steps or probe_steps(job.step_seconds)
    facts = job_facts(given, Wishes("model", DATA), on_task=False) | {
        **{"steps": count, "steps_before": 0, "saves": False, "save_steps": None, "output_dir": "out"},
        **{"needs_token": False, "result": None, "result_remarks": []},
    }
    raise_faults(export_faults(tool, facts, where, file))
    planned = _planned(given, tool, asked, facts, count, file)
    return {
        PROBE_RUN: _run_script(given, tool, facts, count),
        PROGRAM: (data_folder("models") / "exports" / PROGRAM).read_text(encoding="utf-8"),
        PROBE_PLANNED: json_text(planned) + "\n",
        tool.file: _settings(given, tool, facts),
        **tool.files_of(facts),
        "requirements.txt": requirements(tool, facts, job.gpu),
    }


def _settings(given: Given, tool: FieldMap, facts: Facts) -> str:
    """Return the settings of the trainer: those of the export, for the made-up model and data."""
    lines = [
        f"Probe of job {given.job.name} of plan {given.plan.scenario}, for {tool.label} {tool.version}: the fields of",
        "the export, on random weights and data, for a few steps. Nothing is saved.",
        written_by(given.plan),
    ]
    return commented(wrapped(lines)) + yaml_text(tool.settings(facts))


def _planned(given: Given, tool: FieldMap, asked: Job, facts: Facts, steps: int, file: str) -> dict[str, Any]:
    """Return what the program reads: the network, the samples, the trainer, and what the result must say of the run."""
    job = given.job
    used = job.techniques.model_dump(exclude_none=True)
    run = {
        **{name: value for name, value in used.items() if name != "framework"},
        "framework": job.framework or job.techniques.framework,
        **{"gpus": job.gpus, "instances": job.instances, "sequence_length": job.sequence_length},
        **{"global_batch": job.global_batch, "packing": job.packing, "trains_embeddings": facts["trains_embeddings"]},
    }
    return {
        "plan": plan_fingerprint(given.plan),
        "steps": steps,
        "processes": job.gpus_per_instance,
        "entry": tool.entry[0],
        "arguments": list(tool.entry[1:]),
        "data": DATA,
        "samples": _samples(asked, job.sequence_length, job.global_batch, steps),
        "run": run,
        "config": _config(asked.architecture, job.architecture, f"jobs.{job.name}.architecture", file),
    }


def _config(asked: str, name: str, where: str, file: str) -> dict[str, Any]:
    """Return the config.json of a model: the file that the job names, else one of the shape that is known."""
    if asked.endswith(".json"):
        return decoder_config(read_json(asked, "give the config.json that the plan was made with").data)
    (card,) = read_library([name]).architectures.values()
    try:
        return config_of(card)
    except LibraryError as error:
        fault = error.faults[0]
        raise InputError([Fault(file, 0, where, fault.what, fault.fix)]) from None


def _samples(asked: Job, sequence: int, batch: int, steps: int) -> list[tuple[int, int]]:
    """Return tokens and number of the samples: those of whole steps, in the lengths that the plan counts with."""
    most = max(1, min(steps, _MOST_TOKENS // (batch * sequence)))
    mean = asked.work.tokens_per_sample
    if asked.packing == "fixed" or mean is None:
        return [(sequence, most * batch)]
    classes = _classes(asked.work.sample_lengths, mean, asked.length_cv)
    kept = [(max(2, min(sequence, tokens)), share) for tokens, share in classes]
    length = math.fsum(tokens * share for tokens, share in kept)
    samples = most * batch * (sequence / length if asked.packing == "packed" else 1.0)
    return [(tokens, max(1, math.ceil(samples * share))) for tokens, share in kept]


def _classes(table: Sequence[tuple[float, int]], mean: float, spread: float) -> list[tuple[int, float]]:
    """Return lengths and their shares: of a table, else of a log-normal distribution of a mean and a spread."""
    if table:
        total = sum(count for _, count in table)
        return [(round(tokens), count / total) for tokens, count in table]
    if spread <= 0:
        return [(round(mean), 1.0)]
    sigma = math.sqrt(math.log1p(spread**2))
    at = [NormalDist().inv_cdf((index + 0.5) / _CLASSES) for index in range(_CLASSES)]
    return [(round(mean * math.exp(sigma * z - sigma**2 / 2)), 1 / _CLASSES) for z in at]


def _run_script(given: Given, tool: FieldMap, facts: Facts, steps: int) -> str:
    """Return the script that one machine runs."""
    job, several = given.job, given.job.instances > 1
    start = start_command(tool, facts, MEETING_PORT)
    usd = usd_per_hour(given)
    about = [
        f"Probe of job {job.name} of plan {given.plan.scenario}: {steps} steps with random weights and tokens.",
        written_by(given.plan),
        f"Machines: {describe_machines(job.gpus, job.gpu)} at {job.provider}"
        + (f", ${usd:,.2f} per hour from the first minute on." if usd is not None else "."),
        f"Run: bash {PROBE_RUN}, on the machine; it writes {PROBE_RESULT}, and needs no data, no weights and no token",
        f"Then: planner calibrate {PROBE_RESULT} --plan plan.json; or {GIVE_BACK}",
        f"Note: {environment_remark(job.gpu)}",
        f"Note: the random weights take {_weights_gb(job.architecture):,.0f} GB of disk, which the run needs too",
    ]
    if several:
        about.append("Note: every machine runs it, with NODE_RANK and HEAD_IP set; the result is that of machine 0")
    lines = [
        "set -euo pipefail",
        'cd "$(dirname "$0")"',
        *(f"{name}={value}" for name, value in VARIABLES.items() if several),
        *environment_lines(task_name(job)),
        "pip install -r requirements.txt",
        *(f"pip install {package}" for package in split_packages(tool, facts)[1]),
        *trying_lines(facts),
        f"python {PROGRAM} make",
        "# To run out of memory is a result: the last line says how it ended.",
        "ended=0",
        f"{start} {PROGRAM} train || ended=$?",
        f'python {PROGRAM} sum "$ended"',
    ]
    return "#!/usr/bin/env bash\n" + commented(wrapped(about)) + "\n".join(lines) + "\n"


def _weights_gb(name: str) -> float:
    (card,) = read_library([name]).architectures.values()
    return card.download_gb

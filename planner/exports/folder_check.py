"""The list of an exported folder, and what a machine without trainers can check of it: files, fields, scripts."""

from __future__ import annotations

import ast
import difflib
import hashlib
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.documents.files import Document, file_name, parse_document, read_text
from planner.documents.tables import json_text
from planner.errors import Fault, InputError, collect_faults, raise_faults
from planner.exports.field_map import FieldMap, field_maps, launch_maps, rl_maps
from planner.exports.machine_names import missing_fields
from planner.exports.read_configs import is_known_field, known_fields
from planner.results.plan import Plan, plan_fingerprint

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

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
    found = {
        "scenario": plan.scenario,
        "plan": own,
        "needs": list(dict.fromkeys(needs)),
        # Whether a field is filled in, the check sees for itself.
        "see_to": [line for line in dict.fromkeys(see_to) if _tool_of(line.partition(": ")[0]) is None],
        "files": entries,
    }
    return json_text(found) + "\n"


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
    found = _read_list(place)
    if plan is not None and plan_fingerprint(plan) != found["plan"]:
        faults.append(Fault(str(place / LIST), 0, "plan", "these files are of another plan", _AGAIN))
    for name in found["needs"]:
        if name not in found["files"] and not (place / name).exists():
            faults.append(
                Fault(str(place / name), 0, "", "is missing, and a file here starts or reads it", _to_get(name))
            )
    scripts, unchecked = 0, list[str]()
    for name, entry in found["files"].items():
        with collect_faults(faults):
            text = _text_of(place / name)
            document = _parsed(str(place / name), text)
            faults += _changes(place / name, text, entry, document, found["plan"])
            faults += _fields(name, str(place / name), document, unchecked)
            for title, script in _scripts(name, text, document):
                scripts += 1
                faults += _script_faults(str(place / name), title, script, unchecked)
    raise_faults(faults)
    left = tuple(dict.fromkeys(unchecked))
    return CheckedFolder(found["scenario"], len(found["files"]), scripts, tuple(found["see_to"]), left)


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
            what = f"is {_short(now)}, and the plan counts with {_short(value)}"
            fix = f"put it back, or plan with it: planner solve --from {path}"
            yield Fault(str(path), document.line(tuple(field.split("."))), field, what, fix)


def _flat(data: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in data.items():
        found |= _flat(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value}
    return found


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
    found: dict[str, Any] = {}
    for node in ast.parse(read_text(file)).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            found |= ast.literal_eval(node.value)
    return found


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

"""A configuration of reinforcement learning as a job of kind rl: files of TRL, verl and NeMo-RL, and scripts of flags.

Tools count what a step samples and trains on differently: in prompts, in answers, or in answers of one GPU. The roles
of `models/exports/rl/read/files.yaml` say which field is which. Means of lengths stand in no such file: they are
assumed, and said.
"""

from __future__ import annotations

import math
import re
import shlex
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from planner.documents.files import Document, Marks, data_folder, parse_document, parse_value, read_document, read_text
from planner.documents.tables import JsonDocument, parse_json
from planner.documents.validation import Row
from planner.errors import Fault, InputError, raise_faults
from planner.exports.field_map import ReadRow, RefusedRow, UnreadFile, validated
from planner.exports.read_configs import (
    BY_DEFAULT,
    Held,
    ToolFile,
    flattened,
    matches,
    read_tool_file,
    resolved,
    short_text,
)

WORK_STEPS = 100
"""Steps where a file has none: epochs count rows, whose number is not known."""
MOST_COUNTED_STEPS = 100_000
"""From which steps are no limit: files that end otherwise have a million."""
MEAN_SHARE = 4
"""Of the longest answer to the mean one: the default of a job, the other way round."""
PROMPT_SHARE = 2
"""Of the longest prompt to the mean one."""
INPUT_TOKENS = 512
NO_STEPS = "100 steps are assumed: --set jobs.0.work.steps= holds others"


class MegatronReading(Row):
    """How a file shows that its trainer is Megatron, and what divides its model."""

    shown: tuple[dict[str, tuple[Any, ...]], ...]
    """Conditions of which one holds; the field of each that comes first is named."""
    fields: dict[str, str]
    """Place in a job, with dots -> field of a degree, 1 where a file leaves it out."""
    recomputes: str
    """Field that says whether activations are recomputed, in the rows below."""
    recomputed: dict[str, tuple[Any, ...]]
    """Checkpointing -> values of that field."""


class RlReading(Row):
    """How the files of a tool are read, see `models/exports/rl/read/files.yaml`."""

    label: str
    version: str
    source: str
    shows: tuple[tuple[str, ...], ...]
    command: str
    roles: dict[str, tuple[str, ...]]
    absent: dict[str, Any]
    fields: dict[str, str]
    refused: tuple[RefusedRow, ...]
    rows: tuple[ReadRow, ...]
    unmodelled: dict[str, str]
    without_effect: tuple[str, ...]
    reward_switch: str = ""
    """Field without which a reward model that a file names scores nothing."""
    megatron: MegatronReading | None = None
    never: tuple[str, ...] = ()
    """Fields of other tools, whose files have some of the same names."""
    unsaid: dict[str, str] = Field(default_factory=dict)
    """Field -> what a note says where a file leaves it out."""


class RlReadings(Row):
    """All tools."""

    tools: tuple[RlReading, ...]


@cache
def rl_readings() -> tuple[RlReading, ...]:
    """Return the tools whose files are read; `LibraryError` with every fault of the table."""
    path = data_folder("models") / "exports" / "rl" / "read" / "files.yaml"
    return validated(RlReadings, read_document(path)).tools


PROGRAMS = {".py": "a Python script", ".ipynb": "a notebook"}
"""Files that a run may be written in, by their suffix, and that are not read."""
_NO_PROGRAM = (
    "give the YAML of its options (trl grpo --config reads one), a shell script (.sh) that calls trl, verl or "
    "OpenRLHF, or a scenario (docs/reinforcement.md)"
)


def read_training_file(path: str | Path) -> ToolFile:
    """Return what a file of a training tool says, of reinforcement learning or not; `InputError` with every fault."""
    text, file = read_text(path), str(path)
    if (program := PROGRAMS.get(Path(file).suffix)) is not None:
        raise InputError(
            [Fault(file, 1, "", f"is {program}: values that a program computes are not read", _NO_PROGRAM)]
        )
    tool_file = read_rl_script(text, file)
    if tool_file is None and file.endswith((".yaml", ".yml", ".json")):
        is_json = file.endswith(".json")
        document = parse_json(text, file, "") if is_json else parse_document(text, file, takes_last=True)
        tool_file = read_rl_file(document) if isinstance(document.data, dict) else None
    return tool_file or read_tool_file(path)


# Scripts: the flags of a command as fields.


def read_rl_script(text: str, file: str) -> ToolFile | None:
    """Return what the flags of a shell script say that calls one of the tools; None of all other text."""
    calls = ((tool, re.search(tool.command, text)) for tool in rl_readings() if tool.command)
    tool, call = next(((tool, call) for tool, call in calls if call is not None), (None, None))
    starts = re.match(r"\s*(#!|set |export |python|ray |trl |uv |accelerate )", text)
    if tool is None or call is None or not (file.endswith(".sh") or starts):
        return None
    names: dict[str, str] = {}
    for name, value in re.findall(r"^\s*(?:export\s+)?([A-Za-z_]\w*)=([^\n]*)$", text, re.MULTILINE):
        value = value.split(" #")[0].strip().strip("'\"")
        default = re.fullmatch(rf"\$\{{{name}:-(.*)\}}", value)  # NAME=${NAME:-2}: the caller's, else 2
        names.setdefault(name, default[1] if default else value)
    fields = {**_settings(_words(text)), **_flags(_words(text if "=(" in text else text[call.end() :]))}
    values = {name: _parsed(value, names) for name, value in fields.items()}
    lines = {name: text.count("\n", 0, max(text.find(name), 0)) + 1 for name in values}
    known = {name: value for name, value in values.items() if "$" not in str(value)}
    document = Document(file, known, Marks(1, {name: Marks(line) for name, line in lines.items()}))
    open_ones = sorted(values.keys() - known.keys())
    own = {"file": "rloo"} if "rloo" in call[0] else {}
    answer = _RlReader(document, tool, known | own, frozenset(open_ones)).read()
    if open_ones:
        answer.unmodelled[", ".join(open_ones)] = "variables of the shell that the script does not set"
    return answer


def _words(text: str) -> list[str]:
    """Return the words of a command up to its end."""
    joined = re.sub(r"\\\s*\n", " ", text)
    try:
        return shlex.split(joined, comments=True)
    except ValueError:  # a quote of the rest of the script
        return joined.split()


def _settings(words: list[str]) -> dict[str, str]:
    """Return the values of `a.b=value`, of which the first counts: others are of another branch of the script."""
    settings: dict[str, str] = {}
    for word in words:
        if re.fullmatch(r"\+{0,2}[A-Za-z_][\w.]*\.[\w.]+=.*", word, re.DOTALL):
            name, _, value = word.lstrip("+").partition("=")
            settings.setdefault(name, value)
    return settings


def _flags(words: list[str]) -> dict[str, str]:
    """Return the values of `--name value`, `--name=value` and `--name`, which is true."""
    flags: dict[str, str] = {}
    for word, after in zip(words, [*words[1:], "--"], strict=True):
        name, equal, value = word[2:].partition("=")
        if word.startswith("--") and name:
            flags[name.replace("-", "_")] = value if equal else "true" if after.startswith("--") else after
    return flags


def _parsed(value: str, names: dict[str, str]) -> Any:
    """Return a value with the variables that the script sets, as YAML reads it."""
    for _ in range(3):
        value = re.sub(r"\$\{(\w+)(?::-([^}]*))?\}", lambda match: names.get(match[1], match[2] or match[0]), value)
        value = re.sub(r"\$(\w+)", lambda match: names.get(match[1], match[0]), value)
    value = value.strip("'\"")
    return value if "$" in value else parse_value(value, "")


# What a file holds.


def read_rl_file(document: Document | JsonDocument) -> ToolFile | None:
    """Return what a file says of a job of kind rl; None where it is of another kind. `InputError` with every fault."""
    values = flattened(resolved(document.data, document.data))
    names = [*values, *document.data, *(f"{name}={value}" for name, value in values.items())]
    kinds = ((tool, UnreadFile(what=tool.label, shows=tool.shows)) for tool in rl_readings())
    tool = next((tool for tool, kind in kinds if kind.fits(names) and not set(tool.never) & set(document.data)), None)
    return None if tool is None or "jobs" in document.data else _RlReader(document, tool, values).read()


class _RlReader:
    """One file: what it holds, what is assumed, what has no effect."""

    def __init__(
        self,
        document: Document | JsonDocument,
        tool: RlReading,
        values: dict[str, Any],
        unknown: frozenset[str] = frozenset(),  # fields whose values are not known
    ) -> None:
        self.document, self.tool, self.unknown = document, tool, unknown
        own = {"file": "rloo"} if "rloo" in Path(document.file).stem else {}
        self.values = {key: value for key, value in values.items() if value is not None} | own
        self.answer = ToolFile(document.file, f"{tool.label} {tool.version}")
        self.used = {"file"}

    def read(self) -> ToolFile:
        """Return the answer."""
        self._refuse()
        self._hold(("kind",), "rl", next(iter(self._shown()), BY_DEFAULT))
        for name, place in self.tool.fields.items():
            if name in self.values and self.values[name] != 0:
                self._hold(tuple(place.split(".")), self.values[name], name)
        self._megatron()
        self._rows()
        self._lengths()
        self._counts()
        self._agree()
        self._leftovers()
        return self.answer

    def _shown(self) -> list[str]:
        """Return the fields that show what the file is."""
        shown = [name.partition("=")[0] for names in self.tool.shows for name in names]
        return [name for name in self.values if any(fnmatchcase(name, pattern) for pattern in shown)]

    def _whole(self, name: str) -> Any:
        return self.values.get(name, self.tool.absent.get(name))

    def _line(self, name: str) -> int:
        path = (name,) if name in self.document.data else tuple(name.split("."))
        return self.document.line(path)

    def _hold(self, place: tuple[str, ...], value: Any, name: str) -> None:
        self.used.add(name)
        line = self._line(name) if name in self.values else 0
        self.answer.held.setdefault(place, Held(place, value, name if line else BY_DEFAULT, line))

    def _refuse(self) -> None:
        rows = (row for row in self.tool.refused if self._fits(row.when))
        faults = [
            Fault(
                self.document.file, self._line(name), name, f"{short_text(self.values[name])}: {row.why}",
                "give a copy of the file without it; a job has reward: rule, a model by its name, or a judge by API",
            )
            for row in rows
            for name in [next(iter(row.when))]
        ]  # fmt: skip
        raise_faults(faults)

    def _fits(self, when: dict[str, Any]) -> bool:
        def fits(value: Any, wanted: tuple[Any, ...]) -> bool:
            return matches(value, wanted) or (isinstance(value, float) and str(value) in wanted)

        return all(fits(self._whole(name), wanted) for name, wanted in when.items())

    def _megatron(self) -> None:
        """Hold Megatron as the trainer with its layout, where a file trains with it."""
        table = self.tool.megatron
        shown = next((when for when in table.shown if self._fits(when)), None) if table else None
        if table is None or shown is None:
            return
        self._hold(("framework",), ["megatron"], next(name for name in shown if name in self.values))
        for place, name in ((place, name) for place, name in table.fields.items() if name not in self.unknown):
            self._hold(tuple(place.split(".")), [self.values.get(name, 1)], name)
        value = self.values.get(table.recomputes)
        kept = next((kept for kept, values in table.recomputed.items() if matches(value, values)), None)
        if kept is not None:
            self._hold(("techniques", "activation_checkpointing"), [kept], table.recomputes)

    def _rows(self) -> None:
        for row in self.tool.rows:
            if self._fits(row.when):
                name = next((name for name in row.when if name in self.values and name != "file"), BY_DEFAULT)
                for place, value in row.hold.items():
                    self._hold(tuple(place.split(".")), value, name)
                self.used |= set(row.when)

    def _role(self, role: str) -> tuple[int | None, str]:
        """Return the count that a file has for a role, or the default of the tool, and its field."""
        names = self.tool.roles.get(role, ())
        name = next((name for name in names if name in self.values), None)
        name = name or next((name for name in names if name in self.tool.absent), "")
        value = self._whole(name)
        self.used.add(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
        if value is not None and not whole and value != -1 and name in self.values:
            problem = f"{short_text(value)} is not a positive whole number"
            raise_faults([Fault(self.document.file, self._line(name), name, problem, "such as 8")])
        return (value if whole else None), name

    def _lengths(self) -> None:
        """Hold the longest answer, and means that no file has: shares of the longest."""
        longest, name = self._role("longest")
        prompt, of_prompt = self._role("longest_prompt")
        whole, _ = self._role("whole")
        mean_input = prompt // PROMPT_SHARE if prompt else min(INPUT_TOKENS, (whole or 4 * INPUT_TOKENS) // 4)
        mean_input = max(mean_input, 1)
        if whole and (longest is None or longest + mean_input > whole):
            longest = max(whole - mean_input, 1)
        if longest is None:
            return
        mean = max(longest // MEAN_SHARE, 1)
        self._hold(("work", "longest_output"), longest, name)
        self._hold(("work", "output_tokens"), mean, BY_DEFAULT)
        self._hold(("work", "input_tokens"), mean_input, BY_DEFAULT)
        self._say(
            "mean lengths", ("work", "output_tokens"),
            f"no file has them: {mean:,} tokens of an answer (a quarter of the longest) and {mean_input:,} of a prompt"
            f"{f' (half of {of_prompt})' if prompt else ''} are assumed: --set jobs.0.work.output_tokens=, "
            "--set jobs.0.work.input_tokens=",
        )  # fmt: skip

    def _say(self, name: str, place: tuple[str, ...], why: str) -> None:
        self.answer.unmodelled[name], self.answer.about[name] = why, place

    def _counts(self) -> None:
        """Hold prompts, answers, updates and steps."""
        answers, of_answers = self._role("answers")
        answers = answers or 1
        prompts, of_prompts = self._role("prompts")
        samples, of_samples = self._role("samples")
        of_pass, of_each = self._role("samples_of_pass")
        passes, of_passes = self._role("passes")
        if prompts is None and samples:
            prompts, of_prompts = samples // answers, of_samples
        if prompts is None and of_pass:
            processes = self._role("processes")[0] or 1
            counted = of_pass * (passes or 1) * processes
            prompts, of_prompts = max(counted // answers, 1), of_each
            self._say(
                f"{of_each} x {of_passes}", ("work", "prompts"),
                f"{counted} answers, of {processes} GPU{'s' * (processes > 1)}, to {prompts} prompts are held: a file "
                "for N GPUs makes N times as many: --set jobs.0.work.prompts=",
            )  # fmt: skip
        self._hold(("work", "answers"), answers, of_answers)
        self._hold(("work", "prompts"), prompts or 1, of_prompts)
        updates = self._updates((prompts or 1), answers, passes or 1)
        if updates > 1:
            self._hold(("work", "updates"), updates, BY_DEFAULT)
        steps, of_steps = self._role("steps")
        total, of_total = self._role("updates")
        if total:
            steps, of_steps = max(total // updates, 1), of_total
        if steps is None or steps > MOST_COUNTED_STEPS:
            self._hold(("work", "steps"), WORK_STEPS, BY_DEFAULT)
            self._say("steps", ("work", "steps"), NO_STEPS)
        else:
            self._hold(("work", "steps"), steps, of_steps)

    def _updates(self, prompts: int, answers: int, passes: int) -> int:
        """Return the optimizer steps for the answers of one step."""
        of_prompts, of_samples = self._role("update_prompts")[0], self._role("update_samples")[0]
        of_passes, repeats = self._role("update_passes")[0], self._role("repeats")[0] or 1
        once = 1
        if of_prompts:
            once = math.ceil(prompts / of_prompts)
        elif of_samples:
            once = math.ceil(prompts * answers / of_samples)
        elif of_passes:
            once = math.ceil(passes / of_passes)
        if repeats > 1:
            why = f"answers are trained on {repeats} times, and the plan counts one pass over them"
            self.answer.unmodelled["further passes"] = why
        return min(once, prompts * answers)

    def _agree(self) -> None:
        """Take out what a job of kind rl does not have next to the rest."""
        held = self.answer.held

        def value(*place: str) -> Any:
            return held[place].value if place in held else None

        if value("techniques", "method") == ["full"]:
            held.pop(("lora", "rank"), None)
        if value("staleness") is not None and value("rollout", "placement") == ["colocated"]:
            held.pop(("staleness",))
        is_off = bool(self.tool.reward_switch) and self._whole(self.tool.reward_switch) is not True
        self.used |= {self.tool.reward_switch}
        if is_off or value("reward", "model") is None:
            for place in [place for place in held if place[0] == "reward"]:
                held.pop(place)
        if value("reward", "placement") == ["own"]:
            held.pop(("reward", "offload"), None)
        if value("rollout", "placement") == ["apart"] and value("staleness") is not None:
            self.used.add("grpo.async_grpo.enabled")
            if self._whole("grpo.async_grpo.enabled") is False:
                held.pop(("staleness",))

    def _leftovers(self) -> None:
        """Say what nothing read: with its reason, without effect, or not taken into account."""
        ignored, unknown = dict[str, list[str]](), dict[str, list[str]]()
        for name in sorted(set(self.values) - self.used):
            why = self.tool.unmodelled.get(name)
            first, *rest = name.split(".")
            if why is not None:
                self.answer.unmodelled[f"{name} {short_text(self.values[name])}"] = why
            elif any(fnmatchcase(name, pattern) for pattern in self.tool.without_effect):
                ignored.setdefault(first if rest else "", []).append(name)
            else:
                unknown.setdefault(".".join([first, *rest[:-1]][:2]) if rest else "", []).append(name)
        self.answer.without_effect += _listed(ignored)
        self.answer.unmodelled |= dict.fromkeys(_listed(unknown), "not taken into account")
        for name, why in self.tool.unsaid.items():
            if not self.values.get(name):
                self.answer.unmodelled[f"{name} (left out)" if name not in self.values else f"{name} false"] = why


MOST_NAMED_FIELDS = 3
"""Fields of one section that are named one by one: files of these tools have hundreds."""


def _listed(sections: dict[str, list[str]]) -> list[str]:
    """Return the fields of sections, of a long one its name with their number; those of none in one line."""
    texts = []
    for section, names in sections.items():
        whole = section and len(names) > MOST_NAMED_FIELDS
        texts += [f"{section}.* ({len(names)} fields)"] if whole else [", ".join(names)]
    return texts

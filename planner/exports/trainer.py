"""The configuration file of a training tool, as its field map says."""

from __future__ import annotations

import json
from string import Template
from typing import TYPE_CHECKING, Any

from planner.documents.yaml_text import yaml_text
from planner.exports.header import commented, header

if TYPE_CHECKING:
    from planner.exports.field_map import Facts, FieldMap
    from planner.results.plan import Assignment, Plan


MEETING_PORT = 29500
"""Port of machine 0 at which the processes of a run meet."""


def trainer_file(plan: Plan, job: Assignment, tool: FieldMap, facts: Facts) -> str:
    """Return the text of the file; what the plan does not decide stands in it as comments."""
    settings = tool.settings(facts)
    lines = header(plan, job, tool, run_command(tool, facts), (*tool.remarks(facts), *_left_out(job, tool)))
    if tool.format == "json":
        return json.dumps({"_comment": lines, **settings}, indent=2) + "\n"
    if tool.format == "python":
        return _script(lines, settings, tool)
    text = commented(lines) + yaml_text(settings)
    missing = _missing(tool, settings)
    if missing:
        text += "\n" + commented(f"{field}:  # required: {option}" for field, option in missing.items())
    if tool.defaults:
        text += "\n# Not decided by the plan; these are the defaults of the tool.\n"
        text += commented(yaml_text(tool.defaults).splitlines())
    return text


_SCRIPT = '''import sys

from unsloth import FastLanguageModel  # before the packages below, which it changes
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

LOAD = $load
ADAPTERS = $adapters
DATA = $data
TRAIN = $train


def main() -> None:
    """Train, or go on from the checkpoint that the command names."""
    model, tokenizer = FastLanguageModel.from_pretrained(**LOAD)
    if ADAPTERS:
        model = FastLanguageModel.get_peft_model(model, **ADAPTERS)
    data = load_dataset(**DATA)
    trainer = SFTTrainer(model=model, processing_class=tokenizer, train_dataset=data, args=SFTConfig(**TRAIN))
    folder = TRAIN["output_dir"]
    trainer.train(resume_from_checkpoint=sys.argv[1] if len(sys.argv) > 1 else None)
    trainer.save_model(folder)


if __name__ == "__main__":
    main()
'''


def _script(lines: list[str], settings: dict[str, Any], tool: FieldMap) -> str:
    """Return a script of Python that has the settings as its constants."""
    parts = {name: settings.get(name, {}) for name in ("load", "adapters", "data", "train")}
    given = {field for part in parts.values() for field in part}
    remarks = [f"{field}: required: {option}" for field, option in tool.needs.items() if field not in given]
    remarks += [f"{field} is not decided by the plan; {value} is usual" for field, value in tool.defaults.items()]
    written = {
        name: "".join(("{\n", *(f"    {field!r}: {value!r},\n" for field, value in part.items()), "}"))
        for name, part in parts.items()
    }
    return commented([*lines, *remarks]) + "\n" + Template(_SCRIPT).substitute(written)


def run_command(tool: FieldMap, facts: Facts) -> str:
    """Return the command that runs the file on one machine."""
    return command(tool, {**facts, "resume": ""}) if facts["instances"] == 1 else ""


def command(tool: FieldMap, facts: Facts, port: int = MEETING_PORT) -> str:
    """Return the command that one machine runs; `facts` with `resume`, the option that names a checkpoint."""
    several = facts["instances"] > 1
    flags = filled(tool.flags, {**facts, "port": port})
    return " ".join(filled(tool.launch if several else tool.run, {**facts, "flags": flags}).split())


def start_command(tool: FieldMap, facts: Facts, port: int) -> str:
    """Return the command that starts a program of Python in every process of the run; empty where that is one alone."""
    if facts["gpus"] == 1:
        return ""
    several = facts["instances"] > 1
    flags = filled(tool.flags, {**facts, "port": port})
    return filled(tool.starter.together if several else tool.starter.alone, {**facts, "flags": flags}).strip()


def filled(text: str, facts: Facts) -> str:
    """Return a command with each `$name` replaced by the fact."""
    return Template(text).substitute(facts)


def _missing(tool: FieldMap, settings: dict[str, Any]) -> dict[str, str]:
    return {
        field: option for field, option in tool.needs.items() if not {field, *_ALSO.get(field, ())} & settings.keys()
    }


_ALSO = {"dataset_name": ("datasets",)}
"""Fields in whose place others may stand."""


def _left_out(job: Assignment, tool: FieldMap) -> list[str]:
    if not tool.elsewhere:
        return []
    chosen = job.techniques.model_dump()
    said = ", ".join(f"{name} {chosen[name]}" for name in tool.elsewhere if chosen.get(name) not in (None, "none"))
    return [f"the training script must set what this file cannot: {said}"]

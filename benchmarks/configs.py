"""Count which training configurations are planned, `python -m benchmarks.configs FOLDER ... [--solve] [--files]`.

FOLDER is searched for YAML files: the examples of Axolotl, torchtune and LLaMA-Factory, say, or a collection of one's
own. Supervised means that nothing in the file asks for another training (preferences, rewards, images, generation);
files that the release of their own tool refuses are not counted.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import planner
from planner.documents.files import parse_document, read_text
from planner.errors import Fault, InputError, LibraryError, PlannerError
from planner.exports.read_configs import PLAIN_TRAINING, ToolFile, read_tool_file
from planner.library.reading import read_library
from planner.loading.question import Question, load_held

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MODEL_FIELDS = ("base_model", "model_name_or_path")
"""Fields with a model's name, of files that are refused; a file of torchtune names a builder, which its map judges."""
NO_CONFIG, OTHER_TASK, UNKNOWN_MODEL, REFUSED = "no config", "another training", "unknown model", "refused"
READ, PLANNED, WITHOUT_PLAN = "read", "planned", "read, without a plan"
NOT_ACCEPTED = "refused by its own tool"
KINDS = (NO_CONFIG, OTHER_TASK, NOT_ACCEPTED, UNKNOWN_MODEL, REFUSED, READ, PLANNED, WITHOUT_PLAN)
SAMPLES = Question(samples="10000", tokens_per_sample="400")
"""Work of a file that counts none."""


@dataclass(frozen=True)
class Counted:
    """What came of one file, and why: the field and the words of each fault."""

    file: Path
    kind: str
    reasons: tuple[str, ...] = ()


@cache
def is_known(model: str) -> bool:
    """Whether the library resolves the name of a model."""
    try:
        read_library([model])
    except LibraryError:
        return False
    return True


def count(file: Path, solves: bool) -> Counted:
    """Return what comes of a file; crashes are not caught."""
    try:
        found = read_tool_file(file)
    except InputError as error:
        return Counted(file, _kind_of_refused(file, error.faults), tuple(map(_reason, error.faults)))
    model = found.held.get(("architecture",))
    if model is not None and not is_known(str(model.value)):
        return Counted(file, UNKNOWN_MODEL, (str(model.value),))
    return _solved(file, found) if solves else Counted(file, READ)


def _kind_of_refused(file: Path, faults: Sequence[Fault]) -> str:
    if any(not fault.where for fault in faults):
        return NO_CONFIG
    if any(fault.fix == PLAIN_TRAINING for fault in faults):
        return OTHER_TASK
    if any("itself refuses" in fault.what for fault in faults):
        return NOT_ACCEPTED
    try:
        data = parse_document(read_text(file), str(file)).data
    except InputError:
        return NO_CONFIG
    named = [str(data[name]) for name in MODEL_FIELDS if data.get(name)]
    return REFUSED if all(map(is_known, named)) else UNKNOWN_MODEL


def _reason(fault: Fault) -> str:
    return f"{fault.where}: {fault.what.rpartition(': ')[2]}" if fault.where else fault.what


def _solved(file: Path, found: ToolFile) -> Counted:
    """Return whether what the file holds has a plan among the shipped offers, with an amount of work of ours."""
    held = {place: (entry.value, entry.field) for place, entry in found.held.items()}
    question = SAMPLES if ("architecture",) in held else Question(**{**vars(SAMPLES), "model": "llama-3.1-8b"})
    try:
        loaded, _ = load_held(question, held, str(file))
        plan = planner.solve(loaded.scenario, explains=False)
    except InputError as error:
        return Counted(file, REFUSED, tuple(map(_reason, error.faults)))
    except PlannerError as error:
        return Counted(file, WITHOUT_PLAN, (str(error),))
    return Counted(file, PLANNED if plan.jobs else WITHOUT_PLAN, () if plan.jobs else (plan.status,))


def table(found: Sequence[Counted]) -> Iterator[str]:
    """Yield how many files are of each kind, and why, most frequent first."""
    kinds = Counter(one.kind for one in found)
    good = kinds[READ] + kinds[PLANNED]
    judged = good + kinds[REFUSED] + kinds[WITHOUT_PLAN]
    yield f"{len(found)} files; supervised, of known models: {good} of {judged}" + (
        f" ({good / judged:.0%})" if judged else ""
    )
    yield "  " + ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS if kinds[kind])
    why: dict[str, Counter[str]] = defaultdict(Counter)
    for one in found:
        why[one.kind].update(dict.fromkeys(one.reasons, 1))
    for kind in KINDS:
        if why[kind]:
            yield f"  {kind}:"
            yield from (f"    {number:>4}  {reason}" for reason, number in why[kind].most_common())


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the counts of each folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.configs", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--solve", action="store_true", help="solve what each file holds, which takes seconds a file")
    parser.add_argument("--files", action="store_true", help="also print what came of each file")
    asked = parser.parse_args(arguments)
    for folder in asked.folders:
        files = sorted(path for ending in ("yaml", "yml") for path in folder.rglob(f"*.{ending}"))
        found = [count(file, asked.solve) for file in files]
        print(f"{folder}:", *table(found), sep="\n")
        if asked.files:
            for one in found:
                print(f"  {one.kind:<20} {one.file.relative_to(folder)}  {'; '.join(one.reasons)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Export every job of every shipped scenario to every target, read the files with the tools, and print a table.

    python -m tests.helpers.export_table [--env TOOL=PYTHON] [TOOL ...]

A tool is read in an environment that uv makes for it in `.ecosystem/` from the packages below, or by the Python that
`--env` names. Several tools share one. Without TOOL: those whose environment needs no PyTorch.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import planner
from planner.cli.options import scenario_of
from planner.errors import InputError
from planner.exports.export import choose_job, export
from planner.exports.facts import Wishes
from planner.exports.field_map import field_maps, launch_maps
from planner.library.engines import read_engines
from planner.loading.scenario_file import shipped_scenarios
from planner.scenario.scenario import SolveOptions
from planner.services.served_kinds import choose_service
from planner.services.service_files import export_service
from tests.helpers import tool_checks
from tests.helpers.environments import tool_python

HERE = Path(__file__).parent
ENVIRONMENTS = {
    "skypilot": ["skypilot==0.14.1"],
    "dstack": ["dstack==0.22.5"],
    "huggingface": ["huggingface_hub==2.4.0"],
    "kubernetes": ["kubernetes-validate==1.37.0", "pyyaml"],
    "slurm": [],
    "trl": ["trl==1.16.0", "transformers==5.23.0", "peft==0.21.2", "accelerate==1.15.0", "deepspeed==0.19.8"],
    "accelerate": ["accelerate==1.15.0"],
    "deepspeed": ["deepspeed==0.19.8"],
    "axolotl": ["axolotl==0.19.0"],
    "llamafactory": ["llamafactory==0.9.5"],
    "litgpt": ["litgpt==0.5.13", "torch==2.13.0", "torchmetrics"],
    "unsloth": ["unsloth==2026.10.9", "--no-deps"],
    # Its sources are read, not run, so that any Python will do.
    "simpletuner": ["simpletuner==4.8.0", "--no-deps", "--python-version", "3.12"],
}
LIGHT = ("skypilot", "dstack", "huggingface", "kubernetes", "slurm", "unsloth", "simpletuner")
WISHES = Wishes(model_id="me/model", dataset="me/data")
AS_OF = datetime.date(2026, 11, 21)


def export_jobs(folder: Path) -> tuple[int, int, dict[str, collections.Counter[str]]]:
    """Write the files of each job to `folder/JOB/TARGET/`; return scenarios, jobs, and why targets refused how many."""
    refused: dict[str, collections.Counter[str]] = {
        name: collections.Counter() for name in (*ENVIRONMENTS, *field_maps())
    }
    scenarios = jobs = 0
    for name, path in shipped_scenarios().items():
        plan = planner.solve(planner.read_scenario(str(path)), SolveOptions(as_of=AS_OF))
        scenarios += 1
        for job in plan.jobs:
            if not job.gpus:
                continue
            jobs += 1
            given = choose_job(plan, scenario_of(plan, name), name, job.name)
            able: list[str] = []
            for target in (*field_maps(), *launch_maps()):
                trainers = [*able[:1]] if target in launch_maps() else []
                try:
                    texts = export(given, [target, *trainers], WISHES, name)
                except InputError as error:
                    refused[target][_reason(error.faults[0].what)] += 1
                    continue
                if target in field_maps() and field_maps()[target].launch:
                    able.append(target)
                place = folder / f"{name.replace('/', '-')}--{job.name}" / target
                place.mkdir(parents=True)
                # With a launcher come the files of a trainer, which are in its own folder already.
                for file, text in list(texts.items())[: 1 if target in launch_maps() else None]:
                    (place / file).write_text(text)
        for service in plan.services:
            jobs += 1
            asked = choose_service(plan, scenario_of(plan, name), name, service.name)
            forms = dict.fromkeys(kind.weight_format for kind in service.fleet.kinds)
            weights = ("me/model" if read_engines().is_16_bit(form) else f"{form}=me/model" for form in forms)
            model_id = ",".join(dict.fromkeys(weights))
            for target in ("skypilot", "kubernetes"):
                place = folder / f"{name.replace('/', '-')}--{service.name}" / target
                place.mkdir(parents=True)
                for file, text in export_service(asked, [target], Wishes(model_id), name).items():
                    (place / file).write_text(text)
    return scenarios, jobs, refused


def _reason(what: str) -> str:
    """Return a refusal without the names of the tool and the provider."""
    if " rents nothing from " in what:
        return "of a provider that it does not have"
    return re.sub(r" at \S+ that", " that", what.split(": ", 1)[-1])


def python_of(tool: str, given: dict[str, str]) -> str:
    """Return the Python of a tool; uv makes its environment where there is none."""
    if tool in given or not ENVIRONMENTS[tool]:
        return given.get(tool, sys.executable)
    return str(tool_python(*ENVIRONMENTS[tool]))


def read_files(tool: str, folder: Path, python: str) -> dict[str, str]:
    """Return what a tool finds wrong with each of its files."""
    done = subprocess.run(
        [python, str(HERE / "tool_checks.py"), tool, str(folder)], stdout=subprocess.PIPE, text=True, check=False
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {"": f"the environment of {tool} does not start"}
    found: dict[str, str] = json.loads(lines[-1])
    return found


def main() -> int:
    """Print a row for each tool, and every file that a tool does not accept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tools", nargs="*", choices=[[], *ENVIRONMENTS], metavar="TOOL")
    parser.add_argument("--env", action="append", default=[], metavar="TOOL=PYTHON")
    parser.add_argument("--keep", metavar="FOLDER", help="Keep the exported files there.")
    given = parser.parse_args()
    pythons = dict(one.split("=", 1) for one in given.env)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(given.keep or made)
        scenarios, jobs, refused = export_jobs(folder)
        print(f"{scenarios} scenarios, {jobs} jobs on machines\n")
        print("| tool | files | accepted | refused by the planner |\n|---|---|---|---|")
        wrong = []
        for tool in ENVIRONMENTS:
            files = len(tool_checks._files(tool, folder))
            reasons = "; ".join(f"{count} {why}" for why, count in refused[tool].most_common())
            if tool not in (given.tools or LIGHT) or not files:
                print(f"| {tool} | {files} | {'not read' if files else '-'} | {reasons} |", flush=True)
                continue
            found = read_files(tool, folder, python_of(tool, pythons))
            wrong += [f"{tool}: {file}: {what}" for file, what in found.items() if what]
            print(f"| {tool} | {files} | {sum(not what for what in found.values())} | {reasons} |", flush=True)
    print("\n".join(("", *wrong)) if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

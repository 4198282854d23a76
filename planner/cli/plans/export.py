"""`export`: a plan as files that the tools of the user run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.output import STANDARD_OUTPUT, json_text, show
from planner.cli.plan_file import read_plan, scenario_of

if TYPE_CHECKING:
    from collections.abc import Sequence

TARGETS = ("skypilot", "dstack", "kubernetes", "slurm", "trl", "accelerate", "deepspeed", "axolotl", "llamafactory")
"""What --to takes; tests compare it with the field maps, which are not read for --help."""


@click.command()
@click.argument("plan_file", metavar="PLAN")
@click.option("--to", "targets", type=click.Choice(TARGETS), multiple=True, help="Tool; repeatable.")
@click.option("--all", "everything", is_flag=True, help="A folder to launch from: every file that the plan can have.")
@click.option(
    "--model-id", metavar="ID", help="Repository or folder of the weights (default: that of the architecture)."
)
@click.option("--dataset", metavar="D", help="Data set of the Hub, or a file: .jsonl, .json, .csv, .parquet.")
@click.option("--job", metavar="NAME", help="The job, where the plan has several.")
@click.option("-o", "--output", "folder", metavar="DIR", help="Write the files into DIR (default: standard output).")
def export(
    plan_file: str,
    targets: Sequence[str],
    everything: bool,
    model_id: str | None,
    dataset: str | None,
    job: str | None,
    folder: str | None,
) -> None:
    """Write the files that run PLAN, which `solve -o` or `solve --json` wrote.

    Every setting that the estimates rest on is written; learning rate and
    schedule are left to the tool. A technique that a tool cannot express is
    refused.

    Try: planner export plan.json --to trl --dataset my/data -o run
    """
    from planner.analysis.simulation.policy_advice import policy_tables
    from planner.exports.export import choose_job, export_all
    from planner.exports.export import export as export_files
    from planner.exports.facts import Wishes

    context = click.get_current_context()
    if everything == bool(targets):
        raise click.UsageError("name a tool with --to, or ask for --all", context)
    if everything and (folder is None or folder in STANDARD_OUTPUT):
        raise click.UsageError("--all writes a folder: name it with -o", context)
    plan = read_plan(plan_file)
    given = choose_job(plan, scenario_of(plan, plan_file), plan_file, job)
    wishes = Wishes(model_id, dataset)
    if everything and folder is not None:
        policy = policy_tables(given.scenario, plan).get(given.job.name) if given.job.spot is not None else None
        texts, left_out = export_all(given, wishes, plan_file, policy)
        for line in left_out:
            show(line, err=True)
        texts["plan.json"] = json_text(plan.model_dump(mode="json", by_alias=True)) + "\n"
    else:
        texts = export_files(given, targets, wishes, plan_file)
    if folder is None or folder in STANDARD_OUTPUT:
        if len(texts) > 1:
            raise click.UsageError(f"{len(texts)} files: name a folder with -o", context)
        show(next(iter(texts.values())).removesuffix("\n"))
        return
    for name, state in _write(Path(folder), texts).items():
        show(f"{Path(folder) / name}: {state}")


def _write(folder: Path, texts: dict[str, str]) -> dict[str, str]:
    """Write the files whose text differs from what is there; return what happened to each."""
    from planner.documents.files import check_writable, make_folder, read_text, write_text_atomically

    make_folder(folder)
    for name in texts:
        check_writable(folder / name)
    found = {}
    for name, text in texts.items():
        path = folder / name
        before = read_text(path) if path.exists() else None
        found[name] = "written" if before is None else "unchanged" if before == text else "replaced"
        if before != text:
            write_text_atomically(path, text)
    return found

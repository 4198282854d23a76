"""`probe`: files that run the step of a plan on its machine before anything else is moved there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.export_command import write_files
from planner.cli.output import STANDARD_OUTPUT, show
from planner.cli.plan_file import check_supported, jobs_of, located_in, meant_job, read_plan, scenario_of

if TYPE_CHECKING:
    from planner.results.plan import Plan


@click.command()
@click.argument("plan_file", metavar="PLAN")
@click.option("-o", "--output", "folder", metavar="DIR", default="probe", show_default=True, help="Folder to write.")
@click.option("--job", metavar="NAME", help="The job, where the plan has several.")
@click.option("--steps", type=click.IntRange(3, 1000), help="Steps to run [20, fewer where a step is long].")
def probe(plan_file: str, folder: str, job: str | None, steps: int | None) -> None:
    """Write the files that try PLAN on the rented machine, with random weights.

    They run some twenty steps as the export would: same trainer and settings, a
    network of the same shape, made-up tokens. No data, no weights and no token
    are needed. It takes about three minutes and measures memory and seconds of
    a step; `planner calibrate` then says whether to keep the machine.

    Try: planner probe plan.json -o probe
    """
    if not folder or folder in STANDARD_OUTPUT:
        raise click.UsageError("-o names a folder: several files are written", click.get_current_context())
    plan = read_plan(plan_file)
    for name, state in write_probe(plan, plan_file, job, Path(folder), steps).items():
        show(f"{Path(folder) / name}: {state}")
    show(f"next: copy {folder} to the machine, run bash probe.sh there, and bring probe.json back", err=True)
    show(f"then: planner calibrate probe.json --plan {plan_file}", err=True)


def write_probe(plan: Plan, file: str, job: str | None, folder: Path, steps: int | None) -> dict[str, str]:
    """Write the files of a probe with a list of them, which `export --check` reads; return what happened to each."""
    from planner.exports.folder_check import LIST, folder_list

    texts = probe_texts(plan, file, job, steps)
    return write_files(folder, texts | {LIST: folder_list(plan, texts, [], [], folder)})


def probe_texts(plan: Plan, file: str, job: str | None, steps: int | None) -> dict[str, str]:
    """Return the files of the probe of a job by name; `InputError` for a service, or what trains without machines."""
    from planner.exports.export import choose_job
    from planner.exports.known_names import check_names
    from planner.exports.probe_folder import probe_files

    job = meant_job(plan, job)
    with located_in(plan, file):
        check_names(plan, file)
        check_supported(plan, file, job, "probe")
        return probe_files(choose_job(*jobs_of(plan, scenario_of(plan, file)), file, job), file, steps)

"""`calibrate`: the logs of a run into a `measured:` entry, and what that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from planner.cli.estimate import TECHNIQUE_OPTIONS, technique_option
from planner.cli.exit_codes import write_json
from planner.cli.output_files import check_writable, write_text
from planner.cli.solve import as_of_option, json_option

if TYPE_CHECKING:
    import datetime

SETTINGS: dict[str, tuple[Any, str, str]] = {
    # option: type, metavar, help
    "micro-batch": (int, "N", "Sequences per GPU and micro-step."),
    "accumulation-steps": (int, "N", "Micro-steps per optimizer step."),
    "global-batch": (int, "N", "Sequences per optimizer step over all GPUs."),
    "sequence-length": (int, "TOKENS", "Where it is not that of the job."),
    "tensor-parallel": (int, "N", "GPUs that share every layer."),
    "pipeline-parallel": (int, "N", "GPUs that share the stack of layers."),
    "instances": (int, "N", "Machines that the GPUs stood in."),
    "interconnect": (str, "NAME", "nvlink, nvswitch or pcie."),
    "network-gbps": (float, "X", "Network of one machine, where there are several."),
}


def _settings(command: Any) -> Any:
    for name, (kind, metavar, said) in reversed(SETTINGS.items()):
        command = click.option(f"--{name}", type=kind, metavar=metavar, help=said)(command)
    for name in reversed(TECHNIQUE_OPTIONS):
        command = technique_option(name)(command)
    return command


@click.command()
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option("--gpu", required=True, metavar="NAME", help="The card it ran on: a name or an alias.")
@click.option("--gpus", type=click.IntRange(min=1), default=1, show_default=True, help="How many in all.")
@click.option("--scenario", metavar="SCENARIO", help="Tell what the run changes in the plan of this scenario.")
@click.option("--job", metavar="NAME", help="Which of its jobs ran, where there are several.")
@click.option("--tokens-per-step", type=click.FloatRange(min=0, min_open=True), help="Of one optimizer step, all GPUs.")
@_settings
@json_option
@click.option("-o", "--output", metavar="FILE", help="Write the entry as YAML, too.")
@as_of_option
def calibrate(
    logs: tuple[str, ...],
    gpu: str,
    gpus: int,
    scenario: str | None,
    job: str | None,
    tokens_per_step: float | None,
    as_json: bool,
    output: str | None,
    as_of: datetime.datetime | None,
    **settings: Any,
) -> None:
    """Observed speed and memory into the estimates.

    LOG is a trainer_state.json of the Hugging Face Trainer, a CSV with step
    and seconds (or timestamp), or a memory log: nvidia-smi --query-gpu=
    memory.used --format=csv, or a column max_memory_allocated. Several logs
    are of one run. Printed is an entry for the job's list `measured`.

    Try: planner calibrate trainer_state.json --gpu A100 --scenario quickstart
    """
    from planner.analysis.calibration.calibrate import calibrate as calibrated
    from planner.loading.scenario_file import read_scenario
    from planner.scenario.scenario import SolveOptions

    if output is not None:
        check_writable(output)
    pilot = calibrated(
        logs,
        gpu,
        gpus,
        read_scenario(scenario) if scenario is not None else None,
        job,
        tokens_per_step,
        SolveOptions(as_of=as_of.date() if as_of else None),
        **{name: value for name, value in settings.items() if value is not None},
    )
    if output is not None:
        write_text(output, pilot.block)
    if as_json:
        write_json(pilot.model_dump(mode="json", by_alias=True))
    else:
        from planner.report.calibration import render_pilot

        click.echo(render_pilot(pilot))

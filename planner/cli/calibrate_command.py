"""`calibrate`: a `measured:` entry from the logs of a run, and its effect on a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from planner.cli.options import OptionTable, json_option, solve_options, table_options, technique_options
from planner.cli.output import Output

if TYPE_CHECKING:
    from planner.scenario.scenario import SolveOptions

SETTINGS: OptionTable = {
    # option: type, metavar, help
    "micro-batch": (int, "N", "Sequences per GPU and micro-step."),
    "accumulation-steps": (int, "N", "Micro-steps per optimizer step."),
    "global-batch": (int, "N", "Sequences per optimizer step over all GPUs."),
    "sequence-length": (int, "TOKENS", "Sequence length, if not that of the job."),
    "tensor-parallel": (int, "N", "GPUs that share each layer."),
    "pipeline-parallel": (int, "N", "GPUs among which the layers are divided."),
    "context-parallel": (int, "N", "GPUs that share each sequence."),
    "expert-parallel": (int, "N", "GPUs that share the experts of a mixture."),
    "instances": (int, "N", "Number of machines."),
    "interconnect": (str, "NAME", "nvlink, nvswitch, pcie or ici."),
    "network-gbps": (float, "X", "Network of one machine in Gbit/s, if there are several."),
}


@click.command()
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option("--gpu", required=True, metavar="NAME", help="GPU of the run: a name or an alias.")
@click.option("--gpus", type=click.IntRange(min=1), default=1, show_default=True, help="Number of GPUs in total.")
@click.option("--scenario", metavar="SCENARIO", help="Show how the run changes the plan of this scenario.")
@click.option("--job", metavar="NAME", help="Job of the scenario that ran, if it has several.")
@click.option(
    "--tokens-per-step", type=click.FloatRange(min=0, min_open=True), help="Tokens of one optimizer step over all GPUs."
)
@technique_options
@table_options(SETTINGS)
@json_option
@click.option("-o", "--output", "path", metavar="FILE", help="Also write the entry to FILE as YAML.")
@solve_options(solver=False)
def calibrate(
    logs: tuple[str, ...], scenario: str | None, as_json: bool, path: str | None, options: SolveOptions, **run: Any
) -> None:
    """Calibrate estimates from the logs of a run.

    LOG is a trainer_state.json of the Hugging Face Trainer, a CSV with step
    and seconds (or timestamp), or a memory log: nvidia-smi --query-gpu=
    memory.used --format=csv, or a column max_memory_allocated. Several logs
    must be of one run. A JSON of `vllm bench serve` or GuideLLM measures
    generation; generate.json of the export says how. Prints an entry for the
    job's list `measured`.

    Try: planner calibrate trainer_state.json --gpu A100 --scenario quickstart
    """
    from planner.analysis.calibration.calibrate import calibrate as learn_from_logs
    from planner.loading.scenario_file import read_scenario
    from planner.report.calibration_text import render_calibration

    output = Output(as_json, path=path)
    output.check()
    given = {name: value for name, value in run.items() if value is not None}
    loaded = read_scenario(scenario) if scenario is not None else None
    result = learn_from_logs(logs, scenario=loaded, options=options, **given)
    output.write(result, render_calibration, document=lambda found: found.block)

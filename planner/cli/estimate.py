"""`estimate`: memory and speed of one configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from planner.cli.exit_codes import write_json
from planner.cli.solve import as_of_option, json_option, wants_color
from planner.errors import Fault, ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable

TECHNIQUE_OPTIONS = (
    "method",
    "weight-bits",
    "quant",
    "precision",
    "activation-checkpointing",
    "sharding",
    "attention",
    "optimizer",
)
"""Options whose values and help come from the table of techniques."""

CHOICES = {
    # option: values and help; a wrong value is refused by the planner, which suggests one
    "packing": ("packed|padded|fixed", "[packed]"),
    "interconnect": ("nvlink|nvswitch|pcie", "Between the GPUs of a machine [that of the GPU's form]"),
}

NUMBERS: dict[str, tuple[type, str]] = {
    "gpus": (int, "GPUs in all [1]"),
    "instances": (int, "Machines that hold them [as many of 8 as it takes]"),
    "network-gbps": (float, "Network of one machine in Gbit/s, where there are several"),
    "sequence-length": (int, "Tokens per sequence [2048]"),
    "micro-batch": (int, "Sequences per GPU and step [the largest that fits]"),
    "accumulation-steps": (int, "Micro-batches per optimizer step [1]"),
    "global-batch": (int, "Sequences per optimizer step over all GPUs"),
    "tokens-per-sample": (float, "Mean length of samples that are not packed"),
    "length-cv": (float, "Spread of their lengths over the mean [0.8]"),
    "lora-rank": (int, "Of the adapters [16]"),
    "tensor-parallel": (int, "GPUs that share every layer [1]"),
    "pipeline-parallel": (int, "GPUs that share the stack of layers [1]"),
    "resolution": (int, "Pixels per side, of a diffusion model"),
    "vram-headroom": (float, "Share kept free, in place of the profile's margin"),
}


class TechniqueOption(click.Option):
    """An option that takes values and help from `models/techniques` when help is printed: reading costs start-up time."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the line of `--help`."""
        from planner.library.techniques import read_techniques

        technique = read_techniques().of(str(self.name))
        self.metavar = "|".join(map(str, technique.values))
        self.help = technique.logged if ctx.command.name == "calibrate" else technique.help
        return super().get_help_record(ctx)


def technique_option(name: str) -> Callable[[Any], Any]:
    """Return the option of one of `TECHNIQUE_OPTIONS`."""
    return click.option(f"--{name}", cls=TechniqueOption, type=int if name == "weight-bits" else str)


def _settings(command: Callable[..., None]) -> Callable[..., None]:
    """Add all options of the tables above, in the order of the tables."""
    options = [click.option(f"--{name}", type=kind, help=said) for name, (kind, said) in NUMBERS.items()]
    options += [technique_option(name) for name in TECHNIQUE_OPTIONS]
    options += [click.option(f"--{name}", metavar=values, help=said) for name, (values, said) in CHOICES.items()]
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.option("--architecture", required=True, metavar="NAME", help="A name, an alias or the path of a config.json.")
@click.option("--gpu", required=True, metavar="NAME", help="Name or alias of the GPU.")
@click.option("--framework", metavar="NAME", help="Profile of the estimates [hf]")
@click.option("--lora-targets", metavar="SET|LIST", help="all-linear, attention, qv, or such as q,k,v [all-linear]")
@_settings
@click.option("--largest-batch", is_flag=True, help="Report the largest micro-batch that fits, too.")
@click.option("--longest-sequence", is_flag=True, help="Report the longest sequence that fits, too.")
@json_option
@as_of_option
def estimate(as_json: bool, lora_targets: str | None, as_of: object, **settings: Any) -> None:
    """Estimate memory and speed of one configuration, by part.

    What is left out is chosen and reported; the choice is [in brackets].

    An estimate has no prices: --as-of is accepted, as by the other commands, and changes nothing.

    Try: planner estimate --architecture mistral-7b --gpu A10G --weight-bits 4
    """
    from planner.analysis.estimate.estimate import estimate as estimated

    given = {name: value for name, value in settings.items() if value is not None}
    if lora_targets is not None:
        given["lora_targets"] = _targets(lora_targets)
    try:
        told = estimated(**given)
    except ScenarioError as error:
        raise ScenarioError([_as_option(fault) for fault in error.faults]) from None
    if as_json:
        write_json(told.model_dump(mode="json", by_alias=True))
    else:
        from planner.report.estimate import render_estimate

        click.echo(render_estimate(told, color=wants_color()))


def _targets(text: str) -> str | list[str]:
    """Return a set by its name, or a list of linear layers."""
    from planner.scenario.techniques import LINEARS

    parts = [part.strip() for part in text.split(",")]
    return parts if len(parts) > 1 or parts[0].removesuffix("_proj") in LINEARS else text


def _as_option(fault: Fault) -> Fault:
    """Return a fault that names a setting with the option instead."""
    where = f"--{fault.where.partition('.')[0].replace('_', '-')}" if fault.where else ""
    return replace(fault, file="planner estimate", where=where)

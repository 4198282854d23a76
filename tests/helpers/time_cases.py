"""Builders that turn the numbers of a test into a setup of the time estimate."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from planner.documents.files import read_document
from planner.estimates import inputs as setup
from planner.estimates.device import TimeCoefficients
from planner.estimates.inputs import Activations, Hardware, Kernels, Layout, Network, Stack, States, TimedSetup
from planner.estimates.step_time import StepTime, step_time
from planner.units import GB, TERA

ROOT = Path(__file__).resolve().parents[2]
CHECKPOINTING = {
    "none": setup.CHECKPOINT_NONE,
    "every_2nd": setup.CHECKPOINT_EVERY_2ND,
    "selective": setup.CHECKPOINT_SELECTIVE,
    "full": setup.CHECKPOINT_FULL,
    "offload": setup.CHECKPOINT_OFFLOAD,
    "megatron_selective": setup.CHECKPOINT_MEGATRON_SELECTIVE,
}
ATTENTION = {"flash": setup.ATTENTION_FLASH, "eager": setup.ATTENTION_EAGER}
_STATE_DEFAULTS = {
    "weight_bytes": 2,
    "embedding_bytes": 2,
    "gradient_bytes": 2,
    "optimizer_bytes": 4,
    "step_bytes": 0,
    "cast_bytes": 0,
    "reduced_bytes": 2,
    "optimizer_traffic_bytes": 16,
}


@dataclass(frozen=True)
class Case:
    """The parts of a setup, and the coefficients."""

    network: Network
    layout: Layout
    states: States
    activations: Activations
    kernels: Kernels
    hardware: Hardware
    coefficients: TimeCoefficients

    def arguments(self) -> tuple[TimedSetup, TimeCoefficients]:
        """The arguments of `step_time`."""
        parts = (self.network, self.layout, self.states, self.activations, Stack(), self.kernels, self.hardware)
        return TimedSetup(*parts), self.coefficients

    def time(self) -> StepTime:
        """The step time of this case."""
        return step_time(*self.arguments())

    def tokens_per_gpu_second(self) -> float:
        """Processed tokens per second and GPU."""
        return float(self.time().tokens_per_second / self.layout.gpus)


@cache
def document(path: str) -> Any:
    """A YAML file of the checkout as plain values."""
    return read_document(ROOT / path).data


def calibration(name: str) -> dict[str, float]:
    """Key to value of one file in models/calibration."""
    entries = document(f"models/calibration/{name}.yaml")["coefficients"]
    return {key: float(entry["value"]) for key, entry in entries.items()}


def golden_values(name: str) -> dict[str, float]:
    """Key to value of the coefficients that the golden cases were computed with, whatever ships."""
    values: dict[str, float] = document("tests/estimates/golden_coefficients.yaml")[name]
    return values


def time_coefficients() -> TimeCoefficients:
    """The coefficients of the golden cases."""
    return TimeCoefficients(**golden_values("time"))


def kernels_of(profile: str, quant: str | None = None, flash_1: bool = False, shipped: bool = False) -> Kernels:
    """The kernel coefficients of a profile: those of the golden cases, or those that ship."""
    values = calibration("kernels") if shipped else golden_values("kernels")
    names = {field.name for field in fields(Kernels)} - {
        "quantised_bytes",
        "fused",
        "fp8_forward",
        "overlaps_reduction",
        "dispatches_by_node",
        "hook_seconds",
        "gradient_launch_seconds",
        "recomputed_launch",
        "quantised_launch_seconds",
    }
    chosen = {name: values[f"{profile}.{name}"] for name in names}
    chosen["hook_seconds"] = values.get(f"{profile}.hook_seconds", 0.0)
    if flash_1:
        chosen["attention_factor"] = values["flash_1.attention_factor"]
    quantised = values[f"quantised_bytes.{quant}"] if quant else 0.0
    late = profile == "megatron"
    return Kernels(**chosen, quantised_bytes=quantised, fused=int(profile == "fused"), overlaps_reduction=int(not late))


def network_of(entry: dict[str, Any], **changes: Any) -> Network:
    """A dense network from a golden entry."""
    values = {"active_parameters": changes.get("parameters", entry["parameters"]), "rope": True, **entry, **changes}
    return Network(**values)


def hardware_of(card: dict[str, Any]) -> Hardware:
    """A golden card with the efficiencies of the golden cases."""
    efficiency, shares = golden_values("gpu_efficiency"), golden_values("kernels")
    peak = card["peak"] * TERA
    linear = card["fp8"] * TERA * shares["linear_share.fp8_fused"] if "fp8" in card else peak
    known = card["efficiency"]
    return Hardware(
        peak=peak,
        linear_peak=linear,
        bandwidth=card["bandwidth"] * GB,
        nvlink=card["nvlink"] * GB,
        pcie=card["pcie"] * GB,
        network=card["network"] * GB,
        efficiency=efficiency[known] if isinstance(known, str) else known,
        attention_efficiency=efficiency[f"attention.{card['attention']}"],
        host_factor=efficiency[f"host.{card['host']}"] if "host" in card else 1.0,
        dequant_factor=efficiency[f"dequant.{card['dequant']}"] if "dequant" in card else 1.0,
    )


def case_of(entry: dict[str, Any]) -> Case:
    """A golden entry, or one in its form, as a setup."""
    golden = document("tests/estimates/time/golden_time.yaml")
    changes = {"parameters": entry["parameters"]} if "parameters" in entry else {}
    network = network_of(golden["networks"][entry["network"]], **changes)
    frozen = "trainable" in entry
    layout = {key: entry[key] for key in (field.name for field in fields(Layout)) if key in entry}
    states = {key: entry.get(key, default) for key, default in _STATE_DEFAULTS.items()}
    return Case(
        network=network,
        layout=Layout(**{"accumulation": 1, "gpus_per_node": 8, "longest_sequence": entry["sequence"], **layout}),
        states=States(
            frozen=int(frozen),
            quantised=int("quant" in entry),
            trainable=entry["trainable"] if frozen else network.parameters,
            adapted_linears=entry.get("adapted_linears", 0),
            gathered_bytes=entry.get("gathered_bytes", 2),
            **states,
        ),
        activations=Activations(
            checkpointing=CHECKPOINTING[entry.get("checkpointing", "none")],
            attention=ATTENTION[entry.get("attention", "flash")],
            logit_bytes=14,
        ),
        kernels=kernels_of(entry["profile"], entry.get("quant"), entry.get("flash_1", False)),
        hardware=hardware_of(golden["cards"][entry["card"]]),
        coefficients=time_coefficients(),
    )


def golden_cases() -> dict[str, dict[str, Any]]:
    """The golden entries by row id."""
    cases: dict[str, dict[str, Any]] = document("tests/estimates/time/golden_time.yaml")["cases"]
    return cases

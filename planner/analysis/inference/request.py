"""What `estimate --inference` asks for, checked against the facts of engines, formats, GPUs and models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.configurations.observed.comparison import GPUS_PER_MACHINE
from planner.configurations.replicas.checks import divisions
from planner.configurations.replicas.recipes import has_kernels, supports
from planner.documents.validation import name_fix
from planner.errors import Fault, ScenarioError
from planner.library.inference.engines import Engine, WeightFormat, read_engines
from planner.library.releases import describe_published, is_16_bit, release_bits, servable_formats
from planner.records import record
from planner.scenario.configuration import WHERE

if TYPE_CHECKING:
    from planner.library.schema import Architecture, GpuSpec
    from planner.scenario.inference import InferenceRequest


@record(frozen=True)
class Served:
    """The engine and format that are asked for, and what was not given."""

    name: str
    engine: Engine
    format_name: str
    form: WeightFormat
    tensor: int
    pipeline: int
    assumed: tuple[str, ...]


def resolve_request(asked: InferenceRequest, architecture: Architecture, gpu: GpuSpec) -> Served:
    """Return engine and format; `ScenarioError` with every reason why this cannot run."""
    table, faults = read_engines(), list[Fault]()

    def fault(where: str, what: str, fix: str) -> None:
        faults.append(Fault(WHERE, 0, where, what, fix))

    name = table.engine_behind(asked.engine)
    if name is None:
        fix = name_fix(asked.engine, table.engines)
        raise ScenarioError([Fault(WHERE, 0, "engine", f"unknown engine {asked.engine!r}", fix)])
    if architecture.image is not None:
        raise ScenarioError([Fault(WHERE, 0, "", f"{architecture.name} makes images", "choose a language model")])
    engine = table.engines[name]
    if not supports(engine, gpu):
        need = f"{' or '.join(engine.vendors)}, compute capability {engine.capability} or newer"
        fault("engine", f"{engine.label} does not support {gpu.name}", f"it needs {need}")
    format_name = _format(asked, name, architecture, gpu, faults)
    tensor, pipeline = _division(asked, engine, architecture, faults)
    if asked.kv_bits not in engine.kv_bits:
        have = " or ".join(map(str, engine.kv_bits))
        fault("kv_bits", f"{engine.label} has no cache of {asked.kv_bits} bits", f"choose {have}")
    if asked.prefix > asked.input:
        fault("prefix", f"{asked.prefix:,} exceeds the input of {asked.input:,} tokens", "the prefix is part of it")
    if asked.input + asked.output > architecture.max_sequence:
        what = f"{asked.input:,} + {asked.output:,} tokens exceed the context of {architecture.name}"
        fault("input", what, f"at most {architecture.max_sequence:,} together")
    if faults or format_name is None:
        raise ScenarioError(faults)
    given = asked.model_fields_set
    assumed = [
        f"{key} {value}" for key, value in (("input", asked.input), ("output", asked.output)) if key not in given
    ]
    assumed += [f"engine {name}"] if "engine" not in given else []
    assumed += [f"weight format {format_name}"] if asked.weight_format is None else []
    assumed += [f"kv-bits {asked.kv_bits}"] if "kv_bits" not in given else []
    form = table.formats[format_name]
    return Served(name, engine, format_name, form, tensor, pipeline, tuple(assumed))


def _division(
    asked: InferenceRequest, engine: Engine, architecture: Architecture, faults: list[Fault]
) -> tuple[int, int]:
    """Return the GPUs that share each layer and those among which layers are divided; a fault where they cannot.

    A replica stays within a machine, as in every plan: across machines its exchanges would go over the network.
    """
    machines = asked.instances or -(-asked.gpus // GPUS_PER_MACHINE)
    if machines > 1:
        what = f"{asked.gpus} GPUs are {machines} machines, and a replica stays within one"
        most = max(1, asked.gpus // machines)
        each = max((one for one in divisions(architecture) if one <= most), default=1) if engine.tensor else most
        fix = f"estimate one of {each} GPU{'s' * (each != 1)}"
        if not engine.tensor or architecture.split_fault(asked.gpus) is None:
            fix += f", or give --instances 1 for a machine that has {asked.gpus}"
        faults.append(Fault(WHERE, 0, "gpus", what, fix))
    why = architecture.split_fault(asked.gpus) if engine.tensor else None
    if why is not None and machines == 1:
        fix = f"give {' or '.join(map(str, divisions(architecture)))} GPUs for each replica"
        faults.append(Fault(WHERE, 0, "gpus", why, fix))
    tensor = asked.gpus if engine.tensor else 1
    return tensor, asked.gpus // tensor


def _format(
    asked: InferenceRequest, engine_name: str, architecture: Architecture, gpu: GpuSpec, faults: list[Fault]
) -> str | None:
    """Return the format of the weights; None with a fault where the model, the engine or the GPU does not have it."""
    table = read_engines()
    engine = table.engines[engine_name]
    wanted = asked.weight_format and table.format_behind(asked.weight_format)
    if asked.weight_format and (wanted is None or wanted not in engine.formats):
        what = f"{engine.label} does not load {asked.weight_format}"
        faults.append(Fault(WHERE, 0, "weight_format", what, name_fix(asked.weight_format, engine.formats)))
        return None
    if wanted and asked.weight_bits not in (None, table.formats[wanted].bits):
        what = f"{wanted} has {table.formats[wanted].bits} bits, not {asked.weight_bits}"
        faults.append(Fault(WHERE, 0, "weight_bits", what, "give one of the two"))
        return None
    there = servable_formats(engine, architecture)
    usual = release_bits(architecture.published)
    bits = asked.weight_bits or (usual or (16,))[0]
    possible = [one for one in there if (one == wanted if wanted else table.formats[one].bits == bits)]
    if not possible and not is_16_bit(architecture):
        needs = f"not in {wanted or f'{bits} bits'}" if there else f"and {engine.label} loads none of them"
        where = "weight_format" if wanted else "weight_bits" if there else "engine"
        fix = f"leave it out, or choose {', '.join(there)}" if there else "name another engine or release"
        faults.append(Fault(WHERE, 0, where, f"{describe_published(architecture)}, {needs}", fix))
        return None
    if not possible:
        have = sorted({table.formats[one].bits for one in engine.formats}, reverse=True)
        what = f"{engine.label} has no weights of {bits} bits"
        faults.append(Fault(WHERE, 0, "weight_bits", what, f"choose {' or '.join(map(str, have))}"))
        return None
    for one in possible:
        if has_kernels(table.formats[one], gpu):
            return one
    least = min(table.formats[one].capability for one in possible)
    what = f"{gpu.name} has no kernels for {' or '.join(possible)}"
    faults.append(Fault(WHERE, 0, "weight_bits", what, f"they need compute capability {least} or newer"))
    return None

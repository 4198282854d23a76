"""The kinds of machines of a service with what serves the plan there, and the times at which their number changes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner import generation
from planner.documents.validation import meant_name
from planner.errors import Fault, InputError, raise_faults
from planner.exports.facts import Wishes
from planner.exports.field_map import EngineMap, engine_maps, filled
from planner.exports.machine_names import slug
from planner.library.engines import read_engines
from planner.library.reading import read_library
from planner.results.fleet import Fleet, FleetKind, Service
from planner.results.plan import Plan
from planner.scenario.inference_job import ServeJob
from planner.scenario.scenario import Scenario
from planner.services.fleet_problem import services_of
from planner.units import DAY_HOURS, GIB

if TYPE_CHECKING:
    from collections.abc import Sequence


# Machines by the hour as times at which their number changes, and as lines of cron.


HOUR_MINUTES = 60
DAY_MINUTES = 60 * int(DAY_HOURS)


@dataclass(frozen=True)
class Change:
    """From this time on so many machines are ordered; the time repeats by the day or by the week."""

    cron: str
    machines: int


def lead_minutes(start_hours: float) -> int:
    """Return the whole minutes from ordering a machine to its first answer."""
    return math.ceil(HOUR_MINUTES * start_hours - 1e-9)


def ordered_at(by_hour: Sequence[int], lead: int, minute: int) -> int:
    """Return the machines that must be ordered at a minute of the cycle: the most of any time until `lead` later."""
    hours = range(minute // HOUR_MINUTES, (minute + lead) // HOUR_MINUTES + 1)
    return max(by_hour[hour % len(by_hour)] for hour in hours)


def changes(by_hour: Sequence[int], start_hours: float) -> list[tuple[int, int]]:
    """Return the minutes of the cycle at which the number of ordered machines changes, and the number from then on.

    Machines are ordered `start_hours` before the hour that needs them, and given back at the full hour. Example: two
    machines from 9 to 17 that start in 7 minutes: ordered at 8:53, given back at 17:00.
    """
    lead, cycle = lead_minutes(start_hours), HOUR_MINUTES * len(by_hour)
    times = {(HOUR_MINUTES * hour - early) % cycle for hour in range(len(by_hour)) for early in (0, lead)}
    times_and_machines = []
    for minute in sorted(times):
        now, before = (ordered_at(by_hour, lead, at) for at in (minute, (minute - 1) % cycle))
        if now != before:
            times_and_machines.append((minute, now))
    return times_and_machines


def cron_changes(by_hour: Sequence[int], start_hours: float) -> list[Change]:
    """Return the changes with one line of cron for all that happen at the same minutes of the same weekdays."""
    weekly = len(by_hour) > int(DAY_HOURS)
    hours: dict[tuple[int, int], dict[int, list[int]]] = {}
    for minute, machines in changes(by_hour, start_hours):
        day, of_day = divmod(minute, DAY_MINUTES)
        hour, rest = divmod(of_day, HOUR_MINUTES)
        hours.setdefault((rest, machines), {}).setdefault(day, []).append(hour)
    lines = []
    for (rest, machines), by_day in hours.items():
        together: dict[tuple[int, ...], list[int]] = {}
        for day, some in by_day.items():
            together.setdefault(tuple(some), []).append(day)
        for at, days in together.items():
            weekdays = _ranges([day % 7 + 1 for day in days]) if weekly else "*"  # Monday is 1, Sunday 7
            lines.append(Change(f"{rest} {','.join(map(str, at))} * * {weekdays}", machines))
    return lines


def _ranges(numbers: Sequence[int]) -> str:
    """Return sorted numbers as cron has them: 1-5,7; Sunday is 0, which every cron knows."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1 and number != 7:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first % 7) if first == last else f"{first}-{last}" for first, last in parts)


def autoscaled(loads: Sequence[float], target: float, least: int, most: int) -> list[int]:
    """Return the machines that SkyPilot asks for at each load: load over target, rounded up, within the bounds."""
    return [min(most, max(least, math.ceil(load / target - 1e-9))) for load in loads]


CHUNK = 8192
"""Prompt tokens of one step that the estimate assumes; a test compares it with the estimate."""
PORT = 8000
WEIGHTS_SHARE = 0.8
"""Of the memory that 16-bit weights may take where the engine makes another format of them while it loads."""


@dataclass(frozen=True)
class GivenService:
    """A plan, the scenario that it carries, and its service."""

    plan: Plan
    scenario: Scenario
    service: Service

    @property
    def asked(self) -> ServeJob:
        """The service as the scenario states it."""
        (asked_job,) = (job for job in services_of(self.scenario) if job.name == self.service.name)
        return asked_job

    @property
    def fleet(self) -> Fleet:
        """The machines by the hour."""
        return self.service.fleet


@dataclass(frozen=True)
class ServedKind:
    """One kind of machines under a name of its own, and the command of one of its servers."""

    number: int
    service: str
    made: FleetKind
    engine: EngineMap
    model: str | None
    """None: the user names it when the server starts."""
    weights: str
    """What the weights are, in words."""
    made_here: bool
    """Whether the engine makes the format of the weights while it loads them."""
    settings: dict[str, Any]
    """What the estimate assumed, by the names of the map of the engine."""

    @property
    def has_16_bit_weights(self) -> bool:
        """Whether the weights are those that a release or a merged model has."""
        return read_engines().is_16_bit(self.made.weight_format)

    @property
    def name(self) -> str:
        """Name of the kind among Deployments and services."""
        return f"{self.service}-{self.number}"

    @property
    def file(self) -> str:
        """Part of the names of its files."""
        return f"{self.number}-{slug(f'{self.made.gpu}-{self.made.market}')}"

    @property
    def provider(self) -> str:
        """The provider, as a launcher is asked for it."""
        return self.made.provider

    @property
    def region(self) -> str:
        """The region."""
        return self.made.region

    @property
    def instance(self) -> str:
        """The machine."""
        return self.made.instance

    @property
    def gpu(self) -> str:
        """The GPU."""
        return self.made.gpu

    @property
    def spot_share(self) -> float:
        """Nothing on a machine must outlive it, so that no launcher is refused for want of a volume."""
        return 0.0

    @property
    def is_together(self) -> bool:
        """Whether one server has all replicas of a machine."""
        return self.made.replicas > 1 and bool(self.engine.several)

    def words(self, together: bool) -> list[str]:
        """Return the command of a server; {model} and {port} stay.

        `together`: of a whole machine, where it has several replicas.
        """
        tool, made = self.engine, self.made
        several = tool.several if together and self.is_together else ()
        formats = tool.made if self.made_here else tool.formats
        words = (*tool.serve, *tool.server, *formats[made.weight_format], *tool.cache[made.kv_bits], *several)
        words += (*tool.prefix[self.settings["prefix_caching"]], *self.settings["image_words"])
        if self.settings["adapters_served"]:  # their names and folders come last, from the shell
            words += tool.adapters
        return filled(words, self.settings)

    def loads(self, fleet: Fleet) -> list[float]:
        """Return the load of one machine in each hour that has one, in the unit of the fleet."""
        return [
            use * self.made.capacity for use, count in zip(fleet.use_by_hour, self.made.by_hour, strict=True) if count
        ]


def choose_service(plan: Plan, scenario: Scenario, file: str, name: str | None) -> GivenService:
    """Return the service of a plan; `InputError` where it has none of that name, or its scenario does not."""
    if name is not None:
        problem = f"the plan has no {'job' if plan.jobs else 'service'}"
        name = meant_name(name, [*(service.name for service in plan.services)], "--job", problem)
    chosen = [service for service in plan.services if name in (None, service.name)]
    if not any(job.name == chosen[0].name for job in services_of(scenario)):
        problem = f"the scenario has no service {chosen[0].name}"
        raise InputError([Fault(file, 0, "inputs", problem, "solve it again")])
    return GivenService(plan, scenario, chosen[0])


def served_kinds(given: GivenService, wishes: Wishes, file: str) -> list[ServedKind]:
    """Return the kinds that have a machine in some hour.

    `InputError` with every one that no engine can serve, else with every wish that none of them takes up.
    """
    weights, faults, kinds = _named_weights(wishes), [], []
    for number, made in enumerate((kind for kind in given.fleet.kinds if any(kind.by_hour)), 1):
        tool, where = engine_maps().get(made.engine), f"jobs.{given.service.name}"
        wrong = _refusals(given, made, tool)
        faults += [Fault(file, 0, where, f"kind {number}: {problem}", fix) for problem, fix in wrong]
        if tool is not None and not wrong:
            model, made_here = _weights(given, made, tool, weights)
            settings = _settings(given, made, tool)
            kinds.append(
                ServedKind(
                    number, slug(given.service.name), made, tool, model, _in_words(given, made), made_here, settings
                )
            )
    raise_faults(faults or _unused(wishes, weights, kinds))
    return kinds


def _unused(wishes: Wishes, weights: dict[str, str], kinds: list[ServedKind]) -> list[Fault]:
    """Return a fault for each wish that no kind takes up: weights in a format that the plan lacks, and data."""
    faults, table = [], read_engines()
    formats = list(dict.fromkeys(kind.made.weight_format for kind in kinds))
    for form, name in weights.items():
        if form and form not in formats:
            ways = ",".join("OWNER/NAME" if table.is_16_bit(name) else f"{name}=OWNER/NAME" for name in formats)
            problem = f"the plan has no weights in {form}"
            faults.append(Fault(f"--model-id {form}={name}", 0, "", problem, f"give {ways}"))
        elif not form and all(kind.model is None or kind.made.weight_format in weights for kind in kinds):
            problem = f"names 16-bit weights, and the plan has {' and '.join(formats)} alone"
            unnamed = ",".join(f"{form}={name}" for form in formats if form not in weights)
            faults.append(Fault(f"--model-id {name}", 0, "", problem, f"give {unnamed}" if unnamed else "leave it out"))
    if wishes.dataset is not None:
        faults.append(Fault("--dataset", 0, "", "a service reads no data", "leave it out"))
    return faults


def _in_words(given: GivenService, made: FleetKind) -> str:
    """Return what the weights are: merged or not, and their format."""
    adapter = given.asked.adapter
    merged = "merged with the adapter, " if adapter is not None and not adapter.served else ""
    return f"{merged}in {made.weight_format}"


def _refusals(given: GivenService, made: FleetKind, tool: EngineMap | None) -> list[tuple[str, str]]:
    """Return what an engine cannot do of a kind, and the setting that plans without it."""
    techniques = f"jobs.{given.service.name}.techniques"
    if tool is None:
        label = read_engines().engines[made.engine].label
        return [
            (f"no command serves with {label}", f"plan with --set '{techniques}.engine=[{', '.join(engine_maps())}]'")
        ]
    refusals, adapter = [], given.asked.adapter
    if made.weight_format not in tool.formats:
        fix = f"plan with --set '{techniques}.weight_format=[{', '.join(tool.formats)}]'"
        refusals.append((f"{tool.label} loads no {made.weight_format}", fix))
    if made.kv_bits not in tool.cache:
        fix = f"plan with --set '{techniques}.kv_bits=[{', '.join(map(str, tool.cache))}]'"
        refusals.append((f"{tool.label} has no {made.kv_bits}-bit cache", fix))
    if adapter is not None and adapter.served:
        if not tool.adapters:
            able = ", ".join(name for name, engine in engine_maps().items() if engine.adapters)
            fix = f"plan with --set '{techniques}.engine=[{able}]'"
            refusals.append((f"the command of {tool.label} serves no adapters", fix))
        elif tool.room_for(adapter.rank) is None:
            refusals.append(
                (f"{tool.label} serves no adapters of rank {adapter.rank}", f"a rank up to {max(tool.ranks)}")
            )
    if made.gpus < made.gpus_per_replica * made.replicas:
        problem = f"{made.replicas} replicas of {made.gpus_per_replica} GPUs do not fit on a machine of {made.gpus}"
        refusals.append((problem, "planner check lists every edited figure; solve it again"))
    return refusals


def _settings(given: GivenService, made: FleetKind, tool: EngineMap) -> dict[str, Any]:
    """Return what the estimate assumed, by the names that maps of engines use."""
    engine, asked, card = read_engines().engines[made.engine], given.asked, read_library([]).gpu(made.gpu)
    capability = float(card.compute_capability) if card.vendor == "NVIDIA" else 9.0
    adapter = asked.adapter if asked.adapter is not None and asked.adapter.served else None
    return {
        "tensor_parallel": made.gpus_per_replica // made.pipeline_parallel,
        "pipeline_parallel": made.pipeline_parallel,
        "max_num_seqs": engine.limits_on(card).sequences,
        "max_model_len": longest_request(given),
        "memory_share": round(min(engine.share, 1.0 - (given.scenario.limits.vram_headroom or 0.0)), 3),
        "dtype": "bfloat16" if capability >= 8 else "float16",  # older ones have no 16-bit brain floats
        "chunk": CHUNK,
        "replicas": made.replicas,
        "prefix_caching": given.service.prefix_tokens > 0,
        "image_words": tool.image_words(asked.load.image_input),
        "adapters_served": adapter.served if adapter else 0,
        "adapter_rank": tool.room_for(adapter.rank) if adapter else 0,
    }


def longest_request(given: GivenService) -> int:
    """Return the tokens of the longest request that is admitted, prompt and answer together.

    The longest of a table; of a mean four times it, as far as the model goes. 800 in and 200 out: 4,000.
    """
    load = given.asked.load
    longest = max(requests.input_tokens + requests.output_tokens for requests in load.as_work.classes)
    (card,) = read_library([given.service.architecture]).architectures.values()
    return longest if load.lengths else max(longest, min(generation.LONGER_ANSWERS * longest, card.max_sequence))


def _named_weights(wishes: Wishes) -> dict[str, str]:
    """Return the weights by format that `--model-id` names; those without a format under an empty name.

    Example: `me/merged,int8=me/merged-int8`.
    """
    parts = [part.rpartition("=") for part in (wishes.model_id or "").split(",") if part.strip()]
    return {form.strip(): name.strip() for form, _, name in parts}


def _weights(given: GivenService, made: FleetKind, tool: EngineMap, named: dict[str, str]) -> tuple[str | None, bool]:
    """Return the weights of a kind, None where they have no name yet, and whether the engine makes their format."""
    if made.weight_format in named:
        return named[made.weight_format], False
    (card,) = read_library([given.service.architecture]).architectures.values()
    adapter = given.asked.adapter
    is_own = adapter is not None and not adapter.served  # merged weights have no name but the user's
    base = named.get("") or (None if is_own else next((alias for alias in card.aliases if "/" in alias), None))
    if made.weight_format == card.published[0] or read_engines().is_16_bit(made.weight_format):
        return base, False
    room = WEIGHTS_SHARE * read_library([]).gpu(made.gpu).usable_gib * made.gpus_per_replica
    is_made = made.weight_format in tool.made and card.parameters * 2 / GIB < room
    return (base, True) if is_made else (None, False)

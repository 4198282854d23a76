"""The files of a service: commands, SkyPilot services, Kubernetes objects, and how they go together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import Fault, InputError, collect_faults, raise_faults
from planner.exports.field_map import field_maps, launch_maps
from planner.exports.quoting import document
from planner.exports.serving.kinds import served_kinds
from planner.exports.serving.kubernetes import BALANCER, kubernetes_services
from planner.exports.serving.script import command_script, hours_table
from planner.exports.serving.skypilot import CRON_FILE, skypilot_services, start_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.exports.facts import Wishes
    from planner.exports.serving.kinds import GivenService, ServedKind

_TARGETS = {"skypilot": skypilot_services, "kubernetes": kubernetes_services}


def export_service(given: GivenService, targets: Sequence[str], wishes: Wishes, file: str) -> dict[str, str]:
    """Return the files of each target by their names; without a target the command of each kind.

    `InputError` for a target that serves nothing, and with everything that an engine or a launcher cannot do.
    """
    kinds, maps = served_kinds(given, wishes, file), launch_maps()
    faults: list[Fault] = []
    found = {} if targets else {f"serve-{one.file}.sh": command_script(given, one, len(kinds)) for one in kinds}
    for name in targets:
        if name not in _TARGETS:
            label = (maps | field_maps())[name].label
            what = f"{label} trains, and this is a service" if name in field_maps() else f"no service for {label}"
            fix = f"--to {' or --to '.join(_TARGETS)}, or --all"
            faults.append(Fault(file, 0, f"jobs.{given.service.name}", what, fix))
            continue
        with collect_faults(faults):
            found |= _TARGETS[name](given, kinds, maps[name])
    raise_faults(faults)
    return found


def export_all_services(given: GivenService, wishes: Wishes, file: str) -> tuple[dict[str, str], list[str]]:
    """Return every file that the plan can have, by name, and which launchers are left out and why."""
    found, left_out = export_service(given, [], wishes, file), []
    for name in _TARGETS:
        try:
            found |= export_service(given, [name], wishes, file)
        except InputError as error:
            left_out.append(f"the files of {launch_maps()[name].label} are left out: {error.faults[0].what}")
    kinds = served_kinds(given, wishes, file)
    found["README.md"] = _readme(given, kinds, sorted(found))
    return found, left_out


def _readme(given: GivenService, kinds: list[ServedKind], files: Sequence[str]) -> str:
    """Return what the files are, how to start the service, and the machines of each hour."""
    service, fleet, count = given.service, given.fleet, f"{len(kinds)} kind{'s' * (len(kinds) > 1)} of machines"
    parts = [
        f"Service {service.name}: {min(fleet.replicas_by_hour)} to {max(fleet.replicas_by_hour)} replicas of "
        f"{service.architecture}, {count}, ${fleet.usd_per_month:,.2f} a month planned.\n\n"
        f"Files: {', '.join(files)}.\n\n"
    ]
    if any(one.startswith("skypilot") for one in files):
        starts = "".join(f"    {start_command(one)}\n" for one in kinds)
        hours = f"{CRON_FILE} changes the machines by the hour.\n\n" if CRON_FILE in files else ""
        parts.append(f"SkyPilot:\n\n{starts}\n{hours}")
    if any(one.startswith("kubernetes") for one in files):
        providers = sorted({one.provider for one in kinds})
        several = (
            f"The kinds are at {', '.join(providers)}: one cluster needs nodes of all of them, or each provider has a "
            "cluster of its own, with a balancer before them.\n\n"
        )
        parts.append(
            "Kubernetes:\n\n    for one in kubernetes-*.yaml; do kubectl apply -f $one; done\n\n"
            f"Requests go to http://{kinds[0].service}:8000/v1"
            + (f", which {BALANCER} divides among the kinds.\n\n" if len(kinds) > 1 else ".\n\n")
            + (several if len(providers) > 1 else "")
        )
    parts.append("On one machine:\n\n" + "".join(f"    bash serve-{one.file}.sh\n" for one in kinds) + "\n")
    return document("".join((*parts, hours_table(kinds))))

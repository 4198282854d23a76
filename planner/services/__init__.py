"""Services, fleets of replicas by the hour: the door of everything that is planned, shown and written of them.

Others ask `services.SERVICES`, through `planner.subjects`. A module is loaded when a name of it is used for the first
time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner import on_first_use

if TYPE_CHECKING:
    from planner.services.service_changes import service_frontier as service_frontier
    from planner.services.service_simulation import simulate_service as simulate_service
    from planner.services.service_subject import SERVICES as SERVICES

_NAMES_BY_MODULE = {
    "planner.services.service_changes": ("service_frontier",),
    "planner.services.service_simulation": ("simulate_service",),
    "planner.services.service_subject": ("SERVICES",),
}

__getattr__ = on_first_use(__name__, _NAMES_BY_MODULE)

"""What the machines of a service rest on: memory of their GPUs, measurements behind their speed, their price."""

from __future__ import annotations

from planner.results.inference import ServingMemory
from planner.results.plan_parts import Part


class KindBasis(Part):
    """What one kind of machines of a fleet rests on."""

    service: str
    offer: str
    machine: str
    """Such as `1 x L40S at aws, spot`."""
    gpu: str
    engine: str
    weight_format: str
    memory_gib: ServingMemory
    """Of one GPU of a replica."""
    whole_gib: float
    """Of the GPU; the engine leaves what its `usable` is less."""
    most_in_flight: int
    """Requests of one replica whose cache fits and that the engine takes, at their mean length."""
    longest_context: int
    """Tokens of the longest request of the load."""
    priors: tuple[str, ...] = ()
    """What no published measurement informs; the speed of the others is calibrated on measurements."""
    is_measured: bool = False
    """Whether the job's own measurements inform the speed."""
    slow: float
    """Factor on all estimated times that holds with the confidence of the job."""
    price_date: str
    price_age_days: int | None
    price_source: str

"""A service: one model that answers requests as they come, on as many replicas as each hour needs."""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from planner.documents.quantities import Hours
from planner.scenario.inference import InferenceJob, kind_of_job
from planner.scenario.serving.load import Headroom, Latency, Load, ReplicaBounds, without_default
from planner.units import DAY_HOURS

DEFAULT_HOURS = 30 * DAY_HOURS


class ServeJob(InferenceJob):
    """One model behind a load that changes by the hour; the fleet repeats every day or week."""

    kind: Annotated[Literal["serve"], BeforeValidator(kind_of_job)]  # type: ignore[assignment]
    load: Load
    latency: Latency = Field(default=Latency(), json_schema_extra=without_default)
    for_hours: Hours = Field(default=DEFAULT_HOURS, alias="for", description="How long the service runs.")
    replicas: ReplicaBounds = ReplicaBounds()
    headroom: Headroom = Field(default=0.0, description="Share of the load that there is room for on top of it.")
    cold_start_hours: Hours | None = Field(
        default=None,
        alias="cold_start",
        description="From ordering a machine to its first answer; left out, estimated.",
    )

    if not TYPE_CHECKING:  # what a batch has and a service has not
        work: ClassVar[property] = property(lambda self: self.load.as_work)
        deadline_hours: ClassVar[None] = None
        trials: ClassVar = InferenceJob.model_fields["trials"].default
        stages: ClassVar = InferenceJob.model_fields["stages"].default
        data_gb: ClassVar[float] = 0.0
        release_hours: ClassVar[float] = 0.0
        due_hours: ClassVar[None] = None
        late_usd_per_hour: ClassVar[float] = 0.0

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        filled = self.latency.filled(self.load)
        if filled is not self.latency:
            object.__setattr__(self, "latency", filled)
        return self

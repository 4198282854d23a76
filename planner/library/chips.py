"""What a card says of a chip that is no NVIDIA GPU: which kinds of training were measured on it, and its slices."""

from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from planner.library.technique_rows import Row


class MeasuredKind(Row):
    """One kind of training with published runs on a chip; full fine-tuning counts as pretraining."""

    method: Literal["full", "lora"]
    precision: str  # of those runs: another one widens the range
    from_chips: PositiveInt = 1  # of the smallest run


class Chip(Row):
    """Facts of a chip that is planned with only as far as it was measured.

    `hosts` lists the slices that are rented as one: chips -> hosts; empty where machines of any size are. The loss of
    one host stops the slice. `estimate_only` says why no plan may use the chip.
    """

    measured: tuple[MeasuredKind, ...]
    hosts: dict[int, int] = Field(default_factory=dict)
    estimate_only: str = ""

    def unmeasured(self, method: str, chips: int) -> str | None:
        """Return in words what of such a run was not measured; None where the method was, on so many chips or fewer."""
        least = [one.from_chips for one in self.measured if one.method == method]
        if not least:
            return f"no published run of {method} training"
        return None if chips >= min(least) else f"no published run on fewer than {min(least)} chips"

    def refusal(self, method: str, chips: int, may_be_unmeasured: bool) -> str | None:
        """Return why no plan may rest on such a run; None where one may. Another precision widens the range only."""
        if self.estimate_only:
            return f"for `planner estimate` only: {self.estimate_only}"
        return None if may_be_unmeasured else self.unmeasured(method, chips)

    def has_precision(self, method: str, precision: str) -> bool:
        """Return whether runs of the method were measured in a precision."""
        return any((one.method, one.precision) == (method, precision) for one in self.measured)

    def hosts_of(self, chips: int) -> int:
        """Return the hosts of a slice; 1 for a machine that is no slice."""
        return self.hosts.get(chips, 1)

    @model_validator(mode="after")
    def _slices_have_chips_for_every_host(self) -> Self:
        for chips, hosts in self.hosts.items():
            if chips < 1 or hosts < 1 or chips % hosts:
                raise ValueError(f"{chips} chips cannot be spread evenly over {hosts} hosts")
        return self


def describe_slices(name: str, hosts: dict[int, int]) -> str:
    """Return the slices in words, such as `TPU-v5e is rented as slices of 1, 4 or 8 chips`."""
    *most, last = map(str, hosts)
    return f"{name} is rented as slices of {', '.join(most)} or {last} chips"

"""Records behave as frozen dataclasses do."""

from dataclasses import asdict, dataclass, field, fields, replace

import numpy as np
import pytest

from planner.records import record


@record(frozen=True)
class Machine:
    """A GPU and how many."""

    gpu: str
    gpus: int = 1
    notes: list[str] = field(default_factory=list, compare=False)

    @property
    def label(self) -> str:
        """As in `8 x H100`."""
        return f"{self.gpus} x {self.gpu}"


@dataclass(frozen=True)
class Twin:
    """The same fields as a frozen dataclass."""

    gpu: str
    gpus: int = 1
    notes: list[str] = field(default_factory=list, compare=False)


@record(frozen=True)
class Priced(Machine):
    """A machine and its price."""

    usd: float = 0.0


@record(frozen=True, eq=False)
class Columns:
    """Arrays, which have no single truth value."""

    hours: np.ndarray


@record(frozen=True)
class Nothing:
    """No fields."""


def test_a_record_has_the_fields_constructor_and_hash_of_a_frozen_dataclass() -> None:
    """Fields, text, defaults, copies and hashes are those of the standard library."""
    ours, theirs = Machine("H100", 8, ["new"]), Twin("H100", 8, ["new"])
    assert [one.name for one in fields(ours)] == [one.name for one in fields(theirs)]
    assert repr(ours) == repr(theirs).replace("Twin", "Machine")
    assert asdict(ours) == asdict(theirs)
    assert hash(ours) == hash(theirs)
    assert replace(ours, gpus=4) == Machine("H100", 4)
    assert ours.label == "8 x H100"
    with pytest.raises(TypeError, match="gpu"):
        Machine()  # type: ignore[call-arg]


def test_records_are_equal_by_the_fields_that_are_compared() -> None:
    """Notes are not compared; another class is never equal, not even a subclass."""
    assert Machine("H100", 8, ["new"]) == Machine("H100", 8)
    assert Machine("H100", 8) != Machine("H100", 4)
    assert Machine("H100", 8) != Twin("H100", 8)
    assert Machine("H100", 8) != Priced("H100", 8)
    assert Priced("H100", 8, usd=2.0) != Priced("H100", 8, usd=3.0)
    assert {Machine("H100", 8): "a"}[Machine("H100", 8, ["new"])] == "a"
    assert Nothing() == Nothing()
    assert len({Nothing(), Nothing()}) == 1


def test_without_eq_a_record_is_equal_to_itself_alone() -> None:
    """Comparing arrays would raise."""
    one, other = Columns(np.zeros(2)), Columns(np.zeros(2))
    assert one == one
    assert one != other
    assert repr(one) == "Columns(hours=array([0., 0.]))"

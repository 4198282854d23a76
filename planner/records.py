"""`record`: frozen dataclasses whose class is made in a fifth of the time.

`dataclass(frozen=True)` compiles six methods for each class, 0.5 ms of them: with hundreds of classes, a tenth of the
time that a command takes. A record has the same fields, constructor, comparison, hash and text, but all records share
the code of these. The type checker forbids assignments as for any frozen dataclass; at run time nothing does.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as record
else:

    def record(*, frozen: bool, eq: bool = True) -> Callable[[type[_Class]], type[_Class]]:
        """Make a class a record; without `eq` it is equal to itself alone, as what holds arrays should be."""
        assert frozen, "a record is frozen"
        return _compared_record if eq else _record


__all__ = ["record"]

_Class = TypeVar("_Class")


def _record(cls: type[_Class]) -> type[_Class]:
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    fields, missing = dataclasses.fields(made), dataclasses.MISSING
    made.default_fields = {
        one.name: one for one in fields if one.default is not missing or one.default_factory is not missing
    }
    made.filled_fields = {one.name for one in fields if one.init} | made.default_fields.keys()
    made.__init__ = _fill_and_finish if hasattr(cls, "__post_init__") else _fill
    made.__repr__ = _text
    return cls


def _compared_record(cls: type[_Class]) -> type[_Class]:
    made: Any = _record(cls)
    compared = [field.name for field in dataclasses.fields(made) if field.compare]
    made.compared_values = attrgetter(*compared or ["__class__"])
    made.__eq__, made.__hash__ = _equals, _hash
    return cls


def _fill(one: Any, /, *values: Any, **named: Any) -> None:
    cls, kept = one.__class__, one.__dict__
    if values:
        kept.update(zip(cls.__match_args__, values, strict=False))
    kept.update(named)
    if len(values) + len(named) != len(kept) or kept.keys() != cls.filled_fields:
        _complete(cls, kept, values, named)


def _fill_and_finish(one: Any, /, *values: Any, **named: Any) -> None:
    _fill(one, *values, **named)
    one.__post_init__()


def _complete(cls: Any, kept: dict[str, Any], values: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Add the defaults of fields that are not given; TypeError for arguments that do not fit, as of any function."""
    for name, field in cls.default_fields.items():
        if name not in kept:
            is_made = field.default is dataclasses.MISSING
            kept[name] = field.default_factory() if is_made else field.default
    by_place = cls.__match_args__
    if len(values) > len(by_place):
        raise TypeError(f"{cls.__name__} takes {len(by_place)} arguments by place, not {len(values)}")
    if twice := named.keys() & set(by_place[: len(values)]):
        raise TypeError(f"{cls.__name__} is given {min(twice)} twice")
    if unknown := kept.keys() - cls.filled_fields:
        raise TypeError(f"{cls.__name__} has no field {min(unknown)}")
    if missing := cls.filled_fields - kept.keys():
        raise TypeError(f"{cls.__name__} needs {min(missing)}")


def _text(one: Any) -> str:
    shown = (field.name for field in dataclasses.fields(one) if field.repr)
    return f"{type(one).__qualname__}({', '.join(f'{name}={getattr(one, name)!r}' for name in shown)})"


def _equals(one: Any, other: Any) -> Any:
    cls = one.__class__
    return cls.compared_values(one) == cls.compared_values(other) if other.__class__ is cls else NotImplemented


def _hash(one: Any) -> int:
    return hash(one.__class__.compared_values(one))

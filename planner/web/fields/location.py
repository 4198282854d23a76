"""Where on the page a fault of a scenario belongs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.errors import Fault
    from planner.web.fields.control import Control


def locate(faults: tuple[Fault, ...], controls: list[Control]) -> list[dict[str, str]]:
    """Return faults of a scenario, each once, with its field; an empty key where there is none."""
    found: list[dict[str, str]] = []
    for fault in faults:
        place = fault.where or fault.file.removeprefix("--set ").partition("=")[0]
        keys = [one.key for one in controls if _is_inside(place, one.path) or _is_inside(one.path, place)]
        exact = [one.key for one in controls if _is_inside(place, one.path)]
        where = "" if exact or keys else f"{place}: " if place else ""
        one = {"key": (exact or keys or [""])[0], "what": f"{where}{fault.what}", "fix": fault.fix}
        if one not in found:  # one field may write several places: a price factor is two
            found.append(one)
    return found


def _is_inside(place: str, around: str) -> bool:
    return bool(place) and (place == around or place.startswith(f"{around}."))

"""One resolver of names: which GPUs, providers and regions a word means among the offers of a scenario.

A file, a setting, an option, a query of `--why-not` and a scenario that is made in Python all ask here. Case and
separators do not count. A word may mean several names: `H100` every form of the chip, `runpod` both of its markets,
`europe` every region there. A name that an offer has is never a group, except an area such as `US`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from planner.documents.validation import fold, name_fix
from planner.library.known_machines import countries_in, country_of, is_known_provider, provider_name
from planner.library.reading import CardNames
from planner.scenario.offer import Offer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Kind = Literal["gpu", "provider", "region", "instance"]
Place = tuple[str | int, ...]

LISTED: dict[str, Kind] = {"gpus": "gpu", "providers": "provider", "regions": "region"}
"""Limits that are lists of names -> what they name; `tiers` needs no offers and resolves its names itself."""
MATCHED: tuple[Kind, ...] = ("gpu", "provider", "region", "instance")
"""Keys of `adjust.*.match`."""


class OfferedNames:
    """Names of the offers of a scenario, and what a word means among them."""

    def __init__(self, offers: Iterable[Offer | dict[str, Any]], is_complete: bool = True) -> None:
        """Read them; without `is_complete` some offers could not be read, and no name of an offer is called unknown."""
        self._offers, self.is_complete = tuple(offers), is_complete

    @cached_property
    def _cards(self) -> CardNames:
        return CardNames("gpus")

    @cached_property
    def names(self) -> dict[Kind, dict[str, None]]:
        """The names of each kind, each once, in the order of the offers; zones of a region after it."""
        found: dict[Kind, dict[str, None]] = {kind: {} for kind in MATCHED}
        for offer in self._offers:
            facts = offer if isinstance(offer, dict) else getattr(offer, "__dict__", {})
            for kind in MATCHED:
                if isinstance(name := facts.get(kind, "any" if kind == "region" else None), str) and name:
                    found[kind][name] = None
            for zone in _zones(facts):
                found["region"][zone if "/" in zone else f"{facts.get('region', 'any')}/{zone}"] = None
        return found

    def meant(self, kind: Kind, written: str) -> tuple[str, ...]:
        """Return every name that a word means; empty where it means none."""
        offered = self.names[kind]
        if kind == "region" and (area := self._in_area(written)):
            return area
        if written in offered:
            return (written,)
        key = _key(kind, written)
        same = tuple(name for name in offered if _key(kind, name) == key)
        if kind == "gpu":
            return self._gpus(written) or same
        if kind == "provider":
            known = (provider_name(written),) if is_known_provider(written) else ()
            return same or _beginning(key, offered) or known
        if kind == "region":
            zones = tuple(name for name in offered if "/" in name and fold(name.partition("/")[2]) == key)
            known = (written,) if country_of(written) else ()
            return same or zones or _beginning(key, offered) or known
        return same

    def _gpus(self, written: str) -> tuple[str, ...]:
        if written in self._cards.own:
            return (written,)
        return self._cards.group(written)

    def _in_area(self, written: str) -> tuple[str, ...]:
        """Return the regions in a country or a continent, and one that is called so; none for any other word."""
        inside, key = countries_in(written), fold(written)
        regions = self.names["region"] if inside else ()
        return tuple(name for name in regions if country_of(name) in inside or fold(name) == key)

    def fault(self, kind: Kind, written: str) -> tuple[str, str]:
        """Return what is wrong with a word that means no name, and how to correct it with the nearest names."""
        if kind == "gpu":
            return f"unknown GPU {written!r}", self._cards.suggestion(written)
        offered = self.names[kind]
        if kind == "region":
            return f"no offer is in region {written!r}", name_fix(written, offered)
        return f"no offers of {kind} {written!r}", name_fix(written, offered)


def _key(kind: Kind, name: str) -> str:
    return fold(provider_name(name)) if kind == "provider" else fold(name)


def _beginning(key: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that go on after the word with a new part or a number: `runpod-secure`, `us-east-1`."""
    found = []
    for name in names:
        ends = [at for at in range(1, len(name)) if fold(name[:at]) == key and fold(name[:at]) != fold(name)]
        if key and any(not name[at].isalpha() for at in ends):
            found.append(name)
    return tuple(found)


def _zones(facts: dict[str, Any]) -> Sequence[str]:
    """Return the zones that an offer lists, written as a mapping or read as pairs."""
    zones = facts.get("zones") or ()
    return [str(zone if isinstance(zones, dict) else zone[0]) for zone in zones]


class _Resolution:
    """The walk through the places of a scenario that name something; data is plain, validated, or both."""

    def __init__(self, names: OfferedNames, complain: Callable[[Place, str, str], None]) -> None:
        self.names, self.complain = names, complain

    def listed(self, kind: Kind, words: Any, path: Place) -> tuple[list[Any], set[str]]:
        """Return the names that a word or a list of words means, and those of them that are names of a group.

        What is no word stays in its place: validation says what is wrong with it.
        """
        found: dict[str | int, Any] = {}
        grouped: set[str] = set()
        single = isinstance(words, str)
        for index, word in enumerate([words] if single else words):
            if not isinstance(word, str):
                found[index] = word
                continue
            meant = self.meant(kind, word, path if single else (*path, index)) if word else (word,)
            found.update((name, name) for name in meant)
            grouped.update(meant if len(meant) > 1 else ())
        return list(found.values()), grouped

    def meant(self, kind: Kind, word: str, path: Place) -> tuple[str, ...]:
        """Return what a word means; itself after a fault."""
        meant = self.names.meant(kind, word)
        if not meant and (kind == "gpu" or self.names.is_complete):
            self.complain(path, *self.names.fault(kind, word))
        return meant or (word,)

    def one(self, kind: Kind, word: str, path: Place) -> str:
        """Return the one name that a word means; a group is a fault."""
        meant = self.meant(kind, word, path)
        if len(meant) > 1:
            self.complain(path, f"{word!r} is {len(meant)} {kind}s", f"name each: {', '.join(meant[:8])}")
        return meant[0]

    def limits(self, limits: Any) -> Any:
        """Return limits with the names that their lists and quotas mean."""
        changes: dict[str, Any] = {}
        for key, kind in LISTED.items():
            rule = _get(limits, key)
            if rule is None:
                continue
            resolved = self._rule(kind, rule, ("limits", key))
            if resolved is not rule:
                changes[key] = resolved
        quota = _get(limits, "quota")
        if isinstance(quota, dict) and quota:
            path: Place = ("limits", "quota")
            named = {word: self.one("provider", word, (*path, word)) for word in quota if isinstance(word, str)}
            for word, name in named.items():
                if sum(label == name for label in named.values()) > 1 and word != name:
                    self.complain((*path, word), f"{word!r} is {name}, which has a quota too", "keep one")
            changes["quota"] = {named.get(word, word): most for word, most in quota.items()}
        return _with(limits, changes)

    def _rule(self, kind: Kind, rule: Any, path: Place) -> Any:
        """Return what may and may not be used; a group allows what is not forbidden by name."""
        if isinstance(rule, (str, list, tuple)):
            return self.listed(kind, rule, path)[0]
        changes: dict[str, Any] = {}
        allow, forbid = _get(rule, "allow"), _get(rule, "forbid")
        if isinstance(forbid, (str, list, tuple)) and forbid:
            changes["forbid"] = self.listed(kind, forbid, (*path, "forbid"))[0]
        if isinstance(allow, (str, list, tuple)) and allow:
            names, grouped = self.listed(kind, allow, (*path, "allow"))
            forbidden = [name for name in grouped if name in changes.get("forbid", ())]
            left = [name for name in names if name not in forbidden]
            changes["allow"] = left or names
        return _with(rule, changes)

    def adjusted(self, rules: Any) -> Any:
        """Return the rules of `adjust` with the names that they match; a group matches each of its names."""
        if not isinstance(rules, (list, tuple)):
            return rules
        changed = []
        for index, rule in enumerate(rules):
            match = _get(rule, "match")
            changes: dict[str, Any] = {}
            for kind in MATCHED:
                if (words := _get(match, kind)) and isinstance(words, (str, list, tuple)):
                    names = self.listed(kind, words, ("adjust", index, "match", kind))[0]
                    changes[kind] = names[0] if len(names) == 1 else names
            changed.append(_with(rule, {"match": _with(match, changes)}) if changes else rule)
        return rules if all(a is b for a, b in zip(rules, changed, strict=True)) else changed

    def jobs(self, jobs: Any) -> Any:
        """Return jobs with the region of their data by the name that offers give it; data may lie in any other, too."""
        if not isinstance(jobs, (list, tuple)):
            return jobs
        changed = []
        for index, job in enumerate(jobs):
            stages = _get(job, "stages")
            transfer = _get(stages, "transfer")
            region = _get(transfer, "region")
            if isinstance(region, str) and region:
                path = ("jobs", index, "stages", "transfer", "region")
                name = self.one("region", region, path) if self.names.meant("region", region) else region
                if name != region:
                    job = _with(job, {"stages": _with(stages, {"transfer": _with(transfer, {"region": name})})})
            changed.append(job)
        return jobs if all(a is b for a, b in zip(jobs, changed, strict=True)) else changed


def without_unoffered(data: dict[str, Any], offers: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return a scenario, as plain data, without the names in limits and price rules that none of the offers has.

    It was read with more offers, of which these are left: what a name ruled out or in is no offer any more. A list of
    what is allowed of which nothing is left stays.
    """
    names, changes = OfferedNames(offers), dict[str, Any]()
    if limits := data.get("limits"):
        changes["limits"] = _limits_without_unoffered(limits, names)
    if rules := data.get("adjust"):
        changes["adjust"] = [rule for rule in rules if _matches_any(rule.get("match") or {}, names)]
    return {**data, **changes}


def _matches_any(match: dict[str, Any], names: OfferedNames) -> bool:
    """Return whether each word of a price rule, or one of each list of words, means an offer."""
    asked = [(kind, [word] if isinstance(word, str) else word) for kind in MATCHED if (word := match.get(kind))]
    return all(any(names.meant(kind, word) for word in words) for kind, words in asked)


def _limits_without_unoffered(limits: dict[str, Any], names: OfferedNames) -> dict[str, Any]:
    found = dict(limits)
    for key, kind in LISTED.items():
        rule = limits.get(key)
        if isinstance(rule, (list, tuple)):
            found[key] = [word for word in rule if names.meant(kind, word)] or rule
        elif isinstance(rule, dict):
            left = {way: [word for word in words if names.meant(kind, word)] for way, words in rule.items() if words}
            found[key] = {way: words or (rule[way] if way == "allow" else []) for way, words in left.items()}
    if quota := limits.get("quota"):
        found["quota"] = {word: most for word, most in quota.items() if names.meant("provider", word)}
    return found


def resolve_offered(
    data: dict[str, Any], names: OfferedNames, complain: Callable[[Place, str, str], None]
) -> dict[str, Any]:
    """Return the data of a scenario with every name that depends on its offers resolved.

    Parameters
    ----------
    data
        Keys of a scenario; values are plain, as a file has them, or validated, as Python has them.
    names
        The names of its offers.
    complain
        Called with place, fault and remedy of each word that means nothing.
    """
    walk, changes = _Resolution(names, complain), dict[str, Any]()
    for key, change in (("limits", walk.limits), ("adjust", walk.adjusted), ("jobs", walk.jobs)):
        given = data.get(key)
        if given and (changed := change(given)) is not given:
            changes[key] = changed
    return {**data, **changes} if changes else data


def _get(data: Any, key: str) -> Any:
    """Return the value of a key of a mapping, or of a field of a model; None where there is none."""
    return (
        data.get(key) if isinstance(data, dict) else getattr(data, key, None) if isinstance(data, BaseModel) else None
    )


def _with(data: Any, changes: dict[str, Any]) -> Any:
    """Return a copy of a mapping or a model with other values; itself where nothing changes."""
    changes = {key: value for key, value in changes.items() if not _is_same(_get(data, key), value)}
    if not changes:
        return data
    if isinstance(data, BaseModel):
        fixed = {key: tuple(value) if isinstance(value, list) else value for key, value in changes.items()}
        return data.model_copy(update=fixed)
    return {**data, **changes}


def _is_same(one: Any, other: Any) -> bool:
    listed = (list, tuple)
    if isinstance(one, listed) and isinstance(other, listed):
        return len(one) == len(other) and all(a is b or a == b for a, b in zip(one, other, strict=True))
    return one is other or bool(one == other)

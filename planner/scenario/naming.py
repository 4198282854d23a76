"""Offers by their names and labels: which one a word means, and which zones a run may move between.

A file, a setting, an option, a query of `--why-not` and a scenario that is made in Python all ask here. Case and
separators do not count. A word may mean several names: `H100` every form of the chip, `runpod` both of its markets,
`europe` every region there. A name that an offer has is never a group, except an area such as `US`.

Zones are those that offers list under `zones`, each at its own spot price; a region that lists none is one zone. They
belong together where everything else of their offers is the same: the instance, the price on demand, the terms and the
date of the price. A group rents the cheapest of them; it costs their mean, because a run stays where it is until its
machines are taken, whatever the price elsewhere becomes.
"""

from __future__ import annotations

import math
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import BaseModel

from planner.documents.validation import fold, name_fix
from planner.library.names import countries_in, country_of, is_known_provider, provider_name
from planner.library.reading import CardNames
from planner.scenario.limits import Limits
from planner.scenario.offer import Adjust, Offer, apply_adjustments, offer_labels
from planner.scenario.offer_terms import Horizon, moves_between_regions

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
        by_kind: dict[Kind, dict[str, None]] = {kind: {} for kind in MATCHED}
        for offer in self._offers:
            facts = offer if isinstance(offer, dict) else getattr(offer, "__dict__", {})
            for kind in MATCHED:
                if isinstance(name := facts.get(kind, "any" if kind == "region" else None), str) and name:
                    by_kind[kind][name] = None
            for zone in _zones(facts):
                by_kind["region"][zone if "/" in zone else f"{facts.get('region', 'any')}/{zone}"] = None
        return by_kind

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
    beginning = []
    for name in names:
        ends = [at for at in range(1, len(name)) if fold(name[:at]) == key and fold(name[:at]) != fold(name)]
        if key and any(not name[at].isalpha() for at in ends):
            beginning.append(name)
    return tuple(beginning)


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
        resolved: dict[str | int, Any] = {}
        grouped: set[str] = set()
        single = isinstance(words, str)
        for index, word in enumerate([words] if single else words):
            if not isinstance(word, str):
                resolved[index] = word
                continue
            meant = self.meant(kind, word, path if single else (*path, index)) if word else (word,)
            resolved.update((name, name) for name in meant)
            grouped.update(meant if len(meant) > 1 else ())
        return list(resolved.values()), grouped

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
    kept = dict(limits)
    for key, kind in LISTED.items():
        rule = limits.get(key)
        if isinstance(rule, (list, tuple)):
            kept[key] = [word for word in rule if names.meant(kind, word)] or rule
        elif isinstance(rule, dict):
            left = {way: [word for word in words if names.meant(kind, word)] for way, words in rule.items() if words}
            kept[key] = {way: words or (rule[way] if way == "allow" else []) for way, words in left.items()}
    if quota := limits.get("quota"):
        kept["quota"] = {word: most for word, most in quota.items() if names.meant("provider", word)}
    return kept


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


MOST_ZONES = 8
"""Zones of a group at most: recorded groups are no larger."""
SIZES = (2, 4, MOST_ZONES)
"""Numbers of zones of a group; where there are fewer, all of them are one."""
APART = {"region", "zones", "spot_usd_per_hour", "notes"}
"""In what the offers of one group may differ."""
_facts = itemgetter(*(name for name in Offer.model_fields if name not in APART))


class _Zone(NamedTuple):
    """One zone, cheaper ones first."""

    usd_per_hour: float
    name: str  # region/zone, or the region alone
    offer: Offer

    @property
    def region(self) -> str:
        return self.name.partition("/")[0]


def limits_read(limits: Limits) -> tuple[object, ...]:
    """Return what offers by zone and in groups depend on of the limits."""
    age = limits.max_price_age_hours, limits.caps_price_age, limits.today
    return limits.regions, limits.spot_zones, limits.spot_share.max <= 0, age


def zone_groups(offers: Iterable[Offer], limits: Limits) -> list[Offer]:
    """Return the groups that the limits allow, as offers; none where a run must stay in its zone."""
    if limits.spot_zones == "same_zone" or limits.spot_share.max <= 0:
        return []
    classes: dict[tuple[object, ...], list[_Zone]] = {}
    for offer in offers:
        if _may_group(offer) and limits.regions.permits(offer.region):
            key = (limits.is_outdated(offer), _facts(offer.__dict__))
            classes.setdefault(key, []).extend(_zones_of(offer, limits))
    groups: list[Offer] = []
    for every in classes.values():
        if len(every) == 1:
            continue  # as in most classes
        zones, regions = _each_once(every), dict[str, list[_Zone]]()
        for zone in zones:
            regions.setdefault(zone.region, []).append(zone)
        for several in regions.values():
            groups += _groups_of(several)
        if limits.spot_zones == "any" and len(regions) > 1:
            groups += [group for group in _groups_of(zones) if len(group.regions) > 1]
    return groups


def _each_once(zones: Iterable[_Zone]) -> list[_Zone]:
    """Return the zones in order of price, each at its lowest: two rows of one zone are one market."""
    least: dict[str, _Zone] = {}
    for zone in sorted(zones, key=itemgetter(0, 1)):
        least.setdefault(zone.name, zone)
    return list(least.values())


def single_zone(offer: Offer, limits: Limits) -> Offer:
    """Return the offer of one zone alone, at the spot price that it states.

    What was fitted to several zones together is no market of one: where a run must stay in its zone it is not rented
    on spot.
    """
    update: dict[str, object] = {"zones": ()} if offer.zones else {}
    if limits.spot_zones == "same_zone" and offer.spot is not None and offer.spot.another_zone:
        update |= {"spot_usd_per_hour": None}
    return offer.model_copy(update=update) if update else offer


def zone_prices(offer: Offer) -> dict[str, float]:
    """Return the spot price of each zone that a run on the offer may rent; none where it stays in one zone."""
    if offer.spot is not None and offer.spot.zones:
        return {zone.zone: offer.spot_usd_per_hour or 0.0 for zone in offer.spot.zones}
    return dict(offer.zones)


def undominated_groups(groups: Sequence[Offer], is_doubtful: Sequence[bool], regions_matter: bool = False) -> list[int]:
    """Return the places of the groups that no other replaces: of as many zones, price and moves no higher.

    A group with a doubtful price replaces only others that have one; where `regions_matter`, one of the same regions.
    """
    kept: list[int] = []
    classes: dict[tuple[object, ...], list[tuple[float, float, int, int]]] = {}
    for place, offer in enumerate(groups):
        size = (offer.spot_usd_per_hour or 0.0, moves_between_regions(offer.zones), -len(offer.zones), place)
        where = frozenset(offer.regions) if regions_matter else None
        classes.setdefault((is_doubtful[place], where, _facts(offer.__dict__)), []).append(size)
    for members in classes.values():
        best: list[tuple[float, float, int, int]] = []
        for member in sorted(members):
            if not any(other[1] <= member[1] and other[2] <= member[2] for other in best):
                best.append(member)
        kept += [place for *_, place in best]
    return sorted(kept)


def _may_group(offer: Offer) -> bool:
    """Return whether the offer is sold in zones of its own: machines by the hour, as many as there are."""
    is_plain = offer.tier == "secure" and offer.stock is None and not offer.available
    is_one_zone = offer.spot is None or not offer.spot.another_zone
    return is_plain and is_one_zone and offer.has_spot and offer.usd_per_hour is not None and offer.region != "any"


def _zones_of(offer: Offer, limits: Limits) -> list[_Zone]:
    """Return the permitted zones of an offer that are cheaper than on demand."""
    listed = [(name if "/" in name else f"{offer.region}/{name}", usd) for name, usd in offer.zones]
    zones = [_Zone(usd, name, offer) for name, usd in listed or [(offer.region, offer.spot_usd_per_hour or 0.0)]]
    on_demand = offer.usd_per_hour or 0.0
    return [zone for zone in zones if zone.usd_per_hour < on_demand and limits.regions.permits(zone.name)]


def _groups_of(zones: Sequence[_Zone]) -> list[Offer]:
    """Return groups of the cheapest zones, in order of price."""
    most = min(len(zones), MOST_ZONES)
    sizes = sorted({min(size, most) for size in SIZES})
    return [_group(zones[:size]) for size in sizes if size > 1]


def _group(zones: Sequence[_Zone]) -> Offer:
    """Return the offer of a group."""
    first = zones[0].offer
    regions = list(dict.fromkeys(zone.region for zone in sorted(zones, key=lambda zone: zone.name)))
    places = "+".join(regions) if len(regions) <= 2 else f"{len(regions)} regions"
    update = {
        "region": f"{len(zones)} zones of {places}" if len(zones) > len(regions) else f"any of {places}",
        "zones": tuple((zone.name, zone.usd_per_hour) for zone in zones),
        "spot_usd_per_hour": math.fsum(zone.usd_per_hour for zone in zones) / len(zones),
        "notes": "",
    }
    return first.model_copy(update=update)


# Every offer of a scenario by its label, made once for offers, prices and limits.


_KEPT = "_labelled_offers"


def labelled_offers(
    kept: dict[str, Any], offers: tuple[Offer, ...], adjust: tuple[Adjust, ...], limits: Limits, horizon: Horizon | None
) -> tuple[tuple[str, Offer], ...]:
    """Return every offer by its label at adjusted prices: each zone alone, then groups of zones.

    Machines to buy are at the prices of the horizon; without one they are for sale only, and left out.
    `kept` holds the last answer. A copy of a scenario carries it along, so what it was made from is compared.
    """
    given = (offers, adjust, limits_read(limits), horizon)
    made_from, made = kept.get(_KEPT, (None, ()))
    if made_from != given:
        prices = apply_adjustments([offer.bought_for(horizon) for offer in offers], adjust)
        every = [*(single_zone(price, limits) for price in prices), *zone_groups(prices, limits)]
        labelled = zip(offer_labels(every), every, strict=True)
        made = tuple((label, offer) for label, offer in labelled if not offer.is_for_sale_only)
        kept[_KEPT] = given, made
    return tuple(made)


def hand_on_labels(kept: dict[str, Any], to: dict[str, Any]) -> None:
    """Give what one scenario keeps to another, which uses it as far as it is made from the same."""
    if _KEPT in kept:
        to.setdefault(_KEPT, kept[_KEPT])

"""Inventory files: offers with a date and a currency, and the terms of each provider."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from planner.documents.quantities import Currency, Date, StrictModel
from planner.documents.source_map import Source
from planner.documents.strict_yaml import Document, KeyPath
from planner.documents.validation import validate_spelled, validation_complaints
from planner.errors import Fault
from planner.library.known_machines import known_host, known_interconnect
from planner.library.reading import CardNames
from planner.loading.name_resolution import resolve_offer_names
from planner.scenario.offer import Offer
from planner.scenario.payment import Terms

if TYPE_CHECKING:
    import datetime


class InventoryFile(StrictModel):
    """An inventory as written; its offers are validated one by one, with the terms of their provider."""

    date: Date | None = None
    currency: Currency = "USD"
    description: str = ""
    notes: str = ""
    source: str = ""
    sources: dict[str, str] = Field(default_factory=dict)  # short key -> text, for `source: KEY`
    terms: dict[str, Terms] = Field(default_factory=dict)  # by provider
    offers: list[Any] = Field(min_length=1)


def read_offers(document: Document, faults: list[Fault]) -> tuple[Offer, ...]:
    """Return the offers of an inventory file with their terms, aliases resolved; faults are added to `faults`."""
    source = Source(document.file, document)
    data = document.data
    if "offers" not in data:  # perhaps a file of passwords: nothing of it is shown
        faults.append(source.fault((), "is not an inventory: it has no offers", "give a file with currency and offers"))
        return ()
    data = {**data, "offers": resolve_offer_names(data["offers"], CardNames("gpus"), source, faults)}
    bad: set[str | int] = set()
    try:
        InventoryFile.model_validate(data)
    except ValidationError as error:
        found = validation_complaints(error, InventoryFile, data)
        bad = {path[0] for path, _, _ in found if path}
        faults.extend(source.faults(found))
    header = {key: value for key, value in data.items() if key not in bad}  # offers must not inherit a fault
    raw = data.get("offers")
    return validate_offers(raw, source, faults, header) if isinstance(raw, list) else ()


def validate_offers(
    raw: list[Any], source: Source, faults: list[Fault], header: dict[str, Any] | None = None
) -> tuple[Offer, ...]:
    """Return the valid offers of a list under the key `offers`; the faults of the others are added."""
    header = header or {}
    terms = header.get("terms", {})
    offers = []
    for index, written in enumerate(raw):
        filled = _fill_terms(written, header, terms)
        try:
            offers.append(validate_spelled(Offer, filled))
        except ValidationError as error:
            for path, what, fix in validation_complaints(error, Offer, filled):
                faults.append(source.fault(_origin(path, index, written, terms), what, fix))
    return mark_price_lag(date_by_source(offers))


def _fill_terms(written: Any, header: dict[str, Any], terms: dict[str, Any]) -> Any:
    """Return the offer with the terms of its provider and the header of the file."""
    if not isinstance(written, dict):
        return written
    provider = written.get("provider")
    common = terms.get(provider, {}) if isinstance(provider, str) else {}
    filled = {**common, **written}
    for block in ("billing", "fees"):  # an offer may differ in one fee; spot statistics belong together
        if isinstance(common.get(block), dict) and isinstance(written.get(block), dict):
            filled[block] = {**common[block], **written[block]}
    return _fill_origin(with_known_machine(filled), written, header)


def with_known_machine(offer: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of an offer with what is known of its machine by name, where it does not state it itself.

    These are the link between its GPUs, and the cores and memory of the host.
    The values may be of any type: they are validated afterwards.
    """
    provider, instance, gpu, gpus = (offer.get(key) for key in ("provider", "instance", "gpu", "gpus"))
    if not isinstance(provider, str) or not isinstance(gpu, str) or type(gpus) is not int:
        return offer
    name = str(instance or "")
    known: dict[str, Any] = {}
    if name and gpus > 1 and (link := known_interconnect(provider, name)):
        known["interconnect"] = link
    if (host := known_host(provider, name, gpu, gpus)) is not None:
        known |= host._asdict()
    return {**known, **offer} if known else offer


def _fill_origin(filled: dict[str, Any], written: dict[str, Any], header: dict[str, Any]) -> dict[str, Any]:
    """Return the offer with day and source: its own, else those of its provider, else those of the file."""
    if {"date", "dates"} & written.keys():  # what the offer says of its day replaces what its provider says
        for key in {"date", "dates"} - written.keys():
            filled.pop(key, None)
    for key in ("date", "source"):
        if key == "date" and "dates" in filled:
            continue
        if key not in filled and isinstance(header.get(key), str):
            filled[key] = header[key]
    sources = header.get("sources")
    if isinstance(sources, dict) and isinstance(filled.get("source"), str):
        filled["source"] = sources.get(filled["source"], filled["source"])
    return filled


def _origin(path: KeyPath, index: int, written: Any, terms: dict[str, Any]) -> KeyPath:
    """Return where the value was written: in the offer, or in the terms of its provider."""
    if path and isinstance(written, dict) and path[0] not in written:
        provider = written.get("provider")
        if path[0] in terms.get(str(provider), {}):
            return ("terms", str(provider), *path)
    return ("offers", index, *path)


def date_by_source(offers: Sequence[Offer]) -> tuple[Offer, ...]:
    """Return the new offers of one file, each undated price of a rental as old as the oldest of its source."""
    oldest: dict[str, datetime.date] = {}
    for offer in offers:
        if offer.first_date is not None:
            oldest[offer.source] = min(offer.first_date, oldest.get(offer.source, offer.first_date))
    for offer in offers:
        if offer.first_date is None and offer.own is None and offer.buy is None:
            offer._day_of_source = oldest.get(offer.source)
    return tuple(offers)


def mark_price_lag(offers: Sequence[Offer]) -> tuple[Offer, ...]:
    """Return the offers of a scenario, each with the days by which it is older than the newest of its provider.

    A window counts with its last day here: a price is left out only if it is surely that old.
    """
    newest: dict[str, datetime.date] = {}
    days = [offer.last_date or offer.first_date for offer in offers]
    for offer, day in zip(offers, days, strict=True):
        if day is not None:
            newest[offer.provider] = max(day, newest.get(offer.provider, day))
    marked = []
    for offer, day in zip(offers, days, strict=True):
        behind = 0 if day is None else (newest[offer.provider] - day).days
        if behind != offer.days_behind:
            offer = offer.model_copy()  # the same offer may stand in another scenario beside other ones
            offer._days_behind = behind
        marked.append(offer)
    return tuple(marked)

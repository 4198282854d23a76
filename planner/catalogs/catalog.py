"""Files of prices to offers and back: formats distinguished by their columns or keys, and what became of the rows."""

from __future__ import annotations

import datetime
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.catalogs.gpu_match import GpuMatcher, unknown_gpu, with_board_link
from planner.catalogs.provider_answers import (
    ANSWERS,
    SPOT_COLUMNS,
    SPOT_HISTORY,
    AnswerKind,
    kind_of_record,
    pages_left,
    read_answer,
    records_of_csv,
    why_no_answer,
)
from planner.catalogs.skypilot import (
    NAMED,
    NAMED_COLUMNS,
    PRICE_KEYS,
    PROVIDER,
    CatalogRows,
    LeftOut,
    bookable,
    flavors_table,
    of_one_tier,
    read_gpuhunt,
    read_skypilot,
)
from planner.documents.files import MAX_BYTES, file_name, plain_scalar, read_text
from planner.documents.tables import MAX_CSV_BYTES, CsvTable, first_faults, parse_csv, parse_json, short_column
from planner.documents.validation import SYNONYMS
from planner.errors import Fault, InputError, printable
from planner.library.names import is_known_provider, provider_name, seller_of
from planner.library.reading import CardNames
from planner.loading.price_files import (
    TABLE_COLUMNS,
    Row,
    card_finder,
    machine_key,
    offer_table_text,
    read_offer_rows,
    validated_offers,
    with_shipped_facts,
)
from planner.results.market_results import ImportSummary, PriceChanges, PriceMove, RowsLeftOut, RowsNoted
from planner.scenario.offer import Offer, offer_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


# A file of prices to offers: CSV of gpuhunt, SkyPilot and plain ones, distinguished by their columns, or JSON.


PLAIN_TABLE, SKYPILOT, GPUHUNT = "CSV file of offers", "SkyPilot catalog", "gpuhunt catalog"
JOB_FLAVORS = "list of job machines"
_KINDS: Mapping[str, frozenset[str]] = {
    SKYPILOT: NAMED,
    GPUHUNT: NAMED_COLUMNS,
    PLAIN_TABLE: frozenset(TABLE_COLUMNS) | SYNONYMS.keys(),
}
_READERS: Mapping[str, Callable[[CsvTable, str, GpuMatcher], CatalogRows]] = {
    SKYPILOT: read_skypilot,
    GPUHUNT: read_gpuhunt,
    JOB_FLAVORS: read_gpuhunt,  # whose columns `flavors_table` gives it
}
_LEAST_COLUMNS = 3
"""Fewest columns of a kind of file by which it is recognised."""

TEMPLATE = """\
provider,region,instance,gpu,gpus,usd_per_hour,spot_usd_per_hour,stock,max_nodes,interconnect,date,source
my-cloud,eu-1,gpu-1x,RTX4090,1,0.40,0.25,,,,2026-11-20,offer by mail
my-cloud,eu-1,gpu-8x,H100-80GB,8,19.60,,2,4,nvswitch,2026-11-20,offer by mail
"""
"""A CSV file of offers to start from; columns and cells may be left out."""


@dataclass(frozen=True)
class Catalog:
    """The offers of a file, and what became of its rows."""

    kind: str
    offers: tuple[Offer, ...]
    date: datetime.date
    date_is_of_file: bool  # and of at least one offer, which states no other
    read: CatalogRows

    def has(self, provider: str) -> bool:
        """Whether an offer is of that provider."""
        return any(offer.provider == provider for offer in self.offers)


def read_catalog(path: str, provider: str | None = None, date: datetime.date | None = None) -> Catalog:
    """Return the offers of a CSV file, or of the JSON that a provider's own interface answers.

    Parameters
    ----------
    path
        The file, `-` for standard input.
    provider
        Whose prices they are, where neither a column nor the name of the file or its folder says so.
    date
        The day of the prices, where no column says so; None: the day on which the file was last written.

    Raises `InputError` with every fault: what is no price is a fault, a row that is no known machine is counted.
    """
    if path.casefold().endswith((".yaml", ".yml")):
        fix = "name an inventory in a scenario (inventory: [FILE]), or give CSV or JSON"
        raise InputError([Fault(path, 0, "", "prices are read from CSV or JSON, and this is YAML", fix)])
    text, file = read_text(path, MAX_CSV_BYTES), file_name(path)
    day, of_file = date or _last_written(path), date is None
    if path.casefold().endswith(".json") or text.lstrip()[:1] in ("{", "["):
        return _read_json(text, file, provider, day, of_file)
    table = parse_csv(text, file)
    if {*table.columns} >= SPOT_COLUMNS:
        catalog = read_answer(SPOT_HISTORY, records_of_csv(table), file, GpuMatcher())
        return _catalog_of_answer(SPOT_HISTORY, catalog, provider, day, of_file)
    kind = _kind_of(table)
    named = provider or (_provider_of(path, kind) if kind in _READERS else None)
    if kind != PLAIN_TABLE and named is None:
        raise InputError([Fault(file, 0, "", f"a {kind} does not name its provider", "give it: --provider NAME")])
    return catalog_of(table, kind, named, day, of_file)


JSON_WANTED = (
    "give a JSON answer of Vast.ai, RunPod, Lambda, Azure (retail prices), Shadeform, Prime Intellect or AWS (spot "
    "price history), or the list of huggingface_hub.list_jobs_hardware()"
)
MAX_JSON_BYTES = 20 * 2**20
"""Largest JSON file of prices: it is read in 10 s and 500 MB."""
_FLAVOR_KEYS = frozenset({"unit_cost_usd", "unitCostUSD", "unit_label", "unitLabel", "name"})


def _read_json(text: str, file: str, provider: str | None, day: datetime.date, of_file: bool) -> Catalog:
    """Return the offers of a JSON answer, which its records tell from others."""
    if len(text) > MAX_JSON_BYTES:
        what = f"{len(text) / 1e6:.0f} MB of JSON, more than the {MAX_JSON_BYTES / 1e6:.0f} MB that are read"
        raise InputError([Fault(file, 0, "", what, "ask for fewer regions or types, or split the file")])
    document = parse_json(text, file, JSON_WANTED)
    records = document.records(lambda values: kind_of_record(values) is not None)
    kinds = [kind for kind in ANSWERS if any(kind.is_record(record.data) for record in records)]
    if len(kinds) > 1:
        what = f"holds answers of several kinds: {', '.join(kind.name for kind in kinds)}"
        raise InputError([Fault(file, 0, "", what, "give each in a file of its own")])
    if kinds:
        catalog = read_answer(kinds[0], records, file, GpuMatcher())
        if left := pages_left(document.data):
            catalog.notes[left] = len(records)
        return _catalog_of_answer(kinds[0], catalog, provider, day, of_file)
    data = document.data
    if isinstance(data, list) and (not data or any(_FLAVOR_KEYS & {*row} for row in data if isinstance(row, dict))):
        return catalog_of(flavors_table(document), JOB_FLAVORS, provider or PROVIDER, day, of_file)
    raise InputError([document.fault((), *why_no_answer(data, JSON_WANTED))])


def _catalog_of_answer(
    kind: AnswerKind, catalog: CatalogRows, provider: str | None, day: datetime.date, date_is_of_file: bool
) -> Catalog:
    """Return the catalog of an answer; `InputError` also where `provider` names another than has answered."""
    file = catalog.table.file
    if provider is not None and seller_of(provider_name(provider)) != seller_of(kind.provider):
        what = f"these are {kind.name}, and --provider names {provider}"
        raise InputError([Fault(file, 0, "", what, "leave --provider out")])
    only = provider_name(provider) if provider is not None else kind.provider
    source = {"date": day, "source": f"{kind.name}, {Path(file).name}"}
    rows = [(line, {**source, **row}) for line, row in catalog.offers() if _is_of(row, only)]
    return _finished(kind.name, catalog, rows, day, date_is_of_file)


def _is_of(row: Row, provider: str) -> bool:
    """Whether a row is of a provider, or of a tier of it."""
    name = str(row.get("provider"))
    return provider in (name, seller_of(name))


def catalog_of(
    table: CsvTable, kind: str, provider: str | None, day: datetime.date, date_is_of_file: bool = False
) -> Catalog:
    """Return the offers of a table of a kind; `InputError` with every fault, and where no row is an offer."""
    named = None if provider is None else provider_name(provider)
    if kind in _READERS and named is not None:
        read = _READERS[kind](table, named, GpuMatcher())
        origin = {"date": day, "source": f"{kind}, {named}, {Path(table.file).name}"}
        rows = [(line, {**row, **origin}) for line, row in read.offers()]
    else:
        defaults: dict[str, Any] = {"date": day, "source": Path(table.file).name}
        read, rows = _read_plain(table, defaults | ({"provider": named} if named else {}))
    return _finished(kind, read, rows, day, date_is_of_file)


def _finished(
    kind: str, read: CatalogRows, rows: list[tuple[int, Row]], day: datetime.date, date_is_of_file: bool
) -> Catalog:
    """Return the catalog of the rows that were read, with what is known of their machines and providers."""
    file, faults = read.table.file, read.faults
    known = ((line, with_board_link(with_shipped_facts(row))) for line, row in of_one_tier(rows, read))
    offers = validated_offers(known, file, faults)
    if faults:
        raise InputError(first_faults(sorted(dict.fromkeys(faults))))
    if not offers:
        reasons = "; ".join(f"{skipped.rows:,} {skipped.reason}" for skipped in rows_left_out(read)[:5])
        raise InputError([Fault(file, 0, "", f"no row is an offer: {reasons}", "check that this is the file")])
    return Catalog(kind, offers, day, date_is_of_file and any(offer.date == day for offer in offers), read)


def _kind_of(table: CsvTable) -> str:
    """Return the kind of file that has most of these columns."""
    columns = {name.casefold() for name in table.columns}
    shared = {kind: len(columns & {column.casefold() for column in known}) for kind, known in _KINDS.items()}
    kind = max(shared, key=lambda kind: shared[kind])
    if shared[kind] < _LEAST_COLUMNS:
        fix = "give a CSV file like planner offers import --template, a gpuhunt catalog or SkyPilot's vms.csv"
        what = f"columns of no known catalog: {', '.join(map(short_column, table.columns))[:200]}"
        raise InputError([Fault(table.file, 1, "", what, fix)])
    return kind


VMS = "vms.csv"
"""What SkyPilot calls the catalog of a provider, in a folder of the provider's name."""


def _provider_of(path: str, kind: str) -> str | None:
    """Return the provider that the name of a catalog says: `vastai.csv` of gpuhunt, `aws/vms.csv` of SkyPilot.

    Any folder of a `vms.csv` names one, but for a folder of catalogs (`catalogs/v8`). The name of another file does
    where one of its words is a known provider: `skypilot_gcp.csv`.
    """
    place = Path(path)
    folder = place.absolute().parent.name
    if is_known_provider(folder) and kind != GPUHUNT:
        return folder
    if place.name.casefold() == VMS:
        return folder if re.fullmatch(r"(?!v\d+$|catalogs$)[A-Za-z][\w.-]*", folder) else None
    if is_known_provider(place.stem):
        return place.stem
    words = [word for word in re.split(r"[^A-Za-z0-9]+", place.stem) if is_known_provider(word)]
    return words[0] if len(words) == 1 else None


def _last_written(path: str) -> datetime.date:
    today = datetime.date.today()
    return today if path == "-" else datetime.date.fromtimestamp(Path(path).stat().st_mtime)


def _read_plain(table: CsvTable, defaults: dict[str, Any]) -> tuple[CatalogRows, list[tuple[int, Row]]]:
    """Return the rows of a CSV file of offers whose GPUs are known; a price of 0.00 is none here either."""
    catalog = CatalogRows(table)
    find = card_finder(CardNames("gpus"))
    rows = []
    for line, row in read_offer_rows(table, defaults, catalog.faults):
        for key in PRICE_KEYS:
            if row.get(key) == 0:
                del row[key]
        card, _ = find(row["gpu"]) if "gpu" in row else (None, "")
        if "gpu" in row and card is None:
            reason, kind = unknown_gpu(row["gpu"])
            catalog.leave_out(line, reason, kind)
        elif not row.keys() & set(PRICE_KEYS):
            catalog.leave_out(line, "no price (empty or 0.00)")
        else:
            rows.append((line, {**row, "gpu": card}))
    return catalog, bookable(rows, catalog)


# Several files: those of a folder, and the offers of all of them by provider.


_VMS_PATTERNS = ("*/vms.csv", "*/*/vms.csv", "*/*/*/vms.csv")
"""Where catalogs stand below a folder: `aws/vms.csv`, and in all of SkyPilot's repository `catalogs/v8/aws/vms.csv`."""
_STATE = re.compile(r"v(\d+)")


def price_files_in(path: str, providers: Sequence[str] = ()) -> list[str]:
    """Return the files of prices of a folder; any other path is that file alone.

    These are the tables and JSON files in the folder itself, and each `PROVIDER/vms.csv` below it, of several states of
    SkyPilot's catalog the newest. `providers`: only of these. Raises `InputError` where there is none.
    """
    folder = Path(path)
    if not os.path.isdir(path):
        return [path]
    if (folder / VMS).is_file():
        return [str(folder / VMS)]
    newest: dict[str, tuple[int, str]] = {}
    for vms in (vms for pattern in _VMS_PATTERNS for vms in folder.glob(pattern)):
        state = max((int(match[1][:9]) for part in vms.parts if (match := _STATE.fullmatch(part))), default=0)
        owner = provider_name(vms.parent.name)
        newest[owner] = max(newest.get(owner, (-1, "")), (state, str(vms)))
    files = sorted(
        str(path) for path in folder.iterdir() if path.suffix.casefold() in (".csv", ".json") and path.is_file()
    )
    wanted = {provider_name(name) for name in providers}
    files = [
        *(() if wanted else files),
        *(file for name, (_, file) in sorted(newest.items()) if name in (wanted or newest)),
    ]
    if not files:
        whose = f" of {', '.join(providers)}" if providers else ""
        fix = "give a folder of PROVIDER/vms.csv, such as catalogs/v8 of SkyPilot's catalog, or a file"
        raise InputError([Fault(path, 0, "", f"a folder without prices{whose}", fix)])
    return files


def offers_by_provider(catalogs: Iterable[Catalog], faults: list[Fault]) -> dict[str, tuple[Offer, ...]]:
    """Return the offers of all files by provider; a machine of two files has the prices of both, or is a fault."""
    by_provider: dict[str, dict[tuple[Any, ...], tuple[Offer, str]]] = {}
    for catalog in catalogs:
        for offer in catalog.offers:
            machines = by_provider.setdefault(offer.provider, {})
            other = machines.setdefault(machine_key(offer), (offer, catalog.read.table.file))
            if other[0] is offer:
                continue
            joined = _joined(other[0], offer)
            if joined is None:
                what, fix = f"another price than in {other[1]}", "leave one of the two files out"
                faults.append(Fault(catalog.read.table.file, 0, offer.label, what, fix))
            else:
                machines[machine_key(offer)] = (joined, other[1])
    return {provider: tuple(offer for offer, _ in machines.values()) for provider, machines in by_provider.items()}


def _joined(one: Offer, other: Offer) -> Offer | None:
    """Return one machine with the prices of two files; None where they contradict each other."""
    prices = {}
    for key in PRICE_KEYS:
        stated = {getattr(offer, key) for offer in (one, other)} - {None}
        if len(stated) > 1:
            return None
        prices[key] = next(iter(stated), None)
    return one.model_copy(update={**prices, "zones": one.zones or other.zones})


# Offers as the text of a file that a scenario's `inventory` names: YAML, or CSV where its name says so.


_PLAIN = re.compile(r"[A-Za-z](?:[\w./-]| (?=[\w.]))*", re.ASCII)
"""Text that needs no quotes in YAML, unless it means true, false or null."""


def offers_text(offers: Sequence[Offer], path: str, command: str) -> str:
    """Return the text of the file `path` with these offers; `InputError` if YAML cannot hold so many.

    `command` is the command that writes the file, which its first line names.
    """
    if path.casefold().endswith(".csv"):
        return offer_table_text(offers)
    data = [offer_data(offer) for offer in offers]
    terms = _common_terms(data)
    rows = (f"  - {{{_keys(row, terms.get(row['provider'], {}))}}}" for row in data)
    head = [f"# Written by {printable(command)}", "currency: USD"]
    if terms:
        head += ["terms:", *(f"  {_scalar(name)}: {{{_keys(shared, {})}}}" for name, shared in terms.items())]
    text = "\n".join([*head, "offers:", *rows, ""])
    if (size := len(text.encode())) > MAX_BYTES:
        most = f"more than the {MAX_BYTES / 1e6:.0f} MB that are read"
        what = f"{len(offers):,} offers are {size / 1e6:.0f} MB of YAML, {most}"
        raise InputError([Fault(path, 0, "", what, "write CSV, which may be larger: -o FILE.csv")])
    return text


_SHARED_TERMS = ("billing", "fees", "spot_notice_seconds")
"""Terms that are written once for a provider, where all of its offers have the same."""


def _common_terms(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the terms that all offers of a provider share."""
    by_provider: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_provider.setdefault(row["provider"], []).append(row)
    shared = {
        provider: {
            key: several[0][key]
            for key in _SHARED_TERMS
            if key in several[0] and all(row.get(key) == several[0][key] for row in several)
        }
        for provider, several in by_provider.items()
    }
    return {provider: terms for provider, terms in shared.items() if terms}


def _keys(row: Mapping[str, Any], terms: Mapping[str, Any]) -> str:
    """Return the keys of an offer, those of a table first, without what its provider's terms say."""
    names = [*(key for key in TABLE_COLUMNS if key in row), *(key for key in row if key not in TABLE_COLUMNS)]
    return ", ".join(f"{key}: {_scalar(row[key])}" for key in names if key not in terms)


def _scalar(value: Any) -> str:
    """Return a value as YAML of one line; text without quotes where it is read as the same text."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(key)}: {_scalar(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_scalar, value)) + "]"
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN.fullmatch(value) and plain_scalar(value) == value:
        return value
    return printable(json.dumps(value, ensure_ascii=False))


# What became of the rows of a catalog, and how prices changed between two days, as results.


def summary_of(catalog: Catalog) -> ImportSummary:
    """Return what became of the rows of a catalog, the reasons with the most rows first."""
    read = catalog.read
    return ImportSummary(
        file=read.table.file,
        kind=catalog.kind,
        rows=len(read.table.rows),
        offers=len(catalog.offers),
        date=catalog.date,
        date_is_of_file=catalog.date_is_of_file,
        left_out=tuple(rows_left_out(read)),
        notes=tuple(RowsNoted(note=note, rows=rows) for note, rows in read.notes.items()),
    )


MOST_OF_A_KIND = 3
"""Most reasons that differ in a name alone and are listed one by one; more are one reason."""


def rows_left_out(read: CatalogRows) -> list[RowsLeftOut]:
    """Return why rows are left out, those with the most rows first; many reasons of one kind are added up.

    180 types of GCP without the price of their machine are one line, with the first of them.
    """
    kinds: dict[str, list[tuple[str, LeftOut]]] = {}
    for reason, skipped in read.left_out.items():
        kinds.setdefault(skipped.kind or reason, []).append((reason, skipped))
    reasons = []
    for kind, members in kinds.items():
        if len(members) <= MOST_OF_A_KIND:
            reasons += [RowsLeftOut(reason=why, rows=skipped.rows, first_line=skipped.line) for why, skipped in members]
        else:
            rows, line = sum(skipped.rows for _, skipped in members), min(skipped.line for _, skipped in members)
            why = f"{kind} ({len(members)} of them, such as {members[0][0].removeprefix(kind).strip()})"
            reasons.append(RowsLeftOut(reason=why, rows=rows, first_line=line))
    return sorted(reasons, key=lambda reason: (-reason.rows, reason.first_line))


def price_changes(
    provider: str, before: tuple[datetime.date, Sequence[Offer]] | None, after: tuple[datetime.date, Sequence[Offer]]
) -> PriceChanges:
    """Return what is new, gone and of another price on the later day; the largest relative moves come first."""
    old = {machine_key(offer): offer for offer in (before[1] if before else ())}
    new = {machine_key(offer): offer for offer in after[1]}
    both = [(old[key], new[key]) for key in new if key in old]
    moves = [move for pair in both for move in _moves(*pair)]
    return PriceChanges(
        provider=provider,
        before=before[0] if before else None,
        after=after[0],
        rows_before=len(old),
        rows_after=len(new),
        new=tuple(new[key].label for key in new if key not in old),
        gone=tuple(old[key].label for key in old if key not in new),
        moved=tuple(sorted(moves, key=lambda move: -abs(_relative(move)))),
    )


def _moves(old: Offer, new: Offer) -> Iterator[PriceMove]:
    for market, was, now in (
        ("on demand", old.usd_per_hour, new.usd_per_hour),
        ("spot", old.spot_usd_per_hour, new.spot_usd_per_hour),
    ):
        if was != now:
            yield PriceMove(offer=new.label, market=market, before_usd_per_hour=was, after_usd_per_hour=now)


def _relative(move: PriceMove) -> float:
    """Return by how much of itself a price moved; a price that came or went moved most."""
    if not move.before_usd_per_hour or move.after_usd_per_hour is None:
        return float("inf")
    return move.after_usd_per_hour / move.before_usd_per_hour - 1

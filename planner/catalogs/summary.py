"""What became of the rows of a catalog, and how prices changed between two days, as results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.loading.offer_table import machine_key
from planner.results.prices import ImportSummary, PriceChanges, PriceMove, RowsLeftOut, RowsNoted

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator, Sequence

    from planner.catalogs.catalog import Catalog
    from planner.scenario.offer import Offer


def summary_of(catalog: Catalog) -> ImportSummary:
    """Return what became of the rows of a catalog, the reasons with the most rows first."""
    read = catalog.read
    ordered = sorted(read.left_out.items(), key=lambda item: (-item[1].rows, item[1].line))
    return ImportSummary(
        file=read.table.file,
        kind=catalog.kind,
        rows=len(read.table.rows),
        offers=len(catalog.offers),
        date=catalog.date,
        date_is_of_file=catalog.date_is_of_file,
        left_out=tuple(RowsLeftOut(reason=why, rows=one.rows, first_line=one.line) for why, one in ordered),
        notes=tuple(RowsNoted(note=note, rows=rows) for note, rows in read.notes.items()),
    )


def price_changes(
    provider: str, before: tuple[datetime.date, Sequence[Offer]] | None, after: tuple[datetime.date, Sequence[Offer]]
) -> PriceChanges:
    """Return what is new, gone and of another price on the later day; the largest relative moves come first."""
    old = {machine_key(one): one for one in (before[1] if before else ())}
    new = {machine_key(one): one for one in after[1]}
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

"""Search among architectures: by the words of a name and by family, with what may have been meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.documents.validation import find_name, name_fix
from planner.errors import Fault, LibraryError
from planner.library.reading import CardNames
from planner.library.schema import Architecture

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def find_cards(
    cards: Mapping[str, Architecture], words: Sequence[str] = (), family: str | None = None
) -> list[Architecture]:
    """Return the architectures of a family whose name, alias or family has each of the words, in any case.

    `LibraryError` with what may have been meant where there is none.
    """
    families = {card.family for card in cards.values()}
    if family is not None:
        known = find_name(family, families)
        if known is None:
            raise LibraryError([Fault(family, 0, "", "unknown family", name_fix(family, sorted(families)))])
        family = known
    parts = [part for word in words for part in word.casefold().split()]
    found = [
        card
        for card in cards.values()
        if family in (None, card.family) and all(part in _searched(card) for part in parts)
    ]
    if not found:
        wanted = " ".join(words)
        what = f"no architecture{f' of {family}' if family else ''} has these words"
        raise LibraryError([Fault(wanted, 0, "", what, CardNames("architectures").suggestion("-".join(parts)))])
    return found


def _searched(card: Architecture) -> str:
    return " ".join((card.name, card.family, *card.aliases)).casefold()

"""What-if factors on the prices of offers."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from planner.documents.quantities import StrictModel, format_value, validation_error
from planner.scenario.offer import Offer


def _names(value: Any) -> Any:
    """Return one name, or several as a tuple; a list of one is that name."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise validation_error(
            f"{format_value(value)} is not a name or a list of names", "put it in quotes if it is one"
        )
    if not names or not all(names):
        raise validation_error("is empty", "give a name, or leave it out")
    return tuple(names) if len(names) > 1 else names[0]


Names = Annotated[str | tuple[str, ...], BeforeValidator(_names)]
"""A name, or several of which each is selected."""


class Match(StrictModel, defer_build=True):
    """Selection of offers: each key that is given must name theirs."""

    gpu: Names | None = None
    provider: Names | None = None
    region: Names | None = None
    instance: Names | None = None

    def find_matches(self, offers: Sequence[Offer]) -> list[int]:
        """Return the positions of the selected offers."""
        found = list(range(len(offers)))
        for key in ("gpu", "provider", "region", "instance"):
            wanted = getattr(self, key)
            if wanted is not None:
                wanted = (wanted,) if isinstance(wanted, str) else wanted
                found = [index for index in found if getattr(offers[index], key) in wanted]
        return found


MAX_PRICE_FACTOR = 1000.0
"""Largest factor on a price."""


class Adjust(StrictModel, defer_build=True):
    """Factors on the prices of selected offers."""

    match: Match = Match()
    usd_per_hour_factor: Annotated[float, Field(ge=0, le=MAX_PRICE_FACTOR)] = 1.0
    spot_usd_per_hour_factor: Annotated[float, Field(ge=0, le=MAX_PRICE_FACTOR)] = 1.0


def apply_adjustments(offers: Sequence[Offer], rules: Sequence[Adjust]) -> tuple[Offer, ...]:
    """Return the offers at adjusted prices: the factors of all matching rules are multiplied."""
    adjusted = list(offers)
    for rule in rules:
        for index in rule.match.find_matches(adjusted):
            adjusted[index] = _apply_adjustment(adjusted[index], rule)
    return tuple(adjusted)


def _apply_adjustment(offer: Offer, rule: Adjust) -> Offer:
    """Return the offer at other prices; the upfront price of a commitment changes too, the price of power does not."""
    keys = ("usd_per_hour", "spot_usd_per_hour")
    prices: dict[str, Any] = {
        key: price * getattr(rule, f"{key}_factor") for key in keys if (price := getattr(offer, key)) is not None
    }
    prices["zones"] = tuple((name, usd * rule.spot_usd_per_hour_factor) for name, usd in offer.zones)
    if offer.commitment is not None:
        upfront = offer.commitment.upfront_usd * rule.usd_per_hour_factor
        prices["commitment"] = offer.commitment.model_copy(update={"upfront_usd": upfront})
    return offer.model_copy(update=prices)  # only numbers change

"""litellm's price file: models that services host and sell by the token, as rows of dollars per million tokens.

The file (`model_prices_and_context_window.json`, key: a model as litellm calls it) has dollars per token, numbers only.
Its entries have no date, so the date of litellm's release is given. A price of 0 means that it is not known, or a free
tier, and is no price to plan with. Prices of long contexts, of images and of cached tokens are not read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.catalogs.skypilot import LeftOut
from planner.documents.tables import JsonDocument, first_faults, read_json
from planner.errors import Fault, InputError, format_value
from planner.library.names import provider_name

if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping
    from pathlib import Path

PRICES_WANTED = "give model_prices_and_context_window.json of litellm"
_MILLION = 1e6
MOST_USD_PER_TOKEN = 0.01
"""A price above this, $10,000 per million tokens, is one per million in the place of one per token."""

_INPUT, _OUTPUT = "input_cost_per_token", "output_cost_per_token"
_BATCH = {_INPUT: "input_cost_per_token_batches", _OUTPUT: "output_cost_per_token_batches"}
_GENERATES = ("chat", "completion", "responses")
_DESCRIPTION = "sample_spec"
"""The entry that describes the others."""


@dataclass(frozen=True)
class HostedModel:
    """A model that a service runs and sells by the token; dollars per million tokens."""

    provider: str
    model: str  # as the service calls it
    usd_per_million_input_tokens: float
    usd_per_million_output_tokens: float
    batch_discount: float | None  # share that a batch takes off, 0.5: half the price; None: none is stated
    context_tokens: int | None  # most tokens of a prompt; None: not stated
    source: str  # of the entry, where it has one


@dataclass(frozen=True)
class HostedModels:
    """The models of a price file, and the entries that are left out by reason."""

    file: str
    models: tuple[HostedModel, ...]
    left_out: Mapping[str, LeftOut]


def read_hosted_models(path: str | Path, as_of: datetime.date | None = None) -> HostedModels:
    """Return the models that generate text with what they cost, in the order of the file.

    Parameters
    ----------
    path
        litellm's price file, `-` for standard input.
    as_of
        Models that are switched off by then are left out; None keeps them.

    Raises `InputError` with every fault: what is no price (text, a negative number, dollars per million) is a fault.
    """
    document = read_json(path, PRICES_WANTED)
    entries = document.data
    if not isinstance(entries, dict) or not any(_is_entry(entry) for entry in entries.values()):
        raise InputError([document.fault((), "no price file of litellm", PRICES_WANTED)])
    faults: list[Fault] = []
    models: dict[tuple[str, str], HostedModel] = {}
    left_out: dict[str, LeftOut] = {}
    for name, entry in entries.items():
        if name == _DESCRIPTION:
            continue
        found = _hosted(document, name, entry, as_of, faults)
        if isinstance(found, HostedModel):
            first = models.setdefault((found.provider, found.model), found)
            if first is found:
                continue
            models[found.provider, found.model] = max(first, found, key=_dollars)
            found = "named twice: the higher price is kept"
        if found not in left_out:
            left_out[found] = LeftOut(1, document.line((name,)))
        else:
            left_out[found].rows += 1
    if faults:
        raise InputError(first_faults(sorted(faults)))
    return HostedModels(document.file, tuple(models.values()), left_out)


def _dollars(model: HostedModel) -> float:
    return model.usd_per_million_input_tokens + model.usd_per_million_output_tokens


def _is_entry(value: Any) -> bool:
    return isinstance(value, dict) and ("litellm_provider" in value or _INPUT in value)


def _hosted(
    document: JsonDocument, name: str, entry: Any, as_of: datetime.date | None, faults: list[Fault]
) -> HostedModel | str:
    """Return the model of an entry, or why it is left out."""
    if not _is_entry(entry):
        return "no entry of a model"
    mode = entry.get("mode")
    if mode not in _GENERATES:
        return f"generates no text: {format_value(mode)}" if mode else "its kind is not stated"
    if as_of is not None and (ends := str(entry.get("deprecation_date") or "")) and ends <= as_of.isoformat():
        return "switched off"
    before = len(faults)
    prices = {key: _price(document, name, entry, key, faults) for key in (_INPUT, _OUTPUT, *_BATCH.values())}
    if len(faults) > before:
        return "a fault"
    if not prices[_INPUT] or not prices[_OUTPUT]:
        return "no price (missing or 0)"
    provider = str(entry.get("litellm_provider") or name.partition("/")[0])
    context = entry.get("max_input_tokens")
    return HostedModel(
        provider=provider_name(provider),
        model=name.removeprefix(f"{provider}/"),
        usd_per_million_input_tokens=_per_million(prices[_INPUT]),
        usd_per_million_output_tokens=_per_million(prices[_OUTPUT]),
        batch_discount=_batch_discount(prices),
        context_tokens=context if isinstance(context, int) and context > 0 else None,
        source=str(entry.get("source") or ""),
    )


def _price(document: JsonDocument, name: str, entry: Mapping[str, Any], key: str, faults: list[Fault]) -> float:
    """Return dollars per token, 0 where they are not stated; what is no price is added to `faults`."""
    value = entry.get(key)
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        what, fix = f"{format_value(value)} is not a number", "give dollars per token"
    elif value < 0:
        what, fix = f"{value:g} is negative", "it must be at least 0"
    elif value > MOST_USD_PER_TOKEN:
        what, fix = f"{value:g} dollars per token", "give dollars per token, not per million"
    else:
        return float(value)
    faults.append(document.fault((name, key), what, fix))
    return 0.0


def _per_million(usd_per_token: float) -> float:
    """Return dollars per million tokens without the noise of the product: 6e-07 per token are 0.6."""
    return float(f"{usd_per_token * _MILLION:.9g}")


def _batch_discount(prices: Mapping[str, float]) -> float | None:
    """Return the share that a batch takes off both prices, the smaller one of the two; None where none is stated."""
    if not all(prices[batch] for batch in _BATCH.values()):
        return None
    discount = min(1 - prices[batch] / prices[key] for key, batch in _BATCH.items())
    return round(discount, 6) if discount > 0 and math.isfinite(discount) else None

"""The query of `--why-not`, such as `gpu=RTX4090,method=full`, checked; every fault names the nearest valid value."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from planner.documents.quantities import MAX_INTEGER, format_value, parse_hours
from planner.documents.validation import find_name, name_fix, suggest_names
from planner.errors import Fault, ScenarioError, raise_faults
from planner.library.engines import read_engines
from planner.library.technique_tables import TECHNIQUE_FIELDS
from planner.loading.question import suggest_offers
from planner.records import record
from planner.scenario.naming import MATCHED, OfferedNames
from planner.scenario.service_load import ServeJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.library.schema import Library
    from planner.scenario.offer import Offer
    from planner.scenario.scenario import Scenario

OFFER_KEYS = ("gpu", "provider", "region", "instance", "offer")
RECIPE_KEYS = ("framework", *TECHNIQUE_FIELDS)
TIME_KEYS = ("start", "end")
"""Latest start and latest end of a job that takes turns with others: why not earlier?"""
KEYS = ("job", *OFFER_KEYS, "gpus", "market", *TIME_KEYS, *RECIPE_KEYS)
SERVED_KEYS = ("engine", "weight_bits", "weight_format", "kv_bits")
SERVICE_KEYS = ("job", *OFFER_KEYS, "gpus", "market", *SERVED_KEYS)
"""Keys of a query about a service; its `gpus` are those of one machine."""
QLORA = "qlora"
"""LoRA on 4-bit weights: what people ask about, and no method of its own."""
ALIASES = {"checkpointing": "activation_checkpointing", "card": "gpu", "spot": "market"}
SERVICE_ALIASES = {**ALIASES, "framework": "engine", "quant": "weight_format"}
SPOT_MAJORITY = 0.5
"""Share of the work from which on a job counts as run on spot: policies keep on-demand machines to fall back on."""
MARKET_SHARES = {None: (0.0, 1.0), "spot": (SPOT_MAJORITY, 1.0), "on_demand": (0.0, 0.0)}
"""Market of a query -> least and largest spot share."""
QUERY_EXAMPLE = "such as gpu=RTX4090,method=full"


@record(frozen=True)
class WhyNotQuery:
    """An alternative for one job: what is not named is free."""

    text: str
    job: int
    given: dict[str, Any]  # fields of a recipe first, then total `gpus`, `market`, hours, and keys of OFFER_KEYS
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)  # word of `given` -> the names that it means

    @property
    def techniques(self) -> dict[str, Any]:
        """Fields of a recipe by name."""
        return {key: value for key, value in self.given.items() if key in RECIPE_KEYS}

    @property
    def where(self) -> dict[str, str]:
        """What the query says of the offer."""
        return {key: value for key, value in self.given.items() if key in OFFER_KEYS}

    @property
    def spot_bounds(self) -> tuple[float, float]:
        """Least and largest spot share of the job in the market of the query."""
        return MARKET_SHARES[self.given.get("market")]

    @property
    def times(self) -> dict[str, float]:
        """Latest start and end of the job in hours, as far as the query names them."""
        return {key: self.given[key] for key in TIME_KEYS if key in self.given}

    def permits(self, offer: Offer, label: str) -> bool:
        """Return whether the query names the offer, which has this label."""
        facts = ((label if key == "offer" else getattr(offer, key), value) for key, value in self.where.items())
        return all(name in self.meant(value) for name, value in facts)

    def meant(self, word: str) -> tuple[str, ...]:
        """Return the names that a word of the query means: those of its group, or itself."""
        return self.groups.get(word, (word,))

    def drop(self, dropped: str) -> WhyNotQuery:
        """Return the query without a key."""
        return replace(self, given={key: value for key, value in self.given.items() if key != dropped})


def parse_query(text: str, scenario: Scenario, library: Library) -> WhyNotQuery:
    """Return the query in a text of KEY=VALUE pairs; raise `ScenarioError` with every fault."""
    name = f"--why-not {text if len(text) <= 80 else text[:77] + '...'}"
    faults: list[Fault] = []

    def fault(key: str, what: str, fix: str = "") -> None:
        faults.append(Fault(name, 0, key, what, fix))

    serves = any(isinstance(job, ServeJob) for job in scenario.jobs)
    keys, aliases = (SERVICE_KEYS, SERVICE_ALIASES) if serves else (KEYS, ALIASES)
    given: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        key = aliases.get(key, key)
        if not equals or not key or not value:
            fault("", f"{part.strip()!r} is not KEY=VALUE", QUERY_EXAMPLE)
        elif key not in keys:
            close = suggest_names(key, keys)
            fix = f"did you mean {close}?" if close and key not in KEYS else f"known: {', '.join(keys)}"
            fault(key, f"is not a key of --why-not{' for a service' if serves else ''}", fix)
        elif key in given:
            fault(key, "is given twice", "keep one")
        else:
            given[key] = value
    query = _read(text, given, scenario, library, fault)
    raise_faults(faults, ScenarioError)
    return query


def _read(text: str, given: dict[str, str], scenario: Scenario, library: Library, fault: Any) -> WhyNotQuery:
    known, offered = _known_values(scenario, library), OfferedNames(scenario.offers)
    values: dict[str, Any] = {}
    groups: dict[str, tuple[str, ...]] = {}
    for key, value in given.items():
        if key == "market":
            value = {"yes": "spot", "true": "spot", "no": "on_demand", "false": "on_demand"}.get(
                value, value.replace("-", "_")
            )
        if key in ("gpus", *TIME_KEYS):
            number = _number(key, value, fault)
            if number is not None:
                values[key] = number
            continue
        exact = find_name(value, known[key]) or _spelled(key, value)
        if key in MATCHED and (meant := offered.meant(key, value)):
            exact = meant[0] if len(meant) == 1 else value
            groups |= {value: meant} if len(meant) > 1 else {}
        if exact is None:
            fix = name_fix(value, known[key])
            if key == "offer" and (close := suggest_offers(value, scenario.offers)):
                # Parts of a label have a meaning: similar letters alone do not help.
                fix = f"did you mean {' or '.join(close)}?"
            fault(key, f"unknown {key} {format_value(value)}", offered.fault("gpu", value)[1] if key == "gpu" else fix)
        else:
            values[key] = exact
    settled: dict[str, Any] = {key: values[key] for key in (*RECIPE_KEYS, *SERVED_KEYS) if key in values}
    _settle_method(settled, fault)
    job = known["job"].index(values["job"]) if "job" in values else 0
    if len(scenario.jobs) > 1 and "job" not in given:
        fix = f"job={known['job'][0]}, or another of {', '.join(known['job'][:3])}"
        fault("job", "is missing, but the scenario has several jobs", fix)
    settled |= {key: values[key] for key in ("gpus", "market", *TIME_KEYS, *OFFER_KEYS) if key in values}
    if "gpu" in settled and settled["gpu"] not in groups:
        settled["gpu"] = library.gpu(settled["gpu"]).name
    return WhyNotQuery(text, job, settled, groups)


def _number(key: str, value: str, fault: Any) -> float | None:
    """Return a count of GPUs or a time in hours; None after a fault."""
    if key == "gpus":
        if value.isdecimal() and len(value) < 8 and 0 < int(value) <= MAX_INTEGER:
            return int(value)
        fault(key, f"{format_value(value)} is not a count", f"give the total number of GPUs, at most {MAX_INTEGER:,}")
        return None
    try:
        return 0.0 if key == "start" and value in ("0", "0h") else parse_hours(value)
    except ValueError:
        fault(key, f"{format_value(value)} is not hours after the start of the plan", f"such as {key}=12h")
        return None


def _known_values(scenario: Scenario, library: Library) -> dict[str, Sequence[str]]:
    """Return the values that each key may have."""
    known: dict[str, Sequence[str]] = {
        "job": [job.name for job in scenario.jobs],
        "gpu": [*library.gpus, *(alias for card in library.gpus.values() for alias in card.aliases)],
        "provider": [offer.provider for offer in scenario.offers],
        "region": [offer.region for _, offer in scenario.labelled_offers()],  # groups of zones included
        "instance": [offer.instance for offer in scenario.offers if offer.instance],
        "offer": [label for label, _ in scenario.labelled_offers()],
        "market": [market for market in MARKET_SHARES if market],
        **{key: [str(value) for value in library.techniques.allowed(key)] for key in RECIPE_KEYS},
    }
    known["method"] = [*known["method"], QLORA]
    engines = read_engines()
    known["engine"], known["weight_format"] = list(engines.engines), list(engines.formats)
    bits = dict.fromkeys(one for row in engines.engines.values() for one in row.kv_bits)
    known["kv_bits"] = [str(one) for one in bits]
    return known


def _spelled(key: str, value: str) -> str | None:
    """Return the engine or format that is also spelled so."""
    behind = {"engine": read_engines().engine_behind, "weight_format": read_engines().format_behind}
    return behind[key](value) if key in behind else None


def _settle_method(techniques: dict[str, Any], fault: Any) -> None:
    """Make bits numbers, and resolve the method QLoRA: it is LoRA on 4-bit weights."""
    for key in ("weight_bits", "kv_bits"):
        if key in techniques:
            techniques[key] = int(techniques[key])
    if techniques.get("method") == QLORA:
        if techniques.get("weight_bits", 4) != 4:
            fault("weight_bits", "QLoRA has 4-bit weights", "leave it out, or use method=lora")
        techniques.update(method="lora", weight_bits=4)

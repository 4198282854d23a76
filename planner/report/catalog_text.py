"""Tables of architectures, GPUs and offers, and fitted spot markets, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planner.report import words
from planner.report.words import line_room
from planner.results.market_results import (
    EndsByAge,
    FittedDuration,
    ImportSummary,
    MarketFit,
    PriceChanges,
    PriceMove,
    PriceUpdate,
    TraceReport,
)
from planner.results.plan_parts import Spread
from planner.scenario.offer import Offer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


# Tables of architectures, GPUs and offers.


Column = tuple[str, str, "Callable[[Any], str]"]
"""Head, side (`<` or `>`), and what a row shows."""

ARCHITECTURE_COLUMNS: tuple[Column, ...] = (
    ("name", "<", lambda card: card.name),
    ("family", "<", lambda card: card.family),
    ("total", ">", lambda card: _billions(card.parameters)),
    ("active", ">", lambda card: _billions(card.active_parameters)),
    ("layers", ">", lambda card: str(card.layers)),
    ("width", ">", lambda card: str(card.hidden)),
    ("tokens", ">", lambda card: _thousands(card.max_sequence)),
)
"""Of an `Architecture`: size in billions of weights, shape, context in tokens."""

GPU_COLUMNS: tuple[Column, ...] = (
    ("name", "<", lambda card: card.name),
    ("GiB", ">", lambda card: f"{card.vram_gib:g}"),
    ("usable", ">", lambda card: f"{card.usable_gib:.1f}"),
    ("GB/s", ">", lambda card: f"{card.memory_bandwidth_gb_s:,.0f}"),
    ("16-bit TFLOPS", ">", lambda card: f"{card.matmul16_tflops:,.0f}"),
    ("bf16", "<", lambda card: "yes" if card.bf16 else "no"),
    ("form", "<", lambda card: card.form),
    ("generation", "<", lambda card: card.generation),
)
"""Of a `GpuSpec`: usable GiB, GB/s, dense 16-bit TFLOPS."""

OFFER_COLUMNS: tuple[Column, ...] = (
    ("offer", "<", lambda row: row[0]),
    ("GPUs", "<", lambda row: _machine(row[1])),
    ("$/GPU-h", ">", lambda row: _price(row[1])),
    ("spot", ">", lambda row: _per_gpu(row[1].spot_usd_per_hour, row[1].gpus or 1)),
    ("tier", "<", lambda row: _tier(row[1])),
    ("date", "<", lambda row: row[1].date_text or "-"),
)
"""Of a label and an `Offer`: prices in dollars per GPU and hour; another unit follows its price."""


STORED_COLUMNS: tuple[Column, ...] = (
    ("provider", "<", lambda row: row.provider),
    ("date", "<", lambda row: str(row.date)),
    ("days old", ">", lambda row: f"{row.age_days:,}"),
    ("offers", ">", lambda row: f"{row.rows:,}"),
    ("days kept", ">", lambda row: f"{row.days:,}"),
    ("source", "<", lambda row: row.source),
)
"""Of `StoredPrices`."""

CHECK_COLUMNS: tuple[Column, ...] = (
    ("file", "<", lambda row: row.file),
    ("kind", "<", lambda row: row.kind),
    ("rows", ">", lambda row: f"{row.rows:,}"),
    ("offers", ">", lambda row: f"{row.offers:,}"),
    ("left out", ">", lambda row: f"{sum(skipped.rows for skipped in row.left_out):,}"),
    ("why", "<", lambda row: _why_left_out(row) or "-"),
)
"""Of an `ImportSummary`. Two rows that are one offer (on demand and spot) are left out of neither count."""

MOST_LISTED = 8
"""Most offers of a change that are listed one by one."""
MOST_REASONS = 12
"""Most reasons of rows that are left out, one line each."""
REASONS_IN_A_LINE = 4
"""Most of them where all stand in one line."""


def _why_left_out(summary: ImportSummary) -> str:
    """Return why rows of a file are left out, those with the most rows first."""
    told = [f"{skipped.rows:,} {skipped.reason}" for skipped in summary.left_out[:REASONS_IN_A_LINE]]
    if rest := summary.left_out[REASONS_IN_A_LINE:]:
        told.append(f"{sum(skipped.rows for skipped in rest):,} for {len(rest)} more reasons (--json lists them)")
    return "; ".join(told)


def card_text(facts: Mapping[str, Any]) -> str:
    """Return one card in full: a line per field, long texts wrapped."""
    width = max(len(key) for key in facts) + 2
    lines = []
    for key, value in facts.items():
        texts = words.wrap_lines(_text(value), max(20, words.width() - width - 2), 100)
        lines += words.hang(f"  {key:<{width}}", texts)
    return "\n".join(lines)


def described_names(described: Mapping[str, str]) -> str:
    """Return each name with its description, wrapped beside it."""
    width = max(map(len, described), default=0) + 2
    lines: list[str] = []
    for name, text in described.items():
        lines += words.hang(f"{name:<{width}}", words.wrap_lines(text or "-", words.width() - width, 4))
    return "\n".join(lines)


def table(columns: Sequence[Column], items: Iterable[Any]) -> str:
    """Return a line per item; columns are as wide as their widest cell, with two blanks between."""
    rows = [
        [head for head, _, _ in columns],
        *([words.sanitise(show(item)) for _, _, show in columns] for item in items),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [side for _, side, _ in columns]
    cells = [zip(row, sides, widths, strict=True) for row in rows]
    return "\n".join("  ".join(f"{c:{side}{width}}" for c, side, width in row).rstrip() for row in cells)


GPU_LEGEND = (
    "GiB: nominal; usable: what a process can allocate; TFLOPS: dense 16-bit peak; bf16: without it training uses fp16."
)


def gpu_table(cards: Sequence[Any]) -> str:
    """Return the table of GPUs with a line of explanation."""
    return "\n".join([table(GPU_COLUMNS, cards), "", *words.wrap_lines(GPU_LEGEND, words.width(), 2)])


ARCHITECTURE_LEGEND = (
    "total and active: billions of weights, all of them and those that a token passes; width: of the hidden state; "
    "tokens: the longest context, k of 1,024."
)


def architecture_table(cards: Sequence[Any]) -> str:
    """Return the table of architectures with a line of explanation."""
    legend = words.wrap_lines(ARCHITECTURE_LEGEND, words.width(), 2)
    return "\n".join([table(ARCHITECTURE_COLUMNS, cards), "", *legend])


def _billions(count: int) -> str:
    return words.significant(count / 1e9) if count < 1e12 else f"{count / 1e9:.0f}"


def _thousands(tokens: int) -> str:
    return f"{tokens // 1024}k" if tokens % 1024 == 0 else str(tokens)


def _machine(offer: Offer) -> str:
    if offer.is_cpu:
        return f"{offer.cpu_cores or 0:g} cores"
    return words.gpus(offer.gpus, offer.card) if offer.rents_gpus else "-"


def _price(offer: Offer) -> str:
    if offer.managed is not None:
        by = {"/M tokens": offer.managed.usd_per_million_tokens, "/run": offer.managed.usd_per_run}
        return " + ".join(f"{_per_gpu(price, 1)}{unit}" for unit, price in by.items() if price is not None)
    if offer.buy is not None and offer.is_for_sale_only:
        return f"{offer.buy.purchase_usd:,.0f} each"
    return _per_gpu(offer.full_usd_per_hour, offer.gpus or 1) + ("/h" if offer.is_cpu else "")


def _tier(offer: Offer) -> str:
    """Return the tier with its term, the hours left or the method."""
    if offer.commitment is not None:
        months = offer.commitment.months
        return f"{offer.tier}, {months} month{'s' if months > 1 else ''}"
    if offer.is_for_sale_only:
        return "to buy"
    if offer.committed_hours is not None:
        return f"{offer.tier}, {words.hours(offer.committed_hours)} left"
    return f"{offer.tier}, {offer.managed.method}" if offer.managed else offer.tier


def _per_gpu(usd_per_hour: float | None, gpus: int) -> str:
    return "-" if usd_per_hour is None else words.rate(usd_per_hour / gpus).removeprefix("$")


def _text(value: Any) -> str:
    if value is None or value == "" or value == [] or value == {}:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(inner)}" for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text, value))
    return str(value)


def import_text(summary: ImportSummary) -> str:
    """Return what became of the rows of a file: a line in all, then one per reason."""
    lines = [f"{summary.file}: {summary.kind}, {_count(summary.rows, 'row')}, {_count(summary.offers, 'offer')}"]
    if summary.date_is_of_file:
        lines.append(f"  dated {summary.date}, when the file was last written, unless a column says; see --date")
    told = [
        f"left out {_count(skipped.rows, 'row')}, first on line {skipped.first_line}: {skipped.reason}"
        for skipped in summary.left_out[:MOST_REASONS]
    ]
    if rest := summary.left_out[MOST_REASONS:]:
        told.append(f"left out {_count(sum(skipped.rows for skipped in rest), 'row')} for {len(rest)} more reasons")
    told += [f"{_count(noted.rows, 'row')}: {noted.note}" for noted in summary.notes]
    for text in told:
        lines += words.hang("  ", words.wrap_lines(text, words.width() - 2, 4))
    return "\n".join(lines)


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def changes_text(books: Iterable[PriceChanges]) -> str:
    """Return what is new, gone and of another price, one paragraph per provider."""
    return "\n".join(line for changes in books for line in _changes(changes))


def update_text(update: PriceUpdate) -> str:
    """Return what became of each provider: what changed, or why its old prices stay and how old they are."""
    lines: list[str] = []
    for provider in update.providers:
        age = f"{_count(provider.age_days, 'day')} old" if provider.age_days is not None else ""
        if provider.changes is not None:
            lines += _changes(provider.changes)
        elif provider.why_not:
            stands = f"the prices of {provider.stands} stay, {age}" if provider.stands else "none are stored"
            text = f"{provider.provider}: not updated: {provider.why_not}; {stands}"
            lines += words.wrap_lines(text, words.width(), 4)
        else:
            lines.append(f"{provider.provider}: nothing newer than {provider.stands}, {age}")
    return "\n".join(lines)


def _changes(changes: PriceChanges) -> list[str]:
    against = f" after {changes.rows_before:,} of {changes.before}" if changes.before else ", the first"
    lines = [f"{changes.provider}: {_count(changes.rows_after, 'offer')} of {changes.after}{against}"]
    if changes.before is None:
        return lines
    if not (changes.new or changes.gone or changes.moved):
        return [*lines, "  no price changed"]
    moved = tuple(f"{move.offer} {move.market} {_move(move)}" for move in changes.moved)
    for kind, listed in (("new", changes.new), ("gone", changes.gone), ("moved", moved)):
        head = f"  {kind:<5} {len(listed):>5,}  "
        more = [f"and {len(listed) - MOST_LISTED:,} more"] if len(listed) > MOST_LISTED else []
        if listed:
            lines += words.hang(head, [words.sanitise(line) for line in (*listed[:MOST_LISTED], *more)])
    return lines


def _move(move: PriceMove) -> str:
    was, now = (
        "not sold" if usd is None else words.rate(usd) for usd in (move.before_usd_per_hour, move.after_usd_per_hour)
    )
    if not move.before_usd_per_hour or move.after_usd_per_hour is None:
        return f"{was} -> {now}"
    return f"{was} -> {now} ({100 * (move.after_usd_per_hour / move.before_usd_per_hour - 1):+.3g} %)"


# A fitted spot market as text: availability, the block to paste, and its uncertainty.


NAME_COLUMNS = 32
"""Columns of a trace's name."""
MOST_TRACES = 20
"""Most traces in the list."""


def render_market(fit: MarketFit) -> str:
    """Return the text of a fit: the summary, the block, then what it is based on."""
    lines = [_summary(fit), "", fit.spot_yaml.rstrip(), ""]
    lines += words.section("Share", words.wrap_lines(_available(fit), line_room(), 3))
    lines += words.section("Up", _durations(fit.up, fit.spot.up))
    lines += words.section("Outage", _durations(fit.outage, fit.spot.outage))
    lines += words.section("Ages", words.wrap_lines(_ages(fit), line_room(), 3))
    lines += words.section("Traces", _traces(fit.traces))
    return "\n".join([*lines, *words.section("Notes", words.wrap_all(fit.notes, line_room(), 5))])


def span(hours: float) -> str:
    """Return hours from one hour on, minutes below."""
    return words.hours(hours) if hours >= 0.995 else f"{max(1, round(hours * 60))} min"


def _summary(fit: MarketFit) -> str:
    machines = f"{fit.instances} machines" if fit.instances > 1 else "1 machine"
    share = f"{fit.availability.expected * 100:.0f} %"
    name = fit.traces[0].name if len(fit.traces) == 1 else f"{len(fit.traces)} traces"
    brief = f"{machines} available {share} of the time"
    whole = f"{brief}, for {span(fit.up.mean_hours.expected)} on average"
    return words.first_fitting(name, whole, brief)


def _available(fit: MarketFit) -> str:
    low, high = (f"{share * 100:.0f}" for share in (fit.availability.low, fit.availability.high))
    count = "1 interruption" if fit.interruptions == 1 else f"{fit.interruptions:,} interruptions"
    factor = f"{fit.up.known_to_factor:.1f}"
    known = f"{count} in {words.hours(fit.hours)}: the mean up-time is known to a factor of {factor}"
    return f"{low} to {high} % of the time ({fit.share_of_hours * 100:.0f} % of the observed hours); {known}"


def _durations(fitted: FittedDuration, block: EndsByAge) -> list[str]:
    mean = f"{span(fitted.mean_hours.expected)} on average ({_between(fitted.mean_hours)})"
    mean += f", {fitted.ends:,} observed to the end" + (f", CV {fitted.cv:.1f}" if fitted.cv is not None else "")
    return words.wrap_lines(mean, line_room(), 1) + words.wrap_lines(_rates(block), line_room(), 3)


def _between(interval: Spread) -> str:
    """Return an interval, such as `12 to 21 min` or `17 min to 1.5 h`."""
    low, high = span(interval.low), span(interval.high)
    return f"{low.removesuffix(high[high.index(' ') :])} to {high}"


def _rates(block: EndsByAge) -> str:
    """Return the rates, such as `ends 4.08 times an hour up to an age of 13 min, then 0.86`."""
    rates = [words.significant(rate) for rate in block.ends_per_hour]
    untils = [f" up to an age of {span(age)}" for age in block.ages_hours[1:]] + [""]
    first = f"ends {rates[0]} times an hour{untils[0]}"
    rest = (f"{rate}{until}" for rate, until in zip(rates[1:], untils[1:], strict=True))
    return ", then ".join([first, *rest]) + (" at any age" if len(rates) == 1 else "")


def _ages(fit: MarketFit) -> str:
    held_out = fit.held_out
    if held_out is None:
        return "too few ends to compare rates by age with one constant rate"
    ratio = held_out.likelier_by
    if ratio > 1.02:
        how = f"{ratio:.2f} times as well as"
    else:
        how = "no better than" if ratio >= 0.98 else f"worse (x {ratio:.2f}) than"
    return f"rates by age predict an end {how} one constant rate, on the held-out half ({held_out.ends:,} ends)"


def _traces(traces: tuple[TraceReport, ...]) -> list[str]:
    lines = [f"{'':<{NAME_COLUMNS}}{'hours':>8}{'avail.':>7}{'up':>8}{'outage':>8}{'lost':>6}"]
    for trace in traces[:MOST_TRACES]:
        up, outage = ("-" if mean is None else span(mean) for mean in (trace.mean_up_hours, trace.mean_outage_hours))
        name = words.sanitise(trace.name)  # the end distinguishes the traces of trace collection
        name = name if len(name) <= NAME_COLUMNS else f"...{name[3 - NAME_COLUMNS :]}"
        share = f"{trace.availability * 100:.0f} %"
        lines.append(f"{name:<{NAME_COLUMNS}}{trace.hours:>8,.1f}{share:>7}{up:>8}{outage:>8}{trace.interruptions:>6,}")
    left = len(traces) - MOST_TRACES
    return lines + ([f"and {left} more (--json lists them)"] if left > 0 else [])

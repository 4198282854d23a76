"""Estimate of preference tuning: pairs of answers in one pass, and the reference that they are compared with."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from planner import generation
from planner.analysis.estimate_question import estimate as estimate_training
from planner.documents.quantities import NotNegative, SequenceLength, Text, TokenMean, read_amount
from planner.documents.validation import Source, find_name, name_fix
from planner.errors import Fault, ScenarioError, raise_faults
from planner.estimates.uncertainty import Sigmas, time_factors
from planner.library.names import split_count
from planner.library.schema import Architecture, Library
from planner.library.technique_tables import Tuning, read_techniques
from planner.loading.question import resolve_cards
from planner.reinforcement.rl_estimate import refuse_following
from planner.results.plan_parts import Spread
from planner.results.subject_runs import PreferenceEstimate
from planner.scenario.techniques import WHERE, Configuration, Reference
from planner.units import HOUR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.results.run_results import Estimate

OBJECTIVES = tuple(name for name, row in read_techniques().values.tuning.items() if name != "sft" and not row.teacher)
LONGEST_OF_MEAN = 4.0
"""The longest answer that is assumed, as a multiple of the mean."""
SPREAD_MORE = 0.15
"""Added in squares to the spread of the training speed: no published run informs preference tuning. Prior."""

PAIRS_DECIDE = {
    "sequence_length": "the lengths of prompts and answers",
    "tokens_per_sample": "the lengths of prompts and answers",
    "micro_batch": "pairs_at_once",
    "tuning": "objective",
    "reference": "compared_with",
}
"""Settings of training that pairs decide, and what they follow from."""

_Count = Annotated[int, Field(ge=1, le=10**12), BeforeValidator(read_amount)]


class PreferenceSettings(BaseModel):
    """Pairs and their reference, as a user asks for them; None is chosen, and said."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    objective: Annotated[Text, BeforeValidator(lambda word: find_name(word, OBJECTIVES) or word)] = "dpo"
    """dpo, kto, orpo, simpo or reward."""
    pairs: _Count = 10_000
    """Examples in all: a prompt with a chosen and a rejected answer; for KTO one with a single answer."""
    pairs_at_once: Annotated[int, Field(ge=1, le=4096)] = 1
    """Examples on one GPU in one pass."""
    input: Annotated[TokenMean, Field(ge=1)] = 256.0
    """Mean tokens of a prompt."""
    output: Annotated[TokenMean, Field(ge=1)] = 256.0
    """Mean tokens of an answer."""
    longest_output: SequenceLength | None = None
    """Tokens of the longest answer; None: four times the mean."""
    compared_with: Literal["none"] | Reference | None = None
    """A copy of the model, the model with its adapter switched off, log-probabilities of an earlier pass, or none."""
    usd_per_gpu_hour: NotNegative | None = None
    """Price of a GPU; None: the least of the shipped market."""


PREFERENCE_FIELDS = frozenset(PreferenceSettings.model_fields)


def estimate_preference(
    architecture: str | Architecture, gpu: str, library: Library | None = None, **settings: Any
) -> PreferenceEstimate:
    """Return memory, seconds and dollars of preference tuning on pairs of answers.

    `settings` are the fields of `PreferenceSettings` and those of `planner.scenario.techniques.Configuration` but
    lengths and micro-batch, which follow from the pairs.

    Raises `ScenarioError` for what cannot run, `LibraryError` for unknown names.

    >>> estimate_preference("qwen3-4b", "A100-80GB", objective="dpo").reference
    'adapter'
    """
    count, gpu = split_count(gpu)
    if count is not None and settings.setdefault("gpus", count) != count:
        problem = f"{count} by the name of the GPU, {settings['gpus']} here"
        raise ScenarioError([Fault(WHERE, 0, "gpus", problem, "give one of the two")])
    own = {key: value for key, value in settings.items() if key in PREFERENCE_FIELDS}
    asked = Source(WHERE).validate(PreferenceSettings, own)
    of_trainer = {key: value for key, value in settings.items() if key not in PREFERENCE_FIELDS}
    refuse_following(of_trainer, PAIRS_DECIDE)
    network, card, library = resolve_cards(architecture, gpu, library)
    named = {"architecture": network.name, "gpu": card.name, "tokens_per_sample": asked.input + asked.output}
    method = Source(WHERE).validate(Configuration, {**named, **of_trainer}).method or "lora"
    raise_faults([Fault(WHERE, 0, *fault) for fault in _faults(asked, method, network)], ScenarioError)
    longest = asked.longest_output or min(
        round(LONGEST_OF_MEAN * asked.output), network.max_sequence - int(asked.input)
    )
    reference = asked.compared_with or ("model" if method == "full" else "adapter")
    has_reference = _tuning(asked).reference and reference != "none"
    run = estimate_training(
        network, card.name, library,
        **{"packing": "padded", "micro_batch": asked.pairs_at_once, **of_trainer}, tuning=asked.objective,
        reference=reference if has_reference else None, sequence_length=int(asked.input) + longest,
        tokens_per_sample=_tuning(asked).answers * (asked.input + asked.output),
    )  # fmt: skip
    return _answer(asked, run, longest, library)


def _faults(asked: PreferenceSettings, method: str, network: Architecture) -> Iterator[tuple[str, str, str]]:
    """Yield place, fault and mend of what cannot be so."""
    if asked.objective not in OBJECTIVES:
        yield "objective", f"unknown objective {asked.objective!r}", name_fix(asked.objective, OBJECTIVES)
    elif asked.compared_with not in (None, "none") and not _tuning(asked).reference:
        yield "compared_with", f"{asked.objective} has no reference", "leave it out"
    elif asked.compared_with == "none" and _tuning(asked).reference:
        yield "compared_with", f"{asked.objective} compares with a reference", "give adapter, model or precomputed"
    if asked.compared_with == "adapter" and method == "full":
        yield "compared_with", "full training has no adapter to switch off", "give model or precomputed"
    if asked.longest_output is not None and asked.longest_output < asked.output:
        problem = f"{asked.longest_output:,} tokens are fewer than the mean of {asked.output:,.0f}"
        yield "longest_output", problem, "give at least the mean"
    if asked.input + (asked.longest_output or asked.output) > network.max_sequence:
        problem = (
            f"{asked.input:,.0f} + {asked.longest_output or asked.output:,.0f} tokens exceed {network.name}'s context"
        )
        yield (
            "longest_output" if asked.longest_output else "output",
            problem,
            f"at most {network.max_sequence:,} together",
        )


def _tuning(asked: PreferenceSettings) -> Tuning:
    return read_techniques().values.tuning[asked.objective]


def _answer(asked: PreferenceSettings, run: Estimate, longest: int, library: Library) -> PreferenceEstimate:
    techniques = run.techniques
    reference, answers = techniques.reference or "none", _tuning(asked).answers
    seconds = asked.pairs * answers * (asked.input + asked.output) / run.tokens_per_second
    further = run.step_seconds.parts.get("further_forwards", 0.0) / run.step_seconds.total
    copy = run.vram_gib.parts.get("reference", 0.0)
    spreads = Sigmas(math.hypot(run.sigma, SPREAD_MORE), math.hypot(run.sigma_in_tails, SPREAD_MORE))
    low, high = (float(factor) for factor in time_factors(spreads))
    price = asked.usd_per_gpu_hour
    basis = "given"
    if price is None and (offered := generation.least_usd_per_gpu_hour(run.gpu, library)):
        price, basis = offered[0], f"least on demand in the shipped market: {offered[1]}"
    hours = seconds / HOUR
    usd = None if price is None else price * run.gpus * hours
    vram = run.vram_gib

    def spread(value: float) -> Spread:
        return Spread(expected=value, low=value * low, high=value * high)

    return PreferenceEstimate(
        architecture=run.architecture,
        objective=asked.objective,
        method=techniques.method,
        gpu=run.gpu,
        gpus=run.gpus,
        reference=reference,
        pairs=asked.pairs,
        pairs_at_once=asked.pairs_at_once,
        sequences_per_pair=answers,
        input_tokens=asked.input,
        output_tokens=asked.output,
        longest_output=longest,
        packing=run.packing,
        peak_gib=vram.peak,
        usable_gib=vram.usable,
        reference_gib=copy,
        fits=vram.fits,
        parts={
            **{name: size for name, size in vram.parts.items() if size > 0 and name != "reference"},
            "set aside": sum(vram.set_aside.values()),
        },
        hours=spread(hours),
        shares={"training": 1.0 - further, "forward passes of the reference": further},
        usd=None if usd is None else spread(usd),
        price_basis="" if usd is None else basis,
        evidence="prior",
        assumed=(*_assumed(asked, longest), *run.assumed),
        notes=(*_notes(reference), *run.notes),
    )


def _assumed(asked: PreferenceSettings, longest: int) -> tuple[str, ...]:
    """Return what of the pairs was not given."""
    told = {
        "pairs": f"{asked.pairs:,} pairs",
        "pairs_at_once": f"{asked.pairs_at_once:,} at once",
        "input": f"prompts of {asked.input:,.0f} tokens",
        "output": f"answers of {asked.output:,.0f} tokens",
        "longest_output": f"the longest answer {longest:,}",
    }
    return tuple(said for name, said in told.items() if name not in asked.model_fields_set)


def _notes(reference: str) -> tuple[str, ...]:
    row, notes = read_techniques().values.reference.values.get(reference), []
    if row is not None and row.once:
        notes.append("the pass that computes the log-probabilities once is in the hours; a second epoch needs none")
    if row is not None and row.copied:
        notes.append("the copy takes no memory with --compared-with precomputed")
    return tuple(notes)

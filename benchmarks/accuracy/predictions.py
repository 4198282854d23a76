"""Our estimate of every row of a table, beside what was measured, and why some rows have none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from benchmarks.accuracy.configurations import Configuration, configuration_of, require_columns
from benchmarks.accuracy.hosts import gpu_of_row
from benchmarks.accuracy.measurements import Lengths, Row
from benchmarks.accuracy.memory_spread import memory_sigmas
from benchmarks.accuracy.networks import Incomplete, NotExpressible
from benchmarks.accuracy.recipes import checkpointing_known, precision_known
from planner.configurations.coefficients import framework_spread
from planner.configurations.recipe import framework_of
from planner.estimates.device import TimeCoefficients, stack_parameters
from planner.estimates.inputs import Setup, TimedSetup
from planner.estimates.memory_fit import MemoryEstimate, estimate_memory, fit_probability
from planner.estimates.memory_terms import MemoryCoefficients
from planner.estimates.step_time import step_seconds, tokens_per_step
from planner.estimates.uncertainty import MemorySpread, class_sigmas, efficiency_sigma, time_sigmas
from planner.estimates.weights import training_flops
from planner.estimates.work import padded_length
from planner.library.schema import Library
from planner.scenario.job import DEFAULT_MEMORY_CONFIDENCE

USUAL_DEVIATION = 0.8
"""Coefficient of variation of sample lengths where a source names the mean alone: the scenario's own default."""
MOST_UNKNOWN = 2
"""Of precision, checkpointing and attention at most this many may be blank where a speed is predicted."""
KNOWN_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
"""Shares of the margin that states may have: a calibration chooses one."""
USUAL_CONFIDENCE = DEFAULT_MEMORY_CONFIDENCE
"""A scenario's own default for memory."""
LEAST_UNCERTAIN = -10.0
"""Ln of measured over predicted uncertain bytes, where what was measured is less than what counts as certain."""
LEAST_STATE_BYTES = 8.0
"""Per parameter trained in full with Adam: 2 weights, 2 gradients, 4 two moments in 16 bit."""


@dataclass(frozen=True)
class Prediction:
    """One row; None where there is nothing to compare.

    A reason says why: `missing` columns make a row incomplete, `inexpressible` is our gap, and a figure that
    contradicts its row judges nobody.
    """

    row: Row
    configuration: Configuration | None = None
    peak: Comparison | None = None  # bytes per GPU
    speed: Comparison | None = None  # processed or real tokens per second over all GPUs, as the row counts
    need_bytes: float | None = None  # of the fit rule, where the row says whether it ran
    widest_margins: Mapping[float, float] = field(default_factory=dict)  # by known share: with which it just fits
    fit_spread: MemorySpread | None = None  # that is claimed
    usable_bytes: float = math.inf
    missing: tuple[tuple[str, str], ...] = ()  # (figure, what is missing)
    inexpressible: tuple[tuple[str, str], ...] = ()
    contradictions: tuple[tuple[str, str], ...] = ()  # measured figures that the row's own labels rule out

    @property
    def fit_chance(self) -> float | None:
        """Probability that it fits, by the spread that is claimed; None where the row judges no fit."""
        if self.need_bytes is None or self.fit_spread is None:
            return None
        return float(
            fit_probability(
                self.widest_margins[self.fit_spread.known_share], self.fit_spread.sigma, self.fit_spread.most
            )
        )

    @property
    def fits(self) -> bool:
        """Whether the fit rule accepts the row at the usual confidence."""
        return self.fit_chance is not None and self.fit_chance >= USUAL_CONFIDENCE


@dataclass(frozen=True)
class Comparison:
    """A measured figure, our median estimate of it, and the spreads of ln(measured / predicted) that we claim."""

    measured: float
    predicted: float
    sigma: float
    sigma_tail: float
    open_spread: float = 0.0  # of ln(predicted) over settings that the row leaves open
    known: float = 0.0  # of `predicted`: states, which follow from the accounting
    known_share: float = 1.0  # of the spread that states have

    def with_sigmas(self, display: float, tail: float) -> Comparison:
        """Return it with these spreads, wider by what is left open."""
        left_open = self.open_spread * self.predicted / (self.predicted - self.certain)
        sigma, sigma_tail = (math.hypot(one, left_open) for one in (display, tail))
        return replace(self, sigma=sigma, sigma_tail=sigma_tail)

    @property
    def certain(self) -> float:
        """Bytes that have no spread."""
        return (1.0 - self.known_share) * min(self.known, self.predicted)

    @property
    def spread_error(self) -> float:
        """ln(measured / predicted) once the certain bytes are taken off both: what the spreads are of."""
        if self.measured <= self.certain:
            return LEAST_UNCERTAIN
        return math.log((self.measured - self.certain) / (self.predicted - self.certain))

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.measured - 1.0

    @property
    def log_error(self) -> float:
        """ln(measured / predicted)."""
        return math.log(self.measured / self.predicted)


class Predictor:
    """Estimates rows with the calibration of a library."""

    def __init__(self, library: Library):
        self.library = library
        self.memory = MemoryCoefficients.of(library.calibrations["memory"].values)
        self.time = TimeCoefficients.of(library.calibrations["time"].values)
        self.spreads = library.calibrations["uncertainty"].values

    def predict(self, rows: Sequence[Row], as_unknown: bool = False) -> list[Prediction]:
        """Return one prediction per row, in their order; `as_unknown` ignores every framework."""
        return [self.one(row, as_unknown) for row in rows]

    def one(self, row: Row, as_unknown: bool = False) -> Prediction:
        """Return the prediction of one row."""
        measured = (("memory", row.peak_bytes), ("throughput", _has_speed(row)))
        figures = [name for name, there in measured if there and not row.out_of_memory]
        try:
            found = configuration_of(row, self.library, as_unknown)
        except Incomplete as gap:
            return Prediction(row, missing=tuple((figure, str(gap)) for figure in figures))
        except NotExpressible as gap:
            return self._inexpressible(row, figures, gap)
        prediction = self._with_memory(Prediction(row, found))
        try:
            prediction = replace(prediction, speed=self._speed(row, found))
        except Incomplete as gap:
            prediction = replace(prediction, missing=(*prediction.missing, ("throughput", str(gap))))
        except NotExpressible as gap:
            prediction = replace(prediction, inexpressible=(("throughput", str(gap)),))
        return without_contradictions(prediction)

    def _inexpressible(self, row: Row, figures: Sequence[str], gap: NotExpressible) -> Prediction:
        """Return the prediction of a row that we cannot express: a gap in every figure with complete columns."""
        blank: dict[str, str] = {}
        for figure in figures:
            try:
                require_columns(row, self.library)
                if figure == "throughput":
                    _require_speed_columns(row)
            except Incomplete as missing:
                blank[figure] = str(missing)
        ours = tuple((figure, str(gap)) for figure in figures if figure not in blank)
        return Prediction(row, missing=tuple(blank.items()), inexpressible=ours)

    def _with_memory(self, prediction: Prediction) -> Prediction:
        found = prediction.configuration
        assert found is not None
        usable = float(found.host.hardware.usable_bytes) if found.host else math.inf
        estimates = [
            (share, estimate_memory(
                Setup(found.network, found.layout, states, activations, found.stack), self.memory, usable
            ))
            for share, states, activations in found.settings
        ]  # fmt: skip
        measured = prediction.row.peak_bytes
        peak = None
        if measured is not None and not prediction.row.out_of_memory:
            name = {"device": "device_used"}.get(prediction.row.peak_kind, prediction.row.peak_kind)
            each = [(share, float(getattr(estimate, name))) for share, estimate in estimates]
            predicted, known = sum(share * size for share, size in each), _mean(estimates, "known")
            spread = _spread_of(found, self.library)
            left_open = _open_spread(found, each)
            peak = Comparison(measured, predicted, 0, 0, left_open, known, spread.known_share)
            peak = peak.with_sigmas(*memory_sigmas(self.library.calibrations["memory"].values, prediction.row, found))
        prediction = replace(prediction, peak=peak, usable_bytes=usable)
        if found.host is None or prediction.row.text("status") not in ("ok", "oom"):
            return prediction
        if not checkpointing_known(prediction.row):
            return replace(prediction, missing=(*prediction.missing, ("fit", "whether activations are checkpointed")))
        spread = _spread_of(found, self.library)
        widest = {
            known: sum(share * float(estimate.widest_margin(known)) for share, estimate in estimates)
            for known in (*KNOWN_SHARES, spread.known_share)
        }
        prediction = replace(prediction, need_bytes=_mean(estimates, "need"), widest_margins=widest, fit_spread=spread)
        if self._precision_decides(prediction):
            return replace(prediction, need_bytes=None, missing=(*prediction.missing, ("fit", "the precision")))
        return prediction

    def _precision_decides(self, prediction: Prediction) -> bool:
        """Return whether a row leaves its precision open and fits in pure 16 bit alone: too little to judge by."""
        row, found = prediction.row, prediction.configuration
        if found is None or prediction.fits or precision_known(row):
            return False
        pure = replace(row, cells={**row.cells, "precision": "bf16 pure", "weights_dtype": "bf16"})
        found = configuration_of(pure, self.library, found.framework == "unknown")
        return self._with_memory(replace(prediction, row=pure, configuration=found, need_bytes=None)).fits

    def _speed(self, row: Row, found: Configuration) -> Comparison | None:
        if not _has_speed(row) or row.out_of_memory:
            return None
        lengths = _require_speed_columns(row)
        if found.host is None:
            gpu_of_row(row, self.library)  # says why there is no card
        assert found.host is not None
        layout, real = found.layout, float(found.layout.sequence)
        if not lengths.full:
            spread = lengths.deviation / lengths.mean if lengths.deviation and lengths.mean else USUAL_DEVIATION
            processed = partial(padded_length, lengths.mean, spread)
            real = float(processed(1, layout.longest_sequence))
            together = layout.micro_batch if lengths.varying else 1  # buckets of like lengths need no padding
            layout = replace(layout, sequence=float(processed(together, layout.longest_sequence)))
        parts = (found.stack, found.kernels, found.host.hardware)
        each = [
            (share, float(step_seconds(TimedSetup(found.network, layout, states, activations, *parts), self.time)))
            for share, states, activations in found.settings
        ]
        seconds = sum(share * one for share, one in each)
        per_step = float(tokens_per_step(layout)) * real / float(layout.sequence)
        sigma, tail = self._time_sigmas(found)
        measured = _measured_speed(row, real, per_step) or _speed_of_mfu(row, found)
        return Comparison(measured, per_step / seconds, 0, 0, _open_spread(found, each)).with_sigmas(sigma, tail)

    def _time_sigmas(self, found: Configuration) -> tuple[float, float]:
        assert found.host is not None
        profile = framework_of(self.library, found.framework)
        nodes = math.ceil(found.layout.gpus / found.layout.gpus_per_node)
        spreads = time_sigmas(
            self.spreads,
            class_sigmas(self.spreads, "unknown" if profile.unknown else profile.kernels),
            class_sigmas(self.spreads, found.host.gpu.name),
            found.layout.gpus,
            nodes,
            found.layout.micro_batch * found.layout.sequence,
            mixture=int(found.network.experts > 0),
            offload=int(bool(found.states.host_optimizer)),
            efficiency=efficiency_sigma(self.spreads, found.host.efficiency_basis),
            network_unknown=found.host.network_unknown,
            shape_unknown=int(not found.network.shape_known),
        )
        return float(np.asarray(spreads.display)), float(np.asarray(spreads.tail))


def _spread_of(found: Configuration, library: Library) -> MemorySpread:
    """Return the spread that decides whether a row is said to fit."""
    return framework_spread(found.framework, library, bool(found.states.host_optimizer))


def _mean(estimates: Sequence[tuple[float, MemoryEstimate]], name: str) -> float:
    """Return the mean of a figure over settings by share."""
    return sum(share * float(getattr(estimate, name)) for share, estimate in estimates)


def _open_spread(found: Configuration, each: Sequence[tuple[float, float]]) -> float:
    """Return the standard deviation of ln over shares of settings; 0 where the row leaves none open."""
    if not found.left_open:
        return 0.0
    mean = sum(share * math.log(value) for share, value in each)
    return math.sqrt(sum(share * (math.log(value) - mean) ** 2 for share, value in each))


def without_contradictions(prediction: Prediction) -> Prediction:
    """Return the prediction without impossible measured figures, by what any run must do.

    Training in full with Adam holds at least 8 bytes per parameter over all GPUs (16-bit weights, gradients and two
    moments); no card computes faster than its sheet, 5 % allowed for.
    """
    found = prediction.configuration
    assert found is not None
    against: list[tuple[str, str]] = []
    plain = prediction.row.text("optimizer") in ("", "adam", "adamw") and found.recipe.optimizer == "adamw"
    plain = plain and not found.states.host_optimizer
    if prediction.peak is not None and found.recipe.method == "full" and plain:
        floor = LEAST_STATE_BYTES * found.network.parameters / found.layout.gpus
        if prediction.peak.measured < 0.95 * floor:
            against.append(("memory", "less than its weights and moments need"))
    if prediction.speed is not None and found.host is not None:
        rate = prediction.speed.measured / found.layout.gpus
        flop = training_flops(stack_parameters(found.network), float(rate), frozen=found.recipe.method == "lora")
        if flop > 0.95 * float(found.host.hardware.linear_peak):
            against.append(("throughput", "more FLOP per second than the card has"))
    names = [figure for figure, _ in against]
    return replace(
        prediction,
        peak=None if "memory" in names else prediction.peak,
        speed=None if "throughput" in names else prediction.speed,
        # A run that takes less than what is labelled needs is another one: that it ran judges no fit, either.
        need_bytes=None if "memory" in names else prediction.need_bytes,
        contradictions=tuple(against),
    )


def _require_speed_columns(row: Row) -> Lengths:
    """Return what a speed needs beyond memory; Incomplete where it is blank."""
    if not row.text("gpu"):
        raise Incomplete("the GPU")
    if sum(not row.text(name) for name in ("precision", "act_ckpt", "attention")) > MOST_UNKNOWN:
        raise Incomplete("precision, checkpointing and attention")
    lengths = row.lengths
    if lengths is None or not (lengths.full or lengths.mean):
        raise Incomplete("the real lengths of the samples")
    return lengths


def _has_speed(row: Row) -> bool:
    columns = ("tokens_per_s_total", "tokens_per_s_per_gpu", "samples_per_s", "step_time_s")
    return any(row.positive(name) for name in columns) or _tells_mfu(row)


def _tells_mfu(row: Row) -> bool:
    """Return whether a row without speed has an MFU, from a framework that documents how it counts FLOP."""
    return row.text("framework") == "maxtext" and row.positive("mfu") is not None


def _speed_of_mfu(row: Row, found: Configuration) -> float:
    """Return the tokens per second over all chips that an MFU of MaxText means, by its own count of FLOP per token.

    6 per weight of layers and head, and 12 * layers * heads * head size * sequence, the causal half not taken off
    (maxtext_utils.py before July 2025, from which the rows without tokens per second are).
    """
    network, mfu, host = found.network, row.positive("mfu"), found.host
    assert mfu is not None and host is not None
    weights = stack_parameters(network) + network.vocab * network.hidden
    scores = network.layers * network.heads * network.head_dim * found.layout.sequence
    return float(mfu * host.hardware.peak * found.layout.gpus / (6.0 * weights + 12.0 * scores))


def _measured_speed(row: Row, real_length: float, tokens_per_step: float) -> float | None:
    """Return the tokens per second over all GPUs, converted from samples or steps; None where a row has none of them.

    Where samples differ in length, what a source calls a token is open, so samples per second come first.
    """
    total, each = row.positive("tokens_per_s_total"), row.positive("tokens_per_s_per_gpu")
    samples, step = row.positive("samples_per_s"), row.positive("step_time_s")
    from_tokens = total or (each * (row.count("num_gpus") or 1) if each else None)
    from_samples = samples * real_length if samples else (tokens_per_step / step if step else None)
    full = row.lengths is not None and row.lengths.full
    return (from_tokens or from_samples) if full else (from_samples or from_tokens)

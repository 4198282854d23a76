"""From the work a user states to optimizer steps, real tokens, and the work of several trials."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner.estimates.inputs import Numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


# From the work a user states to optimizer steps, and from processed tokens to real ones.
#
# packed: sequences are filled with samples up to a share of 0.97.
# padded: one sample is one sequence, padded to the longest of its micro-batch.
# fixed: one sample is one sequence, padded to the sequence length.
# padding_free: the sequences of a micro-batch lie end to end, without padding.


_REACH, _CELLS = 8.5, 2000
"""Grid of standard normal values: both tails beyond it hold less than 1e-16."""
PACKED_FILL = 0.97
"""Real tokens per position of a packed sequence: an assumption, common packers reach 0.95 to 0.99."""
PACKINGS = ("packed", "padded", "fixed", "padding_free")
VARIABLE = ("padded", "padding_free")
"""Packings whose batches differ in length."""
USUAL_SEQUENCE = 2048
"""Tokens of a sequence where nothing is known of the samples."""
NEGLIGIBLE_CUT = 0.001
"""Share of the tokens that may lie beyond the end of a sequence without a word: lengths have no last one."""


Lengths = tuple[tuple[float, int], ...]
"""A table of lengths: tokens of a sample, and how many samples have so many; empty where there is none."""


def cut_share(packing: str, mean_length: float, cv: float, sequence: float, lengths: Lengths = ()) -> float:
    """Return the share of the tokens of the samples that lie beyond `sequence` tokens of theirs.

    Padded samples have log-normal lengths with mean `mean_length` and coefficient of variation `cv`. Others count as
    samples of the mean length: packed ones because what one sample lacks another has, and because packers split what
    is longer than a sequence and drop nothing. With a table of `lengths` each sample is cut alone.
    """
    if lengths:
        return max(0.0, 1.0 - kept_length(mean_length, sequence, lengths) / mean_length)
    sigma = math.sqrt(math.log1p(cv * cv)) if packing in VARIABLE else 0.0
    if sigma < _LEAST_SIGMA:
        return max(0.0, 1.0 - sequence / mean_length)
    place = (math.log(sequence / mean_length) + sigma * sigma / 2.0) / sigma
    beyond = normal_tail(place - sigma) - sequence / mean_length * normal_tail(place)
    return min(max(beyond, 0.0), 1.0)


def kept_length(mean_length: float, sequence: float, lengths: Lengths) -> float:
    """Return the mean tokens of a sample that a sequence holds: of each one of the table, or of the mean."""
    if not lengths:
        return min(mean_length, sequence)
    return math.fsum(min(tokens, sequence) * count for tokens, count in lengths) / sum(length[1] for length in lengths)


_LEAST_SIGMA = 1e-9
"""Spread of the logarithm below which all lengths are equal."""


def normal_tail(place: float) -> float:
    """Return the probability that a standard normal lies above a place, exact in the far tail."""
    return 0.5 * math.erfc(place / math.sqrt(2.0))


def default_sequence(packing: str, mean_length: float | None, cv: float, context: int, lengths: Lengths = ()) -> int:
    """Return the tokens of a sequence where none are given: the smallest power of two that holds a sample.

    `context`, the longest sequence of the model, where that is shorter. A padded sequence holds the longest sample: all
    but `NEGLIGIBLE_CUT` of the tokens. With a table of `lengths` it always holds the longest. Without a mean length
    it is `USUAL_SEQUENCE`.
    """
    if lengths:
        mean_length, cv = max(tokens for tokens, _ in lengths), 0.0
    if mean_length is None:
        return min(USUAL_SEQUENCE, context)
    sequence = 1 << max(0, math.ceil(mean_length) - 1).bit_length()
    while not lengths and sequence < context and cut_share(packing, mean_length, cv, sequence) >= NEGLIGIBLE_CUT:
        sequence *= 2
    return min(sequence, context)


def image_steps(images: float, epochs: float, batch: int, buckets: int) -> float:
    """Return the optimizer steps of passes over images, of which a batch has those of one aspect.

    The last batch of each aspect is incomplete in each pass: half a batch missing in the mean of many counts of images.
    300 images in batches of 8: 37.5 steps a pass, with 9 aspects 37.5 + 9 * 7 / 16 = 41.4. No more steps than images.
    """
    if buckets == 1:
        return math.ceil(images * epochs / batch)
    return math.ceil(epochs * min(images / batch + buckets * (batch - 1) / (2 * batch), images))


def step_count(packing: str, tokens: Numbers, samples: Numbers, sequence: Numbers, global_batch: Numbers) -> Any:
    """Return the optimizer steps, rounded up.

    Packed work counts real `tokens`, padded and fixed work `samples`, epochs included.

    ValueError for a packing that is not in `PACKINGS`.
    """
    _check(packing)
    if packing == "packed":
        return np.ceil(np.asarray(tokens) / (PACKED_FILL * np.asarray(sequence) * global_batch))
    return np.ceil(np.asarray(samples) / np.asarray(global_batch))


def processed_length(
    packing: str, sequence: Numbers, mean_length: Numbers, cv: Numbers, micro_batch: Numbers, lengths: Lengths = ()
) -> Any:
    """Return the tokens per sequence that the GPUs work on; ValueError for a packing that is not in `PACKINGS`."""
    _check(packing)
    if packing == "padded":
        return padded_length(mean_length, cv, micro_batch, sequence, lengths)
    if packing == "padding_free":
        return padded_length(mean_length, cv, 1.0, sequence, lengths)
    return np.asarray(sequence, dtype=float)


def longest_length(packing: str, sequence: float, mean_length: float, answers: int) -> float:
    """Return the tokens per sequence of the micro-batch that needs the most memory, one sample at a time.

    Padded sequences are as long as the longest. Without padding a pair has one answer of that length, and one of the
    mean: 2,048 and 512 tokens are 1,280 each. Several samples at once rarely have as many.
    """
    if packing != "padding_free" or answers == 1:
        return float(sequence)
    return (sequence + mean_length) / answers


def padded_length(
    mean_length: Numbers, cv: Numbers, micro_batch: Numbers, sequence: Numbers, lengths: Lengths = ()
) -> Any:
    """Return the mean processed length of padded micro-batches: E[longest of `micro_batch` draws, cut at `sequence`].

    Lengths are log-normal with mean `mean_length` and coefficient of variation `cv`; 0 means all equal.
    Grows with the micro-batch: padding makes large micro-batches more expensive per real token. A table of `lengths`
    takes the place of the distribution.
    """
    if lengths:
        return _longest_of_table(lengths, micro_batch, sequence)
    if np.size(micro_batch) > 1 and all(np.ndim(value) == 0 for value in (mean_length, cv, sequence)):
        # A grid of thousands of cells holds a dozen micro-batches.
        several, place = np.unique(np.asarray(micro_batch, dtype=float), return_inverse=True)
        padded = _padded_length(mean_length, cv, several, sequence)
        return padded[place].reshape(np.shape(micro_batch))
    return _padded_length(mean_length, cv, micro_batch, sequence)


def _longest_of_table(lengths: Lengths, micro_batch: Numbers, sequence: Numbers) -> Any:
    """Return the mean of the longest of `micro_batch` draws from a table, each cut at `sequence`."""
    ordered = sorted(lengths)
    tokens = np.array([row[0] for row in ordered], dtype=float)
    share = np.cumsum([row[1] for row in ordered], dtype=float) / sum(row[1] for row in ordered)
    draws, cap = np.broadcast_arrays(*(np.asarray(value, dtype=float)[..., None] for value in (micro_batch, sequence)))
    chance = np.diff(np.power(share, draws), axis=-1, prepend=0.0)
    return np.sum(chance * np.minimum(tokens, cap), axis=-1)


def _padded_length(mean_length: Numbers, cv: Numbers, micro_batch: Numbers, sequence: Numbers) -> Any:
    mean, spread, draws, cap = np.broadcast_arrays(
        *(np.asarray(value, dtype=float)[..., None] for value in (mean_length, cv, micro_batch, sequence))
    )
    sigma = np.sqrt(np.log1p(np.square(spread)))
    edges, below = _normal_grid()
    lengths = np.minimum(mean * np.exp(sigma * edges - sigma * sigma / 2.0), cap)
    chance = np.diff(np.exp(draws * np.log(np.maximum(below, np.finfo(float).tiny))), axis=-1)
    middle = 0.5 * (lengths[..., 1:] + lengths[..., :-1])
    return np.sum(chance * middle, axis=-1) / np.sum(chance, axis=-1)


def _check(packing: str) -> None:
    if packing not in PACKINGS:
        raise ValueError(f"packing must be one of {', '.join(PACKINGS)}, not {packing!r}")


@cache
def _normal_grid() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the standard normal values and the probability below each."""
    edges = np.linspace(-_REACH, _REACH, _CELLS + 1)
    below = np.array([normal_tail(-edge) for edge in edges])
    return edges, below


# The work of several trials of one run, and the hours of the longest chain of them.
#
# Sources: successive halving, Jamieson and Talwalkar 2016 (arXiv 1502.07943); the sizes of its rungs as in Hyperband,
# Li et al. 2018 (arXiv 1603.06560), survivors going on from where they stopped.
# All figures are multiples of one run in full: of its hours, of its work, of one load of the network.


_ROUNDING = 1e-9
"""Error of the logarithm of an exact power."""


class Rung(NamedTuple):
    """Trials that are still run, and the share of the full work that each has done at the end of the rung."""

    alive: int
    share: float


class TrialWork(NamedTuple):
    """All trials of a job over one run of it; `(1, 1, 0, 0, 0)` is one run.

    A node group is the set of machines that one trial runs on.
    """

    wall: float  # hours of the longest chain of trials, over the hours of one run
    work: float  # work of all trials, over that of one run
    reloads_wall: float  # loads of the network in the longest chain, beyond that of the start
    reloads: float  # loads over all node groups, beyond one each at their start
    waiting: float  # runs' worth of hours in which a node group is idle until its rung is done


def rungs(count: int, halving: float | None = None) -> tuple[Rung, ...]:
    """Return the rungs of successive halving; without halving all trials run in full.

    Rung i has `count * halving^-i` trials, rounded down, up to `halving^(i - s)` of the work, with s =
    floor(log(count) / log(halving)).
    9 trials at 3: 9 to 1/9 of the work, 3 to 1/3, 1 to the end.
    ValueError for fewer than one trial, and for a halving of 1 or less.
    """
    if count < 1:
        raise ValueError(f"at least one trial, not {count}")
    if halving is None:
        return (Rung(count, 1.0),)
    if halving <= 1:
        raise ValueError(f"halving keeps one trial in more than one, not in {halving}")
    last = math.floor(math.log(count) / math.log(halving) + _ROUNDING)
    return tuple(
        Rung(max(1, math.floor(count / halving**i + _ROUNDING)), float(halving ** (i - last))) for i in range(last + 1)
    )


def _rung_works(ladder: tuple[Rung, ...]) -> Iterator[tuple[int, float, int]]:
    """Yield of each rung its trials, the work that each of them adds, and the trials of the next rung."""
    done = 0.0
    for (alive, share), following in zip(ladder, [*(rung.alive for rung in ladder[1:]), 0], strict=True):
        yield alive, share - done, following
        done = share


def node_group_shares(count: int, at_once: int = 1, halving: float | None = None) -> tuple[float, ...]:
    """Return for how many runs' worth of hours each node group is rented, waiting included, loads excluded.

    They sum to work + waiting of `trial_work`. 4 trials on 2 groups at 2: one is busy for 2 x 1/4 + 1 x 1/4 + 1/2 =
    1.25 runs, the other, released when one trial is left, for 2 x 1/4 + 1 x 1/4 = 0.75.
    ValueError as there.
    """
    trial_work(count, at_once, halving)
    ladder = rungs(count, halving)
    busy = [0.0] * at_once
    for alive, rung_work, following in _rung_works(ladder):
        for group in range(min(at_once, alive)):
            own = alive // at_once + (group < alive % at_once)
            busy[group] += (math.ceil(alive / at_once) if group < following else own) * rung_work
    return tuple(busy)


def trial_work(count: int, at_once: int = 1, halving: float | None = None) -> TrialWork:
    """Return the factors of `count` trials on `at_once` parallel node groups over one run.

    A rung ends when its last trial ends, so groups that the next rung needs may wait; the others are released.
    A survivor is loaded again unless every trial of its rung is still in the memory of a group of its own:
    which trials survive is not known beforehand, so this counts the most loads that can be needed.
    ValueError for fewer than one group, for more groups than trials, and as `rungs`.
    """
    ladder = rungs(count, halving)
    if not 1 <= at_once <= count:
        raise ValueError(f"1 to {count} trials side by side, not {at_once}")
    wall = work = waiting = 0.0
    reloads_wall, reloads = math.ceil(count / at_once) - 1, count - at_once
    for alive, rung_work, following in _rung_works(ladder):
        wall += math.ceil(alive / at_once) * rung_work
        work += alive * rung_work
        if alive > at_once:
            reloads_wall += math.ceil(following / at_once)
            reloads += following
        # Groups beyond the remainder run one trial less than the busiest.
        busiest = alive % at_once or at_once
        waiting += max(0, min(at_once, following) - busiest) * rung_work
    return TrialWork(wall, work, float(reloads_wall), float(reloads), waiting)

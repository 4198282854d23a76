"""From the columns of a row to the shape of its network: a card where there is one, else the row's own dimensions."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

from benchmarks.accuracy.measurements import Row
from planner.configurations.grid import network_of
from planner.estimates.inputs import Network
from planner.library.schema import Library


class Incomplete(Exception):
    """A column that the estimate needs is blank; the text names what."""


class NotExpressible(Exception):
    """The row is complete, but the estimate has no word for what it did; the text names what."""


_SUFFIX = re.compile(r"-(instruct|chat|base|it)(-v[\d.]+)?$")

ASPECT = 128
"""Hidden units per layer of a network of which only the parameter count is known (time model)."""
PLAIN_VOCABULARY, GATED_VOCABULARY = 51_200, 32_000
"""Guesses where the vocabulary is blank: GPT-2's, padded as Megatron pads it; Llama's."""
_MIXTURE_RATIO = 1.6
"""A network with this many times the weights of its dense dimensions is a mixture of experts."""


def network_of_row(row: Row, library: Library) -> Network:
    """Return the network of a row; Incomplete where its shape is open, NotExpressible where we have none.

    A card counts where its layers and width do not contradict the row; its parameter count gives way to the row's,
    since published runs resize embeddings and position tables.
    """
    card = _card(row, library)
    layers, hidden = row.count("layers"), row.count("hidden")
    parameters = (row.positive("params_b") or 0.0) * 1e9
    if card is not None and layers in (None, card.layers) and hidden in (None, card.hidden):
        dense = not card.experts and parameters and abs(parameters / card.parameters - 1) < 0.1
        return replace(card, parameters=parameters, active_parameters=parameters) if dense else card
    if layers is None and hidden is None and not parameters:
        raise Incomplete("the network's dimensions")
    if not row.text("seq_len").replace(".", "").isdigit() and row.text("seq_len"):
        raise NotExpressible("a sequence length that is not in tokens")
    if layers is None or hidden is None:
        return _guessed(parameters, row)
    return _from_dimensions(row, layers, hidden, parameters)


def as_framework_builds(network: Network, framework: str) -> Network:
    """Return the network as its framework holds it: litgpt has an untied head where the release ties it."""
    if framework != "litgpt" or not network.tied:
        return network
    head = float(network.vocab * network.hidden)
    return replace(
        network, tied=False, parameters=network.parameters + head, active_parameters=network.active_parameters + head
    )


def _card(row: Row, library: Library) -> Network | None:
    name = row.text("model")
    for wanted in (name, _SUFFIX.sub("", name)):
        try:
            architecture = library.architecture(wanted)
        except KeyError:
            continue
        return network_of(architecture) if architecture.kind == "decoder" else None
    return None


def _guessed(parameters: float, row: Row) -> Network:
    """Return a plain network of h = 128 L and 12 L h^2 parameters."""
    if not parameters:
        raise Incomplete("the network's dimensions")
    layers = max(round((parameters / (12 * ASPECT**2)) ** (1 / 3)), 1)
    hidden = ASPECT * layers
    return Network(
        parameters=parameters,
        active_parameters=parameters,
        layers=layers,
        hidden=hidden,
        heads=layers,
        kv_heads=layers,
        head_dim=ASPECT,
        ffn=4 * hidden,
        vocab=row.count("vocab") or PLAIN_VOCABULARY,
        tied=True,
        gated=False,
        rope=False,
        shape_known=False,
    )


def _from_dimensions(row: Row, layers: int, hidden: int, parameters: float) -> Network:
    """Return the dimensions of the row; the parameter count decides what no column states (gated, tied, head size)."""
    heads = row.count("heads") or max(hidden // ASPECT, 1)
    kv_heads = row.count("kv_heads") or heads
    best: tuple[float, Network] | None = None
    for gated, tied, head_dim in itertools.product((True, False), (True, False), _head_sizes(hidden, heads)):
        ffn = row.count("ffn") or (4 * hidden if not gated else round(8 * hidden / 3))
        vocab = row.count("vocab") or (GATED_VOCABULARY if gated else PLAIN_VOCABULARY)
        attention = hidden * 2 * (heads + kv_heads) * head_dim
        count = float(vocab * hidden * (1 if tied else 2) + layers * (attention + (3 if gated else 2) * hidden * ffn))
        total = parameters or count
        network = Network(
            parameters=total,
            active_parameters=total,
            layers=layers,
            hidden=hidden,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            ffn=ffn,
            vocab=vocab,
            tied=tied,
            gated=gated,
            rope=gated,  # families with gated feed-forwards rotate; the plain ones of the tables mostly do not
        )
        # Of equal counts the usual head size and the untied head come first.
        distance = abs(count / total - 1) if parameters else 0.0
        if best is None or distance < best[0] - 1e-9:
            best = distance, network
    assert best is not None
    if parameters > _MIXTURE_RATIO * max(best[1].parameters / (1 + best[0]), 1.0) and best[0] > 0.5:
        raise NotExpressible("a mixture of experts without a card")
    return best[1]


def _head_sizes(hidden: int, heads: int) -> tuple[int, ...]:
    usual = hidden // heads
    return (usual, *(size for size in (64, 128, 256) if size != usual))

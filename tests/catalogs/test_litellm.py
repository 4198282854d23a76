"""litellm's price file: hosted models by the token; a self-written file with the traps of the real one."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalogs.published_models import HostedModel, HostedModels, read_hosted_models
from planner.errors import InputError

ENTRY = {
    "litellm_provider": "together_ai",
    "mode": "chat",
    "input_cost_per_token": 6e-07,
    "output_cost_per_token": 1.2e-06,
    "max_input_tokens": 131072,
    "source": "https://service.example/prices",
}
SPEC = {"litellm_provider": "one of the providers", "mode": "one of: chat", "input_cost_per_token": "dollars"}


def write(folder: Path, entries: dict[str, Any]) -> Path:
    """Write a price file with an entry per line, the description of the format first."""
    path = folder / "prices.json"
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
    path.write_text(f'{{"sample_spec": {json.dumps(SPEC)},\n{lines}}}', encoding="utf-8")
    return path


def read(folder: Path, **entries: dict[str, Any]) -> HostedModels:
    return read_hosted_models(write(folder, {f"m/{name}": entry for name, entry in entries.items()}))


def test_an_entry_is_a_model_in_dollars_per_million_tokens(tmp_path: Path) -> None:
    """6e-07 dollars per token are 0.60 per million; the provider's name is no part of the model's."""
    path = write(tmp_path, {"together_ai/acme/Big-70B": ENTRY})
    assert read_hosted_models(path).models == (
        HostedModel("together_ai", "acme/Big-70B", 0.6, 1.2, None, 131072, "https://service.example/prices"),
    )


def test_a_batch_takes_off_the_smaller_share_of_both_prices(tmp_path: Path) -> None:
    """Half of the input's price and a quarter of the output's: 0.25; a batch that costs more has no discount."""
    batch = {"input_cost_per_token_batches": 3e-07, "output_cost_per_token_batches": 9e-07}
    dearer = {"input_cost_per_token_batches": 3e-07, "output_cost_per_token_batches": 2e-06}
    found = read(tmp_path, a=ENTRY | batch, b=ENTRY | dearer, c=ENTRY | {"input_cost_per_token_batches": 3e-07})
    assert [one.batch_discount for one in found.models] == [0.25, None, None]


def test_what_is_no_priced_text_model_is_counted_by_reason(tmp_path: Path) -> None:
    """With the line of the first: other modes, free tiers, prices that are missing, what is no entry."""
    found = read(
        tmp_path,
        a=ENTRY,
        b=ENTRY | {"mode": "embedding"},
        c=ENTRY | {"input_cost_per_token": 0},
        d=ENTRY | {"output_cost_per_token": 0.0},
        e={key: value for key, value in ENTRY.items() if key != "output_cost_per_token"},
        f={key: value for key, value in ENTRY.items() if key != "mode"},
        g={"supports_vision": True},
    )
    assert [one.model for one in found.models] == ["m/a"]
    assert {reason: (one.rows, one.line) for reason, one in found.left_out.items()} == {
        "generates no text: 'embedding'": (1, 3),
        "no price (missing or 0)": (3, 4),
        "its kind is not stated": (1, 7),
        "no entry of a model": (1, 8),
    }


def test_a_model_that_is_named_twice_costs_the_dearer_price(tmp_path: Path) -> None:
    """With the provider's name before it and without; nobody knows which one is billed."""
    dear = ENTRY | {"output_cost_per_token": 2e-06}
    for entries in ({"together_ai/a": ENTRY, "a": dear}, {"a": dear, "together_ai/a": ENTRY}):
        found = read_hosted_models(write(tmp_path, entries))
        assert [one.usd_per_million_output_tokens for one in found.models] == [2.0]
        assert found.left_out["named twice: the higher price is kept"].rows == 1


def test_models_that_are_switched_off_are_left_out_from_their_last_day(tmp_path: Path) -> None:
    """Only where a day is asked for."""
    path = write(tmp_path, {"a": ENTRY | {"deprecation_date": "2026-11-01"}})
    for day, kept in ((None, 1), (datetime.date(2026, 10, 31), 1), (datetime.date(2026, 11, 1), 0)):
        assert len(read_hosted_models(path, day).models) == kept


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("0.60", "'0.60' is not a number; give dollars per token"),
        (-1e-06, "-1e-06 is negative; it must be at least 0"),
        (0.6, "0.6 dollars per token; give dollars per token, not per million"),
        (True, "true is not a number"),
    ],
)
def test_what_is_no_price_is_a_fault_with_its_line(tmp_path: Path, value: Any, told: str) -> None:
    """All of a file at once."""
    path = write(
        tmp_path,
        {"a": ENTRY, "b": ENTRY | {"input_cost_per_token": value}, "c": ENTRY | {"output_cost_per_token": value}},
    )
    with pytest.raises(InputError) as error:
        read_hosted_models(path)
    texts = [str(fault).removeprefix(f"{path}:") for fault in error.value.faults]
    wanted = [f"3: b.input_cost_per_token: {told}", f"4: c.output_cost_per_token: {told}"]
    assert [text[: len(start)] for text, start in zip(texts, wanted, strict=True)] == wanted


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"a": 1}', "<html>", '{"sample_spec": {"mode": "x"}'])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    """Empty, of another form, a web page, cut off."""
    path = tmp_path / "prices.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"give model_prices_and_context_window\.json of litellm"):
        read_hosted_models(path)


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_prices_of_whole_micro_dollars_are_exact(
    tmp_path_factory: pytest.TempPathFactory, micro: int, other: int
) -> None:
    """Dollars per million tokens with three digits come back as they were."""
    entry = ENTRY | {"input_cost_per_token": micro / 1e9, "output_cost_per_token": other / 1e9}
    (found,) = read(tmp_path_factory.mktemp("prices"), a=entry).models
    assert (found.usd_per_million_input_tokens, found.usd_per_million_output_tokens) == (micro / 1000, other / 1000)

"""CSV files of offers: what a cell holds, and faults with file, line and column."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.documents.tables import parse_csv
from planner.errors import Fault
from planner.loading import price_files as offer_table
from planner.loading.price_files import TABLE_COLUMNS, machine_key, offer_table_text, read_offer_table
from planner.loading.scenario_file import parse_scenario
from planner.scenario.offer import Offer
from tests.helpers.scenarios import GOOD

HEADER = "provider,region,instance,gpu,gpus,usd_per_hour,spot_usd_per_hour,currency,date"
ROW = "p,eu,one,RTX 4090,1,0.4,0.2,USD,2026-11-20"


def read(text: str) -> tuple[tuple[Offer, ...], list[str]]:
    """Return the offers of a text, and its faults."""
    faults: list[Fault] = []
    _, offers = read_offer_table(parse_csv(text, "t.csv"), faults)
    return offers, [str(fault) for fault in faults]


def test_a_row_is_an_offer_and_an_empty_cell_is_unknown() -> None:
    """GPU names may be aliases; truth values and whole numbers as people and spreadsheets write them."""
    text = (
        "provider,gpu,gpus,usd_per_hour,spot_usd_per_hour,stock,max_nodes,community,interconnect\n"
        "p,a100-80g,8.0,12,,,2,TRUE,nvswitch\np,T4,1,,0.1,3,,,\n"
    )
    (first, second), faults = read(text)
    assert not faults
    assert (first.gpu, first.gpus, first.usd_per_hour, first.spot_usd_per_hour) == ("A100-80GB", 8, 12, None)
    assert (first.stock, first.max_nodes, first.community, first.interconnect) == (None, 2, True, "nvswitch")
    assert (second.usd_per_hour, second.spot_usd_per_hour, second.stock, second.max_nodes) == (None, 0.1, 3, 1)


def test_the_link_of_a_known_instance_type_is_filled_in() -> None:
    """As in a YAML file: NVLink where the type has it, and what the row says in any case."""
    (known, said, one), faults = read(
        "provider,instance,gpu,gpus,usd_per_hour,interconnect\n"
        "aws,p5.48xlarge,H100,8,55,\naws,p4d.24xlarge,A100,8,20,pcie\naws,p5.4xlarge,H100,1,6,\n"
    )
    assert not faults
    assert (known.interconnect, said.interconnect, one.interconnect) == ("nvswitch", "pcie", None)


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("p,eu,one,T4,1,nan,,USD,", "t.csv:3: usd_per_hour: 'nan' is not a finite number"),
        ("p,eu,one,T4,1,inf,,USD,", "t.csv:3: usd_per_hour: 'inf' is not a finite number"),
        ("p,eu,one,T4,1,-0.4,,USD,", "t.csv:3: usd_per_hour: -0.4 is out of range; must be at least 0"),
        ("p,eu,one,T4,1,$0.4,,USD,", "t.csv:3: usd_per_hour: '$0.4' is not a number; write a plain number"),
        ('p,eu,one,T4,1,"0,4",,USD,', "t.csv:3: usd_per_hour: '0,4' is not a number"),
        ("p,eu,one,T4,1,1_0,,USD,", "t.csv:3: usd_per_hour: '1_0' is not a number"),
        ("p,eu,one,T4,0.5,1,,USD,", "t.csv:3: gpus: '0.5' is not a whole number; write a whole number"),
        ("p,eu,one,T4,1,0.4,,EUR,", "t.csv:3: currency: prices in EUR; convert the prices to USD"),
        ("p,eu,one,T4,1,0.4,,USD,20.11.2026", "t.csv:3: date: '20.11.2026' is not a date; write it as 2024-05-31"),
        ("p,eu,one,T5,1,0.4,,USD,", "t.csv:3: gpu: unknown GPU 'T5'"),
        ("p,eu,one,T4,1,,,USD,", "t.csv:3: an offer without a price"),
        ("p,eu,one,,1,0.4,,USD,", "t.csv:3: gpu: the name of its 1 GPUs is missing"),
        (",eu,one,T4,1,0.4,,USD,", "t.csv:3: provider: is missing; add it"),
        (ROW.replace("0.4", "0.5"), "t.csv:3: p/eu/one: the same machine as on line 2; keep one of them"),
    ],
)
def test_a_bad_cell_is_told_with_line_and_column(row: str, fault: str) -> None:
    """The good row above it is read all the same."""
    offers, (only,) = read(f"{HEADER}\n{ROW}\n{row}\n")
    assert only.startswith(fault)
    assert len(offers) == 1


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        ("provider,gpu,gpus,price", "t.csv:1: price: unknown column; did you mean usd_per_hour?"),
        ("provider,gpu,gpus,usd_per_hr", "t.csv:1: usd_per_hr: unknown column; did you mean usd_per_hour"),
        ("provider,gpu,count,usd_per_hour", "t.csv:1: count: unknown column; did you mean gpus?"),
        ("provider,gpu,gpus,notes", "t.csv:1: usd_per_hour: no column has a price"),
        (
            "region,gpu,gpus,usd_per_hour",
            "t.csv:1: provider: the column is missing; add it, or import the file with --provider",
        ),
    ],
)
def test_a_column_that_is_missing_or_renamed_is_told(header: str, fault: str) -> None:
    """No row is read then: a fault per row would say nothing new."""
    offers, faults = read(f"{header}\np,T4,1,0.4\n")
    assert not offers
    assert any(one.startswith(fault) for one in faults)


def test_all_faults_of_a_file_are_told_at_once() -> None:
    """In the order of its lines."""
    _, faults = read(f"{HEADER}\np,eu,one,T5,1,nan,,USD,\n{ROW}\np,eu,two,T4,1,-1,,EUR,soon\n")
    assert [fault.split(": ")[0] for fault in faults] == ["t.csv:2", "t.csv:4"]
    _, faults = read(f"{HEADER}\np,eu,one,T5,1,1,,USD,\n{ROW}\np,eu,two,T4,1,-1,,EUR,\n")
    assert [fault.split(": ")[:2] for fault in faults] == [
        *(["t.csv:2", "gpu"], ["t.csv:4", "currency"], ["t.csv:4", "usd_per_hour"])
    ]


def test_a_csv_file_is_an_inventory_of_a_scenario(tmp_path: Path) -> None:
    """Beside YAML files; its faults name its own lines."""
    (tmp_path / "m.csv").write_text(f"{HEADER}\n{ROW}\n")
    text = GOOD.replace("jobs:", "inventory: [m.csv]\njobs:")
    scenario = parse_scenario(text, tmp_path)
    assert scenario.offers[0].label == "p/eu/one"
    (tmp_path / "m.csv").write_text(f"{HEADER}\n{ROW.replace('0.4', 'x')}\n")
    with pytest.raises(Exception, match=r"m\.csv:2: usd_per_hour: 'x' is not a number"):
        parse_scenario(text, tmp_path)


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp")), min_size=1, max_size=8)
PRICE = st.none() | st.floats(0, 1e9, allow_nan=False)


@st.composite
def offers(draw: Any) -> Offer:
    """Return an offer of any machine with GPUs."""
    on_demand = draw(PRICE)
    return Offer(
        provider="my-" + draw(TEXT),  # of a known provider the link between GPUs may be known
        region=draw(TEXT),
        instance=draw(TEXT),
        gpu=draw(st.sampled_from(("T4", "H100-80GB", "RTX4090"))),
        gpus=draw(st.integers(1, 16)),
        usd_per_hour=on_demand,
        spot_usd_per_hour=draw(PRICE if on_demand is not None else PRICE.filter(lambda price: price is not None)),
        stock=draw(st.none() | st.integers(0, 100)),
        community=draw(st.booleans()),
        notes=draw(TEXT),
    )


@pytest.mark.slow
@given(st.lists(offers(), min_size=1, max_size=5, unique_by=machine_key))
def test_offers_that_are_written_are_read_as_they_were(written: list[Offer]) -> None:
    """The price book rests on it."""
    text = offer_table_text(written)
    assert next(csv.reader(io.StringIO(text))) == list(TABLE_COLUMNS)
    found, faults = read(text)
    assert not faults
    assert list(found) == written


def test_more_offers_than_can_be_read_in_time_are_refused_with_their_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row that is one too many is named, once."""
    monkeypatch.setattr(offer_table, "MAX_FILE_OFFERS", 3)
    rows = "".join(f"a,m{number},L4,1,1.0\n" for number in range(5))
    faults: list[Fault] = []
    read_offer_table(parse_csv("provider,instance,gpu,gpus,usd_per_hour\n" + rows, "t.csv"), faults)
    assert [str(fault).partition(";")[0] for fault in faults] == ["t.csv:5: more than 3 offers"]

"""Hugging Face's machines for jobs, as its package and its interface write them."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from planner.catalogs.catalog import JOB_FLAVORS, read_catalog
from planner.catalogs.live import fetch_prices
from planner.errors import InputError

DAY = datetime.date(2026, 11, 20)


def flavor(name: str, gpu: str = "", quantity: str = "1", vram: str = "24 GB", **facts: Any) -> dict[str, Any]:
    """Return a machine as the interface lists it."""
    accelerator = {"type": "gpu", "model": gpu, "quantity": quantity, "vram": vram, "manufacturer": "Nvidia"}
    return {
        **{
            "name": name,
            "prettyName": name,
            "cpu": "12 vCPU",
            "ram": "46 GB",
            "accelerator": accelerator if gpu else None,
        },
        **{"unitCostMicroUSD": 20000, "unitCostUSD": 0.02, "unitLabel": "minute"},
        **facts,
    }


def write(folder: Path, *machines: Any) -> str:
    path = folder / "flavors.json"
    path.write_text(json.dumps(list(machines), indent=1))
    return str(path)


def test_machines_are_offers_by_the_hour(tmp_path: Path) -> None:
    """The price is per minute, counts are text, and the memory is that of all GPUs."""
    file = write(tmp_path, flavor("cpu-basic"), flavor("l4x1", "L4"), flavor("l40sx4", "L40S", "4", "192 GB"))
    found = read_catalog(file, date=DAY)
    one, four = found.offers
    assert (found.kind, one.provider, one.instance, one.gpu, one.gpus) == (JOB_FLAVORS, "huggingface", "l4x1", "L4", 1)
    assert (one.usd_per_hour, one.cpu_cores, one.ram_gb, one.region) == (pytest.approx(1.2), 12, 46, "any")
    assert (four.gpu, four.gpus, four.usd_per_hour) == ("L40S", 4, pytest.approx(1.2))
    assert {reason: (left.rows, left.line) for reason, left in found.read.left_out.items()} == {"no GPU": (1, 2)}


def test_keys_of_the_package_and_other_units_read_the_same(tmp_path: Path) -> None:
    """`unit_cost_usd` in place of `unitCostUSD`; a price per second or per hour."""
    plain = {
        "name": "a",
        "unit_cost_usd": 0.001,
        "unit_label": "second",
        "accelerator": flavor("x", "T4", vram="16 GB")["accelerator"],
    }
    found = read_catalog(write(tmp_path, plain, flavor("b", "L4", unitCostUSD=1.5, unitLabel="Hour")), date=DAY)
    assert [(one.gpu, one.usd_per_hour) for one in found.offers] == [("T4", pytest.approx(3.6)), ("L4", 1.5)]


def test_chips_that_are_unknown_and_forms_that_are_not_stated_are_counted(tmp_path: Path) -> None:
    """As for every other source."""
    machines = (flavor("a", "A100", "8", "640 GB"), flavor("n", "Inferentia2"), flavor("r", "RTX4090", "1", "48 GB"))
    found = read_catalog(write(tmp_path, *machines, flavor("free", "L4", unitCostUSD=0)), date=DAY)
    assert [one.gpu for one in found.offers] == ["A100-PCIe-80GB"]
    assert "form factor not stated" in found.offers[0].notes
    assert set(found.read.left_out) == {
        *("Inferentia2: it does not train", "no RTX4090 with 48 GiB is known", "no price (empty or 0.00)")
    }


@pytest.mark.parametrize(
    ("machines", "told"),
    [
        ([], "no list of machines"),
        (["l4x1"], "no list of machines"),
        ([{"name": "a"}], "a machine without unit_cost_usd and unit_label"),
        ([flavor("a", "L4", unitLabel="month")], "'month' is no unit of time that is known; expected second"),
        ([flavor("a", "L4", unitCostUSD=-1)], "price: -60 is negative"),
        ([flavor("a", "L4", unitCostUSD="free")], "price: 'free' is not a number"),
        ([flavor("a")], "no row is an offer: 1 no GPU"),
    ],
)
def test_a_list_that_is_none_is_told(tmp_path: Path, machines: list[Any], told: str) -> None:
    """With file and line, and never a traceback."""
    with pytest.raises(InputError) as error:
        read_catalog(write(tmp_path, *machines), date=DAY)
    assert told in str(error.value) and "flavors.json" in str(error.value)


def test_its_own_package_lists_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through its types; gpuhunt is not needed for it."""
    hub = pytest.importorskip("huggingface_hub")
    jobs = pytest.importorskip("huggingface_hub._jobs_api")
    if not hasattr(jobs, "JobHardwareInfo"):
        pytest.skip(f"huggingface_hub {hub.__version__} lists no machines")
    machines = [jobs.JobHardwareInfo(**flavor("l4x1", "L4")), jobs.JobHardwareInfo(**flavor("cpu"))]
    monkeypatch.setattr(hub, "list_jobs_hardware", lambda: machines, raising=False)
    (found,) = fetch_prices(["hf"], {}, 20)
    assert (found.provider, found.why_not) == ("huggingface", "")
    assert found.catalog is not None
    assert [(one.gpu, one.usd_per_hour) for one in found.catalog.offers] == [("L4", pytest.approx(1.2))]

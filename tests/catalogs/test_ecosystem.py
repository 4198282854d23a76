"""The same catalogs as gpuhunt and SkyPilot themselves read them: pytest -n0 -m ecosystem tests/catalogs."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from planner.catalogs.catalog import read_catalog
from tests.helpers.catalogs import SKYPILOT_HEADER, gpu_info, gpuhunt_row, skypilot_row, write_gpuhunt
from tests.helpers.environments import run_python

pytestmark = pytest.mark.ecosystem

SKYPILOT = "skypilot==0.14.1"
LIST = """
import json, sky
found = sky.catalog.list_accelerators(gpus_only=True, clouds={clouds}, all_regions=True)
rows = [(one.cloud, one.instance_type, one.region, one.accelerator_name, one.accelerator_count, one.price,
         one.spot_price) for listed in found.values() for one in listed]
print(json.dumps(rows))
"""


def test_gpuhunt_reads_the_same_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without network, from a folder of files; machines, GPUs, counts and both prices agree."""
    gpuhunt = pytest.importorskip("gpuhunt")
    rows = (
        *(gpuhunt_row("a", price="1.5"), gpuhunt_row("a", price="0.5", spot="True")),
        *(
            gpuhunt_row("b", gpu="T4", memory="16.0", price="0.7"),
            gpuhunt_row("c", gpu="A10G", price="0.2", spot="True"),
        ),
    )
    path = write_gpuhunt(tmp_path, *rows).rename(tmp_path / "aws.csv")
    monkeypatch.setenv("GPUHUNT_CATALOG_DIR", str(tmp_path))
    items = gpuhunt.Catalog(auto_reload=False).query(provider=["aws"])
    theirs = {(one.instance_name, one.location, one.gpu_name, one.gpu_count, one.spot, one.price) for one in items}
    ours = {
        (one.instance, one.region, one.gpu, one.gpus, spot, price)
        for one in read_catalog(str(path)).offers
        for spot, price in ((False, one.usd_per_hour), (True, one.spot_usd_per_hour))
        if price is not None
    }
    assert len(theirs) == len(rows)
    assert ours == theirs


def test_skypilot_reads_the_same_prices(tmp_path: Path) -> None:
    """From its own folder of catalogs, without network; 0.00 and an equal spot price are no spot price of ours."""
    rows = (
        skypilot_row("one", "L4", "1.0", gpu_info("L4", 1, 24576, 24576), "0.8", "0.3"),
        skypilot_row("one", "L4", "1.0", gpu_info("L4", 1, 24576, 24576), "0.9", "0.35").replace("eu-1", "us-1"),
        skypilot_row("eight", "H100-SXM", "8.0", gpu_info("H100", 8, 81920, 655360), "24.0", "24.0"),
        skypilot_row("free", "A10", "2.0", gpu_info("A10", 2, 24576, 49152), "2.0", "0.0"),
        skypilot_row("plain", "RTX4090", "4.0", "", "1.6"),
        skypilot_row("cpu", "", "", "", "0.1"),
    )
    clouds = ["lambda", "vast", "nebius"]
    ours = set()
    for cloud in clouds:
        path = tmp_path / ".sky" / "catalogs" / "v8" / cloud / "vms.csv"
        path.parent.mkdir(parents=True)
        header = SKYPILOT_HEADER.replace(",AvailabilityZone", "")
        path.write_text("\n".join([header, *(row.removesuffix(",") for row in rows), ""]))
        for one in read_catalog(str(path), date=datetime.date(2026, 11, 20)).offers:
            ours.add((cloud, one.instance, one.region, one.gpus, one.usd_per_hour, one.spot_usd_per_hour))
    theirs = set()
    for cloud, instance, region, _, count, price, spot in json.loads(
        run_python(SKYPILOT, LIST.format(clouds=clouds), tmp_path)
    ):
        usable = spot if spot == spot and 0 < spot < price else None  # NaN is none
        theirs.add((cloud.casefold(), instance, region, int(count), price, usable))
    assert len(theirs) == 4 * len(clouds)
    more = ours - theirs  # SkyPilot drops rows without GpuInfo, whose name says the GPU
    assert (theirs <= ours, {one[1] for one in more}, len(more)) == (True, {"plain"}, len(clouds))

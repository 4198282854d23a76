"""The same catalog as gpuhunt itself reads it: `pip install gpuhunt`, then pytest -m ecosystem tests/catalogs."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.catalogs.catalog import read_catalog
from tests.helpers.catalogs import gpuhunt_row, write_gpuhunt


@pytest.mark.ecosystem
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

"""Self-written answers of gpuhunt's published catalogs and of Vast.ai, for tests without a network."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

from tests.helpers.catalogs import GPUHUNT_HEADER

CATALOGS = "https://catalogs.test/v3"
"""Where tests publish catalogs: GPUHUNT_CATALOG_URL."""
VAST_URL = "https://console.vast.ai/api/v0/bundles/"


def catalog_zip(provider: str, *rows: str) -> bytes:
    """Return a published catalog: a zip with one CSV."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:  # of 1980, so that bytes follow no clock
        file = zipfile.ZipInfo(f"{provider}.csv")
        archive.writestr(file, "\n".join([GPUHUNT_HEADER, *rows, ""]), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def vast_offer(number: int, **facts: Any) -> dict[str, Any]:
    """Return a machine as Vast.ai lists it: 2 x RTX 4090 on demand for $0.80, from $0.30 on spot."""
    return {
        **{"id": number, "gpu_name": "RTX 4090", "num_gpus": 2, "gpu_ram": 24564, "geolocation": "Norway, NO"},
        **{"cpu_cores": 64, "cpu_cores_effective": 32.0, "cpu_ram": 128_000, "disk_space": 100.0, "storage_cost": 0.0},
        **{"dph_base": 0.8, "min_bid": 0.3, "rentable": True, "rented": False},
        **facts,
    }


def vast_answer(*offers: dict[str, Any]) -> str:
    """Return the JSON that Vast.ai answers with."""
    return json.dumps({"offers": list(offers)})

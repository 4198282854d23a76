"""Catalogs of SkyPilot and gpuhunt and plain CSV files, with the traps that are in the published ones."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pytest

from planner.catalogs.catalog import GPUHUNT, PLAIN_TABLE, SKYPILOT, TEMPLATE, Catalog, read_catalog
from planner.errors import InputError
from planner.scenario.offer import Offer
from tests.helpers.catalogs import gpu_info, gpuhunt_row, skypilot_row, write_gpuhunt, write_skypilot

DAY = datetime.date(2026, 11, 20)


def skypilot(folder: Path, *rows: str) -> Catalog:
    return read_catalog(str(write_skypilot(folder, *rows)), date=DAY)


def gpuhunt(folder: Path, *rows: str) -> Catalog:
    return read_catalog(str(write_gpuhunt(folder, *rows)), date=DAY)


def only(found: Catalog) -> Offer:
    (offer,) = found.offers
    return offer


def reasons(found: Catalog) -> dict[str, tuple[int, int]]:
    """Return rows and first line of each reason."""
    return {reason: (one.rows, one.line) for reason, one in found.read.left_out.items()}


def told(path: Path, **options: str) -> list[str]:
    """Return the faults of a file, without its folder."""
    with pytest.raises(InputError) as error:
        read_catalog(str(path), **options)
    return [str(fault).replace(f"{path.parent}/", "") for fault in error.value.faults]


def test_a_row_of_skypilot_is_an_instance_with_both_prices(tmp_path: Path) -> None:
    """Prices are per instance; provider from the folder; the day, the source and no stock."""
    info = gpu_info("H100", 8, 81920, 655360)
    found = skypilot(tmp_path, f"p5.48xlarge,H100,8.0,192.0,2048.0,{info},55.0,20.5,us-1,us-1a")
    offer = only(found)
    assert (found.kind, offer.provider, offer.region, offer.instance) == (SKYPILOT, "aws", "us-1a", "p5.48xlarge")
    assert (offer.gpu, offer.gpus, offer.usd_per_hour, offer.spot_usd_per_hour) == ("H100-80GB", 8, 55.0, 20.5)
    assert (offer.cpu_cores, offer.ram_gb, offer.stock) == (192, 2199.0, None)
    assert (offer.date, offer.source) == (DAY, "SkyPilot catalog, aws, vms.csv")


def test_columns_are_read_by_name_in_any_order(tmp_path: Path) -> None:
    """Clouds order them differently, and some have no zones."""
    path = tmp_path / "x.csv"
    path.write_text("Region,SpotPrice,Price,AcceleratorCount,InstanceType,AcceleratorName\neu,0.5,1.5,2.0,m,L4\n")
    offer = only(read_catalog(str(path), "lambdalabs", DAY))
    assert (offer.provider, offer.region, offer.instance, offer.gpus) == ("lambda", "eu", "m", 2)
    assert (offer.usd_per_hour, offer.spot_usd_per_hour) == (1.5, 0.5)


@pytest.mark.parametrize(
    ("gpu", "count", "info", "name"),
    [
        ("A100-SXM", 8, gpu_info("A100", 8, 40960, 8 * 40960), "A100-40GB"),  # both as they should be
        ("A100-SXM", 8, gpu_info("A100", 8, None, 8 * 81920), "A100-80GB"),  # of the instance
        ("A100-SXM", 8, gpu_info("A100", 8, None, 40960), "A100-40GB"),  # of one GPU
        ("A100-SXM", 4, gpu_info("A100", 4, 4 * 81920, 4 * 81920), "A100-80GB"),  # the size that of the instance
        ("A100-80GB-SXM", 2, gpu_info("A100", 2, 80, 160), "A100-80GB"),  # GB in spite of the name
        ("A100-80GB-SXM", 2, "", "A100-80GB"),  # no GpuInfo: the name alone
        ("A100-80GB-SXM", 2, "\"{'Gpus': [\"", "A100-80GB"),  # cut off
        ("A100-80GB-SXM", 2, "nan", "A100-80GB"),
        ("A100-80GB-SXM", 2, "__import__('os')", "A100-80GB"),  # text, never code
        ("RTX4090", 1, gpu_info("RTX4090", 1, 24576, 24576), "RTX4090"),
    ],
)
def test_memory_is_that_of_one_gpu_or_of_all_of_them(
    tmp_path: Path, gpu: str, count: int, info: str, name: str
) -> None:
    """GpuInfo is text, in more than one meaning, and may be missing."""
    assert only(skypilot(tmp_path, skypilot_row(gpu=gpu, count=f"{count}.0", info=info))).gpu == name


@pytest.mark.parametrize(
    ("instance", "gpu", "count", "mib", "name"),
    [
        ("1x-H100_NVL-32-65536", "H100", 1, 95830, "H100-NVL-94GB"),
        ("2x-H100_NVL-32-65536", "H100", 2, 191660, "H100-NVL-94GB"),
        ("8x-H100_SXM-32-65536", "H100", 8, 652472, "H100-80GB"),
        ("1x-A100_PCIE-32-65536", "A100", 1, 81920, "A100-PCIe-80GB"),
        ("2x-A100_SXM4-32-65536", "A100", 2, 81920, "A100-40GB"),
        ("2x-RTX_4090-32-65536", "RTX4090", 2, 49128, "RTX4090"),
        ("1x-RTX_PRO_6000_S-32-65536", "RTXPRO6000S", 1, 97887, "RTXPRO6000-96GB"),
        ("8x-Tesla_V100-32-65536", "V100", 8, 131072, "V100-16GB"),
        ("2x-RTX_3060_Ti-32-65536", "RTX3060", 2, 16384, "RTX3060Ti"),
        ("2x-RTX_3050-32-65536", "RTX3060", 2, 16384, "no RTX3060 with 8 GiB is known"),
        ("2x-RTX_4070S_Ti-32-65536", "RTX4070", 2, 32752, "RTX4070TiSUPER"),
        ("1x-RTX_4090D-32-65536", "RTX4090", 1, 24576, "RTX4090D"),
        ("1x-RTX_4060_Ti-32-65536", "RTX4060", 1, 8192, "RTX4060Ti-8GB"),
        ("1x-RTX_4060_Ti-32-65536", "RTX4060", 1, 16384, "RTX4060Ti"),
    ],
)
def test_a_marketplace_lists_the_memory_of_all_gpus_and_the_form_in_the_instance(
    tmp_path: Path, instance: str, gpu: str, count: int, mib: int, name: str
) -> None:
    """Under the size of one GPU; its short names hide that a card is another one, which the memory shows."""
    info = gpu_info(gpu, count, mib, mib)
    found = skypilot(tmp_path, skypilot_row(), f'{instance},{gpu},{count},32,64.0,{info},2.0,0.00,", US, NA",')
    if name.startswith("no "):
        assert reasons(found) == {name: (1, 3)}
    else:
        offer = found.offers[1]
        assert (offer.gpu, offer.gpus, offer.region, offer.notes) == (name, count, "US, NA", "")


def test_a_null_of_json_in_the_dictionary_hides_no_memory(tmp_path: Path) -> None:
    """The name says 24 GB, the dictionary 48."""
    info = gpu_info("RTX4090", 1, 49152).replace("'NVIDIA'", "null")
    found = skypilot(tmp_path, skypilot_row(), skypilot_row("m-2", "RTX4090", "1.0", info))
    assert reasons(found) == {"no RTX4090 with 48 GiB is known": (1, 3)}


def test_a_link_that_the_name_states_is_kept(tmp_path: Path) -> None:
    """A bridge between PCIe boards; one GPU alone has no link."""
    rows = [skypilot_row(f"n3-A100x{count}", "A100-80G-PCIe-NVLink", str(count)) for count in (8, 1)]
    eight, one = skypilot(tmp_path, *rows, skypilot_row("n3-A100x8", "A100-80G-PCIe", "8")).offers[:2]
    assert (eight.gpu, eight.interconnect, one.interconnect) == ("A100-PCIe-80GB", "nvlink", None)


def test_a_modified_card_of_two_is_not_taken_for_two_plain_ones(tmp_path: Path) -> None:
    """Two RTX 4090 of 48 GB have 96 GB, so that 48 GB is not the memory of both."""
    info = gpu_info("RTX4090", 2, 49152, 98304)
    found = skypilot(tmp_path, skypilot_row(), skypilot_row("m-2", "RTX4090", "2.0", info))
    assert reasons(found) == {"no RTX4090 with 48 GiB is known": (1, 3)}


@pytest.mark.parametrize(
    ("price", "spot", "on_demand", "on_spot"),
    [
        ("1.0", "0.00", 1.0, None),  # not known, and not free
        ("0.0", "0.4", None, 0.4),
        ("", "0.4", None, 0.4),
        ("1.0", "", 1.0, None),
        ("1.0", "1.0", 1.0, None),  # no discount
        ("1.0", "1.3", 1.0, None),
        ("1.0", "0.99", 1.0, 0.99),
    ],
)
def test_zero_is_unknown_and_an_equal_spot_price_no_discount(
    tmp_path: Path, price: str, spot: str, on_demand: float | None, on_spot: float | None
) -> None:
    """A spot price of nothing would win every plan."""
    offer = only(skypilot(tmp_path, skypilot_row(price=price, spot=spot)))
    assert (offer.usd_per_hour, offer.spot_usd_per_hour) == (on_demand, on_spot)


@pytest.mark.parametrize(
    ("region", "zone", "told"),
    [
        ("us-east-1", "use1-az4", "us-east-1/use1-az4"),  # AWS's identifiers, which are the same for everybody
        ("us-east1", "us-east1-b", "us-east1-b"),
        ("us-east-1", "", "us-east-1"),
        ("", "z", "z"),
        ('", US"', "", "US"),
        ("", "", "any"),
    ],
)
def test_a_zone_keeps_its_region(tmp_path: Path, region: str, zone: str, told: str) -> None:
    """Where its name does not say it; a limit on regions and a launcher know the region only."""
    row = f"m-1,L4,1.0,8.0,32.0,,1.0,,{region},{zone}"
    assert only(skypilot(tmp_path, row)).region == told


def test_rows_of_many_regions_say_nothing_of_stock(tmp_path: Path) -> None:
    """Catalogs list every type in every region: each is an offer of unknown stock."""
    rows = [skypilot_row().replace("eu-1", f"region-{number}") for number in range(5)]
    found = skypilot(tmp_path, *rows)
    assert len(found.offers) == 5
    assert all(offer.stock is None for offer in found.offers)


def test_rows_that_are_no_machine_with_gpus_are_counted_by_reason(tmp_path: Path) -> None:
    """With the line of the first; the rest is read."""
    rows = [
        skypilot_row("cpu-1", "", ""),
        skypilot_row("cpu-2", "", ""),
        skypilot_row("tpu", "tpu-v5e-8"),
        skypilot_row("part", "L4", "0.5"),
        skypilot_row("free", "L4", price="0.0", spot="0.0"),
        skypilot_row(),
        skypilot_row(),
        skypilot_row(price="1.2"),
    ]
    found = skypilot(tmp_path, *rows)
    assert reasons(found) == {
        "no GPU": (2, 2),
        "unknown GPU tpu-v5e-8": (1, 4),
        "a fraction of a GPU": (1, 5),
        "no price (empty or 0.00)": (1, 6),
        "a repeated row": (1, 8),
        "the same machine at another price: the higher one is kept": (1, 9),
    }
    assert only(found).usd_per_hour == 1.2


def test_both_rows_of_gpuhunt_are_one_offer(tmp_path: Path) -> None:
    """On demand and spot stand in separate rows; the provider is the name of the file."""
    found = gpuhunt(tmp_path, gpuhunt_row(price="1.5"), gpuhunt_row(price="0.5", spot="True"))
    offer = only(found)
    assert (found.kind, offer.provider, offer.region, offer.gpu) == (GPUHUNT, "vast", "eu-1", "L4")
    assert (offer.usd_per_hour, offer.spot_usd_per_hour, offer.ram_gb) == (1.5, 0.5, 32)


def test_memory_of_gpuhunt_is_in_gib_where_its_provider_states_gib(tmp_path: Path) -> None:
    """32 GiB of AWS are 34.4 GB, as in SkyPilot's catalog; what others call GB is read as GB."""
    path = str(write_gpuhunt(tmp_path, gpuhunt_row()))
    found = {name: only(read_catalog(path, provider=name, date=DAY)).ram_gb for name in ("aws", "vast")}
    assert found == {"aws": 34.4, "vast": 32}


def test_gpuhunt_has_rows_on_spot_only_equal_prices_and_machines_without_gpu(tmp_path: Path) -> None:
    """The traps of the other catalog are in this one too."""
    rows = [
        gpuhunt_row("a", price="0.5", spot="True"),
        *(gpuhunt_row("b", price="0.7"), gpuhunt_row("b", price="0.7", spot="True")),
        *(gpuhunt_row("c", gpu="", memory=""), gpuhunt_row("d", gpu="RTX4090", memory="48.0")),
        gpuhunt_row("e", gpu="A100", memory="80.0"),
    ]
    found = gpuhunt(tmp_path, *rows)
    prices = {offer.instance: (offer.usd_per_hour, offer.spot_usd_per_hour) for offer in found.offers}
    assert prices == {"a": (None, 0.5), "b": (0.7, None), "e": (1.0, None)}
    assert reasons(found) == {"no GPU": (1, 5), "no RTX4090 with 48 GiB is known": (1, 6)}
    assert found.offers[-1].gpu == "A100-PCIe-80GB"
    assert "form factor not stated" in found.offers[-1].notes


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (skypilot_row(price="nan"), "vms.csv:3: Price: 'nan' is not a finite number; correct the row or leave it out"),
        (skypilot_row(price="-1.0"), "vms.csv:3: Price: -1.0 is negative; it must be at least 0"),
        (skypilot_row(spot="1,5".join('""')), "vms.csv:3: SpotPrice: '1,5' is not a number"),
        (skypilot_row(price="€1"), "vms.csv:3: Price: '€1' is not a number"),
        (skypilot_row(price="1e12"), "vms.csv:3: usd_per_hour: 1000000000000.0 is out of range"),
        (skypilot_row(count="-8.0"), "vms.csv:3: AcceleratorCount: -8.0 is negative"),
        (skypilot_row()[:20], "vms.csv:3: 6 cells in a table of 10 columns; the file may be cut off"),
    ],
)
def test_what_is_no_price_is_a_fault_with_its_line(tmp_path: Path, row: str, fault: str) -> None:
    """A file with a fault is not read at all: nobody knows what else is wrong with it."""
    path = write_skypilot(tmp_path, skypilot_row("good"), row)
    assert [one[: len(fault)] for one in told(path)] == [fault]


def test_a_column_of_a_catalog_that_is_missing_or_renamed_is_named(tmp_path: Path) -> None:
    """The others are recognised still."""
    path = write_skypilot(tmp_path, skypilot_row())
    path.write_text(path.read_text().replace(",Price,", ",HourlyPrice,"))
    (fault,) = told(path)
    assert fault.startswith("vms.csv:1: Price: a SkyPilot catalog without this column; it has InstanceType,")
    path = write_gpuhunt(tmp_path, gpuhunt_row(spot="maybe"))
    assert told(path) == ["vastai.csv:2: spot: 'maybe' is neither; gpuhunt writes True or False"]
    path.write_text(path.read_text().replace(",spot,", ",preemptible,"))
    (fault,) = told(path)
    assert fault.startswith("vastai.csv:1: spot: a gpuhunt catalog without this column")


@pytest.mark.parametrize("spot", ["", "spot_"])
def test_a_column_in_another_currency_asks_for_dollars(tmp_path: Path, spot: str) -> None:
    """Renaming it would be the wrong cure."""
    path = tmp_path / "x.csv"
    path.write_text(f"provider,gpu,gpus,{spot}eur_per_hour\np,L4,1,1.0\n")
    fix = f"convert the prices from EUR to USD and call the column {spot}usd_per_hour"
    assert told(path)[0] == f"x.csv:1: {spot}eur_per_hour: unknown column; {fix}"


def test_a_file_of_something_else_is_refused_by_its_columns(tmp_path: Path) -> None:
    """An HTML page of an error among them."""
    path = tmp_path / "x.csv"
    path.write_text("step,loss\n1,2\n")
    (fault,) = told(path)
    assert fault.startswith("x.csv:1: columns of no known catalog: step, loss; give a CSV file like planner offers")
    path.write_text("<html>\n<body>error 500</body>\n")
    (fault,) = told(path)
    assert fault.startswith("x.csv:1: columns of no known catalog: <html>")


def test_a_catalog_without_a_provider_asks_for_it(tmp_path: Path) -> None:
    """It is not guessed from any name of a folder."""
    path = write_gpuhunt(tmp_path, gpuhunt_row()).rename(tmp_path / "download.csv")
    assert told(path) == ["download.csv: a gpuhunt catalog does not name its provider; give it: --provider NAME"]
    assert only(read_catalog(str(path), "datacrunch", DAY)).provider == "verda"


def test_a_catalog_without_any_offer_is_a_fault_with_the_reasons(tmp_path: Path) -> None:
    """An empty file would replace one that is good."""
    (fault,) = told(write_skypilot(tmp_path, skypilot_row("cpu", "", ""), skypilot_row(price="0")))
    assert fault.startswith("vms.csv: no row is an offer: 1 no GPU; 1 no price (empty or 0.00)")


def test_the_template_is_a_file_that_can_be_read(tmp_path: Path) -> None:
    """Every column of it is known, and both of its rows are offers with their own day and source."""
    path = tmp_path / "t.csv"
    path.write_text(TEMPLATE)
    found = read_catalog(str(path))
    assert found.kind == PLAIN_TABLE and len(found.offers) == 2 and not found.read.left_out
    assert {(offer.date, offer.source) for offer in found.offers} == {(DAY, "offer by mail")}


def test_a_plain_file_needs_few_columns_and_has_the_same_traps(tmp_path: Path) -> None:
    """The provider may come from outside; the day is that of the file where nothing says another."""
    path = tmp_path / "t.csv"
    path.write_text("gpu,gpus,usd_per_hour,spot_usd_per_hour\nT4,1,0.5,0.5\nT5,1,1,\nL4,1,0,\nL4,2,0,0.3\n")
    moment = datetime.datetime(2026, 3, 1, 12).timestamp()
    os.utime(path, (moment, moment))
    found = read_catalog(str(path), "my-cloud")
    assert [(one.gpu, one.usd_per_hour, one.spot_usd_per_hour) for one in found.offers] == [
        *(("T4", 0.5, None), ("L4", None, 0.3))
    ]
    assert reasons(found) == {"unknown GPU T5": (1, 3), "no price (empty or 0.00)": (1, 4)}
    assert {(one.provider, one.date, one.source) for one in found.offers} == {
        ("my-cloud", datetime.date(2026, 3, 1), "t.csv")
    }
    assert found.date_is_of_file


def test_an_import_has_no_price_at_which_nobody_sells(tmp_path: Path) -> None:
    """GCP sells a part of an H100 machine on spot alone; Azure and AWS have retired their V100 of 16 GB."""
    reason = "a3-highgpu-1g: sold on spot and as flex-start only"
    rows = [
        gpuhunt_row("a3-highgpu-1g", "H100", "80.0", "11.0"),
        gpuhunt_row("a3-highgpu-1g", "H100", "80.0", "5.5", "True"),
        gpuhunt_row("a3-highgpu-8g", "H100", "80.0", "88.0"),
    ]
    found = read_catalog(str(write_gpuhunt(tmp_path, *rows)), "google", DAY)
    prices = {offer.instance: (offer.usd_per_hour, offer.spot_usd_per_hour) for offer in found.offers}
    assert prices == {"a3-highgpu-1g": (None, 5.5), "a3-highgpu-8g": (88.0, None)}
    assert found.read.notes[f"{reason}, its price on demand is left out"] == 1
    found = read_catalog(str(write_gpuhunt(tmp_path, rows[0], rows[2])), "gcp", DAY)
    assert reasons(found) == {reason: (1, 2)}
    retired = skypilot_row("p3.2xlarge", "V100", price="3.06", spot="0.9")
    found = skypilot(tmp_path, retired, skypilot_row())
    assert reasons(found) == {"p3.2xlarge: no longer in the list of instance types": (1, 2)}
    path = tmp_path / "mine.csv"
    path.write_text(
        "provider,instance,gpu,gpus,usd_per_hour,spot_usd_per_hour\n"
        "Azure,standard_nc6s_v3,V100-16GB,1,3.06,\n"
        "GCE,a3-highgpu-2g,H100-80GB,2,22.0,30.0\n"  # dearer than the price that is none
        "aws,p3dn.24xlarge,V100-32GB,8,31.0,\n"
    )
    found = read_catalog(str(path), date=DAY)
    prices = {offer.instance: (offer.usd_per_hour, offer.spot_usd_per_hour) for offer in found.offers}
    assert prices == {"a3-highgpu-2g": (None, 30.0), "p3dn.24xlarge": (31.0, None)}
    assert reasons(found) == {"standard_nc6s_v3: retired on 2025-09-30": (1, 2)}


GCP_HEADER = (
    "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,AvailabilityZone,Price,SpotPrice"
)


def gcp(folder: Path, *rows: str) -> Catalog:
    """Read a catalog of GCP in SkyPilot's form: machines and accelerators in rows of their own."""
    path = folder / "gcp" / "vms.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join([GCP_HEADER, *rows, ""]), encoding="utf-8")
    return read_catalog(str(path), date=DAY)


def host(name: str, cores: float, gib: float, price: object, spot: object = "", zone: str = "us-central1-a") -> str:
    """Return a row of a machine without accelerators."""
    return f"{name},{cores},{gib},,,,{zone[:-2]},{zone},{price},{spot}"


def accelerator(name: str, count: int, price: object, spot: object = "", zone: str = "us-central1-a") -> str:
    """Return a row of accelerators without a machine."""
    return f",,,{name},{count}.0,,{zone[:-2]},{zone},{price},{spot}"


def test_accelerators_of_gcp_are_sold_with_their_machine(tmp_path: Path) -> None:
    """Both prices are sums; memory, cores and form are those of the machine."""
    found = gcp(
        tmp_path,
        host("a2-highgpu-1g", 12, 85, 0.75, 0.25),
        accelerator("A100", 1, 3.0, 1.25),
        host("a2-highgpu-8g", 96, 680, 6.0),
        accelerator("A100", 8, 24.0, 10.0),  # no spot price of the machine
        host("g2-standard-8", 8, 32, 0.5, 0.25),
        host("g2-standard-4", 4, 16, 0.25, 0.125),
        accelerator("L4", 1, 0.5, 0.25),
        host("a3-megagpu-8g", 208, 1872, 10.0, 3.0),
        accelerator("H100-MEGA", 8, 80.0, 20.0),
    )
    assert [(o.instance, o.gpu, o.gpus, o.usd_per_hour, o.spot_usd_per_hour) for o in found.offers] == [
        ("a2-highgpu-1g", "A100-40GB", 1, 3.75, 1.5),
        ("a2-highgpu-8g", "A100-40GB", 8, 30.0, None),
        ("g2-standard-4", "L4", 1, 0.75, 0.375),
        ("a3-megagpu-8g", "H100-80GB", 8, 90.0, 23.0),
    ]
    assert [(offer.cpu_cores, offer.ram_gb, offer.region) for offer in found.offers[:1]] == [
        (12, 91.3, "us-central1-a")
    ]
    assert reasons(found) == {"no GPU": (5, 2)}


def test_a_machine_is_looked_for_in_the_zone_of_the_accelerator(tmp_path: Path) -> None:
    """N1 has the cheapest with enough cores and memory; without a machine no price is guessed."""
    found = gcp(
        tmp_path,
        host("n1-standard-4", 4, 15, 0.19),  # four GiB for each of four cores are 16
        host("n1-highmem-4", 4, 26, 0.24, 0.05),
        host("n1-standard-8", 8, 30, 0.38, 0.08),
        host("n2-standard-8", 8, 32, 0.1),  # takes no accelerator
        host("n1-standard-8", 8, 30, 0.3, zone="us-east1-b"),
        accelerator("T4", 1, 0.35, 0.11),
        accelerator("T4", 1, 0.35, zone="us-west1-a"),
        accelerator("A100", 1, 2.93),
        accelerator("A100", 3, 8.8),
        accelerator("X99", 1, 1.0),
    )
    assert [(one.instance, one.usd_per_hour, one.spot_usd_per_hour) for one in found.offers] == [
        ("n1-highmem-4", 0.59, 0.16)
    ]
    alone = "without a price of the machine that it is attached to"
    assert reasons(found) == {
        "no GPU": (5, 2),
        f"T4 {alone}": (1, 8),
        f"A100 {alone}": (2, 9),
        "unknown GPU X99": (1, 11),
    }


def test_a_price_of_flex_start_is_none_on_demand(tmp_path: Path) -> None:
    """It stands in the same column, at about half; a region that is merely cheaper is not taken for it."""
    a2, a3 = (host("a2-ultragpu-1g", 12, 170, 1.0, 0.5, zone) for zone in ("us-central1-a", "us-east5-a"))
    found = gcp(
        tmp_path,
        *(a2, a3),
        accelerator("A100-80GB", 1, 1.8462, 1.964),
        accelerator("A100-80GB", 1, 4.4242, 1.3356, "us-east5-a"),
        host("a3-highgpu-8g", 208, 1872, 9.5, 2.5),
        accelerator("H100", 8, 33.6, 23.9),
        host("a3-highgpu-8g", 208, 1872, 9.5, 2.5, "us-east4-a"),
        accelerator("H100", 8, 78.4, 17.9, "us-east4-a"),
        host("g2-standard-4", 4, 16, 0.25, "", "us-east1-b"),
        accelerator("L4", 1, 0.56, "", "us-east1-b"),
        host("g2-standard-4", 4, 16, 0.25, "", "southamerica-east1-b"),
        accelerator("L4", 1, 0.88, "", "southamerica-east1-b"),
    )
    assert {(one.gpu, one.region): (one.usd_per_hour, one.spot_usd_per_hour) for one in found.offers} == {
        ("A100-80GB", "us-central1-a"): (None, 2.464),
        ("A100-80GB", "us-east5-a"): (5.4242, 1.8356),
        ("H100-80GB", "us-central1-a"): (None, 26.4),
        ("H100-80GB", "us-east4-a"): (87.9, 20.4),
        ("L4", "us-east1-b"): (0.81, None),
        ("L4", "southamerica-east1-b"): (1.13, None),
    }
    (note,) = [text for text in found.read.notes if "flex-start" in text]
    assert found.read.notes[note] == 2


def test_a_reservation_by_the_calendar_is_not_on_demand(tmp_path: Path) -> None:
    """gpuhunt lists it with `spot` false and a flag."""
    row = gpuhunt_row("a3-highgpu-8g", "H100", "80.0", "35.0").replace("[]", "\"['gcp-dws-calendar-mode']\"")
    path = write_gpuhunt(tmp_path, row, gpuhunt_row("a3-highgpu-8g", "H100", "80.0", "88.0"))
    found = read_catalog(str(path), "gcp", DAY)
    assert only(found).usd_per_hour == 88.0
    assert reasons(found) == {"a price of capacity that is reserved by the calendar": (1, 2)}


@pytest.mark.parametrize(
    ("name", "gpu", "chips", "instance"),
    [
        ("tpu-v6e-8", "TPU-v6e", 8, "v6e-8"),
        ("tpu-v5litepod-256", "TPU-v5e", 256, "v5litepod-256"),
        ("tpu-v5e-4", "TPU-v5e", 4, "v5litepod-4"),
        ("tpu-v5p-8", "TPU-v5p", 4, "v5p-8"),  # its number counts TensorCores
        ("tpu-v4-16", "TPU-v4", 8, "v4-16"),
    ],
)
def test_a_slice_of_tpus_is_a_machine_of_its_chips(
    tmp_path: Path, name: str, gpu: str, chips: int, instance: str
) -> None:
    """Its price is that of all chips and hosts, although the number of accelerators is 1."""
    offer = only(gcp(tmp_path, accelerator(name, 1, 9.6)))
    assert (offer.gpu, offer.gpus, offer.instance, offer.usd_per_hour) == (gpu, chips, instance, 9.6)
    assert offer.interconnect == "ici"


@pytest.mark.parametrize("name", ["tpu-v6e-8", "tpu-v5litepod-256", "tpu-v5p-11776"])
def test_a_price_that_stands_for_none_is_none(tmp_path: Path, name: str) -> None:
    """700.00 for a slice of any size; so does any price that slices of three sizes share."""
    found = gcp(tmp_path, host("a2-highgpu-1g", 12, 85, 0.7), accelerator("A100", 1, 2.9), accelerator(name, 1, 700.0))
    assert only(found).gpu == "A100-40GB"
    assert reasons(found) == {"no GPU": (1, 2), "$700.0 an hour for slices of every size, which is no price": (1, 4)}
    shared = [accelerator(f"tpu-v6e-{size}", 1, 555.0) for size in (4, 8, 16)]
    assert only(gcp(tmp_path, *shared, accelerator("tpu-v5e-8", 1, 9.6))).gpu == "TPU-v5e"


@pytest.mark.parametrize("name", ["v6e-8", "tpu-v9-8", "tpu-v6e-x"])
def test_a_tpu_of_an_unknown_name_is_left_out(tmp_path: Path, name: str) -> None:
    """Of which neither the chip nor their number is known."""
    found = gcp(tmp_path, host("a2-highgpu-1g", 12, 85, 0.7), accelerator("A100", 1, 2.9), accelerator(name, 1, 9.0))
    assert only(found).gpu == "A100-40GB" and reasons(found)[f"unknown GPU {name}"] == (1, 4)


def test_zones_of_a_region_are_one_offer_at_their_median(tmp_path: Path) -> None:
    """As in the shipped list: the spot price of each zone is kept; of two prices on demand the higher one."""
    rows = [f"p4d.24xlarge,A100,8,96,1152,,{usd},{spot},us-east-1,use1-az{zone}" for usd, spot, zone in _ZONES]
    offer = only(skypilot(tmp_path, *rows))
    assert (offer.region, offer.usd_per_hour, offer.spot_usd_per_hour) == ("us-east-1", 22.5, 9.0)
    assert offer.zones == (("use1-az1", 8.0), ("use1-az2", 10.0), ("use1-az3", 9.0))


_ZONES = ((22.0, 10.0, 2), (22.0, 8.0, 1), (22.5, 9.0, 3), (22.0, "", 4))


def broker(instance: str, gpu: str, count: int, info: str, upstream: str = "", prices: str = "20.0,") -> str:
    """Return a row of a catalog that names the cloud behind a broker."""
    return f"{instance},{upstream},200,1800,{gpu},{count}.0,{info},US,us-1,{prices}"


BROKER_HEADER = (
    "InstanceType,UpstreamCloudId,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,AvailabilityZone,"
    "Price,SpotPrice"
)


@pytest.mark.parametrize(
    ("instance", "upstream", "name"),
    [
        ("lambdalabs__8xA100_80GB__240__1800", "gpu_8x_a100_80gb_sxm4", "A100-80GB"),
        ("hyperstack__8xA100_80GB__252__1920", "n3-A100x8", "A100-PCIe-80GB"),  # nothing says it: with a note
        ("datacrunch__8xA100_80GB__176__960__SPOT", "8A100.176V_SPOT", "A100-80GB"),  # as the cloud behind it has it
        ("any__8xA100_40GB__176__960", "A100_SXM4", "A100-40GB"),
    ],
)
def test_a_broker_says_the_form_by_the_cloud_behind_it(tmp_path: Path, instance: str, upstream: str, name: str) -> None:
    """Its memory is that of all GPUs, twice over: the name of the instance has that of one."""
    info = gpu_info("A100", 8, 655360, 5242880)
    path = tmp_path / "vms.csv"
    path.write_text("\n".join([BROKER_HEADER, broker(instance, "A100-80GB", 8, info, upstream), ""]))
    assert only(read_catalog(str(path), "primeintellect", DAY)).gpu == name


@pytest.mark.parametrize(
    ("gpu", "info", "name"),
    [
        ("A100-80GB", gpu_info("A100 PCIe", 1, 80, 80), "A100-PCIe-80GB"),
        ("A100-80GB", gpu_info("A100 SXM", 1, 80, 80), "A100-80GB"),
        ("H100", gpu_info("NVIDIA-H100-80GB-HBM3", 1, 81559, 81559), "H100-80GB"),  # what the driver reports
        ("H100", gpu_info("h100 nvl", 1, 95830, 95830).lower(), "H100-NVL-94GB"),  # keys in lower case
        ("RTX5090_PCIE_BAREMETAL", gpu_info("RTX5090", 1, 32768), "RTX5090"),
    ],
)
def test_the_name_in_the_dictionary_says_the_form(tmp_path: Path, gpu: str, info: str, name: str) -> None:
    """Where neither the accelerator nor the instance does; then nothing is assumed."""
    found = skypilot(tmp_path, skypilot_row(gpu=gpu, info=info))
    assert (only(found).gpu, found.read.notes) == (name, {})


def azure_catalog(folder: Path, *rows: str) -> Catalog:
    path = folder / "azure" / "vms.csv"
    path.parent.mkdir(exist_ok=True)
    header = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,Generation"
    path.write_text("\n".join([header, *rows, ""]))
    return read_catalog(str(path), date=DAY)


def test_the_gpus_of_a_known_instance_type_are_those_that_it_has(tmp_path: Path) -> None:
    """Azure's NC H100 is the NVL also where the list says 80 GB; parts of a GPU are none; twelve of eight are eight."""
    h100 = gpu_info("H100", 1, 81920, 81920)
    found = azure_catalog(
        tmp_path,
        f'Standard_NC40ads_H100_v5,H100,1,40,320,{h100},7.0,2.5,eastus,"V1,V2"',
        "Standard_ND96isr_H100_v5,H100,12,96,1900,H100,98.3,,eastus,V2",
        "Standard_NV6ads_A10_v5,A10,1,6,55,A10,0.45,0.11,eastus,V2",
        "Standard_NC48ads_A100_v4,T4,2,48,440,T4,7.3,1.6,eastus,V2",
    )
    assert [(one.gpu, one.gpus) for one in found.offers] == [("H100-NVL-94GB", 1), ("H100-80GB", 8)]
    assert reasons(found) == {
        "Standard_NV6ads_A10_v5 has a part of a GPU": (1, 4),
        "Standard_NC48ads_A100_v4 has A100-PCIe-80GB, and is listed with T4": (1, 5),
    }
    assert list(found.read.notes) == ["another number of GPUs than the instance type has: that of the type is taken"]


def test_zones_without_a_discount_are_no_zones_of_spot(tmp_path: Path) -> None:
    """RunPod lists spot at the price on demand in each of its data centres."""
    rows = [f"1x_L4_SECURE,L4,1,8,45,,0.49,0.49,US,US-KS-{number}" for number in (1, 2)]
    found = read_catalog(str(write_skypilot(tmp_path, *rows)), "runpod", DAY)
    offer = only(found)
    assert (offer.provider, offer.region, offer.zones, offer.spot_usd_per_hour) == ("runpod-secure", "US", (), None)


def test_a_provider_that_sells_by_auction_alone_has_no_price_on_demand(tmp_path: Path) -> None:
    """Its catalog states the price of the auction twice."""
    path = tmp_path / "vms.csv"
    header = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region,GpuInfo"
    path.write_text(f"{header}\nh100-80gb.sxm.8x,H100,8,168,1814,8.0,8.0,us-central2-a,{gpu_info('H100', 8, 81920)}\n")
    offer = only(read_catalog(str(path), "mithril", DAY))
    assert (offer.gpu, offer.usd_per_hour, offer.spot_usd_per_hour) == ("H100-80GB", None, 8.0)

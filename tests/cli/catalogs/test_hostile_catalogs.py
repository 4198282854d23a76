"""Mutated catalogs through the command line: an offers file that can be read, or exit code 2; never a crash."""

from __future__ import annotations

import contextlib
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from planner.catalogs.catalog import TEMPLATE
from planner.cli import main
from tests.fuzz.mutations import NUMBERS, TEXTS, spoil
from tests.helpers.catalogs import GPUHUNT_HEADER, SKYPILOT_HEADER, gpu_info, gpuhunt_row, skypilot_row

KINDS = (
    "\n".join([SKYPILOT_HEADER, skypilot_row("a", "H100", "8.0", gpu_info("H100", 8, 81920), "55", "20"), ""]),
    "\n".join([GPUHUNT_HEADER, gpuhunt_row(), gpuhunt_row(price="0.4", spot="True"), ""]),
    TEMPLATE,
)


def mutated(random: Random) -> bytes:
    """Return a catalog with up to three cells replaced, some of them damaged as text."""
    rows = [line.split(",") for line in random.choice(KINDS).splitlines()]
    for _ in range(random.randint(1, 3)):
        row = random.choice(rows)
        row[random.randrange(len(row))] = random.choice((*NUMBERS, *TEXTS, "nan", "True", ""))
        if random.random() < 0.1:
            rows.append(list(row))
    text = "\n".join(map(",".join, rows)) + "\n"
    return spoil(text, random) if random.random() < 0.2 else text.encode("utf-8", "surrogatepass")


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, arguments)
    return result.exit_code, result.stdout


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(0, 300, 50))
def test_a_mutated_catalog_is_read_or_refused(first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written is an inventory, whatever texts are in it; what is stored is a price book."""
    for package in ("catalogs.live", "loading.price_files"):
        monkeypatch.setattr(f"planner.{package}.book_folder", lambda: tmp_path / "book")
    with contextlib.chdir(tmp_path):
        for seed in range(first, first + 50):
            random = Random(seed)
            Path("x.csv").write_bytes(mutated(random))
            provider = random.choice(("aws", "p", *TEXTS))
            target = random.choice(("o.yaml", "o.csv"))
            Path(target).unlink(missing_ok=True)
            code, _ = run("offers", "import", "x.csv", "--provider", provider, "-o", target)
            assert code == 2 or (code, run("offers", "list", "--inventory", target)[0]) == (0, 0), seed
            code, _ = run("prices", "update", "--offline", "x.csv", "--provider", provider, "--force")
            assert code == 2 or (code, run("offers", "list", "--inventory", "prices")[0]) == (0, 0), seed

"""Faults in stages, trials, fees and ways to pay, as the command line tells them: one clear message, exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from planner.cli import main

GPU = "{provider: p, gpu: A100-80GB, gpus: 1, usd_per_hour: 2}"


def solved(folder: Path, job: str, *offers: str, more: str = "") -> Result:
    """What `solve` does with a job, one line of which is given, on inline offers."""
    path = folder / "s.yaml"
    path.write_text(
        "name: bad\n"
        "jobs:\n"
        "  - name: a\n"
        "    architecture: llama-2-7b\n"
        "    work: {tokens: 20e6}\n"
        "    deadline: 60d\n"
        "    techniques: {method: lora}\n"
        f"    {job}\n"
        "offers:\n" + "".join(f"  - {offer}\n" for offer in offers) + more,
        encoding="utf-8",
    )
    return CliRunner().invoke(main, ["solve", str(path), "--as-of", "2026-11-21"])


def with_key(key: str) -> str:
    """The offer by the hour with something more in it."""
    return GPU.replace("}", f", {key}}}")


FAULTS = {
    "a negative fee": ("", [with_key("fees: {egress_usd_per_gb: -0.1}")], ":10:", "-0.1 is out of range"),
    "a negative fee where the data lie": (
        "stages: {transfer: {egress_usd_per_gb: -0.1}}", [GPU], ":8:", "must be at least 0",
    ),
    "no trial at all": ("trials: 0", [GPU], ":8:", "0 is not a number of trials"),
    "no trial in the long form": ("trials: {count: 0}", [GPU], ":8:", "trials.count: 0 is out of range"),
    "a service without price": (
        "", [GPU, "{provider: q, managed: {architectures: llama-2-7b}}"], ":11:", "a managed service without a price",
    ),
    "a service that takes no network": (
        "", [GPU, "{provider: q, managed: {usd_per_run: 3}}"], ":11:", "managed.architectures: is missing",
    ),
    "a term that nobody sells": ("", [with_key("commitment: {months: 2}")], ":10:", "one of 1, 3, 6, 12, 36 months"),
    "data that no offer can prepare": (
        "stages: {ingest: {raw_gb: 5, on: cpu}}", [GPU], ":8: jobs.0.stages.ingest.on",
        "offer a machine with 32 GB of RAM",
    ),
    "an evaluation that no offer can do": (
        "stages: {evaluation: {share: 0.1, on: cpu}}",
        [GPU, "{provider: c, cpu_cores: 8, ram_gb: 4, usd_per_hour: 1}"],
        "stages.evaluation.on",
        "room for the weights",
    ),
    "a price in euros": ("", [with_key("currency: EUR")], ":10:", "prices in EUR; convert the prices to USD"),
}  # fmt: skip


@pytest.mark.parametrize(("job", "offers", "where", "what"), FAULTS.values(), ids=FAULTS)
def test_a_fault_of_the_whole_job_is_one_clear_message(
    job: str, offers: list[str], where: str, what: str, tmp_path: Path
) -> None:
    """Exit code 2, nothing on standard output, one line that says where and what would be right."""
    result = solved(tmp_path, job, *offers)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (message,) = result.stderr.splitlines()
    assert where in message and what in message


def test_a_scenario_in_another_currency_is_refused(tmp_path: Path) -> None:
    """Not only offers: what the whole file counts in must be dollars."""
    result = solved(tmp_path, "", GPU, more="currency: EUR\n")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"{tmp_path / 's.yaml'}:11: currency: prices in EUR; convert the prices to USD"
    ]

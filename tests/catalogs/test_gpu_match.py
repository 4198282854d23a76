"""The GPU of a catalog's row: chip by name, card by memory and form."""

from __future__ import annotations

import pytest

from planner.catalogs.gpu_match import FORM_NOT_STATED, GpuMatcher

MATCHER = GpuMatcher()


@pytest.mark.parametrize(
    ("name", "memory", "provider", "instance", "gpu"),
    [
        ("H100-SXM", (), "runpod", "", "H100-80GB"),
        ("H100_SXM", (80.0,), "", "", "H100-80GB"),
        ("H100 SXM5 80GB", (80.0,), "", "", "H100-80GB"),
        ("H100", (80.0,), "lambda", "gpu_1x_h100_pcie", "H100-PCIe-80GB"),
        ("H100", (80.0,), "nebius", "gpu-h100-sxm", "H100-80GB"),
        ("H100", (80.0,), "runpod", "NVIDIA H100 80GB HBM3", "H100-80GB"),
        ("H100-80GB-HBM3", (80.0,), "runpod", "8x_H100-80GB-HBM3_SECURE", "H100-80GB"),
        ("NVIDIA H100 80GB HBM3", (), "", "", "H100-80GB"),
        ("H100_HBM3", (), "", "", "H100-80GB"),
        ("H100-80GB-HBM2e", (), "", "", "H100-PCIe-80GB"),
        ("H100-94GB-HBM3", (), "", "", "H100-NVL-94GB"),
        ("H100-PCIe-80GB-HBM2e", (), "", "", "H100-PCIe-80GB"),
        ("H200-141GB-HBM3e", (141.0,), "", "", "H200"),
        ("GH200-96GB-HBM3", (), "", "", "GH200-96GB"),
        ("A100-SXM4-80GB-HBM2e", (), "", "", "A100-80GB"),
        ("V100-16GB-HBM2", (), "", "", "V100-16GB"),
        ("H100", (94.0,), "azure", "", "H100-NVL-94GB"),
        ("H100NVL", (94.0,), "", "", "H100-NVL-94GB"),
        ("H200", (141.0,), "", "", "H200"),
        ("H200-NVL", (141.0,), "", "", "H200-NVL-141GB"),
        ("H100", (80.0,), "aws", "p5.48xlarge", "H100-80GB"),
        ("H100", (80.0,), "aws", "p5.4xlarge", "H100-80GB"),
        ("A100", (80.0,), "gcp", "a2-ultragpu-1g", "A100-80GB"),
        ("A100", (40.0,), "gcp", "a2-highgpu-1g", "A100-40GB"),
        ("A100-80G-PCIe", (80.0,), "hyperstack", "n3-A100x1", "A100-PCIe-80GB"),
        ("A100-80G-PCIe-NVLink", (), "hyperstack", "n3-A100x8-NVLink", "A100-PCIe-80GB"),
        ("H100-80G-SXM5", (80.0,), "hyperstack", "n3-H100-SXM5x8", "H100-80GB"),
        ("RTX-A4000", (16.0,), "hyperstack", "n3-RTX-A4000x1", "A4000"),
        ("A100-PCIE-40GB", (), "", "", "A100-PCIe-40GB"),
        ("A100-80GB-SXM", (), "", "", "A100-80GB"),
        ("V100-SXM2", (32.0,), "", "", "V100-32GB"),
        ("A10G", (22.35,), "aws", "g5.xlarge", "A10G"),
        ("B200", (192.0,), "", "", "B200"),
        ("RTX4090", (24.0,), "vast", "", "RTX4090"),
    ],
)
def test_sxm_pcie_and_nvl_are_three_gpus(
    name: str, memory: tuple[float, ...], provider: str, instance: str, gpu: str
) -> None:
    """The form is in the name, in that of the instance, or known of the family of instances."""
    found = MATCHER.match(name, memory, provider, instance)
    assert (found.gpu, found.note) == (gpu, "")


@pytest.mark.parametrize(
    ("name", "memory", "gpu"),
    [
        ("H100", (80.0,), "H100-PCIe-80GB"),
        ("A100-80GB", (), "A100-PCIe-80GB"),
        ("A100", (40.0,), "A100-PCIe-40GB"),
        ("A100-80GB-HBM2e", (), "A100-PCIe-80GB"),
    ],
)
def test_a_form_that_nobody_states_is_the_slower_one_and_is_noted(
    name: str, memory: tuple[float, ...], gpu: str
) -> None:
    """A plan must not promise the speed of SXM boards for a name that says nothing of them."""
    found = MATCHER.match(name, memory, "somebody", "m-1")
    assert (found.gpu, found.note) == (gpu, FORM_NOT_STATED)


@pytest.mark.parametrize(
    ("name", "memory", "reason"),
    [
        ("RTX4090", (48.0,), "no RTX4090 with 48 GiB is known"),
        ("RTX3080", (12.0,), "no RTX3080 with 12 GiB is known"),
        ("H100", (64.0,), "no H100 with 64 GiB is known"),
        ("Gaudi HL-205", (32.0,), "unknown GPU Gaudi HL-205"),
        ("tpu-v5e-8", (), "unknown GPU tpu-v5e-8"),
        ("L40S-SXM", (48.0,), "no SXM form of L40S is known, only PCIe"),
    ],
)
def test_another_memory_or_chip_is_no_card_with_its_reason(name: str, memory: tuple[float, ...], reason: str) -> None:
    """A modified RTX 4090 with 48 GB is another GPU than the one whose speed is known."""
    found = MATCHER.match(name, memory, "vast", "m-1")
    assert (found.gpu, found.reason) == (None, reason)

"""Labels seen in clusters, and labels that lead astray."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import MIB
from plimsoll.facts.cluster.gpu_labels import SLICE_TOLERANCE, match_gpu, usable_bytes_from_label
from tests.support.tables import every_case, examples

TYPES = load_gpu_types()
BY_NAME = {gpu.name: gpu for gpu in TYPES}


def matched(label: str, memory_mib: int | None = None, capability: tuple[int, int] | None = None) -> str | None:
    gpu = match_gpu(label, memory_mib, capability, TYPES)
    return None if gpu is None else gpu.name


@every_case(
    ("label", "memory_mib", "name"),
    [
        ("NVIDIA-H100-80GB-HBM3", 81559, "h100-sxm-80gb"),
        ("NVIDIA-H100-PCIe", 81559, "h100-pcie-80gb"),
        ("NVIDIA-H100-NVL", 95830, "h100-nvl-94gb"),
        ("NVIDIA-H200", 143771, "h200-sxm-141gb"),
        ("NVIDIA-H200-NVL", 143771, "h200-nvl-141gb"),
        ("NVIDIA-H20", 97871, "h20-96gb"),
        ("NVIDIA-H800", 81559, "h800-sxm-80gb"),
        ("NVIDIA-B200", 183359, "b200-sxm-180gb"),
        ("NVIDIA-B300-SXM6-AC", 275040, "b300-sxm-288gb"),
        ("NVIDIA-GB200", 189471, "gb200-186gb"),
        ("NVIDIA-GB300", 284208, "gb300-278gb"),
        ("NVIDIA-GH200-480GB", 97871, "gh200-96gb"),
        ("NVIDIA-GH200-120GB", 97871, "gh200-96gb"),
        ("NVIDIA-GB10", None, "gb10-128gb"),
        ("Tesla-V100-SXM2-32GB", 32510, "v100-sxm2-32gb"),
        ("NVIDIA-A100-SXM4-80GB", 81920, "a100-sxm-80gb"),
        ("NVIDIA-A100-80GB-PCIe", 81920, "a100-pcie-80gb"),
        ("NVIDIA-A100-SXM4-40GB", 40536, "a100-sxm-40gb"),
        ("A100-SXM4-40GB", 39538, "a100-sxm-40gb"),
        ("NVIDIA-A100-PCIE-40GB", 40960, "a100-pcie-40gb"),
        ("NVIDIA-A10", 23028, "a10-24gb"),
        ("NVIDIA-A10G", 23028, "a10g-24gb"),
        ("NVIDIA-A30", 24576, "a30-24gb"),
        ("NVIDIA-A40", 46068, "a40-48gb"),
        ("NVIDIA-A40", 49140, "a40-48gb"),
        ("NVIDIA-L4", 23034, "l4-24gb"),
        ("NVIDIA-L40", 49140, "l40-48gb"),
        ("NVIDIA-L40S", 46068, "l40s-48gb"),
        ("Tesla-T4", 15360, "t4-16gb"),
        ("NVIDIA-GeForce-RTX-3090", 24576, "rtx-3090-24gb"),
        ("NVIDIA-GeForce-RTX-4090", 24564, "rtx-4090-24gb"),
        ("NVIDIA-GeForce-RTX-5090", 32607, "rtx-5090-32gb"),
        ("NVIDIA-RTX-A6000", 46068, "rtx-a6000-48gb"),
        ("NVIDIA-RTX-6000-Ada-Generation", 49140, "rtx-6000-ada-48gb"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 97887, "rtx-pro-6000-bse-96gb"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition", 97887, "rtx-pro-6000-bse-96gb"),
        ("AMD_Instinct_MI300X_OAM", 196608, "mi300x-192gb"),
        ("AMD_Instinct_MI325_OAM", 262144, "mi325x-256gb"),
        ("74a1", 196608, "mi300x-192gb"),
        ("740C", 65536, "mi250x-128gb"),
        ("75a3", None, "mi355x-288gb"),
    ],
)
def test_labels_of_the_labellers_match(label: str, memory_mib: int | None, name: str) -> None:
    assert matched(label, memory_mib) == name


@every_case(
    ("label", "memory_mib", "name"),
    [
        ("NVIDIA-A100-80GB-PCIe-MIG-1g.10gb", 9728, "a100-pcie-80gb-mig-1g.10gb"),
        ("NVIDIA-A100-80GB-PCIe-MIG-3g.40gb", None, "a100-pcie-80gb-mig-3g.40gb"),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", 9984, "h100-sxm-80gb-mig-1g.10gb"),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.20gb", 20096, "h100-sxm-80gb-mig-1g.20gb"),
        ("NVIDIA-H100-80GB-HBM3-MIG-3g.40gb", 40448, "h100-sxm-80gb-mig-3g.40gb"),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me", 9984, "h100-sxm-80gb-mig-1g.10gb"),
        ("A100-SXM4-40GB-MIG-3g.20gb", 20096, "a100-sxm-40gb-mig-3g.20gb"),
        ("NVIDIA-B200-MIG-1g.23gb", 22528, "b200-sxm-180gb-mig-1g.23gb"),
    ],
)
def test_the_label_of_a_slice_is_its_cards_and_the_profile(label: str, memory_mib: int | None, name: str) -> None:
    assert matched(label, memory_mib) == name


@every_case(
    ("label", "memory_mib", "name"),
    [
        ("NVIDIA-A100-PCIE-80GB", 81920, "a100-pcie-80gb"),
        ("NVIDIA-H100-SXM5-80GB", 81559, "h100-sxm-80gb"),
        ("H100-SXM5", 81920, "h100-sxm-80gb"),
        ("H100-SXM5", None, "h100-sxm-80gb"),
        ("h100 80gb hbm3", None, "h100-sxm-80gb"),
        ("NVIDIA-T4", None, "t4-16gb"),
        ("NVIDIA-T4-16GB", None, "t4-16gb"),
        ("NVIDIA-B200-SXM", None, "b200-sxm-180gb"),
        ("AMD-Instinct-MI300X", 196608, "mi300x-192gb"),
        ("RTX-4090", 24564, "rtx-4090-24gb"),
        ("NVIDIA-L40S-48GB", None, "l40s-48gb"),
    ],
)
def test_labels_written_by_hand_match_where_they_are_clear(label: str, memory_mib: int | None, name: str) -> None:
    assert matched(label, memory_mib) == name


@every_case(
    ("label", "memory_mib"),
    [
        ("NVIDIA-A100-80GB", 81920),  # two forms with this memory
        ("NVIDIA-H100", 81559),
        ("NVIDIA-H200-141GB-HBM3", 143771),
        ("NVIDIA-H800-PCIe", 81559),  # a chip the catalogue has in another form only
        ("NVIDIA-A100-SXM-64GB", 65536),
        ("NVIDIA-A100-80GB-PCIe-MIG-1g.10gb", 81920),  # the memory of the card
        ("NVIDIA-A100-80GB-PCIe-MIG-1g.10gb-SHARED", 9728),
        ("NVIDIA-A100-80GB-PCIe-MIG-1g.5gb", 4864),  # a profile of the card with 40 GB
        ("NVIDIA-A100-80GB-PCIe-MIG-1c.3g.40gb", 40192),  # a third of a slice shares its memory
        ("NVIDIA-H20-MIG-1g.18gb", 16384),  # an H20 of 141 GB
        ("NVIDIA-L4-MIG-1g.6gb", 5952),  # a card that cannot be cut
        ("NVIDIA-H100-80GB-HBM3-SHARED", 81559),
        ("NVIDIA-H100-80GB-HBM3-MIG-INVALID", 0),
        ("NVIDIA-A10-24Q", 24512),  # a virtual GPU
        ("NVIDIA-A10-24Q-SHARED", 24512),
        ("NVIDIA-H100-80GB-HBM3", 9728),  # the memory of a slice
        ("NVIDIA-A100-SXM4-80GB", 40960),
        ("NVIDIA-L40-40GB", None),
        ("NVIDIA-GeForce-RTX-4070", 12282),
        ("NVIDIA-GeForce-RTX-3070-Ti", 8192),
        ("NVIDIA-RTX-5880-Ada-Generation", 46068),
        ("Tesla-V100-PCIE-32GB", 32768),
        ("NVIDIA", 81559),
        ("", 81559),
    ],
)
def test_what_is_ambiguous_partitioned_or_unknown_does_not_match(label: str, memory_mib: int | None) -> None:
    assert matched(label, memory_mib) is None


@pytest.mark.parametrize(
    ("label", "capability", "name"),
    [
        ("NVIDIA-H100-80GB-HBM3", (9, 0), "h100-sxm-80gb"),
        ("NVIDIA-H100-80GB-HBM3", (8, 0), None),
        ("NVIDIA-A100-SXM4-80GB", (9, 0), None),
        ("74a1", (9, 4), "mi300x-192gb"),
    ],
)
def test_compute_capability_has_to_agree(label: str, capability: tuple[int, int], name: str | None) -> None:
    assert matched(label, None, capability) == name


def test_an_h100_is_never_taken_for_an_a100() -> None:
    for label in ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe", "H100-SXM5-80GB"):
        name = matched(label, 81559)
        assert name is not None
        assert name.startswith("h100")


@every_case("gpu", TYPES, ids=lambda gpu: gpu.name)
def test_every_label_of_the_catalogue_matches_its_own_type(gpu: object) -> None:
    own = next(known for known in TYPES if known is gpu)
    for label in own.product_labels:
        assert match_gpu(label, own.total_bytes // MIB, own.compute_capability, TYPES) is own


def test_the_nodes_memory_wins_over_the_catalogue() -> None:
    gpu = BY_NAME["l40s-48gb"]
    lost = gpu.total_bytes - gpu.usable_bytes
    assert usable_bytes_from_label(gpu, 46068) == gpu.usable_bytes
    assert usable_bytes_from_label(gpu, 49140) == 49140 * MIB - lost


@pytest.mark.parametrize("memory_mib", [0, -1, 100])
def test_a_memory_that_leaves_nothing_is_refused(memory_mib: int) -> None:
    with pytest.raises(InvalidInput, match=r"nvidia\.com/gpu\.memory"):
        usable_bytes_from_label(BY_NAME["h100-sxm-80gb"], memory_mib)


def test_two_types_with_one_label_have_no_answer() -> None:
    twin = replace(BY_NAME["l4-24gb"], name="l4-twin")
    assert match_gpu("NVIDIA-L4", 23034, None, (BY_NAME["l4-24gb"], twin)) is None


@settings(max_examples=examples(100), deadline=None)
@given(label=st.text(max_size=40), memory=st.none() | st.integers())
def test_any_label_has_an_answer_that_agrees_in_memory(label: str, memory: int | None) -> None:
    gpu = match_gpu(label, memory, None, TYPES)
    within = 0.07 if gpu is None or not gpu.is_slice else SLICE_TOLERANCE
    assert gpu is None or memory is None or abs(memory * MIB - gpu.total_bytes) <= within * gpu.total_bytes


def test_a_node_of_the_other_size_of_one_label_is_told_apart_by_its_memory() -> None:
    """The driver names both alike; the label that has the size is set by hand."""
    types = load_gpu_types()
    for label, sizes in {
        "NVIDIA-GeForce-RTX-3080": {10240: "rtx-3080-10gb", 12288: "rtx-3080-12gb"},
        "NVIDIA-GeForce-RTX-2080-Ti": {11264: "rtx-2080-ti-11gb", 22528: "rtx-2080-ti-22gb"},
    }.items():
        for memory, name in sizes.items():
            found = match_gpu(label, memory, None, types)
            assert found is not None
            assert found.name == name
    assert match_gpu("NVIDIA-GeForce-RTX-5060-Ti", 8151, None, types) is None

"""The GPUs of the clouds' machine types, for node pools that name machines and no GPUs.

Only types of which the provider's own list of machines says the card and the number of cards are here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_AWS_ONE_CARD = ("xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge")
"""Sizes of AWS' graphics machines with one card. 12xlarge and 24xlarge have 4, 48xlarge has 8."""


def _aws(family: str, card: str, *, largest: Mapping[str, int]) -> Iterator[tuple[str, tuple[str, int]]]:
    yield from ((f"{family}.{size}", (card, 1)) for size in _AWS_ONE_CARD)
    yield from ((f"{family}.{size}", (card, count)) for size, count in largest.items())


MACHINES: Mapping[str, tuple[str, int]] = {
    # AWS: https://aws.amazon.com/ec2/instance-types/accelerated-computing/
    **dict(_aws("g4dn", "t4-16gb", largest={"12xlarge": 4, "metal": 8})),
    **dict(_aws("g5", "a10g-24gb", largest={"12xlarge": 4, "24xlarge": 4, "48xlarge": 8})),
    **dict(_aws("g6", "l4-24gb", largest={"12xlarge": 4, "24xlarge": 4, "48xlarge": 8})),
    **dict(_aws("g6e", "l40s-48gb", largest={"12xlarge": 4, "24xlarge": 4, "48xlarge": 8})),
    "p4d.24xlarge": ("a100-sxm-40gb", 8),
    "p4de.24xlarge": ("a100-sxm-80gb", 8),
    "p5.4xlarge": ("h100-sxm-80gb", 1),
    "p5.48xlarge": ("h100-sxm-80gb", 8),
    "p5e.48xlarge": ("h200-sxm-141gb", 8),
    "p5en.48xlarge": ("h200-sxm-141gb", 8),
    "p6-b200.48xlarge": ("b200-sxm-180gb", 8),
    # Google Cloud: https://cloud.google.com/compute/docs/gpus
    **{f"g2-standard-{cpus}": ("l4-24gb", 1) for cpus in (4, 8, 12, 16, 32)},
    **{f"g2-standard-{cpus}": ("l4-24gb", cpus // 12) for cpus in (24, 48, 96)},
    **{f"a2-highgpu-{gpus}g": ("a100-sxm-40gb", gpus) for gpus in (1, 2, 4, 8)},
    **{f"a2-ultragpu-{gpus}g": ("a100-sxm-80gb", gpus) for gpus in (1, 2, 4, 8)},
    **{f"a3-highgpu-{gpus}g": ("h100-sxm-80gb", gpus) for gpus in (1, 2, 4, 8)},
    "a3-megagpu-8g": ("h100-sxm-80gb", 8),
    "a3-ultragpu-8g": ("h200-sxm-141gb", 8),
    "a4-highgpu-8g": ("b200-sxm-180gb", 8),
    # Azure: https://learn.microsoft.com/azure/virtual-machines/sizes/overview
    "Standard_NC24ads_A100_v4": ("a100-pcie-80gb", 1),
    "Standard_NC48ads_A100_v4": ("a100-pcie-80gb", 2),
    "Standard_NC96ads_A100_v4": ("a100-pcie-80gb", 4),
    "Standard_NC40ads_H100_v5": ("h100-nvl-94gb", 1),
    "Standard_NC80adis_H100_v5": ("h100-nvl-94gb", 2),
    "Standard_ND96amsr_A100_v4": ("a100-sxm-80gb", 8),
    "Standard_ND96isr_H100_v5": ("h100-sxm-80gb", 8),
    "Standard_ND96isr_H200_v5": ("h200-sxm-141gb", 8),
    "Standard_ND96isr_MI300X_v5": ("mi300x-192gb", 8),
}
"""The GPU type and the number of GPUs, by the value of ``node.kubernetes.io/instance-type``."""

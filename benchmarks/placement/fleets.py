"""Fleets of a given size: the shapes of a real cluster, and a generated cluster for large language models.

Both are documented draws: the same name, size and seed always give the same nodes, in a mixed order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.cluster.gpus import GpuType

OPENB = Path(__file__).with_name("data") / "openb-2023-fleet.json"

CATALOG = load_gpu_types()
_TYPES = {gpu.name: gpu for gpu in CATALOG}

Shape = tuple[str, int]
"""A GPU type and the GPUs of a node."""

LLM_SHAPES: dict[Shape, int] = {
    ("l4-24gb", 1): 12,
    ("l4-24gb", 4): 8,
    ("l4-24gb", 8): 4,
    ("a10g-24gb", 1): 10,
    ("a10g-24gb", 4): 8,
    ("l40s-48gb", 1): 6,
    ("l40s-48gb", 2): 4,
    ("l40s-48gb", 4): 8,
    ("l40s-48gb", 8): 4,
    ("a100-sxm-80gb", 4): 6,
    ("a100-sxm-80gb", 8): 8,
    ("h100-sxm-80gb", 2): 2,
    ("h100-sxm-80gb", 8): 11,
    ("h200-sxm-141gb", 8): 6,
    ("b200-sxm-180gb", 8): 3,
}
"""Shapes of the generated cluster, with their weights in the draw."""

OCCUPIED = 0.4
"""The part of the nodes with several GPUs on which somebody else's pods hold some, but never all, of the GPUs."""


def openb_shapes() -> dict[Shape, int]:
    """Return the shapes of the real cluster, with the number of its nodes."""
    rows = json.loads(OPENB.read_text(encoding="utf-8"))["nodes"]
    return {(row["gpu_type"], row["gpus"]): row["count"] for row in rows}


FLEETS: dict[str, Callable[[], dict[Shape, int]]] = {"openb": openb_shapes, "llm": lambda: LLM_SHAPES}


def fleet_of(name: str, nodes: int, seed: int, priced: Callable[[GpuType], GpuType]) -> Fleet:
    """Return a fleet of ``nodes`` nodes. Prices do not change which nodes are drawn."""
    rng = Random(f"{name}/{nodes}/{seed}")  # noqa: S311 - a reproducible draw
    shapes = list(_shares(FLEETS[name](), nodes))
    rng.shuffle(shapes)
    kinds = {gpu_type: priced(_TYPES[gpu_type]) for gpu_type, _ in shapes}
    return Fleet().with_nodes(
        _node(f"n{index:04d}", kinds[gpu_type], gpus, rng) for index, (gpu_type, gpus) in enumerate(shapes)
    )


def _shares(shapes: dict[Shape, int], nodes: int) -> Iterator[Shape]:
    """Yield the shapes of ``nodes`` nodes in proportion to their weights: the largest remainders are rounded up."""
    total = sum(shapes.values())
    exact = {shape: nodes * weight / total for shape, weight in shapes.items()}
    counts = {shape: int(share) for shape, share in exact.items()}
    by_remainder = sorted(exact, key=lambda shape: (counts[shape] - exact[shape], shape))
    for shape in by_remainder[: nodes - sum(counts.values())]:
        counts[shape] += 1
    for shape, count in counts.items():
        yield from [shape] * count


def _node(name: str, gpu: GpuType, gpus: int, rng: Random) -> GpuNode:
    held = rng.randrange(1, gpus) if gpus > 1 and rng.random() < OCCUPIED else 0
    return GpuNode(
        name=name,
        gpu=gpu,
        resource="nvidia.com/gpu",
        selector=("nvidia.com/gpu.product", gpu.product_labels[0]),
        allocatable=gpus,
        held=held,
    )

"""How busy the GPUs of pods are, as NVIDIA's DCGM exporter reports it to Prometheus. Nothing needs it.

The two series are in the exporter's default set: the share of cycles in which the memory sends or receives data, and in
which tensor cores work (https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html). GPUs without
profiling, such as GeForce, do not have them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from plimsoll.rebalance.signals.metrics import GpuActivity

MEMORY = "DCGM_FI_PROF_DRAM_ACTIVE"
TENSOR_CORES = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"


def query_of(matchers: Sequence[str]) -> str:
    """Return one query for the means over all GPUs of the pods. ``matchers`` are those of the pods, for any labels.

    Prometheus may have renamed the labels of the pod, because those of the exporter's own pod came first.
    """
    names = f'__name__=~"{MEMORY}|{TENSOR_CORES}"'
    return " or ".join(f"avg by (__name__) ({{{names},{each}}})" for each in matchers)


def activity_of(result: Any) -> GpuActivity | None:
    """Read the ``data.result`` of the query's reply. None where it holds no figure that can be."""
    found = {name: share for entry in _entries(result) for name, share in _share(entry)}
    if not found:
        return None
    return GpuActivity(memory=found.get(MEMORY), tensor_cores=found.get(TENSOR_CORES))


def _entries(result: Any) -> list[Any]:
    return result if isinstance(result, list) else []


def _share(entry: Any) -> list[tuple[str, float]]:
    """Return the metric's name and its value; nothing where that is no share."""
    try:
        name, value = str(entry["metric"]["__name__"]), float(entry["value"][1])
    except (IndexError, KeyError, OverflowError, TypeError, ValueError):
        return []
    return [(name, value)] if math.isfinite(value) and 0 <= value <= 1 else []

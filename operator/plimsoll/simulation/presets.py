"""Workloads to begin with. Each says where its lengths come from; rates are for people to choose."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.simulation.workload import Workload


@dataclass(frozen=True, slots=True)
class Preset:
    """A named workload, and a sentence about its figures."""

    name: str
    workload: Workload
    source: str


PRESETS = (
    Preset(
        "chat",
        Workload(2.0, 1155, 211, spread=0.9, burst_factor=2.0, burst_seconds=180, burst_every_seconds=600),
        "Lengths are the means of conversations at Azure (Splitwise, 2023). Rate and bursts are chosen.",
    ),
    Preset(
        "retrieval",
        Workload(1.0, 6000, 300, spread=0.5, shared_prefix_tokens=500),
        "All figures are chosen: long prompts of passages that were found, behind the same instructions.",
    ),
    Preset(
        "agents",
        Workload(0.5, 14898, 149, spread=1.1, shared_prefix_tokens=9622),
        "Lengths and the prefix are the means of Mooncake's synthetic trace (2025). The rate is chosen.",
    ),
    Preset(
        "batch",
        Workload(1.0, 1500, 1000, spread=0.3, burst_factor=20.0, burst_seconds=60, burst_every_seconds=900),
        "All figures are chosen: long answers, and most requests come at once.",
    ),
)
"""The presets, the most usual one first."""


def preset(name: str) -> Preset | None:
    """Return the preset of that name; None where there is none."""
    return next((each for each in PRESETS if each.name == name), None)

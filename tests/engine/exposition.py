"""What a page of a server's own ``/metrics`` says, for one engine."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


def samples(page: str) -> list[Sample]:
    """Every sample."""
    return [sample for family in text_string_to_metric_families(page) for sample in family.samples]


def value(page: str, name: str) -> float:
    """The value of a metric that has one series."""
    (found,) = [sample.value for sample in samples(page) if sample.name == name]
    return found


def labels(page: str, name: str) -> dict[str, str]:
    """The labels of a metric that has one series."""
    (found,) = [sample.labels for sample in samples(page) if sample.name == name]
    return found


def shape(lines: Sequence[str]) -> list[str]:
    """The engine's metrics with the names of their labels, which a release gives and a load does not change."""
    found = {f"{sample.name}{sorted(sample.labels)}" for sample in samples("\n".join(lines) + "\n")}
    return sorted(name for name in found if name.startswith("vllm:"))

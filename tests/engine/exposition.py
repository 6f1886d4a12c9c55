"""What a server's own ``/metrics`` says, for one engine."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from testbed.engine.server import EngineServer


def samples(server: EngineServer) -> list[Sample]:
    """Every sample."""
    return [sample for family in text_string_to_metric_families(server.metrics()) for sample in family.samples]


def value(server: EngineServer, name: str) -> float:
    """The value of a metric that has one series."""
    (found,) = [sample.value for sample in samples(server) if sample.name == name]
    return found


def labels(server: EngineServer, name: str) -> dict[str, str]:
    """The labels of a metric that has one series."""
    (found,) = [sample.labels for sample in samples(server) if sample.name == name]
    return found

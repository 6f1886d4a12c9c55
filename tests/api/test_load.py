"""The declared load: of one replica, or of all replicas together, and never both."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.api.conversion.convert import to_request
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.requests.serving import TotalLoad
from tests.api.manifests import deployment
from tests.support.planning import model
from tests.support.tables import every_case

TOTAL: dict[str, Any] = {"concurrency": None, "totalConcurrency": 100}


def test_the_load_of_one_replica_is_declared_with_its_replicas() -> None:
    wanted = to_request(deployment(replicas=2), model())
    assert (wanted.shape.concurrency, wanted.replicas, wanted.total) == (16, 2, None)


def test_the_load_of_all_replicas_leaves_the_number_open() -> None:
    wanted = to_request(deployment(**TOTAL, minReplicas=3), model())
    assert wanted.total == TotalLoad(100, 3, 1000)
    assert (wanted.replicas, wanted.shape.concurrency) == (3, 34)
    bounded = to_request(deployment(**TOTAL, rebalancing={"mode": "Auto", "maxReplicas": 6}), model())
    assert bounded.total == TotalLoad(100, 1, 6)


@every_case(
    ("spec", "field", "fix"),
    [
        ({"totalConcurrency": 100}, "spec.totalConcurrency", "Write one of concurrency"),
        ({"concurrency": None}, "spec.concurrency", "Write one of concurrency"),
        ({**TOTAL, "replicas": 3}, "spec.replicas", "remove it, or write minReplicas"),
        ({**TOTAL, "replicas": 0}, "spec.replicas", "remove it, or write minReplicas"),
        ({"minReplicas": 2}, "spec.minReplicas", "With concurrency write replicas"),
        ({**TOTAL, "minReplicas": 101}, "spec.minReplicas", "at most the 100 of totalConcurrency"),
        ({"engine": {"maxSequences": 15}}, "spec.engine.maxSequences", "at least the 16 of concurrency"),
    ],
)
def test_a_contradiction_is_refused_with_its_fix(spec: dict[str, Any], field: str, fix: str) -> None:
    with pytest.raises(InvalidInput, match=fix) as refused:
        to_request(deployment(**spec), model())
    assert refused.value.field == field

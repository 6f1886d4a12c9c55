"""The model of a replica, from the settings that it runs with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.decisions.latency import Slo
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.performance.slo import INTERACTIVE
from plimsoll.rebalance.law import capacity
from plimsoll.rebalance.law.capacity import model_of
from tests.support.planning import ENGINE, H100, L4, gpu, request


def test_a_replica_has_the_promises_of_its_user_or_the_usual_ones() -> None:
    usual = model_of(request(), gpu(H100), Split(1), 1000)
    assert usual is not None
    assert (usual.slo, usual.kv_tokens, usual.slowness) == (INTERACTIVE, 1000, 1.0)
    own = model_of(request(slo=Slo(0.5, 0.05)), gpu(H100), Split(1), 1000)
    assert own is not None
    assert own.slo == Slo(0.5, 0.05)


def test_a_limit_that_the_user_has_written_is_that_of_the_whole_replica() -> None:
    fixed = request(engine=replace(ENGINE, max_sequences=32))
    one, two = (model_of(fixed, gpu(H100), Split(1, data_parallel=count), 1000) for count in (1, 2))
    assert one is not None
    assert two is not None
    assert (one.limits.sequences, two.limits.sequences) == (32, 32)


def test_a_faster_gpu_takes_less_time() -> None:
    fast, slow = (model_of(request(), gpu(kind), Split(1), 1000) for kind in (H100, L4))
    assert fast is not None
    assert slow is not None
    assert fast.costs.step(8, 1000).total < slow.costs.step(8, 1000).total


def test_without_a_cache_there_is_no_model() -> None:
    assert model_of(request(), gpu(H100), Split(1), 0) is None


@pytest.mark.parametrize("error", [UnsupportedModel("a/b", "a memory law"), ValueError("a figure")], ids=str)
def test_what_the_performance_model_does_not_cover_has_no_model(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    assert model_of(request(), gpu(H100), Split(1), 1000) is not None
    monkeypatch.setattr(capacity, "step_costs", refuse)
    assert model_of(request(), gpu(H100), Split(1), 1000) is None

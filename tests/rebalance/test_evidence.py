"""The activity of GPUs next to a diagnosis: more words, and the same decision."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.decisions.latency import Slo
from plimsoll.rebalance.diagnosis.diagnose import Diagnosis, DiagnosisKind, diagnose
from plimsoll.rebalance.diagnosis.judging import judged
from plimsoll.rebalance.signals.metrics import GpuActivity, gpu_numbers
from plimsoll.rebalance.state.decisions import AddReplica
from plimsoll.rebalance.why import sentence
from tests.support.engine_loads import Serves, replica_model
from tests.support.live_situations import BUSY, EASY, loads_of, situation

SEEN = GpuActivity(memory=0.824, tensor_cores=0.126)
TIGHT = replace(replica_model(), slo=Slo(ttft_seconds=None, tpot_seconds=0.012))
"""Replicas whose promised time per token is the limit."""


def found(*loads: Serves, gpus: GpuActivity | None, tight: bool = True) -> Diagnosis:
    load = replace(loads_of(*loads), gpus=gpus)
    where = situation(*loads, load=load, model=TIGHT if tight else replica_model())
    return diagnose(where, judged(where))


@pytest.mark.parametrize(
    ("gpus", "numbers"),
    [
        (None, ()),
        (GpuActivity(), ()),
        (GpuActivity(memory=0.0), (("memory_busy_percent", 0),)),
        (SEEN, (("memory_busy_percent", 82), ("tensor_busy_percent", 13))),
    ],
    ids=str,
)
def test_what_is_known_is_given_in_percent(gpus: GpuActivity | None, numbers: object) -> None:
    assert gpu_numbers(gpus) == numbers


def test_a_limit_of_the_gpu_has_the_evidence_in_its_words() -> None:
    diagnosis = found(BUSY, gpus=SEEN)
    assert diagnosis.kind is DiagnosisKind.DECODE_BOUND
    words = sentence(AddReplica(diagnosis.reason, diagnosis.numbers))
    assert "; busy on the GPUs: memory 82 %, tensor cores 13 %" in words


@pytest.mark.parametrize("gpus", [None, SEEN, GpuActivity(memory=1.0), GpuActivity(0.0, 0.0)], ids=str)
def test_it_changes_no_finding(gpus: GpuActivity | None) -> None:
    for load in (BUSY, EASY):
        with_it, without = found(load, gpus=gpus), found(load, gpus=None)
        assert replace(with_it, numbers=()) == replace(without, numbers=())
        assert with_it.numbers[: len(without.numbers)] == without.numbers
    assert "busy on the GPUs" not in sentence(AddReplica(found(BUSY, gpus=None).reason, found(BUSY, gpus=None).numbers))


def test_a_limit_of_the_cache_has_none() -> None:
    full = replace(BUSY, kv_usage=0.9)
    diagnosis = found(full, gpus=SEEN, tight=False)
    assert diagnosis.kind is DiagnosisKind.KV_BOUND
    assert "memory_busy_percent" not in dict(diagnosis.numbers)

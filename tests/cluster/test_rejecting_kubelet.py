"""Nodes whose kubelet rejects every pod, on a real API server and scheduler: it is said, and pods are few."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.kwok_config import LOAD_TIME_ANNOTATION
from testbed.operator_process import OperatorProcess
from testbed.rejecting_kubelet import REASONS, RejectingKubelet
from tests.support.installed import View, condition, on_gpu

pytestmark = pytest.mark.cluster

MOST_OF_A_TRY = 20
"""Pods until no more are made: three on a quiet machine. Without a pause there is one a second for ever."""

LOADS_LONG = {"podTemplate": {"annotations": {LOAD_TIME_ANNOTATION: "600s"}}}
"""An engine that serves at once would be rejected as a pod that has served."""


def message(body: dict[str, Any]) -> str:
    return str(condition(body, "Ready")["message"])


def test_a_lost_gpu_is_said_with_node_and_words_and_few_pods_are_made(
    operator: OperatorProcess, here: View, neighbour: View
) -> None:
    with RejectingKubelet(here.control_plane.client, "l4-0") as kubelet:
        here.apply("unlucky", gpu={"allow": ["l4-24gb"]}, **LOADS_LONG)
        body = here.wait_condition("unlucky", "Ready", "False", "PodsRejected")
        assert "The kubelet of l4-0 has rejected" in message(body)
        assert REASONS["UnexpectedAdmissionError"][:60] in message(body)
        assert "so it does not run pool l4-24gb-tp1. No other place takes it: " in message(body)
        assert "ruled out by spec.gpu.allow. The next pod is made at " in message(body)
        assert condition(body, "Stalled")["reason"] == "PodsRejected"
        neighbour.apply("lucky", **on_gpu("h100-sxm-80gb"))
        neighbour.wait_ready("lucky")
        held = len(kubelet.rejected)
        assert 3 <= held <= MOST_OF_A_TRY, kubelet.rejected
        here.wait(lambda: len(kubelet.rejected) > held, "another try")
        assert len(kubelet.rejected) <= held + MOST_OF_A_TRY
    here.patch("unlucky", {"podTemplate": None})
    here.wait_ready("unlucky", 180.0)
    assert set(here.nodes_of("unlucky")) == {"l4-0"}
    assert operator.is_running


@pytest.mark.parametrize("reason", ["OutOfnvidia.com/gpu", "Evicted"])
def test_a_replica_that_is_rejected_goes_where_another_place_is_free(
    operator: OperatorProcess, here: View, neighbour: View, reason: str
) -> None:
    neighbour.apply("bystander", **on_gpu("h100-sxm-80gb"))
    neighbour.wait_ready("bystander")
    [before] = neighbour.pods("bystander")
    with RejectingKubelet(here.control_plane.client, "l4-0", reason):
        here.apply("moves", gpu={"allow": ["l4-24gb", "l40s-48gb"]}, **LOADS_LONG)
        here.wait(lambda: here.nodes_of("moves") == ["l40s-0"], "it left")
    body = here.get("moves")
    assert [entry["reason"] for entry in body["status"]["rehomings"]] == ["PodsRejected"]
    here.wait(lambda: here.workloads("moves") == ["moves-l40s-48gb-tp1"], "only the new pool")
    assert [pod["metadata"]["uid"] for pod in neighbour.pods("bystander")] == [before["metadata"]["uid"]]
    assert operator.is_running

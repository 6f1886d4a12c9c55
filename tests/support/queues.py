"""InferenceDeployments that name a queue of Kueue, and the pods that wait in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.installed import View, condition, inference_deployment
from tests.support.kueue_in_memory import GATES


def apply(view: View, name: str, labels: Mapping[str, str], **spec: Any) -> None:
    """Apply an object with labels."""
    body = inference_deployment(name, view.namespace, **spec)
    view.control_plane.apply([{**body, "metadata": {**body["metadata"], "labels": dict(labels)}}])


def living(view: View, name: str) -> list[dict[str, Any]]:
    """The pods of an object that are not being deleted."""
    return [pod for pod in view.pods(name) if "deletionTimestamp" not in pod["metadata"]]


def waiting(view: View, name: str) -> list[dict[str, Any]]:
    """The living pods of an object that wait behind a gate."""
    return [pod for pod in living(view, name) if pod["spec"].get("schedulingGates")]


def queued(view: View, name: str, queue: str = "team-a") -> dict[str, Any]:
    """The only pod of an object, once it waits for its queue and the status says so."""
    body = view.wait_condition(name, "Placed", "False", "WaitingForQueue")
    assert f"waits for the queue {queue}, which has not admitted it yet" in condition(body, "Placed")["message"]
    view.wait(lambda: len(living(view, name)) == 1, "one pod")
    [pod] = living(view, name)
    assert [gate["name"] for gate in pod["spec"]["schedulingGates"]] == list(GATES)
    return pod

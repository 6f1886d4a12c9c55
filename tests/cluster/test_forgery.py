"""What looks like ours and is not, and what others do to what is ours: the tenant next door is served as usual.

Run by ``make poison``. ``test_poison_and_faults.py`` and ``test_forgery.py`` in ``tests/app`` have the same in memory.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from testbed.background import BackgroundLoop
from testbed.control_plane import ControlPlane
from testbed.operator_process import OperatorProcess
from tests.support.faulty import Calm, sampled_health
from tests.support.forgery import EDITED_STATUSES, RECORDS, edit_status, forged_deployment, forged_pod
from tests.support.honest import Honest
from tests.support.installed import View, condition, namespace_of, on_gpu
from tests.support.poison import assert_explained, create
from tests.support.workloads import gpu_deployment

pytestmark = [pytest.mark.cluster, pytest.mark.at_length]

TRACEBACKS = 3
LONG_AGO = "2026-01-01T00:00:00Z"
EXPIRED_SECONDS = 100.0
"""Promises of GPUs to pods that cannot be made end after a bounded time; this is that time on a loaded machine."""


def test_forged_workloads_and_pods_enter_no_plan(operator: OperatorProcess, honest: Honest, here: View) -> None:
    here.apply("real", **on_gpu("l40s-48gb"))
    owner = here.wait_ready("real")
    calm = Calm.now(operator)
    with sampled_health(operator) as health, honest.standing():
        here.control_plane.apply(
            [
                *(
                    forged_deployment(name, owner, record, replicas)
                    for (name, record), replicas in zip(RECORDS.items(), itertools.cycle([2_000_000, 1]), strict=False)
                ),
                *(forged_pod(f"forged-pod-{index}", owner) for index in range(3)),
            ]
        )
        honest.assert_served()
        here.wait(lambda: named_in_the_log(calm), "every forged Deployment named in the log")
        here.apply("beside", **on_gpu("h100-sxm-80gb", 8))
        here.wait_ready("beside")  # nobody believed that the H100s were taken
    assert [pool["name"] for pool in here.pools("real")] == ["l40s-48gb-tp1"]
    assert condition(here.get("real"), "Ready")["status"] == "True"
    assert health.bad == []
    calm.assert_kept(tracebacks=TRACEBACKS)


def named_in_the_log(calm: Calm) -> bool:
    """Whether the log of the operator speaks of every forged Deployment."""
    log = "\n".join(calm.new_lines())
    return all(name in log for name in RECORDS if name != "record-that-could-be-ours")


def test_a_status_edited_by_hand_hurts_only_its_object(operator: OperatorProcess, honest: Honest, here: View) -> None:
    for name in EDITED_STATUSES:
        here.apply(name, **on_gpu("mi300x-192gb"))
    for name in EDITED_STATUSES:
        here.wait_ready(name)
    calm = Calm.now(operator)
    with sampled_health(operator) as health, honest.standing():
        taken = [name for name, status in EDITED_STATUSES.items() if edit_status(here, name, status)]
        honest.assert_served()
        for name in EDITED_STATUSES:
            here.wait_ready(name)
        assert_explained(here, EDITED_STATUSES)
    assert taken
    assert health.bad == []
    calm.assert_kept(tracebacks=TRACEBACKS)


def test_what_others_wrote_into_a_status_goes_with_the_next_write(honest: Honest, here: View) -> None:
    here.apply("praised", **on_gpu("mi300x-192gb"))
    here.wait_ready("praised")
    word = {"type": "Praised", "status": "True", "reason": "ByHand", "message": "", "lastTransitionTime": LONG_AGO}
    assert edit_status(here, "praised", {"conditions": [word], "url": "http://elsewhere.example"})
    here.wait(lambda: not condition(here.get("praised"), "Praised"), "a status without the foreign condition")
    assert here.wait_ready("praised")["status"]["url"] != "http://elsewhere.example"
    honest.assert_served()


@pytest.fixture
def limited(control_plane: ControlPlane) -> Iterator[View]:
    """A namespace whose LimitRange refuses every engine."""
    with namespace_of(control_plane, f"limited-{uuid.uuid4().hex[:6]}") as view:
        limit = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small", "namespace": view.namespace}}
        control_plane.apply([limit | {"spec": {"limits": [{"type": "Container", "max": {"memory": "1Mi"}}]}}])
        yield view


@pytest.fixture
def heirs(control_plane: ControlPlane) -> Iterator[View]:
    with namespace_of(control_plane, f"heirs-{uuid.uuid4().hex[:6]}") as view:
        yield view


def test_gpus_promised_to_pods_that_cannot_be_made_are_given_to_others(
    operator: OperatorProcess, honest: Honest, here: View, limited: View, heirs: View
) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": here.namespace}}
    here.control_plane.apply([quota | {"spec": {"hard": {"requests.nvidia.com/gpu": "0"}}}])
    calm = Calm.now(operator)
    mount_of_nothing = {"volumeMounts": [{"name": "no", "mountPath": "/x"}]}
    too_much = {"resources": {"requests": {"memory": "1Gi"}}}
    here.apply("beyond-quota", **on_gpu("h100-sxm-80gb", 8))
    limited.apply("beyond-limit", **on_gpu("mi300x-192gb", 8), podTemplate=too_much)
    hopeless = [(here, "beyond-quota"), (limited, "beyond-limit")]
    if create(limited, "invalid", {**on_gpu("a100-sxm-80gb", 8), "podTemplate": mount_of_nothing}):
        hopeless.append((limited, "invalid"))
    for view, name in hopeless:
        assert_explained(view, [name])
    wanted = {"h100": "h100-sxm-80gb", "mi300x": "mi300x-192gb", "a100": "a100-sxm-80gb"}
    for name, gpu in wanted.items():
        heirs.apply(name, **on_gpu(gpu, 8))
    honest.assert_served()
    for name in wanted:
        heirs.wait_ready(name, timeout=EXPIRED_SECONDS)
    for view, name in hopeless:
        assert condition(view.get(name), "Ready")["status"] == "False"
    calm.assert_kept(tracebacks=0)


def test_a_quota_on_memory_admits_one_replica_and_the_other_waits_for_it_with_figures(
    operator: OperatorProcess, honest: Honest, here: View
) -> None:
    # A pod on one H100 requests 8 GiB. The quota admits one pod, and half of the next one.
    head: dict[str, Any] = {"apiVersion": "v1", "kind": "ResourceQuota"}
    memory = head | {"metadata": {"name": "memory", "namespace": here.namespace}}
    odd = head | {"metadata": {"name": "odd", "namespace": here.namespace}}
    odd["spec"] = {"hard": {"pods": "100"}, "scopes": ["CrossNamespacePodAffinity"]}
    calm = Calm.now(operator)
    here.control_plane.apply([memory | {"spec": {"hard": {"requests.memory": "12Gi", "limits.cpu": "8"}}}, odd])
    # Quotas are listed, not watched. The complaint about the second one shows that both have been read.
    named = f"ResourceQuota {here.namespace}/odd"
    here.wait(lambda: any(named in line for line in calm.new_lines()), "the quotas read")
    limits = {"podTemplate": {"resources": {"limits": {"cpu": "4"}}}}
    here.apply("two", replicas=2, **on_gpu("h100-sxm-80gb"), **limits)
    body = here.wait_condition("two", "Planned", "False", "WaitingForQuota")
    message = condition(body, "Planned")["message"]
    assert "takes 8.00 GiB of memory and the namespace's ResourceQuota leaves 4.00 GiB of requests.memory" in message
    assert "raise the ResourceQuota's requests.memory by 4Gi" in message
    honest.assert_served()
    here.wait(lambda: len(here.nodes_of("two")) == 1, "one pod on a node")
    here.control_plane.apply([memory | {"spec": {"hard": {"requests.memory": "16Gi", "limits.cpu": "8"}}}])
    here.wait_ready("two")
    assert len(here.nodes_of("two")) == 2
    calm.assert_kept(tracebacks=0)


def test_somebody_who_fights_over_the_replicas_is_named_and_does_not_win(
    operator: OperatorProcess, honest: Honest, here: View
) -> None:
    here.apply("fought-over", **on_gpu("h100-sxm-80gb"))
    here.wait_ready("fought-over")
    [workload] = here.workloads("fought-over")
    path = f"/apis/apps/v1/namespaces/{here.namespace}/deployments/{workload}/scale"
    client, calm = here.control_plane.client, Calm.now(operator)
    pushed: list[int] = []

    def push() -> None:
        scale = client.get(path)
        pushed.append(scale["spec"].get("replicas", 0))
        client.send("PUT", f"{path}?fieldManager=horizontal-fighter", scale | {"spec": {"replicas": 16}})

    def named() -> bool:
        said = [entry["message"] for entry in here.get("fought-over")["status"]["conditions"]]
        said += [event["note"] for event in here.all("events") if event["regarding"]["name"] == "fought-over"]
        return any("horizontal-fighter" in message for message in said)

    fighter = BackgroundLoop("fighter", push, 2.0)
    with sampled_health(operator) as health, honest.standing():
        fighter.start()
        try:
            here.wait(lambda: len(pushed) >= 6, "some rounds of the fight")
            honest.assert_served()
            here.wait(named, "the fighter named in a condition or an event")
        finally:
            fighter.stop()
        here.wait(lambda: len(here.pods("fought-over")) == 1, "one pod, as its spec says")
    here.wait_ready("fought-over")
    assert health.bad == []
    calm.assert_kept(tracebacks=0)


def test_a_workload_whose_name_is_taken_waits_alone(operator: OperatorProcess, honest: Honest, here: View) -> None:
    calm = Calm.now(operator)
    foreign = gpu_deployment("late-h100-sxm-80gb-tp1", here.namespace, replicas=0)
    here.control_plane.apply([foreign])
    here.apply("late", **on_gpu("h100-sxm-80gb"))
    here.wait_condition("late", "Ready", "False", "NameConflict")
    honest.assert_served()
    here.delete("deployments", "late-h100-sxm-80gb-tp1")
    here.wait_ready("late")
    calm.assert_kept(tracebacks=0)

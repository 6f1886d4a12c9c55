"""What others do to what is the operator's own: it is named, nothing foreign is touched, and neighbours are served."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from plimsoll.adapters.cluster.client import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, PODS, RESOURCE_QUOTAS
from plimsoll.app.watch.store import key_of
from plimsoll.domain.kubernetes_names import ObjectKey
from testbed.operator_process import USER
from tests.support.api_in_memory import ApiInMemory, Clock
from tests.support.bodies import Body
from tests.support.forgery import RECORDS, forged_deployment, forged_pod
from tests.support.honest import honest_nodes, honest_spec
from tests.support.installed import LLAMA_8B, condition, inference_deployment
from tests.support.operator_in_memory import PRICES, OperatorInMemory
from tests.support.workloads import gpu_deployment

HERE, HONEST = "here", "honest"
POOL = "h100-sxm-80gb-tp1"


@dataclass
class Town:
    """Two tenants with nodes of their own. The honest one has an object that is to be served in any case."""

    api: ApiInMemory
    operator: OperatorInMemory

    def apply(self, name: str, tenant: str = HERE, **spec: Any) -> Body:
        """Create or change an object."""
        return self.api.put(inference_deployment(name, tenant, **honest_spec(tenant, **spec)))

    def ready(self, name: str, tenant: str = HERE) -> str:
        """Why an object is ready or not."""
        body = self.api.get(INFERENCE_DEPLOYMENTS, ObjectKey(tenant, name))
        assert body is not None
        return str(condition(body, "Ready")["reason"])

    def says(self, name: str, kind: str) -> tuple[str, str]:
        """Reason and message of a condition."""
        body = self.api.get(INFERENCE_DEPLOYMENTS, ObjectKey(HERE, name))
        assert body is not None
        found = condition(body, kind)
        return found["reason"], found["message"]

    async def assert_the_neighbour_is_served(self) -> None:
        """Create, change and delete an object of the honest tenant."""
        self.apply("b", HONEST)
        await self.operator.go_on(3)
        assert self.ready("b", HONEST) == "Serving"
        self.apply("b", HONEST, replicas=2)
        await self.operator.go_on(3)
        assert self.ready("b", HONEST) == "Serving"
        assert len(self.api.all(PODS, HONEST)) == 2
        self.api.delete(INFERENCE_DEPLOYMENTS, ObjectKey(HONEST, "b"))
        await self.operator.go_on(3)
        assert self.api.all(PODS, HONEST) == []
        assert self.api.trespasses == []


@pytest.fixture
async def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Town]:
    clock = Clock()
    monkeypatch.setattr(time, "time", clock.read)
    monkeypatch.setattr(time, "monotonic", clock.read)
    api = ApiInMemory(clock)
    for tenant in (HERE, HONEST):
        for node in honest_nodes(1, tenant):
            api.put(node)
    operator = OperatorInMemory(api, tmp_path, [(tenant, LLAMA_8B) for tenant in (HERE, HONEST)])
    await operator.start()
    yield Town(api, operator)
    await operator.close()


async def test_forged_workloads_and_pods_enter_no_plan_and_are_named(
    town: Town, caplog: pytest.LogCaptureFixture
) -> None:
    owner = town.apply("real")
    await town.operator.go_on(3)
    for name, record in RECORDS.items():
        town.api.put(forged_deployment(name, owner, record, 2_000_000))
    town.api.put(forged_pod("forged-pod", owner))
    await town.assert_the_neighbour_is_served()
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert [name for name in (*RECORDS, "forged-pod") if f"{HERE}/{name} is ignored" not in said] == []
    town.apply("beside", replicas=7)  # nobody believes that the other GPUs are taken
    await town.operator.go_on(3)
    assert (town.ready("real"), town.ready("beside")) == ("Serving", "Serving")


def claiming(name: str, gpus: int, *, node: str = "", phase: str = "Pending") -> Body:
    """A pod of a tenant that asks for GPUs, of the highest priority; ``node`` is where its author has put it."""
    asked = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"nvidia.com/gpu": str(gpus), "memory": "9E"}}
    spec: Body = {"containers": [{"name": "x", "image": "x", "resources": asked}], "priority": 2**31 - 1}
    head = {"name": name, "namespace": HERE}
    put = {"nodeName": node} if node else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": spec | put, "status": {"phase": phase}}


async def test_pods_that_wait_or_have_ended_or_are_put_where_nothing_is_take_no_gpu_of_a_neighbour(town: Town) -> None:
    town.apply("real")
    await town.operator.go_on(3)
    for number in range(200):
        town.api.put(claiming(f"waits-{number}", 8))
        town.api.put(claiming(f"refused-{number}", 8, node=f"{HONEST}-0", phase="Failed"))
    town.api.put(claiming("nowhere", 8, node="no-such-node"))
    town.api.put(claiming("all", 10**6, node=f"{HERE}-0", phase="Running"))
    await town.assert_the_neighbour_is_served()
    assert town.ready("real") == "Serving", "what runs is left alone"
    town.apply("second")
    await town.operator.go_on(3)
    assert town.ready("second") != "Serving", "a node is as full as its pods request"


async def test_a_config_map_that_looks_like_the_price_list_sets_no_price(town: Town) -> None:
    prices = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"h100-sxm-80gb": "0.0001"}}
    marks = {"app.kubernetes.io/managed-by": "plimsoll", "app.kubernetes.io/name": "plimsoll"}
    for tenant in (HERE, HONEST):
        town.api.put(prices | {"metadata": {"name": PRICES.name, "namespace": tenant, "labels": marks}})
    await town.assert_the_neighbour_is_served()
    assert town.operator.prices.current == {}
    town.api.put(prices | {"metadata": {"name": PRICES.name, "namespace": PRICES.namespace}})
    await town.operator.go_on(3)
    assert list(town.operator.prices.current) == ["h100-sxm-80gb"], "the admin's is read"


async def test_gpus_promised_to_pods_that_cannot_be_made_are_given_to_others(town: Town) -> None:
    # The operator cannot tell what a scope means, so it reads no limit there and learns of the refusal afterwards.
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": "there"}}
    town.api.put(quota | {"spec": {"hard": {"requests.nvidia.com/gpu": "0"}, "scopes": ["Unknown"]}})
    town.api.put(inference_deployment("beyond", "there", **honest_spec(HERE, replicas=8)))
    await town.operator.go_on(4)
    body = town.api.get(INFERENCE_DEPLOYMENTS, ObjectKey("there", "beyond"))
    assert body is not None
    assert "exceeded quota: none" in condition(body, "Ready")["message"]
    town.apply("heir", replicas=8)
    await town.assert_the_neighbour_is_served()
    assert town.ready("heir") == "WaitingForGpus"
    await town.operator.go_on(3, 70.0)
    assert town.ready("heir") == "Serving"


async def test_a_quota_on_memory_admits_one_replica_and_the_other_waits_for_it_with_figures(town: Town) -> None:
    # A pod on one H100 requests 8 GiB. The quota admits one pod, and half of the next one.
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "memory", "namespace": HERE}}
    town.api.put(quota | {"spec": {"hard": {"requests.memory": "12Gi"}}})
    town.api.run_controllers()
    town.apply("two", replicas=2)
    await town.operator.go_on(3)
    reason, message = town.says("two", "Planned")
    assert reason == "WaitingForQuota"
    assert "takes 8.00 GiB of memory and the namespace's ResourceQuota leaves 4.00 GiB of requests.memory" in message
    assert "raise the ResourceQuota's requests.memory by 4Gi" in message
    assert len(town.api.all(PODS, HERE)) == 1
    await town.assert_the_neighbour_is_served()
    town.api.put(quota | {"spec": {"hard": {"requests.memory": "16Gi"}}})
    town.api.run_controllers()
    await town.operator.go_on(4)
    assert town.ready("two") == "Serving"
    assert len(town.api.all(PODS, HERE)) == 2
    assert [body["metadata"]["name"] for body in town.api.all(RESOURCE_QUOTAS)] == ["memory"]


async def test_somebody_who_fights_over_the_replicas_is_named_and_does_not_win(town: Town) -> None:
    town.apply("fought-over")
    await town.operator.go_on(3)
    [workload] = town.api.all(DEPLOYMENTS, HERE)
    said = []
    for _ in range(6):
        town.api.patch(DEPLOYMENTS, key_of(workload), None, {"spec": {"replicas": 6}})
        await town.operator.go_on(2, 2.0)
        said.append(town.says("fought-over", "Ready"))
    await town.assert_the_neighbour_is_served()
    assert any("set spec.replicas of Deployment here/fought-over-" in message for _, message in said), said
    await town.operator.go_on(4, 310.0)
    assert len(town.api.all(PODS, HERE)) == 1
    assert town.ready("fought-over") == "Serving"


async def test_a_workload_whose_name_is_taken_waits_alone(town: Town) -> None:
    town.api.put(gpu_deployment(f"late-{POOL}", HERE, replicas=0))
    town.apply("late")
    await town.operator.go_on(3)
    assert town.ready("late") == "NameConflict"
    await town.assert_the_neighbour_is_served()
    town.api.delete(DEPLOYMENTS, ObjectKey(HERE, f"late-{POOL}"))
    await town.operator.go_on(4, 6.0)
    assert town.ready("late") == "Serving"


def without(part: str) -> Callable[[Body], Body]:
    """Take one part of the metadata away."""
    return lambda body: {**body, "metadata": {name: each for name, each in body["metadata"].items() if name != part}}


async def test_a_workload_that_lost_its_marks_gets_them_back_and_is_removed_after_a_move(town: Town) -> None:
    town.apply("moves")
    await town.operator.go_on(3)
    for part in ("annotations", "labels"):
        [workload] = town.api.all(DEPLOYMENTS, HERE)
        town.api.put(without(part)(workload))
        await town.operator.go_on(2)
    spec = honest_spec(HERE)
    town.api.put(inference_deployment("moves", HERE, **spec | {"overrides": spec["overrides"] | {"tensorParallel": 2}}))
    await town.assert_the_neighbour_is_served()
    assert [body["metadata"]["name"] for body in town.api.all(DEPLOYMENTS, HERE)] == ["moves-h100-sxm-80gb-tp2"]
    assert len(town.api.all(PODS, HERE)) == 1
    assert {town.api.makers[str(body["metadata"]["uid"])] for body in town.api.all(DEPLOYMENTS, HERE)} == {USER}

"""A node that starts is waited for, with its taints named; others are placed on ready nodes in the meantime."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS
from plimsoll.app.exports.hashing import HashedLabels, Pseudonyms
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.facts.cluster.taints import is_startup_taint
from tests.support.api_in_memory import ApiInMemory, Clock
from tests.support.bodies import Body
from tests.support.honest import honest_nodes, honest_spec
from tests.support.installed import LLAMA_8B, condition, inference_deployment
from tests.support.operator_in_memory import OperatorInMemory

NODE_STARTS_SECONDS = 900.0

HERE, HONEST = "here", "honest"
KEYS = (
    "node.cilium.io/agent-not-ready",
    "ebs.csi.aws.com/agent-not-ready",
    "karpenter.sh/unregistered",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cluster.x-k8s.io/uninitialized",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/not-ready",
    "startup-taint.cluster-autoscaler.kubernetes.io/disks",
    "ignore-taint.cluster-autoscaler.kubernetes.io/disks",
    "readiness.k8s.io/network",
)
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute"])
TAINTS = st.dictionaries(st.sampled_from(KEYS), EFFECTS, min_size=1, max_size=4)


@dataclass
class Town:
    """One node that starts and one that is ready, each for one tenant."""

    api: ApiInMemory
    operator: OperatorInMemory

    def taint(self, taints: dict[str, str]) -> None:
        """Set the startup taints of the node that starts."""
        (body,) = honest_nodes(1, HERE)
        started = [{"key": key, "effect": effect} for key, effect in taints.items()]
        self.api.put({**body, "spec": {"taints": [*body["spec"]["taints"], *started]}})

    def apply(self, name: str, tenant: str, *tolerated: str, **more: Any) -> None:
        """Create an object of a tenant, or change it."""
        spec = honest_spec(tenant, **more)
        spec["podTemplate"]["tolerations"] += [{"key": key, "operator": "Exists"} for key in tolerated]
        self.api.put(inference_deployment(name, tenant, **spec))

    def shown(self, name: str, tenant: str = HERE) -> Body:
        """Return the object."""
        return self.api.get(INFERENCE_DEPLOYMENTS, ObjectKey(tenant, name)) or {}

    def reason(self, name: str, tenant: str = HERE) -> str:
        """Why it is ready or not."""
        return str(condition(self.shown(name, tenant), "Ready")["reason"])

    def summary(self, name: str) -> set[str]:
        """Which of the two conditions that exist only while true are there."""
        return {kind for kind in ("Reconciling", "Stalled") if condition(self.shown(name), kind)}


@contextmanager
def town() -> Iterator[tuple[Town, asyncio.Runner]]:
    """Start an operator."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder, asyncio.Runner() as loop:
        patch.setattr(time, "time", clock.read)
        patch.setattr(time, "monotonic", clock.read)
        api = ApiInMemory(clock)
        (ready,) = honest_nodes(1, HONEST)
        api.put(ready)
        operator = OperatorInMemory(api, Path(folder), [(tenant, LLAMA_8B) for tenant in (HERE, HONEST)])
        loop.run(operator.start())
        try:
            yield Town(api, operator), loop
        finally:
            loop.run(operator.close())


@settings(max_examples=12, deadline=None)
@given(taints=TAINTS, replicas=st.integers(1, 3))
def test_it_is_reconciling_until_the_last_taint_goes_and_a_neighbour_is_served_meanwhile(
    taints: dict[str, str], replicas: int
) -> None:
    with town() as (here, loop):
        here.taint(taints)
        here.apply("a", HERE)
        here.apply("n", HONEST, replicas=replicas)
        left = dict(taints)
        while left:
            loop.run(here.operator.go_on(3))
            assert here.reason("n", HONEST) == "Serving"
            assert here.summary("a") == {"Reconciling"}
            message = condition(here.shown("a"), "Planned")["message"]
            assert all(key in message for key in sorted(left)[:3])
            left.popitem()
            here.taint(left)
        loop.run(here.operator.go_on(3))
        assert here.reason("a") == "Serving"
        assert here.reason("n", HONEST) == "Serving"


@settings(max_examples=8, deadline=None)
@given(taints=TAINTS)
def test_who_tolerates_the_taints_is_placed_at_once(taints: dict[str, str]) -> None:
    with town() as (here, loop):
        here.taint(taints)
        here.apply("waits", HERE)
        here.apply("tolerates", HERE, *taints)
        loop.run(here.operator.go_on(3))
        assert here.reason("tolerates") == "Serving"
        assert here.summary("waits") == {"Reconciling"}


def test_a_taint_that_does_not_go_is_waited_for_fifteen_minutes() -> None:
    with town() as (here, loop):
        here.taint({KEYS[0]: "NoSchedule"})
        here.apply("a", HERE)
        loop.run(here.operator.go_on(1))
        due = here.operator.passes.make(here.operator.store.picture(), {}, here.api.clock.now).due_in_seconds
        assert NODE_STARTS_SECONDS - 2 < min(due) < NODE_STARTS_SECONDS + 1
        loop.run(here.operator.go_on(1, min(due)))
        assert here.summary("a") == {"Stalled"}
        said = condition(here.shown("a"), "Planned")["message"]
        assert f"1 has the taint {KEYS[0]}:NoSchedule" in said
        assert "waits for the removal" not in said


def test_another_taint_is_no_start() -> None:
    assert all(map(is_startup_taint, KEYS))
    for key in ("team", "nvidia.com/gpu", "node.kubernetes.io/unreachable", "node.kubernetes.io/unschedulable", ""):
        assert not is_startup_taint(key)
    with town() as (here, loop):
        here.taint({KEYS[0]: "NoSchedule", "team": "NoSchedule"})
        here.apply("a", HERE)
        loop.run(here.operator.go_on(3))
        assert here.summary("a") == {"Stalled"}


@pytest.mark.parametrize("key", [*KEYS, "team", "acme.example/agent-not-ready"])
def test_a_hashed_taint_is_a_start_where_it_was_one_and_holds_no_word_of_the_admin(key: str) -> None:
    labels = HashedLabels(Pseudonyms("salt", set(), set(), set()))
    found = labels.taint({"key": key, "value": "acme-x", "effect": "NoSchedule"})
    assert is_startup_taint(found["key"]) is is_startup_taint(key)
    assert labels.taint({"key": key, "operator": "Exists"})["key"] == found["key"], "a toleration still matches"
    assert not {"disks", "team", "acme"} & set(found["key"].replace("/", ".").replace("-", ".").split("."))

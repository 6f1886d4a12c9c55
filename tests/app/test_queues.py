"""Objects whose pods a queue of Kueue admits: nothing is lost, nobody fights, and a neighbour is served.

Kueue is played in memory. It opens gates late or never, evicts what serves, and a queueing system suspends whole
objects. A failure prints the shortest story that hypothesis finds.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from plimsoll.adapters.cluster.client import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, NODES, PODS
from plimsoll.app.watch.store import uid_of
from plimsoll.domain.kubernetes_names import QUEUE_LABEL, QUEUE_PRIORITY_LABEL, ObjectKey
from plimsoll.domain.public_words import ConditionReason
from plimsoll.facts.cluster.host_reading import is_bound
from plimsoll.status.words.what_helps import help_sentence
from testbed.fleet import gpu_node
from testbed.operator_process import USER
from tests.support import tables
from tests.support.api_in_memory import ApiInMemory, Clock
from tests.support.bodies import Body
from tests.support.honest import honest_nodes, honest_spec
from tests.support.installed import LLAMA_8B, condition, inference_deployment
from tests.support.kueue_in_memory import PARENT, Kueue, queue_of
from tests.support.operator_in_memory import OperatorInMemory

pytestmark = pytest.mark.lengthy

QUEUED, HONEST = "queued", "honest"
QUEUES = {"a": "team-a", "b": "team-b", "c": "team-a"}
KIND = INFERENCE_DEPLOYMENTS.plural
GPUS = {"h100-sxm-80gb": 3, "l40s-48gb": 2}

names = st.sampled_from(sorted(QUEUES))
numbers = st.integers(0, 100)


@dataclass
class Town:
    """A tenant whose objects name queues, and one whose objects do not, each with nodes of its own."""

    api: ApiInMemory
    operator: OperatorInMemory
    kueue: Kueue

    @staticmethod
    async def open(clock: Clock, cache: Path) -> Town:
        """Start an operator on empty nodes."""
        api = ApiInMemory(clock, has_kueue=True)
        [large] = honest_nodes(1, QUEUED)
        kind = {"labels": {"tenant": QUEUED}, "taints": large["spec"]["taints"]}
        products = zip(GPUS.values(), ("H100-80GB-HBM3", "L40S"), strict=True)
        queued = [gpu_node(f"{QUEUED}-{product.lower()}", product, count, **kind) for count, product in products]
        for node in (*queued, *honest_nodes(1, HONEST)):
            api.put(node)
        operator = OperatorInMemory(api, cache, [(tenant, LLAMA_8B) for tenant in (QUEUED, HONEST)])
        await operator.start()
        return Town(api, operator, Kueue(api))

    def put(self, name: str, tenant: str = QUEUED, labels: Any = None, **spec: Any) -> Body:
        """Create an object, or change it."""
        body = inference_deployment(name, tenant, **{**honest_spec(tenant), "overrides": None, **spec})
        known = self.object(name, tenant)
        labels = {QUEUE_LABEL: QUEUES[name]} if labels is None and tenant == QUEUED else labels
        head = body["metadata"] | ({} if labels is None else {"labels": labels})
        return self.api.put({**body, "metadata": head, "spec": {**(known.get("spec") or {}), **body["spec"]}})

    def object(self, name: str, tenant: str = QUEUED) -> Body:
        """Return an object; empty where there is none."""
        return self.api.get(INFERENCE_DEPLOYMENTS, ObjectKey(tenant, name)) or {}

    def pods(self, name: str, tenant: str = QUEUED) -> list[Body]:
        """Return the pods of an object."""
        label = "plimsoll.dev/deployment"
        return [pod for pod in self.api.all(PODS, tenant) if pod["metadata"]["labels"][label] == name]

    def placed(self, name: str) -> tuple[str, str]:
        """Reason and message of the condition Placed."""
        found = condition(self.object(name), "Placed")
        return found["reason"], found["message"]


@pytest.fixture
async def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Town]:
    clock = Clock()
    monkeypatch.setattr(time, "time", clock.read)
    monkeypatch.setattr(time, "monotonic", clock.read)
    made = await Town.open(clock, tmp_path)
    yield made
    await made.operator.close()


async def test_the_labels_go_to_deployment_and_pods_and_the_status_names_the_queue(town: Town) -> None:
    labels = {QUEUE_LABEL: "team-a", QUEUE_PRIORITY_LABEL: "low", "team": "a"}
    town.put("a", labels=labels)
    await town.operator.go_on(2)
    [workload], [pod] = town.api.all(DEPLOYMENTS, QUEUED), town.pods("a")
    for head in (workload["metadata"], workload["spec"]["template"]["metadata"], pod["metadata"]):
        assert {name: head["labels"].get(name) for name in labels} == labels | {"team": None}
    others = [
        body for (kind, key), body in town.api.objects.items() if kind.plural in ("services", "poddisruptionbudgets")
    ]
    assert others
    assert not any(queue_of(body) for body in others)
    waits = "1 pod waits for the queue team-a, which has not admitted it yet. Its GPUs stay reserved."
    reason, said = town.placed("a")
    assert (reason, said) == ("WaitingForQueue", f"{waits} {help_sentence(ConditionReason.WAITING_FOR_QUEUE)}")
    assert condition(town.object("a"), "Reconciling")["reason"] == "WaitingForQueue"
    town.kueue.admit(pod)
    town.api.run_controllers()
    await town.operator.go_on(2)
    assert condition(town.object("a"), "Ready")["reason"] == "Serving"
    assert uid_of(town.pods("a")[0]) == uid_of(pod)


async def test_a_gate_without_a_queue_is_named_as_before(town: Town) -> None:
    town.put("n", HONEST, podTemplate={**honest_spec(HONEST)["podTemplate"], "annotations": dict(PARENT)})
    await town.operator.go_on(2)
    found = condition(town.object("n", HONEST), "Placed")
    assert (found["reason"], "its scheduling gates to be removed" in found["message"]) == ("WaitingForScheduler", True)


async def test_where_a_pod_waits_for_a_node_as_well_the_scheduler_is_quoted(town: Town) -> None:
    town.put("a", replicas=2)
    await town.operator.go_on()
    town.kueue.admit(town.pods("a")[0])
    for node in town.api.all(NODES):
        town.api.put({**node, "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}})
    town.api.run_controllers()
    await town.operator.go_on()
    reason, message = town.placed("a")
    assert reason == "WaitingForScheduler"
    assert message.startswith("2 pods wait for a node")
    assert "untolerated taint {x: }" in message


async def test_a_label_that_comes_later_reaches_the_deployment(town: Town) -> None:
    town.put("a", labels={}, replicas=0)
    await town.operator.go_on()
    town.put("a", labels={QUEUE_LABEL: "team-a"}, replicas=0)
    await town.operator.go_on()
    assert [queue_of(body) for body in town.api.all(DEPLOYMENTS, QUEUED)] == ["team-a"]


@pytest.mark.parametrize("labels", [{QUEUE_LABEL: "team-b"}, {}])
async def test_scaled_to_zero_with_another_queue_its_pods_end_and_a_queue_that_remains_is_taken_then(
    town: Town, labels: dict[str, str]
) -> None:
    town.put("a")
    town.put("n", HONEST)
    await town.operator.go_on()
    town.kueue.admit(town.pods("a")[0])
    town.api.run_controllers()
    await town.operator.go_on(2)
    town.put("a", labels=labels, replicas=0)
    await town.operator.go_on(4)
    assert town.pods("a") == []
    assert len(town.pods("n", HONEST)) == 1
    [workload] = town.api.all(DEPLOYMENTS, QUEUED)
    assert queue_of(workload) == labels.get(QUEUE_LABEL, "team-a")
    assert condition(town.object("a"), "Ready")["reason"] == "ScaledToZero"


async def test_a_change_of_the_queue_that_kueue_refuses_is_said_and_nothing_that_serves_ends(town: Town) -> None:
    town.put("a")
    town.put("n", HONEST)
    await town.operator.go_on()
    town.kueue.admit(town.pods("a")[0])
    town.api.run_controllers()
    await town.operator.go_on()
    [serving] = town.pods("a")
    town.put("a", labels={QUEUE_LABEL: "team-b"})
    await town.operator.go_on(3)
    reason, message = town.placed("a")
    assert (reason, "field is immutable" in message) == ("PodsNotCreated", True)
    assert [uid_of(pod) for pod in town.pods("a")] == [uid_of(serving)]
    town.put("n", HONEST, replicas=2)
    await town.operator.go_on(3)
    assert condition(town.object("n", HONEST), "Ready")["reason"] == "Serving"
    town.put("a", labels={QUEUE_LABEL: "team-a"})
    await town.operator.go_on(3)
    assert condition(town.object("a"), "Ready")["reason"] == "Serving"


async def test_after_an_eviction_one_pod_waits_for_its_queue_and_keeps_its_gpus(town: Town) -> None:
    town.put("a", replicas=sum(GPUS.values()))
    await town.operator.go_on()
    for pod in town.kueue.waiting():
        town.kueue.admit(pod)
    town.api.run_controllers()
    await town.operator.go_on()
    town.kueue.evict(town.pods("a")[0])
    town.api.run_controllers()
    town.put("b")
    await town.operator.go_on(3, 60.0)
    assert len(town.pods("a")) == sum(GPUS.values())
    assert town.placed("a")[0] == "WaitingForQueue"
    assert condition(town.object("a"), "Available")["reason"] == "SomeReplicasServe"
    assert town.pods("b") == []
    [gated] = town.kueue.waiting()
    town.kueue.admit(gated)
    town.api.run_controllers()
    await town.operator.go_on(2)
    assert condition(town.object("a"), "Ready")["reason"] == "Serving"


async def test_an_object_that_a_queueing_system_creates_suspended_has_nothing_until_it_lets_it_go_on(
    town: Town,
) -> None:
    """As Kueue does with jobs: ``suspend`` is set at the start, unset, and set again."""
    town.put("a", suspend=True)
    town.put("n", HONEST)
    await town.operator.go_on(3)
    assert (town.pods("a"), town.api.all(DEPLOYMENTS, QUEUED)) == ([], [])
    assert condition(town.object("n", HONEST), "Ready")["reason"] == "Serving"
    town.put("a", suspend=False)
    await town.operator.go_on()
    [pod] = town.pods("a")
    town.put("a", suspend=True)
    await town.operator.go_on(3, 60.0)
    assert [uid_of(each) for each in town.pods("a")] == [uid_of(pod)]
    assert town.object("a")["spec"]["suspend"] is True
    town.put("a", suspend=False)
    town.kueue.admit(pod)
    town.api.run_controllers()
    await town.operator.go_on(2)
    assert condition(town.object("a"), "Ready")["reason"] == "Serving"
    assert uid_of(town.pods("a")[0]) == uid_of(pod)


class Queues(RuleBasedStateMachine):
    """The rules say what users, Kueue, a queueing system and chance may do. A pass follows each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.patch = Clock(), pytest.MonkeyPatch()
        self.patch.setattr(time, "time", self.clock.read)
        self.patch.setattr(time, "monotonic", self.clock.read)
        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.Runner()
        self.town = self.loop.run(Town.open(self.clock, Path(self.folder.name)))
        self.neighbours = 1

    @initialize()
    def serve_a_neighbour(self) -> None:
        self.town.put("n", HONEST, replicas=1)
        self._pass()

    # What users do.

    @rule(name=names, replicas=st.integers(0, 3))
    def apply(self, name: str, replicas: int) -> None:
        self.town.put(name, replicas=replicas)
        self._pass()

    @rule(name=names)
    def delete(self, name: str) -> None:
        if self.town.object(name):
            self.town.api.delete(INFERENCE_DEPLOYMENTS, ObjectKey(QUEUED, name))
        self._pass()

    @rule(replicas=st.integers(0, 4))
    def change_the_neighbour(self, replicas: int) -> None:
        self.neighbours = replicas
        self.town.put("n", HONEST, replicas=replicas)
        self._pass()

    # What Kueue and a queueing system do.

    @rule(number=numbers)
    def admit_a_pod(self, number: int) -> None:
        if waiting := self.town.kueue.waiting():
            self.town.kueue.admit(waiting[number % len(waiting)])
        self._pass()

    @rule(queue=st.sampled_from(sorted(set(QUEUES.values()))))
    def admit_all_of_a_queue(self, queue: str) -> None:
        for pod in self.town.kueue.waiting():
            if queue_of(pod) == queue:
                self.town.kueue.admit(pod)
        self._pass()

    @rule(number=numbers)
    def evict_a_pod(self, number: int) -> None:
        if admitted := self.town.kueue.admitted():
            self.town.kueue.evict(admitted[number % len(admitted)])
        self._pass()

    @rule(name=names, suspend=st.booleans())
    def suspend_or_go_on(self, name: str, suspend: bool) -> None:  # noqa: FBT001 - a rule's argument
        if self.town.object(name):
            self.town.put(name, suspend=suspend)
        self._pass()

    # What time and chance do.

    @rule(seconds=st.sampled_from([15.0, 3700.0]))
    def wait(self, seconds: float) -> None:
        """Wait longer than a pod without a node is let alone: what is behind a gate stays, and nobody writes."""
        gated = {uid_of(pod) for pod in self.town.kueue.waiting()}
        self._pass(2, seconds)
        before = len(self.town.api.writes)
        self._pass(1, seconds)
        assert {uid_of(pod) for pod in self.town.kueue.waiting()} >= gated
        again = self.town.api.writes[before:]
        assert [each for each in again if each.user == USER and each.resource == DEPLOYMENTS.plural] == []

    @rule()
    def restart(self) -> None:
        self.loop.run(self.town.operator.restart())
        self._pass()

    def teardown(self) -> None:
        try:
            self._lift_everything()
        finally:
            self.loop.run(self.town.operator.close())
            self.loop.close()
            self.folder.cleanup()
            self.patch.undo()

    # What must be true.

    def _pass(self, passes: int = 1, seconds: float = 1.0) -> None:
        for _ in range(passes):
            self.loop.run(self.town.operator.go_on(1, seconds))
            assert self.town.api.trespasses == []
            assert not any((each.user, each.resource) == (USER, KIND) for each in self.town.api.writes)
            assert len([pod for pod in self.town.pods("n", HONEST) if is_bound(pod)]) == self.neighbours
            for body in self.town.api.all(INFERENCE_DEPLOYMENTS, QUEUED):
                self._check(body)

    def _check(self, body: Body) -> None:
        """No pod stands next to one that waits, each is in its queue, and the status says what they wait for."""
        name, wanted = body["metadata"]["name"], body["spec"]["replicas"]
        pods = self.town.pods(name)
        assert {queue_of(pod) for pod in pods} <= {QUEUES[name]}
        assert {queue_of(each) for each in self.town.api.all(DEPLOYMENTS, QUEUED) if self._is_of(each, name)} <= {
            QUEUES[name]
        }
        if body["spec"].get("suspend"):
            assert condition(body, "Ready")["reason"] == "Suspended"
            return
        assert len(pods) <= wanted
        status = body["status"]
        asked = sum(pool["replicas"] for pool in status.get("pools") or ())
        assert asked <= wanted

    @staticmethod
    def _is_of(workload: Body, name: str) -> bool:
        return bool(workload["metadata"]["labels"]["plimsoll.dev/deployment"] == name)

    def _lift_everything(self) -> None:
        """Admit all and suspend nothing: then everything serves that there is room for, and nobody waits."""
        for body in self.town.api.all(INFERENCE_DEPLOYMENTS, QUEUED):
            self.town.put(body["metadata"]["name"], suspend=False)
        for _ in range(6):
            for pod in self.town.kueue.waiting():
                self.town.kueue.admit(pod)
            self._pass(1, 400.0)
        wanted = {body["metadata"]["name"]: body["spec"]["replicas"] for body in self._objects()}
        bound = sum(is_bound(pod) for name in wanted for pod in self.town.pods(name))
        assert bound == min(sum(wanted.values()), sum(GPUS.values()))
        for body in self._objects():
            assert "WaitingForQueue" not in str(body["status"])

    def _objects(self) -> list[Body]:
        return self.town.api.all(INFERENCE_DEPLOYMENTS, QUEUED)


TestQueues = pytest.mark.timeout(1800)(Queues.TestCase)
TestQueues.settings = settings(
    max_examples=tables.examples(60),
    derandomize=True,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)

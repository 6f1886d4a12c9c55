"""Poison, forgery, faults and kills in any order: nobody else is touched, and in the end all is as without them.

Two clusters in memory are told the same by their honest tenants. In the first one others do harm as well. While the API
server and the process of the operator are undisturbed, both clusters agree after every single pass. After a disturbance
they agree again as soon as it is over. A failure prints the shortest story that hypothesis finds, and a line that plays
it again. ``make poison`` and ``make chaos`` try more stories (PLIMSOLL_STORIES).
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.client import (
    APPROVALS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    INFERENCE_DEPLOYMENTS,
    NODES,
    PODS,
    PROPOSALS,
    SERVICES,
)
from plimsoll.adapters.cluster.kinds import CLAIMS, STORAGE_CLASSES, VOLUMES, ObjectKind
from plimsoll.app.watch.store import key_of, uid_of
from plimsoll.domain.cluster.node_rules import Mounted
from plimsoll.domain.errors import PlimsollError, SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey
from testbed.fleet import gpu_node, mixed_fleet
from testbed.operator_process import NAMESPACE, USER
from tests.support.api_in_memory import ApiInMemory, Clock
from tests.support.bodies import Body
from tests.support.forgery import EDITED_STATUSES, RECORDS, STATUSES_OF_WORDS, forged_deployment, forged_pod
from tests.support.fuzz import SpecFuzzer
from tests.support.honest import honest_nodes, honest_spec
from tests.support.installed import LLAMA_8B, condition, inference_deployment
from tests.support.operator_in_memory import OperatorInMemory, Trouble
from tests.support.poison import FAR_FROM_THE_TYPE, NOT_YET, POISONED_SPECS
from tests.support.volumes import MANY, ONCE, ZONE, claim, storage_class, volume
from tests.support.volumes_in_memory import users_of

pytestmark = pytest.mark.lengthy

STORIES = os.environ.get("PLIMSOLL_STORIES", "")
"""How many stories to make up. Without a number there are some, and they are the same in every run."""

STEPS = 25

OF_VOLUMES = (CLAIMS, VOLUMES, STORAGE_CLASSES)

HONEST, VICTIM, POISON = "honest", "victim", "poison"
"""Namespaces. Nothing reaches the honest tenant. Others have rights in the victim's namespace that they should not."""

TENANTS = (HONEST, VICTIM)
POISONED: Mapping[str, Mapping[str, Any]] = {**POISONED_SPECS, **FAR_FROM_THE_TYPE}
STATUSES: Mapping[str, Mapping[str, Any]] = {**EDITED_STATUSES, **STATUSES_OF_WORDS}
FUZZERS = [SpecFuzzer(seed, inference_deployment("x", "y")["spec"], wild=wild) for seed, wild in enumerate((0.3, 0.9))]
NONSENSE = {"none": "", "open": "{", "list": "[]", "null": "null", "number": "7", "long": "x" * 10_000}
PRICES = {"word": "cheap", "less": "-1", "more": "1e999999", "NaN": "NaN", "long": "9" * 5000, "huge": "x" * 100_000}

HERE, THERE = "zone-b", "zone-a"
"""Where the volumes of honest tenants are, and where chance moves them for a while."""

CLAIMS_OF_TENANTS = {"once": ONCE, "many": MANY, "late": MANY}
"""The claims of each tenant, with their access modes. ``late`` waits for its first pod."""

REFUSALS: Mapping[str, PlimsollError] = {
    "forbidden": ClusterRefused("get", 403, "forbidden"),
    "error": ClusterRefused("get", 500, "etcdserver: request timed out"),
    "no answer": SourceUnavailable("no answer"),
}

_REST_SECONDS = 310.0
"""Longer than any pause of the operator."""

names = st.sampled_from(["a", "b", "c"])
tenants = st.sampled_from(TENANTS)
specs = st.fixed_dictionaries({"replicas": st.integers(0, 2), "contextLength": st.sampled_from([2048, 4096, 8192])})
claims = st.sampled_from(sorted(CLAIMS_OF_TENANTS))
numbers = st.integers(0, 100_000)
poisons = st.sampled_from(sorted(POISONED)) | st.tuples(st.sampled_from([0, 1]), numbers)
troubles = st.lists(st.sampled_from([None, None, *Trouble]), min_size=1, max_size=8)
nodes = st.sampled_from([f"{tenant}-{index}" for tenant in TENANTS for index in range(3)])
nonsense = st.sampled_from(sorted(NONSENSE))


def tenant_nodes(tenant: str) -> list[Body]:
    """Nodes of one tenant. The cheaper ones are where its volumes are not."""
    dear = honest_nodes(tenant=tenant)
    labels, taints = {"tenant": tenant}, dear[0]["spec"]["taints"]
    for body in dear:
        body["metadata"]["labels"][ZONE] = HERE
    return [*dear, gpu_node(f"{tenant}-2", "A100-SXM4-80GB", 8, zone=THERE, labels=labels, taints=taints)]


def tenant_spec(tenant: str, claim: str | None, **more: Any) -> dict[str, Any]:
    """The spec of an honest object. With a claim its volume alone says which GPU type it gets."""
    spec = honest_spec(tenant, **more)
    if claim is None:
        return spec
    if CLAIMS_OF_TENANTS[claim] == ONCE:
        spec["replicas"] = min(spec["replicas"], 1)
    template = spec["podTemplate"] | {"modelCache": {"claimName": claim}}
    return spec | {"overrides": None, "gpu": {"allow": ["h100-sxm-80gb", "a100-sxm-80gb"]}, "podTemplate": template}


@dataclass
class World:
    """A cluster with its operator, and what is still to go wrong."""

    api: ApiInMemory
    operator: OperatorInMemory = field(init=False)
    troubles: list[Trouble | None] = field(default_factory=list)
    refusal: PlimsollError | None = None
    misplaced: set[ObjectKey] = field(default_factory=set)

    async def open(self, cache: Path) -> None:
        """Start with empty nodes."""
        for body in (*mixed_fleet(), *(node for tenant in TENANTS for node in tenant_nodes(tenant))):
            self.api.put(body)
        claims = [ObjectKey(tenant, name) for tenant in TENANTS for name in CLAIMS_OF_TENANTS]
        for key in claims:
            self.make_claim(key)
        warm = [(tenant, LLAMA_8B) for tenant in TENANTS]
        self.operator = OperatorInMemory(
            self.api, cache, warm, claims, trouble=self._next_trouble, refused=self._refused
        )
        self.operator.before_pass = self._ask_for_claims
        await self.operator.start()

    def _ask_for_claims(self) -> None:
        """Let no process forget a claim between two passes: then none waits for it."""
        for tenant in TENANTS:
            self.operator.passes.reader.claims.look_up(tenant, [*map(Mounted, CLAIMS_OF_TENANTS)])

    def _next_trouble(self) -> Trouble | None:
        return self.troubles.pop(0) if self.troubles else None

    def _refused(self, kind: ObjectKind) -> PlimsollError | None:
        return self.refusal if kind in OF_VOLUMES else None

    def make_claim(self, key: ObjectKey, zone: str = HERE) -> None:
        """Make a claim with its volume, or with the class that makes one for the first pod."""
        own, mode = f"{key.namespace}-{key.name}", CLAIMS_OF_TENANTS[key.name]
        if key.name == "late":
            self.api.put(storage_class(own, zone))
            self.api.put(claim(key.namespace, key.name, mode, kind=own))
        else:
            self.api.put(volume(own, zone, mode))
            self.api.put(claim(key.namespace, key.name, mode, volume=own))

    def lose_claim(self, key: ObjectKey) -> None:
        """Delete a claim, and the pods that keep it."""
        self.misplaced.add(key)
        for pod in users_of(self.api, key):
            self.api.delete(PODS, pod)
        if self.api.get(CLAIMS, key):
            self.api.delete(CLAIMS, key)

    def lose_class(self, key: ObjectKey) -> None:
        """Delete the class of a claim, if it has one."""
        own = ObjectKey("", f"{key.namespace}-{key.name}")
        if self.api.get(STORAGE_CLASSES, own):
            self.api.delete(STORAGE_CLASSES, own)

    def objects(self, namespace: str) -> list[Body]:
        """The InferenceDeployments of a namespace."""
        return self.api.all(INFERENCE_DEPLOYMENTS, namespace)

    def versions(self, namespace: str) -> dict[str, str]:
        """The version of every object of a namespace."""
        found = ((kind, key, body) for (kind, key), body in self.api.objects.items() if key.namespace == namespace)
        return {f"{kind.kind} {key.name}": body["metadata"].get("resourceVersion", "") for kind, key, body in found}

    def outcome(self, namespace: str) -> dict[str, Any]:
        """Everything that a tenant has of the operator, without times."""
        served = {str(body["metadata"]["name"]): self._said(body) for body in self.objects(namespace)}
        owned = {
            f"{kind.kind} {body['metadata']['name']}": (
                body["metadata"].get("labels"),
                (body["metadata"].get("annotations") or {}).get("plimsoll.dev/pool-record"),
                body["metadata"].get("ownerReferences"),
                body.get("spec"),
            )
            for kind in (DEPLOYMENTS, SERVICES, DISRUPTION_BUDGETS)
            for body in self.api.all(kind, namespace)
            if self.api.makers[uid_of(body)] == USER
        }
        pods = [
            (body["metadata"]["labels"], body["spec"]["containers"], bool(body["spec"].get("nodeName")))
            for body in self.api.all(PODS, namespace)
            if "template" in (body["metadata"].get("annotations") or {})
        ]
        return {"said": served, "owned": owned, "pods": pods}

    def _said(self, body: Body) -> Any:
        status = body.get("status") or {}
        return (
            [
                (each["type"], each["status"], each["reason"], each["message"])
                for each in status.get("conditions") or ()
            ],
            condition(body, "Ready").get("observedGeneration") == body["metadata"]["generation"],
            [
                (pool["name"], pool["gpuType"], pool["state"], pool["replicas"], pool["readyReplicas"])
                for pool in status.get("pools") or ()
            ],
        )


class TwoWorlds(RuleBasedStateMachine):
    """The rules say what people and chance may do. After every rule both operators make one pass."""

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.patch = Clock(), pytest.MonkeyPatch()
        self.patch.setattr(time, "time", self.clock.read)
        self.patch.setattr(time, "monotonic", self.clock.read)
        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.Runner()
        self.world, self.twin = World(ApiInMemory(self.clock)), World(ApiInMemory(self.clock))
        self.is_calm = True
        for world in (self.world, self.twin):
            self.loop.run(world.open(Path(self.folder.name)))

    # What honest tenants do.

    @initialize()
    def serve_somebody(self) -> None:
        for tenant in TENANTS:
            self.apply(tenant, "a", {"replicas": 1, "contextLength": 4096})

    @rule(tenant=tenants, name=names, spec=specs, claim=st.none() | claims)
    def apply(self, tenant: str, name: str, spec: dict[str, Any], claim: str | None = None) -> None:
        """Create an object, or change it."""
        for world in (self.world, self.twin):
            world.api.put(inference_deployment(name, tenant, **tenant_spec(tenant, claim, **spec)))
        self._pass()

    @rule(tenant=tenants, name=names)
    def delete(self, tenant: str, name: str) -> None:
        key = ObjectKey(tenant, name)
        for world in (self.world, self.twin):
            if world.api.get(INFERENCE_DEPLOYMENTS, key):
                world.api.delete(INFERENCE_DEPLOYMENTS, key)
        self._pass()

    # What others do.

    @rule(number=st.integers(0, 4), poison=poisons, label=nonsense, note=nonsense)
    def poison(self, number: int, poison: str | tuple[int, int], label: str, note: str) -> None:
        """Create or change an object of nonsense; a pair of numbers is a spec of a fuzzer."""
        spec = POISONED[poison] if isinstance(poison, str) else FUZZERS[poison[0]].spec(poison[1])[1]
        body = inference_deployment(f"p{number}", POISON, **spec)
        body["metadata"]["labels"] = {"plimsoll.dev/deployment": NONSENSE[label]}
        body["metadata"]["annotations"] = {"plimsoll.dev/pool-record": NONSENSE[note], "plimsoll.dev/rendered": "x"}
        self.world.api.put(body)
        self._pass()

    @rule(number=st.integers(0, 4))
    def take_the_poison_away(self, number: int) -> None:
        key = ObjectKey(POISON, f"p{number}")
        if self.world.api.get(INFERENCE_DEPLOYMENTS, key):
            self.world.api.delete(INFERENCE_DEPLOYMENTS, key)
        self._pass()

    @rule(namespace=st.sampled_from([VICTIM, POISON]), number=numbers, status=st.sampled_from(sorted(STATUSES)))
    def forge_a_status(self, namespace: str, number: int, status: str) -> None:
        if found := self.world.objects(namespace):
            key = key_of(found[number % len(found)])
            self.world.api.put_status(INFERENCE_DEPLOYMENTS, key, STATUSES[status])
        self._pass()

    @rule(
        namespace=st.sampled_from([VICTIM, POISON]),
        number=numbers,
        record=st.sampled_from(sorted(RECORDS)),
        replicas=st.sampled_from([1, 2_000_000]),
    )
    def forge_workloads(self, namespace: str, number: int, record: str, replicas: int) -> None:
        """Make a Deployment and a pod that claim to belong to an object."""
        if found := self.world.objects(namespace):
            owner = found[number % len(found)]
            self.world.api.put(forged_deployment(record, owner, RECORDS[record], replicas))
            self.world.api.put(forged_pod(f"pod-{record}", owner))
        self._pass()

    @rule(number=numbers, proposal=nonsense, name=st.sampled_from(["a", "nobody"]))
    def forge_an_approval(self, number: int, proposal: str, name: str) -> None:
        """Make a proposal that claims to belong to an object, and approve it and another one that nobody made."""
        version = {"apiVersion": APPROVALS.api_version}
        content = {"deployment": name, "id": "0123456789ab", "reason": NONSENSE[proposal]}
        for namespace in (VICTIM, POISON):
            head: dict[str, Any] = {"name": f"forged-{number % 3}", "namespace": namespace}
            spec = {
                "deployment": name,
                "proposal": NONSENSE[proposal] or "0123456789ab",
                "decision": "approve",
                "by": "mallory",
            }
            self.world.api.put({**version, "kind": APPROVALS.kind, "metadata": head, "spec": spec})
            if owner := self.world.api.get(INFERENCE_DEPLOYMENTS, ObjectKey(namespace, name)):
                forged = forged_deployment("x", owner, None, 1)["metadata"]
                head = {**forged, **head}
            self.world.api.put({**version, "kind": PROPOSALS.kind, "metadata": head, **content})
        self._pass()

    @rule(number=numbers, replicas=st.integers(0, 3))
    def tamper_with_a_workload(self, number: int, replicas: int) -> None:
        """Scale a Deployment of the operator, and take its record or its labels away."""
        workloads = [
            body for body in self.world.api.all(DEPLOYMENTS, VICTIM) if self.world.api.makers[uid_of(body)] == USER
        ]
        if workloads:
            body = workloads[number % len(workloads)]
            head = {**body["metadata"]}
            head.pop(("annotations", "labels", "nothing")[number % 3], None)
            spec = {**body["spec"], "replicas": replicas}
            self.world.api.put({**body, "metadata": head, "spec": spec})
        self._pass()

    @rule(price=st.sampled_from(sorted(PRICES)), key=st.sampled_from(["l4-24gb", "h100-sxm-80gb", "", "no-such-gpu"]))
    def misprice(self, price: str, key: str) -> None:
        head = {"name": "plimsoll-prices", "namespace": NAMESPACE}
        self.world.api.put(
            {"apiVersion": "v1", "kind": CONFIG_MAPS.kind, "metadata": head, "data": {key: PRICES[price]}}
        )
        self._pass()

    # What chance does.

    @rule()
    def restart(self) -> None:
        self.loop.run(self.world.operator.restart())
        self._pass()

    @rule()
    def expire_the_watches(self) -> None:
        self.loop.run(self.world.operator.break_watches())
        self._pass()

    @rule(what=troubles)
    def fail_the_next_writes(self, what: list[Trouble | None]) -> None:
        """Let some of the next writes fail, be doubted, or be the last ones of the process."""
        self.world.troubles = what
        self.is_calm = False
        self._pass()

    @rule(node=nodes)
    def lose_a_node(self, node: str) -> None:
        if self.world.api.get(NODES, ObjectKey("", node)):
            self.world.api.delete(NODES, ObjectKey("", node))
            self.world.api.run_controllers()
        self.is_calm = False
        self._pass()

    @rule(tenant=tenants, claim=claims)
    def lose_a_claim(self, tenant: str, claim: str) -> None:
        self.world.lose_claim(ObjectKey(tenant, claim))
        self.is_calm = False
        self._pass()

    @rule(tenant=tenants, claim=claims)
    def move_a_claim(self, tenant: str, claim: str) -> None:
        """Let it be made again with a volume of the other zone."""
        self.world.lose_claim(ObjectKey(tenant, claim))
        self.world.make_claim(ObjectKey(tenant, claim), THERE)
        self.is_calm = False
        self._pass()

    @rule(tenant=tenants)
    def lose_a_class(self, tenant: str) -> None:
        """Let a claim be made anew while its class is away."""
        self.world.lose_claim(ObjectKey(tenant, "late"))
        self.world.make_claim(ObjectKey(tenant, "late"))
        self.world.lose_class(ObjectKey(tenant, "late"))
        self.is_calm = False
        self._pass()

    @rule(why=st.sampled_from(sorted(REFUSALS)))
    def refuse_to_read_volumes(self, why: str) -> None:
        self.world.refusal = REFUSALS[why]
        self.is_calm = False
        self._pass()

    @rule()
    def let_it_pass(self) -> None:
        """Undo what chance has done, and wait until all is done: then both worlds agree."""
        self._bring_peace()

    def teardown(self) -> None:
        try:
            self._bring_peace()
        finally:
            for world in (self.world, self.twin):
                self.loop.run(world.operator.close())
            self.loop.close()
            self.folder.cleanup()
            self.patch.undo()

    # What must be true.

    def _pass(self) -> None:
        self.clock.now += 1.0
        for world in (self.world, self.twin):
            self.loop.run(world.operator.go_on(seconds=0.0))
        assert self.world.api.trespasses == []
        if self.is_calm:
            assert self._faults(TENANTS) == []
            self._assert_agreed(HONEST)

    def _faults(self, namespaces: tuple[str, ...]) -> list[str]:
        faults = self.world.operator.passes.faults
        bodies = [body for namespace in namespaces for body in self.world.objects(namespace)]
        found = ((body, faults.latest(uid_of(body), body["metadata"]["generation"])) for body in bodies)
        return [f"{key_of(body)}: {fault.step} {fault.error}" for body, fault in found if fault is not None]

    def _assert_agreed(self, tenant: str) -> None:
        here, there = self.world.outcome(tenant), self.twin.outcome(tenant)
        for part in here:
            assert here[part] == there[part], (tenant, part)

    def _bring_peace(self) -> None:
        self.world.troubles, self.world.refusal = [], None
        while self.world.misplaced:
            key = self.world.misplaced.pop()
            self.world.lose_claim(key)
            self.world.make_claim(key)
            self.world.misplaced.discard(key)
        for tenant in TENANTS:
            for node in tenant_nodes(tenant):
                if not self.world.api.get(NODES, key_of(node)):
                    self.world.api.put(node)
        for _ in range(4):
            self.clock.now += _REST_SECONDS
            for world in (self.world, self.twin):
                self.loop.run(world.operator.go_on(seconds=0.0))
        self.is_calm = True
        for tenant in TENANTS:
            self._assert_agreed(tenant)
        for body in self.world.objects(POISON):
            assert condition(body, "Ready").get("reason", "") not in NOT_YET, body
        self._assert_nothing_left_to_do()

    def _assert_nothing_left_to_do(self) -> None:
        """A process that knows nothing finds nothing to do for the tenants."""
        before, versions = len(self.world.api.writes), self.world.versions(VICTIM)
        self.loop.run(self.world.operator.restart())
        self.loop.run(self.world.operator.go_on(seconds=0.0))
        again = [event for event in self.world.api.writes[before:] if (event.user, event.namespace) == (USER, HONEST)]
        assert [(each.verb, each.resource, each.name) for each in again] == []
        assert self.world.versions(VICTIM) == versions


TestTwoWorlds = pytest.mark.timeout(3600)(TwoWorlds.TestCase)
TestTwoWorlds.settings = settings(
    max_examples=int(STORIES or 15),
    derandomize=not STORIES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)

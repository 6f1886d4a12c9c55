"""Passes with an inbox, and a cluster that keeps proposals and approvals in the passes' own store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.client import APPROVALS, PROPOSALS, Cluster, ObjectKind
from plimsoll.app.plan.inbox import ProposalInbox
from plimsoll.app.plan.rendered import Desired
from plimsoll.app.watch.store import Store, key_of
from plimsoll.app.write.proposal_writer import ProposalWriter
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import to_rfc3339
from tests.support.bodies import Body
from tests.support.live_passes import LivePasses


@dataclass
class ProposalServer:
    """An API server of two kinds. ``refused`` holds names of objects whose writes it refuses, by status."""

    store: Store
    calls: list[str] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    version: int = 1000

    async def apply(self, manifest: Body) -> Body:
        """Store a proposal."""
        head = self._stamped(f"apply {manifest['metadata']['name']}", manifest)
        return {**manifest, "metadata": {**head, "uid": f"uid-{head['name']}"}}

    async def put_status(self, kind: ObjectKind, approval: Body, status: Mapping[str, Any]) -> Body:
        """Store the status of an approval."""
        key = key_of(approval)
        known = self.store.get(kind, key)
        assert known is not None
        assert known["metadata"]["uid"] == approval["metadata"]["uid"]
        head = self._stamped(f"status {key.name} {status['state']}", known)
        return {**known, "metadata": head, "status": dict(status)}

    async def delete(self, kind: ObjectKind, key: ObjectKey, uid: str) -> None:
        """Delete either."""
        known = self.store.get(kind, key)
        assert known is not None
        assert known["metadata"]["uid"] == uid
        self._stamped(f"delete {key.name}", known)

    def _stamped(self, call: str, body: Body | Mapping[str, Any]) -> Body:
        self.calls.append(call)
        name = body["metadata"]["name"]
        if name in self.refused:
            raise ClusterRefused(call, self.refused[name], "no")
        self.version += 1
        return {**body["metadata"], "resourceVersion": str(self.version)}


@dataclass
class ProposalPasses:
    """Passes and the proposal writer that writes what they decide."""

    there: LivePasses
    box: ProposalServer
    proposal_writer: ProposalWriter
    made: int = 0

    @staticmethod
    def open(there: LivePasses) -> ProposalPasses:
        """Give the passes an inbox."""
        there.passes.inbox = ProposalInbox(lambda: True)
        box = ProposalServer(there.store)
        return ProposalPasses(there, box, ProposalWriter(cast("Cluster", box), there.store))

    async def turn(self) -> dict[str, Desired]:
        """Make one pass, write its outbox, and let the cluster do what was decided."""
        cases = self.there.make()
        for case in cases.values():
            await self.proposal_writer.deliver(case)
        self.there.carry_out(list(cases.values()))
        return cases

    def proposals(self) -> list[Body]:
        """The proposals that stand, by name."""
        return [dict(body) for body in self.there.store.all(PROPOSALS)]

    def answer(
        self,
        proposal: str | None,
        *,
        decision: str = "approve",
        deployment: str = "asks",
        namespace: str = "ns",
        **more: Any,
    ) -> str:
        """Let somebody answer a proposal, or with none a finding; returns the name of the approval."""
        self.made += 1
        name = f"answer-{self.made}"
        named = {} if proposal is None else {"proposal": proposal}
        spec = {"deployment": deployment, **named, "decision": decision, "by": "alex"} | more
        head = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1"}
        head["creationTimestamp"] = to_rfc3339(self.there.now - 100 + self.made)
        self.there.store.observe(
            APPROVALS,
            "ADDED",
            {"apiVersion": APPROVALS.api_version, "kind": APPROVALS.kind, "metadata": head, "spec": spec},
        )
        return name

    def outcome(self, name: str) -> str:
        """The state of an approval; empty before it has one."""
        return str(self._answered(name).get("state") or "")

    def message_of(self, name: str) -> str:
        """The message in the status of an approval."""
        return str(self._answered(name).get("message") or "")

    def _answered(self, name: str) -> Mapping[str, Any]:
        body = self.there.store.get(APPROVALS, ObjectKey("ns", name))
        assert body is not None
        return body.get("status") or {}

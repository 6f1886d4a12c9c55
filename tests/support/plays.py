"""Plays of several deployments through the whole operator, in memory: at peace, and with trouble at its writes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from plimsoll.adapters.cluster.client import APPROVALS, EVENTS, INFERENCE_DEPLOYMENTS, PODS, PROPOSALS
from plimsoll.app.watch.store import key_of
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.diagnosis import replicas
from plimsoll.rebalance.state import replacement
from testbed.engine_pods import is_ready
from testbed.operator_process import USER
from tests.support.api_in_memory import ApiInMemory, Clock
from tests.support.engines_in_memory import EnginesInMemory
from tests.support.operator_in_memory import OperatorInMemory, Trouble

MOST_PASSES = 80


@dataclass
class Play:
    """A cluster and its operator. ``fewest`` is the least number of replicas of ``watched`` that have served so far."""

    api: ApiInMemory
    engines: EnginesInMemory
    operator: OperatorInMemory
    watched: ObjectKey
    fewest: int = 99

    def nodes_of(self, key: ObjectKey) -> dict[str, str]:
        """The pods of a deployment that serve, and the node of each."""
        return {key_of(body).name: str(body["spec"]["nodeName"]) for body in self.pods_of(key) if is_ready(body)}

    def pods_of(self, key: ObjectKey) -> list[Any]:
        """All pods of a deployment."""
        labels = (body["metadata"]["labels"].get("plimsoll.dev/deployment") for body in self.api.all(PODS))
        return [body for name, body in zip(labels, self.api.all(PODS), strict=True) if name == key.name]

    def status(self, key: ObjectKey | None = None) -> dict[str, Any]:
        """The status of a deployment; of the watched one without a key."""
        body = self.api.get(INFERENCE_DEPLOYMENTS, key or self.watched)
        assert body is not None
        found: dict[str, Any] = body.get("status") or {}
        return found

    def live(self, key: ObjectKey | None = None) -> dict[str, Any]:
        """The live loop's part of a status."""
        found: dict[str, Any] = self.status(key).get("rebalancing") or {}
        return found

    def evicted(self) -> list[str]:
        """The pods that the operator ended."""
        return [each.name for each in self.api.writes if (each.user, each.resource) == (USER, "pods/eviction")]

    def proposals(self, key: ObjectKey) -> list[Any]:
        """The proposals of a deployment that stand."""
        return [dict(body) for body in self.api.all(PROPOSALS) if body["deployment"] == key.name]

    def approve(self, key: ObjectKey) -> None:
        """Let somebody approve the only proposal of a deployment."""
        [proposal] = self.proposals(key)
        asked = {"deployment": key.name, "proposal": proposal["id"], "decision": "approve", "by": "alex"}
        head = {"name": f"approves-{proposal['id']}", "namespace": key.namespace}
        kind = {"apiVersion": APPROVALS.api_version, "kind": APPROVALS.kind}
        self.api.put({**kind, "metadata": head, "spec": asked})

    def outcome(self) -> str:
        """The state of the only approval."""
        [approval] = self.api.all(APPROVALS)
        return str((approval.get("status") or {}).get("state"))

    def writes(self, since: int) -> Sequence[tuple[str, str, str]]:
        """What the operator has written since then, in order."""
        return [(each.verb, each.resource, each.name) for each in self.api.writes[since:] if each.user == USER]

    def notes(self, reason: str) -> list[str]:
        """The events of a reason."""
        return [str(body["note"]) for body in self.api.all(EVENTS) if body["reason"] == reason]

    async def go_on_until(self, question: Callable[[], bool]) -> None:
        """Make passes, one a second, until the answer is yes."""
        for _ in range(MOST_PASSES):
            if question():
                return
            await self.operator.go_on()
            self.fewest = min(self.fewest, len(self.nodes_of(self.watched)))
        raise AssertionError(f"not within {MOST_PASSES} passes: {self.nodes_of(self.watched)}, {self.status()}")

    async def rest(self, passes: int = 10) -> None:
        """Make some passes."""
        for _ in range(passes):
            await self.operator.go_on()
            self.fewest = min(self.fewest, len(self.nodes_of(self.watched)))


@dataclass
class Theatre:
    """Opens plays, and ends them all."""

    cache: Path
    clock: Clock
    opened: list[OperatorInMemory] = field(default_factory=list)

    async def open(self, watched: ObjectKey, api: ApiInMemory, trouble: Callable[[], Trouble | None]) -> Play:
        """Return a play on an API server."""
        engines, operator = EnginesInMemory(api), OperatorInMemory(api, self.cache, trouble=trouble)
        operator.before_pass = lambda: engines.scrape(operator)
        self.opened.append(operator)
        await operator.start()
        return Play(api, engines, operator, watched)

    async def begun(self, watched: ObjectKey) -> Play:
        """Return a play on an empty cluster."""
        return await self.open(watched, ApiInMemory(self.clock), lambda: None)

    async def again(self, before: Play, trouble: Callable[[], Trouble | None] = lambda: None) -> Play:
        """Return another play that goes on from where one is."""
        play = await self.open(before.watched, before.api.copy(), trouble)
        play.engines.samples |= before.engines.samples
        play.engines.silent |= before.engines.silent
        play.engines.loads |= before.engines.loads
        return play

    async def close(self) -> None:
        """End all operators."""
        for operator in self.opened:
            await operator.close()


@asynccontextmanager
async def hurried_theatre(cache: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Theatre]:
    """A theatre whose clock the operator reads. A silent pod is certain after 6 s, and a new one proven after 4 s."""
    made = Theatre(cache, Clock())
    monkeypatch.setattr(time, "time", made.clock.read)
    monkeypatch.setattr(time, "monotonic", made.clock.read)
    monkeypatch.setattr(replicas, "SILENT_SECONDS", 6.0)
    monkeypatch.setattr(replacement, "PROVEN_SECONDS", 4.0)
    yield made
    await made.close()

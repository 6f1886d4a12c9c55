"""One small world in the audit log: who served, what was asked for, and what was made, at every moment."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from testbed.audit import AuditEvent
from testbed.operator_process import USER
from tests.support.small_worlds import World

_ACCEPTED = range(200, 300)
_CREATED = 201
_ID = re.compile(r"(?<=-)[0-9a-f]{12}$")
_DELETED = 0


@dataclass(frozen=True, slots=True)
class Witness:
    """All writes of one world that the API server accepted, in order, and its GPUs by node."""

    events: tuple[AuditEvent, ...]
    gpus: Mapping[str, int]

    @staticmethod
    def of(events: Iterable[AuditEvent], world: World) -> Witness:
        """Keep what was accepted in this world."""
        kept = (event for event in events if event.namespace == world.namespace and event.status in _ACCEPTED)
        return Witness(tuple(kept), world.gpus())

    @property
    def own(self) -> tuple[AuditEvent, ...]:
        """The operator's writes."""
        return tuple(event for event in self.events if event.user == USER)

    @property
    def changes(self) -> list[tuple[str, str, str]]:
        """The operator's writes that change what runs, and those about proposals."""
        reported = ("inferencedeployments/status", "events")
        return [(event.verb, event.resource, event.name) for event in self.own if event.resource not in reported]

    @property
    def reasons(self) -> list[str]:
        """The live loop's reasons in the statuses, in order."""
        return [
            f"{reported.get('reason')}: {reported.get('message')}" for event in self.own if (reported := _loop(event))
        ]

    def broken_by(self, peace: Witness) -> Iterator[str]:
        """Yield what must not happen. ``peace`` is the same story without a disturbance."""
        if self.fewest_ready() < 1:
            yield "there was a moment when nobody served"
        for node, count in self.gpus.items():
            if (most := self.most_wanted().get(node, 0)) > count:
                yield f"{most} GPUs of {node} were wanted, and it has {count}"
            if (most := self.most_pods().get(node, 0)) > count:
                yield f"{most} pods were on {node}, which has {count} GPUs"
        if self.asked_replicas() != peace.asked_replicas():
            yield f"replicas asked for: {self.asked_replicas()} instead of {peace.asked_replicas()}"
        if self.created() != peace.created():
            yield f"created: {self.created()} instead of {peace.created()}"
        if self.most_changes() > 1:
            yield f"{self.most_changes()} changes were on record"
        if self.outcomes() != peace.outcomes():
            yield f"approvals ended as {self.outcomes()} instead of {peace.outcomes()}"

    def fewest_ready(self) -> int:
        """The fewest pods that served at the same time, from the first one that did."""
        counts = [len(ready) for ready in self._ready()]
        first = next((index for index, count in enumerate(counts) if count), len(counts))
        return min(counts[first:], default=0)

    def _ready(self) -> Iterator[set[str]]:
        """The pods that serve, after every write. A pod serves until somebody asks for its deletion."""
        ready: set[str] = set()
        for event in self.events:
            if event.resource == "pods/status" and (says := _readiness(event.body)) is not None:
                (ready.add if says else ready.discard)(event.name)
            if _is_deletion(event, "pods"):
                ready.discard(event.name)
            yield set(ready)

    def most_pods(self) -> dict[str, int]:
        """The most pods that each node had at the same time. A pod is on its node until its last deletion."""
        ends = {event.name: index for index, event in enumerate(self.events) if _is_deletion(event, "pods")}
        nodes: dict[str, set[str]] = {}
        most: Counter[str] = Counter()
        for index, event in enumerate(self.events):
            if event.resource == "pods/binding":
                node = str(event.body["target"]["name"])
                here = {pod for pod in nodes.get(node, ()) if ends.get(pod, index) >= index} | {event.name}
                nodes[node], most[node] = here, max(most[node], len(here))
        return dict(most)

    def most_wanted(self) -> dict[str, int]:
        """The most GPUs of each node that all pools together wanted at the same time. A replica takes one GPU."""
        wanted: Counter[tuple[str, str]] = Counter()
        most: Counter[str] = Counter()
        for name, replicas in self._asked():
            [node] = [each for each in self.gpus if f"-{each.rpartition('-')[2]}-" in name]
            wanted[node, name] = replicas
            most[node] = max(most[node], sum(count for (where, _), count in wanted.items() if where == node))
        return dict(most)

    def asked_replicas(self) -> dict[str, list[int]]:
        """The replicas that the operator asked of each Deployment, in order and without repetitions; 0 ends it."""
        asked: dict[str, list[int]] = {}
        for name, replicas in self._asked():
            asked.setdefault(name, []).append(replicas)
        return {name: [count for count, _ in groupby(counts)] for name, counts in sorted(asked.items())}

    def _asked(self) -> Iterator[tuple[str, int]]:
        for event in self.own:
            if event.resource == "deployments":
                yield event.name, _DELETED if event.verb == "delete" else int(event.body["spec"]["replicas"])

    def created(self) -> list[tuple[str, str]]:
        """The objects that the operator created, each time that it did. Events are left out, and ids of proposals."""
        made = (event for event in self.own if event.status == _CREATED and event.resource != "events")
        return sorted((event.resource, _ID.sub("ID", event.name)) for event in made)

    def most_changes(self) -> int:
        """The most changes that any written status had."""
        return max((len(_loop(event).get("changes") or ()) for event in self.own), default=0)

    def outcomes(self) -> Counter[str]:
        """How often the operator gave each final state to an approval. It may write the same answer twice."""
        said = [event for event in self.own if event.resource == "placementapprovals/status"]
        states = [state for state, _ in groupby(str(event.body["status"]["state"]) for event in said)]
        return Counter(state for state in states if state != "Waiting")


def _is_deletion(event: AuditEvent, resource: str) -> bool:
    return (event.resource, event.verb) == (resource, "delete")


def _readiness(body: Any) -> bool | None:
    """Whether a patch of a pod's status says that it is ready; None where it does not say."""
    listed = ((body or {}).get("status") or {}).get("conditions") or ()
    return next((entry["status"] == "True" for entry in listed if entry["type"] == "Ready"), None)


def _loop(event: AuditEvent) -> dict[str, Any]:
    if event.resource != "inferencedeployments/status":
        return {}
    return dict((event.body.get("status") or {}).get("rebalancing") or {})

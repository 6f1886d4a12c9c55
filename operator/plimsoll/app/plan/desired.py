"""The writes about one object after a pass: its status, the objects of its pools, and its proposals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plimsoll.app.plan.inbox import Outbox
from plimsoll.app.watch.store import Body
from plimsoll.decision.outcome import Outcome
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.workload import Manifest
from plimsoll.status.report import Report


@dataclass(frozen=True, slots=True)
class Desired:
    """The decision about one object as it is to be written.

    Attributes:
        body: the object as the store has it, with the status that is being written.
        outcome: the decision.
        report: what the status is made from.
        manifests: the objects of its pools.
        new_status: the status; None: there is none.
        outbox: what is to be written about proposals and approvals.
    """

    body: Body
    outcome: Outcome
    report: Report | None = None
    manifests: tuple[Manifest, ...] = ()
    new_status: Mapping[str, Any] | None = None
    outbox: Outbox = field(default_factory=Outbox)

    @property
    def key(self) -> ObjectKey:
        """Namespace and name of the object."""
        return self.outcome.key

    @property
    def uid(self) -> str:
        """Kubernetes' identity of the object."""
        return self.outcome.uid

    @property
    def generation(self) -> int:
        """The generation of the spec that was decided on."""
        return self.outcome.generation

    @property
    def workloads(self) -> Mapping[str, Body]:
        """The object's Deployments as they are, by pool."""
        return self.outcome.deployment.placed.around.workloads

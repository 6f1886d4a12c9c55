"""The writes about one object after a pass, and a cache of them: most objects change in only a few passes a day.

While a deployment starts, its pods change in nearly every pass, and what they are made from does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from plimsoll.api.v1alpha1 import InferenceDeployment
from plimsoll.api.v1alpha1.status import AcknowledgedStatus
from plimsoll.app.plan.inbox import ProposalWrites
from plimsoll.app.settings import Settings
from plimsoll.app.watch.equal_parts import shared
from plimsoll.app.watch.store import Body
from plimsoll.decision.deployment import Deployment
from plimsoll.decision.kept import Kept
from plimsoll.decision.outcome import Outcome
from plimsoll.decision.results.manifests import manifests_of
from plimsoll.decision.results.reports import report_of
from plimsoll.domain.engines.images import ImagePlatforms
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.workload import Manifest
from plimsoll.domain.units import to_rfc3339
from plimsoll.placement.demands.pools import PlannedPool
from plimsoll.placement.extra_pods import Replacements
from plimsoll.status.record.acknowledged import (
    ACKNOWLEDGED,
    AcknowledgementAnswer,
    AcknowledgementOutcome,
    acknowledged_by,
    answers_of,
)
from plimsoll.status.record.reading import Record
from plimsoll.status.record.report import Report
from plimsoll.status.severity import Judged, state_at
from plimsoll.status.signs import signs_of
from plimsoll.status.writing import document_of, new_status

UNWRITTEN_SECONDS = 120.0
"""How long a status that is not written yet is good: the last of a thousand new objects waits so long for its turn."""


@dataclass(frozen=True, slots=True)
class Desired:
    """The decision about one object as it is to be written.

    Attributes:
        body: the object as the store has it, with the status that is being written.
        outcome: the decision.
        report: what the status is made from.
        manifests: the objects of its pools.
        new_status: the status; None: there is none.
        judged: the state that this status shows; None: there is none.
        acknowledgements: what became of those who acknowledge a finding.
        outbox: what is to be written about proposals and approvals.
    """

    body: Body
    outcome: Outcome
    report: Report | None = None
    manifests: tuple[Manifest, ...] = ()
    new_status: Mapping[str, Any] | None = None
    judged: Judged | None = None
    acknowledgements: tuple[AcknowledgementAnswer, ...] = ()
    outbox: ProposalWrites = field(default_factory=ProposalWrites)

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


@dataclass(frozen=True, slots=True)
class _Last:
    """The last rendering for one version of an object, the facts it was made from, and until when it is good."""

    facts: tuple[object, ...]
    desired: Desired
    until: float


@dataclass(frozen=True, slots=True)
class _Made:
    resource: InferenceDeployment | None
    pools: tuple[PlannedPool, ...] | None
    platforms: ImagePlatforms | None
    more: tuple[Replacements, Replacements, tuple[str, ...], bool, tuple[bool, str]]
    manifests: tuple[Manifest, ...]


@dataclass(slots=True)
class Rendered:
    """The last manifests and the last rendering of every object.

    The time is not compared if the object's status already equals the rendering: the time only dates changes, and this
    rendering changes nothing. Any other is good for :data:`UNWRITTEN_SECONDS`.
    """

    _kept: Kept[_Last] = field(default_factory=Kept)
    _made: Kept[_Made] = field(default_factory=Kept)
    _now: float = 0.0
    _settings: Settings = field(default_factory=Settings)

    def begin(self, now: float, settings: Settings) -> None:
        """Begin a pass. ``now`` is in POSIX seconds."""
        self._kept.begin()
        self._made.begin()
        self._now, self._settings = now, settings

    def desired(self, body: Body, outcome: Outcome) -> Desired:
        """Return what is to be written of a decision: the last rendering if everything that it was made from is equal.

        Args:
            body: the object.
            outcome: the decision about it.
        """
        facts, known = _facts(outcome), self._kept.get(outcome.uid)
        if known is not None and known.desired.body is body and self._now < known.until and known.facts == facts:
            desired = known.desired
            if desired.outcome is not outcome:
                desired = replace(desired, outcome=outcome)
                known = _Last(known.facts, desired, known.until)
            self._kept.put(outcome.uid, known)
            return desired
        report = report_of(outcome, self._now)
        manifests = self._manifests(outcome)
        status, judged, answers = self._status(body, report, outcome.deployment, outcome.deployment.record)
        is_written = status == body.get("status")
        stored = body.get("status") if is_written else status
        desired = Desired(body, outcome, report, manifests, stored, judged, answers)
        until = math.inf if is_written else self._now + UNWRITTEN_SECONDS
        ends = [each.asked.until for each in answers if each.outcome is AcknowledgementOutcome.HOLDS]
        gateway = outcome.deployment.placed.around.router.gateway
        if gateway is not None and self._now < gateway.answer_due:
            ends.append(gateway.answer_due)
        until = min([until, *ends])
        self._kept.put(outcome.uid, _Last(facts, desired, until))
        return desired

    def problem_alone(self, body: Body, outcome: Outcome) -> Desired:
        """Return what is to be written if the earlier status is of no use: the problem alone."""
        report = report_of(outcome, self._now)
        status, judged, answers = self._status(body, report, outcome.deployment, Record())
        return Desired(body, outcome, report, new_status=status, judged=judged, acknowledgements=answers)

    def _status(
        self, body: Body, report: Report, deployment: Deployment, record: Record
    ) -> tuple[dict[str, Any], Judged, tuple[AcknowledgementAnswer, ...]]:
        """Return the status after a report, the state that it shows, and what became of who acknowledges a finding."""
        status, now = new_status(report, record, to_rfc3339(self._now)), self._now
        signs = signs_of(status, body["metadata"])
        judged, known, asked = state_at(signs, now), signs.acknowledged, deployment.people.acknowledging
        if asked is None:
            return document_of(status), judged, ()
        answers = answers_of(asked, known, judged, signs.generation, now)
        kept = acknowledged_by(answers, known, judged)
        if kept != known:
            entries = [AcknowledgedStatus.model_validate(ACKNOWLEDGED.fields(each), by_name=True) for each in kept]
            status = status.model_copy(update={"acknowledged": entries})
            judged = state_at(replace(signs, acknowledged=kept), now)
        return document_of(status), judged, answers

    def _manifests(self, outcome: Outcome) -> tuple[Manifest, ...]:
        """Return the last manifests if spec, pools and the image's platforms are the same; else make them."""
        decision, resource = outcome.decision, outcome.deployment.asked.resource
        pools = None if decision is None else decision.pools
        platforms = None if decision is None else decision.request.platforms
        weights = outcome.deployment.asked.weights
        awaits = weights is not None and not weights.is_ready
        placed = outcome.deployment.placed
        routed = bool(placed.around.router.ready), placed.around.router.missing
        more = placed.held_back, outcome.besides.replacing, outcome.besides.leaving, awaits, routed
        known = self._made.get(outcome.uid)
        same = known is not None and known.resource is resource and known.more == more
        if known is None or not same or (known.pools, known.platforms) != (pools, platforms):
            settings = self._settings
            manifests = manifests_of(
                outcome,
                settings.images,
                tool=settings.copy_tool,
                routers=settings.router_images,
                scrape_annotations=settings.scrape_annotations,
            )
            known = _Made(resource, pools, platforms, more, tuple(map(shared, manifests)))
        return self._made.put(outcome.uid, known).manifests


def _facts(outcome: Outcome) -> tuple[Any, ...]:
    """Return all that a rendering is made from, other than the object itself."""
    deployment, writes = outcome.deployment, outcome.deployment.writes
    return (
        deployment.asked,
        deployment.placed,
        writes.refusal,
        writes.contests,
        outcome.observed,
        outcome.request,
        outcome.standing,
        outcome.decision,
        outcome.turn,
        outcome.problem,
        deployment.people.acknowledging,
        outcome.under_way,
        outcome.besides,
    )

"""The states of an InferenceDeployment, and what everybody says about each: the data of one table.

Each object is made by the operator's own code: a report becomes a status, as in a pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from plimsoll.api.crd.schema import UNSEEN, crd
from plimsoll.app.write.executor import Note
from plimsoll.app.write.notes import notes_of
from plimsoll.domain.decisions.outcomes import Rejection, Split
from plimsoll.domain.engines.failures import EngineFailure, StartFailure
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import ConditionReason, LiveTrouble, Reason
from plimsoll.domain.requests.routing import GatewayView, RouterView, RoutingMode
from plimsoll.domain.requests.weights import Weights, WeightsState, WeightsView
from plimsoll.domain.units import from_rfc3339
from plimsoll.placement.demands.failed_moves import Delay
from plimsoll.placement.demands.pools import Decision, PoolState
from plimsoll.status.record.reading import Record
from plimsoll.status.record.report import DeploymentProblem, PoolView, RebalancingReport, Report, RoutingReport
from plimsoll.status.severity import ALERTS, PATIENCE_SECONDS, Severity
from plimsoll.status.writing import document_of, new_status
from tests.render.workloads import decision
from tests.support.outcomes import deployment_of, desired_of, outcome_of
from tests.support.planning import H100, L4, LLAMA_70B_FP8, fleet, node, pool, request

ROOT = Path(__file__).resolve().parents[2]
NOW = "2026-01-01T00:00:00Z"
GENERATION = 3
POOL = "h100-sxm-80gb-tp1"

PLACED = decision()
FULL = decision(where=fleet(node("h", H100, 8, held=8)))
NOWHERE = decision(request(LLAMA_70B_FP8), fleet(node("l4", L4, 1)))
NONE_WANTED = decision(request(replicas=0))


@cache
def definition() -> dict[str, Any]:
    """The CRD of InferenceDeployment, made once: it takes a tenth of a second, and readers ask for it in each case."""
    return crd()


def _missing(reason: Reason, **numbers: int | str) -> Decision:
    """A decision that lacks its one replica, because every place has the same trouble."""
    rejection = Rejection(H100, Split(1), reason, tuple(numbers.items()))
    return replace(FULL, pools=(), missing=1, rejections=(rejection,), remedies=())


def _with_estimate(**changes: Any) -> Decision:
    (only,) = PLACED.pools
    assert only.choice is not None
    figures = replace(only.choice.estimate, **changes)
    return replace(PLACED, pools=(replace(only, choice=replace(only.choice, estimate=figures)),))


def _expected_bytes() -> int:
    assert PLACED.choice is not None
    return PLACED.choice.estimate.expected_bytes


def _report(decided: Decision | None = PLACED, *views: PoolView, replicas: int = 1, **more: Any) -> Report:
    return Report("llama", GENERATION, replicas, decision=decided, pools=views, namespace="ns", **more)


def _view(pods: int = 1, ready: int = 1, **more: Any) -> PoolView:
    return PoolView(POOL, pods=pods, ready=ready, **more)


def _problem(reason: ConditionReason, *, permanent: bool) -> Report:
    return _report(None, problem=DeploymentProblem(reason, "spec.model.name: 'x' is not there", permanent=permanent))


def _live(trouble: LiveTrouble | None = None, **more: Any) -> RebalancingReport:
    return RebalancingReport(
        "Keep", "PromiseMissed", "A token takes 90 ms, and 40 ms are promised.", trouble=trouble, **more
    )


def _routing(**more: Any) -> RoutingReport:
    return RoutingReport(RoutingMode.STANDALONE, RouterView(**more))


CRASH = EngineFailure(StartFailure.OUT_OF_MEMORY, "CUDA out of memory")
CRASHED = _view(1, 0, failure=CRASH, restarts=2)
OUTGROWN = replace(
    PLACED, outgrown=Rejection(H100, Split(1), Reason.OBSERVED_TOO_SMALL, (("have_tokens", 1), ("need_tokens", 2)))
)


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table: a situation, and what each reader of the object says.

    Attributes:
        name: the situation, for people.
        report: what the operator knows; None: it has not come to the object.
        ready: status and reason of ``Ready``.
        kstatus: the status by kstatus, which Flux and ``helm --wait`` ask.
        argo: the health by the script for Argo CD.
        word: the state in the console, ``plimsoll top`` and the metric.
        kind: the colour there.
        severity: what the alerts go by.
        event: the reasons of the events that the first pass records, with blanks between them.
        waits: the exit status of ``kubectl wait --for=condition=Ready`` that asks once.
        trouble: the printer column next to ``Ready`` and ``Reason``.
        spec: what is special about the spec.
        head: what is special about the metadata.
    """

    name: str
    report: Report | None
    ready: str
    kstatus: str
    argo: str
    word: str
    kind: str
    severity: Severity
    event: str = ""
    waits: int = 1
    trouble: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)
    head: Mapping[str, Any] = field(default_factory=dict)

    @property
    def alert(self) -> str:
        """The alert that fires when the state lasts; empty for none."""
        return ALERTS.get(self.severity, "")

    def body(self) -> dict[str, Any]:
        """The object as the API server has it."""
        head: dict[str, Any] = {
            "name": "llama",
            "namespace": "ns",
            "uid": "u1",
            "generation": GENERATION,
            "resourceVersion": "9",
        }
        head["creationTimestamp"] = NOW
        body: dict[str, Any] = {
            "apiVersion": "plimsoll.dev/v1alpha1",
            "kind": "InferenceDeployment",
            "metadata": {**head, **self.head},
            "spec": {"model": {"name": "m"}, **self.spec},
        }
        body["status"] = UNSEEN if self.report is None else document_of(new_status(self.report, Record(), NOW))
        return body

    def events(self) -> list[Note]:
        """The events of the first pass that finds this."""
        if self.report is None:
            return []
        runs = tuple(replace(pool(H100), name=view.name) for view in self.report.pools)
        found = outcome_of(deployment_of(pools=runs), decision=self.report.decision, problem=self.report.problem)
        return notes_of(desired_of(found, report=self.report, new_status=self.body()["status"]))


BEGINS = from_rfc3339(NOW)
"""Since when each state lasts, in POSIX seconds."""

_NEW = "PlacementDecided"
"""The event of a pool that has no pods yet: the pass that finds them does not record it again."""

_OLD = replace(PLACED.pools[0], name="old", state=PoolState.RETIRING, choice=None)
_MOVING = replace(PLACED, pools=(*PLACED.pools, _OLD))
_LATE = pool("l40s-48gb", ready=0, delay=Delay("EngineCrashed", "no such file."))
_SUSPENDED = {"suspend": True}
_COPY = WeightsView(Weights("hf://org/model", claim="weights"), WeightsState.ARRIVING)

CASES: tuple[Case, ...] = (
    Case(
        "not seen by the operator", None, "Unknown Pending", "InProgress", "Progressing", "not seen yet", "muted",
        Severity.PASSING,
    ),
    Case(
        "serving", _report(PLACED, _view()), "True Serving", "Current", "Healthy", "serving", "good", Severity.FINE,
        "", 0,
    ),
    Case(
        "no plan yet", _report(None), "Unknown Pending", "InProgress", "Progressing", "not seen yet", "muted",
        Severity.PASSING,
    ),
    Case(
        "reading the model", _problem(ConditionReason.RESOLVING_MODEL, permanent=False), "Unknown ResolvingModel",
        "InProgress", "Progressing", "starting", "muted", Severity.PASSING,
    ),
    Case(
        "the pods are being made", _report(PLACED), "False CreatingPods", "InProgress", "Progressing", "starting",
        "muted", Severity.PASSING, _NEW,
    ),
    Case(
        "weights are copied to a claim", _report(PLACED, weights=_COPY), "False WeightsArriving", "InProgress",
        "Progressing", "weights arrive", "muted", Severity.PASSING, _NEW,
    ),
    Case(
        "new weights are copied, the old ones serve", _report(PLACED, _view(), weights=_COPY), "False WeightsArriving",
        "InProgress", "Progressing", "weights arrive", "muted", Severity.PASSING,
    ),
    Case(
        "weights could not be copied", _report(PLACED, weights=replace(_COPY, state=WeightsState.FAILED, message="no")),
        "False WeightsFailed", "Failed", "Degraded", "weights failed", "bad", Severity.OUTAGE,
        f"{_NEW} WeightsFailed",
    ),
    Case(
        "the engines load their weights", _report(PLACED, _view(1, 0)), "False EnginesStarting", "InProgress",
        "Progressing", "starting", "muted", Severity.PASSING,
    ),
    Case(
        "one of two replicas serves", _report(decision(request(replicas=2)), _view(2, 1), replicas=2),
        "False SomeReplicasServe", "InProgress", "Progressing", "serves in part", "muted", Severity.PASSING,
    ),
    Case(
        "new settings are rolled out", _report(PLACED, _view(2, 1, updating=True)), "False RollingOut", "InProgress",
        "Progressing", "rolling out", "muted", Severity.PASSING,
    ),
    Case(
        "waiting for GPUs", _report(FULL), "False WaitingForGpus", "InProgress", "Progressing", "waits for GPUs",
        "warn", Severity.WAITING, "PlacementImpossible",
    ),
    Case(
        "a change waits for GPUs", _report(replace(FULL, pools=PLACED.pools, change_blocked=True), _view()),
        "False ChangeWaitsForGpus", "InProgress", "Progressing", "waits for GPUs", "warn", Severity.WAITING,
        "PlacementImpossible",
    ),
    Case(
        "waiting for CPU",
        _report(_missing(Reason.NODE_LACKS_CPU, asked_millis=8000, free_millis=1000, largest_millis=4000)),
        "False WaitingForNodeResources", "InProgress", "Progressing", "waits for CPU or memory", "warn",
        Severity.WAITING, "PlacementImpossible",
    ),
    Case(
        "waiting for a quota",
        _report(_missing(Reason.QUOTA_EXCEEDED, quota="gpus", resource="requests.nvidia.com/gpu", need=1, left=0)),
        "False WaitingForQuota", "InProgress", "Progressing", "waits for quota", "warn", Severity.WAITING,
        "PlacementImpossible",
    ),
    Case(
        "waiting for a queue", _report(PLACED, _view(1, 0, unbound=1, queued=1, queue="team")),
        "False WaitingForQueue", "InProgress", "Progressing", "waits for the queue", "warn", Severity.WAITING,
    ),
    Case(
        "waiting for an autoscaler's nodes", _report(PLACED, _view(1, 0, unbound=1), awaits=("h100",)),
        "False WaitingForNodes", "InProgress", "Progressing", "waits for new nodes", "warn", Severity.WAITING,
    ),
    Case(
        "waiting for the scheduler", _report(PLACED, _view(1, 0, unbound=1, scheduler_message="0/3 nodes")),
        "False WaitingForScheduler", "InProgress", "Progressing", "waits for a node", "warn", Severity.WAITING,
    ),
    Case(
        "waiting for the Hub", _problem(ConditionReason.MODEL_SOURCE_UNAVAILABLE, permanent=False),
        "Unknown ModelSourceUnavailable", "InProgress", "Progressing", "waits for a source", "warn", Severity.WAITING,
    ),
    Case(
        "waiting for an approval", _report(PLACED, _view(), rebalancing=_live(proposal="Set spec.replicas to 2.")),
        "True Serving", "Current", "Healthy", "serving", "good", Severity.FINE, "", 0,
    ),
    Case(
        "suspended, with pods", _report(PLACED, _view(), suspended=True), "True Suspended", "Current", "Suspended",
        "suspended", "muted", Severity.FINE, "", 0, spec=_SUSPENDED,
    ),
    Case(
        "suspended, without pods", _report(None, suspended=True), "True Suspended", "Current", "Suspended",
        "suspended", "muted", Severity.FINE, "", 0, spec=_SUSPENDED,
    ),
    Case(
        "scaled to zero", _report(NONE_WANTED, replicas=0), "True ScaledToZero", "Current", "Healthy",
        "scaled to zero", "muted", Severity.FINE, "", 0, spec={"replicas": 0},
    ),
    Case(
        "invalid spec", _problem(ConditionReason.INVALID_SPEC, permanent=True), "False InvalidSpec", "Failed",
        "Degraded", "invalid spec", "bad", Severity.OUTAGE, "InvalidSpec",
    ),
    Case(
        "the model does not exist", _problem(ConditionReason.MODEL_NOT_FOUND, permanent=True), "False ModelNotFound",
        "Failed", "Degraded", "invalid spec", "bad", Severity.OUTAGE, "ModelNotFound",
    ),
    Case(
        "the name is taken", _report(PLACED, name_conflict="Service ns/llama is not ours"), "False NameConflict",
        "Failed", "Degraded", "cannot be planned", "bad", Severity.OUTAGE, f"{_NEW} NameConflict",
    ),
    Case(
        "nothing fits", _report(NOWHERE), "False NoGpuFits", "Failed", "Degraded", "nothing fits", "bad",
        Severity.OUTAGE, "PlacementImpossible",
    ),
    Case(
        "the API server refuses the pods", _report(PLACED, refused="denied by policy"), "False PodsNotCreated",
        "Failed", "Degraded", "pods refused", "bad", Severity.OUTAGE, _NEW,
    ),
    Case(
        "a kubelet rejects the pods",
        _report(PLACED, _view(0, 0, rejected="node n1 rejected 3 pods: UnexpectedAdmissionError")),
        "False PodsRejected", "Failed", "Degraded", "pods refused", "bad", Severity.OUTAGE, "PodsRejected",
    ),
    Case(
        "failed starts", _report(PLACED, CRASHED), "False EngineOutOfMemory", "Failed", "Degraded", "failed starts",
        "bad", Severity.OUTAGE, "EngineOutOfMemory",
    ),
    Case(
        "failed starts, suspended", _report(PLACED, CRASHED, suspended=True), "False EngineOutOfMemory", "Failed",
        "Degraded", "failed starts", "bad", Severity.OUTAGE, "EngineOutOfMemory", spec=_SUSPENDED,
    ),
    Case(
        "a change does not come up", _report(_MOVING, _view(1, 0), PoolView("old", 1, 1), late=_LATE),
        "False ReplacementLate", "Failed", "Degraded", "change does not come up", "warn", Severity.TROUBLE,
        "ReplacementLate",
    ),
    Case(
        "the promise is missed", _report(PLACED, _view(), rebalancing=_live(LiveTrouble.PROMISE_MISSED)),
        "True Serving", "Current", "Healthy", "promise missed", "warn", Severity.TROUBLE, "PromiseMissed", 0,
        "PromiseMissed",
    ),
    Case(
        "the promise is missed while another replica starts",
        _report(decision(request(replicas=2)), _view(2, 1), replicas=2, rebalancing=_live(LiveTrouble.PROMISE_MISSED)),
        "False SomeReplicasServe", "InProgress", "Progressing", "promise missed", "warn", Severity.TROUBLE,
        "PromiseMissed", trouble="PromiseMissed",
    ),
    Case(
        "the promise is missed while a change waits for GPUs",
        _report(
            replace(FULL, pools=PLACED.pools, change_blocked=True), _view(),
            rebalancing=_live(LiveTrouble.PROMISE_MISSED),
        ),
        "False ChangeWaitsForGpus", "InProgress", "Progressing", "promise missed", "warn", Severity.TROUBLE,
        "PlacementImpossible PromiseMissed", trouble="PromiseMissed",
    ),
    Case(
        "the KV cache is full", _report(PLACED, _view(), rebalancing=_live(LiveTrouble.KV_BOUND)), "True Serving",
        "Current", "Healthy", "KV cache full", "warn", Severity.TROUBLE, "KvBound", 0, "KvBound",
    ),
    Case(
        "requests lose their KV cache", _report(PLACED, _view(), rebalancing=_live(LiveTrouble.PREEMPTION_STORM)),
        "True Serving", "Current", "Healthy", "preemptions", "warn", Severity.TROUBLE, "PreemptionStorm", 0,
        "PreemptionStorm",
    ),
    Case(
        "requests wait", _report(PLACED, _view(), rebalancing=_live(LiveTrouble.QUEUE_BOUND)), "True Serving",
        "Current", "Healthy", "requests wait", "warn", Severity.TROUBLE, "QueueBound", 0, "QueueBound",
    ),
    Case(
        "a replica is slow", _report(PLACED, _view(), rebalancing=_live(LiveTrouble.REPLICA_SLOW)), "True Serving",
        "Current", "Healthy", "slow replica", "warn", Severity.TROUBLE, "ReplicaSlow", 0, "ReplicaSlow",
    ),
    Case(
        "a replica is silent", _report(PLACED, _view(), rebalancing=_live(LiveTrouble.REPLICA_SILENT)), "True Serving",
        "Current", "Healthy", "silent replica", "warn", Severity.TROUBLE, "ReplicaSilent", 0, "ReplicaSilent",
    ),
    Case(
        "one pod gets too much", _report(PLACED, _view(), rebalancing=_live(LiveTrouble.IMBALANCED)), "True Serving",
        "Current", "Healthy", "uneven load", "warn", Severity.TROUBLE, "Imbalanced", 0, "Imbalanced",
    ),
    Case(
        "a replica is stuck", _report(PLACED, _view(), rebalancing=_live(LiveTrouble.STUCK_REPLICA)), "True Serving",
        "Current", "Healthy", "stuck replica", "warn", Severity.TROUBLE, "StuckReplica", 0, "StuckReplica",
    ),
    Case(
        "the cluster has no InferencePools", _report(PLACED, _view(), routing=_routing(lacks="inferencepools")),
        "True Serving", "Current", "Healthy", "not routed", "warn", Severity.TROUBLE, "GatewayMissing", 0,
        "GatewayMissing",
    ),
    Case(
        "the Gateway admits no routes of this namespace",
        _report(PLACED, _view(), routing=_routing(gateway=GatewayView(ObjectKey("infra", "web"), is_accepted=False))),
        "True Serving", "Current", "Healthy", "not routed", "warn", Severity.TROUBLE, "RouteNotAccepted", 0,
        "RouteNotAccepted",
    ),
    Case(
        "no pod of the router is ready", _report(PLACED, _view(), routing=_routing(is_down=True)), "True Serving",
        "Current", "Healthy", "not routed", "warn", Severity.TROUBLE, "RouterNotReady", 0, "RouterNotReady",
    ),
    Case(
        "the API server refuses an object of the router",
        _report(PLACED, _view(), routing=_routing(ready=1), router_refused="refused to apply httproutes: denied"),
        "True Serving", "Current", "Healthy", "not routed", "warn", Severity.TROUBLE, "", 0, "RouterRefused",
    ),
    Case(
        "an engine has less KV cache than declared", _report(OUTGROWN, _view()), "True Serving", "Current", "Healthy",
        "cache too small", "warn", Severity.TROUBLE, "", 0,
    ),
    Case(
        "the estimate is beyond the line", _report(_with_estimate(budget_bytes=1), _view()), "True Serving", "Current",
        "Healthy", "over its line", "warn", Severity.OVER, "", 0,
    ),
    Case(
        "the line is in the estimate's error band",
        _report(_with_estimate(budget_bytes=_expected_bytes(), margin_bytes=2**30, slack_bytes=2**30), _view()),
        "True Serving", "Current", "Healthy", "near its line", "warn", Severity.NEAR, "", 0,
    ),
    Case(
        "being deleted", _report(PLACED, _view()), "True Serving", "Terminating", "Progressing", "being deleted",
        "muted", Severity.FINE, "", 0, head={"deletionTimestamp": NOW, "finalizers": ["example.org/keep"]},
    ),
    Case(
        "a change that the operator has not seen", _report(PLACED, _view()), "True Serving", "InProgress",
        "Progressing", "serving", "good", Severity.FINE, head={"generation": GENERATION + 1},
    ),
)  # fmt: skip


PAGE = ROOT / "docs" / "states.md"

_SEVERITIES = {
    Severity.OUTAGE: "Nothing serves, and waiting does not help.",
    Severity.TROUBLE: "It serves worse than it was asked for, or its last change does not come up.",
    Severity.WAITING: "Something is missing that may come: GPUs, a quota, a queue, a node, a source.",
    Severity.OVER: "By the estimate it needs more memory than its engine may use.",
    Severity.NEAR: "The load line is in the error band of the estimate.",
    Severity.PASSING: "It is on its way: it starts, or is rolled out.",
    Severity.FINE: "It is as it was asked for.",
}

_COLOURS = {"good": "green", "warn": "amber", "bad": "red", "muted": "grey"}


def page_text() -> str:
    """Return docs/states.md with the tables that belong to it: what is between their heads and the next blank line."""
    return _with_rows(
        _with_rows(PAGE.read_text(encoding="utf-8"), "| Severity |", _severities()), "| Situation |", _cases()
    )


def _with_rows(page: str, head: str, rows: Iterator[str]) -> str:
    before, mark, rest = page.partition(head)
    assert mark, f"{PAGE} has no table that begins with {head}"
    titles, line, *_ = rest.split("\n", 2)
    _, _, after = rest.partition("\n\n")
    return "\n".join([f"{before}{mark}{titles}", line, *rows, "", after])


def _severities() -> Iterator[str]:
    for severity, words in _SEVERITIES.items():
        patience = PATIENCE_SECONDS.get(severity)
        alert = f"[{ALERTS[severity]}](runbooks.md#{ALERTS[severity].lower()})" if severity in ALERTS else "-"
        after = "-" if patience is None else f"{round(patience / 60)} min" if patience else "at once"
        yield f"| {severity.name.lower()} | {words} | {alert} | {after} |"


def _codes(words: str) -> str:
    return ", ".join(f"`{each}`" for each in words.split()) or "-"


def _cases() -> Iterator[str]:
    for case in CASES:
        event, trouble = (
            ", ".join(f"`{each}`" for each in words.split()) or "-" for words in (case.event, case.trouble)
        )
        console = (case.word, _COLOURS[case.kind], case.severity.name.lower())
        cells = (case.name, f"`{case.ready}`", case.kstatus, case.argo, *console, trouble, event, str(case.waits))
        yield f"| {' | '.join(cells)} |"

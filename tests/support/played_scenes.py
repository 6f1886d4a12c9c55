"""The samples that a Prometheus scraped from an operator and an engine: their own pages, minute by minute.

The operator's page is made by its own class, from reports and figures. The engine's page is the one of played engines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal

from plimsoll.adapters.metrics import Metrics
from plimsoll.domain.cluster.fleet import IgnoredNode
from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.decisions.outcomes import Rejection
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import ConditionReason, LiveTrouble, NodeReason, PriceDoubt, Reason
from plimsoll.engines.vllm import metrics as vllm
from plimsoll.facts.prices.remarks import PriceRemark
from plimsoll.placement.costs import Appraisal
from plimsoll.placement.fleet_record import FleetRecord
from plimsoll.rebalance.figures import LiveFigures
from plimsoll.status.record.reading import Record
from plimsoll.status.record.report import DeploymentProblem, PoolView, RebalancingReport, Report
from plimsoll.status.severity import Acknowledgement, Judged, state_of
from plimsoll.status.signs import signs_of
from plimsoll.status.writing import new_status
from testbed.engine_counters import Counters
from testbed.engine_metrics import Engine, Server
from testbed.engine_page import exposition
from tests.render.workloads import decision
from tests.support.planning import H100, L4, fleet, node

CHAT = ObjectKey("serving", "chat")
MINUTES = 40
"""How long a story is, from its first sample to its last one."""

SECONDS = 60
OF_TARGET = {"namespace": "plimsoll-system", "pod": "plimsoll-0"}
"""The labels that a scrape gives to series that have none of their own."""

OLD_NAMES = {current: former for former, current in vllm.METRICS.former_names.items()}
_PLANNED = decision()
_POOL = _PLANNED.pools[0].name
_TOKENS = 100_000


class PassFailed(Exception):
    """A pass ended like this."""


_LATER = 4e9
"""A time after all stories, in POSIX seconds."""


def _known(judged: Judged) -> Acknowledgement | None:
    if not judged.finding:
        return None
    return Acknowledgement(judged.finding, 1, judged.severity, judged.serves, "lena", _LATER, "uid")


@dataclass(frozen=True, slots=True)
class Scene:
    """One minute; all is well by default.

    Attributes:
        missing: replicas without a place.
        trouble: what is wrong with a deployment that serves.
        starts: a deployment starts.
        acknowledged: somebody has acknowledged what is wrong with each.
        is_over: a deployment needs more than its engine may use.
        problem: why the deployment cannot be planned.
        ignored: why nodes are left out, one for each of them.
        proposes: a change waits for approval.
        doubts: what may be wrong with a price.
        reported: the KV cache that the engine reports over the predicted one.
        reason: the reason of the live loop's decision.
        leads: the operator holds the lease.
        failing: the part of the passes that fail: 0, 1 or 2 of the two in a minute.
        age: seconds since the last list.
        silent: seconds for which a watch has owed a change.
        late: seconds for which the load of a deployment has been due to be read.
        faults: exceptions of single objects in this minute.
        unwritten: objects that could not be written in this minute.
        usage: the share of the engine's KV cache in use.
        running: requests in its batch.
        waiting: requests in its queue.
        model: what the engine calls its model.
        former_names: the engine is of an old release.
        server: the program that it is.
    """

    missing: int = 0
    trouble: LiveTrouble | None = None
    starts: bool = False
    acknowledged: bool = False
    is_over: bool = False
    problem: ConditionReason | None = None
    ignored: tuple[NodeReason, ...] = ()
    proposes: bool = False
    doubts: tuple[PriceDoubt, ...] = ()
    reported: float = 1.0
    reason: str = "WithinBand"
    leads: bool = True
    failing: int = 0
    age: float = 100.0
    silent: float = 0.0
    late: float = 3.0
    faults: int = 0
    unwritten: int = 0
    usage: float = 0.6
    running: int = 8
    waiting: int = 0
    model: str = CHAT.name
    former_names: bool = False
    server: Server = Server.VLLM

    @property
    def reports(self) -> Mapping[ObjectKey, Report]:
        """The reports of a pass: one deployment with pods, and one more for each thing that is wrong with another."""
        choice = _PLANNED.pools[0].choice
        assert choice is not None
        view = PoolView(_POOL, 1, 1, kv_tokens_reported=round(self.reported * choice.estimate.kv_capacity_tokens))
        rejected = (Rejection(L4, choice.split, Reason.GPUS_TAKEN, (("gpus", 1), ("free", 0))),)
        planned = replace(_PLANNED, missing=self.missing, rejections=rejected)
        live = RebalancingReport(
            "AddReplica", "KvPressure", "", proposal="One replica more." if self.proposes else None
        )
        found = {CHAT: Report(CHAT.name, 1, 1, planned, pools=(view,), rebalancing=live)}
        if self.problem is not None:
            problem = DeploymentProblem(self.problem, "", permanent=self.problem is ConditionReason.INVALID_SPEC)
            found[ObjectKey("serving", "mail")] = Report("mail", 1, 1, problem=problem)
        if self.trouble is not None:
            busy = replace(live, proposal=None, trouble=self.trouble)
            found[ObjectKey("serving", "busy")] = Report("busy", 1, 1, _PLANNED, pools=(view,), rebalancing=busy)
        if self.starts:
            found[ObjectKey("serving", "slow")] = Report("slow", 1, 1, _PLANNED, pools=(PoolView(_POOL, 1, 0),))
        if self.is_over:
            wide = replace(choice, estimate=replace(choice.estimate, budget_bytes=1))
            large = replace(_PLANNED, pools=(replace(_PLANNED.pools[0], choice=wide),))
            found[ObjectKey("serving", "wide")] = Report("wide", 1, 1, large, pools=(view,))
        return found

    @property
    def states(self) -> Mapping[ObjectKey, Judged]:
        """The states that the statuses of these reports show."""
        found = {
            key: state_of(signs_of(new_status(report, Record(), "2026-01-01T00:00:00Z"), {}))
            for key, report in self.reports.items()
        }
        return {key: replace(each, known=_known(each)) for key, each in found.items()} if self.acknowledged else found

    @property
    def figures(self) -> LiveFigures:
        """The live loop's figures, all of them known."""
        return LiveFigures(
            decision="Hold",
            reason=self.reason,
            diagnosis="Balanced",
            target=1,
            startup_seconds=200.0,
            slowness=1.1,
            needed=1,
            arrivals=2.0,
            expected=3.0,
            capacity=4.0,
            waiting=self.waiting,
            at_gateway=0.0,
            running=self.running,
            kv_use=self.usage,
            used_tokens=self.usage * _TOKENS,
            held_tokens=_TOKENS,
            slots=256,
            ttft_seconds=0.2,
            token_seconds=0.02,
        )


@dataclass(frozen=True, slots=True)
class Story:
    """A scene from so many minutes before the end until so many; else all is well."""

    scene: Scene
    since: int = MINUTES + 1
    until: int = 0

    def at(self, minute: int) -> Scene:
        """The scene of a minute."""
        return self.scene if self.until <= MINUTES - minute < self.since or minute > MINUTES else Scene()


@dataclass(frozen=True, slots=True)
class Played:
    """A story that ends at a time in POSIX seconds. ``buckets``: with the buckets of histograms."""

    story: Story
    end: float
    buckets: bool = False
    after: int = 0
    """Minutes for which the last scene goes on after the end."""

    def lines(self) -> Iterator[str]:
        """Yield the samples with their times."""
        operator = _Operator()
        engine = Engine(CHAT.namespace, "chat-0", "", _TOKENS)
        for minute in range(MINUTES + self.after + 1):
            scene = self.story.at(minute)
            operator.live(scene)
            engine = replace(engine, usage=scene.usage, running=scene.running, waiting=scene.waiting)
            engine = _served(replace(engine, model=scene.model, server=scene.server).after(SECONDS))
            at = round(1000 * (self.end + SECONDS * (minute - MINUTES)))
            for line in (*operator.lines(), *_engine_lines(engine, scene)):
                if self.buckets or "_bucket{" not in line:
                    yield f"{line} {at}"


def _served(engine: Engine) -> Engine:
    """Let the engine end some requests as well: a standing crowd ends none."""
    more = Counters(finished=60, first_tokens=60, first_token_seconds=12, prompt_tokens=6000)
    return replace(engine, crowd=engine.crowd + more)


def _engine_lines(engine: Engine, scene: Scene) -> Iterator[str]:
    for line in exposition([engine]).splitlines():
        name, brace, rest = line.partition("{")
        if not line.startswith("#"):
            yield (OLD_NAMES.get(name, name) if scene.former_names else name) + brace + rest


class _Operator:
    """An operator's metrics as minutes pass."""

    def __init__(self) -> None:
        self.metrics, self.scene = Metrics(), Scene()
        self.metrics.watch_process(
            ("pods", "nodes"),
            age_of=lambda _: self.scene.age,
            silent_of=lambda _: self.scene.silent,
            is_leading=lambda: self.scene.leads,
            late_of=lambda: self.scene.late,
        )

    def live(self, scene: Scene) -> None:
        """Let one minute pass."""
        self.scene = scene
        for number in range(2 if scene.leads else 0):
            self._one_pass(fails=number < scene.failing)
        for _ in range(scene.faults):
            self.metrics.fault("RenderFailed")
        for _ in range(scene.unwritten):
            self.metrics.write_failed()

    def _one_pass(self, *, fails: bool) -> None:
        with suppress(PassFailed), self.metrics.pass_timed():
            if fails:
                self.metrics.pass_failed()
                raise PassFailed
            self._show()

    def _show(self) -> None:
        scene, metrics = self.scene, self.metrics
        ignored = tuple(IgnoredNode(f"out-{index}", reason) for index, reason in enumerate(scene.ignored))
        metrics.show_fleet(replace(fleet(node("h", H100, 8, held=1)), ignored=ignored))
        metrics.show_prices(PriceRemark(doubt, L4, CapacityType.SPOT) for doubt in scene.doubts)
        metrics.show_cases(scene.reports)
        metrics.show_states(scene.states)
        metrics.show_live({CHAT: scene.figures})
        record = FleetRecord(Decimal(3), Decimal(4), scene.missing, 0, Appraisal("search", 4.0, 3.0, 1), seconds=0.02)
        metrics.show_solving(record)
        metrics.show_record(record)

    def lines(self) -> Iterator[str]:
        """Yield the page's samples with the labels that a scrape gives them."""
        for family in self.metrics.registry.collect():
            for sample in family.samples:
                labels = ",".join(f'{name}="{value}"' for name, value in (OF_TARGET | sample.labels).items())
                if not sample.name.endswith("_created"):
                    yield f"{sample.name}{{{labels}}} {float(sample.value)}"

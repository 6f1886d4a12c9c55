"""The snapshot of a pass: what is in it, that it never changes, and that the metrics are made from it alone."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from datetime import date
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from types import FunctionType, MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from plimsoll.adapters.metrics import Metrics
from plimsoll.app import planner as planner_module
from plimsoll.app.plan import passes as passes_module
from plimsoll.app.plan import rendered as rendered_module
from plimsoll.app.plan.snapshot import Snapshot
from plimsoll.app.reading import deployments as deployments_module
from plimsoll.decision import observing
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.proposals import Proposal
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.status.record.report import Report
from tests.support.desk import Desk
from tests.support.planning import H100, fleet, node

CHAT, MAIL = ObjectKey("ns", "chat"), ObjectKey("ns", "mail")
POOL = "h100-sxm-80gb-tp1"
NOW = 1_700_000_000.0


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    made = Desk(tmp_path)
    yield made
    await made.writers.close()
    await made.book.close()


def latest(desk: Desk) -> Snapshot:
    assert desk.planner.latest is not None
    return desk.planner.latest


async def test_a_pass_publishes_what_it_saw_and_what_it_decided(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert desk.planner.latest is None
    monkeypatch.setattr(planner_module, "time", SimpleNamespace(time=lambda: NOW, monotonic=time.monotonic))
    await desk.settle("chat", "mail", gpus=1)
    seen = latest(desk)
    assert seen.at == NOW
    assert [(each.name, each.allocatable) for each in seen.fleet.nodes] == [("h100-0", 1)]
    assert seen.reports.keys() == {CHAT, MAIL}
    placed, waits = seen.reports[CHAT].decision, seen.reports[MAIL].decision
    assert placed is not None
    assert waits is not None
    assert [pool.name for pool in placed.pools] == [POOL]
    assert (placed.missing, waits.missing) == (0, 1)
    assert seen.proposals == ()


async def test_the_reports_are_those_that_the_statuses_were_written_from(desk: Desk) -> None:
    await desk.settle("chat", "mail")
    for key, report in latest(desk).reports.items():
        written = desk.recorder.statuses[key.name]
        assert report.decision is not None
        assert [pool["name"] for pool in written["pools"]] == [pool.name for pool in report.decision.pools]
        assert written["observedGeneration"] == report.generation


async def test_the_next_pass_publishes_another_one_and_leaves_the_last_as_it_was(desk: Desk) -> None:
    await desk.settle("chat", "mail")
    before = latest(desk)
    text = repr(before)
    desk.put("chat", gpus=2)
    await desk.planner.one_pass()
    assert latest(desk).reports.keys() == {CHAT}
    assert latest(desk).at > before.at
    assert [each.allocatable for each in latest(desk).fleet.nodes] == [2]
    assert repr(before) == text


async def test_a_pass_that_fails_leaves_the_last_snapshot(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.settle("chat")
    before = latest(desk)
    with monkeypatch.context() as broken:
        broken.setattr(passes_module, "read_quotas", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await desk.planner.one_pass()
    assert latest(desk) is before
    await desk.planner.one_pass()
    assert latest(desk) is not before


async def test_it_is_published_before_the_writes_begin(desk: Desk) -> None:
    seen: list[Snapshot | None] = []
    desk.recorder.before_status = lambda _: seen.append(desk.planner.latest)
    await desk.settle("chat")
    assert seen == [latest(desk)]


FAULTS: dict[str, Callable[..., str]] = {
    "parse_inference_deployment": lambda body: str(body["metadata"]["name"]),
    "observed_now": lambda request, *_: str(request.key.name),
    "failed_starts": lambda request, *_: str(request.key.name),
    "manifests_of": lambda case, *_, **__: str(case.key.name),
}

MODULES = {
    "parse_inference_deployment": deployments_module,
    "observed_now": observing,
    "failed_starts": observing,
    "manifests_of": rendered_module,
}


@pytest.mark.parametrize("step", FAULTS)
async def test_a_fault_of_one_object_leaves_its_neighbour_s_report(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    module = MODULES[step]
    real = getattr(module, step)

    def call(*arguments: Any, **options: Any) -> Any:
        if FAULTS[step](*arguments) == CHAT.name:
            raise KeyError(step)
        return real(*arguments, **options)

    monkeypatch.setattr(module, step, call)
    await desk.settle("chat", "mail")
    broken, honest = latest(desk).reports[CHAT], latest(desk).reports[MAIL]
    assert broken.problem is not None
    assert "KeyError" in broken.problem.message
    assert broken.decision is None
    assert honest.problem is None
    assert honest.decision is not None
    assert [pool.name for pool in honest.decision.pools] == [POOL]


ATOMS = (str, int, float, Decimal, Fraction, Enum, date, type(None))


def changeable(value: Any, path: str = "snapshot") -> Iterator[str]:
    """The parts of a value that could be changed in place, by path."""
    if isinstance(value, tuple | frozenset):
        for index, each in enumerate(value):
            yield from changeable(each, f"{path}[{index}]")
    elif isinstance(value, MappingProxyType):
        for key, each in value.items():
            yield from changeable(key, f"{path}.keys")
            yield from changeable(each, f"{path}[{key}]")
    elif is_dataclass(value) and not isinstance(value, type) and value.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        for each in fields(value):
            yield from changeable(getattr(value, each.name), f"{path}.{each.name}")
    elif isinstance(value, FunctionType):
        if value.__closure__ is not None:
            yield f"{path}: function that may keep something"
    elif not isinstance(value, ATOMS):
        yield f"{path}: {type(value).__name__}"


async def test_nothing_in_it_can_be_changed(desk: Desk) -> None:
    speculation = {"method": "Ngram", "tokens": 3}
    desk.put("chat", "mail", engine={"speculation": speculation}, gpus=1)
    await desk.settle("chat", "mail", engine={"speculation": speculation}, gpus=1)
    seen = latest(desk)
    assert any(report.decision is not None and report.decision.rejections for report in seen.reports.values())
    assert list(changeable(seen)) == []
    with pytest.raises(FrozenInstanceError):
        seen.at = 0.0  # type: ignore[misc]
    with pytest.raises(TypeError):
        seen.reports[CHAT] = seen.reports[MAIL]  # type: ignore[index]


def test_a_list_a_dictionary_or_an_open_object_would_be_found() -> None:
    class Open:
        pass

    bad = Snapshot(0.0, Fleet(), MappingProxyType({CHAT: ([], {}, Open())}))  # type: ignore[dict-item]
    place = "snapshot.reports[ns/chat]"
    assert list(changeable(bad)) == [f"{place}[0]: list", f"{place}[1]: dict", f"{place}[2]: Open"]
    assert list(changeable(replace(bad, reports={}))) == ["snapshot.reports: dict"]
    kept: list[int] = []
    assert list(changeable(lambda: kept.append(1))) == ["snapshot: function that may keep something"]


# -- metrics -----------------------------------------------------------------------------------------------------------


class Counting(Metrics):
    """Metrics that keep what they were given."""

    def __init__(self) -> None:
        super().__init__()
        self.fleets: list[Fleet] = []
        self.cases: list[Mapping[ObjectKey, Report]] = []

    def show_fleet(self, fleet: Fleet) -> None:
        self.fleets.append(fleet)

    def show_cases(self, reports: Mapping[ObjectKey, Report]) -> None:
        self.cases.append(reports)


async def test_metrics_are_given_the_snapshot_and_only_when_it_says_something_new(desk: Desk) -> None:
    await desk.settle("chat", "mail")
    desk.passes.metrics = counting = Counting()
    desk.passes.shown = None
    for _ in range(3):
        await desk.planner.one_pass()
    assert counting.fleets == [latest(desk).fleet]
    assert counting.cases == [latest(desk).reports]
    desk.put("chat")
    await desk.planner.one_pass()
    assert [set(each) for each in counting.cases] == [{CHAT, MAIL}, {CHAT}]
    assert counting.cases[-1] is latest(desk).reports
    desk.put("chat", gpus=2)
    await desk.planner.one_pass()
    assert [sum(each.allocatable for each in given.nodes) for given in counting.fleets] == [8, 8, 2]


@pytest.mark.parametrize(
    "change",
    [
        {"fleet": fleet(node("a", H100, 8))},
        {"reports": {CHAT: Report("chat", 2, 1)}},
        {"proposals": ((CHAT, Proposal((), (), "Move")),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_two_snapshots_say_the_same_if_only_the_time_differs(change: dict[str, Any]) -> None:
    first = Snapshot(1.0, Fleet(), {CHAT: Report("chat", 1, 1)})
    assert first.says_the_same(replace(first, at=2.0))
    assert not first.says_the_same(replace(first, **change))

"""The lease: one writer, whatever pauses, outages and other people's edits do."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import dataclass, field

import pytest

from plimsoll.adapters.api_errors import ClusterRefused, NotLeading
from plimsoll.app import leadership
from plimsoll.app.leadership import LEASE_SECONDS, RENEW_DEADLINE_SECONDS, Candidate, Elector, LeaseHeld
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.workload import Manifest

KEY = ObjectKey("plimsoll-system", "plimsoll")


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Leases:
    """An API server with one lease; ``down`` refuses everything."""

    lease: Manifest | None = None
    version: int = 1
    down: bool = False
    refusal: int = 0
    writes: list[str] = field(default_factory=list)

    async def get_lease(self, key: ObjectKey, *, timeout_seconds: float) -> Manifest | None:
        assert key == KEY
        assert timeout_seconds > 0
        self._check()
        return copy.deepcopy(self.lease)

    async def put_lease(self, lease: Manifest, *, timeout_seconds: float) -> Manifest:
        assert timeout_seconds > 0
        self._check()
        held = None if self.lease is None else self.lease["metadata"]["resourceVersion"]
        if lease["metadata"].get("resourceVersion") != held:
            raise ClusterRefused("renew", 409, "changed since")
        self.version += 1
        self.lease = copy.deepcopy(lease)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        self.writes.append(lease["spec"]["holderIdentity"])
        return copy.deepcopy(self.lease)

    def _check(self) -> None:
        if self.refusal:
            raise ClusterRefused("get lease", self.refusal, "no")
        if self.down:
            raise SourceUnavailable("down")

    def holder(self) -> str:
        assert self.lease is not None
        return str(self.lease["spec"]["holderIdentity"])


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership, "RENEW_SECONDS", 0.0)
    monkeypatch.setattr(leadership, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(leadership, "AFTER_A_FAILURE_SECONDS", 0.0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def leases() -> Leases:
    return Leases()


def elector(leases: Leases, clock: Clock, name: str, *, waits: bool = True, settings: str = "s") -> Elector:
    return Elector(leases, KEY, Candidate(name, "1.0", settings), waits=waits, clock=clock)


async def acquired(one: Elector) -> bool:
    """Whether it gets the lease within a few looks."""
    task = asyncio.create_task(one.acquire())
    for _ in range(10):
        await asyncio.sleep(0)
    done = task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return done


async def renewed(one: Elector) -> None:
    """One renewal."""
    await one._try_to_renew()  # noqa: SLF001 - the loop around it never ends by itself


async def test_the_first_takes_it_and_the_second_waits(leases: Leases, clock: Clock) -> None:
    first, second = elector(leases, clock, "a"), elector(leases, clock, "b")
    assert await acquired(first)
    assert not await acquired(second)
    first.fence()
    with pytest.raises(NotLeading):
        second.fence()


async def test_a_renewal_keeps_it_and_a_standby_never_gets_it(leases: Leases, clock: Clock) -> None:
    first, second = elector(leases, clock, "a"), elector(leases, clock, "b")
    assert await acquired(first)
    for _ in range(20):
        clock.now += 5
        await renewed(first)
        assert first.is_leading
        assert not await acquired(second)


async def test_a_standby_takes_over_only_after_the_lease_and_the_holder_has_stopped_before(
    leases: Leases, clock: Clock
) -> None:
    first, second = elector(leases, clock, "a"), elector(leases, clock, "b")
    assert await acquired(first)
    assert not await acquired(second)
    clock.now += RENEW_DEADLINE_SECONDS
    assert not first.is_leading
    assert not await acquired(second)
    clock.now += LEASE_SECONDS - RENEW_DEADLINE_SECONDS
    assert await acquired(second)
    assert leases.holder() == "b"


async def test_a_process_that_was_paused_may_not_write_when_it_wakes_up(leases: Leases, clock: Clock) -> None:
    first, second = elector(leases, clock, "a"), elector(leases, clock, "b")
    assert await acquired(first)
    assert not await acquired(second)
    clock.now += 60
    with pytest.raises(NotLeading):
        first.fence()
    assert await acquired(second)
    await first.hold()
    assert leases.writes == ["a", "b"], "it ended without another try"


async def test_one_that_cannot_renew_stops_and_one_that_can_again_in_time_goes_on(leases: Leases, clock: Clock) -> None:
    first = elector(leases, clock, "a")
    assert await acquired(first)
    leases.down = True
    clock.now += 5
    await renewed(first)
    assert first.is_leading
    leases.down = False
    await renewed(first)
    clock.now += RENEW_DEADLINE_SECONDS - 1
    assert first.is_leading
    leases.down = True
    clock.now += 1
    await first.hold()
    assert not first.is_leading


async def test_a_renewal_whose_answer_is_lost_does_not_cost_the_lease(clock: Clock) -> None:
    class Loses(Leases):
        lose = False

        async def put_lease(self, lease: Manifest, *, timeout_seconds: float) -> Manifest:
            answer = await super().put_lease(lease, timeout_seconds=timeout_seconds)
            if self.lose:
                self.lose = False
                raise SourceUnavailable("timed out")
            return answer

    leases = Loses()
    first = elector(leases, clock, "a")
    assert await acquired(first)
    leases.lose = True
    for _ in range(3):
        clock.now += 3
        await renewed(first)
    assert first.is_leading
    clock.now += 5
    assert first.is_leading, "the last renewal was granted"


async def test_the_deadline_counts_from_the_question_not_from_the_answer(clock: Clock) -> None:
    class Slow(Leases):
        async def put_lease(self, lease: Manifest, *, timeout_seconds: float) -> Manifest:
            clock.now += 8
            return await super().put_lease(lease, timeout_seconds=timeout_seconds)

    first = elector(Slow(), clock, "a")
    assert await acquired(first)
    clock.now += 2
    assert not first.is_leading


async def test_a_lease_that_was_given_away_by_hand_ends_its_holder(leases: Leases, clock: Clock) -> None:
    first = elector(leases, clock, "a")
    assert await acquired(first)
    assert leases.lease is not None
    leases.lease["spec"]["holderIdentity"] = "somebody"
    leases.lease["metadata"]["resourceVersion"] = "77"
    await first.hold()
    assert not first.is_leading
    assert leases.holder() == "somebody"


async def test_a_deleted_lease_is_made_again_by_its_holder_and_left_alone_by_a_standby(
    leases: Leases, clock: Clock
) -> None:
    first, second = elector(leases, clock, "a"), elector(leases, clock, "b")
    assert await acquired(first)
    assert not await acquired(second)
    leases.lease = None
    assert not await acquired(second), "the holder does not know yet and may be writing"
    leases.version = 90
    await renewed(first)
    await renewed(first)
    assert leases.holder() == "a"
    assert first.is_leading


async def test_a_released_lease_is_taken_at_once(leases: Leases, clock: Clock) -> None:
    first, second = elector(leases, clock, "a"), elector(leases, clock, "b")
    assert await acquired(first)
    assert not await acquired(second)
    await first.release()
    with pytest.raises(NotLeading):
        first.fence()
    assert await acquired(second)


async def test_the_same_name_takes_its_own_lease_back_at_once(leases: Leases, clock: Clock) -> None:
    assert await acquired(elector(leases, clock, "pod-0"))
    assert await acquired(elector(leases, clock, "pod-0"))


async def test_one_that_does_not_wait_names_the_holder_once_it_has_seen_it_alive(leases: Leases, clock: Clock) -> None:
    first, laptop = elector(leases, clock, "pod-0"), elector(leases, clock, "laptop", waits=False)
    assert await acquired(first)
    assert not await acquired(laptop)
    await renewed(first)
    with pytest.raises(LeaseHeld, match="pod-0 holds the lease plimsoll-system/plimsoll"):
        await laptop.acquire()


async def test_one_that_does_not_wait_takes_a_dead_lease(leases: Leases, clock: Clock) -> None:
    assert await acquired(elector(leases, clock, "pod-0"))
    laptop = elector(leases, clock, "laptop", waits=False)
    assert not await acquired(laptop)
    clock.now += LEASE_SECONDS
    assert await acquired(laptop)


async def test_a_standby_with_other_settings_says_so(
    leases: Leases, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "plimsoll")
    assert await acquired(elector(leases, clock, "a", settings="one"))
    other = elector(leases, clock, "b", settings="two")
    assert not await acquired(other)
    said = [record.message for record in caplog.records if "standby" in record.message]
    assert len(said) == 1
    assert "its settings differ" in said[0]
    assert other.trouble == ""


async def test_missing_rights_are_trouble_and_no_crash(leases: Leases, clock: Clock) -> None:
    leases.refusal = 403
    one = elector(leases, clock, "a")
    assert not await acquired(one)
    assert "cannot be taken" in one.trouble
    leases.refusal = 0
    assert await acquired(one)
    assert one.trouble == ""


async def test_nonsense_in_the_lease_counts_as_the_usual_time(leases: Leases, clock: Clock) -> None:
    assert await acquired(elector(leases, clock, "a"))
    assert leases.lease is not None
    leases.lease["spec"] |= {"leaseDurationSeconds": 10**9, "leaseTransitions": "many", "renewTime": None}
    leases.lease["metadata"]["resourceVersion"] = "5"
    second = elector(leases, clock, "b")
    assert not await acquired(second)
    clock.now += LEASE_SECONDS
    assert await acquired(second)


async def test_the_lease_says_when_the_holder_last_made_a_pass(leases: Leases, clock: Clock) -> None:
    first, second = elector(leases, clock, "a"), elector(leases, clock, "b")
    first.last_pass = lambda: 0.0
    assert await acquired(first)
    assert marks(leases)["plimsoll.dev/last-pass"] == "1970-01-01T00:00:00Z"
    first.last_pass = lambda: 60.0
    await renewed(first)
    assert marks(leases)["plimsoll.dev/last-pass"] == "1970-01-01T00:01:00Z"
    await first.release()
    assert await acquired(second)
    assert marks(leases)["plimsoll.dev/last-pass"] == "1970-01-01T00:01:00Z"  # nobody has made one since


async def test_before_the_first_pass_the_lease_names_none(leases: Leases, clock: Clock) -> None:
    assert await acquired(elector(leases, clock, "a"))
    assert "plimsoll.dev/last-pass" not in marks(leases)


def marks(leases: Leases) -> dict[str, str]:
    """The annotations of the lease."""
    assert leases.lease is not None
    return dict(leases.lease["metadata"]["annotations"])

"""The lease: one writer, whatever kills, pauses, cuts, jumps of clocks and other people's edits do."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from plimsoll.adapters.cluster.api_errors import NotLeading
from plimsoll.app.election.leadership import logger, steady_seconds
from plimsoll.app.election.lease_times import LONGEST_LEASE_SECONDS, USUAL, LeaseTimes
from plimsoll.app.settings import Settings
from plimsoll.domain.errors import InvalidInput
from tests.support.lease_world import TRAVEL_SECONDS, Link, Process, World
from tests.support.tables import examples

TIMES = (USUAL, LeaseTimes(15, 14.5), LeaseTimes(6, 5.9, 0.3), LeaseTimes(2, 1.0, 0.5))
"""A deadline that only just ends before the lease is as good as any. Two processes may differ."""

TAKEN_OVER_SECONDS = 20.0
"""What docs/reliability.md promises after a kill."""

SETTLED_SECONDS = 10.0
"""Within this time a request that hangs has ended, and a holder has noticed that the lease was given to another."""

ANY = st.integers(-1, 2)
"""One of the processes; -1 for the one that may write, where there is one."""


class Election(RuleBasedStateMachine):
    """Two or three processes, and what can happen to them and to the lease, in any order.

    Three things are not in it, because a process could not tell them from what is right. A person who writes an empty
    holder into the lease says that nobody writes. A process that starts while the lease is deleted cannot know that
    there was one. A standby that does not hear how a deleted lease is made again and deleted once more takes both for
    one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.deleted_at = float("-inf")
        logger.setLevel(logging.CRITICAL)  # thousands of lines

    def teardown(self) -> None:
        logger.setLevel(logging.NOTSET)

    @initialize(times=st.lists(st.sampled_from(TIMES), min_size=2, max_size=3))
    def begin(self, times: list[LeaseTimes]) -> None:
        for name, each in zip("abc", times, strict=False):
            self.world.process(name, times=each)

    def one(self, number: int) -> Process:
        writer = self.world.writer if number < 0 else None
        return writer or self.world.processes[number % len(self.world.processes)]

    @rule(seconds=st.floats(0.01, 3) | st.floats(10, 20))
    def time_passes(self, seconds: float) -> None:
        self.world.run(seconds)

    @rule(number=ANY)
    def one_is_killed(self, number: int) -> None:
        self.one(number).kill()

    @rule(number=ANY)
    def one_ends_politely(self, number: int) -> None:
        if self.one(number).life is not None:
            self.one(number).end_politely()

    @precondition(lambda self: self.world.server.lease is not None)
    @rule(number=ANY, waits=st.booleans())
    def one_that_ended_is_started_again(self, number: int, waits: bool) -> None:  # noqa: FBT001 - drawn
        process = self.one(number)
        if process.life is None:
            process.waits = waits
            process.start()

    @rule(number=ANY)
    def one_is_paused(self, number: int) -> None:
        self.one(number).is_paused = True

    @rule(number=ANY)
    def one_wakes_up(self, number: int) -> None:
        self.one(number).is_paused = False

    @rule(number=ANY, hours=st.sampled_from([-1, 1]))
    def a_wall_clock_jumps(self, number: int, hours: int) -> None:
        self.one(number).wall_error += hours * 3600

    @rule(number=ANY, out=st.floats(0, 3), back=st.floats(0, 3))
    def a_connection_is_slow(self, number: int, out: float, back: float) -> None:
        self.one(number).link.out, self.one(number).link.back = out, back

    @rule(number=ANY, name=st.sampled_from(["is_cut", "loses_answers"]))
    def a_connection_breaks(self, number: int, name: str) -> None:
        setattr(self.one(number).link, name, True)

    @rule(number=ANY, status=st.sampled_from([403, 500]))
    def requests_are_refused(self, number: int, status: int) -> None:
        self.one(number).link.refusal = status

    @rule(number=ANY)
    def a_connection_is_mended(self, number: int) -> None:
        self.one(number).link = Link()

    @precondition(lambda self: all(process.knows_of_a_holder for process in self.world.processes))
    @precondition(lambda self: self.world.now > self.deleted_at + 2 * TAKEN_OVER_SECONDS)
    @rule()
    def the_lease_is_deleted(self) -> None:
        self.world.server.lease, self.deleted_at = None, self.world.now

    @rule()
    def the_lease_is_given_away(self) -> None:
        self.world.server.edit(holderIdentity="somebody", leaseTransitions="many", renewTime=None)

    @rule()
    def all_faults_end(self) -> None:
        """Somebody leads then, and stays the leader whatever the wall clocks do; when it ends, another one follows."""
        for process in self.world.processes:
            process.link, process.is_paused, process.waits = Link(), False, True
        self.world.run(SETTLED_SECONDS)
        for process in self.world.processes:
            if process.life is None:
                process.start()
        assert self.world.run(TAKEN_OVER_SECONDS, until_true=lambda: bool(self.world.writers)), "nobody leads"
        leader = self.world.writer
        assert leader is not None
        for process in self.world.processes:
            process.wall_error += 3600
        self.world.run(SETTLED_SECONDS)
        assert self.world.writer is leader

    @precondition(lambda self: self.world.is_at_rest)
    @rule(polite=st.booleans())
    def the_leader_of_a_healthy_world_ends(self, polite: bool) -> None:  # noqa: FBT001 - drawn
        """It waits first until no request is in flight, over connections that were replaced as well."""
        self.world.run(SETTLED_SECONDS)
        leader = self.world.writer
        assert leader is not None
        others = [process for process in self.world.processes if process is not leader]
        self.world.run(1.0, until_true=lambda: not leader.in_flight)
        if polite:
            leader.end_politely()
            limit = max(each.times.retry for each in others) + 8 * TRAVEL_SECONDS
        else:
            leader.kill()
            limit = TAKEN_OVER_SECONDS
        assert self.world.run(limit, until_true=lambda: self.world.writer in others), f"nobody leads after {limit:g} s"

    @invariant()
    def one_at_most_may_write(self) -> None:
        self.world.check()


TestElection = Election.TestCase
TestElection.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None, print_blob=True)


@pytest.fixture
def world() -> World:
    return World()


def test_a_holder_that_cannot_renew_may_write_up_to_the_deadline_and_ends(world: World) -> None:
    first = world.process("a")
    world.run(1)
    first.link.is_cut = True
    assert world.run(USUAL.renew_deadline, until_true=lambda: not first.may_write)
    assert world.now == pytest.approx(USUAL.renew_deadline, abs=1.0)
    with pytest.raises(NotLeading):
        first.elector.fence()
    world.run(USUAL.request + 1)
    assert first.life is None


def test_the_deadline_counts_from_the_question_not_from_the_answer(world: World) -> None:
    first = world.process("a")
    first.link.back = 2.0
    assert world.run(10, until_true=lambda: first.may_write)
    taken = first.elector.valid_until
    assert taken - first.elector.clock() == pytest.approx(USUAL.renew_deadline - (3 * TRAVEL_SECONDS + 2.0))
    assert world.run(10, until_true=lambda: first.elector.valid_until > taken)
    renewed = first.elector.valid_until
    assert renewed - first.elector.clock() == pytest.approx(USUAL.renew_deadline - (TRAVEL_SECONDS + 2.0))


def test_a_paused_holder_may_not_write_when_it_wakes_up_and_ends(world: World) -> None:
    first, second = world.process("a"), world.process("b")
    world.run(5)
    first.is_paused = True
    assert world.run(TAKEN_OVER_SECONDS, until_true=lambda: second.may_write)
    first.is_paused = False
    assert not first.may_write
    world.run(1)
    assert first.life is None
    assert world.server.holder == "b"


def test_the_same_name_takes_its_own_lease_back_at_once(world: World) -> None:
    world.process("pod-0")
    world.run(1)
    world.processes[0].kill()
    again = world.process("pod-0")
    assert world.run(5 * TRAVEL_SECONDS, until_true=lambda: again.may_write)


def test_a_deleted_lease_is_made_again_by_its_holder(world: World) -> None:
    first, _ = world.process("a"), world.process("b")
    world.run(5)
    world.server.lease = None
    world.run(60)
    assert world.server.holder == "a"
    assert first.may_write


def test_a_deleted_lease_of_a_dead_holder_is_left_alone_as_long_as_it_asked_for(world: World) -> None:
    """A longer time than the standby's own: the holder may be alive and not know of the deletion."""
    first, second = world.process("a", times=LeaseTimes(30, 29.0)), world.process("b", times=LeaseTimes(2, 1.0))
    world.run(5)
    assert second.elector.holder == "a"
    first.kill()
    world.server.lease = None
    assert not world.run(29, until_true=lambda: second.may_write)
    assert world.run(3, until_true=lambda: second.may_write)


def test_a_standby_that_missed_renewals_counts_from_when_it_finds_the_lease_deleted(world: World) -> None:
    first, second = world.process("a", times=LeaseTimes(15, 14.5)), world.process("b")
    world.run(5)
    second.link.is_cut = True
    world.run(5)
    first.link.is_cut, world.server.lease, second.link = True, None, Link()
    assert first.may_write
    assert world.run(USUAL.lease + 2, until_true=lambda: second.may_write), "and never both: the world checks that"


def test_one_that_does_not_wait_ends_with_the_holders_name_once_it_has_seen_it_alive(world: World) -> None:
    world.process("pod-0")
    world.run(1)
    laptop = world.process("laptop", waits=False)
    assert world.run(2 * USUAL.renewal, until_true=lambda: laptop.life is None)
    assert "pod-0 holds the lease plimsoll-system/plimsoll" in laptop.refused
    assert "PLIMSOLL_STANDBY=true" in laptop.refused
    assert world.server.holder == "pod-0"


def test_one_that_does_not_wait_takes_a_dead_lease(world: World) -> None:
    world.process("pod-0")
    world.run(1)
    world.processes[0].kill()
    laptop = world.process("laptop", waits=False)
    assert world.run(TAKEN_OVER_SECONDS, until_true=lambda: laptop.may_write)


@pytest.mark.parametrize(
    ("options", "version", "words"),
    [
        ({"settings": "other"}, "1.0", "its settings differ from this process's"),
        ({}, "9.9.9", "its version differs from this one's, 1.0"),
        ({}, "1.0", "version 1.0, since 1970-01-01T00:00:00"),
    ],
    ids=["settings", "version", "equal"],
)
def test_a_standby_says_once_who_leads_and_what_differs(
    world: World, caplog: pytest.LogCaptureFixture, options: Mapping[str, str], version: str, words: str
) -> None:
    caplog.set_level("INFO", "plimsoll")
    world.process("a", version=version)
    world.run(1)
    second = world.process("b", **options)
    world.run(10)
    said = [record.message for record in caplog.records if "standby" in record.message]
    assert len(said) == 1
    assert words in said[0]
    assert ("differ" in said[0]) == ("differ" in words)
    assert second.elector.trouble == ""


def test_missing_rights_are_trouble_and_no_crash(world: World) -> None:
    one = world.process("a")
    one.link.refusal = 403
    world.run(5)
    assert "cannot be taken" in one.elector.trouble
    one.link.refusal = 0
    world.run(5)
    assert one.may_write
    assert one.elector.trouble == ""


def test_nonsense_in_the_lease_counts_as_the_usual_time(world: World) -> None:
    world.process("a")
    world.run(1)
    world.processes[0].kill()
    world.server.edit(leaseDurationSeconds=10**9, leaseTransitions="many", renewTime=None)
    second = world.process("b")
    assert not world.run(USUAL.lease - 1, until_true=lambda: second.may_write)
    assert world.run(3, until_true=lambda: second.may_write)


def test_the_lease_says_when_the_holder_last_made_a_pass(world: World) -> None:
    first, second = world.process("a"), world.process("b")
    world.run(1)
    assert "plimsoll.dev/last-pass" not in world.server.marks, "nobody has made one yet"
    first.elector.last_pass = lambda: 60.0
    world.run(5)
    assert world.server.marks["plimsoll.dev/last-pass"] == "1970-01-01T00:01:00Z"
    first.elector.last_pass = lambda: 120.0
    world.run(5)
    assert world.server.marks["plimsoll.dev/last-pass"] == "1970-01-01T00:02:00Z"
    first.end_politely()
    world.run(5)
    assert second.may_write
    assert world.server.marks["plimsoll.dev/last-pass"] == "1970-01-01T00:02:00Z", "nobody has made one since"


def test_the_steady_clock_does_not_follow_the_time_of_day(monkeypatch: pytest.MonkeyPatch) -> None:
    before = steady_seconds()
    monkeypatch.setattr(time, "time", lambda: before + 1e9)
    assert steady_seconds() - before < 1e8


def test_the_times_are_the_defaults_where_nothing_is_set() -> None:
    assert Settings.from_environment({}).lease_times == USUAL == LeaseTimes(15, 10.0, 1.0)
    assert (USUAL.renewal, USUAL.after_a_failure, USUAL.request) == (2.5, 0.5, 3.0)


def test_the_times_come_from_the_environment_and_make_no_difference_to_decisions() -> None:
    given = {
        "PLIMSOLL_LEASE_SECONDS": "6",
        "PLIMSOLL_LEASE_RENEW_DEADLINE_SECONDS": "5",
        "PLIMSOLL_LEASE_RETRY_SECONDS": "0.3",
    }
    read = Settings.from_environment(given | {"PLIMSOLL_IDENTITY": "a"})
    assert read.lease_times == LeaseTimes(6, 5.0, 0.3)
    assert read.digest() == Settings.from_environment({}).digest()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"PLIMSOLL_LEASE_SECONDS": "0"}, "PLIMSOLL_LEASE_SECONDS: '0' cannot be used. Write whole seconds, 1 to 60."),
        ({"PLIMSOLL_LEASE_SECONDS": "61"}, "Write whole seconds, 1 to 60."),
        ({"PLIMSOLL_LEASE_SECONDS": "1.5"}, "Write a whole number"),
        ({"PLIMSOLL_LEASE_SECONDS": "10"}, "PLIMSOLL_LEASE_RENEW_DEADLINE_SECONDS: '10.0' cannot be used."),
        (
            {"PLIMSOLL_LEASE_RENEW_DEADLINE_SECONDS": "15"},
            "Write fewer seconds than PLIMSOLL_LEASE_SECONDS, which is 15",
        ),
        ({"PLIMSOLL_LEASE_RENEW_DEADLINE_SECONDS": "0"}, "Write seconds, more than 0"),
        ({"PLIMSOLL_LEASE_RETRY_SECONDS": "soon"}, "PLIMSOLL_LEASE_RETRY_SECONDS: 'soon' cannot be used."),
    ],
)
def test_times_with_which_two_could_write_are_refused(given: Mapping[str, str], message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Settings.from_environment(given)
    assert message in str(refused.value)


def test_the_longest_lease_that_may_be_set_is_one_that_candidates_believe(world: World) -> None:
    longest = LeaseTimes(LONGEST_LEASE_SECONDS, LONGEST_LEASE_SECONDS - 1.0)
    first, second = world.process("a", times=longest), world.process("b", times=LeaseTimes(1, 0.5))
    world.run(5)
    first.link.is_cut = True
    assert world.run(LONGEST_LEASE_SECONDS + 2, until_true=lambda: second.may_write)

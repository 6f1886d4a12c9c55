"""Processes that want one lease, an API server that holds it, and a clock that moves only when it is told to.

Each process has a monotonic clock with an origin of its own, a wall clock that may jump, and a connection to the API
server that may be cut, slow, or lose answers. A request that was sent arrives even if its sender is paused or killed.
"""

from __future__ import annotations

import heapq
import itertools
import json
import types
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any

from plimsoll.adapters.cluster.api_errors import ClusterRefused, NotLeading
from plimsoll.app.election.leadership import Elector, LeaseCandidate, LeaseHeld
from plimsoll.app.election.lease_times import USUAL, LeaseTimes
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.workload import Manifest

KEY = ObjectKey("plimsoll-system", "plimsoll")
TRAVEL_SECONDS = 0.05
"""How long a request, or its answer, is on its way when nothing is wrong."""


@types.coroutine
def until(at: float) -> Generator[float, None, None]:
    """Hand the time at which a process goes on to the world that runs it."""
    yield at


def copied(lease: Manifest) -> Manifest:
    """Return the same lease, with nothing shared."""
    found: Manifest = json.loads(json.dumps(lease))
    return found


@dataclass
class LeaseServer:
    """An API server with one lease, which it replaces only if the writer has read the present version."""

    lease: Manifest | None = None
    versions: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def read(self) -> Manifest | None:
        """Return the lease; None if it does not exist."""
        return None if self.lease is None else copied(self.lease)

    def write(self, lease: Manifest) -> Manifest:
        """Create or replace it. Raises ClusterRefused with 409 on a conflict."""
        known = None if self.lease is None else self.lease["metadata"]["resourceVersion"]
        if lease["metadata"].get("resourceVersion") != known:
            raise ClusterRefused("renew", 409, "changed since")
        self.lease = copied(lease)
        self._new_version()
        return copied(self.lease)

    def edit(self, **spec: Any) -> None:
        """Change fields by hand, as an admin can."""
        if self.lease is not None:
            self.lease["spec"] |= spec
            self._new_version()

    @property
    def holder(self) -> str:
        """Who holds it; empty for nobody."""
        return "" if self.lease is None else str(self.lease["spec"]["holderIdentity"])

    @property
    def marks(self) -> dict[str, str]:
        """The annotations of the lease."""
        return {} if self.lease is None else dict(self.lease["metadata"]["annotations"])

    def _new_version(self) -> None:
        assert self.lease is not None
        self.lease["metadata"]["resourceVersion"] = str(next(self.versions))


@dataclass
class Link:
    """A process's connection to the API server."""

    is_cut: bool = False
    out: float = TRAVEL_SECONDS
    back: float = TRAVEL_SECONDS
    loses_answers: bool = False
    refusal: int = 0


@dataclass(eq=False)
class Process:
    """A process with an elector: it acquires the lease, holds it and ends when it is lost, as the shell does."""

    world: World
    name: str
    times: LeaseTimes = USUAL
    waits: bool = True
    version: str = "1.0"
    settings: str = "s"
    origin: float = 0.0
    wall_error: float = 0.0
    link: Link = field(default_factory=Link)
    is_paused: bool = False
    goes_on_at: float = 0.0
    refused: str = ""
    in_flight: int = 0
    """Requests that wait for an answer, over a connection that may have been replaced since."""

    life: Coroutine[float, None, None] | None = None
    elector: Elector = field(init=False)

    def start(self) -> Process:
        """Start it with nothing remembered."""
        self.elector = Elector(
            self,
            KEY,
            LeaseCandidate(self.name, self.version, self.settings),
            waits=self.waits,
            times=self.times,
            clock=lambda: self.world.now + self.origin,
            wall_clock=lambda: self.world.now + self.wall_error,
            sleep=lambda seconds: until(self.world.now + seconds),
        )
        self.is_paused, self.goes_on_at, self.refused = False, self.world.now, ""
        self.life = self._live()
        self.go_on()
        return self

    def kill(self) -> None:
        """End it without a word."""
        if self.life is not None:
            self.life.close()
        self.life = None

    def end_politely(self) -> None:
        """Do what SIGTERM does: stop everything, and release the lease last."""
        self.kill()
        self.life = self.elector.release()
        self.go_on()

    def go_on(self) -> None:
        """Run it up to its next wait."""
        assert self.life is not None
        try:
            self.goes_on_at = self.life.send(None)
        except StopIteration:
            self.life = None
        except LeaseHeld as held:
            self.life, self.refused = None, str(held)

    @property
    def may_write(self) -> bool:
        """Whether a write would pass the fence now."""
        if self.life is None:
            return False
        try:
            self.elector.fence()
        except NotLeading:
            return False
        return True

    @property
    def knows_of_a_holder(self) -> bool:
        """Whether it knows who holds the lease now: it cannot wait for a holder that it never saw."""
        return self.life is None or self.may_write or self.elector.holder == self.world.server.holder

    async def get_lease(self, key: ObjectKey, *, timeout_seconds: float) -> Manifest | None:
        """Ask for the lease."""
        assert key == KEY
        return await self._ask(self.world.server.read, timeout_seconds)

    async def put_lease(self, lease: Manifest, *, timeout_seconds: float) -> Manifest:
        """Ask for a new lease."""
        stored = await self._ask(lambda: self.world.server.write(lease), timeout_seconds)
        assert stored is not None
        return stored

    async def _live(self) -> None:
        await self.elector.acquire()
        await self.elector.hold()

    async def _ask(self, action: Callable[[], Manifest | None], timeout_seconds: float) -> Manifest | None:
        """Send a request, and wait for its answer or for the time limit. It may arrive after that."""
        answers: list[Manifest | ClusterRefused | None] = []
        link, gives_up_at = self.link, self.world.now + timeout_seconds

        def arrive() -> None:
            if link.is_cut:
                return
            try:
                answers.append(ClusterRefused("lease", link.refusal, "no") if link.refusal else action())
            except ClusterRefused as refusal:
                answers.append(refusal)

        answered_at = self.world.now + link.out + link.back
        self.world.at(self.world.now + link.out, arrive)
        self.in_flight += 1
        try:
            await until(min(answered_at, gives_up_at))
        finally:
            self.in_flight -= 1
        if not answers or answered_at > gives_up_at or link.is_cut or link.loses_answers:
            raise SourceUnavailable("no answer")
        if isinstance(answers[0], ClusterRefused):
            raise answers[0]
        return answers[0]


@dataclass
class World:
    """Everything, and the time. After every single step it is checked that one process at most may write."""

    now: float = 0.0
    server: LeaseServer = field(default_factory=LeaseServer)
    processes: list[Process] = field(default_factory=list)
    _arrivals: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _serial: itertools.count[int] = field(default_factory=itertools.count)

    def process(self, name: str, **options: Any) -> Process:
        """Start a further process."""
        self.processes.append(Process(self, name, origin=1000.0 * len(self.processes), **options).start())
        return self.processes[-1]

    def at(self, when: float, happens: Callable[[], None]) -> None:
        """Let something happen at a time, whoever runs then."""
        heapq.heappush(self._arrivals, (when, next(self._serial), happens))

    @property
    def writers(self) -> list[Process]:
        """Every process that could write now. A paused one counts: it could wake up at this very moment."""
        return [process for process in self.processes if process.may_write]

    @property
    def writer(self) -> Process | None:
        """The one that may write, if there is one."""
        return next(iter(self.writers), None)

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is wrong: one process leads, and the others stand by."""
        healthy = [each for each in self.processes if each.life and not each.is_paused and each.link == Link()]
        standing_by = [each for each in healthy if each.waits and each.elector.holder == self.server.holder]
        return bool(self.writer) and len(standing_by) == len(self.processes)

    def run(self, seconds: float, *, until_true: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass, at most until something is true. Returns whether it is."""
        end = self.now + seconds
        while not until_true():
            runnable = [each for each in self.processes if each.life is not None and not each.is_paused]
            first = min(runnable, key=lambda each: each.goes_on_at, default=None)
            arrives_at = self._arrivals[0][0] if self._arrivals else float("inf")
            goes_on_at = float("inf") if first is None else first.goes_on_at
            if min(arrives_at, goes_on_at) > end:
                self.now = end
                break
            self.now = max(self.now, min(arrives_at, goes_on_at))
            if arrives_at <= goes_on_at:
                heapq.heappop(self._arrivals)[2]()
            elif first is not None:
                first.go_on()
            self.check()
        return until_true()

    def check(self) -> None:
        """One process at most may write."""
        writers = [process.name for process in self.writers]
        assert len(writers) <= 1, f"{' and '.join(writers)} may write at the same time, at {self.now:g} s"

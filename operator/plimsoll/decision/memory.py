"""The memory of passes: answers that are used again, and the little that changes decisions."""

from __future__ import annotations

from dataclasses import dataclass, field

from plimsoll.decision.kept import ChangedRequests, Kept
from plimsoll.decision.live.proposing import Proposer
from plimsoll.decision.live.rooms import Rooms
from plimsoll.decision.live.turn_memo import TurnMemo
from plimsoll.decision.outcome import Ready
from plimsoll.decision.planning import figures_of
from plimsoll.decision.pools.leaving_nodes import LeavingNodes
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import MemoryEstimate
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.demands.pools import Pool
from plimsoll.placement.memo import Memo


@dataclass(frozen=True, slots=True)
class _Estimated:
    """The estimate of what runs, and what it was made from."""

    request: Request
    pools: tuple[Pool, ...]
    fleet: Fleet
    figures: MemoryEstimate | None


@dataclass(slots=True)
class Memory:
    """The answers of earlier passes for the next ones. Not thread-safe: one pass is made at a time.

    Two parts change decisions, and a new process begins without them: what the live loop remembers of each deployment
    (``turns.memories``), and since when nodes are about to go (``leaving``). All else saves time: it is used again
    while all that it was found from is equal. Two answers may be a little old: a turn is repeated for ten seconds while
    nothing has come, and a look for room at others waits for a later pass if many ask.

    Attributes:
        estimates: estimates, demands and remedies.
        turns: the last turns of the live loop, and its memories.
        rooms: the changes of others that would make room for a change of the live loop.
        proposer: the proposals of the last pass.
        leaving: the nodes that go soon.
        requests: requests with what engines taught.
    """

    estimates: Memo = field(default_factory=Memo)
    turns: TurnMemo = field(default_factory=TurnMemo)
    rooms: Rooms = field(default_factory=Rooms)
    proposer: Proposer = field(default_factory=Proposer)
    leaving: LeavingNodes = field(default_factory=LeavingNodes)
    requests: ChangedRequests = field(default_factory=ChangedRequests)
    _estimated: Kept[_Estimated] = field(default_factory=Kept)

    def begin(self) -> None:
        """Begin a pass: drop what the last pass did not use."""
        self.requests.begin()
        self._estimated.begin()

    def without_answers(self) -> Memory:
        """Return a memory with only those parts that change decisions."""
        return Memory(turns=TurnMemo(dict(self.turns.memories)), leaving=LeavingNodes(dict(self.leaving.since)))

    def figures(self, ready: Ready, fleet: Fleet) -> MemoryEstimate | None:
        """Return the estimate of what runs of a deployment."""
        uid, pools = ready.deployment.identity.uid, ready.deployment.placed.pools
        known = self._estimated.get(uid)
        same = known is not None and known.request is ready.request and known.fleet is fleet
        if known is None or not same or known.pools != pools:
            figures = figures_of(ready.request, pools, fleet, self.estimates)
            known = _Estimated(ready.request, pools, fleet, figures)
        return self._estimated.put(uid, known).figures

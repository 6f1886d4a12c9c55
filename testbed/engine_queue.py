"""How do requests that come one after another pass through one played engine?

Each waits, gets into the batch, and ends. The engine runs a fixed number of requests at the same time, and a request
takes a fixed time. Everything that vLLM counts of a request follows from three moments: when it came, when it got into
the batch, and now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from testbed.engine_counters import Counters


@dataclass(frozen=True, slots=True)
class Stream:
    """Requests of one kind that come at even intervals. The times are chosen, not measured.

    Attributes:
        rate: requests a second; above 0.
        prompt: tokens of a prompt.
        output: tokens of an answer, 1 at least.
        first_token_seconds: time from the batch to the first token.
        token_seconds: time between two tokens.
    """

    rate: float
    prompt: int
    output: int
    first_token_seconds: float
    token_seconds: float

    def divided(self, count: int) -> Stream:
        """The part of each of so many engines."""
        return replace(self, rate=self.rate / count)

    def slowed(self, factor: float) -> Stream:
        """The same requests at an engine that takes so many times as long."""
        first, each = factor * self.first_token_seconds, factor * self.token_seconds
        return replace(self, first_token_seconds=first, token_seconds=each)

    @property
    def seconds(self) -> float:
        """The time of a request in the batch."""
        return self.first_token_seconds + (self.output - 1) * self.token_seconds

    @property
    def kv_tokens(self) -> int:
        """KV cache of a request at its end."""
        return self.prompt + self.output


@dataclass(frozen=True, slots=True)
class Running:
    """A request in the batch; its moments are seconds of the engine's life."""

    kind: Stream
    arrived: float
    begun: float

    @property
    def ends(self) -> float:
        """The moment of its last token."""
        return self.begun + self.kind.seconds

    def generated(self, now: float) -> int:
        """Return the tokens of its answer so far."""
        since = now - self.begun - self.kind.first_token_seconds
        return 0 if since < 0 else min(self.kind.output, 1 + int(since / self.kind.token_seconds))

    def counted(self, now: float) -> Counters:
        """Return its part of the totals while it runs."""
        tokens = self.generated(now)
        return self._with_tokens(tokens) if tokens else Counters()

    @property
    def counted_at_end(self) -> Counters:
        """Its part of the totals when it is done."""
        ended = Counters(
            finished=1,
            finished_prompt_tokens=self.kind.prompt,
            finished_output_tokens=self.kind.output,
            latency_seconds=self.ends - self.arrived,
        )
        return self._with_tokens(self.kind.output) + ended

    def _with_tokens(self, tokens: int) -> Counters:
        return Counters(
            prompt_tokens=self.kind.prompt,
            generation_tokens=tokens,
            first_tokens=1,
            first_token_seconds=self.begun + self.kind.first_token_seconds - self.arrived,
            gaps=tokens - 1,
            gap_seconds=(tokens - 1) * self.kind.token_seconds,
        )


@dataclass(frozen=True, slots=True)
class Queue:
    """The requests of one engine at one moment.

    Attributes:
        now: seconds of the engine's life.
        next_at: when the next request comes; None while none came.
        waiting: when those in the queue came, in order, and of which kind they are.
        running: those in the batch, in the order of their ends.
        past: the totals of those that are done or were given up.
    """

    now: float = 0.0
    next_at: float | None = None
    waiting: tuple[tuple[float, Stream], ...] = ()
    running: tuple[Running, ...] = ()
    past: Counters = field(default_factory=Counters)

    @property
    def counted(self) -> Counters:
        """The totals now."""
        return _total((self.past, *(each.counted(self.now) for each in self.running)))

    @property
    def kv_tokens(self) -> int:
        """KV cache in use."""
        return sum(each.kind.prompt + each.generated(self.now) for each in self.running)

    def after(self, seconds: float, stream: Stream, slots: int) -> Queue:
        """Return the same queue when the stream has gone on for a while. ``slots`` requests run at the same time."""
        end = self.now + seconds
        arrived, next_at = _arrivals(self._next_arrival(stream), end, stream)
        queue = replace(self, next_at=next_at, waiting=(*self.waiting, *((moment, stream) for moment in arrived)))
        while queue.waiting and (begins := queue.next_begin(slots)) <= end:
            queue = queue.with_one_more(begins)
        return queue.at(end)

    def given_up(self) -> Queue:
        """Return the queue when all clients have gone. What was counted stays counted."""
        return replace(self, next_at=None, waiting=(), running=(), past=self.counted)

    def _next_arrival(self, stream: Stream) -> float:
        soonest = self.now + 1 / stream.rate
        return soonest if self.next_at is None else min(self.next_at, soonest)

    def next_begin(self, slots: int) -> float:
        """Return when the first request of the queue gets into the batch."""
        came, _ = self.waiting[0]
        full = len(self.running) >= slots
        return max(came, self.now, self.running[len(self.running) - slots].ends if full else came)

    def with_one_more(self, moment: float) -> Queue:
        """Return the queue when its first request gets into the batch at this moment."""
        later = self.at(moment)
        (came, kind), *waiting = later.waiting
        running = sorted((*later.running, Running(kind, came, moment)), key=lambda each: each.ends)
        return replace(later, waiting=tuple(waiting), running=tuple(running))

    def at(self, moment: float) -> Queue:
        """Return the queue at a later moment, without the requests that are done by then."""
        ended = [each.counted_at_end for each in self.running if each.ends <= moment]
        running = tuple(each for each in self.running if each.ends > moment)
        return replace(self, now=moment, running=running, past=_total((self.past, *ended)))


def _arrivals(first: float, end: float, stream: Stream) -> tuple[list[float], float]:
    """Return the moments of the requests that come until ``end``, and that of the next one."""
    moments = []
    while first <= end:
        moments.append(first)
        first += 1 / stream.rate
    return moments, first


def _total(parts: Iterable[Counters]) -> Counters:
    return sum(parts, Counters())

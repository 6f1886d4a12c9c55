"""Played engines: what each of them is doing when a deployment gets a load."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from testbed.engine_counters import Counters
from testbed.engine_queue import Queue, Stream

REQUEST_TOKENS = 2_000
"""Tokens of KV cache that one played request holds: turns tokens into counts of requests. Chosen, not measured."""

GENERATED_PER_SECOND = 50.0
"""Tokens that one running request of a crowd generates a second. It is chosen: neither zero nor absurd."""

DEFAULT_SLOTS = 256
"""Requests that an engine runs at the same time where its arguments do not say it."""


class Server(Enum):
    """The programs that are played. Their pages of metrics differ."""

    VLLM = auto()
    SGLANG = auto()


@dataclass(frozen=True, slots=True)
class Demand:
    """What the clients of one deployment want from all its replicas together.

    It is a standing crowd, of which no request begins or ends, or a stream of requests that come and go.

    Attributes:
        kv_tokens: KV cache that all requests would hold at the same time.
        running: requests in execution; None derives them from the tokens.
        waiting: requests in the queue; None derives them from what does not fit.
        stream: requests that come one after another; None for a crowd. With a stream the other fields are not read.
    """

    kv_tokens: float = 0.0
    running: int | None = None
    waiting: int | None = None
    stream: Stream | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    """One ready pod and its share of the load.

    Attributes:
        namespace: of the pod.
        pod: its name.
        model: what the engine calls the model it serves.
        capacity_tokens: size of its KV cache.
        slots: requests that it runs at the same time.
        usage: share of the cache in use, 0 to 1.
        running: requests in execution.
        waiting: requests in its queue.
        crowd: totals of the crowds so far.
        queue: the requests of streams.
        stream: its part of the stream that comes now; None while a crowd is there.
        server: the program that is played.
    """

    namespace: str
    pod: str
    model: str
    capacity_tokens: int
    slots: int = DEFAULT_SLOTS
    usage: float = 0.0
    running: int = 0
    waiting: int = 0
    crowd: Counters = field(default_factory=Counters)
    queue: Queue = field(default_factory=Queue)
    stream: Stream | None = None
    server: Server = Server.VLLM

    @property
    def counters(self) -> Counters:
        """All totals since the engine started."""
        return self.crowd + self.queue.counted

    def after(self, seconds: float) -> Engine:
        """The same engine when it has gone on like this for a while; it preempts only while its cache is full."""
        if self.stream is not None:
            return self._with_queue(self.queue.after(seconds, self.stream, self._slots_for(self.stream)))
        tokens = seconds * self.running * GENERATED_PER_SECOND
        more = Counters(
            preemptions=seconds if self.usage >= 1 and self.waiting else 0.0,
            generation_tokens=tokens,
            gaps=tokens,
            gap_seconds=seconds * self.running,
        )
        return replace(self, crowd=self.crowd + more)

    def with_stream(self, stream: Stream) -> Engine:
        """The same engine when these requests come to it from now on."""
        return replace(self._with_queue(self.queue), stream=stream)

    def slowed(self, factor: float) -> Engine:
        """The same engine whose requests take so many times as long, if they come in a stream."""
        return self if self.stream is None else replace(self, stream=self.stream.slowed(factor))

    def with_crowd(self, held_tokens: float, running: int, waiting: int) -> Engine:
        """The same engine with these requests and no others."""
        usage, queue = held_tokens / self.capacity_tokens, self.queue.given_up()
        return replace(self, stream=None, queue=queue, usage=usage, running=running, waiting=waiting)

    def restarted(self) -> Engine:
        """The same engine when it has just started: nothing was counted, and nobody is there."""
        return replace(self, crowd=Counters(), queue=Queue())

    def _with_queue(self, queue: Queue) -> Engine:
        usage = queue.kv_tokens / self.capacity_tokens
        return replace(self, queue=queue, usage=usage, running=len(queue.running), waiting=len(queue.waiting))

    def _slots_for(self, stream: Stream) -> int:
        """Return how many of these requests run at the same time: no more than the cache holds to their ends."""
        return max(1, min(self.slots, self.capacity_tokens // stream.kv_tokens))


def spread(engines: Iterable[Engine], demand: Demand) -> list[Engine]:
    """Spread a deployment's demand evenly over its engines: one engine more means less for each."""
    listed = list(engines)
    if demand.stream is not None:
        return [engine.with_stream(demand.stream.divided(len(listed))) for engine in listed]
    share = demand.kv_tokens / len(listed) if listed else 0.0
    return [_in_crowd(engine, share, index, len(listed), demand) for index, engine in enumerate(listed)]


def _in_crowd(engine: Engine, share: float, index: int, count: int, demand: Demand) -> Engine:
    held = min(share, float(engine.capacity_tokens))
    overflow = round((share - held) / REQUEST_TOKENS)
    running = round(held / REQUEST_TOKENS) if demand.running is None else _part(demand.running, index, count)
    waiting = overflow if demand.waiting is None else _part(demand.waiting, index, count)
    return engine.with_crowd(held, running, waiting)


def _part(whole: int, index: int, count: int) -> int:
    """Whole requests for engine ``index`` of ``count``; the first ones carry the remainder."""
    return whole // count + (1 if index < whole % count else 0)

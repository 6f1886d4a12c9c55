"""The words of a simulation: requests, faults, and the metrics of engines.

Times are in seconds since the start of a run, lengths in tokens.

One request on its way through a replica.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol


class EngineLimits(Protocol):
    """The limits of one engine: tokens of its KV cache, and vLLM's flags for requests and tokens of a step."""

    @property
    def kv_tokens(self) -> int:
        """Tokens of the KV cache."""

    @property
    def max_num_seqs(self) -> int:
        """Requests at the same time (``--max-num-seqs``)."""

    @property
    def max_batched_tokens(self) -> int:
        """Tokens of a step (``--max-num-batched-tokens``)."""


Prefix = tuple[tuple[int, int], ...]
"""The blocks of a prompt from its beginning: the id of each, and its tokens."""

HASH_BLOCK_TOKENS: Final = 512
"""Tokens of a block of :attr:`Arrival.blocks`, as in Mooncake's traces."""

_ALIKE: Final = -1
"""The block with which all prompts begin whose blocks have no names."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request as a client sends it.

    Attributes:
        at: when.
        prompt_tokens: tokens of its prompt.
        output_tokens: tokens of its answer.
        cached_tokens: tokens of its prompt that any replica knows that has computed a prompt before. They count if
            there are no ``blocks``.
        blocks: ids of the blocks of its prompt, of :data:`HASH_BLOCK_TOKENS` tokens each. Equal ids are equal tokens
            behind an equal beginning.
    """

    at: float
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    blocks: tuple[int, ...] = ()

    @property
    def prefix(self) -> Prefix:
        """Return the part of its prompt that a replica may know."""
        if self.blocks:
            return tuple((block, HASH_BLOCK_TOKENS) for block in self.blocks)
        return ((_ALIKE, self.cached_tokens),)


class Routing(StrEnum):
    """How a request finds its replica."""

    ROUND_ROBIN = "round-robin"
    """Each replica in its turn, as a Service without a router does on average."""
    PREFIX = "prefix"
    """The replica that knows most of the prompt, and the least loaded of several."""

    LEAST_LOADED = "least-loaded"
    TWO_CHOICES = "two-choices"
    RANDOM = "random"


class FaultKind(StrEnum):
    """A fault that begins at a moment and lasts for some time."""

    STUCK_STARTS = "stuck-starts"
    """Replicas that are created meanwhile never get ready, or the first of them."""
    NO_ROOM = "no-room"
    """No GPU is free: replicas that are created meanwhile are pending, and start when it ends."""
    NO_METRICS = "no-metrics"
    """Prometheus does not answer."""
    STALE_POD = "stale-pod"
    """The samples of the oldest pod stop, while the pod serves."""
    NOT_A_NUMBER = "nan"
    """The samples of the oldest pod hold NaN."""
    SLOW_POD = "slow-pod"
    """Each step of the oldest pods that are ready takes ``amount`` times as long: a GPU that is throttled."""
    STICKY = "sticky"
    """A share ``amount`` of the requests goes to the oldest pod that is ready, and the router has the rest."""
    FULL_CACHE = "full-cache"
    """Every pod reports ``amount`` of its KV cache as used, whatever it holds."""


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """A fault and its time. A fault of starts, or of slow pods, hits only the first ``replicas``; None hits all.

    ``amount`` is explained at the kinds that have one.
    """

    kind: FaultKind
    begins_at: float
    seconds: float
    replicas: int | None = None
    amount: float = 1.0


@dataclass(frozen=True, slots=True)
class Sample:
    """The metrics of one pod at one scrape, with vLLM's meaning (https://docs.vllm.ai/en/latest/usage/metrics/).

    ``kv_usage`` is 0 to 1. Totals only grow: tokens and requests of the pod's life. Lengths and times are sums, as a
    histogram's ``_sum`` and ``_count`` give them. Each is counted when vLLM counts it (``vllm/v1/metrics``):

    - ``ttft_seconds_total`` and ``first_tokens_total`` at the first token of a request;
    - ``token_gap_seconds_total`` and ``token_gaps_total`` at each later token: the time since the token before it, with
      what a preempted request waits;
    - ``queue_seconds_total`` and ``dequeued_total`` at the end of a request: the time until it was admitted first;
    - ``prefix_queried_tokens_total`` and ``prefix_hit_tokens_total`` at the first admission of a request: the tokens of
      its prompt, and those of them that are in the prefix cache.
    """

    at: float
    kv_usage: float
    waiting: float
    running: float
    preemptions_total: float
    prompt_tokens_total: float
    generation_tokens_total: float
    finished_total: float
    finished_prompt_tokens_total: float
    finished_output_tokens_total: float
    ttft_seconds_total: float
    first_tokens_total: float
    token_gap_seconds_total: float
    token_gaps_total: float
    queue_seconds_total: float
    dequeued_total: float
    prefix_queried_tokens_total: float
    prefix_hit_tokens_total: float


class QueueObstacle(StrEnum):
    """The reasons why the first request of an engine's queue waits."""

    CACHE = "Cache"
    """The KV cache has no room for its prompt."""
    SEQUENCE_SLOTS = "SequenceSlots"
    """The engine runs as many requests as it may (``--max-num-seqs``)."""
    STEP = "Step"
    """The tokens of a step are taken by other prompts, or the step under way has not ended."""


class Fate(StrEnum):
    """The ends of a request."""

    SERVED = "served"
    GAVE_UP = "gave-up"
    """The client did not get its first token in time."""
    LOST = "lost"
    """Its replica ended before it was done."""


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """One request and what became of it. The times are None if they did not happen."""

    arrival: Arrival
    fate: Fate
    ttft_seconds: float | None = None
    tpot_seconds: float | None = None


@dataclass(slots=True, eq=False)
class SimulatedRequest:
    """A request and how far it has come. Times are in seconds since the start of the run.

    Attributes:
        arrival: what the client sent.
        received_at: when its replica got it.
        computed: tokens whose keys and values are in the cache, while the prompt is computed.
        generated: tokens that were generated. It is kept while the request is preempted.
        admitted_at: when the engine admitted it first; None before.
        preempted_at: when it lost its blocks last, at the time of its last token; None if it never did.
        first_token_at: when the client got the first token; None before.
        finished_at: when the client got the last token; None before.
        fate: None while it is under way.
    """

    arrival: Arrival
    received_at: float = 0.0
    computed: int = 0
    generated: int = 0
    admitted_at: float | None = None
    preempted_at: float | None = None
    first_token_at: float | None = None
    finished_at: float | None = None
    fate: Fate | None = None

    @property
    def known_tokens(self) -> int:
        """The tokens to compute before another one can be generated: the prompt, and what was generated before."""
        return self.arrival.prompt_tokens + self.generated

    @property
    def answered(self) -> AnsweredRequest:
        """The request and what became of it.

        Raises:
            ValueError: it is still under way.
        """
        if self.fate is None:
            raise ValueError(f"fate: the request of {self.arrival.at} s is still under way")
        return AnsweredRequest(self.arrival, self.fate, self.ttft_seconds, self.tpot_seconds)

    @property
    def ttft_seconds(self) -> float | None:
        """The time from the arrival to the first token; None before."""
        return None if self.first_token_at is None else self.first_token_at - self.arrival.at

    @property
    def tpot_seconds(self) -> float | None:
        """The mean time of the tokens after the first; None if there are none, or not all of them came."""
        later = self.arrival.output_tokens - 1
        if self.first_token_at is None or self.finished_at is None or later == 0:
            return None
        return (self.finished_at - self.first_token_at) / later

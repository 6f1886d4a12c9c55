"""One replica, as vLLM's engine (v1) schedules it.

Requests wait in the order of their arrival. A step has at most ``max_batched_tokens`` tokens: one for each request that
generates, then chunks of prompts. A request is admitted if the blocks of its whole prompt are free. When a request
needs another block and none is free, the newest request loses its blocks and waits at the head of the queue; later it
computes its prompt and its tokens again. The engine keeps no clock. Whoever drives it begins and ends its steps.
The time of a step is that of the performance model.
"""

from __future__ import annotations

from collections import deque
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Final

from plimsoll.performance.step_costs import StepCosts
from plimsoll.simulation.batch import BLOCK_TOKENS, Chunks, Decoding, Prompts, blocks_of
from plimsoll.simulation.prefix_cache import PrefixCache
from plimsoll.simulation.values import EngineLimits, Fate, QueueObstacle, Sample, SimulatedRequest


@dataclass(slots=True)
class EngineCounters:
    """Totals that only grow. Their meaning is that of :class:`~plimsoll.simulation.values.Sample`."""

    preemptions: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    finished: int = 0
    finished_prompt_tokens: int = 0
    finished_output_tokens: int = 0
    ttft_seconds: float = 0.0
    first_tokens: int = 0
    token_gap_seconds: float = 0.0
    token_gaps: int = 0
    queue_seconds: float = 0.0
    prefix_queried_tokens: int = 0
    prefix_hit_tokens: int = 0

    def count_admission(self, request: SimulatedRequest) -> None:
        """Count the look-up of a prompt in the prefix cache. vLLM leaves out requests that were preempted."""
        self.prefix_queried_tokens += request.arrival.prompt_tokens
        self.prefix_hit_tokens += request.computed

    def count_later_tokens(self, tokens: int, seconds: float) -> None:
        """Count tokens after the first one of their requests, and the sum of the times since the tokens before."""
        self.generation_tokens += tokens
        self.token_gaps += tokens
        self.token_gap_seconds += seconds

    def count_first_token(self, request: SimulatedRequest, at: float) -> None:
        """Count a prompt as computed. A request that was preempted since is not counted again."""
        self.prompt_tokens += request.arrival.prompt_tokens
        self.generation_tokens += 1
        self.ttft_seconds += at - request.received_at
        self.first_tokens += 1

    def count_finished(self, request: SimulatedRequest) -> None:
        """Count a request that has all its tokens."""
        self.finished += 1
        self.finished_prompt_tokens += request.arrival.prompt_tokens
        self.finished_output_tokens += request.arrival.output_tokens
        if request.admitted_at is not None:
            self.queue_seconds += request.admitted_at - request.received_at


SIGNIFICANT_BITS = 7
"""Lengths and batches are rounded to so many binary digits, so that steps repeat: an error of at most 0.8 %."""


class StepTimes:
    """Seconds of the steps of one replica. Steps that differ by less than a rounding are computed once."""

    __slots__ = ("_costs", "_factor", "_known", "request_seconds")

    def __init__(self, costs: StepCosts) -> None:
        self._costs = costs
        self._factor = 1.0
        self._known: dict[tuple[int, int, int], float] = {}
        self.request_seconds = costs.request_seconds
        """The seconds of a request outside its steps."""

    def times(self, factor: float) -> StepTimes:
        """Return times of steps that are so many times as long. What is computed is shared."""
        found = copy(self)
        found._factor = self._factor * factor  # noqa: SLF001 - a copy of its own
        return found

    def step(self, decoding: int, context: float, prompt_tokens: int = 0) -> float:
        """Return the seconds of a step in which ``decoding`` requests generate a token behind ``context`` tokens each.

        ``prompt_tokens`` tokens of prompts ride along; :meth:`attention` is their attention.
        """
        key = rounded(decoding), rounded(int(context)), rounded(prompt_tokens)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._costs.step(*key).total
        return self._factor * found

    def attention(self, computed: int, upto: int) -> float:
        """Return the seconds of the attention of the tokens of one prompt from ``computed`` to ``upto``."""
        whole = self._costs.prompt_attention(upto)
        own = whole - self._costs.prompt_attention(computed) if computed else whole
        return self._factor * own


def rounded(number: int) -> int:
    """Round to :data:`SIGNIFICANT_BITS` binary digits; small numbers stay as they are."""
    shift = number.bit_length() - SIGNIFICANT_BITS
    return (number + (1 << shift - 1)) >> shift << shift if shift > 0 else number


MOST_STEPS: Final = 128
"""The most steps that count as equally long. Their lengths are those of the middle one."""


@dataclass(frozen=True, slots=True)
class PlannedSteps:
    """Steps that are under way: several only if all running requests generate and none can be admitted.

    ``chunks`` are the requests whose prompts ride along, with their tokens.
    """

    begins_at: float
    step_seconds: float
    steps: int
    ends_at: float
    chunks: Chunks = ()


class SimulatedEngine:
    """The requests of one replica, its KV cache and its counters.

    It keeps ``kept_tokens`` of the prompts that it computed last; None for as many as its KV cache holds, whose blocks
    keep what they held until somebody else needs them.
    """

    __slots__ = ("_decoding", "_limits", "_prefixes", "_prompts", "_times", "_waiting", "load", "plan", "totals")

    def __init__(self, limits: EngineLimits, times: StepTimes, kept_tokens: int | None = None) -> None:
        self._limits = limits
        self._times = times
        self._waiting: deque[SimulatedRequest] = deque()
        self._prompts = Prompts()
        self._decoding = Decoding()
        self._prefixes = PrefixCache(limits.kv_tokens if kept_tokens is None else kept_tokens)
        self.load = 0
        """All requests that are not answered."""
        self.totals = EngineCounters()
        self.plan: PlannedSteps | None = None
        """The steps that are under way; None while the engine is idle."""

    @property
    def running(self) -> int:
        """Requests that hold blocks."""
        return len(self._prompts) + len(self._decoding)

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._waiting)

    @property
    def most_running(self) -> int:
        """The most requests that may run at the same time."""
        return self._limits.max_num_seqs

    @property
    def total_blocks(self) -> int:
        """Blocks of the KV cache."""
        return self._limits.kv_tokens // BLOCK_TOKENS

    @property
    def kept_tokens(self) -> int:
        """The most tokens of prompts that it keeps for later requests."""
        return self._prefixes.most_tokens

    @property
    def used_blocks(self) -> int:
        """Blocks that requests hold."""
        return self._decoding.blocks + self._prompts.blocks

    @property
    def free_blocks(self) -> int:
        """Blocks that nobody holds."""
        return self.total_blocks - self.used_blocks

    @property
    def obstacle(self) -> QueueObstacle | None:
        """The reason why the first request of the queue waits; None if nothing waits."""
        if not self._waiting:
            return None
        if self.running >= self._limits.max_num_seqs:
            return QueueObstacle.SEQUENCE_SLOTS
        return QueueObstacle.STEP if self._can_admit() else QueueObstacle.CACHE

    def slow_down(self, factor: float) -> None:
        """Let each step that is planned from now on take so many times as long as before."""
        self._times = self._times.times(factor)

    def requests(self) -> tuple[SimulatedRequest, ...]:
        """Return all requests that are not answered."""
        return (*self._decoding.requests(), *self._prompts.requests(), *self._waiting)

    def add(self, request: SimulatedRequest, now: float) -> None:
        """Put a request into the queue.

        Raises:
            ValueError: the engine could never serve it.
        """
        self._check(request)
        request.received_at = now
        self._waiting.append(request)
        self.load += 1

    def _check(self, request: SimulatedRequest) -> None:
        prompt, output = request.arrival.prompt_tokens, request.arrival.output_tokens
        if prompt < 1 or output < 1:
            raise ValueError(f"request: {prompt} and {output} tokens; write 1 or more of each")
        if blocks_of(prompt + output) > self.total_blocks:
            raise ValueError(f"request: {prompt} + {output} tokens; the KV cache holds {self._limits.kv_tokens}")

    def drop(self, request: SimulatedRequest) -> None:
        """Forget a request that has no first token, because its client is gone.

        Raises:
            ValueError: it is not here.
        """
        if request in self._prompts:
            self._prompts.release(request)
        else:
            self._waiting.remove(request)
        self.load -= 1

    def begin(self, now: float) -> None:
        """Plan the next steps. The plan before has ended."""
        self._make_room(now)
        chunks = self._chunks(now)
        if chunks:
            self.plan = self._mixed_plan(now, chunks)
        else:
            self.plan = self._decoding_plan(now) if self._decoding else None

    def interrupt(self, now: float) -> None:
        """End the plan after the step that is under way if a request can be admitted then."""
        self._catch_up(now)
        plan = self.plan
        if plan is not None and plan.steps > 1 and self._can_admit():
            self.plan = replace(plan, steps=1, ends_at=max(now, plan.begins_at + plan.step_seconds))

    def end(self) -> list[SimulatedRequest]:
        """Take the steps that were planned, and return the requests that are done with them.

        Raises:
            ValueError: nothing was planned.
        """
        if self.plan is None:
            raise ValueError("plan: none; begin a step before it can end")
        plan, self.plan = self.plan, None
        self._generate(plan.steps, plan.ends_at - plan.begins_at)
        done = [*self._decoding.take_done(), *self._end_chunks(plan)]
        for request in done:
            self._finish(request, plan.ends_at)
        return done

    def sample(self, now: float) -> Sample:
        """Return the metrics as they are now."""
        self._catch_up(now)
        return Sample(
            at=now,
            kv_usage=self.used_blocks / self.total_blocks,
            waiting=self.waiting,
            running=self.running,
            dequeued_total=self.totals.finished,
            **{f"{each.name}_total": getattr(self.totals, each.name) for each in fields(EngineCounters)},
        )

    def _make_room(self, now: float) -> None:
        """Preempt requests until the others can generate a token each.

        The last of them cannot be admitted again in the same step: fewer blocks are left than it had.
        """
        while self._decoding.blocks_needed > self.free_blocks:
            self._preempt(self._prompts.newest() if self._prompts else self._decoding.newest(), now)

    def _preempt(self, request: SimulatedRequest, now: float) -> None:
        if request in self._prompts:
            self._prompts.release(request)
        else:
            self._decoding.leave(request)
            request.preempted_at = now
        self.totals.preemptions += 1
        self._waiting.appendleft(request)

    def _chunks(self, now: float) -> Chunks:
        """Return the prompts of the next step: those that have begun, and those that can be admitted."""
        room = self._limits.max_batched_tokens - len(self._decoding)
        unused = room - self._prompts.left
        while unused > 0 and self._can_admit():
            unused -= self._admit(now)
        return self._prompts.chunks(room)

    def _can_admit(self) -> bool:
        if not self._waiting or self.running >= self._limits.max_num_seqs:
            return False
        return blocks_of(self._waiting[0].known_tokens) <= self.free_blocks - self._decoding.blocks_needed

    def _admit(self, now: float) -> int:
        """Admit the first request of the queue, and return the tokens of it that are to be computed."""
        request = self._waiting.popleft()
        request.computed = self._cached_tokens(request)
        self._prompts.admit(request)
        if request.admitted_at is None:
            request.admitted_at = now
            self.totals.count_admission(request)
        return request.known_tokens - request.computed

    def _cached_tokens(self, request: SimulatedRequest) -> int:
        """Return the tokens that need no computing: whole blocks, and not the last token of the prompt."""
        cached = min(self._prefixes.found(request.arrival.prefix), request.arrival.prompt_tokens - 1)
        return cached // BLOCK_TOKENS * BLOCK_TOKENS

    def _mixed_plan(self, now: float, chunks: Chunks) -> PlannedSteps:
        times, tokens = self._times, sum(tokens for _, tokens in chunks)
        seconds = times.step(len(self._decoding), self._decoding.context, tokens)
        for request, part in chunks:
            seconds += times.attention(request.computed, request.computed + part)
        return PlannedSteps(now, seconds, 1, now + seconds, chunks)

    def _decoding_plan(self, now: float) -> PlannedSteps:
        decoding = self._decoding
        steps = min(MOST_STEPS, decoding.steps_to_end, decoding.steps_within(self.free_blocks))
        seconds = self._times.step(len(decoding), decoding.context + (steps - 1) / 2)
        return PlannedSteps(now, seconds, steps, now + steps * seconds)

    def _catch_up(self, now: float) -> None:
        """Take the steps of the plan that have ended; its last one ends with the plan."""
        plan = self.plan
        if plan is None or plan.steps == 1:
            return
        passed = min(plan.steps - 1, int((now - plan.begins_at) / plan.step_seconds))
        self._generate(passed, passed * plan.step_seconds)
        begins_at = plan.begins_at + passed * plan.step_seconds
        self.plan = replace(plan, begins_at=begins_at, steps=plan.steps - passed)

    def _generate(self, steps: int, seconds: float) -> None:
        requests = len(self._decoding)
        self.totals.count_later_tokens(steps * requests, seconds * requests)
        self._decoding.advance(steps)

    def _end_chunks(self, plan: PlannedSteps) -> list[SimulatedRequest]:
        """Return the requests that needed no more than the token at the end of their prompt."""
        done: list[SimulatedRequest] = []
        for request, tokens in plan.chunks:
            if request not in self._prompts:
                continue
            request.computed += tokens
            if request.computed == request.known_tokens:
                self._end_prompt(request, plan.ends_at)
                if request.generated == request.arrival.output_tokens:
                    done.append(request)
                else:
                    self._decoding.join(request)
        return done

    def _end_prompt(self, request: SimulatedRequest, now: float) -> None:
        """Give a request the token that the end of its prompt brings."""
        self._prompts.release(request)
        self._prefixes.keep(request.arrival.prefix)
        request.generated += 1
        if request.first_token_at is None:
            request.first_token_at = now + self._times.request_seconds
            self.totals.count_first_token(request, request.first_token_at)
        elif request.preempted_at is not None:
            self.totals.count_later_tokens(1, now - request.preempted_at)

    def _finish(self, request: SimulatedRequest, now: float) -> None:
        request.finished_at = now + self._times.request_seconds
        request.fate = Fate.SERVED
        self.totals.count_finished(request)
        self.load -= 1

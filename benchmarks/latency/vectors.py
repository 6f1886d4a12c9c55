"""The model's figures of many cases at once, for the fit: everything that no constant changes is counted beforehand.

The formulas are those of ``plimsoll.performance``, over arrays of numpy. A test compares both on carried rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import exp, inf
from typing import Any, Final

import numpy as np

from benchmarks.latency.cases import Case
from benchmarks.latency.prediction import prompts_per_step
from plimsoll.domain.cluster.gpus import Efficiency
from plimsoll.domain.models.precision import Precision
from plimsoll.performance.hardware_speed import (
    peak_and_share,
    read_share,
    speed_of,
    weights_to_expand,
)
from plimsoll.performance.model import (
    WAITS,
    WAITS_AHEAD,
    Load,
    context_tokens,
    free_tokens,
    prompt_chunks,
    prompts_per_token,
    steps_with_prompts,
)
from plimsoll.performance.step_costs import (
    FULL_TILE,
    LARGEST_GRAPH,
    LARGEST_TILE,
    LEAST_TILE,
    SMOOTHNESS,
    StepCosts,
    costs_of,
    rounded_inputs,
)
from plimsoll.performance.step_work import MatrixWork

Vector = Any
"""An array of numpy, which carries no types where it is not installed."""

Constants = Mapping[str, Vector]
"""Constants by name, one value for each case."""

NAMES: Final = tuple(each.name for each in fields(Efficiency))
_UNITS: Final = Efficiency(**dict.fromkeys(NAMES, 1.0) | {"expanded_weights": inf})
_NAMED: Final[Any] = Efficiency(**{name: name for name in NAMES})  # type: ignore[arg-type]
_HALF: Final = 0.5


def _joined(first: Vector, second: Vector) -> Vector:
    return (first**SMOOTHNESS + second**SMOOTHNESS) ** (1 / SMOOTHNESS)


def _idle_tokens(tokens: Vector, row_tokens: Vector) -> Vector:
    rows = tokens / np.where(row_tokens > 0, row_tokens, 1.0)
    return row_tokens * np.clip(rows / FULL_TILE, LEAST_TILE, LARGEST_TILE) / 2


@dataclass(frozen=True, slots=True)
class _Matrices:
    """One place in the lists of matrices of all cases: seconds at full peaks, and the names of the shares of them."""

    read_seconds: Vector
    token_seconds: Vector
    read_share: Vector
    product_share: Vector
    weights: Vector
    row_tokens: Vector


@dataclass(frozen=True, slots=True)
class _Caches:
    """One place in the lists of caches of all cases, at full peaks."""

    read_seconds: Vector
    product_seconds: Vector
    fixed_seconds: Vector


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of every case without its constants: tokens, sequences, reads of caches, messages."""

    tokens: Vector
    own: Vector
    sampled: Vector
    experts_tokens: Vector
    caches: tuple[_Caches, ...]
    messages: Vector


@dataclass(frozen=True, slots=True)
class _Column:
    """The contribution of one case, before cases are stacked."""

    case: Case
    costs: StepCosts
    load: Load
    batched: int

    @property
    def others(self) -> float:
        """The other users of one engine."""
        return self.load.running / self.costs.split.data_parallel - 1


class Stack:
    """Cases as arrays. :meth:`times` returns their figures for given constants."""

    def __init__(self, cases: Sequence[Case]) -> None:
        """Count everything that no constant changes."""
        self._columns = [_column(case) for case in cases]
        self._count_matrices(cases)
        self._count_host(cases)
        self._count_loads()

    def _each(self, value: Callable[[_Column], float]) -> Vector:
        return np.array([float(value(column)) for column in self._columns])

    def _count_matrices(self, cases: Sequence[Case]) -> None:
        costs = [column.costs for column in self._columns]
        self._dense = _stack([(case, case.work.dense, each.dense) for case, each in zip(cases, costs, strict=True)])
        self._head = _stack([(case, case.work.head, each.head) for case, each in zip(cases, costs, strict=True)])
        self._experts = _stack(
            [(case, case.work.experts, each.experts) for case, each in zip(cases, costs, strict=True)]
        )
        self._cached = np.array([NAMES.index(_cache_share(case)) for case in cases])
        visited = self._each(
            lambda each: (
                each.costs.work.experts_per_token / each.costs.work.expert_count
                if each.costs.experts and each.costs.work.expert_count
                else 0.0
            )
        )
        self._not_visited = np.minimum(1 - visited, 1.0)

    def _count_host(self, cases: Sequence[Case]) -> None:
        self._layers = self._each(lambda each: each.costs.work.layers)
        self._expert_layers = self._each(lambda each: each.costs.work.expert_layers)
        self._selecting_layers = self._each(lambda each: each.costs.work.selecting_layers)
        rounded = [rounded_inputs(case.work, speed_of(case.gpu)) for case in cases]
        is_nvfp4 = np.array([each is Precision.NVFP4 for each in rounded])
        self._nvfp4_layers = self._layers * is_nvfp4
        self._quantized_layers = self._layers * np.array([each is not None for each in rounded]) * ~is_nvfp4
        self._stages = self._each(lambda each: each.costs.split.pipeline_parallel)
        self._synchronous = self._each(lambda each: each.costs.is_synchronous) > 0
        self._host_reads = self._each(lambda each: each.costs.floor.host_seconds)
        self._overlaps = self._each(lambda each: each.costs.floor.overlaps) > 0
        self._floor = self._each(lambda each: each.costs.floor.seconds)

    def _count_loads(self) -> None:
        prompts = self._each(lambda each: prompts_per_token(each.costs, each.load))
        chunks = self._each(lambda each: prompt_chunks(each.costs, each.load, each.batched))
        prompt = self._each(lambda each: each.load.prompt_tokens)
        free = self._each(lambda each: free_tokens(each.costs, each.load, each.batched))
        waiting = prompts * prompt
        carried = np.where(prompts > 0, np.maximum(np.minimum(prompt, free), np.minimum(waiting, free)), 0.0)
        self._prompts, self._prompt, self._others = prompts, prompt, self._each(lambda each: each.others)
        steps = np.where(prompts > 0, waiting / np.where(carried > 0, carried, 1.0), 0.0)
        self._loaded_steps = np.array(
            [steps_with_prompts(each.costs, own) for each, own in zip(self._columns, steps, strict=True)]
        )
        self._passes = (chunks + self._stages - 1) / self._stages
        running = self._each(lambda each: each.load.running)
        context = self._each(lambda each: context_tokens(each.load))
        batched = self._each(lambda each: each.batched)
        self._decode = self._step(running, context, np.zeros_like(running))
        self._loaded = self._step(running, context, carried)
        self._first = self._step(running - 1, context, prompt / chunks)
        self._full = self._step(np.zeros_like(running), np.zeros_like(running), batched)
        self._pairs = self._each(lambda each: each.costs.prompt_attention(each.load.prompt_tokens))
        self._rounds = self._each(lambda each: each.load.rounds)
        self._batched = batched
        self._only_steps = np.array(
            [
                each.case.row.is_step and exp(-prompts_per_step(each.costs, each.load, each.batched)) > _HALF
                for each in self._columns
            ]
        )

    def _step(self, running: Vector, context: Vector, prompt: Vector) -> _Step:
        parallel = self._each(lambda each: each.costs.split.data_parallel)
        own = running / parallel / self._stages
        sampled = own + (prompt > 0)
        tokens = own + prompt
        most = max((len(each.costs.caches) for each in self._columns), default=0)
        messages = [
            each.costs.communication_seconds(float(tokens[index]), float(own[index]))
            for index, each in enumerate(self._columns)
        ]
        return _Step(
            tokens=tokens,
            own=own,
            sampled=sampled,
            experts_tokens=np.maximum(tokens * parallel - 1, 0.0),
            caches=tuple(self._caches(place, own, context) for place in range(most)),
            messages=np.array(messages),
        )

    def _caches(self, place: int, own: Vector, context: Vector) -> _Caches:
        rows = np.zeros((3, len(self._columns)))
        for index, each in enumerate(self._columns):
            if place < len(each.costs.caches):
                cost, work = each.costs.caches[place], each.costs.work.caches[place]
                attended = own[index] * work.attended(float(context[index]))
                rows[:, index] = (
                    attended * cost.token_seconds,
                    attended * cost.token_product_seconds,
                    own[index] * cost.fixed_seconds,
                )
        return _Caches(*rows)

    def times(self, constants: Vector) -> tuple[Vector, Vector]:
        """Return seconds per token and to the first token, for constants of ``len(NAMES)`` x cases."""
        known = dict(zip(NAMES, constants, strict=True))
        attention = self._pairs / known["attention"]
        decode, _ = self._seconds(self._decode, constants, known)
        loaded, _ = self._seconds(self._loaded, constants, known)
        mixed = self._loaded_steps * loaded + np.maximum(1 - self._loaded_steps, 0.0) * decode
        token = np.where(self._prompts > 0, self._prompts * attention + mixed, decode)
        tpot = np.maximum(np.where(self._only_steps, decode, token), self._floor)
        own = self._passes * self._seconds(self._first, constants, known)[0] + attention
        queued = np.where(self._others > 0, np.minimum(self._others / 2, (token - decode) / (2 * decode)), 0.0)
        request = known["request_seconds"] + known["prompt_token_seconds"] * self._prompt
        waits = np.where(self._others > 0, np.where(self._synchronous, WAITS, WAITS_AHEAD), 0.0)
        ttft = own * (1 + queued) + waits * decode + request
        full = self._seconds(self._full, constants, known)[0] * self._prompt / self._batched
        first_round = (full + attention + request) * self._others / 2 / self._rounds
        return tpot, ttft + np.where(self._others > 0, first_round, 0.0)

    def _seconds(self, step: _Step, constants: Vector, known: Constants) -> tuple[Vector, Vector]:
        """Return the seconds of a step, and those of its work without the host."""
        memory, compute = self._matrix_seconds(step, constants, known)
        share = constants[self._cached, np.arange(len(self._cached))]
        for each in step.caches:
            read, product = each.read_seconds / share, each.product_seconds / known["attention"]
            memory = memory + each.fixed_seconds / share + np.where(read >= product, read, 0.0)
            compute = compute + np.where(read >= product, 0.0, product)
        with_host = np.where(self._overlaps, _joined(memory, self._host_reads), memory + self._host_reads)
        gaps = (
            self._layers * known["layer_seconds"]
            + self._expert_layers * known["expert_layer_seconds"]
            + self._quantized_layers * known["quantized_layer_seconds"]
            + self._nvfp4_layers * known["nvfp4_layer_seconds"]
            + self._selecting_layers * known["selecting_layer_seconds"]
        )
        work = with_host + compute + step.messages * known["communication"] + gaps
        eager = _joined(work, self._layers * known["eager_layer_seconds"])
        work = np.where(step.tokens > LARGEST_GRAPH, eager, work)
        ahead = self._stages * (known["step_seconds"] + known["sequence_seconds"] * step.own)
        after = self._stages * (known["early_step_seconds"] + known["early_sequence_seconds"] * step.own)
        return np.where(self._synchronous, work + after, _joined(work, ahead)), work

    def _matrix_seconds(self, step: _Step, constants: Vector, known: Constants) -> tuple[Vector, Vector]:
        every = np.arange(len(self._cached))
        touched = 1 - self._not_visited ** (1 + known["expert_spread"] * step.experts_tokens)
        memory = compute = 0.0
        for group, tokens, part, expert in (
            (self._dense, step.tokens, 1.0, False),
            (self._head, step.sampled, 1.0, False),
            (self._experts, step.tokens, touched, True),
        ):
            for each in group:
                share = known["expert_read"] if expert else constants[each.read_share, every]
                read = _joined(each.read_seconds / share, each.weights / known["expanded_weights"]) * part
                rate = constants[each.product_share, every]
                if expert:
                    rate = np.where(each.weights > 0, known["expanded_product"], rate * known["expert_product"])
                product = each.token_seconds * (tokens + _idle_tokens(tokens, each.row_tokens) * part) / rate
                joined, both = _joined(read, product), read + product
                share = np.divide(read, both, out=np.zeros_like(both), where=both > 0)
                memory, compute = memory + joined * share, compute + joined * (1 - share)
        return memory, compute


def _column(case: Case) -> _Column:
    speed = replace(speed_of(case.gpu), efficiency=_UNITS)
    costs = costs_of(case.work, case.gpu, speed, case.split, case.floor, synchronous=case.row.synchronous)
    return _Column(case, costs, case.load, case.row.batched_tokens)


def _stack(found: Sequence[tuple[Case, tuple[MatrixWork, ...], Any]]) -> tuple[_Matrices, ...]:
    most = max((len(works) for _, works, _ in found), default=0)
    return tuple(_place(found, place) for place in range(most))


def _place(found: Sequence[tuple[Case, tuple[MatrixWork, ...], Any]], place: int) -> _Matrices:
    size = len(found)
    read, product = np.zeros(size), np.zeros(size)
    read_names, product_names = np.zeros(size, int), np.zeros(size, int)
    weights, rows = np.zeros(size), np.zeros(size)
    for index, (case, works, costs) in enumerate(found):
        if place < len(works):
            read[index], product[index] = costs[place].read_seconds, costs[place].token_seconds
            read_names[index], product_names[index] = _shares(case, works[place].precision)
            weights[index] = works[place].bytes * weights_to_expand(speed_of(case.gpu), works[place].precision)
            rows[index] = costs[place].row_tokens
    return _Matrices(read, product, read_names, product_names, weights, rows)


def _shares(case: Case, precision: Precision) -> tuple[int, int]:
    """Return the places of the shares that reads and products of a format have among the constants."""
    product: Any = peak_and_share(speed_of(case.gpu).peaks, _NAMED, precision)[1]
    read: Any = read_share(_NAMED, precision)
    return NAMES.index(read), NAMES.index(product)


def _cache_share(case: Case) -> str:
    return "kv_read_8bit" if case.work.has_small_cache else "kv_read"

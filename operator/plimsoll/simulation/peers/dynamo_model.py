"""Dynamo's model of an engine's pass: seconds = a x prompt tokens + b x tokens in the KV cache + c.

Source: ai-dynamo/dynamo, planner/core/perf_model/base.py at 439d645 and agg.py at 518a702: least squares over at most
64 passes in a grid of 4 x 4, where the fullest cell loses its oldest pass; 5 passes are needed; a negative a or b makes
the model unusable. Here a pass is the mean pass between two scrapes of a pod: each running request gets one token in a
pass, so passes are the new tokens over the running requests. An engine that was idle at either scrape gives none.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean

from plimsoll.simulation.peers.signals import recent
from plimsoll.simulation.peers.view import PodView, View
from plimsoll.simulation.values import EngineLimits, Sample

MOST_PASSES = 64
LEAST_PASSES = 5
CELLS_PER_AXIS = 4
LEAST_SECONDS = 1e-6
READ_SECONDS = 180.0
"""How far back scrapes are read. A tick finds at most a few new ones."""


@dataclass(frozen=True, slots=True)
class Pass:
    """A mean pass: prompt tokens, tokens in the KV cache, running requests, and seconds."""

    prompt: float
    in_cache: float
    running: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Plane:
    """The fitted model, with the means of the passes that it comes from."""

    per_prompt: float
    per_cached: float
    base: float
    mean_prompt: float
    mean_context: float

    def seconds(self, prompt: float, in_cache: float) -> float:
        """Return the seconds of a pass."""
        return max(LEAST_SECONDS, self.per_prompt * prompt + self.per_cached * in_cache + self.base)

    def ttft(self, tokens: float, in_cache: float, step: int) -> float:
        """Return the seconds until so many prompt tokens are done, in chunks of ``step``."""
        if tokens <= 0:
            return 0.0
        whole = math.ceil(tokens / step) - 1
        return whole * self.seconds(step, in_cache) + self.seconds(tokens - whole * step, in_cache)

    def token(self, in_cache: float) -> float:
        """Return the seconds of the next token, with one more request of the mean length."""
        return self.seconds(self.mean_prompt, in_cache + self.mean_context)


@dataclass(slots=True)
class Passes:
    """The passes that are kept, the oldest first, and how far each pod was read."""

    kept: list[Pass] = field(default_factory=list)
    read_until: dict[str, float] = field(default_factory=dict)

    def read(self, pods: Iterable[PodView], view: View) -> None:
        """Add the passes between the new scrapes."""
        for pod in pods:
            samples = recent(pod, view.now, READ_SECONDS)
            until = self.read_until.get(pod.name, -math.inf)
            for earlier, later in pairwise(samples):
                if later.at > until:
                    self._add(_between(earlier, later, view.engine))
            self.read_until[pod.name] = samples[-1].at

    def _add(self, seen: Pass | None) -> None:
        if seen is None:
            return
        self.kept.append(seen)
        if len(self.kept) > MOST_PASSES:
            self.kept.remove(_oldest_of_fullest(self.kept))

    def fitted(self) -> Plane | None:
        """Return the model; None where the passes are too few or do not give one."""
        if len(self.kept) < LEAST_PASSES:
            return None
        return _plane(self.kept)


def _between(earlier: Sample, later: Sample, engine: EngineLimits) -> Pass | None:
    running = (earlier.running + later.running) / 2
    tokens = later.generation_tokens_total - earlier.generation_tokens_total
    if min(earlier.running, later.running) < 1 or tokens <= 0:
        return None
    passes = tokens / running
    prompt = later.prompt_tokens_total - earlier.prompt_tokens_total
    in_cache = (earlier.kv_usage + later.kv_usage) / 2 * engine.kv_tokens
    return Pass(prompt / passes, in_cache, running, (later.at - earlier.at) / passes)


def _oldest_of_fullest(passes: Sequence[Pass]) -> Pass:
    cells: dict[tuple[int, int], list[Pass]] = defaultdict(list)
    prompts, cached = [each.prompt for each in passes], [each.in_cache for each in passes]
    for each in passes:
        cells[_cell(each.prompt, prompts), _cell(each.in_cache, cached)].append(each)
    return max(cells.values(), key=len)[0]


def _cell(value: float, values: Sequence[float]) -> int:
    low, high = min(values), max(values)
    return min(int((value - low) / (high - low) * CELLS_PER_AXIS), CELLS_PER_AXIS - 1) if high > low else 0


def _plane(passes: Sequence[Pass]) -> Plane | None:
    """Return the plane of least squares; None where it is not unique, or falls."""
    prompt, cached = fmean(each.prompt for each in passes), fmean(each.in_cache for each in passes)
    seconds = fmean(each.seconds for each in passes)
    rows = [(each.prompt - prompt, each.in_cache - cached, each.seconds - seconds) for each in passes]
    pp, cc, pc = (sum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (1, 1), (0, 1)))
    ps, cs = (sum(row[i] * row[2] for row in rows) for i in (0, 1))
    determinant = pp * cc - pc * pc
    if determinant <= LEAST_SECONDS * pp * cc:
        return None
    a, b = (ps * cc - cs * pc) / determinant, (cs * pp - ps * pc) / determinant
    if a < 0 or b < 0:
        return None
    context = fmean(each.in_cache / each.running for each in passes)
    return Plane(a, b, seconds - a * prompt - b * cached, prompt, context)

"""How long the running requests of a pod may finish when it ends. It is decided with a place, and kept with the pool.

The seconds are part of the pod template, so another number would restart engines. They are decided when engines start
in any case: for a new pool, and for a pool whose engines get other settings.
"""

from __future__ import annotations

import math

from plimsoll.domain.decisions.outcomes import Option
from plimsoll.domain.requests.serving import Request
from plimsoll.performance.slo import READER_TPOT_SECONDS, READER_TTFT_SECONDS
from plimsoll.placement.demands.pools import Pool, SeenAnswers, Tenant, is_at
from plimsoll.placement.options.speed import load_of, speed_of

LONGEST_OVER_MEAN = 6.0
"""A likely longest answer over the mean one. In the Azure conversation trace of 2023 the longest answer has 4.7 times
the mean, and in Mooncake's synthetic trace of 2025 6.0 times. In the Azure code trace of 2023 it has 68 times the mean,
which is 28 tokens: the shortest drain is enough for it up to 47 ms a token."""

LEAST_SECONDS = 90
"""The shortest drain: what every pool had before this was decided. Short answers cost nothing by it, because an engine
ends as soon as its requests have ended."""

MOST_SECONDS = 570
"""The longest drain. With 15 s before it and 15 s after it the pod's grace period is 600 s. The cluster autoscaler
waits for no longer than that by default when it removes a node (``--max-graceful-termination-sec``)."""

STEP_SECONDS = 30
"""The seconds are rounded up to a multiple of this, so that nearly equal figures give equal pod templates."""


def drain_of(pool: Pool | None, choice: Option, tenant: Tenant) -> int | None:
    """Return the seconds that the engines of a choice get. None: the engine's own usual number.

    Args:
        pool: the pool as it runs; None for a new one.
        choice: what was chosen for it.
        tenant: the deployment.
    """
    if pool is not None and _keeps_template(pool, tenant):
        return pool.drain_seconds
    decided = drain_seconds(tenant.request, choice, tenant.answers)
    if pool is None or pool.restarts:
        return decided
    # A change of the spec need not restart engines. A longer drain than necessary does no harm, so it does not either.
    return pool.drain_seconds if decided <= (pool.drain_seconds or LEAST_SECONDS) else decided


def drain_seconds(request: Request, choice: Option, seen: SeenAnswers | None = None) -> int:
    """Return the time in which a request with a long answer ends at a full batch, in seconds.

    ``seen`` is what the engines' metrics showed of the answers. Without it the declared lengths count, or the usual
    ones for the declared context.
    """
    mean = load_of(request).output_tokens if seen is None else seen.tokens
    longest = min(LONGEST_OVER_MEAN * mean, request.shape.context_tokens)
    first, token = _times(request, choice, seen)
    steps = math.ceil((first + longest * token) / STEP_SECONDS)
    return min(MOST_SECONDS, max(LEAST_SECONDS, steps * STEP_SECONDS))


def _keeps_template(pool: Pool, tenant: Tenant) -> bool:
    """Whether nothing is known that restarts the pool's engines. The spec of a pool is unknown after a lost status."""
    return not pool.restarts and (pool.generation == tenant.generation or pool.spec in ("", tenant.spec))


def _times(request: Request, choice: Option, seen: SeenAnswers | None) -> tuple[float, float]:
    """Return the seconds to the first token and for each further one, with as many requests as the engines run.

    A measured speed of this pool corrects the model. If nothing was measured, the upper edge of its band counts, and
    if there is no model, the times that a person who reads along accepts.
    """
    found = speed_of(
        request.with_cache_as(narrow=choice.has_narrow_cache, host_bytes=None).as_estimated,
        choice.gpu,
        choice.split,
        choice.settings,
        _full_batch(request, choice),
    )
    if found is None:
        return READER_TTFT_SECONDS, READER_TPOT_SECONDS
    if seen is not None and is_at(seen.pool, choice.gpu.name, choice.split):
        return found.typical_ttft_seconds * seen.slowness, found.tpot_seconds * seen.slowness
    return found.typical_ttft_seconds, found.tpot_band[1]


def _full_batch(request: Request, choice: Option) -> int:
    """Return the most requests that a replica runs at the same time: its own limit, or what its cache holds."""
    load, limit = load_of(request), choice.replica_limits.sequences
    held = choice.estimate.kv_capacity_tokens / (load.prompt_tokens + load.output_tokens)
    return max(1, min(limit, int(held)))

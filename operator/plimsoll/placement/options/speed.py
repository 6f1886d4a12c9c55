"""The speed of a candidate at the declared load, and whether it keeps the deployment's promise of latency."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.cluster.gpus import CapacityType, GpuType, Vendor
from plimsoll.domain.decisions.latency import Objective, Performance, Slo
from plimsoll.domain.decisions.outcomes import EngineSettings, Split
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.public_words import Numbers
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import to_milliseconds
from plimsoll.engines.base import Feature
from plimsoll.engines.registry import engine_of
from plimsoll.performance.hardware_speed import as_run_by
from plimsoll.performance.model import Load, performance
from plimsoll.performance.slo import READER_TPOT_SECONDS, READER_TTFT_SECONDS, SloMiss, slo_misses

USUAL_CONTEXT_SHARE = 0.25
"""The mean request length as a share of ``contextLength`` if a deployment names no expected lengths. In replays of
public traces (Azure conversation and code, Mooncake) the mean is 9 to 33 % of the longest request."""

USUAL_PROMPT_SHARE = 0.8
"""The prompt's part of that length. In the Azure conversation trace of 2023 the mean prompt has 1,155 tokens and the
mean answer 211."""

MEASURED_VENDORS = frozenset({Vendor.NVIDIA})
"""The vendors of the cards in ``catalog/performance.json`` whose trust is "measured"."""


def load_of(request: Request) -> Load:
    """Return the declared load of one replica: all requests at the same time, with the expected or usual lengths.

    A prompt is longer than the prefix that requests share. The tokens of that are in the prefix cache.
    """
    shape = request.shape
    prompt, output = shape.expected_prompt_tokens, shape.expected_output_tokens
    if prompt is None or output is None:
        length = max(2.0, shape.context_tokens * USUAL_CONTEXT_SHARE)
        prompt, output = max(1, round(length * USUAL_PROMPT_SHARE)), max(1, round(length * (1 - USUAL_PROMPT_SHARE)))
        prompt = max(prompt, shape.shared_tokens + 1)
    cached = shape.cached_tokens if shape.shared_tokens else 0.0
    return Load(max(1, prompt), max(1, output), max(1, shape.concurrency), cached_tokens=cached)


def speed_of(
    request: Request, gpu: GpuType, split: Split, settings: EngineSettings, running: int | None = None
) -> Performance | None:
    """Return the speed of one replica; None if the performance model does not cover the model or the split.

    ``running`` requests at the same time replace the declared number. A measured speed of such engines is in it.
    """
    load = load_of(request)
    try:
        found = performance(
            request.model,
            request.precision,
            request.kv_precision,
            as_run_by(gpu, request.engine.name),
            split,
            load if running is None else replace(load, running=running),
            settings.limits.step_tokens,
            settings.residency,
            synchronous=not plans_ahead(request),
            eager=request.engine.enforce_eager,
        )
    except (PlimsollError, ValueError):
        return None
    measured = request.measured_speed(gpu.name, split) if request.speeds else 1
    return found if measured == 1 else found.corrected(measured)


def plans_ahead(request: Request) -> bool:
    """Whether the release plans a step while the step before it runs, and the user lets it."""
    since = engine_of(request.engine.name).since.get(Feature.PLANNING_AHEAD)
    return request.engine.plans_ahead and since is not None and request.engine.version >= since


def missed(slo: Slo, found: Performance | None) -> Numbers:
    """Return the figure that misses its limit by the largest share, in milliseconds; empty if none does."""
    misses = () if found is None else slo_misses(slo, found)
    return _numbers(misses[0]) if misses else ()


def misses_usual(request: Request, found: Performance | None) -> bool:
    """Whether an option is too slow for a person who reads along, where the deployment declares no latency itself."""
    if request.slo is not None or found is None:
        return False
    return found.typical_ttft_seconds > READER_TTFT_SECONDS or found.tpot_seconds > READER_TPOT_SECONDS


def asks_for(request: Request, gpu: GpuType) -> bool:
    """Whether a card whose speed is not validated is a place like others.

    It is if the user or the admin names its type or vendor, if nobody waits, or if other cards of its vendor were
    measured: then it runs the same kernels.
    """
    return gpu.vendor in MEASURED_VENDORS or request.objective is Objective.BATCH or request.names(gpu)


def asks_for_spot(request: Request) -> bool:
    """Whether nodes that the cloud may take back are places like others: the user names them, or nobody waits."""
    return request.objective is Objective.BATCH or CapacityType.SPOT in request.constraints.capacities


def _numbers(miss: SloMiss) -> Numbers:
    return (
        ("figure", miss.figure.value.upper()),
        ("milliseconds", to_milliseconds(miss.seconds)),
        ("limit", to_milliseconds(miss.limit_seconds)),
    )

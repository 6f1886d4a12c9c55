"""What observed starts teach: corrected terms for engines of the same kind, and a narrower band."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from plimsoll.domain.observations import Correction, EngineKind, Observation, Witness
from plimsoll.domain.units import MIB
from plimsoll.memory.band import Band

RESIDUAL_BYTES = 150 * MIB
"""What stays uncertain after a measured start: the safety that vLLM itself keeps when it names a cache size to use
next time (``gpu_worker.py``, the advice at the end of start-up)."""

STEP_BYTES = 512 * MIB
"""By how much an estimate is raised, beyond its band, when an engine ran out of memory and named no figure."""


def corrections(observations: Iterable[Observation]) -> tuple[Correction, ...]:
    """One correction for each kind of engine that was observed.

    The terms are corrected so that the estimate says what was observed. Of several engines of a kind the median counts
    (of two the poorer), so that one odd GPU does not move everybody's estimate; how far they lie apart stays in the
    band. The terms that an engine told apart are corrected each; what remains of the difference goes to the overhead.
    An engine that ran out of memory outweighs those that did not.
    """
    ordered = sorted(observations, key=lambda seen: repr(seen.kind))
    return tuple(_correction(kind, tuple(group)) for kind, group in groupby(ordered, key=lambda seen: seen.kind))


def learned_band(prior: Band, correction: Correction) -> Band:
    """The band of an estimate after ``correction``.

    Measured: the spread of what was seen and :data:`RESIDUAL_BYTES`, never wider than before. Not measured (an engine
    ran out of memory): as before.
    """
    if not correction.exact:
        return prior
    left = correction.spread_bytes + RESIDUAL_BYTES
    return Band(low_bytes=max(prior.low_bytes, -left), high_bytes=min(prior.high_bytes, RESIDUAL_BYTES))


def _correction(kind: EngineKind, seen: Sequence[Observation]) -> Correction:
    measured = [each for each in seen if each.available_kv_bytes is not None]
    if not measured or any(each.witness is Witness.OUT_OF_MEMORY for each in seen):
        return _raised(kind, seen)
    measured.sort(key=_missing)
    typical = measured[len(measured) // 2]
    weights = _difference(typical.weights_bytes, typical.predicted_weights_bytes)
    activations = _difference(typical.activations_bytes, typical.predicted_activations_bytes)
    return Correction(
        kind,
        weights_bytes=weights,
        activations_bytes=activations,
        overhead_bytes=_missing(typical) - weights - activations,
        spread_bytes=_missing(measured[-1]) - _missing(measured[0]),
    )


def _missing(seen: Observation) -> int:
    """Bytes that the engine took more than the law says."""
    return seen.predicted_kv_bytes - (seen.available_kv_bytes or 0)


def _difference(observed: int | None, predicted: int) -> int:
    return 0 if observed is None else observed - predicted


def _raised(kind: EngineKind, seen: Sequence[Observation]) -> Correction:
    """An engine ran out of memory: whatever the law left was not there, and some more is missing."""
    left = max(max(0, each.predicted_kv_bytes) for each in seen)
    return Correction(kind, overhead_bytes=left + STEP_BYTES, exact=False)

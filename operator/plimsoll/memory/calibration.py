"""What observed starts teach: corrected terms for engines of the same kind, and another band."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from plimsoll.domain.observations import Correction, EngineKind, Observation
from plimsoll.domain.units import MIB
from plimsoll.memory.band import Band

RESIDUAL_BYTES = 150 * MIB
"""What stays uncertain after a measured start: the safety that vLLM itself keeps when it names a cache size to use
next time (``gpu_worker.py``, the advice at the end of start-up)."""

STEP_BYTES = 512 * MIB
"""By how much the upper edge is raised where an engine ran out of memory and named no figure."""


def corrections(observations: Iterable[Observation]) -> tuple[Correction, ...]:
    """One correction for each kind of engine that was observed.

    The terms are corrected so that the estimate says what was observed. Of several engines of a kind the median counts
    (of two the poorer), so that one odd GPU does not move everybody's estimate; how far they lie apart is the band. The
    terms that an engine told apart are corrected each; what remains of the difference stands by itself. An engine that
    ran out of memory and named no figure counts only where none of its kind told one: it may have had its own reasons.
    """
    ordered = sorted(observations, key=lambda seen: repr(seen.kind))
    return tuple(_correction(kind, tuple(group)) for kind, group in groupby(ordered, key=lambda seen: seen.kind))


def learned_band(prior: Band, correction: Correction, *, batched_tokens: int, sequences: int) -> Band:
    """The band of an estimate after ``correction``.

    Measured: the spread of what was seen and :data:`RESIDUAL_BYTES`; for steps of another size not less than before,
    for what was measured does not tell their terms. Not measured: as before, and :data:`STEP_BYTES` more above.
    """
    if not correction.exact:
        return Band(prior.low_bytes, prior.high_bytes + STEP_BYTES)
    seen = Band(-correction.below_bytes - RESIDUAL_BYTES, correction.above_bytes + RESIDUAL_BYTES)
    if (correction.batched_tokens, correction.sequences) == (batched_tokens, sequences):
        return seen
    return Band(min(prior.low_bytes, seen.low_bytes), max(prior.high_bytes, seen.high_bytes))


def _correction(kind: EngineKind, seen: Sequence[Observation]) -> Correction:
    measured = [each for each in seen if each.available_kv_bytes is not None]
    if not measured:
        return Correction(kind, exact=False)
    measured.sort(key=_missing)
    typical = measured[len(measured) // 2]
    weights = _difference(typical.weights_bytes, typical.predicted_weights_bytes)
    activations = _difference(typical.activations_bytes, typical.predicted_activations_bytes)
    return Correction(
        kind,
        weights_bytes=weights,
        activations_bytes=activations,
        rest_bytes=_missing(typical) - weights - activations,
        above_bytes=_missing(measured[-1]) - _missing(typical),
        below_bytes=_missing(typical) - _missing(measured[0]),
        batched_tokens=typical.batched_tokens,
        sequences=typical.sequences,
    )


def _missing(seen: Observation) -> int:
    """Bytes that the engine took more than the law says."""
    return seen.predicted_kv_bytes - (seen.available_kv_bytes or 0)


def _difference(observed: int | None, predicted: int) -> int:
    return 0 if observed is None else observed - predicted

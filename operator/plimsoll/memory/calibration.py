"""Learning from observed starts: corrected terms for engines of the same kind, and a new band.

The error band of an estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from plimsoll.domain.decisions.observations import Correction, EngineKind, Observation
from plimsoll.domain.decisions.outcomes import EngineSettings
from plimsoll.domain.decisions.terms import ACTIVATIONS, LEARNED, WEIGHTS, Derivation, Line, Term
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.units import MIB


class Band(NamedTuple):
    """Signed bytes around the estimate: from ``low_bytes`` (negative) to ``high_bytes`` (positive)."""

    low_bytes: int
    high_bytes: int


RESIDUAL_BYTES = 150 * MIB
"""The uncertainty after a measured start. An engine keeps the same reserve when it recommends a cache size for the
next start (``gpu_worker.py``, the advice at the end of start-up)."""

STEP_BYTES = 512 * MIB
"""The bytes by which the upper edge is raised if an engine ran out of memory and reported no figure."""


OTHERS_BANDS = 2
"""A correction from others counts up to this many times the band of the memory law. Of the 48 starts that came after
the laws were last read, 40 were inside one band (``engines/vllm/memory/band.py``). The factor is chosen, not fitted."""


def corrections(observations: Iterable[Observation]) -> tuple[Correction, ...]:
    """Return one correction for each observed kind of engine.

    The correction makes the estimate equal to the observation. The median of several engines of a kind counts (of two,
    the one that took more), so that one unusual GPU does not change all estimates. The spread of the observations gives
    the band. Each term that the engine reported separately is corrected. The rest of the difference is a separate term.
    An engine that ran out of memory without a figure counts only if no engine of its kind reported one, because its
    failure may have another cause.
    """
    ordered = sorted(observations, key=lambda seen: repr(seen.kind))
    return tuple(_correction(kind, tuple(group)) for kind, group in groupby(ordered, key=lambda seen: seen.kind))


def learned_band(prior: Band, correction: Correction, *, batched_tokens: int, sequences: int) -> Band:
    """Return the band of an estimate after ``correction``.

    With a measurement, the band is the observed spread and :data:`RESIDUAL_BYTES`. For steps of another size it is not
    narrower than before, because the measurement does not cover their terms. Without a measurement, the band is the
    same as before, with :data:`STEP_BYTES` more above.
    """
    if not correction.exact:
        return Band(prior.low_bytes, prior.high_bytes + STEP_BYTES)
    seen = Band(-correction.below_bytes - RESIDUAL_BYTES, correction.above_bytes + RESIDUAL_BYTES)
    if correction.limits == StepLimits(batched_tokens, sequences):
        return seen
    return Band(min(prior.low_bytes, seen.low_bytes), max(prior.high_bytes, seen.high_bytes))


def taught_band(prior: Band, settings: EngineSettings, correction: Correction | None) -> Band:
    """Return the error band as learned from engines of the kind; ``prior`` where nothing was learned."""
    if correction is None:
        return prior
    return learned_band(
        prior, correction, batched_tokens=settings.max_num_batched_tokens, sequences=settings.max_num_seqs
    )


def corrected_terms(terms: tuple[Term, ...], correction: Correction | None) -> tuple[Term, ...]:
    """Return the terms with what was learned from engines of the same kind, and the rest as a term at the end."""
    if correction is None:
        return (*terms, _NOTHING_LEARNED)
    learned = {WEIGHTS: correction.weights_bytes, ACTIVATIONS: correction.activations_bytes}
    corrected = (_with_learned(term, learned.get(term.name, 0)) for term in terms)
    return (*corrected, Term(LEARNED, correction.rest_bytes, _learned_derivation))


def _with_learned(term: Term, size_bytes: int) -> Term:
    if not size_bytes:
        return term
    return term.plus(Line("learned", "what engines of this kind logged more or less", size_bytes))


def _learned_derivation(_: object) -> Derivation:
    return Derivation("what engines of this kind took more, or less, than all terms say")


_NOTHING_LEARNED = Term(LEARNED, 0)


def representative(observations: Iterable[Observation]) -> Observation:
    """Return the one observation that stands for several of a kind: the median of those with a figure, if any has one.

    Of two, it is the one that took more. So a crowd of engines counts no more than one.

    Raises:
        ValueError: there is no observation.
    """
    listed = list(observations)
    if not listed:
        raise ValueError("there is no observation")
    measured = sorted((each for each in listed if each.available_kv_bytes is not None), key=_missing)
    return measured[len(measured) // 2] if measured else listed[0]


def believed(correction: Correction, prior: Band, estimated_bytes: int) -> Correction:
    """Return the part of a correction that counts: all of a deployment's own, and of others' the part near the law.

    Args:
        correction: the correction from observed engines.
        prior: the band of the estimate by the law alone, in bytes around it.
        estimated_bytes: the terms that are estimated and not counted. A correction from others removes these at most.
    """
    if correction.taught_by.is_own or not correction.exact:
        return correction
    least, most = max(-estimated_bytes, OTHERS_BANDS * prior.low_bytes), OTHERS_BANDS * prior.high_bytes
    total = min(most, max(least, correction.total_bytes))
    above, below = min(correction.above_bytes, most - total), min(correction.below_bytes, total - least)
    near = replace(correction, above_bytes=above, below_bytes=below)
    if total == correction.total_bytes:
        return near
    return replace(near, weights_bytes=0, activations_bytes=0, rest_bytes=total)


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
        limits=typical.limits,
    )


def _missing(seen: Observation) -> int:
    """Return the bytes that the engine took more than the law predicts."""
    return seen.predicted_kv_bytes - (seen.available_kv_bytes or 0)


def _difference(observed: int | None, predicted: int) -> int:
    return 0 if observed is None else observed - predicted

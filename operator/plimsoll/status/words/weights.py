"""The copy of the weights on a claim, in a sentence and as a part of the status."""

from __future__ import annotations

from plimsoll.domain.requests.weights import WeightsProgress, WeightsState, WeightsView
from plimsoll.domain.units import GIB, MIB, counted, to_rfc3339
from plimsoll.status.record.forms import Fields

_LONGEST_MESSAGE = 1024
_MINUTE = 60


def weights_sentence(view: WeightsView) -> str:
    """Return how far the copy is, and what follows from it."""
    claim = view.weights.claim
    if view.state is WeightsState.FAILED:
        again = "" if view.again_at is None else f" It is tried again at {to_rfc3339(view.again_at)}, from there on."
        return f"The weights were not copied to the claim {claim}: {view.message.rstrip('.')}.{again}"
    if view.state is WeightsState.READY:
        return f"The weights are on the claim {claim}."
    before = f" The last try failed: {view.message.rstrip('.')}." if view.message else ""
    return f"{_how_far(claim, view.progress)}{before} Pods are made when all is there."


def _how_far(claim: str | None, progress: WeightsProgress | None) -> str:
    if progress is None or not progress.total_bytes:
        return f"The weights are being copied to the claim {claim}."
    copied, total = progress.copied_bytes / GIB, progress.total_bytes / GIB
    rate, left = progress.bytes_per_second / MIB, progress.remaining_seconds
    speed = "" if left is None else f" ({rate:.0f} MiB/s, {_duration(left)} left)"
    return f"{copied:.1f} of {total:.1f} GiB of the weights are on the claim {claim}{speed}."


def _duration(seconds: int) -> str:
    return f"{seconds} s" if seconds < 2 * _MINUTE else counted(round(seconds / _MINUTE), "minute")


def weights_fields(view: WeightsView) -> Fields:
    """Return the fields of ``status.weights``."""
    progress = view.progress if view.state is WeightsState.ARRIVING else None
    return {
        "claim_name": view.weights.claim or "",
        "source": view.weights.source,
        "folder": view.weights.folder,
        "state": view.state.value,
        "copied_bytes": None if progress is None else progress.copied_bytes,
        "total_bytes": None if progress is None else progress.total_bytes,
        "bytes_per_second": None if progress is None else progress.bytes_per_second,
        "remaining_seconds": None if progress is None else progress.remaining_seconds,
        "message": view.message[:_LONGEST_MESSAGE] or None,
        "retry_at": None if view.again_at is None else to_rfc3339(view.again_at),
    }

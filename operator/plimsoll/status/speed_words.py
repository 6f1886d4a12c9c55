"""The speed of a replica in the status as words: both times, their bands, and whether measurements validate them."""

from __future__ import annotations

from plimsoll.api.v1alpha1.status import PerformanceStatus


def speed_words(found: PerformanceStatus) -> str:
    """Return both times in milliseconds, each with its error band, and whether measurements validate them."""
    edges = f"{found.tpot_low_milliseconds:,} to {found.tpot_high_milliseconds:,}"
    token = f"{found.tpot_milliseconds:,} ms a token ({edges})"
    low, high = found.ttft_low_milliseconds, found.ttft_high_milliseconds
    band = "" if low is None or high is None else f" ({low:,} to {high:,})"
    first = f"first token after {found.ttft_milliseconds:,} ms{band}"
    measured = (
        ""
        if found.counted_percent is None
        else f", counted at {found.counted_percent} % of the estimate, as engines measured about that"
    )
    trust = "validated" if found.validated else "not validated"
    return f"{token}, {first}{measured}; {trust} by measurements on GPUs of this class"

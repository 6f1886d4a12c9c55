"""The placement of a replica in words: how it was found, how fast it is, and what it keeps in host memory."""

from __future__ import annotations

from plimsoll.api.v1alpha1.status import HostCacheStatus, HostLayersStatus, PerformanceStatus
from plimsoll.performance.layer_copy import LayerCopy
from plimsoll.performance.reuse import ReuseTimes
from plimsoll.placement.options.kept_cache import KeptCache, kept_words
from plimsoll.placement.options.streamed_layers import HostLayers, layer_words
from plimsoll.rebalance.law.learning import CapacityReading, error_percent_text

_NANOSECONDS = 1e9

_WAYS = {
    "in turn": "each deployment in turn got the cheapest place that was free",
    "search": "found by comparing plans of all deployments together",
    "programme": "found by an integer programme over all deployments together",
}
"""By :attr:`plimsoll.placement.costs.Appraisal.solver`."""


def found_words(solver: str | None, gap_permille: int | None) -> str:
    """Return how places were found.

    Args:
        solver: what found them; None or empty if nothing had to be placed, which gives an empty text.
        gap_permille: thousandths of the bill that a better plan might save at most; None if nothing was proven.
    """
    if not solver:
        return ""
    way = _WAYS.get(solver, f"found by {solver}")
    if gap_permille is None:
        return way
    saving = f"a better plan could save {gap_permille / 10:.1f} % at most" if gap_permille else "no plan costs less"
    return f"{way}; {saving}"


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


def host_cache_words(found: HostCacheStatus, gpu_tokens: int) -> str:
    """Return a sentence about it, next to the tokens that the GPUs of a replica hold."""
    loaded, computed = found.loaded_nanoseconds, found.computed_nanoseconds
    known = loaded is not None and computed is not None
    times = ReuseTimes((loaded or 0) / _NANOSECONDS, (computed or 0) / _NANOSECONDS) if known else None
    return kept_words(KeptCache(found.size_bytes, found.tokens, bool(found.is_least), times), gpu_tokens)


def host_error_words(found: HostCacheStatus | None, reported: int) -> str:
    """Return how far the estimated tokens are off those that an engine reports; empty if nothing can be said.

    Where the estimate is the least that is kept, an engine that reports more does not differ from it.
    """
    if found is None or (found.is_least and reported >= found.tokens):
        return ""
    permille = CapacityReading(found.tokens, reported).error_permille
    return "" if permille is None else f" (estimate {error_percent_text(permille)})"


def host_layers_words(found: HostLayersStatus) -> str:
    """Return sentences about the copies of weights."""
    seconds = (found.copy_nanoseconds, found.decode_nanoseconds, found.prompt_nanoseconds)
    copied, decoding, reading = (each / _NANOSECONDS for each in seconds)
    layer = LayerCopy(found.size_bytes, copied, decoding, reading, found.hidden_from_tokens)
    of_group = found.streamed or 0, found.group or 0
    return layer_words(
        HostLayers(layer, found.link_gigabytes_per_second, *of_group, found.requests, found.prompt_tokens)
    )

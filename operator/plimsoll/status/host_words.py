"""The KV cache in host memory in the status as words."""

from __future__ import annotations

from plimsoll.api.v1alpha1.status import HostCacheStatus
from plimsoll.performance.reuse import ReuseTimes
from plimsoll.placement.options.kept_cache import KeptCache, kept_words

_NANOSECONDS = 1e9


def host_cache_words(found: HostCacheStatus, gpu_tokens: int) -> str:
    """Return a sentence about it, next to the tokens that the GPUs of a replica hold."""
    loaded, computed = found.loaded_nanoseconds, found.computed_nanoseconds
    known = loaded is not None and computed is not None
    times = ReuseTimes((loaded or 0) / _NANOSECONDS, (computed or 0) / _NANOSECONDS) if known else None
    return kept_words(KeptCache(found.size_bytes, found.tokens, bool(found.is_least), times), gpu_tokens)

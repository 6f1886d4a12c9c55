"""What a replica keeps in host memory, in the status, as words."""

from __future__ import annotations

from plimsoll.api.v1alpha1.status import HostCacheStatus, HostLayersStatus
from plimsoll.performance.layer_copy import LayerCopy
from plimsoll.performance.reuse import ReuseTimes
from plimsoll.placement.options.kept_cache import KeptCache, kept_words
from plimsoll.placement.options.streamed_layers import HostLayers, layer_words

_NANOSECONDS = 1e9


def host_cache_words(found: HostCacheStatus, gpu_tokens: int) -> str:
    """Return a sentence about it, next to the tokens that the GPUs of a replica hold."""
    loaded, computed = found.loaded_nanoseconds, found.computed_nanoseconds
    known = loaded is not None and computed is not None
    times = ReuseTimes((loaded or 0) / _NANOSECONDS, (computed or 0) / _NANOSECONDS) if known else None
    return kept_words(KeptCache(found.size_bytes, found.tokens, bool(found.is_least), times), gpu_tokens)


def host_layers_words(found: HostLayersStatus) -> str:
    """Return sentences about the copies of weights."""
    seconds = (found.copy_nanoseconds, found.decode_nanoseconds, found.prompt_nanoseconds)
    copied, decoding, reading = (each / _NANOSECONDS for each in seconds)
    layer = LayerCopy(found.size_bytes, copied, decoding, reading, found.hidden_from_tokens)
    of_group = found.streamed or 0, found.group or 0
    return layer_words(
        HostLayers(layer, found.link_gigabytes_per_second, *of_group, found.requests, found.prompt_tokens)
    )

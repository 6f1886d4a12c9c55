"""Sentences about what host memory holds of a replica: its cache, and copies of its layers."""

from __future__ import annotations

import pytest

from plimsoll.domain.units import GIB
from plimsoll.performance.layer_copy import LayerCopy
from plimsoll.performance.reuse import ReuseTimes
from plimsoll.placement.options.kept_cache import KeptCache, kept_words
from plimsoll.placement.options.streamed_layers import HostLayers, layer_words


@pytest.mark.parametrize(
    ("kept", "gpu_tokens", "words"),
    [
        (
            KeptCache(32 * GIB, 262_144, is_least=False, times=ReuseTimes(4e-6, 60e-6)),
            131_072,
            (
                "32.00 GiB of host memory keep 262,144 tokens of finished requests, 2.0 times what the "
                "GPUs hold: a token that comes again is loaded in 4.0 us, and computed in 60.0 us: 15 are "
                "loaded in the time of computing one."
            ),
        ),
        (
            KeptCache(GIB, 1000, is_least=True, times=ReuseTimes(8e-6, 4e-6)),
            1,
            (
                "1.00 GiB of host memory keep at least 1,000 tokens of finished requests, 1000.0 times "
                "what the GPUs hold: a token that comes again is loaded in 8.0 us, and computed in 4.0 us: "
                "computing is faster, so it does not pay."
            ),
        ),
        (
            KeptCache(GIB, 1000, is_least=False, times=ReuseTimes(4e-6, 4e-6)),
            0,
            (
                "1.00 GiB of host memory keep 1,000 tokens of finished requests: a token that comes again "
                "is loaded in 4.0 us, and computed in 4.0 us: 1 are loaded in the time of computing one."
            ),
        ),
        (
            KeptCache(GIB, 1000, is_least=False, times=None),
            0,
            "1.00 GiB of host memory keep 1,000 tokens of finished requests.",
        ),
    ],
    ids=["it pays", "it does not", "both take as long", "the times are not known"],
)
def test_a_cache_in_host_memory_is_said_in_words(kept: KeptCache, gpu_tokens: int, words: str) -> None:
    assert kept_words(kept, gpu_tokens) == words


FIRST = (
    "Host memory to GPU at 64 GB/s: a decoder layer of 1.5 GiB takes 25 ms. Its work takes 0.5 ms in a step in which "
    "{} and 10 ms in one of 2,048 prompt tokens."
)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            HostLayers(LayerCopy(3 * GIB // 2, 0.025, 0.0005, 0.01, 5120), 64, 4, 16, 8, 2048),
            FIRST.format("8 requests generate,")
            + " 4 of 16 layers are copied in each step. While requests generate, 1 of 50 would be "
            "hidden, and 1 of 3 in steps of prompts; steps of 5,120 prompt tokens or more hide every "
            "copy.",
        ),
        (
            HostLayers(LayerCopy(3 * GIB // 2, 0.025, 0.0005, 0.01, None), 64, 1, 16, 1, 2048),
            FIRST.format("1 request generates,")
            + " 1 of 16 layers is copied in each step. While requests generate, 1 of 50 would be hidden, "
            "and 1 of 3 in steps of prompts; no step hides every copy.",
        ),
        (
            HostLayers(LayerCopy(3 * GIB // 2, 0.025, 0.0005, 0.01, None), 64, 0, 0, 8, 2048),
            FIRST.format("8 requests generate,")
            + " Kernels read the weights over this link in every step, and nothing hides that.",
        ),
        (
            HostLayers(LayerCopy(3 * GIB // 2, 0.025, 0.025, 0.03, 128), 64, 4, 16, 8, 2048),
            (
                "Host memory to GPU at 64 GB/s: a decoder layer of 1.5 GiB takes 25 ms. Its work takes 25 "
                "ms in a step in which 8 requests generate, and 30 ms in one of 2,048 prompt tokens. 4 of "
                "16 layers are copied in each step. While requests generate, every one would be hidden, "
                "and every one in steps of prompts; steps of 128 prompt tokens or more hide every copy."
            ),
        ),
    ],
    ids=["some", "one", "read in place", "all"],
)
def test_copies_of_layers_are_said_in_words(found: HostLayers, words: str) -> None:
    assert layer_words(found) == words

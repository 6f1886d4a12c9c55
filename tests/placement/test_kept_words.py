"""Sentences about what host memory holds of a replica: its cache, and copies of its layers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import CpuOffload, EngineChoice, EngineVersion, Residency, WeightStreaming
from plimsoll.domain.models.model import Task
from plimsoll.domain.units import GIB
from plimsoll.performance.layer_copy import LayerCopy
from plimsoll.performance.reuse import ReuseTimes
from plimsoll.placement.options.kept_cache import KeptCache, kept_words, may_keep
from plimsoll.placement.options.streamed_layers import HostLayers, host_layers, layer_words
from tests.support.planning import H100, LLAMA_8B, fleet, gpu, model, node, placed, request


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


@pytest.mark.parametrize(
    ("engine", "model", "kept"),
    [
        (EngineChoice(EngineVersion(0, 11, 0)), LLAMA_8B, False),
        (EngineChoice(EngineVersion(0, 11, 1)), LLAMA_8B, True),
        (EngineChoice(EngineVersion(0, 32)), LLAMA_8B, True),
        (EngineChoice(EngineVersion(0, 22)), "google/gemma-2-9b-it", False),
        (EngineChoice(EngineVersion(0, 23)), "google/gemma-2-9b-it", True),
        (EngineChoice(EngineVersion(99, 0), name="sglang"), LLAMA_8B, False),
    ],
    ids=["before", "the first release", "now", "windows before", "windows", "an engine that keeps none"],
)
def test_a_release_keeps_cache_in_host_memory_from_the_first_one_that_can_for_the_model(
    engine: EngineChoice, model: str, *, kept: bool
) -> None:
    assert may_keep(request(model, engine=engine)) is kept


STREAMS = WeightStreaming(group=8, layers=2)
SETTINGS = placed(request(), fleet(node("any", H100))).choice.settings


@pytest.mark.parametrize(
    ("residency", "streamed", "group"), [(STREAMS, 2, 8), (CpuOffload(GIB), 0, 0)], ids=["ahead", "in place"]
)
@pytest.mark.parametrize("split", [Split(1), Split(4), Split(1, pipeline_parallel=2)], ids=str)
def test_the_copy_of_a_layer_is_that_of_one_rank(residency: Residency, streamed: int, group: int, split: Split) -> None:
    """Matrices of Llama 3.1 8B: queries and outputs, keys and values, three of the MLP; and two norms, in BF16."""
    engine = EngineChoice(EngineVersion(0, 32), residency=residency)
    found = host_layers(request(concurrency=5, engine=engine), gpu(H100), split, SETTINGS)
    assert found is not None
    matrices, norms = 2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14_336, 2 * 4096
    assert found.layer.size_bytes == 2 * (matrices // split.tensor_parallel + norms)
    assert found.layer.copied == pytest.approx(found.layer.size_bytes / 50e9)
    assert found[1:] == (50, streamed, group, 5, 8192)


def test_no_copy_is_described_if_there_is_none_or_its_speed_is_not_known() -> None:
    pools = request(replace(model(), task=Task.POOL), engine=EngineChoice(EngineVersion(0, 32), residency=STREAMS))
    for wanted in (request(), pools):
        assert host_layers(wanted, gpu(H100), Split(1), SETTINGS) is None

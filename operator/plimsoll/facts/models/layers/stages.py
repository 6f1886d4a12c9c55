"""Layers and weights that pipeline stages may not divide, or hold more than once.

Runs of layers that must be on one pipeline stage, because later layers read the caches of earlier ones.
Sources: vLLM, ``models/deepseek_v41/attention.py`` (a layer looks for the source of its compressed keys on its own
stage), ``model_executor/models/gemma4.py`` and ``gemma3n.py`` (so does one that borrows keys and values), and
``model_executor/models/config.py`` (Qwen4-Exp's n-gram embeddings want one stage).
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.models.model import Tables
from plimsoll.facts.models.extras.gated_streams import GATED_STREAMS
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.parts import DecoderShape
from plimsoll.facts.models.mixers.compressed import shared_compressed_layers
from plimsoll.facts.models.mixers.windows import spans
from plimsoll.facts.models.traits import Architecture

_BOTH = frozenset(
    {
        "BloomForCausalLM",
        "ChatGLMForConditionalGeneration",
        "ChatGLMModel",
        "DbrxForCausalLM",
        "FalconForCausalLM",
        "FalconMambaForCausalLM",
        "GPT2LMHeadModel",
        "GPTJForCausalLM",
        "Gemma3ForCausalLM",
        "Gemma4ForCausalLM",
        "GemmaForCausalLM",
        "GptOssForCausalLM",
        "GraniteMoeForCausalLM",
        "GraniteMoeHybridForCausalLM",
        "GraniteMoeSWAForCausalLM",
        "GraniteMoeSharedForCausalLM",
        "HYV3ForCausalLM",
        "InternLM2ForCausalLM",
        "JambaForCausalLM",
        "Mamba2ForCausalLM",
        "MambaForCausalLM",
        "MiniCPMForCausalLM",
        "MixtralForCausalLM",
        "MolmoForCausalLM",
        "NemotronHForCausalLM",
        "OPTForCausalLM",
        "OlmoHybridForCausalLM",
        "OlmoeForCausalLM",
        "OrionForCausalLM",
        "PhiMoEForCausalLM",
        "Plamo3ForCausalLM",
        "QWenLMHeadModel",
        "RWForCausalLM",
        "StableLMEpochForCausalLM",
        "Qwen2MoeForCausalLM",
        "Qwen3MoeForCausalLM",
        "Qwen3NextForCausalLM",
        "StableLmForCausalLM",
    }
)
_EMBEDDING = frozenset({"Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"})
"""Source: vLLM 0.32 (0.23 for classes dropped since), ``model_executor/models``: ``ParallelLMHead`` or embedding made
without asking for the rank."""


def tables_on_every_stage(architecture: str | None) -> Tables:
    """Return the tables that each stage of a class keeps."""
    if architecture in _BOTH:
        return Tables.BOTH
    return Tables.EMBEDDING if architecture in _EMBEDDING else Tables.NONE


Run = tuple[int, int]
"""The first layer, and the one behind the last."""


def inseparable_runs(fields: Fields, traits: Architecture, shape: DecoderShape) -> tuple[Run, ...]:
    """Return the runs of one model, first to last; none if a stage may begin at any layer."""
    if traits.extra is GATED_STREAMS and fields.items("ple_layer_ids"):
        return ((0, shape.layers),)
    if traits.mixer is shared_compressed_layers:
        return tuple(_behind_sources(fields, shape.layers))
    if traits.shared_kv:
        return tuple(_borrowing(fields, traits, shape))
    return ()


def _behind_sources(fields: Fields, layers: int) -> Iterator[Run]:
    """Each source of compressed keys with the layers that read them."""
    ratios = fields.integers("compress_ratios", layers, smallest=0)
    listed = fields.integers("kv_source_layer_ids", smallest=0)
    sources = sorted({source for source in listed if source < layers})
    for source, following in zip(sources, [*sources[1:], layers], strict=True):
        last = max((layer for layer in range(source, following) if ratios[layer]), default=source)
        if last > source:
            yield source, last + 1


def _borrowing(fields: Fields, traits: Architecture, shape: DecoderShape) -> Iterator[Run]:
    """Yield the run from the earliest layer that lends its keys and values to the last layer.

    Of the layers with the same reach, the last one lends its keys and values.
    """
    borrowing = fields.optional_integer(("num_kv_shared_layers",), smallest=0, largest=shape.layers) or 0
    first = shape.layers - borrowing
    local = [span.local for span in spans(fields, traits, shape)]
    lent = [max((i for i in range(first) if local[i] == kind), default=first) for kind in set(local[first:])]
    if lent:
        yield min(lent), shape.layers

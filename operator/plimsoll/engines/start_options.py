"""The options that an engine is started with, as its log names them or as somebody writes them on a command line."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.engine_options import ALL_MEDIA, DraftMethod, LoraSlots, MediaUse, Residency
from plimsoll.domain.precision import KvPrecision, Precision


@dataclass(frozen=True, slots=True)
class NamedDrafting:
    """Speculative decoding as it is named. ``draft`` is the name of the draft model; None where there is none."""

    method: DraftMethod
    tokens: int
    draft: str | None = None


@dataclass(frozen=True, slots=True)
class StartOptions:
    """The options of one engine, as far as they are named; None where the engine's default counts.

    ``precision`` is the type of weights that are not quantized, and ``quantizes_to`` the type that the engine makes of
    them if the checkpoint is not quantized. ``quantization`` is the engine's own word for that, whether a law covers it
    or not. ``kv_precision`` None means that the checkpoint decides. ``max_num_seqs`` and ``max_num_batched_tokens`` are
    those of one engine. ``utilization`` is the share of the GPU. ``pools`` means that the engine is started to embed,
    rank or classify. ``unfollowed`` are further arguments that can change the memory and that no law covers.
    ``cache_bytes`` is the size of the KV cache that the user gave, so it says nothing about the other terms.
    ``block_tokens`` are the tokens of a cache block and ``cache_blocks`` the blocks of the whole cache, as given.
    ``model_runner`` is the one of the engine's runners that is named, 1 or 2. ``trusts_code`` means that it may
    run code of the model's repository. ``prefix_caching`` says whether prefixes are kept, and ``plans_ahead`` is false
    where the engine may not plan a step while another one runs.
    """

    precision: Precision | None = None
    quantizes_to: Precision | None = None
    quantization: str | None = None
    kv_precision: KvPrecision | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    utilization: float | None = None
    enforce_eager: bool = False
    media: MediaUse = ALL_MEDIA
    residency: Residency | None = None
    lora: LoraSlots | None = None
    drafting: NamedDrafting | None = None
    pools: bool = False
    unfollowed: tuple[str, ...] = ()
    cache_bytes: int | None = None
    block_tokens: int | None = None
    cache_blocks: int | None = None
    trusts_code: bool = False
    prefix_caching: bool | None = None
    plans_ahead: bool = True
    model_runner: int | None = None

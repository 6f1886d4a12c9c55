"""The options of an engine, from its printed configuration and from its user's arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import (
    CpuOffload,
    DraftMethod,
    LoraSlots,
    MediaUse,
    Residency,
    WeightStreaming,
)
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.units import GIB
from plimsoll.engines.start_fields import fields_of, integer_in, number_in, text_in
from plimsoll.engines.starts import NamedDrafting, StartOptions
from plimsoll.engines.vllm.flags.extra_arguments import is_unfollowed_flag
from plimsoll.engines.vllm.settings import KV_DTYPES

Fields = Mapping[str, str]

_MOST_GPUS = 64
"""The most GPUs of a replica that are believed."""

_MOST_TOKENS = 32
"""The most drafted tokens of a step that are believed."""

_DTYPES: Mapping[str, Precision] = MappingProxyType(
    {
        "float32": Precision.FP32,
        "float": Precision.FP32,
        "float16": Precision.FP16,
        "half": Precision.FP16,
        "bfloat16": Precision.BF16,
    }
)
_CACHE_DTYPES: Mapping[str, KvPrecision] = MappingProxyType(
    {
        **{word: precision for precision, word in KV_DTYPES.items()},
        **dict.fromkeys(("fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla", "float8_e4m3fn"), KvPrecision.FP8),
        **dict.fromkeys(("nvfp4_4over6", "nvfp4_ds_mla"), KvPrecision.NVFP4),
        "half": KvPrecision.FP16,
    }
)
"""The words of ``--kv-cache-dtype`` (``CacheDType`` in ``config/cache.py``, read in 0.8 to 0.33)."""

_ONLINE_FP8 = ("fp8", "fp8_per_tensor", "fp8_per_channel", "fp8_per_block")

_LORA_SLOTS, _LORA_RANK = 1, 16
"""Defaults of ``--max-loras`` and ``--max-lora-rank`` (``config/lora.py``)."""

_POOLING_TASKS = ("embed", "embedding", "classify", "score", "reward", "encode", "pooling")
"""Words of ``--runner``, and of ``--task`` in older releases, for engines that do not generate."""

_KNOWN_MEDIA = ("image", "video")

_DRAFTING_KEYS = frozenset(
    {
        *("method", "model", "num_speculative_tokens", "draft_model", "num_spec_tokens", "revision", "code_revision"),
        *("prompt_lookup_max", "prompt_lookup_min", "rejection_sample_method", "draft_sample_method"),
        *("disable_by_batch_size", "enforce_eager"),
    }
)
"""Keys of ``--speculative-config`` that the memory law has a place for, or that change no memory. The draft's degree is
followed where it is the model's. Names from ``config/speculative.py``, 0.8 to 0.33."""
_UNREAD = ("speculative_config", "limit_mm_per_prompt", "kv_cache_dtype")
_LONGEST_VALUE = 200

READ = frozenset(
    {
        *("model", "model_tag", "revision", "dtype", "quantization", "kv_cache_dtype", "max_model_len", "max_num_seqs"),
        *("max_num_batched_tokens", "gpu_memory_utilization", "enforce_eager", "language_model_only", "cpu_offload_gb"),
        *("offload_group_size", "offload_num_in_group", "offload_prefetch_step", "enable_lora", "max_loras"),
        *("max_lora_rank", "speculative_config", "spec_method", "spec_model", "spec_tokens", "speculative_model"),
        *("num_speculative_tokens", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"),
        *("enable_expert_parallel", "decode_context_parallel_size", "limit_mm_per_prompt", "mm_encoder_tp_mode"),
        *("runner", "task", "nnodes", "kv_cache_memory_bytes", "block_size"),
        *("num_gpu_blocks_override", "enable_prefix_caching", "async_scheduling"),
    }
)
"""The arguments that change the memory and that are read here, under the names that logs use."""


def options_of(config: Fields, arguments: Fields, *, batched_tokens: int | None, are_all: bool) -> StartOptions:
    """Return the options of one engine.

    Args:
        config: the fields of the engine's configuration; empty where the engine was not reached.
        arguments: the user's arguments, as fields.
        batched_tokens: the tokens of a step, from a line of its own.
        are_all: whether ``arguments`` holds the defaults, too, as up to 0.8.
    """
    return StartOptions(
        precision=_precision(config, arguments),
        quantizes_to=_quantizes_to(config, arguments),
        quantization=_word(config, arguments, "quantization"),
        kv_precision=_kv_precision(config, arguments),
        max_model_len=integer_in(config.get("max_seq_len")) or _positive(arguments, "max_model_len"),
        max_num_seqs=_positive(arguments, "max_num_seqs"),
        max_num_batched_tokens=_positive(arguments, "max_num_batched_tokens") or batched_tokens,
        utilization=number_in(arguments.get("gpu_memory_utilization")),
        enforce_eager=_is_set(config, "enforce_eager") or _is_set(arguments, "enforce_eager"),
        media=_media(arguments),
        residency=_residency(arguments),
        lora=_lora(arguments),
        drafting=_drafting(config, arguments),
        pools=_pools(arguments),
        unfollowed=() if are_all else tuple(_unfollowed(config, arguments)),
        cache_bytes=integer_in(arguments.get("kv_cache_memory_bytes")),
        block_tokens=_positive(arguments, "block_size"),
        cache_blocks=_positive(arguments, "num_gpu_blocks_override"),
        prefix_caching=_switch(arguments, "enable_prefix_caching"),
        plans_ahead=_switch(arguments, "async_scheduling") is not False,
        trusts_code=_is_set(config, "trust_remote_code") or _is_set(arguments, "trust_remote_code"),
    )


def split_of(config: Fields, arguments: Fields) -> Split:
    """Return how the replica is divided. A degree that no node has counts as 1."""
    return Split(
        _degree(config, arguments, "tensor_parallel_size"),
        _degree(config, arguments, "pipeline_parallel_size"),
        _degree(config, arguments, "data_parallel_size"),
        expert_parallel=_is_set(arguments, "enable_expert_parallel"),
        context_parallel=_degree(config, arguments, "decode_context_parallel_size"),
    )


def _degree(config: Fields, arguments: Fields, name: str) -> int:
    degree = integer_in(config.get(name)) or integer_in(arguments.get(name)) or 1
    return degree if 1 <= degree <= _MOST_GPUS else 1


def _is_set(fields: Fields, name: str) -> bool:
    return fields.get(name) == "True"


def _switch(fields: Fields, name: str) -> bool | None:
    """Return what a switch is set to; None where nobody sets it."""
    return {"True": True, "False": False}.get(fields.get(name, ""))


def _positive(fields: Fields, name: str) -> int | None:
    """Return a number above 0. Anything else leaves the engine its default, or makes it choose."""
    found = integer_in(fields.get(name))
    return found if found is not None and found > 0 else None


def _word(config: Fields, arguments: Fields, name: str) -> str | None:
    return text_in(config.get(name)) or text_in(arguments.get(name))


def _precision(config: Fields, arguments: Fields) -> Precision | None:
    return _DTYPES.get((_word(config, arguments, "dtype") or "").removeprefix("torch."))


def _quantizes_to(config: Fields, arguments: Fields) -> Precision | None:
    method = (_word(config, arguments, "quantization") or "").lower()
    if method in _ONLINE_FP8:
        return Precision.FP8
    return Precision.BITSANDBYTES if method == "bitsandbytes" else None


def _kv_precision(config: Fields, arguments: Fields) -> KvPrecision | None:
    return _CACHE_DTYPES.get((_word(config, arguments, "kv_cache_dtype") or "").removeprefix("torch."))


def _pools(arguments: Fields) -> bool:
    words = {text_in(arguments.get("runner")), text_in(arguments.get("task"))}
    return not words.isdisjoint(_POOLING_TASKS)


def _media(arguments: Fields) -> MediaUse:
    """Return the use of media. An engine that serves neither images nor videos does not load the tower."""
    limits = _limits(arguments)
    images, videos = limits.get("image"), limits.get("video")
    if _is_set(arguments, "language_model_only") or (images, videos) == (0, 0):
        return MediaUse(text_only=True)
    copies = text_in(arguments.get("mm_encoder_tp_mode")) == "data"
    return MediaUse(copies_encoder=copies, images=images, videos=videos)


def _limits(arguments: Fields) -> Mapping[str, int]:
    """Return the most items of each kind of media in a request: a number, or a ``count`` with further options."""
    given = fields_of(text_in(arguments.get("limit_mm_per_prompt")) or "")
    counts = {
        name: integer_in(value if "{" not in value else fields_of(value).get("count")) for name, value in given.items()
    }
    return {name: count for name, count in counts.items() if count is not None and count >= 0}


def _residency(arguments: Fields) -> Residency | None:
    group = _positive(arguments, "offload_group_size")
    if group is not None:
        layers, prefetch = _positive(arguments, "offload_num_in_group"), _positive(arguments, "offload_prefetch_step")
        return WeightStreaming(group, min(layers or 1, group), prefetch or 1)
    size = int((number_in(arguments.get("cpu_offload_gb")) or 0) * GIB)
    return CpuOffload(size) if size > 0 else None


def _lora(arguments: Fields) -> LoraSlots | None:
    if not _is_set(arguments, "enable_lora"):
        return None
    slots, rank = _positive(arguments, "max_loras"), _positive(arguments, "max_lora_rank")
    return LoraSlots(slots or _LORA_SLOTS, rank or _LORA_RANK)


def _drafting(config: Fields, arguments: Fields) -> NamedDrafting | None:
    """Return the speculative decoding that a law covers; None for none, and for another method."""
    given = _speculative(config, arguments)
    tokens = integer_in(given.get("num_speculative_tokens")) or integer_in(given.get("num_spec_tokens"))
    draft = text_in(given.get("model")) or text_in(given.get("draft_model"))
    method = _method(text_in(given.get("method")) or "", draft)
    if tokens is None or not 1 <= tokens <= _MOST_TOKENS or method is None:
        return None
    if method in (DraftMethod.NGRAM, DraftMethod.MTP):
        return NamedDrafting(method, tokens)
    return None if draft is None else NamedDrafting(method, tokens, draft)


def _method(word: str, draft: str | None) -> DraftMethod | None:
    """Return a method by its name. Without one, the engine chooses by the draft's (``config/speculative.py``)."""
    if not word and draft is not None:
        if draft in ("ngram", "[ngram]"):
            return DraftMethod.NGRAM
        name = draft.lower()
        return (
            DraftMethod.EAGLE3
            if "eagle3" in name
            else DraftMethod.EAGLE
            if "eagle" in name
            else DraftMethod.DRAFT_MODEL
        )
    if "mtp" in word:
        return DraftMethod.MTP
    return next((each for each in DraftMethod if each.value == word), None)


def _speculative(config: Fields, arguments: Fields) -> Fields:
    """Return the fields of speculative decoding: as one value, or as flags of their own."""
    whole = text_in(arguments.get("speculative_config")) or text_in(config.get("speculative_config"))
    if whole is not None:
        return fields_of(whole)
    names = {
        "method": ("spec_method",),
        "model": ("spec_model", "speculative_model"),
        "num_speculative_tokens": ("spec_tokens", "num_speculative_tokens"),
    }
    found = {
        field: next((arguments[each] for each in flags if each in arguments), None) for field, flags in names.items()
    }
    return {field: value for field, value in found.items() if text_in(value) is not None and value is not None}


def _unfollowed(config: Fields, arguments: Fields) -> Iterator[str]:
    """Yield the arguments that change the memory and that no law covers, in the form of the command line."""
    for name, value in arguments.items():
        flag = f"--{name.replace('_', '-')}"
        if name not in _UNREAD and is_unfollowed_flag(flag, text_in(value) or ""):
            yield f"{flag}={value[:_LONGEST_VALUE]}"
    if arguments.get("enable_chunked_prefill") == "False":
        yield "--no-enable-chunked-prefill"
    limits = arguments.get("limit_mm_per_prompt")
    if text_in(limits) is not None and limits is not None and not _covers(limits):
        yield f"--limit-mm-per-prompt={limits[:_LONGEST_VALUE]}"
    word = _word(config, arguments, "kv_cache_dtype")
    if word not in (None, "auto") and _kv_precision(config, arguments) is None:
        yield f"--kv-cache-dtype={word}"
    given = _speculative(config, arguments)
    degree = _degree(config, arguments, "tensor_parallel_size")
    for name, value in given.items() if _drafting(config, arguments) is not None else ():
        own = name == "draft_tensor_parallel_size" and integer_in(value) == degree
        if name not in _DRAFTING_KEYS and not own and text_in(value) is not None:
            yield f"--speculative-config.{name}={value[:_LONGEST_VALUE]}"
    if given and _drafting(config, arguments) is None:
        whole = text_in(arguments.get("speculative_config")) or text_in(config.get("speculative_config")) or str(given)
        yield f"--speculative-config={whole[:_LONGEST_VALUE]}"


def _covers(limits: str) -> bool:
    """Whether the law has a place for these limits: numbers of images and videos."""
    given = fields_of(text_in(limits) or "")
    return all(name in _KNOWN_MEDIA and integer_in(value) is not None for name, value in given.items())

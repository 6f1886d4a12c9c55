"""The options of an engine, from its printed configuration and from its user's arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from plimsoll.domain.engine_options import DraftMethod, LoraSlots
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import KvPrecision, Precision
from plimsoll.domain.units import GIB
from plimsoll.engines.start_logs import LoggedDrafting, LoggedOptions
from plimsoll.engines.vllm.start_log_fields import fields_of, integer_in, number_in, text_in
from plimsoll.engines.vllm.unfollowed_flags import is_unfollowed_flag

Fields = Mapping[str, str]

_MOST_GPUS = 64
"""The most GPUs of a replica that are believed."""

_DTYPES: Mapping[str, Precision] = MappingProxyType(
    {
        "float32": Precision.FP32,
        "float": Precision.FP32,
        "float16": Precision.FP16,
        "half": Precision.FP16,
        "bfloat16": Precision.BF16,
    }
)
_CACHE_DTYPES = (
    ("fp8", KvPrecision.FP8),
    ("nvfp4", KvPrecision.NVFP4),
    ("bfloat16", KvPrecision.BF16),
    ("float16", KvPrecision.FP16),
)
_LORA_SLOTS, _LORA_RANK = 1, 16
"""Defaults of ``--max-loras`` and ``--max-lora-rank`` (``config/lora.py``)."""

_UNREAD_MEDIA = ("limit_mm_per_prompt", "mm_encoder_tp_mode")
_LONGEST_VALUE = 200


def options_of(config: Fields, arguments: Fields, *, batched_tokens: int | None, are_all: bool) -> LoggedOptions:
    """Return the options of one engine.

    Args:
        config: the fields of the engine's configuration; empty where the engine was not reached.
        arguments: the user's arguments.
        batched_tokens: the tokens of a step, from a line of its own.
        are_all: whether ``arguments`` holds the defaults, too, as up to 0.8.
    """
    drafting = _drafting(config, arguments)
    return LoggedOptions(
        precision=_precision(config, arguments),
        quantizes_to=_quantizes_to(config, arguments),
        kv_precision=_kv_precision(config, arguments),
        max_model_len=integer_in(config.get("max_seq_len")) or integer_in(arguments.get("max_model_len")),
        max_num_seqs=integer_in(arguments.get("max_num_seqs")),
        max_num_batched_tokens=integer_in(arguments.get("max_num_batched_tokens")) or batched_tokens,
        utilization=number_in(arguments.get("gpu_memory_utilization")),
        enforce_eager=_is_set(config, "enforce_eager") or _is_set(arguments, "enforce_eager"),
        text_only=_is_set(arguments, "language_model_only"),
        cpu_offload_bytes=int((number_in(arguments.get("cpu_offload_gb")) or 0) * GIB),
        lora=_lora(arguments),
        drafting=drafting,
        unfollowed=() if are_all else tuple(_unfollowed(config, arguments, drafting)),
        fixes_cache=integer_in(arguments.get("kv_cache_memory_bytes")) is not None,
    )


def split_of(config: Fields, arguments: Fields) -> Split:
    """Return how the replica is divided. A degree that no node has counts as 1."""
    engines = _degree(config, arguments, "data_parallel_size")
    return Split(
        _degree(config, arguments, "tensor_parallel_size"),
        _degree(config, arguments, "pipeline_parallel_size"),
        engines,
        expert_parallel=_is_set(arguments, "enable_expert_parallel"),
        context_parallel=_degree(config, arguments, "decode_context_parallel_size"),
    )


def _degree(config: Fields, arguments: Fields, name: str) -> int:
    degree = integer_in(config.get(name)) or integer_in(arguments.get(name)) or 1
    return degree if 1 <= degree <= _MOST_GPUS else 1


def _is_set(fields: Fields, name: str) -> bool:
    return fields.get(name) == "True"


def _word(config: Fields, arguments: Fields, name: str) -> str | None:
    return text_in(config.get(name)) or text_in(arguments.get(name))


def _precision(config: Fields, arguments: Fields) -> Precision | None:
    return _DTYPES.get((_word(config, arguments, "dtype") or "").removeprefix("torch."))


def _quantizes_to(config: Fields, arguments: Fields) -> Precision | None:
    method = (_word(config, arguments, "quantization") or "").lower()
    if method.startswith("fp8"):
        return Precision.FP8
    return Precision.BITSANDBYTES if method == "bitsandbytes" else None


def _kv_precision(config: Fields, arguments: Fields) -> KvPrecision | None:
    word = (_word(config, arguments, "kv_cache_dtype") or "").removeprefix("torch.")
    return next((precision for begin, precision in _CACHE_DTYPES if word.startswith(begin)), None)


def _lora(arguments: Fields) -> LoraSlots | None:
    if not _is_set(arguments, "enable_lora"):
        return None
    slots, rank = integer_in(arguments.get("max_loras")), integer_in(arguments.get("max_lora_rank"))
    return LoraSlots(slots or _LORA_SLOTS, rank or _LORA_RANK)


def _drafting(config: Fields, arguments: Fields) -> LoggedDrafting | None:
    """Return the speculative decoding that a law covers; None for none, and for another method."""
    given = fields_of(_speculative(config, arguments) or "")
    tokens = integer_in(given.get("num_speculative_tokens")) or integer_in(given.get("num_spec_tokens"))
    method = _method(text_in(given.get("method")) or "")
    if tokens is None or method is None:
        return None
    draft = text_in(given.get("model")) or text_in(given.get("draft_model"))
    return LoggedDrafting(method, tokens, draft if method not in (DraftMethod.NGRAM, DraftMethod.MTP) else None)


def _method(word: str) -> DraftMethod | None:
    if "mtp" in word:
        return DraftMethod.MTP
    return next((each for each in DraftMethod if each.value == word), None)


def _speculative(config: Fields, arguments: Fields) -> str | None:
    return text_in(arguments.get("speculative_config")) or text_in(config.get("speculative_config"))


def _unfollowed(config: Fields, arguments: Fields, drafting: LoggedDrafting | None) -> Iterator[str]:
    """Yield the arguments that change the memory and that no law covers, in the form of the command line."""
    for name, value in arguments.items():
        flag = f"--{name.replace('_', '-')}"
        if name in _UNREAD_MEDIA or is_unfollowed_flag(flag):
            yield f"{flag}={value[:_LONGEST_VALUE]}"
    given = _speculative(config, arguments)
    if given is not None and drafting is None:
        yield f"--speculative-config={given[:_LONGEST_VALUE]}"

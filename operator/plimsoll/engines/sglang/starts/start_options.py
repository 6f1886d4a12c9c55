"""The options of an engine, from the arguments that its server prints: all of them, with most defaults filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.engines.sglang.settings import DTYPES, KV_DTYPES
from plimsoll.engines.start_fields import fields_of, integer_in, number_in, text_in
from plimsoll.engines.starts import StartOptions

Fields = Mapping[str, str]

_MOST_GPUS = 64
"""The most GPUs of a replica that are believed."""

_PRECISIONS: Mapping[str, Precision] = MappingProxyType(
    {
        **{word: precision for precision, word in DTYPES.items()},
        "half": Precision.FP16,
        "float": Precision.FP32,
    }
)

_CACHES: Mapping[str, KvPrecision] = MappingProxyType(
    {
        **{word: precision for precision, word in KV_DTYPES.items()},
        **dict.fromkeys(("fp8_e5m2", "float8_e4m3fn", "float8_e5m2"), KvPrecision.FP8),
        "bf16": KvPrecision.BF16,
        "float16": KvPrecision.FP16,
    }
)
"""The words of ``--kv-cache-dtype``, and of the type that the line of the cache names since 0.5.14."""

_OFF = (None, "", "False", "0", "-1", "[]", "{}", "null", "none")

_UNFOLLOWED = (
    *("enable_lora", "lora_paths", "speculative_algorithm", "cpu_offload_gb", "offload_group_size"),
    *("disaggregation_mode", "enable_unified_memory", "disable_hybrid_swa_memory", "enable_memory_saver"),
    *("enable_two_batch_overlap", "enable_pdmux", "dllm_algorithm", "torchao_config", "kt_weight_path"),
    *("language_model_only", "limit_mm_data_per_request", "enable_torch_compile", "ep_num_redundant_experts"),
    *("enable_fp32_lm_head", "enable_paged_experts", "enable_kv_cache_sharding", "prefill_only_disable_kv_cache"),
    *("enable_int8_mamba_checkpoint", "int8_mamba_ckpt_size", "enable_dsa_cache_layer_split", "enable_hisparse"),
    *("ple_offload_embedding", "modelopt_quant", "enable_deepseek_v4_fp4_indexer", "encoder_only", "language_only"),
)
"""Arguments that can change the memory and that no law covers, by the names that the server prints. Off, they change
nothing."""

_ONE = ("attn_cp_size", "dcp_size", "moe_dp_size", "nnodes")
"""Further degrees without a law; 1 changes nothing."""

_LONGEST_VALUE = 200


def options_of(arguments: Fields, context: int | None, requests: int | None, cache_type: str | None) -> StartOptions:
    """Return the options of one engine.

    Args:
        arguments: the fields that the server prints.
        context: the longest request, by a line of its own; None without.
        requests: the most requests at the same time, by the same line; None without.
        cache_type: the type that the line of the cache names; None without.
    """
    cache = text_in(arguments.get("kv_cache_dtype"))
    method = (text_in(arguments.get("quantization")) or "").lower()
    return StartOptions(
        precision=_PRECISIONS.get(text_in(arguments.get("dtype")) or ""),
        quantizes_to=Precision.FP8 if method == "fp8" else None,
        quantization=method or None,
        kv_precision=_CACHES.get((cache_type or "") if cache in (None, "auto") else str(cache)),
        max_model_len=context or _positive(arguments, "context_length"),
        max_num_seqs=requests or _positive(arguments, "max_running_requests"),
        max_num_batched_tokens=_positive(arguments, "chunked_prefill_size"),
        utilization=_share(arguments),
        enforce_eager=_is_eager(arguments),
        unfollowed=tuple(_unfollowed(arguments)),
        trusts_code=arguments.get("trust_remote_code") == "True",
    )


def split_of(arguments: Fields) -> Split:
    """Return how the replica is divided. A degree that no node has counts as 1.

    Ranks of attention's data parallelism are among those of tensor parallelism. Without it, ``dp_size`` starts whole
    engines, of which each one is on its own.
    """
    ranks, experts = _degree(arguments, "tp_size"), _degree(arguments, "ep_size")
    engines = _degree(arguments, "attn_dp_size")
    if engines == 1 and arguments.get("enable_dp_attention") == "True":
        engines = _degree(arguments, "dp_size")
    engines = engines if ranks % engines == 0 else 1
    return Split(ranks // engines, _degree(arguments, "pp_size"), engines, expert_parallel=experts > 1)


def window_thousandths(arguments: Fields) -> int | None:
    """Return ``--swa-full-tokens-ratio`` in thousandths; None where no ratio from 0 to 1 is printed."""
    ratio = number_in(arguments.get("swa_full_tokens_ratio"))
    return round(1000 * ratio) if ratio is not None and 0 <= ratio <= 1 else None


def _share(arguments: Fields) -> float | None:
    share = number_in(arguments.get("mem_fraction_static"))
    return share if share is not None and 0 < share < 1 else None


def _positive(fields: Fields, name: str) -> int | None:
    found = integer_in(fields.get(name))
    return found if found is not None and found > 0 else None


def _degree(fields: Fields, name: str) -> int:
    degree = integer_in(fields.get(name)) or 1
    return degree if 1 <= degree <= _MOST_GPUS else 1


def _is_eager(arguments: Fields) -> bool:
    """Whether no graphs are captured. The newest releases print a configuration for each phase."""
    if arguments.get("disable_cuda_graph") == "True":
        return True
    given = fields_of(arguments.get("cuda_graph_config") or "")
    phases = [fields_of(given[phase]).get("backend") for phase in ("decode", "prefill") if phase in given]
    backends = [text_in(each) for each in phases] or [
        text_in(arguments.get(f"cuda_graph_backend_{phase}")) for phase in ("decode", "prefill")
    ]
    return all(each == "disabled" for each in backends)


def _unfollowed(arguments: Fields) -> Iterator[str]:
    for name in (*_UNFOLLOWED, *_ONE):
        value = arguments.get(name)
        if text_in(value) in _OFF or value is None or (name in _ONE and value == "1"):
            continue
        yield f"--{name.replace('_', '-')}={(text_in(value) or '')[:_LONGEST_VALUE]}"

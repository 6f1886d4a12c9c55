"""The transient memory of one pass through the decoder on one rank: hidden states, MLPs, experts, latents.

The memory of a first ``torch.compile`` while the engine measures, in a pod with a cold cache, which is usual.
"""

from __future__ import annotations

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.caches import IndexerCache, LatentCache, RowCache
from plimsoll.domain.models.model import ModelFacts, Sharding
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.units import ceil_div
from plimsoll.engines.vllm.memory.laws.engine_law import EngineLaw
from plimsoll.memory.kinds import is_recurrent, residual_streams

_HIDDEN_COPIES = 4
"""Residual, normed input, attention output and the tensor being written, for every token of the step.

With gate, up and their product this gives 0.75 GiB for CodeLlama-7B (0.77 measured) and 0.84 for Granite-3.1-8B (0.85).
In both, the forward pass is the peak on vLLM 0.19.0.
"""

_STREAM_COPIES = 10
"""The same for all residual streams of hyper-connections, in 16 bits. Their kernels keep some of it in 32 bits.

Fitted to starts of DeepSeek-V4-Flash on GH200 (0.22, 16,384 tokens), H20 (0.26, 8,192) and RTX PRO 6000 (0.25, 4,096),
which needed 9 to 11. Four starts of 0.31 on H100 (DeepSeek-V4-Flash, V4.1-Flash, Qwen3.8-Flash-Next) needed 5 to 9, and
GLM-5.3-Flash at most 11 (0.28, H200: 4.04 GiB logged, including graphs). The band is wide.
"""

_GATED_MLP_TENSORS = 3
"""Gate, up and their product."""

_ATTENTION_COPIES = 2
"""Residual and input, during the attention of a layer."""

_LATENT_ROWS = 64 * 1024
"""The most cached tokens that prefill with latent attention expands at once (vLLM ``mla_attention.py``)."""

_LATENT_HEAD_WIDTH = 256
"""The width of one head of the expanded tokens: key part without rotary, and value (128 + 128 in DeepSeek models)."""

INDEXER_ROW_BYTES = 132
"""One token's key in the indexer's gather buffer: 128 FP8 bytes and a 4-byte scale."""

INDEXER_ROWS_PER_TOKEN = 8
"""Rows of the buffer for each token of context and unit of the workspace factor (``576 * 2 // 132``)."""

LONG_CONTEXT_TOKENS = 256 * 1024

_WORKSPACE_FACTOR, _LONG_WORKSPACE_FACTOR = 5, 2
"""``sparse_mla_prefill_workspace_factor``: 5, and 2 beyond :data:`LONG_CONTEXT_TOKENS` in releases that trim it."""


EXPERT_ROW_COPIES = 4
"""Copies of the row of a token for each of its experts: sorted input, sorted output, weighted, and quantized.

Fitted to steps of 8,192 to 65,536 tokens of two models (vLLM 0.19 and 0.20, RTX 5090 and GB10): 176 KiB a token
computed for Qwen3.6-35B-A3B, 176 and 214 logged."""

_CONSUMER_BLACKWELL = 12

_EXPERTS = (Sharding.EXPERT_OUTPUTS, Sharding.EXPERT_INPUTS)

_SPARSE_HEADS, _SPARSE_HEAD_WIDTH = 64, 512
"""Sparse attention over compressed tokens pads the rank's heads to a multiple of 64 (vLLM
``deepseek_v4/nvidia/flashmla.py``, ``get_padded_num_q_heads``)."""


def hidden_bytes(model: ModelFacts, *, batched_tokens: int, dtype_bytes: int) -> int:
    """Return the bytes of one hidden state for every token of the step."""
    return batched_tokens * model.hidden * dtype_bytes


def hidden_formula(model: ModelFacts, *, batched_tokens: int, dtype_bytes: int) -> str:
    """Return :func:`hidden_bytes` as a formula with its numbers."""
    return f"{batched_tokens:,} tokens x {model.hidden:,} x {dtype_bytes} B"


def dense_forward_bytes(model: ModelFacts, split: Split, *, batched_tokens: int, dtype_bytes: int) -> int:
    """Return the transient bytes of the widest layer.

    They are hidden states and a dense MLP (or shared expert), or expanded latents.
    """
    width = _forward_width(model, split)
    latents = _expanded_latent_bytes(model, split, dtype_bytes)
    return max(batched_tokens * dtype_bytes * width, latents + _attention_bytes(model, batched_tokens, dtype_bytes))


def dense_forward_formula(model: ModelFacts, split: Split, *, batched_tokens: int, dtype_bytes: int) -> str:
    """Return :func:`dense_forward_bytes` as a formula with its numbers."""
    latents = _expanded_latent_bytes(model, split, dtype_bytes)
    width = _forward_width(model, split)
    if latents + _attention_bytes(model, batched_tokens, dtype_bytes) > batched_tokens * dtype_bytes * width:
        heads = f"{_rank_heads(model, split)} heads x {_LATENT_HEAD_WIDTH} x {dtype_bytes} B expanded from latents"
        hidden = hidden_formula(model, batched_tokens=batched_tokens, dtype_bytes=dtype_bytes)
        return f"{_LATENT_ROWS:,} cached tokens x {heads} + {_ATTENTION_COPIES} x {hidden}"
    streams = residual_streams(model)
    copies = f"{hidden_copies(model)}{f' x {streams} streams' if streams > 1 else ''} x {model.hidden:,} hidden"
    widths = [copies, f"{_GATED_MLP_TENSORS} x {_dense_width(model):,} MLP{over_ranks(split)}"]
    padded = padded_heads_width(model, split)
    widths += [f"{padded:,} of padded heads"] if padded else []
    return f"{batched_tokens:,} tokens x {dtype_bytes} B x ({' + '.join(widths)})"


def over_ranks(split: Split) -> str:
    """Return the division by tensor parallelism in a formula."""
    return f" / {split.tensor_parallel}" if split.tensor_parallel > 1 else ""


def _forward_width(model: ModelFacts, split: Split) -> int:
    """Return the values of one token that exist at the same time in the widest layer."""
    mlp = _GATED_MLP_TENSORS * _dense_width(model) // split.tensor_parallel
    return hidden_copies(model) * residual_streams(model) * model.hidden + mlp + padded_heads_width(model, split)


def hidden_copies(model: ModelFacts) -> int:
    """Return how many copies of the hidden state of each stream exist at the same time."""
    return _STREAM_COPIES if residual_streams(model) > 1 else _HIDDEN_COPIES


def _attention_bytes(model: ModelFacts, batched_tokens: int, dtype_bytes: int) -> int:
    """Return the bytes of residual and input during the attention of a layer."""
    return _ATTENTION_COPIES * hidden_bytes(model, batched_tokens=batched_tokens, dtype_bytes=dtype_bytes)


def expert_rows_bytes(model: ModelFacts, gpu: GpuType | None, *, batched_tokens: int, dtype_bytes: int) -> int:
    """Return the extra bytes of NVFP4 experts on GPUs of capability 12: :data:`EXPERT_ROW_COPIES` of each row.

    They are in addition to the scratch.

    Source: vLLM ``fused_moe/cutlass_moe.py``, ``run_cutlass_moe_fp4``.
    """
    experts = model.experts
    capability = gpu.compute_capability if gpu is not None else None
    if experts is None or capability is None or capability[0] != _CONSUMER_BLACKWELL or not _has_fp4_experts(model):
        return 0
    return EXPERT_ROW_COPIES * batched_tokens * experts.experts_per_token * model.hidden * dtype_bytes


def expert_rows_formula(model: ModelFacts, *, batched_tokens: int, dtype_bytes: int) -> str:
    """Return :func:`expert_rows_bytes` as a formula with its numbers."""
    taken = 0 if model.experts is None else model.experts.experts_per_token
    return f"{EXPERT_ROW_COPIES} x {batched_tokens:,} tokens x {taken} experts x {model.hidden:,} x {dtype_bytes} B"


def _has_fp4_experts(model: ModelFacts) -> bool:
    weights = (weight for kind in model.kinds for weight in kind.weights)
    return any(weight.sharding in _EXPERTS and weight.storage.precision is Precision.NVFP4 for weight in weights)


def sparse_workspace_bytes(model: ModelFacts, *, context_tokens: int, trims: bool) -> int:
    """Return the bytes of the buffer in which sparse attention gathers its indexer's keys.

    The size depends on the context, and not on the batch.

    Source: vLLM ``v1/attention/backends/mla/indexer.py``, ``get_max_prefill_buffer_size``. GLM-5.2 at 819,200 tokens:
    4.03 GiB, and 6.31 GiB of activations measured where the sampler explains 2.28.
    """
    pool = _indexed_pool(model)
    if not pool:
        return 0
    long = trims and context_tokens > LONG_CONTEXT_TOKENS
    factor = _LONG_WORKSPACE_FACTOR if long else _WORKSPACE_FACTOR
    return context_tokens * INDEXER_ROWS_PER_TOKEN * factor // pool * INDEXER_ROW_BYTES


def has_indexer(model: ModelFacts) -> bool:
    """Whether :func:`sparse_workspace_bytes` is above 0."""
    return _indexed_pool(model) > 0


def sparse_workspace_formula(size_bytes: int, *, context_tokens: int) -> str:
    """Return the workspace of ``size_bytes`` as a formula with its numbers."""
    rows = size_bytes / INDEXER_ROW_BYTES / context_tokens
    return f"sparse attention: {context_tokens:,} tokens of context x {rows:g} rows x {INDEXER_ROW_BYTES} B"


def _indexed_pool(model: ModelFacts) -> int:
    """Return the number of tokens per indexer key; 0 without an indexer."""
    if any(isinstance(cache, IndexerCache) for cache in model.caches()):
        return 1
    pools = [cache.tokens_per_row for cache in model.caches() if isinstance(cache, RowCache) and cache.indexed]
    return min(pools, default=0)


def padded_heads_width(model: ModelFacts, split: Split) -> int:
    """Return the elements per token of queries and outputs of attention over compressed tokens."""
    if not _reads_compressed_keys(model):
        return 0
    return 2 * ceil_div(_rank_heads(model, split), _SPARSE_HEADS) * _SPARSE_HEADS * _SPARSE_HEAD_WIDTH


def _reads_compressed_keys(model: ModelFacts) -> bool:
    """Whether attention uses compressed keys. Where it caches latents, only the indexer's keys are compressed."""
    caches = tuple(model.caches())
    indexed = any(isinstance(cache, RowCache) and cache.indexed for cache in caches)
    return indexed and not any(isinstance(cache, LatentCache) for cache in caches)


def _dense_width(model: ModelFacts) -> int:
    """Return the width of the widest MLP that every token passes: of dense layers or of shared experts."""
    experts = model.experts
    if experts is None:
        return model.intermediate
    dense = model.intermediate if experts.layers < model.layers else 0
    return max(dense, experts.shared_intermediate)


def _expanded_latent_bytes(model: ModelFacts, split: Split, dtype_bytes: int) -> int:
    """Return the bytes of a prefill's cached keys and values, expanded from latents for the rank's heads."""
    if not _expands_latents(model):
        return 0
    return _LATENT_ROWS * _rank_heads(model, split) * _LATENT_HEAD_WIDTH * dtype_bytes


def _rank_heads(model: ModelFacts, split: Split) -> int:
    return max(1, model.heads // split.tensor_parallel)


def _expands_latents(model: ModelFacts) -> bool:
    return any(isinstance(cache, LatentCache) and not cache.sparse for cache in model.caches())


_COPIES, _COPIES_ON_CONSUMER_BLACKWELL = 1, 2


def compiling_bytes(
    model: ModelFacts, split: Split, law: EngineLaw, gpu: GpuType | None, *, batched_tokens: int, dtype_bytes: int
) -> int:
    """Return one rank's peak bytes of compiling the first layers of a model without experts; 0 where not observed.

    Kernels are timed on copies of their arguments (``benchmark_combo_kernel`` of vLLM ``config/compilation.py``), and
    one argument of the kernel that looks up embeddings is the whole table. Qwen3-8B on an RTX 4090 (0.27.1) logged
    1.18 GiB of activations cold and 0.19 warm; its table is 1.16. Qwen2.5-3B (0.29) logged 0.67 and 0.22; its table is
    0.58. Llama 3.1 8B on an A40 (0.26) and Gemma 4 31B on B300 (0.26) agree. Qwen3.8-27B has recurrent layers: four
    starts on an RTX 3090 Ti (0.27.1) took 2.84 to 2.87 GiB besides weights and cache (2.93 to 2.97 computed), and
    four warm starts took 0.6 to 0.8. GPUs of capability 12 seem to make two copies (Qwen3-32B and Qwen2.5-7B, 0.27 and
    0.28), but one where layers are recurrent: Qwen3.6-27B on an RTX 5090 took 2.21 to 2.84 GiB with steps of 2,048 to
    8,192 (vllm#52872), and its table is 2.37. No start up to 0.22 and no start of a model with experts shows this.
    """
    if not law.compiles_on_copies or model.experts is not None:
        return 0
    table = ceil_div(model.vocabulary, split.tensor_parallel) * model.hidden
    return dtype_bytes * (_embedding_copies(model, gpu) * table + batched_tokens * model.hidden)


def compiling_formula(
    model: ModelFacts, split: Split, gpu: GpuType | None, *, batched_tokens: int, dtype_bytes: int
) -> str:
    """Return :func:`compiling_bytes` as a formula with its numbers."""
    table = f"{_embedding_copies(model, gpu)} x {model.vocabulary:,} embeddings{over_ranks(split)}"
    hidden = hidden_formula(model, batched_tokens=batched_tokens, dtype_bytes=dtype_bytes)
    copied = "copies on which a first compilation times its kernels"
    return f"{table} x {model.hidden:,} x {dtype_bytes} B + {hidden}, {copied}"


def _embedding_copies(model: ModelFacts, gpu: GpuType | None) -> int:
    """Return how many copies of the embedding table exist at the peak, in addition to the model's own table."""
    capability = gpu.compute_capability if gpu is not None else None
    doubled = capability is not None and capability[0] == _CONSUMER_BLACKWELL and not is_recurrent(model)
    return _COPIES_ON_CONSUMER_BLACKWELL if doubled else _COPIES

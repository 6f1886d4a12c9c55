"""Would this engine start on this GPU? A plain calculation of its own; it must never import the operator's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.judged_models import BF16, FP8, MODELS, VISIBLE_GIB, JudgedModel

FITS = "fits"

_GIB = 2**30
_BLOCK_TOKENS = 16
_BIG_CARD_GIB = 70.0

# Measured on H100 with recent vLLM builds: memory of CUDA, NCCL and libraries inside the engine's budget.
_NON_TORCH_GIB, _NON_TORCH_PARALLEL_GIB = 0.25, 2.1
# Taken before the engine looks: an H100 of 79.19 GiB had 78.68 GiB free.
_CONTEXT_GIB = 0.51
# Peak of the sampler, as multiples of a 32-bit logits matrix: 2.5 to 2.9 in builds of autumn 2026.
_SAMPLER_COPIES = 2.9
_FORWARD_SLACK = 1.25
# #48879, read in 0.28: check_shm_free_space before the file of the cache is made.
_CHECKS_SHARED_MEMORY_SINCE = (0, 28)
# CUDA graphs as the engine estimates them; the larger value for models above 20 GiB a GPU.
_GRAPHS_SMALL_GIB, _GRAPHS_LARGE_GIB, _LARGE_MODEL_GIB = 0.7, 1.5, 20.0


@dataclass(frozen=True, slots=True)
class EngineArguments:
    """The flags of one rendered engine that decide about memory; None where a flag is missing.

    ``served`` is the name under which clients ask for the model.
    """

    model: str
    served: str
    max_model_len: int | None
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    tensor_parallel: int
    pipeline_parallel: int
    utilization: float
    kv_cache_dtype: str
    quantization: str | None
    enforce_eager: bool
    host_cache_gib: float = 0.0


def read_arguments(words: Sequence[str]) -> EngineArguments:
    """Read a container's command and arguments: ``--flag value`` or ``--flag=value``, the model first or by flag."""
    flags: dict[str, str] = {}
    positional: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            positional.append(word)
            continue
        name, equals, value = word.partition("=")
        if not equals and rest and not rest[0].startswith("--"):
            value = rest.pop(0)
        flags[name.removeprefix("--").replace("_", "-")] = value
    named = [word for word in positional if word not in {"vllm", "serve"}]
    model = flags.get("model") or (named[0] if named else "")
    return EngineArguments(
        model=model,
        served=flags.get("served-model-name", model),
        max_model_len=_whole(flags, "max-model-len"),
        max_num_seqs=_whole(flags, "max-num-seqs") or _whole(flags, "max-running-requests"),
        max_num_batched_tokens=_whole(flags, "max-num-batched-tokens"),
        tensor_parallel=_whole(flags, "tensor-parallel-size") or 1,
        pipeline_parallel=_whole(flags, "pipeline-parallel-size") or 1,
        utilization=float(flags.get("gpu-memory-utilization", "0.92")),
        kv_cache_dtype=flags.get("kv-cache-dtype", "auto"),
        quantization=flags.get("quantization"),
        enforce_eager="enforce-eager" in flags,
        host_cache_gib=float(flags.get("kv-offloading-size", "0")),
    )


def judge(arguments: EngineArguments, product: str | None) -> str:
    """``fits``, or the text with which the engine itself would end. What the tables do not know, fits."""
    model = MODELS.get(arguments.model)
    total = VISIBLE_GIB.get(product or "")
    weights = None if model is None else _weights_gib(model, arguments)
    if model is None or weights is None or total is None:
        return FITS
    refusal = refused(model, arguments)
    if refusal is not None:
        return refusal
    free, requested = total - _CONTEXT_GIB, total * arguments.utilization
    if free < requested:
        return _occupied(free, total, arguments.utilization, requested)
    if weights > free:
        return _WEIGHTS_OUT_OF_MEMORY
    is_big = total >= _BIG_CARD_GIB and "A100" not in (product or "")  # the engine's own rule for its defaults
    return _judge_cache(model, arguments, requested - weights - _working_gib(model, arguments, weights, is_big=is_big))


def refused(model: JudgedModel, arguments: EngineArguments) -> str | None:
    """The text with which the engine refuses its configuration, before it looks at any memory; None where it does not.

    ``tests/engine/test_judged_starts.py`` asks the engine itself.
    """
    length, sequences, tokens = arguments.max_model_len, arguments.max_num_seqs, arguments.max_num_batched_tokens
    if length is not None and length > model.max_context:
        return _beyond_positions(length, model.max_context)
    if sequences is not None and tokens is not None and tokens < sequences:
        return _step_below_sequences(tokens, sequences)
    return None


def judge_shared_memory(arguments: EngineArguments, release: tuple[int, int] | None, shm_bytes: float) -> str:
    """``fits``, or the text with which the engine ends because its cache in host memory has no room in ``/dev/shm``.

    Args:
        arguments: what the container is started with.
        release: major and minor number of an engine for NVIDIA's GPUs; None where it is not known, or the cache is in
            private buffers.
        shm_bytes: the size of ``/dev/shm``.
    """
    needed = arguments.host_cache_gib * _GIB
    if release is None or release < _CHECKS_SHARED_MEMORY_SINCE or needed <= shm_bytes:
        return FITS
    return _no_shared_memory(needed, shm_bytes)


def _judge_cache(model: JudgedModel, arguments: EngineArguments, available: float) -> str:
    """The engine's last check: one request of full length must fit into the ``available`` GiB."""
    if available <= 0:
        return _NO_CACHE
    length = arguments.max_model_len or model.max_context
    token = _kv_bytes_per_token(model, arguments)
    needed = math.ceil(length / _BLOCK_TOKENS) * _BLOCK_TOKENS * token / _GIB
    if needed <= available:
        return FITS
    longest = int(available * _GIB / token) // _BLOCK_TOKENS * _BLOCK_TOKENS
    return _too_long(length, needed, available, longest)


def _whole(flags: dict[str, str], name: str) -> int | None:
    return int(flags[name]) if flags.get(name, "").isdigit() else None


def _weights_gib(model: JudgedModel, arguments: EngineArguments) -> float | None:
    """GiB of one rank's weights; None for a precision that the table does not have."""
    precision = FP8 if arguments.quantization == FP8 else model.checkpoint
    if arguments.quantization not in (None, FP8, BF16, "compressed-tensors", "modelopt"):
        return None
    whole = model.weights_gib.get(precision)
    return None if whole is None else whole / (arguments.tensor_parallel * arguments.pipeline_parallel)


def _working_gib(model: JudgedModel, arguments: EngineArguments, weights: float, *, is_big: bool) -> float:
    """GiB that is neither weights nor cache: activations, CUDA graphs, libraries."""
    sequences = arguments.max_num_seqs or (1024 if is_big else 256)
    tokens = arguments.max_num_batched_tokens or (8192 if is_big else 2048)
    sampler = sequences * model.vocabulary * 4 * _SAMPLER_COPIES
    forward = tokens * 2 * (2 * model.hidden + 3 * model.intermediate / arguments.tensor_parallel) * _FORWARD_SLACK
    graphs = _GRAPHS_LARGE_GIB if weights > _LARGE_MODEL_GIB else _GRAPHS_SMALL_GIB
    libraries = _NON_TORCH_PARALLEL_GIB if arguments.tensor_parallel > 1 else _NON_TORCH_GIB
    return max(sampler, forward) / _GIB + (0 if arguments.enforce_eager else graphs) + libraries


def _kv_bytes_per_token(model: JudgedModel, arguments: EngineArguments) -> float:
    """Bytes of one rank; heads beyond the model's are copies, so more ranks than heads save nothing."""
    shards = min(arguments.tensor_parallel, model.kv_heads) * arguments.pipeline_parallel
    return model.kv_bytes_per_token / shards / (2 if arguments.kv_cache_dtype.startswith("fp8") else 1)


# The engine's own words (vLLM 0.28): an operator recognises them in a crashed container's last log lines.
_WEIGHTS_OUT_OF_MEMORY = (
    "RuntimeError: Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to free memory "
    "for weights, increasing --tensor-parallel-size, or using --quantization. (original error: CUDA out of memory.)"
)
_NO_CACHE = (
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing "
    "the engine."
)


def _occupied(free: float, total: float, utilization: float, requested: float) -> str:
    return (
        f"ValueError: Free memory on device cuda:0 ({free:.2f}/{total:.2f} GiB) on startup is less than desired GPU "
        f"memory utilization ({utilization}, {requested:.2f} GiB). Decrease GPU memory utilization or reduce GPU "
        "memory used by other processes."
    )


def _no_shared_memory(needed: float, free: float) -> str:
    return (
        "RuntimeError: Insufficient space in /dev/shm for CPU KV offload shared region in /dev/shm: "
        f"{needed / 2**20:.0f} MiB required, {free / 2**20:.0f} MiB free. Increase /dev/shm (e.g. --shm-size or "
        "--ipc=host)."
    )


def _too_long(length: int, needed: float, available: float, longest: int) -> str:
    return (
        f"ValueError: To serve at least one request with the model's max seq len ({length}), ({needed:.2f} GiB KV "
        f"cache is needed, which is larger than the available KV cache memory ({available:.2f} GiB). Based on the "
        f"available memory, the estimated maximum model length is {longest}. Try increasing `gpu_memory_utilization` "
        "or decreasing `max_model_len` when initializing the engine."
    )


def _beyond_positions(length: int, positions: int) -> str:
    return (
        f"User-specified max_model_len ({length}) is greater than the derived max_model_len "
        f"(max_position_embeddings={float(positions)} or model_max_length=None in model's config.json)."
    )


def _step_below_sequences(tokens: int, sequences: int) -> str:
    return f"max_num_batched_tokens ({tokens}) must be greater than or equal to max_num_seqs ({sequences})."

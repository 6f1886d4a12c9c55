"""The memory of a first ``torch.compile`` while the engine measures, in a pod with a cold cache, which is usual."""

from __future__ import annotations

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.outcomes import Split
from plimsoll.domain.units import ceil_div
from plimsoll.engines.vllm.memory.engine_law import EngineLaw
from plimsoll.engines.vllm.memory.forward import hidden_formula, over_ranks
from plimsoll.engines.vllm.memory.runners import is_recurrent

_CONSUMER_BLACKWELL = 12
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

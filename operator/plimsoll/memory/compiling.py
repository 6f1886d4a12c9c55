"""What a first ``torch.compile`` takes while the engine measures, in a pod whose cache is cold, as pods' caches are."""

from __future__ import annotations

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.outcomes import Split
from plimsoll.domain.units import ceil_div
from plimsoll.memory.engine_law import EngineLaw

_CONSUMER_BLACKWELL = 12
_COPIES, _COPIES_ON_CONSUMER_BLACKWELL = 1, 2


def compiling_bytes(
    model: ModelFacts, split: Split, law: EngineLaw, gpu: GpuType | None, *, batched_tokens: int, dtype_bytes: int
) -> int:
    """Peak bytes of compiling the first layers of a model without experts on one rank; 0 where nothing was seen of it.

    Kernels are timed on copies of their arguments (``benchmark_combo_kernel`` of vLLM ``config/compilation.py``), and
    the one that looks up embeddings has the whole table as one. Qwen3-8B on an RTX 4090 (0.27.1) logged 1.18 GiB of
    activations cold and 0.19 warm, its table is 1.16; Qwen2.5-3B (0.29) 0.67 and 0.22, table 0.58; Llama 3.1 8B on an
    A40 (0.26) and Gemma 4 31B on B300 (0.26) close so. Of Qwen3.8-27B, which has recurrent layers, four starts on an
    RTX 3090 Ti (0.27.1) took 2.84 to 2.87 GiB beside weights and cache, where 2.93 to 2.97 are computed, and four warm
    ones 0.6 to 0.8. On GPUs of capability 12 it looks like two copies (Qwen3-32B and Qwen2.5-7B, 0.27 and 0.28). No
    start up to 0.22 shows it; none of a model with experts does.
    """
    if not law.compiles_on_copies or model.experts is not None:
        return 0
    table = ceil_div(model.vocabulary, split.tensor_parallel) * model.hidden
    return dtype_bytes * (embedding_copies(gpu) * table + batched_tokens * model.hidden)


def embedding_copies(gpu: GpuType | None) -> int:
    """Tables that lie beside the model's own at the peak."""
    capability = gpu.compute_capability if gpu is not None else None
    doubled = capability is not None and capability[0] == _CONSUMER_BLACKWELL
    return _COPIES_ON_CONSUMER_BLACKWELL if doubled else _COPIES

"""What vLLM 0.19.0 said of its own memory at 26 different starts on H100 80GB."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plimsoll.domain.decisions.outcomes import EngineSettings, MemoryEstimate, Split
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.estimate import estimate
from tests.support.planning import H100, gpu, model, request

VISIBLE = replace(gpu(H100), usable_bytes=int(79.19 * GIB))
"""The GPU of those starts, by the engine's own word."""

_DTYPES = {"bfloat16": Precision.BF16, "float16": Precision.FP16, "float32": Precision.FP32}


@dataclass(frozen=True)
class Run:
    """One start, as logged. Sizes in GiB of one GPU."""

    model: str
    tensor_parallel: int
    context: int
    dtype: str
    online_fp8: bool
    kv_dtype: str
    utilization_percent: int
    weights_gib: float
    activations_gib: float | None
    non_torch_gib: float | None
    kv_cache_gib: float | None
    kv_tokens: int | None
    concurrency_at_full_length: float | None
    graphs_gib: float | None

    @property
    def label(self) -> str:
        """The run in a test's name."""
        online = "-fp8" if self.online_fp8 else ""
        parts = (self.model.split("/")[1], f"tp{self.tensor_parallel}", f"{self.context}", self.dtype + online)
        return "-".join((*parts, f"kv-{self.kv_dtype}", f"util{self.utilization_percent}"))

    @property
    def precision(self) -> Precision:
        """Of the weights."""
        published = model(self.model).checkpoint.precision
        if published.is_quantized:
            return published
        return Precision.FP8 if self.online_fp8 else _DTYPES[self.dtype]

    @property
    def tokens(self) -> float | None:
        """KV tokens as vLLM counts them since 0.24: full-length requests times their length, also for hybrid models."""
        if self.concurrency_at_full_length is None or len(set(model(self.model).caches())) == 1:
            return self.kv_tokens
        return self.concurrency_at_full_length * self.context

    def estimate(self) -> MemoryEstimate:
        """What the law says of the same start."""
        settings = EngineSettings(
            max_model_len=self.context,
            max_num_seqs=1024,
            max_num_batched_tokens=8192,
            gpu_memory_utilization_percent=self.utilization_percent,
            dtype=self.dtype,
            quantization=None,
            kv_cache_dtype=self.kv_dtype,
            enforce_eager=False,
        )
        wanted = request(
            self.model,
            context=self.context,
            concurrency=1024,
            precision=self.precision,
            kv_precision=KvPrecision.FP8 if self.kv_dtype == "fp8" else KvPrecision.BF16,
            engine=EngineChoice(EngineVersion(0, 19)),
        )
        return estimate(wanted, VISIBLE, Split(self.tensor_parallel), settings)


def _runs() -> tuple[Run, ...]:
    document: dict[str, Any] = json.loads(
        Path(__file__).with_name("data").joinpath("h100_vllm_0_19.json").read_text(encoding="utf-8")
    )
    return tuple(Run(**entry) for entry in document["runs"])


RUNS = _runs()

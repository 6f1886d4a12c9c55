"""llm-d-planner's capacity planner, from its published description.

Source: llm-d-incubation/llm-d-planner, ``src/planner/capacity_planner.py`` (its docstrings give the formulas) and its
accuracy report; constants of 2026-06 in ``data/llm-d-planner.json``. Available = memory x utilization x GPUs - weights
- activation (a constant by model class, once a replica however many GPUs) - what is outside PyTorch (a constant a
GPU); CUDA graphs count nothing. Memory is the card's nominal size. Keys and values take the bytes of the model's type
(it knows no ``--kv-cache-dtype``), else those of the quantization; latent caches only for DeepSeek V2 and V3;
everything is divided evenly by TP x PP. The constants were calibrated on the runs of ``runs.json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.accuracy.peers.config_fields import head_dim, integer, text_config
from benchmarks.accuracy.prediction import Prediction, Verdict
from benchmarks.accuracy.setups import Setup
from plimsoll.domain.units import GIB

_FILE = Path(__file__).resolve().parents[1] / "data" / "llm-d-planner.json"
_DTYPE_BYTES = {"float32": 4.0, "float16": 2.0, "bfloat16": 2.0}
_QUANTIZED_BYTES = {"mxfp4": 4.25 / 8}
"""Where a configuration names no type; one byte for every other method."""

_EXPERT_FIELDS = ("n_routed_experts", "n_shared_experts", "num_experts", "num_experts_per_tok")


class LlmDPlanner:
    """The capacity planner's per-GPU figures."""

    name = "llm-d-planner"
    source = "llm-d-incubation/llm-d-planner, formula and constants as of 2026-06"

    def predict(self, setups: Sequence[Setup]) -> list[Prediction]:
        """One prediction a setup."""
        return [_predict(setup) for setup in setups]

    def predict_weights(self, setups: Sequence[Setup]) -> list[Prediction]:
        """Weights of one GPU."""
        return [_weights_alone(setup) for setup in setups]


@dataclass(frozen=True, slots=True)
class Plan:
    """The part of the formula that is about memory, all GPUs together; GiB."""

    nominal_gib: float
    utilization: float
    gpus: int
    weights_gib: float
    activation_gib: float
    non_torch_gib: float

    @property
    def allocatable_gib(self) -> float:
        """Memory for the KV cache of all GPUs."""
        taken = self.weights_gib + self.activation_gib + self.non_torch_gib * self.gpus
        return max(0.0, self.nominal_gib * self.utilization * self.gpus - taken)


def activation_gib(config: Mapping[str, Any]) -> float:
    """Peak activation memory: the class's measured constant, else that of its kind."""
    constants = _constants()
    classes = config.get("architectures") or [""]
    if (known := constants["activation_gib"].get(classes[0])) is not None:
        return float(known)
    text = text_config(config)
    kind = "moe" if any(field in text for field in _EXPERT_FIELDS) else "dense"
    return float(constants["activation_default_gib"][kind])


def non_torch_gib(tensor_parallel: int, pipeline_parallel: int) -> float:
    """What is outside PyTorch, one GPU."""
    key = "tpN" if tensor_parallel > 1 else "tp1_ppN" if pipeline_parallel > 1 else "tp1_pp1"
    return float(_constants()["non_torch_gib"][key])


def bytes_per_token(config: Mapping[str, Any]) -> float | None:
    """Keys and values of one token in all layers, before parallelism; None where the fields are missing."""
    text = text_config(config)
    layers = integer(text, "num_hidden_layers")
    width = _kv_bytes(config)
    classes = config.get("architectures") or [""]
    if layers and re.match(r"DeepseekV[23]ForCausalLM", classes[0]):
        return layers * ((integer(text, "kv_lora_rank") or 0) + (integer(text, "qk_rope_head_dim") or 0)) * width
    heads, dim = integer(text, "num_key_value_heads"), head_dim(text)
    return None if layers is None or heads is None or dim is None else 2 * layers * heads * dim * width


def _kv_bytes(config: Mapping[str, Any]) -> float:
    text = text_config(config)
    dtype = config.get("torch_dtype") or config.get("dtype") or text.get("torch_dtype") or text.get("dtype")
    if dtype is not None:
        return _DTYPE_BYTES.get(str(dtype).removeprefix("torch."), 1.0)
    return _QUANTIZED_BYTES.get((config.get("quantization_config") or {}).get("quant_method", ""), 1.0)


def _predict(setup: Setup) -> Prediction:
    alone = _weights_alone(setup)
    if setup.gpu is None or alone.weights_gib is None:
        return alone
    per_token = bytes_per_token(setup.config)
    if per_token is None:
        return Prediction(weights_gib=alone.weights_gib, note="config.json lacks the fields of the formula")
    gpus = setup.ranks * setup.data_parallel
    plan = Plan(
        nominal_gib=nominal_gib(setup.gpu.name, setup.gpu.total_bytes / GIB),
        utilization=setup.utilization,
        gpus=gpus,
        weights_gib=alone.weights_gib * gpus,
        activation_gib=activation_gib(setup.config) * setup.data_parallel,
        non_torch_gib=non_torch_gib(setup.tensor_parallel, setup.pipeline_parallel),
    )
    tokens = int(plan.allocatable_gib / setup.data_parallel * GIB / per_token)
    return Prediction(
        weights_gib=alone.weights_gib,
        kv_gib=plan.allocatable_gib / gpus,
        kv_tokens=tokens,
        concurrency=tokens / setup.max_model_len,
        verdict=Verdict.SURE if tokens >= setup.max_model_len else Verdict.NO,
    )


def nominal_gib(gpu_name: str, total_gib: float) -> float:
    """The figure of the planner's catalogue: the marketing size, read as GiB."""
    found = re.search(r"-(\d+)gb$", gpu_name)
    return float(found[1]) if found else round(total_gib)


def _weights_alone(setup: Setup) -> Prediction:
    """The files' bytes.

    The formula counts one-byte elements by the quantization's bytes, which are one where its bits make whole bytes;
    what is packed into words counts as the words.
    """
    if setup.checkpoint is None:
        return Prediction(note="no size of the checkpoint")
    return Prediction(weights_gib=setup.checkpoint.bytes / setup.ranks / GIB)


@cache
def _constants() -> dict[str, Any]:
    constants: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return constants

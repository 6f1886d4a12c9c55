"""KAITO's estimate, from its published description.

Source: kaito-project/kaito, ``presets/workspace/generator/model-sku-calculation.md`` (the terms), and the values of
2026-09 in ``pkg/workspace/estimator`` and ``presets/workspace/generator`` (Apache-2.0): weights 1.02 x the files,
evenly over the GPUs; an overhead of 2.3 GiB (1.5 on A10) and 5 % of the GPU's share of the weights; keys and values in
two bytes whatever ``--kv-cache-dtype`` says, latent caches not divided by tensor parallelism, windows not known. It
has no term per request for recurrent states, so hybrids have no answer. Given here: the node's own GPU memory label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks.accuracy.peers.config_fields import head_dim, integer, is_recurrent, text_config
from benchmarks.accuracy.prediction import Prediction, Verdict
from benchmarks.accuracy.setups import Setup
from plimsoll.domain.units import GIB

WEIGHT_EXPANSION: Final = 1.02
BASE_OVERHEAD_GIB: Final = 2.3
A10_OVERHEAD_GIB: Final = 1.5
OVERHEAD_OF_WEIGHTS: Final = 0.05
_KV_BYTES: Final = 2


class Kaito:
    """KAITO's node estimator, asked for a GPU count that is already given."""

    name = "KAITO"
    source = "kaito-project/kaito, formula as of 2026-09"

    def predict(self, setups: Sequence[Setup]) -> list[Prediction]:
        """One prediction a setup."""
        return [_predict(setup) for setup in setups]

    def predict_weights(self, setups: Sequence[Setup]) -> list[Prediction]:
        """Weights of one GPU."""
        return [_weights_alone(setup) for setup in setups]


def bytes_per_token(config: Mapping[str, Any]) -> int | None:
    """Keys and values of one token in all layers, before parallelism; None where the fields are missing."""
    text = text_config(config)
    layers, heads = integer(text, "num_hidden_layers"), integer(text, "num_attention_heads")
    if layers is None:
        return None
    if latent := integer(text, "kv_lora_rank"):
        return layers * (latent + (integer(text, "qk_rope_head_dim") or 0)) * _KV_BYTES
    width = head_dim(text)
    kv_heads = integer(text, "num_key_value_heads") or (1 if text.get("multi_query") is True else heads)
    if width is None or kv_heads is None:
        return None
    return 2 * layers * kv_heads * width * _KV_BYTES


def kv_gib(*, memory_gib: float, utilization: float, weights_gib: float, base_gib: float = BASE_OVERHEAD_GIB) -> float:
    """What is left for the KV cache on one GPU; ``weights_gib`` is its share after expansion."""
    return memory_gib * utilization - weights_gib - base_gib - OVERHEAD_OF_WEIGHTS * weights_gib


def _predict(setup: Setup) -> Prediction:
    alone = _weights_alone(setup)
    if setup.gpu is None or alone.weights_gib is None:
        return alone
    if setup.data_parallel > 1:
        return Prediction(note="does not know data parallelism")
    if is_recurrent(setup.config):
        return Prediction(weights_gib=alone.weights_gib, note="no term for recurrent states")
    per_token = bytes_per_token(setup.config)
    if per_token is None:
        return Prediction(weights_gib=alone.weights_gib, note="config.json lacks the fields of the formula")
    base = A10_OVERHEAD_GIB if setup.gpu.name == "a10-24gb" else BASE_OVERHEAD_GIB
    left = kv_gib(
        memory_gib=setup.gpu.total_bytes / GIB,
        utilization=setup.utilization,
        weights_gib=alone.weights_gib,
        base_gib=base,
    )
    is_latent = integer(text_config(setup.config), "kv_lora_rank") is not None
    per_gpu = per_token / setup.pipeline_parallel / (1 if is_latent else setup.tensor_parallel)
    tokens = int(max(0.0, left) * GIB / per_gpu)
    return Prediction(
        weights_gib=alone.weights_gib,
        kv_gib=left,
        kv_tokens=tokens,
        concurrency=tokens / setup.max_model_len,
        verdict=Verdict.SURE if tokens >= setup.max_model_len else Verdict.NO,
    )


def _weights_alone(setup: Setup) -> Prediction:
    if setup.checkpoint is None:
        return Prediction(note="no size of the checkpoint")
    return Prediction(weights_gib=setup.checkpoint.bytes * WEIGHT_EXPANSION / setup.ranks / GIB)

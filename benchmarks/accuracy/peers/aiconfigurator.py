"""AIConfigurator: the package's own KV cache estimate for its vLLM backend.

Source: aiconfigurator-core 0.12.0 (PyPI, Apache-2.0), ``sdk.memory.estimate_kv_cache``. It answers for the cards it
has a system for, by its full model where it knows the class and by its fallback (80 % of what the weights leave) where
not. It is given the record's total memory, so its nominal sizes do not count against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from benchmarks.accuracy.peers.config_fields import integer, text_config
from benchmarks.accuracy.peers.environment import ask
from benchmarks.accuracy.prediction import Prediction, Verdict
from benchmarks.accuracy.setups import Setup
from plimsoll.domain.units import GIB

SYSTEMS: Final = {
    "a100-pcie-80gb": "a100_pcie",
    "a100-sxm-40gb": "a100_sxm",
    "a100-sxm-80gb": "a100_sxm",
    "a30-24gb": "a30",
    "b200-sxm-180gb": "b200_sxm",
    "b300-sxm-288gb": "b300_sxm",
    "gb200-186gb": "gb200",
    "gb300-278gb": "gb300",
    "h100-pcie-80gb": "h100_pcie",
    "h100-sxm-80gb": "h100_sxm",
    "h200-sxm-141gb": "h200_sxm",
    "l4-24gb": "l4",
    "l40s-48gb": "l40s",
    "rtx-pro-6000-bse-96gb": "rtx_pro_6000_server",
}
"""Its systems by our catalogue's names; the total memory is given with every question."""

_FORMATS: Final = {(8, "float"): ("fp8", "fp8"), (8, "int"): ("sq", "fp8"), (4, "int"): ("int4_wo", "int4_wo")}
"""Its formats of linear layers and of experts by bits and kind; it has none of 8-bit integers for experts."""

_NO_ROOM = "no KV budget"
"""How its message begins when the weights leave nothing."""


class AiConfigurator:
    """aiconfigurator-core 0.12.0 in an environment of its own."""

    name = "aiconfigurator"
    source = "aiconfigurator-core 0.12.0 (PyPI), sdk.memory.estimate_kv_cache"

    def predict(self, setups: Sequence[Setup]) -> list[Prediction]:
        """One prediction a setup; cards without a system have no answer."""
        known = [setup for setup in setups if _system(setup)]
        answers = iter(ask("aiconfigurator", [_question(setup) for setup in known]))
        return [
            _prediction(setup, next(answers)) if _system(setup) else Prediction(note="has no system for this card")
            for setup in setups
        ]

    def predict_weights(self, setups: Sequence[Setup]) -> list[Prediction]:
        """No answer: its estimate needs a card and its budget."""
        return [Prediction(note="answers only for a card") for _ in setups]


def _system(setup: Setup) -> str | None:
    return SYSTEMS.get(setup.gpu.name) if setup.gpu else None


def _question(setup: Setup) -> dict[str, Any]:
    ranks = setup.tensor_parallel * setup.data_parallel
    experts = (
        setup.expert_parallel and integer(text_config(setup.config), "num_experts", "n_routed_experts") is not None
    )
    return {
        "config": dict(setup.config),
        "system": _system(setup),
        "max_num_batched_tokens": setup.max_num_batched_tokens,
        "max_num_seqs": setup.max_num_seqs,
        "utilization": setup.utilization,
        "tensor_parallel": setup.tensor_parallel,
        "pipeline_parallel": setup.pipeline_parallel,
        "data_parallel": setup.data_parallel,
        "moe_tp": 1 if experts else ranks,
        "moe_ep": ranks if experts else 1,
        "formats": _formats(setup),
        "is_online": setup.quantization is not None,
        "kv_quant": "fp8" if setup.kv_cache_dtype.startswith("fp8") else None,
        "total_bytes": setup.gpu.usable_bytes if setup.gpu else None,
    }


def _formats(setup: Setup) -> dict[str, str]:
    """Its names for the number formats of checkpoints whose configurations it does not read, and of online FP8."""
    bits = 8 if setup.quantization == "fp8" else None
    kind = "float"
    quantization = setup.config.get("quantization_config") or {}
    if quantization.get("quant_method") == "compressed-tensors":
        weights = next(iter(quantization["config_groups"].values()))["weights"]
        bits, kind = weights["num_bits"], weights["type"]
    elif quantization.get("quant_method") in {"awq", "gptq"}:
        bits, kind = quantization.get("bits"), "int"
    names = _FORMATS.get((bits or 16, kind))
    return {"gemm_quant_mode": names[0], "moe_quant_mode": names[1]} if names else {}


def _prediction(setup: Setup, answer: dict[str, Any]) -> Prediction:
    if error := answer.get("error"):
        return Prediction(verdict=Verdict.NO if error.startswith(_NO_ROOM) else None, note=error)
    weights, tokens = answer["weights_bytes"], answer["tokens"]
    return Prediction(
        weights_gib=None if weights is None else weights / GIB,
        kv_gib=answer["kv_bytes"] / GIB,
        kv_tokens=tokens,
        concurrency=tokens / setup.max_model_len,
        verdict=Verdict.SURE if tokens >= setup.max_model_len else Verdict.NO,
        note=answer["source"],
    )

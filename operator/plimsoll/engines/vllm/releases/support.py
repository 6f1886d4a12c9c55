"""Whether a release can load a model at all: by its class and by the way its weights are quantized."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from plimsoll.domain.model import ModelFacts
from plimsoll.domain.precision import Precision
from plimsoll.domain.versions import EngineVersion
from plimsoll.engines.vllm.releases.history import Gap
from plimsoll.engines.vllm.releases.served import class_gap, method_gap
from plimsoll.engines.vllm.releases.transformers_backend import may_load

_WHILE_LOADING = {Precision.FP8: "fp8", Precision.BITSANDBYTES: "bitsandbytes"}
"""The methods by which the engine quantizes a 16-bit checkpoint."""


_DEPRECATED = frozenset(
    {
        "bitblas",
        "deepspeedfp",
        "experts_int8",
        "fbgemm_fp8",
        "fp_quant",
        "gptq_bitblas",
        "gptq_marlin_24",
        "hqq",
        "ipex",
        "petit_nvfp4",
        "ptpc_fp8",
        "rtn",
        "tpu_int8",
    }
)
"""Methods that some release loads only where ``--allow-deprecated-quantization`` is given. Source: vLLM,
``DEPRECATED_QUANTIZATION_METHODS`` of ``model_executor/layers/quantization``, read in 0.14 to 0.33."""

_DEPRECATED_SINCE = EngineVersion(0, 14)
"""The first release with that flag and that list."""


class Lack(NamedTuple):
    """Something of a model that a release lacks. ``is_final`` means that the generic backend cannot help either."""

    what: str
    gap: Gap
    is_final: bool


def lacks(model: ModelFacts, precision: Precision, release: EngineVersion) -> Iterator[Lack]:
    """Yield what the release lacks to load the model in this precision, and that another release has."""
    missing = class_gap(model.architecture, release)
    if missing is not None:
        yield Lack(f"the model class {model.architecture}", missing, not may_load(model, release))
    method = _method(model, precision)
    missing = None if method is None else method_gap(method, release)
    if missing is not None:
        yield Lack(f"the quantization method {method}", missing, is_final=True)


def release_refusal(model: ModelFacts, precision: Precision, release: EngineVersion) -> str | None:
    """Return why the release cannot load the model, and the releases that can; None where it can, or may."""
    final = next((lack for lack in lacks(model, precision, release) if lack.is_final), None)
    if final is None:
        return None
    return (
        f"vLLM {release} cannot load {model.name}, because it lacks {final.what}: use {final.gap.advice}, "
        "or spec.engine.image with an image that has it."
    )


def needs_permission(model: ModelFacts, precision: Precision, release: EngineVersion) -> bool:
    """Whether the engine may load the checkpoint only where a flag permits its quantization method.

    Later releases take methods from their list by dropping them, so the flag never does harm.
    """
    return release >= _DEPRECATED_SINCE and _method(model, precision) in _DEPRECATED


def _method(model: ModelFacts, precision: Precision) -> str | None:
    """Return the method that the engine needs: the checkpoint's, or the one by which it quantizes while it loads."""
    if precision is not model.checkpoint.precision and precision.is_quantized:
        return _WHILE_LOADING.get(precision)
    return model.checkpoint.method

"""Flags of a command with which vLLM does not start for the model that it serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from plimsoll.domain.model import ModelFacts
from plimsoll.domain.precision import Precision
from plimsoll.domain.versions import EngineVersion
from plimsoll.engines.start_commands import Misfit, StartCommand
from plimsoll.engines.vllm.capabilities import refuses_float16
from plimsoll.engines.vllm.checkpoint_files import wanted_files

_FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("awq", "awq_marlin", "auto_awq"), "awq"),
        **dict.fromkeys(("gptq", "gptq_marlin", "auto_gptq", "gptq_bitblas", "gptq_marlin_24"), "gptq"),
        **dict.fromkeys(("fp8", "deepseek_v4_fp8"), "fp8"),
        **dict.fromkeys(("mxfp4", "gpt_oss_mxfp4"), "mxfp4"),
        **dict.fromkeys(("modelopt", "modelopt_fp4", "modelopt_mxfp8", "modelopt_mixed", "nvfp4"), "modelopt"),
        **{each: each for each in ("bitsandbytes", "compressed-tensors", "fbgemm_fp8", "gguf", "quark", "torchao")},
    }
)
"""The methods of ``--quantization`` that read the same checkpoints. The others may read several kinds (``moe_wna16``,
``humming``, ``inc``), so nothing is said of them. Source: ``_verify_quantization`` of ``config/model.py``, and the
``override_quantization_method`` of each method, 0.32 and 0.33."""

_BF16_ALONE = frozenset({"mxfp4"})
_WITHOUT_FP32 = frozenset({"awq", "gptq", "fp8", "mxfp4", "modelopt", "fbgemm_fp8", "quark"})
"""Families by the types of their activations (``get_supported_act_dtypes`` of each method, 0.32 and 0.33)."""

_E5M2 = "fp8_e5m2"


def misfit(model: ModelFacts, command: StartCommand, release: EngineVersion) -> Misfit | None:
    """Return the first flag with which a release does not start for this model, and what to write; None without any.

    Whatever is not known to be refused is let through.
    """
    return next(_misfits(model, command, release), None)


def _misfits(model: ModelFacts, command: StartCommand, release: EngineVersion) -> Iterator[Misfit]:
    checkpoint, options = model.checkpoint, command.options
    family = _FAMILIES.get(checkpoint.method or "") if checkpoint.precision.is_quantized else None
    if command.split.expert_parallel and model.experts is None:
        # ``_verify_with_expert_parallelism`` of ``config/model.py``, read in 0.8 to 0.33.
        yield Misfit("--enable-expert-parallel", "set", f"{model.name} has no experts to spread: leave it out.")
    named = _FAMILIES.get(options.quantization or "")
    if family is not None and named is not None and named != family:
        fix = f"The checkpoint is quantized by {checkpoint.method}, and is read as that alone: leave it out."
        yield Misfit("--quantization", options.quantization, fix)
    for each in wanted_files(model, command):
        if each.is_found(model) is False:
            what = f"vLLM ends without {each.words}, which {model.name} does not have: leave it out."
            yield Misfit(each.flag, each.value, what)
    if options.precision is Precision.FP16 and refuses_float16(model, release):
        yield Misfit("--dtype", "float16", f"vLLM does not start {model.architecture} in float16: write bfloat16.")
    if options.precision is Precision.FP16 and family in _BF16_ALONE:
        yield Misfit("--dtype", "float16", f"Kernels for {checkpoint.method} compute in bfloat16 alone: leave it out.")
    made = family or (None if options.quantizes_to is None else "fp8")
    if options.precision is Precision.FP32 and made in _WITHOUT_FP32:
        yield Misfit("--dtype", "float32", f"Kernels for {made} compute in 16 bits: leave it out.")
    if command.cache_word == _E5M2 and family == "fp8":
        # ``layers/attention/attention.py``, read in 0.32.
        yield Misfit("--kv-cache-dtype", _E5M2, "An FP8 checkpoint takes no cache in this format: write fp8.")

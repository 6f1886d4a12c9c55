"""How a checkpoint stores each of its weights: ``quantization_config`` of a configuration file.

Sources for the fields: Hugging Face Transformers' quantization configurations, the compressed-tensors format, NVIDIA
ModelOpt's and AMD Quark's export formats, and vLLM 0.32's ``model_executor/layers/quantization`` that reads them.

Formats that the engine does not read itself, or no longer, with what to do.

Compare the words for a number format in a model's name with what its configuration says.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.model import CheckpointFacts, Weight
from plimsoll.domain.models.precision import PLAIN, Precision, Storage
from plimsoll.facts.models.fields import Fields, shown
from plimsoll.facts.models.quantization.assignment import Assignment, refuse_too_many
from plimsoll.facts.models.quantization.auto_round import auto_round
from plimsoll.facts.models.quantization.compressed_tensors import compressed_tensors
from plimsoll.facts.models.quantization.float8 import fbgemm_fp8, fp8, mxfp4
from plimsoll.facts.models.quantization.integer_groups import awq, bitsandbytes, gptq
from plimsoll.facts.models.quantization.modelopt import is_modelopt, modelopt
from plimsoll.facts.models.quantization.module_list import module_of
from plimsoll.facts.models.quantization.quark import quark
from plimsoll.facts.models.quantization.torchao import IMAGE_REMARK, torchao

GGUF = "GGUF"
"""The word for such files in names of repositories."""

GGUF_FILES = (
    "GGUF weights: config.json does not say how many bits they have. The engine reads such files itself up to release "
    "0.23; since 0.24 the plugin vllm-gguf-plugin does, which the engine's image does not hold. Take the model in "
    "safetensors, as FP8, AWQ, GPTQ or NVFP4"
)
"""Source: vLLM, ``quantization/gguf.py`` of 0.8 to 0.23 and its absence since 0.24 (pull request 39612)."""

UNSERVED = {
    "gguf": GGUF_FILES,
    "hqq": (
        "HQQ weights (quantization_config.quant_method): the engine reads them up to release 0.14 and no longer since "
        "0.16. Take the model as AWQ, GPTQ or FP8"
    ),
    "auto_round": (
        "the quantization method 'auto_round' (quantization_config.quant_method): the engine knows it as "
        "'auto-round'. Write that there"
    ),
    "intel/auto-round": (
        "the quantization method 'intel/auto-round' (quantization_config.quant_method): the engine knows it "
        "as 'auto-round'. Write that there"
    ),
}
"""The missing part, by ``quant_method``. Source: ``quantization/__init__.py`` of the releases 0.8 to 0.33."""


_FORMATS = frozenset(
    {"AUTOROUND", "AWQ", "BNB", "FP8", "GPTQ", "HQQ", "INT4", "INT8", "MXFP4", "MXFP8", "NVFP4"}
    | {"W4A4", "W4A8", "W4A16", "W8A8", "W8A16"}
)
"""Words that name the format of a checkpoint's weights."""

_UNQUANTIZED = frozenset({"BF16", "FP16", "FP32", "UNQUANTIZED", "DEQUANTIZED"})
"""Words that say that the weights were brought back to 16 bits, or never left them."""

_HEADS = frozenset({"ADAPTER", "DFLASH", "DRAFT", "EAGLE", "EAGLE3", "LORA", "MEDUSA", "SPECULATOR", "SPECULATORS"})
"""Words of drafts and adapters. They carry the name of the model that they were made for."""

_CACHE = "KV"
_FILES = frozenset({"config.json", "hf_quant_config.json"})
_BREAKS = re.compile(r"[^A-Za-z0-9]+")


def format_word(name: str) -> str | None:
    """Return the first word of a model's name that says how its weights are quantized; None if no word does.

    A word next to ``KV`` describes the cache (``-FP8-KV``). Paths count from their last folder or file.
    """
    words = _words(name)
    upper = [word.upper() for word in words]
    if _UNQUANTIZED.intersection(upper) or _HEADS.intersection(upper):
        return None
    about_cache = [each.startswith(_CACHE) for each in upper]
    return next(
        (
            word
            for place, word in enumerate(words)
            if upper[place] in _FORMATS and not any(about_cache[max(0, place - 1) : place + 2])
        ),
        None,
    )


def says(name: str, word: str) -> bool:
    """Whether a model's name has ``word``, in upper or lower case."""
    return word.upper() in (each.upper() for each in _words(name))


def name_remark(name: str, word: str, dtype: str) -> str:
    """Return the remark about a name that promises a format of which the configuration says nothing."""
    return (
        f"The name {name} says {word}, but its configuration has no quantization_config: the weights are counted in "
        f"{dtype}, as the engine would load them. If they are quantized, add the section from the checkpoint's "
        "config.json (or hf_quant_config.json); if not, the model needs more memory than its name suggests."
    )


def _words(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part and part not in _FILES]
    return [word for word in _BREAKS.split(parts[-1]) if word] if parts else []


_DTYPES = {
    "bfloat16": Precision.BF16,
    "float16": Precision.FP16,
    "half": Precision.FP16,
    "float32": Precision.FP32,
    "float": Precision.FP32,
}

Reader = Callable[[str, Fields, Fields], Assignment]
"""Reads one method's section (second) of a configuration (third) of the named model (first)."""

_METHODS: dict[str, Reader] = {
    "fp8": fp8,
    "deepseek_v4_fp8": fp8,
    "fbgemm_fp8": fbgemm_fp8,
    "awq": awq,
    "gptq": gptq,
    "mxfp4": mxfp4,
    "gpt_oss_mxfp4": mxfp4,
    "modelopt": modelopt,
    "modelopt_fp4": modelopt,
    "modelopt_mxfp8": modelopt,
    "modelopt_mixed": modelopt,
    "compressed-tensors": compressed_tensors,
    "bitsandbytes": bitsandbytes,
    "quark": quark,
    "auto-round": auto_round,
    "inc": auto_round,
    "torchao": torchao,
}
"""Readers by ``quant_method``."""

_OVERLOOKED = (
    "quantization_config names no quant_method: the engine takes no notice of it and makes unquantized layers, and so "
    "they are counted. If the checkpoint is quantized, name the method there (fp8, modelopt, compressed-tensors, ...)."
)


@dataclass(frozen=True, slots=True)
class StorageRule:
    """How a checkpoint stores its weights: as a whole, and each weight.

    ``assignment`` is None for a checkpoint that is not quantized.
    """

    checkpoint: CheckpointFacts
    assignment: Assignment | None = None

    def storage_of(self, layer: int | None, weight: Weight) -> Storage:
        """Storage of one weight.

        Args:
            layer: number of the layer; None outside the layers.
            weight: its name is below the layer, or from the root. Only linear weights can be quantized.

        Raises:
            UnsupportedModel: a pattern of the checkpoint is too complex to match.
        """
        plain = PLAIN[self.checkpoint.dtype]
        if self.assignment is None or not weight.linear or weight.inputs == 1:
            return plain
        scheme = self.assignment.scheme_of(module_of(layer, weight.name))
        return plain if scheme is None else scheme.storage


def storage_rule(name: str, fields: Fields) -> StorageRule:
    """Read how a checkpoint stores its weights.

    A 32-bit checkpoint is reported as it is published; vLLM's ``--dtype auto`` serves it in 16 bits
    (``config/model.py``, ``_resolve_auto_dtype``). For FP8 in blocks ``group_size`` is the longer edge of a block.

    Args:
        name: the model, for errors.
        fields: the language model's configuration, with ``quantization_config`` if the file has one.

    Raises:
        InvalidInput: a field is ill-typed.
        UnsupportedModel: the method, or the way it is used, has no memory law.
    """
    dtype, section = _dtype(fields), _section(fields)
    if section is None and says(name, GGUF):
        raise UnsupportedModel(name, GGUF_FILES)
    if section is None or _is_overlooked(section):
        return StorageRule(CheckpointFacts(precision=dtype, dtype=dtype))
    assignment = _reader(name, section)(name, section, fields)
    refuse_too_many(name, assignment)
    headline = assignment.headline
    checkpoint = CheckpointFacts(
        precision=headline.storage.precision,
        dtype=dtype,
        kv_precision=assignment.kv_precision,
        group_size=headline.group_size,
        min_capability=headline.min_capability,
        max_capability=headline.max_capability,
    )
    return StorageRule(checkpoint, assignment)


def quantization_remarks(name: str, fields: Fields, *, is_head: bool) -> tuple[str, ...]:
    """Return remarks for the user about a quantization that is ignored, missing, or needs another image.

    Args:
        name: the model.
        fields: the language model's configuration.
        is_head: whether it is a draft for another model, whose name it may carry.
    """
    section = _section(fields)
    if section is None:
        word = None if is_head else format_word(name)
        return () if word is None else (name_remark(name, word, _dtype(fields).value),)
    if _is_overlooked(section):
        return (_OVERLOOKED,)
    return (IMAGE_REMARK,) if _reader(name, section) is torchao else ()


def _section(fields: Fields) -> Fields | None:
    return fields.section("quantization_config") or fields.section("compression_config")


def _is_overlooked(section: Fields) -> bool:
    """Whether nothing names the method. Source: vLLM, ``transformers_utils/model_arch_config_convertor.py``."""
    return not section.text("quant_method") and not is_modelopt(section)


def _dtype(fields: Fields) -> Precision:
    """Return the type of unquantized weights. If the file names none, it is BF16, in which the engine serves."""
    key = fields.first(("torch_dtype", "dtype"))
    if key is None:
        return Precision.BF16
    dtype = _DTYPES.get((fields.text(key) or "").removeprefix("torch."))
    if dtype is None:
        raise fields.refuse(key, f"Use one of {', '.join(sorted(_DTYPES))}.")
    return dtype


def _reader(name: str, section: Fields) -> Reader:
    """Return the reader of a method by its name. ModelOpt's older exports have no method, only a producer."""
    method = (section.text("quant_method") or "").lower().replace("compressed_tensors", "compressed-tensors")
    if not method and is_modelopt(section):
        return modelopt
    reader = _METHODS.get(method)
    if method in UNSERVED:
        raise UnsupportedModel(name, UNSERVED[method])
    if reader is None:
        raise UnsupportedModel(name, f"the quantization method {shown(method)!r} (quantization_config.quant_method)")
    return reader

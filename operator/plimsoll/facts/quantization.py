"""How a checkpoint's weights are stored: ``quantization_config`` of a configuration file.

Sources for the fields: Hugging Face Transformers' quantization configurations, the compressed-tensors format, NVIDIA
ModelOpt's export format, and vLLM's ``model_executor/layers/quantization`` that reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.model import CheckpointFacts
from plimsoll.domain.precision import KvPrecision, Precision
from plimsoll.facts.fields import Fields, mapping_of, shown
from plimsoll.facts.unquantized_modules import quantized_parts

_DTYPES = {"bfloat16": Precision.BF16, "float16": Precision.FP16, "float32": Precision.FP32}
_FOUR_BITS = 4
_BYTE = 8
_MX_GROUP = 32
"""Weights that share a scale in MX formats. Source: OCP Microscaling Formats specification 1.0."""
_NVFP4_GROUP = 16
"""Weights that share a scale in NVFP4. Source: NVIDIA ModelOpt's NVFP4 export format."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """What one method says of the weights."""

    precision: Precision
    group_size: int | None = None
    kv_precision: KvPrecision | None = None
    ignored: tuple[str, ...] = ()
    lm_head: bool = False
    experts_only: bool = False


def checkpoint_facts(name: str, fields: Fields, *, layers: int, has_experts: bool) -> CheckpointFacts:
    """Read how the weights are stored.

    For FP8 in square blocks ``group_size`` is the edge of the block, the figure tensor parallelism has to divide by;
    the weights that share a scale are its square.

    Raises:
        InvalidInput: a field is ill-typed.
        UnsupportedModel: the method, or the way it is used, has no memory law.
    """
    dtype = _dtype(fields)
    section = fields.section("quantization_config")
    if section is None:
        if fields.has("compression_config"):
            raise UnsupportedModel(name, "the compression_config format of quantized weights")
        return CheckpointFacts(precision=dtype, dtype=dtype)
    stored = _stored(name, section)
    if stored.experts_only:
        if not has_experts:
            raise UnsupportedModel(name, f"{stored.precision} weights in a dense model")
        return CheckpointFacts(stored.precision, dtype, group_size=stored.group_size, quantizes_attention=False)
    parts = quantized_parts(name, stored.ignored, layers=layers, lm_head=stored.lm_head)
    return CheckpointFacts(
        precision=stored.precision,
        dtype=dtype,
        group_size=stored.group_size,
        kv_precision=stored.kv_precision,
        quantizes_lm_head=parts.lm_head,
        quantizes_attention=parts.attention,
    )


def _dtype(fields: Fields) -> Precision:
    """The type of what is not quantized; BF16, what the engine serves in, where the file names none."""
    key = fields.first(("torch_dtype", "dtype"))
    if key is None:
        return Precision.BF16
    dtype = _DTYPES.get((fields.text(key) or "").removeprefix("torch."))
    if dtype is None:
        raise fields.refuse(key, f"Use one of {', '.join(sorted(_DTYPES))}.")
    return dtype


def _stored(name: str, section: Fields) -> _Stored:
    method = section.text("quant_method") or _unnamed_method(section)
    reader = _METHODS.get(method)
    if reader is None:
        raise UnsupportedModel(name, f"the quantization method {shown(method)!r} (quantization_config.quant_method)")
    return reader(name, section)


def _unnamed_method(section: Fields) -> str:
    """ModelOpt's older exports leave the method out and sign as producer."""
    producer = section.section("producer")
    if producer is not None and producer.text("name") == "modelopt":
        return "modelopt"
    return ""


def _fp8(name: str, section: Fields) -> _Stored:
    if section.has("quant_algo") or section.has("moe_quant_algo"):
        raise UnsupportedModel(name, "weights of several precisions (quantization_config.quant_algo)")
    ignored = section.texts("modules_to_not_convert") + section.texts("ignored_layers")
    return _Stored(Precision.FP8, group_size=_block_edge(name, section, "weight_block_size"), ignored=ignored)


def _block_edge(name: str, section: Fields, key: str) -> int | None:
    block = section.items(key)
    if not block:
        return None
    edges = {edge for edge in block if isinstance(edge, int) and not isinstance(edge, bool) and edge > 0}
    if len(edges) != 1 or len(block) != 2:  # noqa: PLR2004
        raise UnsupportedModel(name, f"FP8 blocks that are not square (quantization_config.{key})")
    return edges.pop()


def _awq(name: str, section: Fields) -> _Stored:
    _four_bits(name, section, "AWQ", ("bits", "w_bit"))
    ignored = section.texts("modules_to_not_convert")
    return _Stored(Precision.AWQ, group_size=_group_size(section, ("group_size", "q_group_size")), ignored=ignored)


def _gptq(name: str, section: Fields) -> _Stored:
    _four_bits(name, section, "GPTQ", ("bits",))
    if section.has("dynamic") and section.values["dynamic"] != {}:
        raise UnsupportedModel(name, "GPTQ settings by module (quantization_config.dynamic)")
    ignored = section.texts("modules_to_not_convert")
    head = section.flag("lm_head", default=False)
    return _Stored(Precision.GPTQ, group_size=_group_size(section, ("group_size",)), ignored=ignored, lm_head=head)


def _four_bits(name: str, section: Fields, method: str, keys: Sequence[str]) -> None:
    bits = section.integer(keys)
    if bits != _FOUR_BITS:
        raise UnsupportedModel(name, f"{bits}-bit {method} (quantization_config.{keys[0]})")


def _group_size(section: Fields, keys: Sequence[str]) -> int | None:
    """Weights that share a scale; -1, the convention for one scale a channel, reads as None."""
    key = section.first(keys)
    if key is None or section.values[key] == -1:
        return None
    return section.integer((key,))


def _mxfp4(_name: str, _section: Fields) -> _Stored:
    """GPT-OSS's own export: the experts only. Source: vLLM, ``quantization/mxfp4.py``."""
    return _Stored(Precision.MXFP4, group_size=_MX_GROUP, experts_only=True)


def _modelopt(name: str, section: Fields) -> _Stored:
    algorithm = section.text("quant_algo") or ""
    ignored = section.texts("ignore") + section.texts("exclude_modules")
    kv_precision = _modelopt_kv(name, section)
    match algorithm.upper():
        case "FP8":
            return _Stored(Precision.FP8, kv_precision=kv_precision, ignored=ignored, lm_head=True)
        case "NVFP4":
            group = section.optional_integer(("group_size",)) or _NVFP4_GROUP
            return _Stored(Precision.NVFP4, group, kv_precision=kv_precision, ignored=ignored, lm_head=True)
        case _:
            raise UnsupportedModel(name, f"ModelOpt's {shown(algorithm)!r} (quantization_config.quant_algo)")


def _modelopt_kv(name: str, section: Fields) -> KvPrecision | None:
    """``kv_cache_quant_algo``, or ``kv_cache_scheme`` as a word or as a scheme."""
    key = section.first(("kv_cache_quant_algo", "kv_cache_scheme"))
    if key is None:
        return None
    if mapping_of(section.values[key]) is not None:
        return _kv_scheme(name, section, key)
    if (section.text(key) or "").upper() != "FP8":
        raise UnsupportedModel(name, f"a KV cache of another type than FP8 (quantization_config.{key})")
    return KvPrecision.FP8


def _kv_scheme(name: str, section: Fields, key: str) -> KvPrecision | None:
    scheme = section.section(key)
    if scheme is None:
        return None
    if (scheme.integer(("num_bits",)), scheme.text("type")) != (_BYTE, "float"):
        raise UnsupportedModel(name, f"a KV cache of another type than FP8 (quantization_config.{key})")
    return KvPrecision.FP8


def _compressed_tensors(name: str, section: Fields) -> _Stored:
    sparsity = section.section("sparsity_config")
    if sparsity is not None and sparsity.has("format") and sparsity.text("format") != "dense":
        raise UnsupportedModel(name, "sparse weights (quantization_config.sparsity_config)")
    precision, group_size = _only_scheme(name, section)
    return _Stored(
        precision,
        group_size=group_size,
        kv_precision=_kv_scheme(name, section, "kv_cache_scheme"),
        ignored=section.texts("ignore"),
        lm_head=True,
    )


def _only_scheme(name: str, section: Fields) -> tuple[Precision, int | None]:
    groups = section.section("config_groups")
    schemes = set()
    for key in groups.values if groups is not None else ():
        group = groups.section(key) if groups is not None else None
        if group is None or group.texts("targets") not in ((), ("Linear",)):
            raise UnsupportedModel(name, "quantization of chosen modules (quantization_config.config_groups: targets)")
        schemes.add(_scheme(name, group))
    if len(schemes) != 1:
        raise UnsupportedModel(name, "weights of several precisions (quantization_config.config_groups)")
    return schemes.pop()


def _scheme(name: str, group: Fields) -> tuple[Precision, int | None]:
    """One group's weights and activations, as a precision and what shares a scale.

    Four-bit integers with 16-bit activations are stored and run as GPTQ's are: packed eight to a word, one 16-bit scale
    a group. Source: vLLM, ``compressed_tensors_wNa16.py``.
    """
    weights = group.section("weights")
    if weights is None:
        raise UnsupportedModel(name, "quantized activations only (quantization_config.config_groups: weights)")
    bits, kind = weights.integer(("num_bits",)), weights.text("type") or "int"
    activations = group.section("input_activations")
    activation_bits = None if activations is None else activations.integer(("num_bits",))
    group_size = _group_size(weights, ("group_size",))
    match (bits, kind, activation_bits):
        case (8, "float", _):
            return Precision.FP8, _block_edge(name, weights, "block_structure") or group_size
        case (8, "int", 8):
            return Precision.INT8, group_size
        case (4, "int", None):
            return Precision.GPTQ, group_size
        case (4, "float", _) if group_size in (_NVFP4_GROUP, _MX_GROUP):
            return (Precision.NVFP4 if group_size == _NVFP4_GROUP else Precision.MXFP4), group_size
        case _:
            raise UnsupportedModel(
                name,
                f"{bits}-bit {shown(kind)} weights with {activation_bits or 16}-bit activations (compressed-tensors)",
            )


_METHODS: dict[str, Callable[[str, Fields], _Stored]] = {
    "fp8": _fp8,
    "awq": _awq,
    "gptq": _gptq,
    "mxfp4": _mxfp4,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "compressed-tensors": _compressed_tensors,
}
"""Readers by ``quant_method``."""

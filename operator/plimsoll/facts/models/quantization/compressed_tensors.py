"""The compressed-tensors format: groups of modules, each with its own scheme.

Source: vLLM, ``quantization/compressed_tensors/compressed_tensors.py`` (``get_scheme_dict``,
``_get_scheme_from_parts``) and ``compressed_tensors_moe/compressed_tensors_moe.py``.

One group of compressed-tensors: bits, type and strategy of weights and activations, as a scheme.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.facts.models.fields import Fields, shown
from plimsoll.facts.models.quantization import formats
from plimsoll.facts.models.quantization.assignment import Assignment, most_weights
from plimsoll.facts.models.quantization.formats import BYTE, FOUR_BITS, NVFP4_GROUP, QuantizationScheme
from plimsoll.facts.models.quantization.module_list import module_list

_CHANNEL, _GROUP, _TENSOR = "channel", "group", "tensor"


@dataclass(frozen=True, slots=True)
class _Numbers:
    """One tensor's number format; strategy as the format's own rule fills it in."""

    bits: int
    kind: str
    strategy: str
    group: int | None

    def __str__(self) -> str:
        return f"{self.bits}-bit {self.kind}"


def _tensor_scheme(name: str, group: Fields) -> QuantizationScheme:
    section = group.section("weights")
    if section is None:
        raise UnsupportedModel(name, "quantized activations only (quantization_config.config_groups: weights)")
    weights = _numbers(section)
    inputs = group.section("input_activations")
    activations = None if inputs is None else _numbers(inputs)
    scheme = _floats(section, weights, activations) if weights.kind == "float" else None
    if weights.kind == "int":
        scheme = _integers(section, weights, activations)
    if scheme is None:
        used = "16-bit" if activations is None else str(activations.bits) + "-bit"
        raise UnsupportedModel(
            name, f"{weights} weights by {weights.strategy} with {used} activations (compressed-tensors)"
        )
    return scheme


def _numbers(section: Fields) -> _Numbers:
    group = formats.group_size(section)
    fallback = _CHANNEL if section.values.get("group_size") == formats.WHOLE_ROW else _TENSOR
    strategy = section.text("strategy") or (_GROUP if group is not None else fallback)
    kind = str(shown(section.text("type") or "int"))
    return _Numbers(section.integer(("num_bits",)), kind, str(shown(strategy)), group)


def _floats(section: Fields, weights: _Numbers, activations: _Numbers | None) -> QuantizationScheme | None:
    match (weights.bits, weights.strategy, weights.group):
        case (4, _, 16) if activations is None or activations.group == NVFP4_GROUP:
            return formats.nvfp4()
        case (4, _, 32):
            return formats.MXFP4
        case (8, "group", 32):
            return formats.MXFP8
        case (8, "block", _):
            block = formats.block_shape(section, "block_structure")
            return None if block is None else formats.fp8_blocks(*block)
        case (8, "channel", _):
            return QuantizationScheme(formats.FP8_CHANNEL)
        case (8, "tensor", _):
            return QuantizationScheme(formats.FP8_TENSOR)
        case _:
            return None


def _integers(section: Fields, weights: _Numbers, activations: _Numbers | None) -> QuantizationScheme | None:
    """Integers of four or eight bits; channels and groups packed, INT8 with 8-bit activations as it is."""
    used = None if activations is None else (activations.bits, activations.kind)
    if weights.bits == BYTE and used == (BYTE, "int") and weights.strategy in {_CHANNEL, _TENSOR}:
        return QuantizationScheme(formats.INT8_CHANNEL if weights.strategy == _CHANNEL else formats.INT8_TENSOR)
    if weights.bits == FOUR_BITS and used == (BYTE, "float") and weights.strategy == _GROUP:
        return formats.four_bits_with_fp8_activations(weights.group)
    if weights.bits in {FOUR_BITS, BYTE} and used in {None, (BYTE, "int")} and weights.strategy in {_CHANNEL, _GROUP}:
        symmetric = section.flag("symmetric", default=True)
        return formats.packed_integers(weights.bits, weights.group, symmetric=symmetric)
    return None


_LINEAR_CLASSES = (
    "columnparallellinear",
    "mergedcolumnparallellinear",
    "qkvparallellinear",
    "rowparallellinear",
    "replicatedlinear",
)
_EXPERT_CLASSES = ("routedexperts", "fusedmoe")
_HEAD_CLASS = "parallellmhead"
_BY_CLASS = 1_000_000
"""Share of a group that takes a class of modules: larger than the share of any list of names."""


@dataclass(frozen=True, slots=True)
class _Group:
    scheme: QuantizationScheme
    names: tuple[str, ...]
    linear: bool
    experts: bool
    head: bool

    @property
    def share(self) -> int:
        """The estimated share of the model that the group takes, to find the headline."""
        return _BY_CLASS * (self.linear or self.experts) + len(self.names)


def compressed_tensors(name: str, section: Fields, _fields: Fields) -> Assignment:
    """Names first, in the order of the groups, then classes. The output projection is none of class ``Linear``."""
    _refuse_what_has_no_law(name, section)
    groups = tuple(_groups(name, section))
    if not groups:
        raise UnsupportedModel(name, "quantized weights without schemes (quantization_config.config_groups)")
    linear = next((group.scheme for group in groups if group.linear), None)
    return Assignment(
        headline=most_weights({group.scheme: group.share for group in groups}),
        left=module_list(name, section.texts("ignore")),
        rules=tuple((module_list(name, group.names), group.scheme) for group in groups if group.names),
        head=next((group.scheme for group in groups if group.head), None),
        experts=next((group.scheme for group in groups if group.experts), linear),
        others=linear,
        kv_precision=formats.kv_precision(name, section, ("kv_cache_scheme",)),
    )


def _refuse_what_has_no_law(name: str, section: Fields) -> None:
    sparsity = section.section("sparsity_config")
    if sparsity is not None and sparsity.has("format") and sparsity.text("format") != "dense":
        raise UnsupportedModel(name, "sparse weights (quantization_config.sparsity_config)")
    transforms = section.section("transform_config")
    if transforms is not None and transforms.values:
        raise UnsupportedModel(name, "rotated weights (quantization_config.transform_config)")


def _groups(name: str, section: Fields) -> Iterator[_Group]:
    groups = section.section("config_groups")
    if groups is None:
        return
    for key in groups.values:
        group = groups.section(key)
        if group is None:
            raise UnsupportedModel(name, f"an empty group (quantization_config.config_groups.{key[:40]})")
        targets = group.texts("targets") or ("Linear",)
        if len(targets) == 1 and targets[0].endswith("Attention"):
            continue  # the KV cache's scheme says the same
        yield _group(_tensor_scheme(name, group), targets)


def _group(scheme: QuantizationScheme, targets: tuple[str, ...]) -> _Group:
    classes = [target.lower() for target in targets if _is_class(target)]
    return _Group(
        scheme,
        names=tuple(target for target in targets if not _is_class(target)),
        linear=any(target in known for target in classes for known in _LINEAR_CLASSES),
        experts=any(target in known for target in classes for known in _EXPERT_CLASSES),
        head=any(target in _HEAD_CLASS for target in classes),
    )


def _is_class(target: str) -> bool:
    """Whether a target is a class. Classes are found by a part of their name, in upper or lower case."""
    known = (*_LINEAR_CLASSES, *_EXPERT_CLASSES, _HEAD_CLASS)
    return target[:1].isupper() and any(target.lower() in word for word in known)

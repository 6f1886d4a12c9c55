"""One group of compressed-tensors: bits, type and strategy of weights and activations, as a scheme."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.facts.models.fields import Fields, shown
from plimsoll.facts.models.quantization import formats
from plimsoll.facts.models.quantization.formats import BYTE, FOUR_BITS, NVFP4_GROUP, Scheme
from plimsoll.facts.models.quantization.group_size import block_shape, group_size

_CHANNEL, _GROUP, _TENSOR = "channel", "group", "tensor"
_WHOLE_ROW = -1


@dataclass(frozen=True, slots=True)
class _Numbers:
    """One tensor's number format; strategy as the format's own rule fills it in."""

    bits: int
    kind: str
    strategy: str
    group: int | None

    def __str__(self) -> str:
        return f"{self.bits}-bit {self.kind}"


def tensor_scheme(name: str, group: Fields) -> Scheme:
    """The scheme of one group.

    Raises:
        InvalidInput: a field is ill-typed.
        UnsupportedModel: the combination has no kernel, or no memory law.
    """
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
    group = group_size(section)
    fallback = _CHANNEL if section.values.get("group_size") == _WHOLE_ROW else _TENSOR
    strategy = section.text("strategy") or (_GROUP if group is not None else fallback)
    kind = str(shown(section.text("type") or "int"))
    return _Numbers(section.integer(("num_bits",)), kind, str(shown(strategy)), group)


def _floats(section: Fields, weights: _Numbers, activations: _Numbers | None) -> Scheme | None:
    match (weights.bits, weights.strategy, weights.group):
        case (4, _, 16) if activations is None or activations.group == NVFP4_GROUP:
            return formats.nvfp4()
        case (4, _, 32):
            return formats.MXFP4
        case (8, "group", 32):
            return formats.MXFP8
        case (8, "block", _):
            block = block_shape(section, "block_structure")
            return None if block is None else formats.fp8_blocks(*block)
        case (8, "channel", _):
            return Scheme(formats.FP8_CHANNEL)
        case (8, "tensor", _):
            return Scheme(formats.FP8_TENSOR)
        case _:
            return None


def _integers(section: Fields, weights: _Numbers, activations: _Numbers | None) -> Scheme | None:
    """Integers of four or eight bits; channels and groups packed, INT8 with 8-bit activations as it is."""
    used = None if activations is None else (activations.bits, activations.kind)
    if weights.bits == BYTE and used == (BYTE, "int") and weights.strategy in {_CHANNEL, _TENSOR}:
        return Scheme(formats.INT8_CHANNEL if weights.strategy == _CHANNEL else formats.INT8_TENSOR)
    if weights.bits == FOUR_BITS and used == (BYTE, "float") and weights.strategy == _GROUP:
        return formats.four_bits_with_fp8_activations(weights.group)
    if weights.bits in {FOUR_BITS, BYTE} and used in {None, (BYTE, "int")} and weights.strategy in {_CHANNEL, _GROUP}:
        symmetric = section.flag("symmetric", default=True)
        return formats.packed_integers(weights.bits, weights.group, symmetric=symmetric)
    return None

"""What the headers of a published checkpoint say: elements by number format. Peers that read headers are given this.

The tensors are those of the model's shapes as this project reads them from ``config.json``, whole and unsharded; so a
peer's error is its formula's, never its reader's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from plimsoll.domain.models.model import ModelFacts, Weight
from plimsoll.domain.models.precision import BITS_PER_BYTE, Precision, Storage
from plimsoll.domain.units import ceil_div

BYTES = {"F32": 4, "I32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "I8": 1, "U8": 1}
"""Bytes of one element by its name in a safetensors header."""

_PLAIN = {Precision.FP32: "F32", Precision.BF16: "BF16", Precision.FP16: "F16"}
_PACKED = {Precision.AWQ: "I32", Precision.GPTQ: "I32", Precision.INT8: "I8", Precision.FP8: "F8_E4M3"}
_SCALES = {4: "F32", 2: "BF16", 1: "U8"}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Elements of the published tensors by safetensors dtype; packed words count as one element."""

    elements: Mapping[str, int]

    @property
    def bytes(self) -> int:
        """The size of the weight files, but for their headers."""
        return sum(count * BYTES[name] for name, count in self.elements.items())


def checkpoint_of(facts: ModelFacts) -> Checkpoint:
    """The tensors of a model's checkpoint, multi-token-prediction layers included, as publishers store them."""
    elements: Counter[str] = Counter()
    for weight, copies in _weights(facts):
        for name, count in _tensors(weight.storage, weight.outputs, weight.inputs):
            elements[name] += count * weight.count * copies
    return Checkpoint(dict(elements))


def _weights(facts: ModelFacts) -> Iterator[tuple[Weight, int]]:
    once: Iterable[Weight] = (*facts.embedding, *facts.head, *(facts.encoder.weights if facts.encoder else ()))
    yield from ((weight, 1) for weight in once)
    counts = Counter(facts.order)
    for index, kind in enumerate(facts.kinds):
        yield from ((weight, counts[index]) for weight in kind.weights)
    for kind in facts.predictor:
        yield from ((weight, 1) for weight in kind.weights)


def _tensors(storage: Storage, outputs: int, inputs: int) -> Iterator[tuple[str, int]]:
    """A matrix as (dtype, elements) pairs: its values, then its scales and zero points."""
    if storage.precision in _PLAIN:
        yield _PLAIN[storage.precision], outputs * inputs
        return
    name = _PACKED.get(storage.precision, "U8")
    yield name, ceil_div(outputs * inputs * storage.bits, BITS_PER_BYTE * BYTES[name])
    if storage.scale_bytes:
        scales = ceil_div(outputs, storage.group_outputs or outputs) * ceil_div(inputs, storage.group_inputs or inputs)
        yield _SCALES[storage.scale_bytes], scales
        if storage.zero_point_bits:
            yield "I32", ceil_div(scales * storage.zero_point_bits, 32)

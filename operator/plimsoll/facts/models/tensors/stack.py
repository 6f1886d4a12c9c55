"""Find the decoder among a checkpoint's numbered lists of modules. Group tensors: decoder, outside it, towers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from plimsoll.facts.models.tensors.names import is_dropped, is_of_tower, place
from plimsoll.facts.models.tensors.tensor import LARGEST_BYTES, Tensor


@dataclass(slots=True)
class Groups:
    """Tensors by the part of the model; tensors of a layer have their names below the layer."""

    layers: list[list[Tensor]]
    outside: list[Tensor] = field(default_factory=list)
    tower: list[Tensor] = field(default_factory=list)


def grouped(tensors: Iterable[Tensor], layers: int) -> Groups | None:
    """Sort out what the engine loads.

    Modules of the decoder's list past the last layer predict tokens and are left out.

    Args:
        tensors: in any order; of two of one name the last counts.
        layers: how many the configuration declares.

    Returns:
        None where no list has as many layers, or the sizes are no checkpoint's.
    """
    loaded = {tensor.name: tensor for tensor in tensors if not is_dropped(tensor.name, len(tensor.shape))}
    if not _is_possible(loaded.values()):
        return None
    decoder = _decoder(loaded.values(), layers)
    if decoder is None:
        return None
    groups = Groups([[] for _ in range(layers)])
    root = decoder.rpartition(".")[0]
    for tensor in loaded.values():
        found = place(tensor.name)
        if found is None or found.stack != decoder:
            inside = root and tensor.name.startswith(f"{root}.")
            spoken = tensor.name.removeprefix(f"{root}.") if inside else tensor.name
            (groups.tower if is_of_tower(spoken) else groups.outside).append(tensor)
        elif found.number < layers:
            groups.layers[found.number].append(Tensor(found.below, tensor.dtype, tensor.shape))
    return groups


def _is_possible(tensors: Iterable[Tensor]) -> bool:
    total = 0
    for tensor in tensors:
        if any(size < 0 for size in tensor.shape):
            return False
        total += tensor.bytes
        if total > LARGEST_BYTES:
            return False
    return True


def _decoder(tensors: Iterable[Tensor], layers: int) -> str | None:
    """The largest list with enough layers; one with a tower's name only if there is no other."""
    sizes: dict[str, int] = defaultdict(int)
    last: dict[str, int] = defaultdict(int)
    for tensor in tensors:
        found = place(tensor.name)
        if found is not None:
            last[found.stack] = max(last[found.stack], found.number)
            sizes[found.stack] += tensor.bytes if found.number < layers else 0
    enough = [stack for stack in sizes if last[stack] >= layers - 1]
    return max(enough, key=lambda stack: (not is_of_tower(stack), sizes[stack]), default=None)

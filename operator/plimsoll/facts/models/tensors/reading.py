"""All weights of a model from its checkpoint's tensors, layer by layer and outside the layers.

Find the decoder among a checkpoint's numbered lists of modules. Group tensors: decoder, outside it, towers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from plimsoll.domain.models.model import CheckpointFacts, Sharding, Weight
from plimsoll.facts.models.tensors.matrices import Context, layer_weights, tower_weight, whole_weight
from plimsoll.facts.models.tensors.tensor import (
    FLOATS,
    LARGEST_BYTES,
    Tensor,
    is_dropped,
    is_of_tower,
    of_any_expert,
    place,
)


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
        None if no list has as many layers, or the sizes are no checkpoint's.
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


_TABLES = ("embed_tokens", "wte", "word_embeddings", "tok_embeddings", "embed_in", "embedding", "embeddings", "embed")
_HEADS = ("lm_head", "embed_out", "output_layer", "output", "output_projection", "head")
_POSITIONS = ("wpe", "position", "pos_")
_NORMS = ("norm", "ln_f", "ln_out")


@dataclass(frozen=True, slots=True)
class TensorWeights:
    """The weights that the engine loads: of each layer, and outside the layers.

    ``tied`` is true if there is no output projection. ``elements`` is the number of elements of the loaded tensors,
    None if some are packed.
    """

    layers: tuple[tuple[Weight, ...], ...]
    embedding: tuple[Weight, ...]
    head: tuple[Weight, ...]
    tower: tuple[Weight, ...]
    tied: bool
    elements: int | None


def weights_from_tensors(
    tensors: Iterable[Tensor],
    *,
    checkpoint: CheckpointFacts,
    hidden: int,
    heads: int,
    kv_heads: Sequence[int],
    experts: int,
    tied: bool | None,
    tower_heads: int = 0,
) -> TensorWeights | None:
    """Read the weights that the engine loads.

    Args:
        tensors: of all files of the checkpoint, in any order.
        checkpoint: how the configuration says they are stored.
        hidden: the model's width.
        heads: query heads.
        kv_heads: of each layer, 0 for one without any; as many as the configuration declares layers.
        experts: routed experts of a layer, 0 if there are none.
        tied: what the configuration says of the output projection, None if it says nothing.
        tower_heads: of a tower's attention, 0 if they are not known.

    Returns:
        None if the names hold no list of as many layers.
    """
    groups = grouped(tensors, len(kv_heads))
    if groups is None:
        return None
    stored_head = [tensor for tensor in groups.outside if _is_head(tensor)]
    is_tied = tied if tied is not None else not stored_head
    outside = [tensor for tensor in groups.outside if not (is_tied and _is_head(tensor))]
    context = Context(checkpoint, hidden, heads, 0, experts)
    layers = tuple(
        _layer(found, replace(context, kv_heads=kv)) for found, kv in zip(groups.layers, kv_heads, strict=True)
    )
    loaded = [*outside, *groups.tower, *(tensor for layer in groups.layers for tensor in layer)]
    return TensorWeights(
        layers=layers,
        embedding=tuple(_outside(tensor, checkpoint) for tensor in outside if not _is_behind(tensor)),
        head=tuple(_outside(tensor, checkpoint) for tensor in outside if _is_behind(tensor)),
        tower=_alike((tower_weight(tensor, checkpoint, tower_heads), 1) for tensor in groups.tower),
        tied=is_tied or not stored_head,
        elements=sum(tensor.elements for tensor in loaded) if all(t.dtype in FLOATS for t in loaded) else None,
    )


def _layer(tensors: Iterable[Tensor], context: Context) -> tuple[Weight, ...]:
    """Return the weights of a layer. It may have a thousand experts: tensors that are alike are read once."""
    alike = Counter((of_any_expert(tensor.name), tensor.dtype, tensor.shape) for tensor in tensors)
    return _alike(
        (weight, times) for tensor, times in alike.items() for weight in layer_weights(Tensor(*tensor), context)
    )


def _alike(weights: Iterable[tuple[Weight, int]]) -> tuple[Weight, ...]:
    """Merge equal weights, each given with how often it is there, into one with their count, by their names."""
    counts: Counter[Weight] = Counter()
    for weight, times in weights:
        if weight.parameters:
            counts[replace(weight, count=1)] += weight.count * times
    merged = (replace(weight, count=count) for weight, count in counts.items())
    return tuple(sorted(merged, key=attrgetter("name", "outputs", "inputs")))


def _outside(tensor: Tensor, checkpoint: CheckpointFacts) -> Weight:
    weight = whole_weight(tensor, checkpoint)
    if _is_table(tensor) or _is_head(tensor):
        name = "lm_head" if _is_head(tensor) else weight.name.rpartition(".")[2]
        return replace(weight, name=name, sharding=Sharding.VOCABULARY)
    return weight


def _is_table(tensor: Tensor) -> bool:
    parts = tensor.name.split(".")
    is_of_positions = any(word in tensor.name for word in _POSITIONS)
    named = any(part.startswith(_TABLES) for part in parts) and not is_of_positions
    return named and len(tensor.shape) > 1 and place(tensor.name) is None


def _is_head(tensor: Tensor) -> bool:
    """Whether it is the output projection or its bias. A name that only begins with the module's name is neither."""
    return any(part in _HEADS for part in tensor.name.split(".")[-3:]) and "norm" not in tensor.name


def _is_behind(tensor: Tensor) -> bool:
    if _is_head(tensor):
        return True
    return "embed" not in tensor.name and any(word in tensor.name for word in _NORMS)

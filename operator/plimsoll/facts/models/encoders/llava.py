"""LLaVA and related models: an image tower, read at one or more of its layers, and a small MLP.

Sources: vLLM's ``llava.py``, ``llava_next.py``, ``llava_next_video.py``, ``llava_onevision.py``, ``cohere2_vision.py``
and ``mistral3.py``; defaults from the configuration classes in Transformers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from plimsoll.domain.models.model import EncoderFacts, ModelFacts, Weight
from plimsoll.facts.models.encoders.images import ImageTower, image_tower
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.encoders.towers import TowerCut, down, layer_norm, tower_facts, up, whole
from plimsoll.facts.models.fields import Fields

_PINPOINTS = ((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008))
_LONGEST_EDGE = 100_000
_PROJECTOR = "multi_modal_projector"
_COHERE_TILES = 13
"""Twelve tiles and a thumbnail. Source: ``max_patches`` of Cohere2VisionImageProcessor in Transformers."""


def llava(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """LLaVA 1.5, and Pixtral in Transformers' format: one image, one square."""
    image, read = _tower(fields, facts, default_layer=-2)
    weights = (*image.weights, *_projector(fields, image.tower.hidden * read, facts.hidden, cut=TowerCut.DIVIDED))
    outputs = image.side**2 + (image.side if image.tower.gated else 0)
    return _facts(weights, image, squares=1, outputs=outputs)


def llava_next(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """LLaVA-NeXT: an image in tiles and a small copy of it; each line ends with a learned vector."""
    image, read = _tower(fields, facts, default_layer=-2)
    weights = (
        *image.weights,
        *whole("image_newline", facts.hidden, 1),
        *_projector(fields, image.tower.hidden * read, facts.hidden, cut=TowerCut.DIVIDED),
    )
    rows, columns = _most_tiles(fields, image)
    outputs = (rows * columns + 1) * image.side**2 + rows * image.side
    return _facts(weights, image, squares=rows * columns + 1, outputs=outputs)


def llava_next_video(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """LLaVA-NeXT-Video: frames, each pooled by ``spatial_pool_stride``."""
    image, read = _tower(fields, facts, default_layer=-2)
    weights = (*image.weights, *_projector(fields, image.tower.hidden * read, facts.hidden, cut=TowerCut.WHOLE))
    stride = size(fields, "spatial_pool_stride", default=2)
    return _facts(weights, image, squares=1, outputs=(image.side // stride) ** 2)


def llava_onevision(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """LLaVA-OneVision: tiles as in LLaVA-NeXT, shrunk to those of nine; its MLP is not divided."""
    image, read = _tower(fields, facts, default_layer=-1)
    weights = (
        *image.weights,
        *whole("image_newline", facts.hidden, 1),
        *_projector(fields, image.tower.hidden * read, facts.hidden, cut=TowerCut.WHOLE),
    )
    rows, columns = _most_tiles(fields, image)
    most = min(rows * columns, 9)
    return _facts(weights, image, squares=rows * columns + 1, outputs=(most + 1) * image.side**2 + 3 * image.side)


def cohere2_vision(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Command A Vision: SigLIP with its final norm, neighbouring patches joined, a gated MLP."""
    image = image_tower(facts.name, tower_section(fields, "vision_config"))
    joined = size(fields, "downsample_factor", default=2) ** 2
    width = size(fields, "alignment_intermediate_size", default=36864)
    weights = (
        *image.weights,
        *up(f"{_PROJECTOR}.linear_1", width, image.tower.hidden * joined, bias=True),
        *down(f"{_PROJECTOR}.linear_2", facts.hidden, width // 2, bias=True),
    )
    return _facts(weights, image, squares=_COHERE_TILES, outputs=_COHERE_TILES * image.side**2 // joined)


def mistral3(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Mistral Small 3.1 and later: Pixtral's tower, four patches merged into one."""
    image, read = _tower(fields, facts, default_layer=-1)
    hidden = image.tower.hidden
    merge = size(fields, "spatial_merge_size", default=2)
    weights = (
        *image.weights,
        *layer_norm(f"{_PROJECTOR}.norm", hidden, bias=False),
        *whole(f"{_PROJECTOR}.merging_layer", hidden, hidden * merge**2),
        *_projector(fields, hidden * read, facts.hidden, cut=TowerCut.DIVIDED, bias=False),
    )
    side = image.side // merge
    return _facts(weights, image, squares=1, outputs=side * (side + 1))


def _tower(fields: Fields, facts: ModelFacts, *, default_layer: int) -> tuple[ImageTower, int]:
    """The tower up to the deepest layer that is read, and how many layers are read."""
    section = tower_section(fields, "vision_config")
    built = size(section, "num_hidden_layers", default=24)
    read = _layers_read(fields, default_layer)
    deepest = max(layer if layer >= 0 else built + layer + 1 for layer in read)
    if not 0 < deepest <= built:
        raise fields.refuse("vision_feature_layer", f"Name layers of the {built} of the vision tower.")
    image = image_tower(facts.name, section, layers=deepest, post_norm=False)
    return image, len(read)


def _layers_read(fields: Fields, default: int) -> tuple[int, ...]:
    value = fields.values.get("vision_feature_layer")
    layers = (default,) if value is None else tuple(value) if isinstance(value, list | tuple) else (value,)
    whole_numbers = tuple(layer for layer in layers if isinstance(layer, int) and not isinstance(layer, bool))
    if len(whole_numbers) != len(layers) or not layers:
        raise fields.refuse("vision_feature_layer", "Give the number of a layer, or a list of them.")
    return whole_numbers


def _projector(fields: Fields, inputs: int, hidden: int, *, cut: TowerCut, bias: bool = True) -> Iterator[Weight]:
    biased = fields.flag("multimodal_projector_bias", default=bias)
    if cut is TowerCut.WHOLE:
        yield from whole(f"{_PROJECTOR}.linear_1", hidden, inputs, bias=biased)
        yield from whole(f"{_PROJECTOR}.linear_2", hidden, hidden, bias=biased)
        return
    yield from up(f"{_PROJECTOR}.linear_1", hidden, inputs, bias=biased)
    yield from down(f"{_PROJECTOR}.linear_2", hidden, hidden, bias=biased)


def _most_tiles(fields: Fields, image: ImageTower) -> tuple[int, int]:
    """Rows and columns of the largest resolution that ``image_grid_pinpoints`` lists."""
    listed = fields.items("image_grid_pinpoints") or _PINPOINTS
    grids = [
        (max(1, point[0] // image.image), max(1, point[1] // image.image)) for point in listed if _is_resolution(point)
    ]
    return max(grids, key=lambda grid: grid[0] * grid[1], default=(1, 1))


def _is_resolution(point: object) -> TypeGuard[tuple[int, int]]:
    edges = tuple(point) if isinstance(point, list | tuple) else ()
    pixels = [edge for edge in edges if isinstance(edge, int) and 0 < edge <= _LONGEST_EDGE]
    return len(edges) == len(pixels) == len(("height", "width"))


def _facts(weights: tuple[Weight, ...], image: ImageTower, *, squares: int, outputs: int) -> EncoderFacts:
    return tower_facts(image.tower, weights, positions=squares * image.positions, outputs=outputs)

"""CLIP, SigLIP and Pixtral: the image towers that many families use.

Sources: vLLM's ``clip.py``, ``siglip.py`` and ``pixtral.py`` (``PixtralHFVisionModel``); defaults from the
configuration classes of the same names in Transformers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.model import Weight
from plimsoll.facts.models.encoders.sections import model_type, size
from plimsoll.facts.models.encoders.towers import Tower, layer_norm, sized, tower_layers, whole
from plimsoll.facts.models.fields import Fields, shown

_PIXTRAL = Tower(hidden=1024, intermediate=4096, layers=24, heads=16, gated=True, norm_bias=False).with_biases(
    present=False
)
_CHANNELS = 3


@dataclass(frozen=True, slots=True)
class ImageTower:
    """A tower for one square of pixels: its weights and its sizes in pixels."""

    weights: tuple[Weight, ...]
    tower: Tower
    image: int
    patch: int
    class_token: bool

    @property
    def side(self) -> int:
        """Patches along one edge."""
        return self.image // self.patch

    @property
    def positions(self) -> int:
        """Positions of one square."""
        return self.side**2 + self.class_token


def image_tower(
    name: str, section: Fields, *, prefix: str = "vision_tower", layers: int | None = None, post_norm: bool = True
) -> ImageTower:
    """Return the tower that a section names, up to the deepest layer that the engine uses.

    Args:
        name: the model, for errors.
        section: the tower's section.
        prefix: prefix of the names of its weights.
        layers: how many layers the engine builds; None for all of them.
        post_norm: whether the final norm is built.

    Raises:
        InvalidInput: a size is ill-typed or absurd.
        UnsupportedModel: a tower of another type.
    """
    kind = model_type(section) or "clip_vision_model"
    match kind:
        case "clip_vision_model":
            return _clip(section, prefix, layers, post_norm=post_norm)
        case "siglip_vision_model" | "siglip" | "idefics3" | "idefics3_vision" | "smolvlm_vision":
            return siglip(section, prefix, layers=layers, post_norm=post_norm)
        case "pixtral":
            return pixtral(section, prefix, layers=layers)
        case _:
            raise UnsupportedModel(name, f"the vision tower {shown(kind)!r} (vision_config.model_type)")


def patches(prefix: str, tower: Tower, patch: int, *, bias: bool, channels: int = _CHANNELS) -> Iterator[Weight]:
    """The convolution that turns a patch of pixels into a position."""
    yield from whole(f"{prefix}.patch_embedding", tower.hidden, channels * patch**2, bias=bias)


def embeddings(
    prefix: str,
    tower: Tower,
    patch: int,
    positions: int,
    *,
    bias: bool,
    class_token: bool = False,
    channels: int = _CHANNELS,
) -> Iterator[Weight]:
    """The tables in front of the layers: that of the class token, the patches, and the positions if there are any."""
    if class_token:
        yield from whole(f"{prefix}.class_embedding", tower.hidden, 1)
    yield from patches(prefix, tower, patch, bias=bias, channels=channels)
    if positions:
        yield from whole(f"{prefix}.position_embedding", positions, tower.hidden)


def _clip(section: Fields, prefix: str, layers: int | None, *, post_norm: bool) -> ImageTower:
    tower = _sizes(section, layers)
    image, patch = size(section, "image_size", default=224), size(section, "patch_size", default=32)
    positions = (image // patch) ** 2 + 1
    weights = [
        *embeddings(prefix, tower, patch, positions, bias=False, class_token=True),
        *layer_norm(f"{prefix}.pre_layrnorm", tower.hidden),
        *tower_layers(f"{prefix}.encoder.layers", tower),
    ]
    if post_norm:
        weights += layer_norm(f"{prefix}.post_layernorm", tower.hidden)
    return ImageTower(tuple(weights), tower, image, patch, class_token=True)


def siglip(section: Fields, prefix: str, *, layers: int | None = None, post_norm: bool = True) -> ImageTower:
    """SigLIP, and Idefics' tower, which has the same structure.

    Raises:
        InvalidInput: a size is ill-typed or absurd.
    """
    tower = _sizes(section, layers)
    image, patch = size(section, "image_size", default=224), size(section, "patch_size", default=16)
    weights = [
        *embeddings(prefix, tower, patch, (image // patch) ** 2, bias=True),
        *tower_layers(f"{prefix}.encoder.layers", tower),
    ]
    if post_norm:
        weights += layer_norm(f"{prefix}.post_layernorm", tower.hidden)
    return ImageTower(tuple(weights), tower, image, patch, class_token=False)


def pixtral(section: Fields, prefix: str, *, layers: int | None = None) -> ImageTower:
    """Pixtral's tower as Transformers writes it: rotary positions, RMSNorm, no biases.

    Raises:
        InvalidInput: a size is ill-typed or absurd.
    """
    named = sized(section, _PIXTRAL)
    width = named.heads * size(section, "head_dim", default=named.hidden // named.heads)
    tower = replace(named, layers=layers or named.layers, attention_width=width)
    image, patch = size(section, "image_size", default=1024), size(section, "patch_size", default=16)
    weights = (
        *patches(prefix, tower, patch, bias=False),
        *layer_norm(f"{prefix}.ln_pre", tower.hidden, bias=False),
        *tower_layers(f"{prefix}.transformer.layers", tower),
    )
    return ImageTower(weights, tower, image, patch, class_token=False)


def _sizes(section: Fields, layers: int | None) -> Tower:
    """Read the sizes. The default width is 768, but 1152 in Idefics' configuration class."""
    hidden = 1152 if model_type(section).startswith(("idefics3", "smolvlm")) else 768
    tower = sized(section, Tower(hidden=hidden, intermediate=3072, layers=12, heads=12))
    return replace(tower, layers=layers or tower.layers)

"""One tensor of a checkpoint, as the header of its safetensors file describes it.

Read the name of a tensor: its layer, its module, and which of the module's tensors it is.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

from plimsoll.domain.units import ceil_div

FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
"""Types that the engine reads into its own 16- or 32-bit type."""

LARGEST_BYTES = 10**15
"""Largest accepted size of a checkpoint. Real checkpoints are far smaller; a larger list is a mistake."""

_BITS = re.compile(r"[A-Z]+(\d+)")
_POSSIBLE_BITS = frozenset({4, 6, 8, 16, 32, 64, 128})
_BITS_OF_OTHERS = 8
"""Bits of BOOL, and of an unknown type."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """Name, type and shape. ``dtype`` is spelled as in safetensors: BF16, F8_E4M3, I32.

    Source: the safetensors format, https://github.com/huggingface/safetensors#format.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Stored elements; packed weights count as the words they are."""
        return math.prod(self.shape)

    @property
    def bits(self) -> int:
        """Bits of one element: the number in the type's name."""
        return _bits(self.dtype)

    @property
    def bytes(self) -> int:
        """Bytes in the file."""
        return ceil_div(self.elements * self.bits, 8)


@lru_cache(maxsize=64)
def _bits(dtype: str) -> int:
    figure = _BITS.match(dtype)
    bits = int(figure[1][:4]) if figure is not None else 0
    return bits if bits in _POSSIBLE_BITS else _BITS_OF_OTHERS


_NUMBER = re.compile(r"\.(\d{1,6})(?=\.)")
_EXPERT = re.compile(r"((?:^|\.)(?!share)[^.]*experts\.)[0-9]+(?=\.)")
_WORDS = re.compile(r"[a-z]+|[A-Z][a-z]*")

_SUFFIXES = frozenset(
    {
        "weight", "bias", "qweight", "qzeros", "scales", "g_idx", "weight_packed", "weight_scale", "weight_scale_inv",
        "weight_scale_2", "weight_global_scale", "weight_zero_point", "weight_shape", "weight_g_idx", "input_scale",
        "input_scale_inv", "input_global_scale", "output_scale", "activation_scale", "k_scale", "v_scale", "kv_scale",
        "weight_scale_second", "qscales", "SCB", "weight_blocks", "weight_scales",
    }
)  # fmt: skip
"""Names of the tensors of one linear layer, in every format that vLLM 0.32 loads."""

_TAILS = ("_blocks", "_scales", "_scale_inv", "_scale", "_bias")
"""Name endings for scales and biases of stacked experts, which are parameters and not modules."""

MAIN = frozenset({"weight", "qweight", "weight_packed", "weight_blocks", "_blocks", ""})
"""Suffixes of the matrix itself."""

TRANSPOSED = frozenset({"qweight", "qzeros", "scales"})
"""Tensors of AWQ and GPTQ, stored inputs first."""

_DROPPED_WORDS = ("mtp", "nextn", "eagle", "medusa", "talker", "token2wav", "code2wav")
"""Parts that the engine does not load with the model: drafts, and the speech output of models that speak."""

_DROPPED_ENDS = ("rotary_emb.inv_freq", "masked_bias", "position_ids", "num_batches_tracked", ".weight_shape")
"""Buffers and metadata. The engine makes its own."""

_TOWER_WORDS = frozenset(
    {
        "vision", "visual", "vit", "vpm", "image", "img", "audio", "speech", "apm", "sam", "siglip", "clip", "tower",
        "projector", "connector", "resampler", "aligner", "merger", "mm", "multi", "multimodal", "encoder", "perceiver",
        "adapter", "mlp",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NumberedModule:
    """A numbered module: its list, its number, and the rest of the name below it."""

    stack: str
    number: int
    below: str


def place(name: str) -> NumberedModule | None:
    """Return the numbered module of a tensor, by the first number in its name; None outside every list of modules."""
    found = _NUMBER.search(name)
    if found is None:
        return None
    return NumberedModule(name[: found.start()], int(found[1]), name[found.end() + 1 :])


def module_of(name: str) -> tuple[str, str]:
    """The module, and which of its tensors this is: ``mlp.up_proj`` and ``weight_scale``."""
    module, separator, rest = name.partition(".weight.")
    if separator:
        return module, f"weight.{rest}"
    module, _, last = name.rpartition(".")
    if last in _SUFFIXES and module:
        return module, last
    for tail in _TAILS:
        if last.endswith(tail) and "experts" in module:
            return name.removesuffix(tail), "bias" if tail == "_bias" else tail
    return name, ""


def expert_of(module: str) -> tuple[str, bool]:
    """The module without the number of its expert, and whether it is a routed expert's: ``mlp.experts.up_proj``."""
    parts = module.split(".")
    routed = any(part.endswith("experts") and not part.startswith("share") for part in parts[:-1])
    return (".".join(part for part in parts if not part.isdigit()), True) if routed else (module, False)


def of_any_expert(name: str) -> str:
    """The name with 0 for the number of its routed expert. Experts are alike, so this name says as much."""
    return _EXPERT.sub(r"\g<1>0", name) if "experts." in name else name


def is_dropped(name: str, dimensions: int) -> bool:
    """Whether the engine ignores the tensor."""
    if name.endswith(_DROPPED_ENDS):
        return True
    if name.endswith("attn.bias") and dimensions > 2:  # noqa: PLR2004
        return True  # GPT-2's causal mask
    return any(part.startswith(_DROPPED_WORDS) for part in name.split("."))


def is_of_tower(name: str) -> bool:
    """Whether a name outside the decoder belongs to a vision or audio tower, or to its projector."""
    return not _TOWER_WORDS.isdisjoint(word.lower() for word in _WORDS.findall(name))

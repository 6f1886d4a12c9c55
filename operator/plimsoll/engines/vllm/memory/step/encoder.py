"""The memory of profiling a vision or audio tower: the pass itself, and its inputs and outputs during the step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.model import EncoderFacts, ModelFacts, VideoFacts
from plimsoll.domain.units import ceil_div
from plimsoll.engines.vllm.memory.laws.engine_law import EngineLaw, OutputPadding

WHOLE_TENSORS = 4
"""Tensors of the tower's width that every rank holds in full: residual, norm, output, rotary or position part."""

SPLIT_TENSORS = 4
"""Tensors of the tower's width that are divided by heads: queries, keys, values and their result."""

GATED_WHOLE_TENSORS, GATED_TENSORS = 5, 3
"""The same where the MLP has a gate: tensors of the tower's width that every rank holds in full, and tensors of the
MLP's width, which ranks divide (gate, up, product). Five is fitted to one start of Qwen2.5-VL-7B with the tower as
peak."""

_PATCH_ELEMENTS = 3 * 14 * 14
"""The values of one position where the tower does not give them: RGB patches of 14 x 14."""

_PATCH_EMBEDDINGS = ("patch_embed", "patch_conv")
"""The names of the projection of a patch's pixels (Qwen, SigLIP, CLIP; Pixtral)."""


@dataclass(frozen=True, slots=True)
class Profiled:
    """The items that the tower processes when the engine measures: ``items`` of equal size.

    Each has ``item_positions`` encoder positions, and ``kept_tokens`` tokens of its output stay until the step ends.
    """

    items: int
    item_positions: int
    kept_tokens: int

    @property
    def positions(self) -> int:
        """The encoder positions of all items."""
        return self.items * self.item_positions


def profiled(
    encoder: EncoderFacts, law: EngineLaw, *, batched_tokens: int, sequences: int, context_tokens: int
) -> Profiled:
    """Return the largest items: as many as fit one step's tokens and all sequences may contain, and at least one.

    The engine takes images or videos, whichever has more tokens. Sources: vLLM ``multimodal/encoder_budget.py`` (before
    0.14 ``multimodal/profiling.py``) and ``profile_run`` of ``v1/worker/gpu_model_runner.py``, read in 0.8 to 0.32.
    """
    assumed, seen, most = _largest_item(encoder, law, batched_tokens, context_tokens)
    budget = max(batched_tokens, assumed)
    brought = max(1, context_tokens // max(1, assumed))
    brought = sequences * (brought if most is None else min(most, brought))
    kept = {OutputPadding.NONE: seen.kept_tokens, OutputPadding.ITEM: assumed, OutputPadding.BUDGET: budget}
    return replace(seen, items=max(1, min(budget // max(1, assumed), brought)), kept_tokens=kept[law.output_padding])


_WHOLE_SINCE = MappingProxyType(
    {
        "Gemma4ForConditionalGeneration": EngineVersion(0, 20),
        "Gemma4UnifiedForConditionalGeneration": EngineVersion(0, 20),
    }
)
_USUALLY_WHOLE_SINCE = EngineVersion(0, 13)
"""The first release that does not cut the items of a class. Sources: vLLM, ``platforms/cuda.py``, ``config/model.py``,
``model_arch_config_convertor.py``, read in 0.9.2 to 0.32; encoder-decoders: ``config/scheduler.py``."""


def tokens_in_one_step(model: ModelFacts, release: EngineVersion, law: EngineLaw, context_tokens: int) -> int:
    """Return the tokens that a step must hold because they belong to one item; 0 where items are cut.

    The engine refuses an explicit step that is smaller. Source: vLLM, ``v1/core/encoder_cache_manager.py``
    (``compute_mm_encoder_budget``), read in 0.9.2 to 0.32.
    """
    if model.encoder is None or not model.encoder.whole_items:
        return 0
    if release < _WHOLE_SINCE.get(model.architecture, _USUALLY_WHOLE_SINCE):
        return 0
    return _largest_item(model.encoder, law, context_tokens, context_tokens)[0]


def _largest_item(
    encoder: EncoderFacts, law: EngineLaw, batched_tokens: int, context_tokens: int
) -> tuple[int, Profiled, int | None]:
    """Return the tokens that the engine assumes for the largest item, the item, and how many a request may contain."""
    image = Profiled(1, encoder.item_tokens, encoder.output_tokens)
    video = encoder.video
    if video is None:
        return encoder.output_tokens, image, encoder.most_images
    assumed = _steps(video, context_tokens) * video.step_tokens
    if law.overstates_videos:
        assumed = max(assumed, video.overstated_tokens)
    if assumed < encoder.output_tokens:
        return encoder.output_tokens, image, encoder.most_images
    steps = _steps(video, context_tokens if law.profiles_long_videos else batched_tokens)
    return assumed, Profiled(1, steps * video.step_positions, steps * video.step_tokens), encoder.most_videos


def _steps(video: VideoFacts, tokens: int) -> int:
    fitting = max(1, tokens // video.step_tokens)
    return fitting if video.most_steps is None else min(fitting, video.most_steps)


def encoder_peak_bytes(model: ModelFacts, split: Split, seen: Profiled, *, dtype_bytes: int) -> int:
    """Return the peak bytes of the tower's pass over all profiled items, with its inputs; 0 without a tower.

    Qwen3.5-27B on four cards (vLLM 0.19.0, TP4): 1.02 GiB computed for one item of 65,536 patches, 1.0 to 1.1 logged
    with a single sequence. Qwen2.5-VL-7B (0.23, one A100): 15.2 GiB for a video of 458,752 patches, 15.2 logged.
    """
    encoder = model.encoder
    if encoder is None:
        return 0
    items = ceil_div(seen.items, split.tensor_parallel) if encoder.is_copied else seen.items
    positions = encoder.item_tokens if encoder.one_by_one else items * seen.item_positions
    inputs = seen.positions * _patch_elements(encoder)
    return dtype_bytes * (positions * _width(encoder, split) + inputs)


def encoder_formula(model: ModelFacts, split: Split, seen: Profiled, *, peak_bytes: int, dtype_bytes: int) -> str:
    """Return the pass of ``peak_bytes`` as a formula: a rank's items, and the values that one position takes."""
    copied = model.encoder is not None and model.encoder.is_copied
    items = ceil_div(seen.items, split.tensor_parallel) if copied else seen.items
    values = peak_bytes // (items * seen.item_positions * dtype_bytes)
    return f"{items:,} items x {seen.item_positions:,} positions x {dtype_bytes} B x {values:,} values"


def _width(encoder: EncoderFacts, split: Split) -> int:
    """Return the values of one position that exist at the same time in the tower's widest layer."""
    ranks = 1 if encoder.is_copied else split.tensor_parallel
    width = WHOLE_TENSORS * encoder.hidden + (SPLIT_TENSORS * encoder.hidden + encoder.intermediate) // ranks
    if not encoder.is_gated:
        return width
    return max(width, GATED_WHOLE_TENSORS * encoder.hidden + GATED_TENSORS * encoder.intermediate // ranks)


def encoder_held_bytes(model: ModelFacts, seen: Profiled, *, dtype_bytes: int) -> int:
    """Return the bytes of the tower's inputs and outputs while the decoder is profiled; 0 without a tower.

    Gemma 3 (vLLM 0.19.0, H100): 0.18 and 0.20 GiB computed for 32 images, 0.20 and 0.23 more than text models logged.
    Qwen3-VL-30B (0.11.0): 153,600 tokens of four outputs, 2.3 GiB.
    """
    encoder = model.encoder
    if encoder is None:
        return 0
    pixels = seen.item_positions * _patch_elements(encoder)
    outputs = seen.kept_tokens * model.hidden * (1 + encoder.deepstack_levels)
    return seen.items * dtype_bytes * (pixels + outputs)


def _patch_elements(encoder: EncoderFacts) -> int:
    """Return the elements of one position's input: the width of the patch embedding."""
    embeddings = (weight for weight in encoder.weights if any(name in weight.name for name in _PATCH_EMBEDDINGS))
    return max((weight.inputs for weight in embeddings if weight.inputs > 1), default=_PATCH_ELEMENTS)

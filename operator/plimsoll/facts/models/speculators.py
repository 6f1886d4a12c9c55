"""Configurations of draft heads in the speculators format: the head's layers are in a separate section."""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll.facts.models.fields import mapping_of

_KIND = "speculators_model_type"
_LAYER = "transformer_layer_config"
_CLASSES = {"llama": "Eagle3LlamaForCausalLM", "qwen3": "Eagle3Qwen3ForCausalLM"}
_FIELDS = (
    "draft_vocab_size",
    "target_hidden_size",
    "norm_before_fc",
    "fc_norm",
    "eagle_aux_hidden_state_layer_ids",
    "torch_dtype",
    "dtype",
    "quantization_config",
)


def with_head_fields(values: Mapping[str, object]) -> Mapping[str, object]:
    """Return the configuration of a draft head as the engine reads it, and every other configuration unchanged.

    Source: vLLM, ``transformers_utils/configs/speculators``.
    """
    layer = mapping_of(values.get(_LAYER))
    if values.get(_KIND) != "eagle3" or layer is None:
        return values
    listed = _CLASSES.get(str(layer.get("model_type", "llama")))
    outside = {name: values[name] for name in _FIELDS if values.get(name) is not None}
    classes = values.get("architectures") if listed is None else [listed]
    return {**layer, **outside, "architectures": classes}

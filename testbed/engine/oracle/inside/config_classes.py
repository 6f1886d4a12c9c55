"""Configuration classes for model types whose own class lives in the model's repository.

vLLM has the model class but reads the configuration with code from the Hub, which is never downloaded here. A plain
class that keeps every key as an attribute does: these model classes read attributes and supply no hidden defaults.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

_MODEL_TYPES: Final = (
    "bailing_hybrid",
    "internlm2",
    "internvl_chat",
    "mimo",
    "minicpm",
    "minicpmv",
    "minimax_m3",
    "molmo",
    "orion",
    "phi3_v",
)

_BASES: Final = {"mimo": "Qwen2Config", "minicpmv": "Qwen2Config"}
"""What the class in the repository derives from where that matters: Qwen2's drops a window that is not to be used."""

_NESTED: Final = ("llm_config", "text_config", "vision_config")


def register_config_classes() -> None:
    """Teach vLLM's registry the model types above."""
    transformers: Any = import_module("transformers")
    config: Any = import_module("vllm.transformers_utils.config")

    def plain(model_type: str) -> Any:
        base: Any = getattr(transformers, _BASES.get(model_type, "PretrainedConfig"))

        def initialize(self: Any, **values: Any) -> None:
            for name in [name for name in _NESTED if isinstance(values.get(name), dict)]:
                setattr(self, name, nested(name, values.pop(name)))
            if hasattr(self, "llm_config"):
                # The name that vLLM looks for.
                self.text_config = self.llm_config
            base.__init__(self, **values)

        return type(f"Plain_{model_type}", (base,), {"model_type": model_type, "__init__": initialize})

    def nested(name: str, values: dict[str, Any]) -> Any:
        model_type = str(values.get("model_type", ""))
        if name == "vision_config" and model_type in {"clip", "siglip"}:
            values = values | {"model_type": f"{model_type}_vision_model"}
        if (values.get("rope_scaling") or {}).get("type") == "su":
            # The first name of what is now "longrope".
            values = values | {"rope_scaling": values["rope_scaling"] | {"type": "longrope"}}
        try:
            return transformers.AutoConfig.for_model(**values)
        except ValueError:
            return plain(model_type)(**values)

    for model_type in _MODEL_TYPES:
        config._CONFIG_REGISTRY[model_type] = plain(model_type)  # noqa: SLF001

"""Compare the words for a number format in a model's name with what its configuration says."""

from __future__ import annotations

import re

_FORMATS = frozenset(
    {"AUTOROUND", "AWQ", "BNB", "FP8", "GPTQ", "HQQ", "INT4", "INT8", "MXFP4", "MXFP8", "NVFP4"}
    | {"W4A4", "W4A8", "W4A16", "W8A8", "W8A16"}
)
"""Words that name the format of a checkpoint's weights."""

_UNQUANTIZED = frozenset({"BF16", "FP16", "FP32", "UNQUANTIZED", "DEQUANTIZED"})
"""Words that say that the weights were brought back to 16 bits, or never left them."""

_HEADS = frozenset({"ADAPTER", "DFLASH", "DRAFT", "EAGLE", "EAGLE3", "LORA", "MEDUSA", "SPECULATOR", "SPECULATORS"})
"""Words of drafts and adapters. They carry the name of the model that they were made for."""

_CACHE = "KV"
_FILES = frozenset({"config.json", "hf_quant_config.json"})
_BREAKS = re.compile(r"[^A-Za-z0-9]+")


def format_word(name: str) -> str | None:
    """Return the first word of a model's name that says how its weights are quantized; None where no word does.

    A word next to ``KV`` describes the cache (``-FP8-KV``). Paths count from their last folder or file.
    """
    words = _words(name)
    upper = [word.upper() for word in words]
    if _UNQUANTIZED.intersection(upper) or _HEADS.intersection(upper):
        return None
    about_cache = [each.startswith(_CACHE) for each in upper]
    return next(
        (
            word
            for place, word in enumerate(words)
            if upper[place] in _FORMATS and not any(about_cache[max(0, place - 1) : place + 2])
        ),
        None,
    )


def says(name: str, word: str) -> bool:
    """Whether a model's name has ``word``, in upper or lower case."""
    return word.upper() in (each.upper() for each in _words(name))


def name_remark(name: str, word: str, dtype: str) -> str:
    """Return the remark about a name that promises a format of which the configuration says nothing."""
    return (
        f"The name {name} says {word}, but its configuration has no quantization_config: the weights are counted in "
        f"{dtype}, as the engine would load them. If they are quantized, add the section from the checkpoint's "
        "config.json (or hf_quant_config.json); if not, the model needs more memory than its name suggests."
    )


def _words(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part and part not in _FILES]
    return [word for word in _BREAKS.split(parts[-1]) if word] if parts else []

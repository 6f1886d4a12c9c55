"""Formats that the engine does not read itself, or no longer, with what to do."""

from __future__ import annotations

GGUF = "GGUF"
"""The word for such files in names of repositories."""

GGUF_FILES = (
    "GGUF weights: config.json does not say how many bits they have. The engine reads such files itself up to release "
    "0.23; since 0.24 the plugin vllm-gguf-plugin does, which the engine's image does not hold. Take the model in "
    "safetensors, as FP8, AWQ, GPTQ or NVFP4"
)
"""Source: vLLM, ``quantization/gguf.py`` of 0.8 to 0.23 and its absence since 0.24 (pull request 39612)."""

UNSERVED = {
    "gguf": GGUF_FILES,
    "hqq": (
        "HQQ weights (quantization_config.quant_method): the engine reads them up to release 0.14 and no longer since "
        "0.16. Take the model as AWQ, GPTQ or FP8"
    ),
    "auto_round": (
        "the quantization method 'auto_round' (quantization_config.quant_method): the engine knows it as "
        "'auto-round'. Write that there"
    ),
    "intel/auto-round": (
        "the quantization method 'intel/auto-round' (quantization_config.quant_method): the engine knows it "
        "as 'auto-round'. Write that there"
    ),
}
"""The missing part, by ``quant_method``. Source: ``quantization/__init__.py`` of the releases 0.8 to 0.33."""

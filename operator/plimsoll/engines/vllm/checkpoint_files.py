"""Files of a model: those without which vLLM does not start with a flag, and whether a start downloads them all.

Sources: ``MistralConfigParser`` of ``transformers_utils/config.py``, ``_prepare_weights`` of
``model_loader/default_loader.py``, mistral-common's ``get_one_valid_tokenizer_file``, and ``get_quant_config`` of
``model_loader/weight_utils.py`` with the ``get_config_filenames`` of each method, 0.32 and 0.33.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.engines.starts import StartCommand


class Wanted(NamedTuple):
    """A flag with its value, and the files of which one must be there: in words, and as a pattern of their names.

    A catalogued checkpoint of 16 bits is known to be no quantized one.
    """

    flag: str
    value: str
    words: str
    names: re.Pattern[str]

    def is_found(self, model: ModelFacts) -> bool | None:
        """Whether the checkpoint has such a file; None where its files are not known."""
        if model.files is not None:
            return any(map(self.names.fullmatch, model.files))
        is_settled = self.flag == _QUANTIZATION and (model.source is FactsSource.CATALOG or self.names is _NONE)
        return False if is_settled else None


_QUANTIZATION = "--quantization"
_NONE = re.compile(r"(?!)")
_MISTRAL = "mistral"
_OF_MISTRAL: Mapping[str, tuple[str, re.Pattern[str]]] = MappingProxyType(
    {
        "--config-format": ("params.json", re.compile(r"params\.json")),
        "--load-format": ("consolidated*.safetensors", re.compile(r"consolidated.*\.safetensors")),
        "--tokenizer-mode": ("tekken.json or tokenizer.model", re.compile(r"tekken\.json|.*\.model(\.v\w+)?")),
    }
)
"""Flags with the value ``mistral``."""

_QUANTIZE, _QUANT = r".*quantize_config\.json", r".*quant_config\.json"
_OF_METHODS: Mapping[str, tuple[str, re.Pattern[str]]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("awq", "awq_marlin", "auto_awq"),
            ("quantize_config.json or quant_config.json", re.compile(f"{_QUANTIZE}|{_QUANT}")),
        ),
        **dict.fromkeys(
            ("gptq", "gptq_marlin", "auto_gptq", "moe_wna16"), ("quantize_config.json", re.compile(_QUANTIZE))
        ),
        **dict.fromkeys(
            ("modelopt", "modelopt_fp4", "modelopt_mixed", "modelopt_mxfp8"),
            ("hf_quant_config.json", re.compile(r".*hf_quant_config\.json")),
        ),
        **dict.fromkeys(
            ("inc", "auto-round"), ("quantization_config.json", re.compile(r".*quantization_config\.json"))
        ),
        **dict.fromkeys(("compressed-tensors", "quark", "torchao"), ("a quantization_config in config.json", _NONE)),
    }
)
"""Methods of ``--quantization`` that only read checkpoints, with the file that describes one whose ``config.json`` does
not; no file does that of the last three. ``mxfp8`` and others make numbers of their own where there is none."""


def wanted_files(model: ModelFacts, command: StartCommand) -> Iterator[Wanted]:
    """Yield what a command's flags look for in the repository of the model."""
    for flag, value in command.conditions:
        if value == _MISTRAL and flag in _OF_MISTRAL:
            yield Wanted(flag, value, *_OF_MISTRAL[flag])
    method = command.options.quantization or ""
    if method in _OF_METHODS and not model.checkpoint.precision.is_quantized:
        yield Wanted(_QUANTIZATION, method, *_OF_METHODS[method])


def unconfirmed(model: ModelFacts, command: StartCommand) -> tuple[str, ...]:
    """Return the flags whose files may be missing, in words for a doubt."""
    return tuple(
        f"{each.flag} {each.value} (needs {each.words})"
        for each in wanted_files(model, command)
        if each.is_found(model) is None
    )


_CACHE_VARIABLES = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE", "VLLM_USE_MODELSCOPE")
"""Variables of a user that make the Hub's client keep its files elsewhere, find them there, or not be used at all."""

_LOADING_FLAGS = ("--config", "--download", "--load", "--model-loader")
"""Beginnings of flags that change where from, or where to, weights are loaded."""


def fills_cache(arguments: Sequence[str], environment: Mapping[str, str | None]) -> bool:
    """Whether a start downloads the weights into the cache volume."""
    is_told = any(each.replace("_", "-").startswith(_LOADING_FLAGS) for each in arguments)
    return not is_told and not any(name in environment for name in _CACHE_VARIABLES)

"""Tables that the engine keeps in host memory: they are made without memory like all else, and counted for no GPU.

N-gram embeddings are such tables (DeepSeek-V4.1, Qwen4-Exp). What finds their rows asks a tokenizer, which nobody here
has; it holds 2 MB.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_STORAGES: set[int] = set()


def made_on_host(arguments: dict[str, Any]) -> bool:
    """Whether the arguments of a tensor's maker ask for pinned host memory; they then ask for none at all."""
    pinned = bool(arguments.pop("pin_memory", False))
    if pinned:
        arguments["device"] = "meta"
    return pinned


def remember(tensor: Any) -> Any:
    """Note that ``tensor`` lies in host memory; the tensor itself."""
    _STORAGES.add(_storage(tensor))
    return tensor


def is_on_host(tensor: Any) -> bool:
    """Whether ``tensor``, or what it is a view of, lies in host memory."""
    return _storage(tensor) in _STORAGES


def allow_host_tables() -> None:
    """Let layers take hold of host memory as a GPU sees it; before any model class is imported."""
    torch_utils: Any = import_module("vllm.utils.torch_utils")
    platform_utils: Any = import_module("vllm.utils.platform_utils")
    torch_utils.get_accelerator_view_from_cpu_tensor = lambda tensor: tensor
    platform_utils.is_uva_available = lambda: True
    nn: Any = import_module("torch").nn
    deepseek: Any = import_module("vllm.models.deepseek_v41.nvidia.model")
    deepseek.NgramHashState = type("NgramHashState", (nn.Identity,), {})


def _storage(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001 -- what has no memory has no address either

"""Stand-ins for modules that this environment lacks and that nothing here really calls.

vLLM's CPU build carries no CUDA kernels, and the environment has neither torchvision nor CUTLASS. Model classes import
them all the same, to name an operator or a preprocessor. A stand-in gives any name; calling one does nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

_KERNELS: Final = (
    "vllm._C_stable_libtorch",
    "vllm._flashkda_C",
    "vllm._moe_C_stable_libtorch",
    "vllm.vllm_flash_attn._vllm_fa2_C",
    "vllm.vllm_flash_attn._vllm_fa3_C",
)

_PACKAGES: Final = frozenset({"cutlass", "torchvision"})


def stand_in_for_kernels() -> None:
    """Make the CUDA build's extension modules importable; before anything of vLLM is imported."""
    for name in _KERNELS:
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        sys.modules[name] = module


def stand_in_for_packages() -> None:
    """Make the missing packages importable; after Transformers has looked for what is installed."""
    sys.meta_path.append(_Finder())


class _AnyName(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything


class _Anything(metaclass=_AnyName):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Take whatever the real thing takes."""

    def __call__(self, *_arguments: Any, **_named: Any) -> Any:
        return self


class _Package(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything


class _Finder(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname.partition(".")[0] not in _PACKAGES:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Package(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""

"""A stand-in for SGLang's kernels, which PyPI has for CUDA alone. The server imports them and, on a CPU, calls none."""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__version__ = "99.0"
"""SGLang refuses older kernels than its own."""


class Anything:
    """Stands for a function, a class or a table of types at import time."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return _anything(name)

    def __call__(self, *_: object, **__: object) -> Anything:
        """Return something that stands for anything again."""
        return Anything()

    def __mro_entries__(self, _: tuple[type, ...]) -> tuple[type, ...]:
        return (object,)


def _anything(name: str) -> Anything:
    if name.startswith("__"):
        raise AttributeError(name)
    return Anything()


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        return _anything(name)


class _Modules(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname.startswith(f"{__name__}.") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


sys.meta_path.append(_Modules())


def __getattr__(name: str) -> Any:
    return _anything(name)

"""Let vLLM take this machine for one with a GPU: its own CUDA platform, and the answers of an absent device.

The class stays vLLM's: which attention backend, cache layout and defaults a GPU gets is decided by its own code.
Only what a driver would be asked is answered here.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final

from testbed.engine.oracle.questions import CLAIMED_CARD, Card

_DEVICES: Final = 64
"""More than any split asked for: vLLM refuses to split over devices that it does not count."""

_CARD: Final = Card.from_text(os.environ[CLAIMED_CARD])

_PROPERTIES: Final = {
    "name": _CARD.name,
    "major": _CARD.capability[0],
    "minor": _CARD.capability[1],
    "total_memory": _CARD.memory_bytes,
    "multi_processor_count": 132,
    "shared_memory_per_block_optin": 232_448,
    "L2_cache_size": 50 * 2**20,
    "regs_per_multiprocessor": 65_536,
    "warp_size": 32,
    "is_integrated": False,
}
"""The card in the terms of ``torch.cuda.get_device_properties``; the rest is an H100 SXM's (white paper, 2022)."""

_PROPERTIES_OF_AMD: Final = {"gcnArchName": _CARD.gfx}
"""By the target, vLLM's ROCm platform tells AMD's cards apart; it looks when it is imported."""

_OPERATOR_SETS: Final = frozenset({"_C", "_flashkda_C", "_moe_C", "_vllm_fa2_C", "_vllm_fa3_C"})


def claim_gpu() -> None:
    """Install the platform; before anything of vLLM but its platforms is imported."""
    # An empty list of devices is how vLLM tells "none yet" (Triton stays on) from "none" (Triton goes off).
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    platforms: Any = import_module("vllm.platforms")
    # The CPU build is recognized by "cpu" in its version, and Triton turned off.
    platforms.vllm_version_matches_substr = lambda _substring: False
    _answer_for_torch()
    platforms._current_platform = _platform()  # noqa: SLF001
    _answer_for_kernels()
    _answer_for_triton()


def _platform() -> Any:
    interface: Any = import_module("vllm.platforms.interface")
    answers: dict[str, Any] = {
        "get_device_name": _CARD.name,
        "get_device_total_memory": _CARD.memory_bytes,
        "get_device_uuid": "GPU-0",
        "device_count": _DEVICES,
        "num_compute_units": _PROPERTIES["multi_processor_count"],
        "is_integrated_gpu": False,
    }
    if _CARD.gfx is None:
        base: Any = import_module("vllm.platforms.cuda").NonNvmlCudaPlatform
        answers["get_device_capability"] = interface.DeviceCapability(*_CARD.capability)
    else:
        base = import_module("vllm.platforms.rocm").RocmPlatform
    return type("ClaimedGpu", (base,), {name: _always(value) for name, value in answers.items()})()


def _always(value: Any) -> Any:
    def answer(_cls: type, device_id: int = 0) -> Any:
        del device_id
        return value

    return classmethod(answer)


def _answer_for_torch() -> None:
    torch: Any = import_module("torch")
    torch.cuda.get_device_capability = lambda _device=None: _CARD.capability
    torch.cuda.get_device_properties = lambda _device=None: SimpleNamespace(**_PROPERTIES, **_PROPERTIES_OF_AMD)
    torch.cuda.current_device = torch.accelerator.current_device_index = lambda: 0
    torch.cuda.device_count = lambda: _DEVICES
    torch.cuda.current_stream = lambda _device=None: _Stream()
    # Classes, not functions: Transformers annotates with them.
    torch.cuda.Stream = _Stream
    torch.cuda.Event = type("Event", (_Stream,), {})


class _Stream:
    cuda_stream: Final = 0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Take whatever a stream takes."""


def _answer_for_kernels() -> None:
    operators: Any = import_module("vllm._custom_ops")
    for name in dir(operators):
        if "support" in name and callable(getattr(operators, name)):
            setattr(operators, name, lambda *_arguments: True)
    operators.cutlass_scaled_mm_supports_fp4 = lambda capability: capability >= 100  # noqa: PLR2004 -- Blackwell
    for module in (import_module("vllm.utils.import_utils"), import_module("vllm.utils.deep_gemm")):
        for name in [name for name in dir(module) if name.startswith("has_deep_gemm")]:
            setattr(module, name, lambda *_arguments: True)
    _name_any_operator()


def _name_any_operator() -> None:
    """Let layers take hold of a kernel that this build does not register. None of them is ever run."""
    namespace: Any = import_module("torch._ops")._OpNamespace  # noqa: SLF001
    registered = namespace.__getattr__

    def lookup(self: Any, name: str) -> Any:
        try:
            return registered(self, name)
        except AttributeError:
            if name.startswith("__") or self.name not in _OPERATOR_SETS:
                raise
            return _Operator(name)

    namespace.__getattr__ = lookup


class _Operator:
    def __init__(self, name: str) -> None:
        self.__name__ = self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_arguments: Any, **_named: Any) -> int:
        # The one that is called while a model is built asks for the size of a workspace.
        return 0


def _answer_for_triton() -> None:
    compiler: Any = import_module("triton.backends.compiler")
    runtime: Any = import_module("triton").runtime
    torch: Any = import_module("torch")
    properties = {"max_shared_mem": 232_448, "multiprocessor_count": 132, "max_num_regs": 65_536, "warpSize": 32}
    runtime.driver.set_active(
        SimpleNamespace(
            get_current_target=lambda: compiler.GPUTarget("cuda", _CARD.capability[0] * 10 + _CARD.capability[1], 32),
            get_current_device=lambda: 0,
            get_current_stream=lambda _device=0: 0,
            get_active_torch_device=lambda: torch.device("cuda:0"),
            get_device_capability=lambda _device=0: _CARD.capability,
            get_benchmarker=lambda: lambda *_arguments, **_named: [0.0],
            utils=SimpleNamespace(get_device_properties=lambda _device=0: properties),
        )
    )

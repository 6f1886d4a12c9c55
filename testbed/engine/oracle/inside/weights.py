"""How many parameters and bytes does the built rank have?"""

from __future__ import annotations

from typing import Any

from testbed.engine.oracle.inside.host_memory import is_on_host
from testbed.engine.oracle.questions import Question


def weight_row(question: Question, model: Any) -> dict[str, Any]:
    """Totals of one rank's GPU, as created: before anything is repacked after loading. Tied tensors count once.

    ``buffer_bytes`` are what the modules keep beside their parameters (rotary tables above all); vLLM counts both into
    "model loading took".
    """
    parameters = [(name, tensor) for name, tensor in model.named_parameters() if not is_on_host(tensor)]
    row = {
        "class": type(model).__name__,
        "parameters": sum(tensor.numel() for _, tensor in parameters),
        "bytes": _bytes(tensor for _, tensor in parameters),
        "buffer_bytes": _bytes(model.buffers()),
    }
    if question.tensors:
        row["tensors"] = [[name, list(tensor.shape), str(tensor.dtype)[6:]] for name, tensor in parameters]
    return row


def _bytes(tensors: Any) -> int:
    return sum(plain.numel() * plain.element_size() for tensor in tensors for plain in _plain(tensor))


def _plain(tensor: Any) -> Any:
    """The tensors that one is made of: torchao's keep values, scales and zero points inside one parameter."""
    if not hasattr(tensor, "__tensor_flatten__"):
        return (tensor,)
    names, _ = tensor.__tensor_flatten__()
    return tuple(plain for name in names for plain in _plain(getattr(tensor, name)))

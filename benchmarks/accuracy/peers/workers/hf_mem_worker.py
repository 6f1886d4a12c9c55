"""Runs hf-mem itself, in its own environment, on repositories that exist only in this process.

Its HTTP client is given a transport that answers as the Hub would: the list of files, the header of one safetensors
file, and ``config.json``. One JSON object a line on stdin, one on stdout.
"""

from __future__ import annotations

import importlib
import json
import struct
import sys
import warnings
from typing import Any

httpx2: Any = importlib.import_module("httpx2")
hf_mem_run: Any = importlib.import_module("hf_mem.run")

_FILES = ("config.json", "model.safetensors")


def header(elements: dict[str, int]) -> bytes:
    """A safetensors header with one tensor of each number format."""
    tensors = {f"weights.{dtype}": {"dtype": dtype, "shape": [count]} for dtype, count in elements.items()}
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


def respond(question: dict[str, Any], path: str) -> Any:
    """The Hub's answer for one path of the question's repository."""
    if "/tree/" in path:
        return httpx2.Response(200, json=[{"type": "file", "path": name} for name in _FILES])
    if path.endswith("/config.json"):
        return httpx2.Response(200, json=question["config"])
    if path.endswith("/model.safetensors"):
        return httpx2.Response(206, content=header(question["elements"]))
    return httpx2.Response(404)


def attempts(question: dict[str, Any]) -> list[dict[str, Any]]:
    """As asked, then with the cache type that its message asks for, then without the cache."""
    asked = {"experimental": True, "max_model_len": question["max_model_len"], "batch_size": 1}
    return [asked | {"kv_cache_dtype": kind} for kind in (question["kv_cache_dtype"], "bfloat16")] + [{}]


def answer(question: dict[str, Any], client: Any) -> dict[str, Any]:
    """Bytes of weights, and of the KV cache of one longest request where hf-mem states it."""

    def offline(**options: Any) -> Any:
        options.pop("http2", None)
        return client(transport=httpx2.MockTransport(lambda request: respond(question, request.url.path)), **options)

    hf_mem_run.httpx2.AsyncClient = offline
    note = ""
    for options in attempts(question):
        try:
            result = hf_mem_run.run(model_id="some/model", **options)
        except Exception as error:  # noqa: BLE001 - whatever it cannot do is its answer
            note = note or str(error)[:160]
        else:
            return {"weights": result.memory, "kv": result.kv_cache} | ({"note": note} if note else {})
    return {"note": note}


def main() -> None:
    """Answer every line."""
    warnings.simplefilter("ignore")
    client = hf_mem_run.httpx2.AsyncClient
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line), client)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

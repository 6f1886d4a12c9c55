"""The tensors of a model on a hub, from the heads of its files: a few hundred KiB of many GiB."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx2
from huggingface_hub import get_session, hf_hub_url, hf_raise_for_status
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from huggingface_hub.utils._headers import build_hf_headers

from plimsoll.adapters.safetensors_headers import (
    INDEX_FILE,
    LENGTH_BYTES,
    SINGLE_FILE,
    files_of,
    header_length,
    parse_header,
)
from plimsoll.domain.units import KIB, MIB
from plimsoll.facts.tensors import Tensor

_FIRST_BYTES = 128 * KIB
"""Most files' headers end before; a longer one takes a second request."""

_LARGEST_INDEX_BYTES = 64 * MIB
_AT_ONCE = 8
_DEADLINE_SECONDS = 30.0
"""For all files together, on top of the limit for each answer."""

_FAILURES = (httpx2.HTTPError, OSError, ValueError, RecursionError)


@dataclass(frozen=True, slots=True)
class HubFiles:
    """Files of one model at one revision, and how to ask for them."""

    name: str
    revision: str | None
    token: str | None
    endpoint: str | None
    timeout_seconds: float


def hub_tensors(files: HubFiles, *, clock: Callable[[], float] = time.monotonic) -> list[Tensor] | None:
    """Every tensor of the checkpoint; None where one file cannot be read, which is no reason to fail."""
    deadline = clock() + _DEADLINE_SECONDS
    try:
        names = _names(files)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            heads = list(pool.map(lambda name: _head(files, name) if clock() < deadline else None, names))
    except (*_FAILURES, HFValidationError):
        return None
    if not heads or any(head is None for head in heads):
        return None
    return [tensor for head in heads if head is not None for tensor in head]


def _names(files: HubFiles) -> list[str]:
    """The files that the index names; the one file of a small model, which has no index."""
    try:
        index = _read(files, INDEX_FILE, _LARGEST_INDEX_BYTES)
    except HfHubHTTPError as error:
        if error.response.status_code != httpx2.codes.NOT_FOUND:
            raise
        return [SINGLE_FILE]
    document = json.loads(index)
    return (files_of(document) or []) if isinstance(document, dict) else []


def _head(files: HubFiles, name: str) -> list[Tensor] | None:
    start = _read(files, name, _FIRST_BYTES)
    length = header_length(start)
    if length is None:
        return None
    if len(start) < LENGTH_BYTES + length:
        start = _read(files, name, LENGTH_BYTES + length)
    return parse_header(start[LENGTH_BYTES : LENGTH_BYTES + length])


def _read(files: HubFiles, name: str, most: int) -> bytes:
    """The first ``most`` bytes of a file; a server that knows no ranges is cut off there."""
    url = hf_hub_url(files.name, name, revision=files.revision, endpoint=files.endpoint)
    headers = {
        **build_hf_headers(token=files.token),
        "Range": f"bytes=0-{most - 1}",
        "Accept-Encoding": "identity",
    }
    body = bytearray()
    with get_session().stream("GET", url, headers=headers, timeout=files.timeout_seconds) as response:
        hf_raise_for_status(response)
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) >= most:
                break
    return bytes(body[:most])

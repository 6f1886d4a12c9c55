"""Read the address of a model's page on the Hub as the model's name, because people copy it from their browser."""

from __future__ import annotations

import re
from typing import NamedTuple

_HUB = re.compile(r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/+(?P<path>[^?#]*)", re.IGNORECASE)
_OTHER_PAGES = ("api", "blog", "collections", "datasets", "docs", "papers", "spaces")
"""First parts of addresses that lead to no model."""

_WITH_REVISION = ("blob", "commit", "raw", "resolve", "tree")
"""Parts of an address that a revision follows."""

_MAIN = "main"


class HubAddress(NamedTuple):
    """The name of a model, and the revision that its address names; None for the default branch."""

    name: str
    revision: str | None = None


def read_hub_address(text: str) -> HubAddress | None:
    """Return the model of an address like ``https://huggingface.co/Qwen/Qwen3-8B/tree/main``; None for other texts."""
    match = _HUB.fullmatch(text.strip().partition("#")[0].partition("?")[0])
    if match is None:
        return None
    parts = [part for part in match["path"].split("/") if part]
    if not parts or parts[0].lower() in _OTHER_PAGES:
        return None
    return HubAddress("/".join(parts[:2]), _revision(parts[2:]))


def _revision(rest: list[str]) -> str | None:
    """Return the revision after the name, unless it is the default branch."""
    if len(rest) < len(("tree", "revision")) or rest[0] not in _WITH_REVISION or rest[1] == _MAIN:
        return None
    return rest[1]

"""Documents of an image in its registry -> the architectures that it has for Linux.

Source: https://github.com/opencontainers/image-spec/blob/v1.1.0/image-index.md, and ``manifest.md`` and ``config.md``
there. Docker's own documents have the same fields.
"""

from __future__ import annotations

import re
from typing import Any

INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)

MOST_ENTRIES = 1000
"""The most entries of an index that are read. Each is one build of the image; large indices have some 20."""

_ARCHITECTURE = re.compile(r"[a-z0-9]{1,16}")
"""Names of Go's architectures, which are those of node labels."""

_DIGEST = re.compile(r"sha(?:256:[0-9a-f]{64}|512:[0-9a-f]{128})")


def index_architectures(document: Any) -> tuple[str, ...] | None:
    """Return the architectures for Linux that an index names, sorted; None if the document is no index.

    Attestations, which name the platform ``unknown/unknown``, and what is not as it should be are left out.
    """
    entries = _member(document, "manifests")
    if not isinstance(entries, list):
        return None
    found = (_architecture(_member(each, "platform")) for each in entries[:MOST_ENTRIES])
    return tuple(sorted({each for each in found if each}))


def config_digest(document: Any) -> str:
    """Return the digest of the configuration that a manifest of one platform names; empty if it names none."""
    digest = _member(_member(document, "config"), "digest")
    return digest if isinstance(digest, str) and _DIGEST.fullmatch(digest) else ""


def config_architectures(document: Any) -> tuple[str, ...]:
    """Return the architecture that the configuration of an image names; empty if that is not for Linux."""
    found = _architecture(document)
    return (found,) if found else ()


def _architecture(platform: Any) -> str:
    name = _member(platform, "architecture")
    is_known = _member(platform, "os") == "linux" and isinstance(name, str) and _ARCHITECTURE.fullmatch(name)
    return name if is_known and name != "unknown" else ""


def _member(document: Any, name: str) -> Any:
    return document.get(name) if isinstance(document, dict) else None

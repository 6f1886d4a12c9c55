"""Embeddings that the engine keeps in host memory."""

from __future__ import annotations

from plimsoll.domain.units import GIB
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.traits import Architecture


def host_tables_remarks(fields: Fields, traits: Architecture) -> tuple[str, ...]:
    """Return remarks for the user about embeddings that the engine keeps in host memory."""
    size = traits.extra.table_bytes(fields)
    return (_on_host(size),) if size else ()


def _on_host(size: int) -> str:
    return (
        f"The engine keeps {size / GIB:.0f} GiB of n-gram embeddings of each replica in pinned host memory, divided "
        "over its tensor-parallel ranks: its pod requests them of the node. --engram-config can move "
        "them to the GPUs, where no estimate counts them."
    )

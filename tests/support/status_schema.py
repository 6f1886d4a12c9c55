"""How much a status may hold by its schema: the API server refuses a status with more, so nothing of it is written."""

from __future__ import annotations

from typing import Any

from plimsoll.api.crd.schema import root_schema


def most_items(*path: str) -> int:
    """Return the most entries of the list at this path of a status, in the names of the custom resource."""
    part: Any = root_schema()["properties"]["status"]
    for name in path:
        part = part["properties"][name]
    most: int = part["maxItems"]
    return most

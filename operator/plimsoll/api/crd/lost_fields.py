"""Fields that a client sent and that the API server dropped without a word, because no such field exists.

Only clients that ask for strict validation learn of them. ``kubectl apply`` keeps what it sent in an annotation, even
if it validates nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from plimsoll.api.crd.not_carried import is_refused
from plimsoll.api.crd.schema import Schema, root_schema

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation. Source: the Kubernetes documentation, "Declarative Management of Kubernetes Objects"."""

_MOST_NAMED = 5
_LONGEST_NAME = 80


def lost_fields(annotations: Mapping[str, Any]) -> str | None:
    """Return a sentence that names the dropped fields of the manifest that was applied last; None without any."""
    try:
        sent = json.loads(str(annotations.get(LAST_APPLIED, "null")))
    except (ValueError, RecursionError):
        return None
    lost = list(_unknown(sent, root_schema(), ""))
    if not lost:
        return None
    more = f" and {len(lost) - _MOST_NAMED} more" if len(lost) > _MOST_NAMED else ""
    return (
        f"The manifest that was applied last has {', '.join(lost[:_MOST_NAMED])}{more}, and the API server dropped it, "
        "because there is no such field: correct its name or remove it (kubectl apply --validate=strict shows all)."
    )


def _unknown(value: Any, schema: Schema, path: str) -> Iterator[str]:
    """Yield the paths of fields that the schema does not have. The schema bounds the depth."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, Mapping) and "properties" in schema:
        for name, each in value.items():
            child, below = schema["properties"].get(name), f"{path}.{name[:_LONGEST_NAME]}".removeprefix(".")
            if child is not None and not is_refused(child):
                yield from _unknown(each, child, below)
            elif each is not None:
                yield below
    elif isinstance(value, list) and "items" in schema:
        for index, each in enumerate(value):
            yield from _unknown(each, schema["items"], f"{path}[{index}]")

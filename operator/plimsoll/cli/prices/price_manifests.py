"""Own prices from the manifests of ConfigMaps. Only ``later`` imports this module: YAML imports slowly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from plimsoll.api.prices import parse_prices
from plimsoll.cli.reading.yaml_documents import Broken, read_documents
from plimsoll.domain.cluster.gpus import GpuType, Price
from plimsoll.domain.errors import PlimsollError
from plimsoll.facts.prices.repricing import OwnPrices


def manifest_prices(name: str, text: str, catalog: Sequence[GpuType]) -> tuple[OwnPrices, tuple[str, ...]] | None:
    """Return the prices of all ConfigMaps of a text with a message for each unusable entry; None without a ConfigMap.

    Raises:
        PlimsollError: a document is no YAML.
    """
    own: dict[str, Price | None] = {}
    complaints: list[str] = []
    maps = [body for body in _objects(name, text) if body.get("kind") == "ConfigMap"]
    for body in maps:
        head, data = _mapping(body.get("metadata")), _mapping(body.get("data"))
        source = f"{head.get('namespace', 'default')}/{head.get('name')}"
        found, wrong = parse_prices({str(key): str(each) for key, each in data.items()}, source, catalog)
        own |= found
        complaints += wrong
    return (own, tuple(complaints)) if maps else None


def _objects(name: str, text: str) -> Iterator[Mapping[str, Any]]:
    for document in read_documents(text, is_json=name.endswith(".json")):
        if isinstance(document, Broken):
            raise PlimsollError(f"{name}, document {document.number}: {document.why}")
        body = _mapping(document.value)
        items = body.get("items") if str(body.get("kind", "")).endswith("List") else None
        yield from (_mapping(item) for item in items) if isinstance(items, list) else (body,)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}

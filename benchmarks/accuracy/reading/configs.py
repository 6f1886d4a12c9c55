"""Which ``config.json`` a model name means: a carried file, or one of ``models.json`` built upon it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.accuracy.cases import BadRow
from benchmarks.accuracy.reading.rows import read_rows

_INDEXES = ("index.json", "model-configs-index.json", "_index.json", "index.jsonl")
_BESIDE = ("model_configs.jsonl", "{folder}-index.json", "{folder}-index.jsonl", "{folder}.jsonl")
"""Names of an index beside its folder."""

_INNER = ("quantization_config",)
"""Objects that are replaced as a whole rather than merged."""


@dataclass(frozen=True, slots=True)
class Found:
    """A configuration and the way it was found."""

    config: Mapping[str, Any]
    how: str


class ConfigShelf:
    """The configurations of one folder by model name and by file stem, and those built upon them."""

    def __init__(self, folder: Path, models: Path, bad: list[BadRow]) -> None:
        """Read the folder's files and its index, and the derivatives of ``models``."""
        self._by_name: dict[str, Mapping[str, Any]] = {}
        self._read_folder(folder, bad)
        document = json.loads(models.read_text(encoding="utf-8"))
        self._quantizations = {name: entry["config"] for name, entry in document["quantizations"].items()}
        self._derived = {entry["name"].casefold(): entry for entry in document["models"]}

    def __len__(self) -> int:
        """How many names are known from files."""
        return len(self._by_name)

    def find(self, name: str) -> Found | None:
        """The configuration of a model by its exact name, by its file stem, or derived as ``models.json`` says."""
        key = name.casefold()
        if (config := self._by_name.get(key)) is not None:
            return Found(config, "exact")
        if (entry := self._derived.get(key)) is None:
            return None
        base: Mapping[str, Any] = {}
        if base_name := entry.get("config_of"):
            found = self.find(base_name)
            if found is None:
                return None
            base = found.config
        config = _merged(base, entry.get("config", {}))
        if quantization := entry.get("quantization"):
            config = {**config, "quantization_config": self._quantizations[quantization]}
        return Found(config, f"as {base_name}" if base_name else "models.json")

    def _read_folder(self, folder: Path, bad: list[BadRow]) -> None:
        names = _index(folder, bad)
        for path in sorted(folder.glob("*.json")):
            if path.name in _INDEXES:
                continue
            try:
                config = json.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                bad.append(BadRow(path.name, f"not JSON: {error}"))
                continue
            if not isinstance(config, Mapping):
                bad.append(BadRow(path.name, "not a JSON object"))
                continue
            for name in {path.stem, path.stem.replace("__", "/"), names.get(path.name, path.stem)}:
                self._by_name[name.casefold()] = config


def _index(folder: Path, bad: list[BadRow]) -> dict[str, str]:
    """Model names by file name, from the folder's index or one beside the folder."""
    beside = [folder.with_name(name.format(folder=folder.name)) for name in _BESIDE]
    for path in (*(folder / name for name in _INDEXES), *beside):
        if path.is_file():
            rows = [row for _, row in read_rows(path, bad)]
            return {file: model for row in rows if (file := row.text("file")) and (model := row.text("model"))}
    return {}


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping) and key not in _INNER:
            merged[key] = _merged(merged[key], value)
        else:
            merged[key] = value
    return merged

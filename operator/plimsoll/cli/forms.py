"""Answers as data, in the form that ``-o`` names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

FORMAT: Final = 1
"""The version of the documents. It stays if fields are added, and rises if one goes or means another thing."""


def versioned(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer with the version of its form, as every document has it."""
    return {"formatVersion": FORMAT, **document}


def text_of(form: str, document: Mapping[str, Any]) -> str:
    """Return an answer as JSON, or as YAML if the form is not ``json``."""
    if form == "json":
        return f"{json.dumps(versioned(document), indent=2)}\n"
    import yaml  # noqa: PLC0415 - importing it takes as long as answering a plain question

    return str(yaml.safe_dump(versioned(document), sort_keys=False))

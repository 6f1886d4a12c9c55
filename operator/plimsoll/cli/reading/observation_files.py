"""Files of observations: what ``plimsoll learn --save`` writes and ``--observations`` reads.

An entry has the fields of an entry of ``status.observations``, and the terms that the engine logged separately.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from plimsoll.cli.reading.files import read_text, title
from plimsoll.domain.decisions.observations import Observation, Seen
from plimsoll.domain.errors import InvalidInput
from plimsoll.status.record.observations import observation_entry
from plimsoll.status.record.reading import read
from plimsoll.status.writing import document_of

_KEY = "observations"
_WRITE_ONE = "Name a file that `plimsoll learn --save` has written."
_MOST_BYTES = 1 << 50
"""The most bytes of a term that are believed."""


def entry_of(observation: Observation) -> dict[str, Any]:
    """Return an observation as data. Fields without a value are left out."""
    entry = document_of(observation_entry(Seen(observation, "")))
    terms = {
        "predictedWeightsBytes": observation.predicted_weights_bytes,
        "weightsBytes": observation.weights_bytes,
        "predictedActivationsBytes": observation.predicted_activations_bytes,
        "activationsBytes": observation.activations_bytes,
    }
    return {name: value for name, value in (*entry.items(), *terms.items()) if value is not None}


def read_observations(name: str, option: str) -> tuple[tuple[Observation, ...], int]:
    """Return the observations of a file, and the number of entries of another Plimsoll release, which are left out.

    Raises:
        InvalidInput: ``option`` names a file that cannot be read, or an entry cannot be used.
    """
    entries = _entries(name, option)
    found = [_observation(entry, index, name, option) for index, entry in enumerate(entries)]
    kept = tuple(each for each in found if each is not None)
    return kept, len(found) - len(kept)


def save_observation(name: str, observation: Observation) -> int:
    """Add an observation to a file, unless the file holds the same one. Return the number of its entries.

    Raises:
        InvalidInput: the file cannot be read or written, or is none of observations.
    """
    entries = _entries(name, "--save") if Path(name).exists() else []
    entry = entry_of(observation)
    kept = [*(each for each in entries if each != entry), entry]
    try:
        Path(name).write_text(json.dumps({_KEY: kept}, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidInput("--save", name, f"It cannot be written ({error.strerror}).") from error
    return len(kept)


def _entries(name: str, option: str) -> list[Any]:
    try:
        document = json.loads(read_text(name))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(option, title(name), f"It is no JSON. {_WRITE_ONE}") from error
    entries = document.get(_KEY) if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise InvalidInput(option, title(name), f"It has no list {_KEY!r}. {_WRITE_ONE}")
    return entries


def _observation(entry: Any, index: int, name: str, option: str) -> Observation | None:
    record = read({_KEY: [entry]})
    if record.complaints:
        why = record.complaints[0].partition(" is ignored: ")[2]
        raise InvalidInput(option, title(name), f"Entry {index + 1} cannot be read ({why}). {_WRITE_ONE}")
    return _with_terms(record.observations[0].observation, entry) if record.observations else None


def _with_terms(observation: Observation, entry: Mapping[str, Any]) -> Observation:
    """Add the logged terms that are whole numbers of a credible size."""
    return replace(
        observation,
        predicted_weights_bytes=_size(entry, "predictedWeightsBytes") or 0,
        weights_bytes=_size(entry, "weightsBytes"),
        predicted_activations_bytes=_size(entry, "predictedActivationsBytes") or 0,
        activations_bytes=_size(entry, "activationsBytes"),
    )


def _size(entry: Mapping[str, Any], name: str) -> int | None:
    value = entry.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST_BYTES:
        return value
    return None

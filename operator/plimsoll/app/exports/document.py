"""The content of a snapshot, and its JSON text.

In the text each object has a line of its own, so that people can search, compare and cut the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plimsoll.adapters.cluster.kinds import KINDS
from plimsoll.app.review.values import DeploymentWish
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import KIND, SNAPSHOT_KIND
from plimsoll.domain.units import from_rfc3339, to_rfc3339
from plimsoll.facts.cluster.host_reading import OTHERS, REQUESTS

Body = Mapping[str, Any]

FORMAT = 1
"""The version of the format. A release that cannot read an older format any more must say so in the changelog."""

SNAPSHOT = "the snapshot"
"""The place of an object that is in no file of the user."""

_AGAIN = "Write it again: plimsoll fleet export --save FILE."
_NAMED = {(kind.api_version, kind.kind): kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Export:
    """A snapshot of a cluster.

    Attributes:
        at: the time of the snapshot, in POSIX seconds.
        release: the release of Plimsoll that wrote it.
        settings: the operator's settings, as its environment variables.
        bodies: the objects, each with its ``apiVersion`` and ``kind``.
        notes: what could not be read.
        hashed: whether names are replaced by digests.
    """

    at: float
    release: str
    settings: Mapping[str, str] = field(default_factory=dict)
    bodies: Sequence[Body] = ()
    notes: tuple[str, ...] = ()
    hashed: bool = False


def objects_of(export: Export) -> list[DeploymentWish]:
    """Return every InferenceDeployment that is not being deleted: then a review has an answer for each of them."""
    return [
        DeploymentWish(
            SNAPSHOT,
            {
                "apiVersion": body["apiVersion"],
                "kind": body["kind"],
                "metadata": {name: body["metadata"][name] for name in ("name", "namespace")},
                "spec": body.get("spec") or {},
            },
            is_whole=True,
        )
        for body in export.bodies
        if body["kind"] == KIND and not body["metadata"].get("deletionTimestamp")
    ]


def text_of(export: Export) -> str:
    """Return the text of a snapshot."""
    head = {
        "kind": SNAPSHOT_KIND,
        "formatVersion": FORMAT,
        "release": export.release,
        "time": to_rfc3339(export.at),
        "hashedNames": export.hashed,
        "settings": dict(export.settings),
        "notes": list(export.notes),
    }
    fields = "".join(f"{json.dumps(name)}: {json.dumps(value)},\n" for name, value in head.items())
    objects = ",\n".join(json.dumps(body, separators=(",", ":")) for body in export.bodies)
    return f'{{\n{fields}"objects": [\n{objects}\n]\n}}\n'


def read_export(text: str, title: str) -> Export:
    """Return the snapshot of a text. ``title`` is the name of the file in messages.

    Raises:
        InvalidInput: the text is no whole snapshot, or a newer release wrote it. The message names file and field.
    """
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        fix = f"It is no JSON, or a part of it is missing ({error.msg}). {_AGAIN}"
        raise InvalidInput(f"{title}: {place}", error.doc[error.pos : error.pos + 40], fix) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(title, text[:40], f"It is no snapshot. {_AGAIN}") from error
    if not isinstance(found, Mapping) or found.get("kind") != SNAPSHOT_KIND:
        kind = found.get("kind") if isinstance(found, Mapping) else found
        raise InvalidInput(f"{title}: kind", kind, f"It must be {SNAPSHOT_KIND}. {_AGAIN}")
    return _Reader(found, title).export()


class _Reader:
    """Reads one field after the other. Every error begins with the file and the field."""

    def __init__(self, found: Mapping[str, Any], title: str) -> None:
        self._found = found
        self._title = title

    def export(self) -> Export:
        self._check_format()
        return Export(
            at=self._time(),
            release=str(self._typed("release", str, "Write the release of Plimsoll that wrote the file.")),
            settings=self._settings(),
            bodies=[self._object(index, each) for index, each in enumerate(self._listed("objects"))],
            notes=tuple(str(each) for each in self._listed("notes")),
            hashed=bool(self._typed("hashedNames", bool, "Write true or false.")),
        )

    def _check_format(self) -> None:
        number = self._typed("formatVersion", int, f"Write {FORMAT}.")
        if number > FORMAT:
            fix = f"A newer release of Plimsoll wrote it. This release reads {FORMAT}: use the newer release."
            raise self._bad("formatVersion", number, fix)
        if number != FORMAT:
            raise self._bad("formatVersion", number, f"This release reads {FORMAT}. {_AGAIN}")

    def _time(self) -> float:
        text = self._typed("time", str, "Write a time, e.g. 2026-01-02T03:04:05Z.")
        at = from_rfc3339(text)
        if at is None:
            raise self._bad("time", text, "Write a time, e.g. 2026-01-02T03:04:05Z.")
        return at

    def _settings(self) -> Mapping[str, str]:
        fix = "Write a mapping of strings."
        settings: Mapping[str, str] = self._typed("settings", dict, fix)
        for name, value in settings.items():
            if not isinstance(value, str):
                raise self._bad(f"settings.{name}", value, "Write a string: quote it.")
        return settings

    def _listed(self, name: str) -> Sequence[Any]:
        listed: Sequence[Any] = self._typed(name, list, f"Write a list. {_AGAIN}")
        return listed

    def _object(self, index: int, body: Any) -> Body:
        where = f"objects[{index}]"
        if not isinstance(body, dict):
            raise self._bad(where, body, "Write a mapping with apiVersion, kind and metadata.")
        kind = _NAMED.get((str(body.get("apiVersion")), str(body.get("kind"))))
        if kind is None:
            known = ", ".join(sorted(each.kind for each in KINDS))
            raise self._bad(f"{where}.kind", f"{body.get('apiVersion')} {body.get('kind')}", f"Use one of {known}.")
        for part in ("metadata", "spec", "status", "data"):
            if body.get(part) is not None and not isinstance(body[part], dict):
                raise self._bad(f"{where}.{part}", body[part], "Write a mapping.")
        self._check_sums(where, body)
        needed = ("namespace", "name") if kind.namespaced else ("name",)
        for name in needed:
            value = (body.get("metadata") or {}).get(name)
            if not isinstance(value, str) or not value:
                raise self._bad(f"{where}.metadata.{name}", value, f"Every {kind.kind} needs one. {_AGAIN}")
        return body

    def _check_sums(self, where: str, body: Body) -> None:
        """Check the summed requests of a pod without GPUs. Other objects have none."""
        sums = body.get(REQUESTS)
        if REQUESTS not in body:
            return
        if not isinstance(sums, dict) or not all(isinstance(sums.get(name), int) for name in ("cpu", "memory")):
            raise self._bad(
                f"{where}.{REQUESTS}", sums, "Write cpu in thousandths and memory in bytes, as whole numbers."
            )
        others = sums.get(OTHERS, {})
        if not isinstance(others, dict) or not all(isinstance(amount, int) for amount in others.values()):
            raise self._bad(f"{where}.{REQUESTS}.{OTHERS}", others, "Write whole numbers by the names of resources.")

    def _typed(self, name: str, kind: type, fix: str) -> Any:
        value = self._found.get(name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self._bad(name, value, fix)
        return value

    def _bad(self, field: str, value: object, fix: str) -> InvalidInput:
        return InvalidInput(f"{self._title}: {field}", value, fix)

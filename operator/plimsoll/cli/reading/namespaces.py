"""The option ``-n``: the namespace of objects that name none."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from plimsoll.cli.reading.documents import Located
from plimsoll.domain.errors import InvalidInput


def in_namespace(each: Located, namespace: str) -> Located:
    """Return an object with a namespace: its own, or this one if it names none."""
    metadata = each.body.get("metadata")
    if not isinstance(metadata, dict):
        return each
    return Located(each.place, {**each.body, "metadata": {"namespace": namespace, **metadata}})


def refuse_namespace_of_nothing(namespace: str | None, files: Sequence[str]) -> None:
    """Raise :class:`InvalidInput` for ``-n`` without files: it selects nothing of a cluster or a snapshot."""
    if namespace is not None and not files:
        fix = "It is for objects of -f that name no namespace, and selects nothing else: leave it out, or name files."
        raise InvalidInput("-n", namespace, fix)


def namespace_note(namespace: str | None, found: Sequence[Located]) -> str | None:
    """Return a note if ``-n`` has no effect, because every object names another namespace itself."""
    return no_effect_note(namespace, {_own(each) for each in found})


def no_effect_note(namespace: str | None, own: Collection[str]) -> str | None:
    """Return the note if objects have these namespaces (empty for one that names none) and not that of ``-n``."""
    if namespace is None or not own or "" in own or namespace in own:
        return None
    return f"-n {namespace} has no effect: every object of -f names its namespace ({', '.join(sorted(own))})."


def _own(each: Located) -> str:
    metadata = each.body.get("metadata")
    return str(metadata.get("namespace") or "") if isinstance(metadata, dict) else ""

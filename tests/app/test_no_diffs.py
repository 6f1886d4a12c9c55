"""Kopf's comparison of objects is off, so no handler may depend on it."""

from __future__ import annotations

import kopf

from plimsoll.app.no_diffs import NoDiffs
from plimsoll.app.operator import build_registry, configure
from plimsoll.app.settings import Settings
from plimsoll.app.shell import Shell


def test_no_handler_reads_changed_fields() -> None:
    registry = build_registry(Shell(Settings(), lambda: None))
    kinds = {name: getattr(registry, name).get_all_handlers() for name in ("_watching", "_changing", "_spawning")}
    assert kinds.pop("_watching")
    assert not any(kinds.values())


def test_kopf_compares_nothing() -> None:
    settings = kopf.OperatorSettings()
    configure(settings, Settings())
    storage = settings.persistence.diffbase_storage
    assert isinstance(storage, NoDiffs)
    body = kopf.Body({"metadata": {"name": "a"}, "spec": {"replicas": 1}})
    assert storage.build(body=body) == {}
    assert storage.fetch(body=body) is None

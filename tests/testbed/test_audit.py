"""Reading the audit log while it is written."""

from __future__ import annotations

import json
from pathlib import Path

from testbed.audit import SWEEPER, AuditLog


def line(user: str, verb: str, resource: str = "deployments", subresource: str | None = None) -> str:
    target = {"resource": resource, "namespace": "team", "name": "x"} | (
        {"subresource": subresource} if subresource else {}
    )
    event = {
        "user": {"username": user},
        "verb": verb,
        "objectRef": target,
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
        "requestObject": {"spec": {}},
    }
    return json.dumps(event) + "\n"


def test_finds_writes_by_user_verb_and_resource(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text(
        line("plimsoll", "patch") + line("plimsoll", "patch", subresource="status") + line("kwok", "delete")
    )
    log = AuditLog(path)

    assert [event.resource for event in log.events(user="plimsoll")] == ["deployments", "deployments/status"]
    assert [event.user for event in log.events(verbs={"delete"})] == ["kwok"]
    assert len(log.events(resource="deployments/status")) == 1


def test_who_empties_a_deleted_namespace_is_seen_only_by_name(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text(line("honest", "create") + line(SWEEPER, "deletecollection"))
    log = AuditLog(path)

    assert [event.user for event in log.events()] == ["honest"]
    assert [event.user for event in log.events(user=SWEEPER)] == [SWEEPER]


def test_reads_on_from_an_offset(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text(line("before", "create"))
    log = AuditLog(path)
    start = log.offset()
    with path.open("a") as more:
        more.write(line("after", "create"))

    assert [event.user for event in log.events(start)] == ["after"]


def test_leaves_a_half_written_line_for_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text(line("whole", "create") + line("half", "create")[:20])

    assert [event.user for event in AuditLog(path).events()] == ["whole"]


def test_a_log_that_does_not_exist_yet_is_empty(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "none.log")

    assert (log.offset(), log.events()) == (0, [])

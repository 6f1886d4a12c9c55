"""A release that renders pods differently leaves the engines of the one before alone, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.audit import AuditLog
from testbed.control_plane import ControlPlane
from testbed.fleet import mixed_fleet
from testbed.operator_process import OperatorProcess
from tests.support.installed import View, install, namespace_of, on_gpu, operator_writes
from tests.support.other_release import BEFORE_DIGESTS

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
NEXT = "3"


@pytest.fixture(scope="module")
def here() -> Iterator[View]:
    with ControlPlane() as control_plane:
        control_plane.apply(mixed_fleet())
        install(control_plane)
        with namespace_of(control_plane, "upgraded") as view:
            yield view


def release(here: View, played: str | None) -> OperatorProcess:
    """An operator of another release, or of this one."""
    if played is None:
        return OperatorProcess(here.control_plane)
    environment = {"OTHER_RELEASE": played, "PYTHONPATH": f"{ROOT}:{ROOT / 'operator'}"}
    return OperatorProcess(here.control_plane, environment=environment, module="tests.support.other_release")


def engines(here: View, name: str) -> set[str]:
    return {str(pod["metadata"]["uid"]) for pod in here.pods(name)}


def has_had_its_say(here: View, operator: OperatorProcess) -> None:
    """Let the operator serve something new: by then it has looked at everything else as well."""
    here.apply("newcomer", **on_gpu("a100-sxm-80gb"))
    here.wait_ready("newcomer")
    here.delete("inferencedeployments", "newcomer")
    here.wait(lambda: not here.all("pods", "newcomer"), "the newcomer gone")
    assert operator.is_running


@pytest.mark.parametrize("before", [BEFORE_DIGESTS, NEXT], ids=["upgrade", "roll back"])
def test_engines_run_on_across_releases_and_follow_their_spec(here: View, before: str) -> None:
    with release(here, before):
        here.apply("steady", replicas=2, **on_gpu("h100-sxm-80gb"))
        here.apply("changing", **on_gpu("h100-sxm-80gb"))
        here.wait_ready("steady")
        here.wait_ready("changing")
        steady, changing = engines(here, "steady"), engines(here, "changing")

    since = AuditLog(here.control_plane.audit_log).offset()
    with release(here, None) as operator:
        has_had_its_say(here, operator)
        assert engines(here, "steady") == steady
        assert engines(here, "changing") == changing
        written = operator_writes(here.control_plane, since, here.namespace)
        ours = [event for event in written if event.name.startswith(("steady-h100", "changing-h100"))]
        assert {event.verb for event in ours if event.resource == "deployments"} <= {"patch"}

        here.patch("steady", {"replicas": 3})
        here.wait(lambda: len(engines(here, "steady")) == 3, "one engine more")
        assert steady < engines(here, "steady"), "the others run on"
        here.patch("changing", {"contextLength": 8192})
        here.wait(lambda: engines(here, "changing").isdisjoint(changing), "an engine with the new context")
        here.wait_ready("changing")
        changing = engines(here, "changing")

    with release(here, NEXT) as operator:
        has_had_its_say(here, operator)
        assert steady < engines(here, "steady")
        assert engines(here, "changing") == changing
    for name in ("steady", "changing"):
        here.delete("inferencedeployments", name)
    here.wait(lambda: not here.all("pods"), "everything gone")

"""A release that renders pods differently leaves the engines of the one before alone, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.audit import AuditLog
from testbed.fleet import mixed_fleet
from testbed.operator_process import OperatorProcess
from tests.support import tables
from tests.support.installed import View, install, namespace_of, on_gpu, operator_writes
from tests.support.other_release import BEFORE_DIGESTS, NEXT, SPREADING
from tests.support.planes import borrowed_plane

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
UPGRADES = tables.drawn([BEFORE_DIGESTS, SPREADING], 1, "upgrades")
"""One of two older releases, another one each day; ``PLIMSOLL_ALL=1 make test-cluster`` takes both."""


@pytest.fixture(scope="module")
def here() -> Iterator[View]:
    with borrowed_plane(mixed_fleet()) as control_plane:
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


def packs(here: View, name: str) -> bool:
    """Whether every engine prefers nodes that other engines use."""
    affinities = [pod["spec"]["affinity"] for pod in here.pods(name)]
    return bool(affinities) and all("podAffinity" in affinity for affinity in affinities)


def templates(here: View) -> dict[str, Any]:
    """The pod template of every Deployment."""
    return {str(body["metadata"]["name"]): body["spec"]["template"] for body in here.all("deployments")}


@pytest.mark.parametrize("before", [*UPGRADES, NEXT])
def test_engines_run_on_across_releases_and_follow_their_spec(here: View, before: str) -> None:
    packed_before = before == NEXT
    with release(here, before):
        here.apply("steady", replicas=2, **on_gpu("h100-sxm-80gb"))
        here.apply("changing", **on_gpu("h100-sxm-80gb"))
        here.wait_ready("steady")
        here.wait_ready("changing")
        steady, changing = engines(here, "steady"), engines(here, "changing")
        rendered_before = templates(here)
        assert packs(here, "steady") == packed_before

    since = AuditLog(here.control_plane.audit_log).offset()
    with release(here, None) as operator:
        has_had_its_say(here, operator)
        assert engines(here, "steady") == steady
        assert engines(here, "changing") == changing
        here.wait(lambda: not here.all("deployments", "newcomer"), "the newcomer's Deployment gone")
        assert templates(here) == rendered_before, "no template is changed"
        written = operator_writes(here.control_plane, since, here.namespace)
        ours = [event for event in written if event.name.startswith(("steady-h100", "changing-h100"))]
        assert {event.verb for event in ours if event.resource == "deployments"} <= {"patch"}

        here.patch("steady", {"replicas": 3})
        here.wait(lambda: len(engines(here, "steady")) == 3, "one engine more")
        assert steady < engines(here, "steady"), "the others run on"
        assert packs(here, "steady") == packed_before, "the new engine is like the others"
        here.patch("changing", {"contextLength": 8192})
        here.wait(lambda: engines(here, "changing").isdisjoint(changing), "an engine with the new context")
        here.wait_ready("changing")
        changing = engines(here, "changing")
        assert packs(here, "changing"), "a change that restarts the engine brings the preference"

    with release(here, NEXT) as operator:
        has_had_its_say(here, operator)
        assert steady < engines(here, "steady")
        assert engines(here, "changing") == changing
    for name in ("steady", "changing"):
        here.delete("inferencedeployments", name)
    here.wait(lambda: not here.all("pods"), "everything gone")

"""Two operators with the same rights: one writes at any time, and the other takes over when it ends.

Every order of kills, pauses, cuts and jumps is in ``tests/app/test_leadership.py``, with the real election and a fake
API server. These tests show that the real process, its fence and the real API server keep to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from plimsoll.app.election.leadership import LAST_PASS_ANNOTATION
from plimsoll.domain.units import from_rfc3339
from testbed.audit import AuditLog
from testbed.control_plane import ControlPlane
from testbed.fleet import mixed_fleet
from testbed.operator_process import NAMESPACE, OperatorProcess
from tests.support import disguised
from tests.support.faulty import fault_proxy
from tests.support.honest import Honest, honest_nodes
from tests.support.installed import View, inference_deployment, install, on_gpu
from tests.support.planes import borrowed_plane
from tests.support.two_operators import LEASE, holder, lease, operator_as, share_rights, writes_of

pytestmark = pytest.mark.cluster

ONE, OTHER = "plimsoll-one", "plimsoll-other"
MINUTE = 60.0

QUICK = {
    "PLIMSOLL_LEASE_SECONDS": "8",
    "PLIMSOLL_LEASE_RENEW_DEADLINE_SECONDS": "7",
    "PLIMSOLL_LEASE_RETRY_SECONDS": "0.5",
}
"""A lease that runs out within seconds, though not because a machine with other tests is slow."""

LONG = {"PLIMSOLL_LEASE_SECONDS": "60", "PLIMSOLL_LEASE_RENEW_DEADLINE_SECONDS": "50"}
"""A lease that does not run out while a test waits for another holder: that one got it from the holder before."""


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    with borrowed_plane() as running:
        running.apply([*mixed_fleet(), *honest_nodes()])
        install(running)
        share_rights(running, (ONE, OTHER))
        yield running


@contextmanager
def side_by_side(
    control_plane: ControlPlane, leader: OperatorProcess, standby: OperatorProcess
) -> Iterator[tuple[OperatorProcess, OperatorProcess]]:
    """The leader, and the one that stands by. No lease of one test counts in the next."""
    with ExitStack() as stack:
        stack.callback(forget, control_plane)
        stack.enter_context(leader)
        control_plane.wait_until(lambda: holder(control_plane) == ONE, MINUTE, "the first one leading")
        stack.enter_context(standby)
        control_plane.wait_until(lambda: says_standby(standby), MINUTE, "the second one standing by")
        control_plane.wait_until(leader.ready, MINUTE, "the leader ready")
        assert not says_standby(leader)
        assert standby.healthy()
        assert [line for line in standby.log_lines() if "standby" in line.lower() and ONE in line]
        yield leader, standby


def forget(control_plane: ControlPlane) -> None:
    if control_plane.client.exists(LEASE):
        control_plane.client.send("DELETE", LEASE)


def says_standby(operator: OperatorProcess) -> bool:
    """Whether it calls itself ready, and says that it stands by."""
    status, body = operator.probe("/readyz")
    return status == 200 and "standby" in body.lower()


def offset(control_plane: ControlPlane) -> int:
    return AuditLog(control_plane.audit_log).offset()


def wait_led(control_plane: ControlPlane, by: str, timeout: float = MINUTE) -> None:
    control_plane.wait_until(lambda: holder(control_plane) == by, timeout, f"{by} leading")


def wait_ended(control_plane: ControlPlane, operator: OperatorProcess) -> None:
    control_plane.wait_until(lambda: not operator.is_running, MINUTE, "the process ended")


def last_pass(control_plane: ControlPlane) -> float:
    """When the holder last looked at all objects, as the lease says; 0 where it does not."""
    marks = control_plane.client.get(LEASE)["metadata"].get("annotations") or {}
    return from_rfc3339(str(marks.get(LAST_PASS_ANNOTATION))) or 0.0


class WallClocks:
    """Files with the seconds by which the wall clocks of processes are wrong."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def jump(self, name: str, hours: int) -> None:
        """In one step: a file that is read while it is written would be empty."""
        fresh = self._directory / "fresh"
        fresh.write_text(str(hours * 3600))
        fresh.rename(self._directory / name)

    def environment(self, name: str) -> dict[str, str]:
        """Let a process go by such a clock; see ``tests.support.disguised``."""
        self.jump(name, 0)
        return disguised.environment(**{disguised.CLOCK: str(self._directory / name)})


def test_a_paused_leader_writes_nothing_after_another_took_over_and_a_killed_one_is_followed(
    control_plane: ControlPlane, here: View, tmp_path: Path
) -> None:
    clocks, since = WallClocks(tmp_path), offset(control_plane)
    one, other = (
        operator_as(control_plane, name, environment=QUICK | clocks.environment(name), module=disguised.MODULE)
        for name in (ONE, OTHER)
    )
    with side_by_side(control_plane, one, other):
        here.apply("stays", **on_gpu("h100-sxm-80gb"))
        here.wait_ready("stays")
        before = here.pod_uids("stays")
        control_plane.wait_until(lambda: last_pass(control_plane), MINUTE, "a pass on the lease")

        for name, hours in ((ONE, 1), (OTHER, -1)):
            clocks.jump(name, hours)
        renewed_at = lease(control_plane)["renewTime"]
        control_plane.wait_until(lambda: lease(control_plane)["renewTime"] > renewed_at, MINUTE, "a renewal")
        control_plane.client.send("DELETE", LEASE)
        wait_led(control_plane, ONE)
        Honest(here).assert_served()
        assert says_standby(other)
        assert writes_of(control_plane, ONE, since)
        assert writes_of(control_plane, OTHER, since) == []

        # Paused with work in its hands: whatever it wanted to write is still to be written.
        control_plane.client.send(
            "POST",
            f"/apis/plimsoll.dev/v1alpha1/namespaces/{here.namespace}/inferencedeployments",
            inference_deployment("during", here.namespace),
        )
        one.pause()
        wait_led(control_plane, OTHER)
        since = offset(control_plane)
        here.wait_ready("during")
        one.resume()
        wait_ended(control_plane, one)
        assert one.exit_status != 0
        Honest(here).assert_served()
        assert writes_of(control_plane, ONE, since) == []
        assert writes_of(control_plane, OTHER, since)

        one.start().wait_healthy()
        control_plane.wait_until(lambda: says_standby(one), MINUTE, "the first one standing by")
        other.kill()
        wait_led(control_plane, ONE)
        Honest(here).assert_served()
        assert not says_standby(one)
        assert here.pod_uids("stays") == before


def test_of_two_versions_with_other_settings_one_writes_and_the_other_gets_the_lease_at_a_polite_end(
    control_plane: ControlPlane, here: View
) -> None:
    """Two price lists made two operators move everything to and fro, for ever."""
    for name, data in (("prices-a", {"l4-24gb": "9"}), ("prices-b", {"l4-24gb": "0.1"})):
        metadata = {"name": name, "namespace": NAMESPACE}
        control_plane.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}])
    since, price_list = offset(control_plane), "PLIMSOLL_PRICES_CONFIGMAP"
    newer = disguised.environment(**{disguised.VERSION: "9.9.9", price_list: "prices-b"})
    one = operator_as(control_plane, ONE, environment=LONG | {price_list: "prices-a"})
    other = operator_as(control_plane, OTHER, environment=LONG | newer, module=disguised.MODULE)
    with side_by_side(control_plane, one, other):
        assert [line for line in other.log_lines() if "version differs" in line and "9.9.9" in line]
        here.apply("priced", gpu={"allow": ["l4-24gb", "l40s-48gb"]})
        here.wait_ready("priced")
        before = here.pod_uids("priced")
        Honest(here).assert_served()
        assert writes_of(control_plane, OTHER, since) == []
        statuses = [e for e in writes_of(control_plane, ONE, since) if e.name == "priced" and "status" in e.resource]
        assert len(statuses) < 15

        one.stop()
        assert one.exit_status == 0, "\n".join(one.log_lines()[-30:])
        wait_led(control_plane, OTHER, timeout=40)
        Honest(here).assert_served()
        assert here.pod_uids("priced") == before


def test_a_leader_that_is_cut_off_ends_itself(control_plane: ControlPlane, here: View) -> None:
    with fault_proxy(control_plane) as proxy:
        one = operator_as(control_plane, ONE, proxy=proxy, environment=QUICK)
        with side_by_side(control_plane, one, operator_as(control_plane, OTHER, environment=QUICK)):
            with proxy.partition():
                wait_led(control_plane, OTHER)
                since = offset(control_plane)
                wait_ended(control_plane, one)
                assert one.exit_status != 0
            Honest(here).assert_served()
            assert writes_of(control_plane, ONE, since) == []
            assert writes_of(control_plane, OTHER, since)

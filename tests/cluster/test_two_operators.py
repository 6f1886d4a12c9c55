"""Two operators with the same rights: one writes at any time, and the other takes over when it ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from plimsoll.app.leadership import LAST_PASS_ANNOTATION
from plimsoll.domain.times import from_rfc3339
from testbed.audit import AuditLog
from testbed.control_plane import ControlPlane
from testbed.fleet import mixed_fleet
from testbed.operator_process import NAMESPACE, OperatorProcess
from tests.support import disguised
from tests.support.faulty import fault_proxy
from tests.support.honest import Honest, honest_nodes
from tests.support.installed import View, install, on_gpu
from tests.support.two_operators import LEASE, holder, lease, operator_as, share_rights, writes_of

pytestmark = pytest.mark.cluster

ONE, OTHER = "plimsoll-one", "plimsoll-other"
AFTER_A_KILL_SECONDS = 20.0
AFTER_A_GOODBYE_SECONDS = 2.0
SLACK_SECONDS = 3.0
"""For a machine that runs other tests at the same time."""


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    with ControlPlane() as running:
        running.apply([*mixed_fleet(), *honest_nodes()])
        install(running)
        share_rights(running, (ONE, OTHER))
        yield running


@pytest.fixture
def pair(control_plane: ControlPlane) -> Iterator[tuple[OperatorProcess, OperatorProcess]]:
    """The leader, and the one that stands by."""
    with ExitStack() as stack:
        leader = stack.enter_context(operator_as(control_plane, ONE))
        control_plane.wait_until(lambda: holder(control_plane) == ONE, 20, "the first one leading")
        standby = stack.enter_context(operator_as(control_plane, OTHER))
        control_plane.wait_until(lambda: says_standby(standby), 20, "the second one standing by")
        yield leader, standby
        for process in (leader, standby):
            process.resume()
    forget(control_plane)


def forget(control_plane: ControlPlane) -> None:
    """No lease from one test shall count in the next."""
    if control_plane.client.exists(LEASE):
        control_plane.client.send("DELETE", LEASE)


def says_standby(operator: OperatorProcess) -> bool:
    """Whether it calls itself ready, and says that it stands by."""
    status, body = operator.probe("/readyz")
    return status == 200 and "standby" in body.lower()


def offset(control_plane: ControlPlane) -> int:
    return AuditLog(control_plane.audit_log).offset()


def taken_over(control_plane: ControlPlane, limit: float) -> float:
    """Seconds until the second one holds the lease."""
    began = time.monotonic()
    control_plane.wait_until(lambda: holder(control_plane) == OTHER, limit, "the second one leading")
    return time.monotonic() - began


def test_one_writes_and_the_other_waits_and_says_so(
    control_plane: ControlPlane, pair: tuple[OperatorProcess, OperatorProcess], here: View
) -> None:
    leader, standby = pair
    since = 0  # also what was written while they started
    Honest(here).assert_served()
    assert writes_of(control_plane, ONE, since)
    assert writes_of(control_plane, OTHER, since) == []
    assert leader.ready()
    assert not says_standby(leader)
    assert says_standby(standby)
    assert standby.healthy()
    assert [line for line in standby.log_lines() if "standby" in line.lower() and ONE in line]


@pytest.mark.usefixtures("pair")
def test_the_lease_says_when_its_holder_last_looked_at_all_objects(control_plane: ControlPlane, here: View) -> None:
    here.apply("served", **on_gpu("h100-sxm-80gb"))
    here.wait_ready("served")

    def last_pass() -> float:
        marks = control_plane.client.get(LEASE)["metadata"].get("annotations") or {}
        return from_rfc3339(str(marks.get(LAST_PASS_ANNOTATION))) or 0.0

    control_plane.wait_until(last_pass, 20, "a pass")
    before = last_pass()
    assert 0 <= time.time() - before < 60
    here.apply("later", **on_gpu("h100-sxm-80gb"))
    here.wait_ready("later")
    control_plane.wait_until(lambda: last_pass() > before, 20, "another pass")


def test_after_a_kill_the_other_takes_over_in_time(
    control_plane: ControlPlane, pair: tuple[OperatorProcess, OperatorProcess], here: View
) -> None:
    leader, standby = pair
    here.apply("served", **on_gpu("h100-sxm-80gb"))
    here.wait_ready("served")
    [pod] = here.pods("served")
    leader.kill()
    assert taken_over(control_plane, AFTER_A_KILL_SECONDS + SLACK_SECONDS) <= AFTER_A_KILL_SECONDS + SLACK_SECONDS
    Honest(here).assert_served()
    assert [found["metadata"]["uid"] for found in here.pods("served")] == [pod["metadata"]["uid"]]
    assert standby.ready()
    assert not says_standby(standby)


def test_after_a_polite_end_the_other_takes_over_at_once(
    control_plane: ControlPlane, pair: tuple[OperatorProcess, OperatorProcess], here: View
) -> None:
    leader, _ = pair
    os.kill(leader.pid, signal.SIGTERM)
    assert taken_over(control_plane, 10) <= AFTER_A_GOODBYE_SECONDS + SLACK_SECONDS
    control_plane.wait_until(lambda: not leader.is_running, 20, "the first one gone")
    assert leader.exit_status == 0, "\n".join(leader.log_lines()[-30:])
    Honest(here).assert_served()


def test_a_leader_that_was_paused_writes_nothing_after_another_took_over(
    control_plane: ControlPlane, pair: tuple[OperatorProcess, OperatorProcess], here: View
) -> None:
    leader, standby = pair
    here.apply("before", **on_gpu("h100-sxm-80gb"))
    here.wait_ready("before")
    # Paused with work in its hands: whatever it wanted to write is still to be written.
    here.control_plane.client.send(
        "POST",
        f"/apis/plimsoll.dev/v1alpha1/namespaces/{here.namespace}/inferencedeployments",
        {
            "apiVersion": "plimsoll.dev/v1alpha1",
            "kind": "InferenceDeployment",
            "metadata": {"name": "during"},
            "spec": {"model": {"name": "meta-llama/Llama-3.1-8B-Instruct"}, "contextLength": 4096, "concurrency": 6},
        },
    )
    leader.pause()
    taken_over(control_plane, 2 * AFTER_A_KILL_SECONDS)
    since = offset(control_plane)
    here.wait_ready("during")
    here.patch("before", {"contextLength": 8192})
    here.wait_ready("before")
    leader.resume()
    control_plane.wait_until(lambda: not leader.is_running, 30, "the one that was paused gone")
    assert leader.exit_status != 0
    Honest(here).assert_served()
    assert writes_of(control_plane, ONE, since) == []
    assert writes_of(control_plane, OTHER, since)
    assert standby.healthy()


def test_a_leader_that_is_cut_off_ends_itself(control_plane: ControlPlane, here: View) -> None:
    with ExitStack() as stack:
        proxy = stack.enter_context(fault_proxy(control_plane))
        leader = stack.enter_context(operator_as(control_plane, ONE, proxy=proxy))
        control_plane.wait_until(lambda: holder(control_plane) == ONE, 20, "the first one leading")
        standby = stack.enter_context(operator_as(control_plane, OTHER))
        control_plane.wait_until(lambda: says_standby(standby), 20, "the second one standing by")
        with proxy.partition():
            taken_over(control_plane, 2 * AFTER_A_KILL_SECONDS)
            since = offset(control_plane)
            control_plane.wait_until(lambda: not leader.is_running, 20, "the one that is cut off gone")
            assert leader.exit_status != 0
        Honest(here).assert_served()
        assert writes_of(control_plane, ONE, since) == []
    forget(control_plane)


def test_a_lease_deleted_by_hand_leaves_one_writer(
    control_plane: ControlPlane, pair: tuple[OperatorProcess, OperatorProcess], here: View
) -> None:
    del pair
    control_plane.client.send("DELETE", LEASE)
    control_plane.wait_until(lambda: holder(control_plane), 30, "somebody leading again")
    leading = holder(control_plane)
    [waiting] = {ONE, OTHER} - {leading}
    since = offset(control_plane)
    Honest(here).assert_served()
    assert holder(control_plane) == leading
    assert writes_of(control_plane, leading, since)
    assert writes_of(control_plane, waiting, since) == []


def test_on_a_laptop_it_refuses_while_the_lease_is_held_and_says_by_whom(
    control_plane: ControlPlane, here: View
) -> None:
    since = offset(control_plane)
    with operator_as(control_plane, ONE):
        control_plane.wait_until(lambda: holder(control_plane) == ONE, 20, "the first one leading")
        laptop = operator_as(control_plane, OTHER, standby=False)
        try:
            laptop.start()
            control_plane.wait_until(lambda: not laptop.is_running, 60, "the laptop's run ended")
            assert laptop.exit_status not in (0, None)
            assert ONE in "\n".join(laptop.log_lines())
        finally:
            laptop.close()
        Honest(here).assert_served()
    assert writes_of(control_plane, OTHER, since) == []
    forget(control_plane)


def test_with_different_settings_one_writes_and_the_other_says_that_they_differ(
    control_plane: ControlPlane, here: View
) -> None:
    """Two price lists made two operators move everything to and fro, for ever."""
    for name, data in (("prices-a", {"l4-24gb": "9"}), ("prices-b", {"l4-24gb": "0.1"})):
        metadata = {"name": name, "namespace": NAMESPACE}
        control_plane.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}])
    since = offset(control_plane)
    with ExitStack() as stack:
        settings = {"PLIMSOLL_PRICES_CONFIGMAP": "prices-a"}
        stack.enter_context(operator_as(control_plane, ONE, environment=settings))
        control_plane.wait_until(lambda: holder(control_plane) == ONE, 20, "the first one leading")
        settings = {"PLIMSOLL_PRICES_CONFIGMAP": "prices-b"}
        other = stack.enter_context(operator_as(control_plane, OTHER, environment=settings))
        control_plane.wait_until(
            lambda: [line for line in other.log_lines() if "settings" in line and "differ" in line],
            20,
            "a word about the settings",
        )
        here.apply("priced", gpu={"allow": ["l4-24gb", "l40s-48gb"]})
        here.wait_ready("priced")
        Honest(here).assert_served()
        assert [event for event in writes_of(control_plane, OTHER, since) if event.namespace == here.namespace] == []
        statuses = [e for e in writes_of(control_plane, ONE, since) if e.name == "priced" and "status" in e.resource]
        assert len(statuses) < 15
    forget(control_plane)


def test_of_two_versions_one_writes_and_the_other_says_that_they_differ_and_takes_over(
    control_plane: ControlPlane, here: View
) -> None:
    since = offset(control_plane)
    with ExitStack() as stack:
        leader = stack.enter_context(operator_as(control_plane, ONE))
        control_plane.wait_until(lambda: holder(control_plane) == ONE, 20, "the first one leading")
        newer = operator_as(
            control_plane,
            OTHER,
            environment=disguised.environment(**{disguised.VERSION: "9.9.9"}),
            module=disguised.MODULE,
        )
        stack.enter_context(newer)
        control_plane.wait_until(
            lambda: [line for line in newer.log_lines() if "version differs" in line and "9.9.9" in line],
            20,
            "a word about the versions",
        )
        here.apply("served", **on_gpu("h100-sxm-80gb"))
        here.wait_ready("served")
        [pod] = here.pods("served")
        Honest(here).assert_served()
        assert writes_of(control_plane, OTHER, since) == []
        leader.stop()
        control_plane.wait_until(lambda: holder(control_plane) == OTHER, 10, "the other one leading")
        Honest(here).assert_served()
        assert [found["metadata"]["uid"] for found in here.pods("served")] == [pod["metadata"]["uid"]]
    forget(control_plane)


def test_a_clock_that_jumps_makes_no_second_writer(control_plane: ControlPlane, here: View, tmp_path: Path) -> None:
    clocks = {name: tmp_path / name for name in (ONE, OTHER)}

    def jump(name: str, hours: int) -> None:
        """In one step: a file that is read while it is written would be empty."""
        fresh = tmp_path / "fresh"
        fresh.write_text(str(hours * 3600))
        fresh.rename(clocks[name])

    def started(name: str) -> OperatorProcess:
        jump(name, 0)
        environment = disguised.environment(**{disguised.CLOCK: str(clocks[name])})
        return operator_as(control_plane, name, environment=environment, module=disguised.MODULE)

    with ExitStack() as stack:
        leader = stack.enter_context(started(ONE))
        control_plane.wait_until(lambda: holder(control_plane) == ONE, 20, "the first one leading")
        standby = stack.enter_context(started(OTHER))
        control_plane.wait_until(lambda: says_standby(standby), 20, "the second one standing by")
        here.apply("served", **on_gpu("h100-sxm-80gb"))
        here.wait_ready("served")
        [pod] = here.pods("served")
        since = offset(control_plane)
        for name, hours in ((ONE, 1), (OTHER, 1), (ONE, -1), (OTHER, -1)):
            jump(name, hours)
            before = str(lease(control_plane)["renewTime"])
            control_plane.wait_until(lambda: lease(control_plane)["renewTime"] != before, 20, "a renewal")  # noqa: B023
            Honest(here).assert_served()
        assert leader.is_running
        assert says_standby(standby)
        assert writes_of(control_plane, OTHER, since) == []
        assert [found["metadata"]["uid"] for found in here.pods("served")] == [pod["metadata"]["uid"]]
        leader.kill()
        assert taken_over(control_plane, AFTER_A_KILL_SECONDS + SLACK_SECONDS) <= AFTER_A_KILL_SECONDS + SLACK_SECONDS
        Honest(here).assert_served()
    forget(control_plane)

"""The console's answers to proposals on a real API server: in the person's own name, within the person's rights.

The tests build on one another in the order of this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from plimsoll.console.pages.routes import PAGES
from testbed.approvals import install_kinds
from testbed.audit import AuditEvent, AuditLog
from testbed.console_process import ConsoleProcess
from tests.support.approvals import Person, proposal_of
from tests.support.console_client import ConsoleClient
from tests.support.live_loop import L4_POOL, PRESSURE, TIMING, Bench, bench_of, changes

pytestmark = [pytest.mark.cluster, pytest.mark.story]

ADVICE = {key: value for key, value in TIMING.items() if key != "changesPerHour"}
KINDS = ["inferencedeployments", "placementproposals", "placementapprovals"]
READS = {"resources": KINDS, "verbs": ["get", "list", "watch"]}
CREATES = {"resources": ["placementapprovals"], "verbs": ["create"]}
APPROVES = {"resources": ["inferencedeployments"], "verbs": ["approve"]}
NAMES = ("adds", "neighbour")
REVIEWS = {"selfsubjectreviews", "selfsubjectaccessreviews"}
"""Questions about oneself. They are sent as objects, and nothing is stored."""


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with bench_of("desk", {"PLIMSOLL_APPROVALS": "true"}) as running:
        install_kinds(running.view.control_plane)
        for name in NAMES:
            running.add_nodes(name, L4=2)
            running.deploy(name, ADVICE)
        for name in NAMES:
            running.view.wait_ready(name)
            running.load(name, kv_tokens=PRESSURE)
        for name in NAMES:
            proposal_of(running.view, name)
        yield running


def person_of(bench: Bench, name: str, *rules: dict[str, Any]) -> Person:
    person = Person(bench.view, name)
    person.grant(*rules)
    return person


@pytest.fixture(scope="module")
def approver(bench: Bench) -> Person:
    person = person_of(bench, "approver", READS, CREATES, APPROVES)
    person.wait_bound()
    return person


@pytest.fixture(scope="module")
def reader(bench: Bench) -> Person:
    """May create approvals, and may not approve."""
    return person_of(bench, "reader", READS, CREATES)


@contextmanager
def console_of(person: Person, *arguments: str) -> Iterator[ConsoleClient]:
    control_plane, namespace = person.view.control_plane, person.view.namespace
    kubeconfig = control_plane.service_account_kubeconfig(namespace, person.name)
    words = ("-n", namespace, *arguments)
    with ConsoleProcess(kubeconfig, control_plane.directory, arguments=words) as console:
        yield ConsoleClient(console.entry, console.origin)


def page_of(bench: Bench, name: str) -> str:
    return f"/proposals/desk/{proposal_of(bench.view, name)['metadata']['name']}"


def written_by(bench: Bench, since: int, person: Person) -> list[AuditEvent]:
    """Everything that a person asked the API server to write, refused requests included."""
    events = AuditLog(bench.view.control_plane.audit_log).events(since, user=person.user)
    return [event for event in events if event.resource not in REVIEWS]


def every_page(bench: Bench) -> list[str]:
    """An address for each page of the console."""
    proposal = page_of(bench, "neighbour")
    paths = (view.path.replace("/proposals/{namespace}/{name}", proposal) for view in PAGES if view.method == "GET")
    return [path.format(namespace="desk", name="adds") for path in paths]


def test_a_visit_of_all_pages_of_a_read_only_console_changes_nothing(bench: Bench, approver: Person) -> None:
    """Although this person may approve."""
    since = bench.now()
    with console_of(approver) as console:
        bench.view.wait(lambda: "Proposals to decide" in console.get("/").page.text, "the inbox")
        for path in every_page(bench):
            read = console.get(path)
            assert read.status == 200, path
            sent_to = [str(form.get("action")) for form in read.page.all("form") if form.get("method") == "post"]
            assert sent_to in ([], ["/what-if"]), path
        known = proposal_of(bench.view, "adds")["id"]
        assert console.post(f"{page_of(bench, 'adds')}/answer", decision="approve", id=known).status == 404
        assert f"plimsoll approve adds -n desk --proposal {known}" in console.get(page_of(bench, "adds")).page.text
    assert written_by(bench, since, approver) == []
    assert bench.view.all("placementapprovals") == []


@pytest.mark.usefixtures("approver")
def test_without_the_verb_approve_nothing_can_be_sent_and_a_forced_answer_is_refused(
    bench: Bench, reader: Person
) -> None:
    known, path = proposal_of(bench.view, "adds")["id"], page_of(bench, "adds")
    since = bench.now()
    with console_of(reader, "--allow-approvals") as console:
        read = console.get(path)
        assert "You do not have the verb approve on the InferenceDeployment desk/adds." in read.page.text
        assert read.page.all("form") == []
        forced = console.post(f"{path}/answer", decision="approve", id=known)
    assert forced.status == 403
    assert f'"{reader.user}" may not approve it' in forced.page.text
    assert [event.status for event in written_by(bench, since, reader)] == [403]
    assert bench.view.all("placementapprovals") == []


def test_a_stale_answer_changes_nothing(bench: Bench, approver: Person) -> None:
    path, since = page_of(bench, "neighbour"), bench.now()
    with console_of(approver, "--allow-approvals") as console:
        other = console.post(f"{path}/answer", decision="approve", id="0" * 12)
        assert other.status == 409
        assert "Nothing was written: your answer is for proposal 000000000000" in other.page.text
        known = proposal_of(bench.view, "neighbour")["id"]
        bench.view.patch("neighbour", {"rebalancing": {"windowSeconds": 9}})
        bench.view.wait(
            lambda: known not in [body["id"] for body in bench.view.all("placementproposals", "neighbour")],
            "the proposal of the old spec withdrawn",
        )
        gone = console.post(f"{path}/answer", decision="approve", id=known)
        assert gone.status == 409
        assert "Nothing was written: this proposal does not stand any more." in gone.page.text
        assert console.get(path).status == 404
    assert written_by(bench, since, approver) == []
    assert changes(bench.writes(since, "neighbour-l4")) == []


def test_an_approval_is_exactly_one_create_in_the_persons_own_name_and_is_carried_out(
    bench: Bench, approver: Person
) -> None:
    known, path, since = proposal_of(bench.view, "adds")["id"], page_of(bench, "adds"), bench.now()
    with console_of(approver, "--allow-approvals") as console:
        [form] = console.get(path).page.all("form")
        sent = console.post(str(form["action"]), decision="approve", id=known, reason="launch on Monday")
        assert (sent.status, sent.url.partition("?answer=")[0].endswith(path)) == (200, True)
        assert f"approve by {approver.user}" in sent.page.text
        bench.wait_settled("adds", {L4_POOL: 2})
        bench.view.wait(lambda: "CarriedOut approve" in console.get(path).page.text, "the outcome on the page")
        for each in every_page(bench):
            assert console.get(each).status == 200, each
    [made] = bench.view.all("placementapprovals")
    spec = made["spec"]
    assert (spec["deployment"], spec["proposal"], spec["decision"], spec["by"], spec["reason"]) == (
        "adds",
        known,
        "approve",
        approver.user,
        "launch on Monday",
    )
    [event] = written_by(bench, since, approver)
    assert (event.verb, event.resource, event.status) == ("create", "placementapprovals", 201)
    assert bench.rebalancing("adds")["lastChange"].endswith(f"Approved by {approver.user}.")


def test_a_rejection_is_recorded_and_shown(bench: Bench, approver: Person) -> None:
    known = proposal_of(bench.view, "neighbour")["id"]
    path = page_of(bench, "neighbour")
    with console_of(approver, "--allow-approvals") as console:
        console.post(f"{path}/answer", decision="reject", id=known, reason="no budget")
        bench.view.wait(lambda: "Rejected reject by" in console.get(path).page.text, "the outcome on the page")
    [shown] = bench.rebalancing("neighbour")["rejected"]
    assert (shown["proposal"], shown["by"], shown["reason"]) == (known, approver.user, "no budget")
    assert bench.settled("neighbour") == {L4_POOL: 1}

"""Three people at their consoles on one real API server: each sees what the API server lets them list, and no more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
import yaml

from plimsoll.app.election.leadership import LAST_PASS_ANNOTATION
from plimsoll.console.streams import COMMENT_SECONDS
from plimsoll.domain.units import to_rfc3339
from testbed.audit import AuditLog
from testbed.console_process import ConsoleProcess
from testbed.control_plane import ControlPlane
from testbed.people import admin, stranger, tenant
from testbed.waiting import wait_until
from tests.support import hurried
from tests.support.faulty import fault_proxy, kubeconfig_of
from tests.support.installed import inference_deployment, namespace_of

pytestmark = pytest.mark.cluster

PAGES = ("/", "/fleet", "/deployments", "/pressure", "/accuracy")
QUESTIONS = ("selfsubjectreviews", "selfsubjectaccessreviews")
"""Kinds that the API server answers and never stores: who am I, and what may I do?"""

SECONDS = 60.0


Visit = tuple[requests.Session, str]
"""A visitor's session, and the console's origin."""


@contextmanager
def visitor(kubeconfig: Path, folder: Path, *arguments: str) -> Iterator[Visit]:
    """Somebody who has opened the address that a console printed."""
    with (
        ConsoleProcess(
            kubeconfig,
            folder,
            arguments=arguments,
            environment=hurried.environment(*hurried.CONSOLE),
            module=hurried.MODULE,
        ) as console,
        requests.Session() as session,
    ):
        session.headers["Accept"] = "text/html"
        assert session.get(console.entry, timeout=60).status_code == 200
        yield session, console.origin


def awaits(session: requests.Session, url: str, words: str) -> str:
    """Return the page as soon as it has these words."""

    def page() -> str:
        text = session.get(url, timeout=60).text
        return text if words in text else ""

    return wait_until(page, SECONDS, f"{words!r} on {url}")


@pytest.fixture(scope="module")
def teams(control_plane: ControlPlane) -> Iterator[tuple[str, str]]:
    """Two namespaces with one deployment each. Their names stand nowhere else."""
    with namespace_of(control_plane, "team-red") as red, namespace_of(control_plane, "team-blue") as blue:
        control_plane.apply(
            [
                inference_deployment("crimson-model", red.namespace),
                inference_deployment("azure-model", blue.namespace),
            ]
        )
        yield red.namespace, blue.namespace


@pytest.fixture(scope="module")
def ada(
    control_plane: ControlPlane, teams: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Visit]:
    """An admin at a console."""
    folder = tmp_path_factory.mktemp("ada")
    with visitor(admin(control_plane, "ada"), folder, "--operator", f"{teams[0]}/plimsoll") as visit:
        yield visit


@pytest.fixture(scope="module")
def bob(
    control_plane: ControlPlane, teams: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Visit]:
    """A tenant at a console for the own namespace."""
    red, blue = teams
    words = ("-n", blue, "--operator", f"{red}/plimsoll")
    with visitor(tenant(control_plane, "bob", blue), tmp_path_factory.mktemp("bob"), *words) as visit:
        yield visit


def test_an_admin_sees_the_deployments_of_all_and_the_map(ada: Visit) -> None:
    session, origin = ada
    listed = awaits(session, f"{origin}/deployments", "crimson-model")
    assert "azure-model" in listed
    assert "as <b>ada</b>" in awaits(session, f"{origin}/deployments", "ada")
    assert "h100-0" in awaits(session, f"{origin}/fleet", "h100-0")


def test_a_tenant_sees_neither_names_nor_counts_of_another_namespace(bob: Visit, teams: tuple[str, str]) -> None:
    session, origin = bob
    red, _ = teams
    listed = awaits(session, f"{origin}/deployments", "azure-model")
    assert 'Deployments <span class="badge">1</span>' in listed
    for page in PAGES:
        text = session.get(origin + page, timeout=60).text
        assert "crimson-model" not in text
        assert red not in text
    foreign = session.get(f"{origin}/deployments/{red}/crimson-model", timeout=60)
    assert foreign.status_code == 403
    assert "Ask an admin" in foreign.text


def test_a_tenant_reads_which_right_the_map_needs(bob: Visit) -> None:
    session, origin = bob
    assert "You may not list nodes" in awaits(session, f"{origin}/fleet", "You may not list")


def test_a_tenant_who_names_no_namespace_sees_that_of_the_kubeconfig(
    control_plane: ControlPlane, teams: tuple[str, str], tmp_path: Path
) -> None:
    kubeconfig = in_namespace(tenant(control_plane, "bob", teams[1]), tmp_path, teams[1])
    with visitor(kubeconfig, tmp_path) as (session, origin):
        listed = awaits(session, f"{origin}/deployments", "azure-model")
        assert f"shows the namespace {teams[1]}" in listed
        assert "crimson-model" not in listed


def in_namespace(kubeconfig: Path, folder: Path, namespace: str) -> Path:
    """A copy of a kubeconfig whose context has a namespace."""
    config = yaml.safe_load(kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    copy = folder / "with-namespace.kubeconfig"
    copy.write_text(yaml.safe_dump(config))
    return copy


@pytest.mark.usefixtures("teams")
def test_a_stranger_sees_only_which_right_is_missing(control_plane: ControlPlane, tmp_path: Path) -> None:
    with visitor(stranger(control_plane, "nobody-at-all"), tmp_path) as (session, origin):
        assert "You may not list inferencedeployments" in awaits(session, f"{origin}/deployments", "You may not list")
        for page in PAGES:
            text = session.get(origin + page, timeout=60).text
            assert "crimson-model" not in text
            assert "azure-model" not in text


def test_a_right_that_is_taken_away_ends_the_stream_and_the_names_within_a_minute(
    control_plane: ControlPlane, teams: tuple[str, str], bob: Visit, tmp_path: Path
) -> None:
    kubeconfig = tenant(control_plane, "carol", teams[1])
    other, other_origin = bob
    with visitor(kubeconfig, tmp_path, "-n", teams[1]) as (session, origin):
        awaits(session, f"{origin}/deployments", "azure-model")
        awaits(other, f"{other_origin}/deployments", "azure-model")
        with session.get(f"{origin}/stream", stream=True, timeout=SECONDS) as stream:
            control_plane.kubectl("delete", "rolebinding", "carol-view", "-n", teams[1])
            said = b"".join(stream.iter_content(None))
        assert b"plimsoll" in said
        assert said.count(b": still here") <= 60 / COMMENT_SECONDS, "a minute as the stream itself counts it"
        assert "azure-model" not in session.get(f"{origin}/deployments", timeout=60).text
        assert "azure-model" in other.get(f"{other_origin}/deployments", timeout=60).text


@pytest.mark.usefixtures("teams")
def test_a_broken_api_server_leaves_the_last_state_with_its_age_and_comes_back_by_itself(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    with fault_proxy(control_plane) as proxy:
        kubeconfig = kubeconfig_of(control_plane, "console-through-proxy", server=proxy.url)
        with visitor(kubeconfig, tmp_path) as (session, origin):
            awaits(session, f"{origin}/deployments", "crimson-model")
            with proxy.partition():
                proxy.cut_streams()
                broken = awaits(session, f"{origin}/deployments", "The API server does not answer since")
                assert "crimson-model" in broken
                assert "last state, " in broken
            awaits(session, f"{origin}/deployments", "● live")
            assert "The API server does not answer" not in session.get(f"{origin}/deployments", timeout=60).text


def test_reading_writes_nothing(control_plane: ControlPlane, teams: tuple[str, str], ada: Visit) -> None:
    session, origin = ada
    log = AuditLog(control_plane.audit_log)
    awaits(session, f"{origin}/deployments", "crimson-model")
    for page in (*PAGES, f"/deployments/{teams[0]}/crimson-model", "/what-if?change=-h100-sxm-80gb"):
        assert session.get(origin + page, timeout=60).status_code == 200
    manifest = yaml.safe_dump(inference_deployment("imagined", teams[0]))
    asked = session.post(f"{origin}/what-if", data={"manifest": manifest}, headers={"Origin": origin}, timeout=60)
    answer = asked.text[asked.text.index("</form>") :]
    assert f"Why {teams[0]}/imagined goes there" in answer
    assert not [event for event in log.events(user="ada") if event.resource not in QUESTIONS]
    start = log.offset()
    control_plane.kubectl("annotate", "namespace", teams[0], "seen=1")  # the honest neighbour: writes are in the log
    assert log.events(start, resource="namespaces")


def test_a_silent_operator_is_named_until_it_is_heard_again(
    control_plane: ControlPlane, teams: tuple[str, str], ada: Visit, bob: Visit
) -> None:
    """No operator runs here: its Lease is written by hand. A tenant may not read it, and sees nothing of it."""
    (session, origin), (other, beside) = ada, bob

    def last_pass(seconds_ago: float) -> None:
        marks = {LAST_PASS_ANNOTATION: to_rfc3339(time.time() - seconds_ago)}
        head = {"name": "plimsoll", "namespace": teams[0], "annotations": marks}
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        control_plane.apply([{**kind, "metadata": head, "spec": {"holderIdentity": "operator-0"}}])

    last_pass(2 * 3600)
    awaits(session, f"{origin}/", "The operator is silent. Its last pass was 2 h ago")
    assert "operator is silent" not in awaits(other, f"{beside}/deployments", "azure-model")
    last_pass(1)
    wait_until(
        lambda: "operator is silent" not in session.get(f"{origin}/", timeout=60).text, SECONDS, "the banner to go"
    )

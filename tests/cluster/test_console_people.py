"""The console in a cluster: every request to the API server is the person's own, and forged requests reach nobody.

The guards stand before a small application that lists deployments and creates an approval.
"""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import ClientSession, TCPConnector, web
from aiohttp.test_utils import TestServer, unused_port

from plimsoll.adapters.cluster.bearer_access import BearerAccess
from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS, Cluster
from plimsoll.console.guards import InCluster, guard
from plimsoll.console.guards.people import PersonSessions
from plimsoll.console.guards.person import PERSON, Person
from testbed.api_client import http_text
from testbed.approvals import install_kinds
from testbed.audit import AuditEvent, AuditLog
from testbed.certificates import Authority
from testbed.control_plane import ControlPlane
from tests.support.approvals import Person as Account
from tests.support.eventually import eventually
from tests.support.installed import View, inference_deployment, install
from tests.support.planes import borrowed_plane

pytestmark = pytest.mark.cluster

PUBLIC = "console.example.org"
PROPOSAL = "4f0c8a1d92be"
READS = {"resources": ["inferencedeployments", "placementproposals"], "verbs": ["list", "watch"]}
CREATES = {"resources": ["placementapprovals"], "verbs": ["create"]}
APPROVES = {"resources": ["inferencedeployments"], "verbs": ["approve"]}
OWN_PAGE = {"Host": PUBLIC, "Sec-Fetch-Site": "same-origin"}


@dataclass(frozen=True)
class Tenant:
    """A namespace with one deployment, and somebody in it."""

    account: Account
    token: str
    kubeconfig: Path

    @property
    def namespace(self) -> str:
        return self.account.view.namespace

    @property
    def headers(self) -> dict[str, str]:
        return {"Host": PUBLIC, "Authorization": f"Bearer {self.token}"}


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    with borrowed_plane() as running:
        install(running)
        install_kinds(running)
        yield running


def tenant(control_plane: ControlPlane, name: str, *rules: dict[str, Any]) -> Tenant:
    namespace = control_plane.create_namespace(name)
    control_plane.apply([inference_deployment(f"secret-of-{name}", namespace)])
    account = Account(View(control_plane, namespace), name)
    account.grant(*rules)
    kubeconfig = control_plane.service_account_kubeconfig(namespace, name)
    token = json.loads(kubeconfig.read_text())["users"][0]["user"]["token"]
    return Tenant(account, token, kubeconfig)


@pytest.fixture(scope="module")
def approver(control_plane: ControlPlane) -> Tenant:
    """May list, create approvals, and approve."""
    found = tenant(control_plane, "approver", READS, CREATES, APPROVES)
    found.account.wait_bound()
    return found


@pytest.fixture(scope="module")
def reader(control_plane: ControlPlane) -> Tenant:
    """May list and create approvals, but not approve."""
    return tenant(control_plane, "reader", READS, CREATES)


@dataclass(frozen=True)
class Console:
    """A console that serves, with the sessions that it holds."""

    url: str
    people: PersonSessions[Cluster]

    async def ask(self, path: str, headers: dict[str, str], form: dict[str, str] | None = None) -> tuple[int, str]:
        """Send a GET, or a POST with a form."""
        method = "GET" if form is None else "POST"
        async with (
            ClientSession() as session,
            session.request(method, self.url + path, headers=headers, data=form) as answer,
        ):
            return answer.status, await answer.text()

    async def approve(self, who: Tenant, by: str, namespace: str = "", **headers: str) -> tuple[int, str]:
        """Approve a proposal under a name, as a page of the console does."""
        form = {"namespace": namespace or who.namespace, "by": by}
        return await self.ask("/approve", {**who.headers, **OWN_PAGE, **headers}, form)


def authority_of(who: Tenant) -> bytes:
    """The certificate of the API server's authority."""
    data = json.loads(who.kubeconfig.read_text())["clusters"][0]["cluster"]["certificate-authority-data"]
    return base64.b64decode(data)


@pytest.fixture
async def console(control_plane: ControlPlane, tmp_path: Path, reader: Tenant) -> AsyncIterator[Console]:
    authority = tmp_path / "ca.crt"
    authority.write_bytes(authority_of(reader))

    @asynccontextmanager
    async def session(person: Person) -> AsyncIterator[Cluster]:
        async with Cluster(bearer=BearerAccess(control_plane.server, person.token, str(authority))) as cluster:
            await cluster.user_name()
            yield cluster

    people = PersonSessions(session, most=256)
    async with TestServer(_app(people)) as server:
        yield Console(str(server.make_url("")).rstrip("/"), people)
    await people.close()


def _app(people: PersonSessions[Cluster]) -> web.Application:
    async def deployments(request: web.Request) -> web.Response:
        async with people.session_of(request[PERSON]) as cluster:
            found = await cluster.list(INFERENCE_DEPLOYMENTS, namespace=request.query.get("namespace"))
            return web.json_response([body["metadata"]["name"] for body in found.items])

    async def who(request: web.Request) -> web.Response:
        async with people.session_of(request[PERSON]) as cluster:
            return web.Response(text=await cluster.user_name())

    async def approve(request: web.Request) -> web.Response:
        form = await request.post()
        async with people.session_of(request[PERSON]) as cluster:
            made = await cluster.create(_approval(str(form["namespace"]), str(form["by"])))
            return web.Response(text=made["spec"]["by"], status=201)

    app = web.Application()
    guard(app, InCluster(hosts=frozenset({PUBLIC})))
    app.router.add_get("/", deployments)
    app.router.add_get("/who", who)
    app.router.add_post("/approve", approve)
    return app


def _approval(namespace: str, by: str) -> dict[str, Any]:
    return {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "PlacementApproval",
        "metadata": {"generateName": "from-console-", "namespace": namespace},
        "spec": {"deployment": f"secret-of-{namespace}", "proposal": PROPOSAL, "decision": "approve", "by": by},
    }


def approvals_of(control_plane: ControlPlane, since: int) -> list[AuditEvent]:
    return AuditLog(control_plane.audit_log).events(since, resource="placementapprovals")


async def test_everybody_is_known_to_the_api_server_by_their_own_name(
    console: Console, reader: Tenant, approver: Tenant
) -> None:
    assert await console.ask("/who", reader.headers) == (200, reader.account.user)
    assert await console.ask("/who", approver.headers) == (200, approver.account.user)
    assert await console.ask("/who", reader.headers) == (200, reader.account.user)
    assert len(console.people) == 2


async def test_a_made_up_token_is_nobody_and_is_not_held(console: Console, reader: Tenant) -> None:
    status, said = await console.ask("/who", {"Host": PUBLIC, "Authorization": "Bearer made-up"})
    assert (status, said.partition(":")[0]) == (401, "SignedOut")
    assert "made-up" not in said
    assert len(console.people) == 0
    assert (await console.ask("/who", reader.headers))[0] == 200


async def test_somebody_elses_namespace_stays_closed(console: Console, reader: Tenant, approver: Tenant) -> None:
    status, said = await console.ask(f"/?namespace={approver.namespace}", reader.headers)
    assert (status, said.partition(":")[0]) == (403, "Forbidden")
    assert "secret-of" not in said
    assert (await console.ask("/", reader.headers))[0] == 403
    status, said = await console.ask(f"/?namespace={reader.namespace}", reader.headers)
    assert (status, json.loads(said)) == (200, ["secret-of-reader"])


async def test_an_approval_in_ones_own_name_is_made_and_audited(
    console: Console, approver: Tenant, control_plane: ControlPlane
) -> None:
    since = AuditLog(control_plane.audit_log).offset()
    assert await console.approve(approver, approver.account.user) == (201, approver.account.user)
    [event] = approvals_of(control_plane, since)
    assert (event.user, event.verb, event.status) == (approver.account.user, "create", 201)
    assert event.body["spec"]["by"] == approver.account.user


async def test_an_approval_in_anothers_name_is_refused_and_audited(
    console: Console, approver: Tenant, reader: Tenant, control_plane: ControlPlane
) -> None:
    since = AuditLog(control_plane.audit_log).offset()
    status, said = await console.approve(approver, reader.account.user)
    assert (status, "nobody approves in the name of another" in said) == (403, True)
    [event] = approvals_of(control_plane, since)
    assert (event.user, event.verb, event.status) == (approver.account.user, "create", 403)


async def test_an_approval_without_the_right_is_refused_and_audited(
    console: Console, reader: Tenant, control_plane: ControlPlane
) -> None:
    since = AuditLog(control_plane.audit_log).offset()
    status, said = await console.approve(reader, reader.account.user)
    assert (status, 'may not approve it: an admin must grant the verb "approve"' in said) == (403, True)
    [event] = approvals_of(control_plane, since)
    assert (event.user, event.verb, event.status) == (reader.account.user, "create", 403)


FORGERIES = {
    "another host": {"Host": "evil.example"},
    "another site": {"Sec-Fetch-Site": "cross-site"},
    "another origin": {"Origin": "https://evil.example"},
    "a header of a proxy": {"X-Forwarded-User": "admin"},
    "another remote user": {"X-Remote-User": "admin"},
}


@pytest.mark.parametrize("forged", FORGERIES.values(), ids=FORGERIES)
async def test_a_forged_request_never_reaches_the_api_server(
    console: Console, approver: Tenant, control_plane: ControlPlane, forged: dict[str, str]
) -> None:
    since = AuditLog(control_plane.audit_log).offset()
    status, _ = await console.approve(approver, approver.account.user, **forged)
    assert status in (403, 421)
    assert AuditLog(control_plane.audit_log).events(since, user=approver.account.user) == []
    assert (await console.approve(approver, approver.account.user))[0] == 201


@pytest.fixture(scope="module")
def running(control_plane: ControlPlane, reader: Tenant, approver: Tenant) -> Iterator[str]:
    """The console's own process with the chart's arguments, without a kubeconfig or a service account; its URL."""
    directory = control_plane.directory / "console"
    directory.mkdir()
    pair = Authority(directory).server()
    ca_file = directory / "api-server.crt"
    ca_file.write_bytes(authority_of(reader))
    port = unused_port()
    words = (
        *("console", "--in-cluster", f"--port={port}", f"--ca-file={ca_file}", f"--public-host={PUBLIC}"),
        *("--proxy=192.0.2.0/24", "--token-header=Authorization", f"--namespace={reader.namespace}"),
        *(
            f"--namespace={approver.namespace}",
            "--namespace=leaver",
            f"--tls-cert={pair.certificate}",
            f"--tls-key={pair.key}",
        ),
    )
    server = urlsplit(control_plane.server)
    place = {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
    environment = {**os.environ, **place, "KUBECONFIG": "/nonexistent", "HOME": str(directory)}
    log = directory / "console.log"
    with log.open("w") as written:
        process = subprocess.Popen(  # noqa: S603 - our own
            [sys.executable, "-m", "plimsoll", *words], env=environment, stdout=written, stderr=written
        )
    url = f"https://127.0.0.1:{port}"
    try:
        control_plane.wait_until(lambda: _is_healthy(url), 60, "a healthy console")
        yield url
        assert process.poll() is None, log.read_text()
        for secret in (reader.token, approver.token):
            assert secret not in log.read_text()
    finally:
        process.terminate()
        assert process.wait(20) == 0


def _tls() -> ssl.SSLContext:
    """The console's certificate is of nobody's authority; the kubelet's probes do not verify it either."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _is_healthy(url: str) -> bool:
    try:
        return http_text(f"{url}/healthz", tls=_tls()) == "ok\n"
    except OSError:
        return False


async def page(url: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
    async with (
        ClientSession(connector=TCPConnector(ssl=_tls())) as session,
        session.get(url + path, headers={**headers, "Accept": "text/html"}, allow_redirects=False) as answer,
    ):
        return answer.status, await answer.text()


async def page_with(url: str, path: str, who: Tenant, text: str) -> str:
    """The page as soon as it has this text: the console reads the cluster while it serves."""
    found = ""

    async def has_text() -> bool:
        nonlocal found
        status, found = await page(url, path, who.headers)
        assert status == 200, found
        return text in found

    await eventually(has_text)
    return found


async def test_two_people_see_their_own_namespaces_and_no_word_of_the_others(
    running: str, reader: Tenant, approver: Tenant
) -> None:
    for who, other in ((reader, approver), (approver, reader)):
        for path in ("/deployments", "/", "/fleet"):
            text = f"secret-of-{who.namespace}" if path == "/deployments" else "</html>"
            found = await page_with(running, path, who, text)
            assert f"secret-of-{other.namespace}" not in found
            assert not re.search(rf"\b{other.namespace}\b", found), path
            assert who.account.user in found


async def test_nobody_gets_a_page_and_the_page_of_the_refusal_has_its_style(running: str) -> None:
    for given in ({}, {"Authorization": "Bearer made-up"}, {"X-Forwarded-Access-Token": "x"}):
        status, said = await page(running, "/deployments", {"Host": PUBLIC, **given})
        assert status in (401, 403)
        assert "secret-of" not in said
        [style] = re.findall(r'href="(/static/[^"]*\.css)"', said)
        assert (await page(running, style, {"Host": PUBLIC}))[0] == 200


async def test_a_question_about_the_cluster_is_asked_in_the_persons_own_name(
    running: str, reader: Tenant, approver: Tenant
) -> None:
    for who in (reader, approver):
        _, said = await page(running, "/what-if?change=-l4-24gb", who.headers)
        assert f"User &#34;{who.account.user}&#34; cannot list resource" in said, said[said.find("<main") :]
        assert who.token not in said


async def test_another_host_is_refused_by_the_process(running: str, reader: Tenant) -> None:
    assert (await page(running, "/deployments", {**reader.headers, "Host": "evil.example"}))[0] == 421
    assert (await page(running, "/deployments", reader.headers))[0] == 200


async def test_a_right_that_is_taken_away_ends_the_view(running: str, control_plane: ControlPlane) -> None:
    leaver = tenant(control_plane, "leaver", READS)
    assert leaver.account.user in await page_with(running, "/deployments", leaver, "secret-of-leaver")
    control_plane.kubectl("delete", "rolebinding", "leaver", "-n", leaver.namespace)
    said = await page_with(running, "/deployments", leaver, "You may not list inferencedeployments")
    assert "secret-of-leaver" not in said

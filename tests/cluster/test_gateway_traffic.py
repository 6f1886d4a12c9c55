"""Requests through a Gateway: an Envoy that Istio configures asks the rendered picker, and pods answer.

Istio's control plane, Envoy, the pickers and the API server are real. The engines answer with the names of their pods.
``make test-gateway`` runs it. The tests build on one another in their order.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from testbed.api_client import http_text
from testbed.background import BackgroundLoop
from testbed.binaries import ensure_istiod
from testbed.control_plane import ControlPlane
from testbed.engine_pods import PICKER_LABEL, is_ready
from testbed.fleet import cpu_node, gpu_node
from testbed.gateway_proxy import GatewayProxy
from testbed.istiod import Istiod
from testbed.kubelet.addresses import Net
from testbed.kubelet.answering_engine import HELD, answering_engine, release
from testbed.kubelet.engine_image import ENGINE_IMAGE
from testbed.kubelet.kubelet import Kubelet
from testbed.kubelet.router_images import router_images
from testbed.operator_process import OperatorProcess
from tests.support.behind_gateway import LISTED_WITHIN_SECONDS
from tests.support.faulty import PATIENT
from tests.support.installed import ROOT, View, condition, install

pytestmark = [pytest.mark.cluster, pytest.mark.at_length, pytest.mark.story]

TENANT, HONEST, INFRA, GATEWAY = "behind-envoy", "honest", "infra", "shared"
CODE_HOST = "code.example.com"
SEEN_SECONDS = 180.0
ANSWER_SECONDS = 60.0
GOOD, FAILED = 200, 500
HELD_AT_ZERO = 6
QUEUE = "inference_extension_flow_control_queue_size{"
"""The picker's own series."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Model:
    """A deployment that its users ask at the Gateway."""

    view: View
    name: str
    proxy: GatewayProxy

    @property
    def routing(self) -> dict[str, Any]:
        """Its ``status.routing``."""
        return dict((self.view.get(self.name).get("status") or {}).get("routing") or {})

    @property
    def url(self) -> str:
        """Its ``status.url``."""
        return str((self.view.get(self.name).get("status") or {}).get("url"))

    def wait_routed(self, state: str) -> None:
        """Wait for a state of its router."""
        self.view.wait(lambda: self.routing.get("state") == state, f"{self.name} {state}", LISTED_WITHIN_SECONDS)

    def replicas(self) -> set[str]:
        """Names of its pods that serve and stay."""
        return {pod["metadata"]["name"] for pod in self.view.pods(self.name) if is_ready(pod)}

    def complete(self, prompt: str, **headers: str) -> tuple[int, str]:
        """Ask for a completion; returns the status, and who answered or what was said instead."""
        with closing(self._asked(prompt, headers)) as connection:
            response = connection.getresponse()
            text = response.read().decode()
        return response.status, json.loads(text)["choices"][0]["text"] if response.status == GOOD else text

    def hold(self, prompt: str) -> Answer:
        """Begin an answer that its pod holds; returns it with its first word."""
        connection = self._asked(f"{HELD} {prompt}", {})
        response = connection.getresponse()
        assert response.status == GOOD
        first = json.loads(response.readline().removeprefix(b"data: "))
        return Answer(first["choices"][0]["text"], connection, response)

    def _asked(self, prompt: str, headers: dict[str, str]) -> http.client.HTTPConnection:
        """Ask at the Gateway's address, whatever name the URL has: nobody resolves names of hosts here."""
        url, gateway = urlsplit(self.url), urlsplit(self.proxy.url)
        connection = http.client.HTTPConnection(str(gateway.hostname), gateway.port, timeout=ANSWER_SECONDS)
        body = json.dumps({"model": self.name, "prompt": prompt})
        of_body = {"Host": url.netloc, "Content-Type": "application/json"}
        connection.request("POST", f"{url.path}/completions", body, of_body | headers)
        return connection


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer whose first word has come. ``pod`` writes it."""

    pod: str
    connection: http.client.HTTPConnection
    response: http.client.HTTPResponse

    def rest(self) -> str:
        """Read on to the end; returns the last word, or the name of the fault that broke it off."""
        with closing(self.connection), closing(self.response):
            try:
                return self.response.read().decode().strip()
            except (http.client.HTTPException, OSError) as error:
                return type(error).__name__


WHOLE = "data: [DONE]"


@dataclass(frozen=True, slots=True)
class Scene:
    """Two models of a tenant, and one of a neighbour, behind one Gateway."""

    plane: ControlPlane
    kubelet: Kubelet
    proxy: GatewayProxy
    chat: Model
    code: Model
    plain: Model

    @property
    def let_through(self) -> int:
        """How many requests Envoy has sent on without an answer of a picker so far."""
        return self.proxy.statistic(r"http\..*\.ext_proc\.failure_mode_allowed")

    def waiting(self, model: Model) -> int:
        """How many requests wait in a picker, by its own metrics."""
        pods = [pod for pod in model.view.all("pods") if pod["metadata"]["labels"].get(PICKER_LABEL) == model.name]
        [picker] = [pod for pod in pods if is_ready(pod)]
        page = http_text(f"http://{picker['status']['podIP']}:9090/metrics", timeout=20)
        return sum(int(float(line.rpartition(" ")[2])) for line in page.splitlines() if line.startswith(QUEUE))

    def end_picker(self, model: Model) -> None:
        """Kill the picker's process, if it runs."""
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().decode().split("\0")
                is_ours = str(self.plane.directory) in (folder / "environ").read_bytes().decode(errors="replace")
                if is_ours and words[0].endswith("/epp") and f"--pool-name={model.name}" in words:
                    os.kill(int(folder.name), signal.SIGKILL)

    def check_neighbour(self) -> None:
        """Check that the neighbour's own pods answer, and that nothing is said against it."""
        status, pod = self.plain.complete("are you there?")
        assert status == GOOD
        assert pod in self.plain.replicas()
        assert condition(self.plain.view.get("plain"), "Ready")["status"] == "True"
        assert self.plain.routing["state"] == "Ready"


def deploy(view: View, name: str, *, replicas: int = 1, **gateway: Any) -> None:
    """A deployment behind the Gateway."""
    view.apply(
        name,
        overrides={"gpuType": "l4-24gb", "tensorParallel": 1},
        replicas=replicas,
        rebalancing={"mode": "Off"},
        routing={"mode": "Gateway", "gateway": {"name": GATEWAY, "namespace": INFRA, **gateway}},
    )


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """On a control plane of its own: Istio's objects stay on it."""
    nodes = [gpu_node("l4", "L4", 8), cpu_node("cpu")]
    with ControlPlane() as plane, Istiod(plane, ensure_istiod()) as istiod:
        images = {ENGINE_IMAGE: answering_engine, **router_images(plane)}
        install(plane)
        plane.create_namespace(INFRA)
        with (
            Kubelet(plane, nodes, images, net=Net.MACHINE) as kubelet,
            GatewayProxy(plane, istiod, INFRA, GATEWAY, kubelet.address) as proxy,
            OperatorProcess(plane, environment=PATIENT),
        ):
            tenant, neighbour = (View(plane, plane.create_namespace(name)) for name in (TENANT, HONEST))
            deploy(tenant, "chat", replicas=2, pickerTls=False)
            deploy(tenant, "code", hostnames=[CODE_HOST])
            deploy(neighbour, "plain", replicas=2, pickerTls=False)
            named = (tenant, "chat"), (tenant, "code"), (neighbour, "plain")
            models = [Model(view, name, proxy) for view, name in named]
            for model in models:
                model.view.wait_ready(model.name, SEEN_SECONDS)
                model.wait_routed("Ready")
            yield Scene(plane, kubelet, proxy, *models)


def test_each_deployment_behind_the_gateway_is_answered_by_its_own_pods(scene: Scene) -> None:
    assert scene.chat.url == f"{scene.proxy.url}/{TENANT}/chat/v1"
    assert scene.plain.url == f"{scene.proxy.url}/{HONEST}/plain/v1"
    asked = scene.proxy.statistic(r"http\..*\.ext_proc\.streams_started")
    for model in (scene.chat, scene.plain):
        answers = [model.complete(f"question {number}") for number in range(6)]
        assert {status for status, _ in answers} == {GOOD}
        assert {pod for _, pod in answers} <= model.replicas()
    assert scene.proxy.statistic(r"http\..*\.ext_proc\.streams_started") - asked == 12, "each picker was asked"
    assert scene.let_through == 0


def test_a_picker_that_serves_tls_is_asked_in_vain_until_istio_knows_of_it(scene: Scene) -> None:
    """The default is TLS, and Istio asks in plain text. Neither the Gateway's answers nor ours show it."""
    assert scene.code.complete("before")[0] == FAILED
    assert scene.code.routing["state"] == "Ready"
    scene.check_neighbour()
    [documented] = [text for text in blocks("docs/routing.md") if "kind: DestinationRule" in text]
    rule = documented.replace("NAMESPACE", TENANT).replace("NAME", "code")
    scene.plane.apply([yaml.safe_load(rule)])
    scene.plane.wait_until(lambda: scene.code.complete("after")[0] == GOOD, SEEN_SECONDS, "an answer")
    assert scene.code.complete("after")[1] in scene.code.replicas()
    assert scene.code.url == f"http://{CODE_HOST}:{urlsplit(scene.proxy.url).port}/v1"
    assert scene.let_through == 0
    scene.check_neighbour()


def test_the_picker_keeps_a_prompt_with_one_replica_and_a_client_cannot_choose(scene: Scene) -> None:
    [foreign] = {pod["status"]["podIP"] for pod in scene.code.view.pods("code")}
    theirs = {"x-gateway-destination-endpoint": f"{foreign}:8000"}
    for number in range(6):
        prompt = str(number) * 3000
        first, again = scene.chat.complete(prompt), scene.chat.complete(f"{prompt} go on")
        assert first[0] == GOOD
        assert first[1] in scene.chat.replicas()
        assert first == again == scene.chat.complete(prompt, **theirs)


def test_a_replica_that_drains_gets_nothing_new_and_finishes_its_answers(scene: Scene) -> None:
    held: dict[str, Answer] = {}
    before = scene.chat.replicas()
    for number in range(100):
        if held.keys() == before:
            break
        answer = scene.chat.hold(f"{number} ".ljust(40, "x"))
        if answer.pod in held:
            answer.connection.close()
        held.setdefault(answer.pod, answer)
    assert held.keys() == before
    scene.plane.kubectl("scale", "-n", TENANT, "infd", "chat", "--replicas=1")
    scene.plane.wait_until(lambda: len(scene.chat.replicas()) == 1, SEEN_SECONDS, "one replica less")
    [stays] = scene.chat.replicas()
    scene.plane.wait_until(lambda: scene.chat.complete("who?")[1] == stays, SEEN_SECONDS, "an answer of what stays")
    assert [scene.chat.complete(f"new {number}") for number in range(20)] == [(GOOD, stays)] * 20
    scene.check_neighbour()
    for pod in before:
        release(scene.kubelet.folder, pod)
    assert {pod: answer.rest() for pod, answer in held.items()} == dict.fromkeys(before, WHOLE)


def test_without_its_picker_a_gateway_fails_first_and_then_sends_requests_to_any_replica(scene: Scene) -> None:
    scene.plane.kubectl("scale", "-n", TENANT, "infd", "chat", "--replicas=2")
    scene.chat.view.wait_ready("chat", SEEN_SECONDS)
    scene.plane.wait_until(lambda: len(scene.chat.replicas()) == 2, SEEN_SECONDS, "two replicas")
    held = scene.chat.hold("while the picker ends")
    scene.end_picker(scene.chat)
    said = [scene.chat.complete("at once")[0]]

    def is_noticed() -> bool:
        scene.check_neighbour()
        said.append(scene.chat.complete("meanwhile")[0])
        return said[-1] == GOOD and str(scene.chat.routing["state"]) == "NotReady"

    with BackgroundLoop("ends-the-picker", partial(scene.end_picker, scene.chat), 0.1):
        scene.plane.wait_until(is_noticed, SEEN_SECONDS, "requests without a picker, and a status that says so")
        log.info("the first answers had the status %s", said)
        assert set(said) <= {GOOD, FAILED}
        body = scene.chat.view.wait_condition("chat", "Troubled", "True", "RouterNotReady", SEEN_SECONDS)
        assert "Requests go to any ready replica" in condition(body, "Troubled")["message"]
        before = scene.let_through
        answers = [scene.chat.complete(f"without {number}") for number in range(20)]
        assert {status for status, _ in answers} == {GOOD}
        assert {pod for _, pod in answers} == scene.chat.replicas()
        assert scene.let_through == before + 20
        release(scene.kubelet.folder, held.pod)
        rest = held.rest()
        log.info("the answer that was being written ended with %r", rest)
        assert rest != WHOLE, "Istio has answers pass the picker, too"
    scene.chat.wait_routed("Ready")
    before = scene.let_through
    assert scene.chat.complete("again")[0] == GOOD
    assert scene.let_through == before
    scene.check_neighbour()


def test_a_request_that_comes_at_zero_is_held_and_answered_after_the_start(scene: Scene) -> None:
    scene.plane.kubectl("scale", "-n", TENANT, "infd", "code", "--replicas=0")
    scene.plane.wait_until(lambda: not scene.code.view.pods("code"), SEEN_SECONDS, "no replica")
    with ThreadPoolExecutor(HELD_AT_ZERO) as pool:
        held = [pool.submit(scene.code.complete, f"early {number}") for number in range(HELD_AT_ZERO)]
        scene.plane.wait_until(lambda: scene.waiting(scene.code) == HELD_AT_ZERO, SEEN_SECONDS, "a queue")
        scene.check_neighbour()
        scene.plane.kubectl("scale", "-n", TENANT, "infd", "code", "--replicas=1")
        answers = [each.result() for each in held]
    log.info("held: %s", answers)
    assert {status for status, _ in answers} == {GOOD}
    assert {pod for _, pod in answers} == scene.code.replicas()


def blocks(page: str) -> list[str]:
    """The indented or fenced blocks of YAML on a page."""
    return [part.partition("```")[0] for part in (ROOT / page).read_text().split("```yaml\n")[1:]]

"""The process kubelet's rules, which need no cluster."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from testbed.engine_pods import POOL_LABEL
from testbed.kubelet.addresses import Net, PodAddresses, is_served, served_at
from testbed.kubelet.container import backoff_seconds
from testbed.kubelet.engine_image import ENGINE_IMAGE, KV_BLOCKS_ANNOTATION, engine_image
from testbed.kubelet.images import CannotRun, Image, Place, Program, plain_environment, program_of, repository
from testbed.kubelet.last_words import last_words
from testbed.kubelet.node import not_played
from testbed.kubelet.pod_status import Conditions, pod_status
from testbed.kubelet.probes import Probe, Probes
from testbed.kubelet.scraping import targets_of
from tests.support.tables import every_case

PROBE = {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 5, "failureThreshold": 3}
PORTS = [{"name": "metrics", "containerPort": 9000}, {"name": "http", "containerPort": 8000}]


class Answers:
    """Answers to probes in a row, ``+`` for a good one; the last one stays."""

    def __init__(self, answers: str) -> None:
        self.asked: list[tuple[str, int, str, float]] = []
        self._answers = [each == "+" for each in answers]

    def __call__(self, *question: Any) -> bool:
        self.asked.append(question)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def probed(ask: Answers, *kinds: str) -> Probes:
    return Probes({"ports": PORTS} | dict.fromkeys(kinds, PROBE), "127.0.0.2", 100.0, ask)


def test_a_probe_asks_the_named_port_and_has_the_defaults_of_the_api() -> None:
    probe = Probe.read({"ports": PORTS, "livenessProbe": {"httpGet": {"port": "http"}}}, "livenessProbe")
    assert probe == Probe("/", 8000, delay=0, period=10, timeout=1, successes=1, failures=3)
    assert Probe.read({}, "livenessProbe") is None
    with pytest.raises(CannotRun, match="startupProbe"):
        Probe.read({"startupProbe": {"exec": {"command": ["true"]}}}, "startupProbe")


def test_until_the_startup_probe_succeeds_nothing_else_is_asked() -> None:
    ask = Answers("--+")
    probes = probed(ask, "startupProbe", "readinessProbe", "livenessProbe")
    for second, started, asked in ((100, False, 1), (104, False, 1), (105, False, 2), (110, True, 5)):
        probes.step(float(second))
        assert (probes.started, len(ask.asked)) == (started, asked)
    assert probes.ready
    assert probes.failed == ""
    assert set(ask.asked) == {("127.0.0.2", 8000, "/health", 1)}


def test_a_startup_probe_that_never_succeeds_asks_for_the_end() -> None:
    probes = probed(Answers("-"), "startupProbe")
    for second in (100, 105):
        probes.step(float(second))
        assert probes.failed == ""
    probes.step(110.0)
    assert probes.failed == "startup"


def test_readiness_goes_after_as_many_failures_as_the_threshold_says_and_comes_back() -> None:
    probes = probed(Answers("+--+---+"), "readinessProbe")
    seen = []
    for second in range(100, 140, 5):
        probes.step(float(second))
        seen.append(probes.ready)
    assert seen == [True, True, True, True, True, True, False, True]
    assert probes.failed == ""


def test_a_container_without_probes_is_ready_as_soon_as_it_runs() -> None:
    assert probed(Answers("-")).ready


@every_case(("ends", "seconds"), [(1, 0), (2, 10), (3, 20), (4, 40), (7, 300), (50, 300)])
def test_restarts_come_after_longer_and_longer_times(ends: int, seconds: float) -> None:
    assert backoff_seconds(ends) == seconds


def test_the_last_words_are_the_end_of_the_log_after_an_error_where_the_manifest_wants_them() -> None:
    wanting = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    log = b"".join(b"line %d\n" % number for number in range(200))
    assert last_words(wanting, 1, log).splitlines()[0] == "line 120"
    assert last_words(wanting, 1, log).splitlines()[-1] == "line 199"
    assert len(last_words(wanting, 1, b"x" * 9000)) == 2048
    assert last_words(wanting, 0, log) == ""
    assert last_words({}, 1, log) == ""


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("vllm/vllm-openai:v0.32.0", "vllm/vllm-openai"),
        ("vllm/vllm-openai", "vllm/vllm-openai"),
        ("registry:5000/a/b@sha256:00", "registry:5000/a/b"),
        ("registry:5000/a/b:c@sha256:00", "registry:5000/a/b"),
    ],
)
def test_the_image_is_looked_up_without_its_tag(image: str, name: str) -> None:
    assert repository(image) == name


def test_a_container_that_nothing_stands_for_is_refused_with_a_kubelets_word(tmp_path: Path) -> None:
    place = Place("127.0.0.2", tmp_path)
    program = Program(["true"], {})
    assert program_of({"image": "a/b:1"}, place, {"a/b": lambda *_: program}) is program
    with pytest.raises(CannotRun, match="a/c:1") as refused:
        program_of({"image": "a/c:1"}, place, {"a/b": lambda *_: program})
    assert refused.value.reason == "ErrImagePull"


def test_only_plain_variables_can_be_set() -> None:
    assert plain_environment({"env": [{"name": "A", "value": "1"}, {"name": "B"}]}) == {"A": "1", "B": ""}
    with pytest.raises(CannotRun, match="TOKEN"):
        plain_environment({"env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]})


def test_a_pods_address_is_served_on_loopback_and_kwoks_is_not() -> None:
    addresses = PodAddresses()
    first, second = addresses.take(), addresses.take()
    assert first != second
    assert addresses.node not in (first, second)
    assert served_at(first) == f"127.{first.removeprefix('10.')}"
    assert not is_served("10.244.0.7")
    with pytest.raises(ValueError, match=r"192\.168\.0\.1"):
        served_at("192.168.0.1")


@pytest.mark.parametrize(("net", "begin"), [(Net.LOOPBACK, "127."), (Net.MACHINE, "198.18.")])
def test_an_address_that_others_connect_to_themselves_is_served_as_it_is(net: Net, begin: str) -> None:
    addresses = PodAddresses(net)
    for address in (addresses.take(), addresses.node):
        assert address.startswith(begin)
        assert ip_address(address).version == 4
        assert served_at(address) == address


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    conditions = Conditions()
    conditions.update({"Ready": False, "Initialized": True}, 0.0)
    shown = {each["type"]: each for each in conditions.update({"Ready": True, "Initialized": True}, 60.0)}
    assert shown["Ready"]["lastTransitionTime"] == "1970-01-01T00:01:00Z"
    assert shown["Initialized"]["lastTransitionTime"] == "1970-01-01T00:00:00Z"
    assert (shown["Ready"]["status"], shown["Ready"]["reason"]) == ("True", None)


def test_a_pod_is_pending_until_a_container_has_run() -> None:
    waiting: dict[str, Any] = {"state": {"waiting": {"reason": "ContainerCreating"}}}
    running: dict[str, Any] = {"state": {"running": {}}}
    looping = waiting | {"lastState": {"terminated": {}}}
    phases = [pod_status([each], [], address="10.1.0.1", began=0.0)["phase"] for each in (waiting, running, looping)]
    assert phases == ["Pending", "Running", "Running"]


def test_an_own_node_is_not_kwoks() -> None:
    annotations = {"kwok.x-k8s.io/node": "fake", "kept": "yes"}
    assert not_played({"metadata": {"name": "a", "annotations": annotations}})["metadata"]["annotations"] == {
        "kept": "yes"
    }


def test_prometheus_gets_a_target_for_each_running_pod_of_its_own() -> None:
    def pod(name: str, address: str, phase: str) -> dict[str, Any]:
        head = {"name": name, "namespace": "here"}
        return {
            "metadata": head,
            "spec": {"containers": [{"ports": PORTS}]},
            "status": {"phase": phase, "podIP": address},
        }

    pods = [
        pod("up", "10.1.0.1", "Running"),
        pod("starts", "10.1.0.2", "Pending"),
        pod("fake", "10.244.0.1", "Running"),
    ]
    pods.append({"metadata": {"name": "unbound"}, "spec": {}, "status": {}})
    assert targets_of(pods) == [{"targets": ["127.1.0.1:8000"], "labels": {"namespace": "here", "pod": "up"}}]


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Image:
    monkeypatch.setattr("testbed.kubelet.engine_image.ensure_engine", lambda: Path("/engine/python"))
    return engine_image(tmp_path / "model")


ENGINE = {
    "name": "engine",
    "image": f"{ENGINE_IMAGE}:v0.32.0",
    "args": ["a/b", "--served-model-name", "first", "--max-num-seqs", "16", "-tp", "2", "--port", "8000"],
    "env": [{"name": "TMPDIR", "value": "/tmp"}],  # noqa: S108 -- a path of the container
    "ports": PORTS,
}


def test_the_engine_gets_the_rendered_command_at_its_own_address(image: Image, tmp_path: Path) -> None:
    program = image(ENGINE, Place("127.1.0.1", tmp_path))
    words = list(program.command)
    rendered = words[words.index("/engine/python") + 3 :]
    assert rendered[:7] == [str(tmp_path / "model"), "--served-model-name", "first", "--max-num-seqs", "16", "-tp", "1"]
    assert rendered[rendered.index("--host") + 1] == "127.1.0.1"
    assert rendered[rendered.index("--port") + 1] == "8000"
    assert "--num-gpu-blocks-override" not in rendered
    assert program.environment["TMPDIR"] == "/tmp"  # noqa: S108
    assert program.environment["OMP_NUM_THREADS"] == "1"
    assert any(line.startswith("-tp 2 -> -tp 1") for line in program.differences)
    assert program.environment["VLLM_WORKER_MULTIPROC_METHOD"] == "fork"
    assert any(line.startswith("OMP_NUM_THREADS=1") for line in program.differences)


@pytest.mark.parametrize(("pool", "blocks"), [("l4-tp1", "65"), ("l40s-tp1", "1000")])
def test_the_size_of_its_kv_cache_depends_on_the_pool(image: Image, tmp_path: Path, pool: str, blocks: str) -> None:
    annotations = {KV_BLOCKS_ANNOTATION: "65", f"{KV_BLOCKS_ANNOTATION}.l40s-tp1": "1000"}
    command = image(ENGINE, Place("127.1.0.1", tmp_path, annotations, {POOL_LABEL: pool})).command
    assert list(command)[command.index("--num-gpu-blocks-override") + 1] == blocks


@pytest.mark.parametrize("change", [{"command": ["bash"]}, {"ports": []}], ids=["another command", "no port"])
def test_what_is_no_engine_is_refused(image: Image, tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(CannotRun):
        image(ENGINE | change, Place("127.1.0.1", tmp_path))

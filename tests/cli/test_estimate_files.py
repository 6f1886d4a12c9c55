"""``plimsoll estimate -f FILE``: the server in manifests of Kubernetes and in files of Docker Compose."""

from __future__ import annotations

import io
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.cli import main as command_line
from plimsoll.cli.starts.command_files import command_of_file
from plimsoll.cli.starts.written_commands import Written
from plimsoll.domain.errors import InvalidInput, PlimsollError
from tests.api.manifests import manifest
from tests.support.tables import examples

QWEN = "Qwen/Qwen3-8B"
IMAGE = "vllm/vllm-openai:v0.30.0"
COMMAND = ["vllm", "serve", QWEN, "--max-model-len", "4096"]


@pytest.fixture(autouse=True)
def without_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def file(tmp_path: Path) -> Any:
    """Write documents into a file, and return its name."""

    def write(*documents: Any, name: str = "file.yaml") -> str:
        path = tmp_path / name
        path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def ask(file: Any, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return the answers of ``-o json`` about documents."""

    def answers(*documents: Any, options: tuple[str, ...] = ("--gpu", "h100-sxm-80gb")) -> list[dict[str, Any]]:
        command_line.cli.main(["estimate", "-f", file(*documents), *options, "-o", "json"], standalone_mode=False)
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["answers"]
        return found

    return answers


def container(**fields: Any) -> dict[str, Any]:
    return {"name": "server", "image": IMAGE, "command": COMMAND, **fields}


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": list(containers), **spec}}


def around(kind: str, *path: str) -> dict[str, Any]:
    """An object of a kind with the pod at a path of keys."""
    found: Any = {"containers": [container()]}
    for key in reversed(path):
        found = {key: found}
    return {"kind": kind, "metadata": {"name": "a"}, **found}


TEMPLATE = ("spec", "template", "spec")
KINDS: dict[str, list[dict[str, Any]]] = {
    "Pod": [pod(container())],
    **{kind: [around(kind, *TEMPLATE)] for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job")},
    "CronJob": [around("CronJob", "spec", "jobTemplate", *TEMPLATE)],
    "LeaderWorkerSet": [around("LeaderWorkerSet", "spec", "leaderWorkerTemplate", "leaderTemplate", "spec")],
    "workers": [around("LeaderWorkerSet", "spec", "leaderWorkerTemplate", "workerTemplate", "spec")],
    "List": [{"kind": "List", "items": [{"kind": "Service"}, pod(container())]}],
    "several documents": [
        {"kind": "Service", "spec": {"ports": []}},
        pod(container(image="nginx", command=["nginx"])),
        pod(container()),
    ],
    "Compose": [{"services": {"web": {"image": "caddy"}, "llm": {"image": IMAGE, "command": COMMAND}}}],
}


@pytest.mark.parametrize("case", KINDS)
def test_the_server_of_each_kind_is_found(case: str, ask: Any) -> None:
    (answer,) = ask(*KINDS[case])
    assert (answer["engine"]["maxModelLen"], answer["engine"]["version"]) == (4096, "0.30.0")
    assert answer["command"]["model"] == QWEN
    assert answer["command"]["image"] == IMAGE


def read(document: dict[str, Any], file: Any) -> Written:
    found = command_of_file(file(document))
    assert isinstance(found, Written)
    return found


def test_the_first_server_counts_and_is_named(file: Any) -> None:
    side, second = container(name="side", image="nginx", command=["nginx"]), container(name="second")
    found = read(pod(side, container(), second), file)
    assert found.where == "Pod/a, containers[1] (server)"
    assert found.taken.endswith("file.yaml: Pod/a, containers[1] (server).")


@pytest.mark.parametrize(
    ("fields", "arguments"),
    [
        ({"command": None, "args": ["--model", QWEN]}, ("--model", QWEN)),
        ({"command": None, "args": [QWEN, "--port", 80]}, (QWEN, "--port", "80")),
        ({"command": ["vllm", "serve"], "args": [QWEN]}, (QWEN,)),
        ({"command": ["sh", "-c", f"exec vllm serve {QWEN}"]}, (QWEN,)),
        ({"command": ["sh", "-c"], "args": [f"sleep 1 && vllm serve {QWEN} --port $PORT"]}, (QWEN, "--port", "80")),
        ({"command": ["vllm", "serve", "$(MODEL)"]}, (QWEN,)),
        ({"command": ["sh", "-c", "vllm serve $(MODEL) --port ${PORT}"]}, (QWEN, "--port", "80")),
        ({"command": ["sh", "-c", "vllm serve $MODEL --port $$PORT"]}, (QWEN, "--port", "80")),
        ({"command": ["vllm", "serve", "$$(MODEL)"]}, ("$(MODEL)",)),
        ({"command": ["vllm", "serve", "$(NOBODY)"]}, ("$(NOBODY)",)),
    ],
)
def test_words_are_those_of_the_process(fields: dict[str, Any], arguments: tuple[str, ...], file: Any) -> None:
    env = [
        {"name": "NAME", "value": "Qwen3-8B"},
        {"name": "MODEL", "value": "Qwen/$(NAME)"},
        {"name": "PORT", "value": 80},
    ]
    assert read(pod(container(env=env, **fields)), file).arguments == arguments


def test_a_variable_from_elsewhere_is_named_where_it_matters(ask: Any) -> None:
    secret = {"name": "LEN", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}
    (answer,) = ask(pod(container(command=["vllm", "serve", QWEN, "--port", "$(LEN)"], env=[secret])))
    assert answer["fit"] == "Sure"
    with pytest.raises(InvalidInput, match=r"containers\[0\] \(server\): --max-model-len: '\$\(LEN\)' cannot be used"):
        ask(pod(container(command=["vllm", "serve", QWEN, "--max-model-len", "$(LEN)"], env=[secret])))


def test_a_variable_of_the_container_that_changes_the_memory_is_a_doubt(ask: Any) -> None:
    env = [{"name": "PYTORCH_CUDA_ALLOC_CONF", "value": "expandable_segments:True"}, {"name": "HF_HOME", "value": "/x"}]
    (answer,) = ask(pod(container(env=env)))
    assert answer["command"]["withoutLaw"] == ["PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"]
    assert answer["fit"] == "Probable"


@pytest.mark.parametrize(
    ("gpus", "command", "said"),
    [
        (1, COMMAND, ""),
        ("2", [*COMMAND, "-tp", "2"], ""),
        (4, [*COMMAND, "-tp=2"], "is 4, and the command starts TP 2 = 2 ranks"),
        (8, [*COMMAND, "-tp=2", "-pp=2", "-dp=2"], ""),
        (1, [*COMMAND, "-tp=2", "--nnodes=2"], ""),
    ],
)
def test_the_gpus_of_the_container_are_those_of_the_ranks(gpus: Any, command: list[str], said: str, ask: Any) -> None:
    (answer,) = ask(pod(container(command=command, resources={"limits": {"nvidia.com/gpu": gpus, "cpu": "4"}})))
    found = [note for note in answer["notes"] if "nvidia.com/gpu" in note]
    assert (said in found[0]) if said else found == []


def test_fewer_gpus_than_ranks_are_refused(ask: Any) -> None:
    limits = {"limits": {"nvidia.com/gpu": 1}}
    with pytest.raises(
        InvalidInput, match=r"resources\.limits\.nvidia\.com/gpu: 1 cannot be used.*TP 2 = 2 ranks.*write 2"
    ):
        ask(pod(container(command=[*COMMAND, "-tp=2"], resources=limits)))
    workers = {"containers": [container(command=[*COMMAND, "-tp=2"], resources=limits)]}
    spread = {"kind": "LeaderWorkerSet", "spec": {"leaderWorkerTemplate": {"leaderTemplate": {"spec": workers}}}}
    assert ask(spread)[0]["fit"] == "Sure"


def affinity(*values: str, key: str = "nvidia.com/gpu.product") -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize(
    ("spec", "types"),
    [
        ({"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L4"}}, {"l4-24gb"}),
        ({"nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}}, {"h100-sxm-80gb"}),
        ({"nodeSelector": {"karpenter.k8s.aws/instance-gpu-name": "l40s"}}, {"l40s-48gb"}),
        (affinity("NVIDIA-L4", "NVIDIA-H100-80GB-HBM3"), {"l4-24gb", "h100-sxm-80gb"}),
        (affinity("a", "b", key="zone") | {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L4"}}, {"l4-24gb"}),
    ],
)
def test_the_nodes_say_the_gpu_types(spec: dict[str, Any], types: set[str], ask: Any) -> None:
    answers = ask(pod(container(), **spec), options=())
    assert {each["gpuType"] for each in answers} == types
    assert any("by the labels of its nodes" in note for note in answers[0]["notes"])
    (named,) = ask(pod(container(), **spec), options=("--gpu", "h200-sxm-141gb"))
    assert named["gpuType"] == "h200-sxm-141gb"


def test_without_labels_all_types_are_answered(ask: Any) -> None:
    assert len(ask(pod(container()), options=())) > 20


@pytest.mark.parametrize(
    ("image", "version", "note"),
    [
        ("vllm/vllm-openai:v0.25.1", "0.25.1", ""),
        ("vllm/vllm-openai:latest", "0.32.0", "The tag of vllm/vllm-openai:latest names no release: vLLM 0.32.0 is"),
        ("vllm/vllm-openai:v0.31.0rc2", "0.31.0", "counts as release 0.31.0"),
    ],
)
def test_the_release_is_that_of_the_image(image: str, version: str, note: str, ask: Any) -> None:
    (answer,) = ask(pod(container(image=image)))
    assert answer["engine"]["version"] == version
    assert any(note in each for each in answer["notes"])
    (named,) = ask(pod(container(image=image)), options=("--gpu", "l4-24gb", "--engine", "0.28.0"))
    assert named["engine"]["version"] == "0.28.0"


def test_a_model_in_a_volume_is_named_in_front(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    name = file(pod(container(command=["vllm", "serve", "/models/qwen"])))
    with pytest.raises(InvalidInput, match="Name the model as MODEL in front of -f"):
        command_line.cli.main(["estimate", "-f", name], standalone_mode=False)
    command_line.cli.main(["estimate", QWEN, "-f", name, "--gpu", "l4-24gb", "-o", "json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["answers"][0]["command"]["model"] == QWEN


def test_a_manifest_of_ours_is_answered_as_one(ask: Any, file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    body = manifest(concurrency=3, engine={"version": "0.30.0"})
    (answer,) = ask(body)
    command_line.cli.main(["estimate", file(body), "--gpu", "h100-sxm-80gb", "-o", "json"], standalone_mode=False)
    assert [answer] == json.loads(capsys.readouterr().out)["answers"]
    assert (answer["engine"]["maxNumSeqs"], answer["engine"]["version"]) == (3, "0.30.0")


def test_standard_input_is_read_as_kubectl_writes_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = yaml.safe_dump(pod(container()) | {"status": {"phase": "Running"}}).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    command_line.cli.main(["estimate", "-f", "-", "--gpu", "l4-24gb", "-o", "json"], standalone_mode=False)
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    assert answer["notes"][0] == "Read from standard input: Pod/a, containers[0] (server)."


def service(**fields: Any) -> dict[str, Any]:
    return {"services": {"llm": {"image": IMAGE, **fields}}}


@pytest.mark.parametrize(
    ("fields", "arguments"),
    [
        ({"command": f"--model {QWEN} --max-model-len ${{LEN:-4096}}"}, ("--model", QWEN, "--max-model-len", "4096")),
        ({"command": ["--model", QWEN]}, ("--model", QWEN)),
        ({"entrypoint": "vllm serve", "command": f"'{QWEN}'"}, (QWEN,)),
        ({"entrypoint": ["bash", "-c"], "command": ["vllm serve $$MODEL"], "environment": {"MODEL": QWEN}}, (QWEN,)),
        ({"entrypoint": ["sh", "-c", "vllm serve $$MODEL"], "environment": [f"MODEL={QWEN}", "TOKEN"]}, (QWEN,)),
    ],
)
def test_services_are_read_as_compose_does(fields: dict[str, Any], arguments: tuple[str, ...], file: Any) -> None:
    found = read(service(**fields), file)
    assert (found.arguments, found.where) == (arguments, "services.llm")


@pytest.mark.parametrize(
    ("fields", "gpus"),
    [
        ({"deploy": {"resources": {"reservations": {"devices": [{"count": 2, "capabilities": ["gpu"]}]}}}}, 2),
        (
            {
                "deploy": {
                    "resources": {"reservations": {"devices": [{"device_ids": ["0", "3"], "capabilities": ["gpu"]}]}}
                }
            },
            2,
        ),
        ({"deploy": {"resources": {"reservations": {"devices": [{"count": "all", "capabilities": ["gpu"]}]}}}}, None),
        ({"gpus": [{"count": 1}]}, 1),
        ({"gpus": "all"}, None),
        ({}, None),
    ],
)
def test_the_gpus_of_a_service_are_its_reservations(fields: dict[str, Any], gpus: int | None, file: Any) -> None:
    assert read(service(command=["--model", QWEN], **fields), file).gpus == gpus


@pytest.mark.parametrize(
    ("documents", "fix"),
    [
        ([{"kind": "Service", "spec": {}}], "It holds no container"),
        ([pod(container(command=["sleep", "inf"]))], "None of its containers starts a server"),
        (
            [pod(container(image="nginx", command=["nginx"]))],
            r"None of its containers starts a server .*containers\[0\]",
        ),
        ([], "It holds no container"),
        ([pod(container(command="vllm serve"))], "Write a list with an entry for each word"),
        ([pod(container(command=["vllm", "serve", {"a": 1}]))], r"command\[2\].*Write a text in quotes"),
        ([service(command="vllm 'serve")], "close its quotes"),
        ([pod(container(command=["vllm", "serve", QWEN, True]))], r"command\[3\].*Write a text in quotes"),
    ],
)
def test_what_holds_no_server_is_refused_with_a_fix(documents: list[Any], fix: str, file: Any) -> None:
    with pytest.raises(InvalidInput, match=fix):
        command_of_file(file(*documents))


def test_a_custom_image_may_load_what_its_release_lacks(ask: Any) -> None:
    command = ["vllm", "serve", "openai/gpt-oss-20b"]
    (own,) = ask(
        pod(container(image="registry/own:1", command=command)), options=("--gpu=h100-sxm-80gb", "--engine=0.10.0")
    )
    assert "NotInRelease" in [each["code"] for each in own["doubts"]]
    with pytest.raises(InvalidInput, match="GptOssForCausalLM"):
        ask(pod(container(image="vllm/vllm-openai:v0.10.0", command=command)))


def test_an_object_with_services_is_no_compose_file(ask: Any) -> None:
    assert ask(pod(container()) | {"services": {"llm": {"image": IMAGE, "command": ["--model", "other/model"]}}})


def test_a_file_that_cannot_be_read_is_named(file: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"nothing\.yaml"):
        command_of_file(str(tmp_path / "nothing.yaml"))
    (tmp_path / "broken.yaml").write_text("a: [", encoding="utf-8")
    with pytest.raises(InvalidInput, match="Document 1 cannot be parsed at line 2"):
        command_of_file(str(tmp_path / "broken.yaml"))
    name = file(pod(container()))
    with pytest.raises(InvalidInput, match="It has the command already"):
        command_line.cli.main(["estimate", "-f", name, "--", *COMMAND], standalone_mode=False)


KEYS = st.sampled_from(
    ["kind", "spec", "template", "containers", "services", "items", "command", "args", "image", "env", "name", "value",
     "valueFrom", "resources", "limits", "nvidia.com/gpu", "nodeSelector", "affinity", "nodeAffinity", "deploy", "gpus",
     "environment", "entrypoint", "metadata", "jobTemplate", "leaderWorkerTemplate", "requests", "capabilities"]
)  # fmt: skip
LEAVES = st.sampled_from([None, True, 1, -1, 1.5, "", "vllm", IMAGE, "all", QWEN, "$(A)", "${B:-c}", "Pod", "a=b"])
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)


def broken(tree: Any, path: list[Any], value: Any) -> Any:
    """A copy of a tree with another value somewhere on a path."""
    if not path or not isinstance(tree, dict | list) or not tree:
        return value
    keys = sorted(tree, key=str) if isinstance(tree, dict) else list(range(len(tree)))
    key = keys[path[0] % len(keys)]
    changed = broken(tree[key], path[1:], value)
    return {**tree, key: changed} if isinstance(tree, dict) else [*tree[:key], changed, *tree[key + 1 :]]


WHOLE = pod(
    container(
        args=["--port", "80"],
        env=[{"name": "A", "value": "b"}],
        resources={"limits": {"nvidia.com/gpu": 1}},
    ),
    nodeSelector={"nvidia.com/gpu.product": "NVIDIA-L4"},
    **affinity("NVIDIA-L4"),
)
COMPOSE = service(
    command=f"--model {QWEN}",
    environment={"A": "b"},
    deploy={"resources": {"reservations": {"devices": [{"count": 1, "capabilities": ["gpu"]}]}}},
)


@settings(max_examples=examples(400), deadline=None)
@given(st.sampled_from([WHOLE, COMPOSE]), st.lists(st.integers(0, 20), max_size=9), TREES)
def test_any_document_is_answered_or_refused(whole: dict[str, Any], path: list[int], tree: Any) -> None:
    text = yaml.safe_dump(broken(whole, path, tree)).encode()
    with pytest.MonkeyPatch.context() as patched, suppress(PlimsollError):
        patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        command_line.cli.main(["estimate", "-f", "-", "--gpu", "l4-24gb", "-o", "json"], standalone_mode=False)

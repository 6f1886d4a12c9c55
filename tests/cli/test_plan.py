"""``plimsoll plan`` at a prompt and in a pipeline: exit status, formats, and what is said of bad input."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plimsoll.adapters.hub import web_session
from testbed.fleet import gpu_node, mixed_fleet
from tests.cli.conftest import Run, deployments
from tests.support.broken_rules import broken_manifests
from tests.support.registry import index, serving_registry
from tests.support.slices import cards, resource_claim, resource_slice

ROOT = Path(__file__).resolve().parents[2]
FLEET, PRICES = str(ROOT / "examples" / "fleet.yaml"), str(ROOT / "examples" / "prices.yaml")
MINIMAL, TOO_BIG = (str(ROOT / "examples" / name / "deployment.yaml") for name in ("01-minimal", "04-does-not-fit"))


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], str]:
    """Writes a file and gives its name."""

    def write_file(text: str) -> str:
        path = tmp_path / "given.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write_file


def test_a_placed_deployment_leaves_with_zero_and_a_table(run: Run) -> None:
    status, shown, _ = run("plan", "-f", MINIMAL, "--fleet", FLEET, "--prices", PRICES)
    assert status == 0
    figures = r"(1\d|20)\.\d +[23]\d,\d{3} +[\d,]+ ms\? +\d+ ms\? +0\.80"
    assert re.search(rf"default/llama-8b +yes +l4-24gb +1 +1 +{figures}", shown)
    assert "?: no measurements on GPUs of this class validate the time." in shown
    assert "It fits for sure: expected" in shown
    assert re.search(r"l4-24gb +2(, \d)* +NodeTooSmall +takes 2 GPUs on one node, the largest has 1", shown)


def test_a_deployment_on_two_gpu_types_has_a_line_for_each(run: Run, write: Callable[[str], str]) -> None:
    two = """
apiVersion: plimsoll.dev/v1alpha1
kind: InferenceDeployment
metadata: {name: two-places, namespace: team}
spec: {model: {name: Qwen/Qwen3-32B}, precision: fp8, contextLength: 32768, concurrency: 24, replicas: 3}
"""
    status, shown, _ = run("plan", "-f", write(two), "--fleet", FLEET)
    rows = [line.split() for line in shown.splitlines() if "team/two-places" in line]
    assert status == 0
    assert [row[:5] for row in rows[:2]] == [
        ["team/two-places", "yes", "a100-sxm-80gb", "4", "2"],
        ["team/two-places", "also", "h100-sxm-80gb", "4", "1"],
    ]
    assert rows[0][-1] == "25.00", "the bill of all three"


def test_an_unplaced_one_leaves_with_one_and_what_would_help(run: Run) -> None:
    status, shown, _ = run("plan", "-f", TOO_BIG, "--fleet", FLEET)
    assert status == 1
    assert "no: NoGpuFits" in shown
    assert re.search(r"- lower spec.concurrency from 64 to (2[89]|3\d)", shown)


def test_one_unplaced_among_placed_ones_is_enough_for_a_one(run: Run) -> None:
    status, shown, _ = run("plan", "-f", MINIMAL, "-f", TOO_BIG, "--fleet", FLEET, "-o", "json")
    assert status == 1
    assert [entry["placed"] for entry in deployments(shown)] == [True, False]


def test_json_and_yaml_say_the_same(run: Run) -> None:
    arguments = ("plan", "-f", MINIMAL, "--fleet", FLEET, "--prices", PRICES, "-o")
    (_, as_json, _), (_, as_yaml, _) = run(*arguments, "json"), run(*arguments, "yaml")
    (entry,) = deployments(as_json)
    assert yaml.safe_load(as_yaml) == {"formatVersion": 1, "deployments": [entry]}
    assert (entry["name"], entry["reason"], entry["placement"]["gpuType"]) == ("llama-8b", "Placed", "l4-24gb")
    assert entry["placement"]["priceSource"] == "ConfigMap plimsoll-system/plimsoll-prices"
    assert entry["engineArguments"][:3] == ["meta-llama/Llama-3.1-8B-Instruct", "--served-model-name", "llama-8b"]


def test_objects_are_what_would_be_applied(run: Run) -> None:
    _, shown, _ = run("plan", "-f", MINIMAL, "--fleet", FLEET, "-o", "objects")
    kinds = [body["kind"] for body in yaml.safe_load_all(shown)]
    assert kinds == ["Service", "Deployment", "PodDisruptionBudget"]
    assert run("plan", "-f", TOO_BIG, "--fleet", FLEET, "-o", "objects")[:2] == (1, "")


def test_nodes_that_take_no_part_are_named(run: Run, write: Callable[[str], str]) -> None:
    shared = "kind: Node\nmetadata: {name: s, labels: {nvidia.com/gpu.product: NVIDIA-L4-SHARED}}\nstatus: {}\n"
    status, shown, _ = run("plan", "-f", MINIMAL, "--fleet", write(shared))
    assert status == 1
    assert "s: SharedGpus (GPUs are shared 1 ways without memory isolation)" in shown


def test_a_catalogued_model_needs_no_network_and_an_unknown_one_says_so(run: Run, write: Callable[[str], str]) -> None:
    unknown = Path(MINIMAL).read_text(encoding="utf-8").replace("meta-llama/Llama-3.1-8B-Instruct", "nobody/nothing")
    status, shown, told = run("plan", "-f", write(unknown), "--fleet", FLEET)
    assert (status, shown) == (2, "")
    assert "given.yaml, document 1, InferenceDeployment llama-8b: model nobody/nothing at revision main could" in told


def test_without_a_fleet_and_without_a_cluster_the_kubeconfig_is_named(run: Run) -> None:
    status, _, told = run("plan", "-f", MINIMAL)
    assert status == 2
    assert "error: No cluster: there is no kubeconfig" in told


DEPLOYMENT = """apiVersion: plimsoll.dev/v1alpha1
kind: InferenceDeployment
metadata: {name: a}
spec:
  model: {name: meta-llama/Llama-3.1-8B-Instruct}
  contextLength: 4096
  concurrency: 8
"""

BAD_MANIFESTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "no YAML": ("a: [", ("given.yaml, document 1: ", "It is not YAML at line ")),
    "a list": ("- a", ("given.yaml, document 1: ", "Write Kubernetes objects")),
    "something else": ("kind: Pod", ("-f: ", "at least one InferenceDeployment")),
    "nothing": ("", ("-f: ", "at least one InferenceDeployment")),
    "an unknown field": (DEPLOYMENT + "  modell: x\n", ("spec.modell: 'x'", "There is no such field: write model.")),
    "a field of a pod": (
        DEPLOYMENT + "  podTemplate: {nodeName: a}\n",
        ("spec.podTemplate.nodeName: 'a'", "the planner chooses the nodes; use podTemplate.nodeSelector"),
    ),
    "a field next to the spec": (DEPLOYMENT + "engine: {}\n", ("engine: {}", "use spec.engine")),
    "a flag that no engine has": (
        DEPLOYMENT + "  engine: {extraArgs: [--enable-prefx-caching]}\n",
        ("spec.engine.extraArgs[0]: '--enable-prefx-caching'", "the nearest is --enable-prefix-caching"),
    ),
    "a wrong type": (DEPLOYMENT.replace("4096", "long"), ("spec.contextLength: 'long'",)),
    "a wrong precision": (DEPLOYMENT + "  precision: awq\n", ("spec.precision: 'awq'", "write auto or bf16")),
    "an owned flag": (
        DEPLOYMENT + "  engine: {extraArgs: [-tp=2]}\n",
        ("spec.engine.extraArgs[0]: '-tp=2'", "use spec.overrides.tensorParallel"),
    ),
    "an old engine": (DEPLOYMENT + "  engine: {version: 0.7.3}\n", ("spec.engine.version: '0.7.3'", "Use 0.8.0")),
    "namesakes": (DEPLOYMENT + "---\n" + DEPLOYMENT, ("metadata.name: 'default/a'", "a name of its own")),
}


@pytest.mark.parametrize(("text", "sentences"), BAD_MANIFESTS.values(), ids=BAD_MANIFESTS)
def test_a_bad_manifest_leaves_with_two_and_one_sentence(
    run: Run, write: Callable[[str], str], text: str, sentences: tuple[str, ...]
) -> None:
    status, shown, told = run("plan", "-f", write(text), "--fleet", FLEET)
    assert (status, shown) == (2, "")
    assert told.startswith("error: ")
    assert "Traceback" not in told
    assert [sentence for sentence in sentences if sentence not in told] == []


def test_every_rule_of_the_crd_is_applied_and_names_file_document_and_object(
    run: Run, write: Callable[[str], str]
) -> None:
    broken = [manifest for _, manifest in broken_manifests("tenant")]
    good = yaml.safe_load(DEPLOYMENT)
    path = write(yaml.safe_dump_all([*broken, good]))
    status, shown, told = run("plan", "-f", path, "--fleet", FLEET, "-o", "json")
    assert status == 2
    assert [entry["name"] for entry in deployments(shown)] == ["a"], "the good one is planned"
    for number, manifest in enumerate(broken, start=1):
        title = f"InferenceDeployment tenant/{manifest['metadata']['name']}"
        assert f"given.yaml, document {number}, {title}: " in told, told


BAD_FLEETS: dict[str, tuple[str, str]] = {
    "no nodes": ("kind: Pod\nmetadata: {name: p}\n", "--fleet: "),
    "an empty list": (
        "kind: List\nitems: []\n",
        "kubectl get nodes,pods,resourcequotas,limitranges,priorityclasses -A -o yaml > fleet.yaml",
    ),
    "a node without a name": ("kind: Node\nmetadata: 5\n", "Node.metadata: 5"),
    "labels in a list": ("kind: Node\nmetadata: {name: n, labels: [a]}\n", "n: metadata.labels: ['a']"),
    "a number for a label": (
        "kind: Node\nmetadata: {name: n, labels: {nvidia.com/gpu.memory: 81559}}\n",
        "n: metadata.labels[nvidia.com/gpu.memory]: 81559 cannot be used. Labels are strings: quote it.",
    ),
    "allocatable in a list": (
        "kind: Node\nmetadata: {name: n}\nstatus: {allocatable: [gpu]}\n",
        "given.yaml, document 1, Node n: status.allocatable: ['gpu'] cannot be used. Write a mapping of quantities.",
    ),
    "GPUs in words": (
        "kind: Node\nmetadata: {name: n}\nstatus: {allocatable: {nvidia.com/gpu: eight}}\n",
        "n: status.allocatable[nvidia.com/gpu]: 'eight' cannot be used. Write a number from 0 to 1024.",
    ),
    "a taint that is none": (
        "kind: Node\nmetadata: {name: n}\nspec: {taints: [a=b:NoSchedule]}\n",
        "n: spec.taints[0]: 'a=b:NoSchedule' cannot be used. Write a mapping.",
    ),
    "a pod without containers": (
        "kind: Node\nmetadata: {name: n}\n---\nkind: Pod\nmetadata: {name: p}\nspec: {containers: none}\n",
        "given.yaml, document 2, Pod p: spec.containers: 'none' cannot be used.",
    ),
    "a pod that asks for a list": (
        "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{resources: {limits: [1]}}]}\n",
        "Pod p: spec.containers[0].resources.limits: [1] cannot be used.",
    ),
    "a command that is no list": (
        "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{command: 5}]}\n",
        "Pod p: spec.containers[0].command: 5 cannot be used. Write a list of strings.",
    ),
    "a node written twice": (
        "kind: Node\nmetadata: {name: n}\n---\nkind: Node\nmetadata: {name: n}\n",
        "given.yaml, document 2, Node n: ",
    ),
    "a status that is none": ("kind: Node\nmetadata: {name: n}\nstatus: fine\n", "n: status: 'fine'"),
}


@pytest.mark.parametrize(("text", "sentence"), BAD_FLEETS.values(), ids=BAD_FLEETS)
def test_a_bad_fleet_does_too(run: Run, write: Callable[[str], str], text: str, sentence: str) -> None:
    status, _, told = run("plan", "-f", MINIMAL, "--fleet", write(text))
    assert status == 2
    assert sentence in told


def test_a_missing_file_is_named(run: Run, tmp_path: Path) -> None:
    missing = str(tmp_path / "nowhere.yaml")
    for arguments in (("-f", missing, "--fleet", FLEET), ("-f", MINIMAL, "--fleet", missing)):
        status, _, told = run("plan", *arguments)
        assert status == 2
        assert f"error: file: '{missing}' cannot be used. It cannot be read" in told


def test_nodes_that_could_be_added_are_suggested_and_a_wrong_file_is_refused(
    run: Run, write: Callable[[str], str], tmp_path: Path
) -> None:
    empty = str(tmp_path / "fleet.yaml")
    Path(empty).write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n}\n", encoding="utf-8")
    own = write("- {name: small, gpuType: l4-24gb, gpusPerNode: 1, maxNodes: 1, usdPerHour: '0.50'}\n")
    status, shown, told = run("plan", "-f", MINIMAL, "--fleet", empty, "--node-groups", own, "-o", "json")
    assert (status, told) == (1, "")
    (planned,) = deployments(shown)
    assert planned["remedies"][0] == {
        "kind": "AddNodes",
        "message": "add 1 node of the group small (1 l4-24gb each, $0.50/h): every replica fits there",
    }
    for wrong in ("kind: Secret\n", "[]\n", "- {name: small}\n", "a: [\n", "7\n"):
        status, _, told = run("plan", "-f", MINIMAL, "--fleet", empty, "--node-groups", write(wrong))
        assert (status, told.startswith("error: --node-groups")) == (2, True), (wrong, told)


def test_all_that_is_wrong_with_an_object_is_said_at_once_and_the_neighbour_is_planned(
    run: Run, write: Callable[[str], str]
) -> None:
    good = yaml.safe_load(Path(MINIMAL).read_text(encoding="utf-8"))
    spec = good["spec"]
    wrong = {
        **{name: value for name, value in spec.items() if name not in ("contextLength", "concurrency")},
        "contextLenght": 4096,
        "concurrency": 0,
        "gpu": {"allow": ["h100"]},
    }
    bad = {**good, "metadata": {"name": "bad"}, "spec": wrong}
    status, shown, said = run("plan", "-f", write(yaml.safe_dump_all([bad, good])), "--fleet", FLEET, "-o", "json")
    assert status == 2
    assert [each["name"] for each in deployments(shown)] == [good["metadata"]["name"]]
    for part in (
        "spec.contextLength: a value is missing. Write it: ",
        "spec.contextLenght: 4096 cannot be used. There is no such field: write contextLength.",
        "spec.concurrency: 0 cannot be used.",
        "spec.gpu.allow[0]: 'h100' cannot be used. There is no such GPU type; did you mean",
    ):
        assert said.count(part) == 1, said
    many = {**good, "spec": spec | {f"wrong{number}": 1 for number in range(9)}}
    _, _, said = run("plan", "-f", write(yaml.safe_dump(many)), "--fleet", FLEET)
    assert (said.count("There is no such field"), "4 more fields cannot be used." in said) == (5, True)


def test_the_chart_s_values_decide_on_a_file_as_they_do_in_the_operator(
    run: Run, write: Callable[[str], str], tmp_path: Path
) -> None:
    where = tmp_path / "nodes.yaml"
    where.write_text(
        yaml.safe_dump_all([gpu_node("m", "MI300X", 8), gpu_node("h", "H100-80GB-HBM3", 8)]), encoding="utf-8"
    )
    arguments = ("plan", "-f", MINIMAL, "--fleet", str(where), "-o", "json", "--values")

    def placement(**values: Any) -> dict[str, Any]:
        status, shown, said = run(*arguments, write(yaml.safe_dump(values)))
        assert status == 0, said
        (entry,) = deployments(shown)
        found: dict[str, Any] = entry["placement"]
        return found

    assert placement()["gpuType"] == placement(objective="Balanced", image={"registry": "r.example"})["gpuType"]
    assert placement()["billing"] == "AssumedOwned"
    assert placement(fleet={"billing": "onDemand"})["billing"] == "OnDemand"
    assert placement(fleet={"billing": "owned", "overload": "MostPlaced"})["billing"] == "Owned"
    group = {"name": "g", "gpuType": "h100-sxm-80gb", "gpusPerNode": 8, "maxNodes": 4}
    assert placement(fleet={"nodeGroups": [group]})["billing"] == "OnDemand", "what can grow is billed by use"


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ("objective: Fast", "objective"),
        ("gpuVendors: [Intel]", "gpuVendors"),
        ("fleet: {billing: reserved}", "fleet.billing"),
        ("fleet: {overload: 3}", "fleet.overload"),
        ("fleet: {nodeGroups: [{name: g}]}", "fleet.nodeGroups[0]"),
        ("fleet: [1]", "fleet"),
        ("- 1", "--values"),
        ("{", "--values"),
    ],
)
def test_a_wrong_value_is_named_by_its_key(run: Run, write: Callable[[str], str], values: str, field: str) -> None:
    status, shown, said = run("plan", "-f", MINIMAL, "--fleet", FLEET, "--values", write(values))
    assert (status, shown) == (2, "")
    assert said.startswith("error: ")
    assert field in said


def test_on_a_cluster_the_values_of_the_operator_count_and_others_are_refused(
    run: Run, write: Callable[[str], str]
) -> None:
    status, _, said = run("plan", "-f", MINIMAL, "--values", write("objective: Batch"))
    assert (status, "--values" in said, "--fleet" in said) == (2, True, True)


def test_on_a_cluster_the_operator_s_node_groups_count_and_others_are_refused(
    run: Run, write: Callable[[str], str]
) -> None:
    own = write("- {name: small, gpuType: l4-24gb, gpusPerNode: 1, maxNodes: 1}\n")
    status, _, told = run("plan", "-f", MINIMAL, "--node-groups", own)
    assert (status, "--node-groups" in told, "--fleet" in told) == (2, True, True)


@pytest.mark.parametrize("source", ["--fleet", "--snapshot"])
def test_without_an_api_server_there_is_no_dry_run_to_leave_out(run: Run, source: str) -> None:
    status, _, told = run("plan", "-f", MINIMAL, source, FLEET, "--no-dry-run")
    assert (status, "--no-dry-run" in told, "Leave it out" in told) == (2, True, True)


def test_prices_without_a_config_map_and_bad_prices_are_refused(run: Run, write: Callable[[str], str]) -> None:
    status, _, told = run("plan", "-f", MINIMAL, "--fleet", FLEET, "--prices", write("kind: Secret\n"))
    assert status == 2
    assert "error: --prices: " in told
    cheap = write("kind: ConfigMap\nmetadata: {name: x}\ndata: {l4-24gb: cheap, l40s-48gb: 0.01}\n")
    status, _, told = run("plan", "-f", MINIMAL, "--fleet", FLEET, "--prices", cheap)
    assert status == 2
    assert "default/x: l4-24gb: 'cheap' is no price" in told
    cheaper = write("kind: ConfigMap\nmetadata: {name: x}\ndata: {l40s-48gb: 0.01}\n")
    status, shown, _ = run("plan", "-f", MINIMAL, "--fleet", FLEET, "--prices", cheaper)
    assert status == 0
    assert "yes     l40s-48gb" in shown


def test_a_gpu_type_that_does_not_exist_is_refused_with_those_like_it(run: Run, write: Callable[[str], str]) -> None:
    manifest = yaml.safe_load(Path(MINIMAL).read_text(encoding="utf-8"))
    manifest["spec"]["gpu"] = {"allow": ["h100"]}
    status, _, said = run("plan", "-f", write(yaml.safe_dump(manifest)), "--fleet", FLEET)
    plain = " ".join(said.split())
    assert status == 2
    assert "spec.gpu.allow[0]: 'h100' cannot be used" in plain
    assert "did you mean h100-nvl-94gb, h100-pcie-80gb or h100-sxm-80gb?" in plain


def test_a_missing_option_is_a_usage_error(run: Run) -> None:
    status, _, told = run("plan")
    assert status == 2
    assert "Missing option '-f'" in told


def test_several_deployments_are_shown_with_the_proof_of_how_good_their_plan_is(run: Run, tmp_path: Path) -> None:
    manifest = Path(MINIMAL).read_text(encoding="utf-8")
    twice = tmp_path / "two.yaml"
    twice.write_text(manifest + "---\n" + manifest.replace("name: llama-8b", "name: other"), encoding="utf-8")
    status, shown, _ = run("plan", "-f", str(twice), "--fleet", FLEET, "--prices", PRICES)
    assert status == 0
    assert re.search(
        r"2 deployments were decided together\. No other plan by the same rules saves more than 0\.\d%\.", shown
    )


def test_one_deployment_has_no_plan_together_with_others(run: Run) -> None:
    _, shown, _ = run("plan", "-f", MINIMAL, "--fleet", FLEET, "--prices", PRICES)
    assert "together" not in shown


def test_before_anybody_is_advised_to_buy_the_gpus_that_are_left_out_are_named(
    run: Run, write: Callable[[str], str]
) -> None:
    nodes = {
        "worker-a": {"nvidia.com/gpu": "4"},
        "worker-b": {"nvidia.com/gpu": "8"},
        "other": {"habana.ai/gaudi": "8"},
    }
    bodies = [
        {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "96", **devices}}}
        for name, devices in nodes.items()
    ]
    status, shown, _ = run("plan", "-f", MINIMAL, "--fleet", write(yaml.safe_dump_all(bodies)), "-o", "json")
    (entry,) = deployments(shown)
    assert (status, entry["reason"]) == (1, "NoGpuFits")
    said = (
        "20 GPUs of 3 nodes are left out: NoProductLabel 2 (run the labeller of the GPUs' vendor there, or label them "
    )
    assert said in entry["message"]
    assert entry["message"].index("NotSupported 1") < entry["message"].index("add a node with")


def two_platforms() -> str:
    """A file with a cheap node with Arm CPUs and a usual one."""

    def node_of(name: str, arch: str, product: str, mib: int, capability: str) -> dict[str, Any]:
        major, minor = capability.split(".")
        labels = {
            "kubernetes.io/arch": arch,
            "nvidia.com/gpu.product": product,
            "nvidia.com/gpu.memory": str(mib),
            "nvidia.com/gpu.compute.major": major,
            "nvidia.com/gpu.compute.minor": minor,
        }
        held = {"cpu": "96", "memory": "1152Gi", "pods": "110", "nvidia.com/gpu": "1"}
        return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": held}}

    return yaml.safe_dump_all(
        [
            node_of("grace", "arm64", "NVIDIA-GH200-480GB", 97871, "9.0"),
            node_of("host", "amd64", "NVIDIA-H100-80GB-HBM3", 81559, "9.0"),
        ]
    )


def test_the_cheapest_node_is_not_taken_where_the_image_has_no_platform_for_it(
    run: Run, write: Callable[[str], str], tmp_path: Path
) -> None:
    fleet = write(two_platforms())

    def placed(**engine: Any) -> tuple[str, set[str]]:
        manifest = yaml.safe_load(Path(MINIMAL).read_text(encoding="utf-8"))
        manifest["spec"] |= {"engine": engine} if engine else {}
        file = tmp_path / "deployment.yaml"
        file.write_text(yaml.safe_dump(manifest), encoding="utf-8")
        _, shown, _ = run("plan", "-f", str(file), "--fleet", fleet, "-o", "json")
        (entry,) = deployments(shown)
        return entry["placement"]["gpuType"], {each["reason"] for each in entry["rejections"]}

    image = {"image": "registry.example/vllm-amd64:0.32.0"}
    gpu_type, reasons = placed(**image)
    assert gpu_type == "h100-sxm-80gb"
    assert "ImageForOtherPlatform" in reasons
    assert placed()[0] == placed(**image, platforms=["linux/arm64"])[0] == "gh200-96gb"


def planned(run: Run, fleet: str, folder: Path, image: str) -> tuple[str, dict[str, Any], str]:
    """The place of a deployment with an own image, its platforms, and what is said of a node without one of them."""
    manifest = yaml.safe_load(Path(MINIMAL).read_text(encoding="utf-8"))
    manifest["spec"] |= {"engine": {"image": image}}
    file = folder / "deployment.yaml"
    file.write_text(yaml.safe_dump(manifest), encoding="utf-8")
    _, shown, _ = run("plan", "-f", str(file), "--fleet", fleet, "-o", "json")
    (entry,) = deployments(shown)
    said = [each["message"] for each in entry["rejections"] if each["reason"] == "ImageForOtherPlatform"]
    return entry["placement"]["gpuType"], entry["imagePlatforms"], (said or [""])[0]


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Gives the network back that :func:`run` takes away. Ask for it first."""
    resolve, connect = socket.getaddrinfo, socket.socket.connect

    def give_back() -> None:
        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        monkeypatch.setattr(socket.socket, "connect", connect)

    return give_back


def test_the_platforms_of_an_image_are_read_from_its_registry_as_the_operator_reads_them(
    network: Callable[[], None],
    run: Run,
    write: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = write(two_platforms())
    _, found, _ = planned(run, fleet, tmp_path, "ghcr.io/team/arm:1")
    assert found["unread"].startswith("the registry at https://ghcr.io cannot be reached")
    network()
    with serving_registry(tmp_path) as registry:
        trusting = ssl.create_default_context(cafile=str(registry.authority))
        monkeypatch.setattr(web_session, "_tls", lambda: trusting)
        arm = registry.publish("team/arm", "1", index("linux/arm64"))
        usual, found, why = planned(run, fleet, tmp_path, arm)
        assert (usual, found["source"]) == ("h100-sxm-80gb", "Assumed")
        assert f"the index of {arm} could not be read: {registry.host} is none of engine.imageRegistries" in why
        assert registry.asked() == []
        monkeypatch.setenv("PLIMSOLL_IMAGE_REGISTRIES", registry.host)
        place, found, why = planned(run, fleet, tmp_path, arm)
        assert (place, found) == ("gh200-96gb", {"reference": arm, "platforms": ["linux/arm64"], "source": "Index"})
        assert f"linux/arm64 (the index of {arm} names them" in why
        place, found, why = planned(run, fleet, tmp_path, f"{registry.host}/team/none:1")
        assert (place, found["unread"]) == ("h100-sxm-80gb", "the registry answered HTTP 404")
        asked = len(registry.asked())
        monkeypatch.setenv("PLIMSOLL_IMAGE_REGISTRIES", "none")
        assert "unread" not in planned(run, fleet, tmp_path, arm)[1]
        assert len(registry.asked()) == asked


def test_gpus_that_only_a_dra_driver_publishes_are_named_in_a_plan_on_a_file(
    run: Run, write: Callable[[str], str]
) -> None:
    drawn = {"kind": "Node", "metadata": {"name": "drawn"}, "status": {"allocatable": {"cpu": "96"}}}
    bodies = [drawn, resource_slice("drawn", *cards(8))]
    status, shown, _ = run("plan", "-f", MINIMAL, "--fleet", write(yaml.safe_dump_all(bodies)))
    assert status == 1
    said = " ".join(shown.split())
    assert "8 devices of gpu.nvidia.com on 1 node are left out: NotSupported (published through DRA's" in said
    assert "drawn: NotSupported (8 devices of gpu.nvidia.com are published through DRA (ResourceSlices)" in said
    status, shown, _ = run("plan", "-f", MINIMAL, "--fleet", write(yaml.safe_dump_all([*bodies, *mixed_fleet()])))
    assert status == 0, "other nodes are used as usual"
    assert "drawn: NotSupported" in shown


ZONE = "topology.kubernetes.io/zone"


def storage(mode: str = "ReadWriteOnce") -> list[dict[str, Any]]:
    """A claim of the namespace default that is bound to a volume of zone-a."""
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-a"]}]}
    affinity = {"required": {"nodeSelectorTerms": [term]}}
    spec = {"volumeName": "pv-a", "accessModes": [mode], "storageClassName": "zonal"}
    return [
        {"kind": "PersistentVolume", "metadata": {"name": "pv-a"}, "spec": {"nodeAffinity": affinity}},
        {"kind": "PersistentVolumeClaim", "metadata": {"name": "weights", "namespace": "default"}, "spec": spec},
    ]


def test_a_plan_on_a_file_goes_where_the_volume_of_the_file_is_and_refuses_what_several_replicas_cannot_mount(
    run: Run, write: Callable[[str], str], tmp_path: Path
) -> None:
    nodes = [
        gpu_node("cheap", "L4", 4, zone="zone-b"),
        gpu_node("dear", "H100-80GB-HBM3", 4, zone="zone-a"),
    ]

    def planned(objects: list[dict[str, Any]], **spec: Any) -> tuple[int, str, str]:
        manifest = yaml.safe_load(Path(MINIMAL).read_text(encoding="utf-8"))
        manifest["spec"] |= {"podTemplate": {"modelCache": {"claimName": "weights"}}, "concurrency": 2, **spec}
        neighbour = yaml.safe_load(Path(MINIMAL).read_text(encoding="utf-8"))
        neighbour["metadata"]["name"], neighbour["spec"]["concurrency"] = "neighbour", 2
        file = tmp_path / "deployments.yaml"
        file.write_text(yaml.safe_dump_all([manifest, neighbour]), encoding="utf-8")
        return run("plan", "-f", str(file), "--fleet", write(yaml.safe_dump_all([*nodes, *objects])), "-o", "json")

    status, shown, _ = planned(storage())
    assert (status, [each["placement"]["gpuType"] for each in deployments(shown)]) == (
        0,
        ["h100-sxm-80gb", "l4-24gb"],
    )
    status, shown, _ = planned([])
    assert (status, [each["placement"]["gpuType"] for each in deployments(shown)]) == (
        0,
        ["l4-24gb", "l4-24gb"],
    )
    status, shown, said = planned(storage(), replicas=2)
    assert (status, len(deployments(shown))) == (2, 1)
    assert "spec.podTemplate.modelCache.claimName: 'weights'" in " ".join(said.split())
    assert planned(storage("ReadWriteMany"), replicas=2)[0] == 0


@pytest.mark.parametrize(
    ("mode", "suspended", "words"),
    [
        ("ReadWriteOnce", False, "which is ReadWriteOnce: only pods of one node run at a time."),
        ("ReadWriteOncePod", False, "which is ReadWriteOncePod: only one of them runs at a time."),
        ("ReadWriteMany", False, ""),
        ("ReadWriteOnce", True, ""),
    ],
)
def test_two_of_one_plan_that_mount_one_claim_for_one_node_are_warned_and_a_neighbour_is_not(
    run: Run, write: Callable[[str], str], tmp_path: Path, mode: str, words: str, *, suspended: bool
) -> None:
    bodies = [yaml.safe_load(Path(MINIMAL).read_text(encoding="utf-8")) for _ in range(3)]
    for name, body in zip("abc", bodies, strict=True):
        body["metadata"]["name"] = name
        body["spec"] |= {"podTemplate": {"modelCache": {"claimName": "weights"}}} if name != "c" else {}
    bodies[1]["spec"]["suspend"] = suspended
    file = tmp_path / "deployments.yaml"
    file.write_text(yaml.safe_dump_all(bodies), encoding="utf-8")
    given = write(yaml.safe_dump_all([gpu_node("dear", "H100-80GB-HBM3", 4, zone="zone-a"), *storage(mode)]))
    _, shown, _ = run("plan", "-f", str(file), "--fleet", given, "-o", "json")
    said = {each["name"]: " ".join(each.get("placement", {}).get("warnings", ())) for each in deployments(shown)}
    assert {name for name, text in said.items() if "the claim weights as well" in text} == (
        set("ab") if words else set()
    )
    assert words in said["a"]
    assert not words or "default/b mounts the claim weights" in said["a"]


def test_a_claim_that_is_not_bound_yet_is_warned_of_where_its_class_does_not_wait_for_a_pod(
    run: Run, write: Callable[[str], str], tmp_path: Path
) -> None:
    manifest = yaml.safe_load(Path(MINIMAL).read_text(encoding="utf-8"))
    manifest["spec"] |= {"podTemplate": {"modelCache": {"claimName": "weights"}}}
    file = tmp_path / "deployments.yaml"
    file.write_text(yaml.safe_dump(manifest), encoding="utf-8")
    _, claim = storage()
    claim["spec"]["volumeName"] = ""
    for mode in ("Immediate", "WaitForFirstConsumer"):
        kind = {"kind": "StorageClass", "metadata": {"name": "zonal"}, "volumeBindingMode": mode}
        given = write(yaml.safe_dump_all([gpu_node("dear", "H100-80GB-HBM3", 4), claim, kind]))
        status, shown, _ = run("plan", "-f", str(file), "--fleet", given, "-o", "json")
        assert status == 0
        assert ("The claim weights is not bound" in shown) is (mode == "Immediate")


def some_claims() -> st.SearchStrategy[dict[str, Any]]:
    """A claim of any state, with whether Kubernetes starts pods with it as far as the file says."""
    parts: dict[str, st.SearchStrategy[Any]] = {
        "metadata": st.sampled_from([{}, {"deletionTimestamp": "2026-11-29T00:00:00Z"}]),
        "phase": st.sampled_from(["Bound", "Pending", "Lost"]),
        "volume": st.sampled_from(["", "pv-a"]),
        "kind": st.sampled_from([None, "", "zonal", "gone"]),
        "mode": st.sampled_from(["ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"]),
        "terms": st.sampled_from([None, [], [{}]]),
        "classes": st.sampled_from([[], ["zonal"]]),
    }
    return st.fixed_dictionaries(parts)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=some_claims())
def test_a_claim_of_any_state_is_refused_with_its_name_or_placed_and_a_neighbour_is_placed_as_before(
    run: Run, write: Callable[[str], str], tmp_path: Path, drawn: dict[str, Any]
) -> None:
    spec = {"volumeName": drawn["volume"], "accessModes": [drawn["mode"]], "storageClassName": drawn["kind"]}
    head = {"name": "weights", "namespace": "default", **drawn["metadata"]}
    claim = {"kind": "PersistentVolumeClaim", "metadata": head, "spec": spec, "status": {"phase": drawn["phase"]}}
    affinity = {} if drawn["terms"] is None else {"required": {"nodeSelectorTerms": drawn["terms"]}}
    volume = {"kind": "PersistentVolume", "metadata": {"name": "pv-a"}, "spec": {"nodeAffinity": affinity}}
    classes = [
        {"kind": "StorageClass", "metadata": {"name": name}, "volumeBindingMode": "WaitForFirstConsumer"}
        for name in drawn["classes"]
    ]
    manifest, neighbour = (yaml.safe_load(Path(MINIMAL).read_text(encoding="utf-8")) for _ in range(2))
    manifest["spec"] |= {"podTemplate": {"modelCache": {"claimName": "weights"}}}
    neighbour["metadata"]["name"] = "neighbour"
    file = tmp_path / "deployments.yaml"
    file.write_text(yaml.safe_dump_all([manifest, neighbour]), encoding="utf-8")
    objects = [gpu_node("node", "H100-80GB-HBM3", 4), claim, volume, *classes]
    status, shown, said = run("plan", "-f", str(file), "--fleet", write(yaml.safe_dump_all(objects)), "-o", "json")
    is_usable = not (
        drawn["metadata"]
        or drawn["phase"] == "Lost"
        or (drawn["volume"] and drawn["terms"] is not None)
        or (drawn["kind"] == "gone" and drawn["classes"] and not drawn["volume"])
    )
    placed = [each["name"] for each in deployments(shown) if each["placed"]]
    assert (status, placed) == ((0, [manifest["metadata"]["name"], "neighbour"]) if is_usable else (2, ["neighbour"]))
    assert ("spec.podTemplate.modelCache.claimName: 'weights'" in " ".join(said.split())) is not is_usable
    assert "add a node" not in said


@pytest.mark.parametrize(
    ("mode", "node", "owner", "placed"),
    [
        ("ReadWriteOnce", "dear", "", "h100-sxm-80gb"),
        ("ReadWriteOnce", "cpu", "", ""),
        ("ReadWriteOnce", "cpu", "llama-8b", "l4-24gb"),
        ("ReadWriteMany", "cpu", "", "l4-24gb"),
        ("ReadWriteOncePod", "cpu", "", None),
    ],
)
def test_a_plan_on_a_file_goes_where_a_pod_of_somebody_else_mounts_a_claim_for_one_node(
    run: Run, write: Callable[[str], str], tmp_path: Path, mode: str, node: str, owner: str, placed: str | None
) -> None:
    labels = {"plimsoll.dev/deployment": owner} if owner else {}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "store", "namespace": "default", "labels": labels},
        "spec": {
            "nodeName": node,
            "containers": [],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "weights"}}],
        },
        "status": {"phase": "Running"},
    }
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "weights", "namespace": "default"},
        "spec": {"accessModes": [mode], "volumeName": "pv-a"},
    }
    nodes = [gpu_node("cheap", "L4", 4), gpu_node("dear", "H100-80GB-HBM3", 4)]
    manifest, neighbour = (yaml.safe_load(Path(MINIMAL).read_text(encoding="utf-8")) for _ in range(2))
    manifest["spec"] |= {"podTemplate": {"modelCache": {"claimName": "weights"}}, "concurrency": 2}
    neighbour["metadata"]["name"], neighbour["spec"]["concurrency"] = "neighbour", 2
    file = tmp_path / "deployments.yaml"
    file.write_text(yaml.safe_dump_all([manifest, neighbour]), encoding="utf-8")
    status, shown, said = run(
        "plan", "-f", str(file), "--fleet", write(yaml.safe_dump_all([*nodes, claim, pod])), "-o", "json"
    )
    found = {each["name"]: each.get("placement", {}).get("gpuType", "") for each in deployments(shown)}
    assert found == {"neighbour": "l4-24gb"} | ({} if placed is None else {"llama-8b": placed})
    if not placed:
        assert status != 0
        assert f"pod store {'on node cpu mounts it' if placed is None else 'mounts it on node cpu'}" in shown + said
        assert "add a node" not in shown + said


def test_a_plan_on_a_file_says_which_replicas_would_wait_for_new_nodes(
    run: Run, write: Callable[[str], str], tmp_path: Path
) -> None:
    cpu = {"kind": "Node", "metadata": {"name": "cpu-0"}, "status": {"allocatable": {"cpu": "32", "memory": "128Gi"}}}
    group = {"name": "gpus", "gpuType": "l40s-48gb", "gpusPerNode": 1, "maxNodes": 4, "labels": {"pool": "gpus"}}
    for more, gpu_type in (({}, None), ({"scaleUp": {"maxHourlyPrice": "5"}}, "l40s-48gb")):
        groups = tmp_path / "groups.yaml"
        groups.write_text(yaml.safe_dump([group | more]), encoding="utf-8")
        fleet = write(yaml.safe_dump(cpu))
        status, shown, _ = run("plan", "-f", MINIMAL, "--fleet", fleet, "--node-groups", str(groups), "-o", "json")
        (entry,) = deployments(shown)
        assert (status, (entry.get("placement") or {}).get("gpuType")) == (int(gpu_type is None), gpu_type)


@pytest.mark.parametrize(
    ("resources", "largest"),
    [
        ({"requests": {"ephemeral-storage": "200Gi"}}, {"ephemeral-storage": "40Gi"}),
        ({"requests": {"rdma/ib": "1"}, "limits": {"rdma/ib": "1"}}, {}),
        ({"limits": {"rdma/ib": "2"}}, {"rdma/ib": "1"}),
        ({"requests": {"hugepages-2Mi": "4Gi"}, "limits": {"hugepages-2Mi": "4Gi"}}, {"hugepages-2Mi": "0"}),
    ],
    ids=["storage", "card", "two cards", "pages"],
)
def test_a_resource_that_no_node_has_is_named_and_the_neighbour_is_placed(
    run: Run, write: Callable[[str], str], tmp_path: Path, resources: dict[str, Any], largest: dict[str, str]
) -> None:
    node = gpu_node("small", "L4", 4)
    node["status"]["allocatable"] |= largest
    manifest, neighbour = (yaml.safe_load(Path(MINIMAL).read_text(encoding="utf-8")) for _ in range(2))
    manifest["spec"]["podTemplate"] = {"resources": resources}
    neighbour["metadata"]["name"] = "neighbour"
    file = tmp_path / "deployments.yaml"
    file.write_text(yaml.safe_dump_all([manifest, neighbour]), encoding="utf-8")

    status, shown, _ = run("plan", "-f", str(file), "--fleet", write(yaml.safe_dump(node)), "-o", "json")
    picky, served = deployments(shown)
    assert (status, picky["placed"], served["placed"]) == (1, False, True)
    (name,) = resources.get("limits") or resources["requests"]
    lacking = [each["message"] for each in picky["rejections"] if each["reason"] == "NodeLacksResource"]
    assert lacking
    assert all(name in each for each in lacking)

    enough = gpu_node("large", "L4", 4)
    enough["status"]["allocatable"] |= {"ephemeral-storage": "300Gi", "rdma/ib": "2", "hugepages-2Mi": "8Gi"}
    status, shown, _ = run("plan", "-f", str(file), "--fleet", write(yaml.safe_dump_all([node, enough])), "-o", "json")
    assert (status, [each["placed"] for each in deployments(shown)]) == (0, [True, True])


def test_an_unhealthy_gpu_is_named_before_anybody_is_advised_to_buy(run: Run, tmp_path: Path) -> None:
    large = yaml.safe_load(Path(TOO_BIG).read_text(encoding="utf-8"))
    forced = {"gpuType": "h100-sxm-80gb", "tensorParallel": 8}
    large["spec"] |= {"contextLength": 8192, "concurrency": 8, "overrides": forced}
    node = gpu_node("h100-0", "H100-80GB-HBM3", 8)
    node["status"]["capacity"] = dict(node["status"]["allocatable"])
    node["status"]["allocatable"]["nvidia.com/gpu"] = "7"
    for name, body in (("large.yaml", large), ("fleet.yaml", node)):
        (tmp_path / name).write_text(yaml.safe_dump(body), encoding="utf-8")
    status, shown, _ = run("plan", "-f", str(tmp_path / "large.yaml"), "--fleet", str(tmp_path / "fleet.yaml"))
    said = " ".join(shown.split())
    assert status == 1
    assert "takes 8 GPUs on one node, the largest has 7 (node h100-0 has 1 more, which is unhealthy)" in said
    named = "1 of 8 nvidia.com/gpu is unhealthy (kubectl describe node h100-0)"
    summary = said.index(f"1 GPU is left out: on h100-0 {named}.")
    assert summary < said.index("What helps: ")
    assert f"h100-0: {named}" in said


def test_a_gpu_that_a_resource_claim_holds_is_not_promised(run: Run, write: Callable[[str], str]) -> None:
    bodies = [gpu_node("both", "L4", 1), resource_slice("both", *cards(1)), resource_claim("both", "gpu-0")]
    status, shown, _ = run("plan", "-f", MINIMAL, "--fleet", write(yaml.safe_dump_all(bodies)))
    said = " ".join(shown.split())
    assert status == 1
    assert "no: WaitingForGpus" in said
    words = "1 GPU on both counts as taken: ResourceClaims hold it, and a device plugin offers it, too (kubectl get"
    assert words in said
    assert run("plan", "-f", MINIMAL, "--fleet", write(yaml.safe_dump_all(bodies[:2])))[0] == 0

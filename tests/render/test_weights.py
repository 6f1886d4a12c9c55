"""Where engines find their weights, and the Job that puts them there."""

from __future__ import annotations

import re
from typing import Any

import pytest

from plimsoll.api.checks.pod_policy import PodPolicy, check_pod_policy
from plimsoll.api.conversion.convert import to_workload_options
from plimsoll.domain.errors import NotPermitted
from plimsoll.domain.requests.weights import WEIGHTS_PATH, CopyTool, Weights
from plimsoll.domain.requests.workload import WorkloadOptions
from plimsoll.engines.node_needs import fills_cache
from plimsoll.render.weights import job_name, weights_job
from tests.api.manifests import deployment
from tests.render.workloads import container, rendered
from tests.support.planning import LLAMA_8B
from tests.support.tables import every_case

BUCKET, IMAGE = "s3://models/llama", "oci://registry.example/llama@sha256:0"
POLICY = PodPolicy(secrets=("keys",))


def pod(**model: Any) -> dict[str, Any]:
    """The pod of a deployment with these fields of ``spec.model``."""
    found = rendered(to_workload_options(deployment(model={"name": LLAMA_8B, **model})))
    return dict(found["spec"]["template"]["spec"])


@every_case(
    ("model", "loads", "volume"),
    [
        ({}, LLAMA_8B, None),
        ({"source": BUCKET}, BUCKET, None),
        ({"source": IMAGE}, WEIGHTS_PATH, {"image": {"reference": IMAGE[6:], "pullPolicy": "IfNotPresent"}}),
        (
            {"cache": {"claimName": "w"}},
            f"{WEIGHTS_PATH}/meta-llama-Llama-3.1-8B-Instruct-",
            {"persistentVolumeClaim": {"claimName": "w", "readOnly": True}},
        ),
        (
            {"source": BUCKET, "cache": {"claimName": "w"}},
            f"{WEIGHTS_PATH}/models-llama-",
            {"persistentVolumeClaim": {"claimName": "w", "readOnly": True}},
        ),
    ],
)
def test_the_engine_loads_from_where_the_weights_are(
    model: dict[str, Any], loads: str, volume: dict[str, Any] | None
) -> None:
    found = pod(**model)
    [engine] = found["containers"]
    assert engine["args"][0].startswith(loads)
    assert "--revision" not in engine["args"]
    own = [each for each in found["volumes"] if each["name"] == "plimsoll-weights"]
    mounts = [each for each in engine["volumeMounts"] if each["name"] == "plimsoll-weights"]
    assert own == ([] if volume is None else [{"name": "plimsoll-weights", **volume}])
    assert mounts == [{"name": each["name"], "mountPath": WEIGHTS_PATH, "readOnly": True} for each in own]


def test_credentials_go_to_what_reads_the_bucket_and_to_nobody_else() -> None:
    secret = {"sourceSecretRef": {"name": "keys"}}
    source = [{"secretRef": {"name": "keys"}}]
    assert pod(source=BUCKET, **secret)["containers"][0]["envFrom"] == source
    kept = to_workload_options(
        deployment(model={"name": LLAMA_8B, "source": BUCKET, "cache": {"claimName": "w"}, **secret})
    )
    assert "envFrom" not in container(rendered(kept))
    assert kept.weights is not None
    job = weights_job(kept, kept.weights, CopyTool("house/plimsoll:1", "https://hub.example"), {})
    [copying] = job["spec"]["template"]["spec"]["containers"]
    assert copying["envFrom"] == source
    assert {"name": "HF_ENDPOINT", "value": "https://hub.example"} in copying["env"]
    assert copying["args"] == [*("fetch", BUCKET, "--into", f"{WEIGHTS_PATH}/{kept.weights.folder}", "--port", "8000")]


def test_a_draft_is_copied_to_the_same_claim_and_a_draft_in_the_image_is_not() -> None:
    def options(**draft: str) -> WorkloadOptions:
        speculation = {"method": "Draft", "tokens": 3, "draftModel": {"name": "house/small", **draft}}
        model = {"name": LLAMA_8B, "source": BUCKET, "sourceSecretRef": {"name": "keys"}, "cache": {"claimName": "w"}}
        return to_workload_options(deployment(model=model, engine={"speculation": speculation}))

    copied, own = options(revision="r"), options(path="/models/small")
    assert copied.weights is not None
    assert copied.weights.draft is not None
    folder = f"{WEIGHTS_PATH}/house-small-{copied.weights.draft.identity}"
    job = weights_job(copied, copied.weights, CopyTool("house/plimsoll:1"), {})["spec"]["template"]["spec"]
    [first], [copying] = job["initContainers"], job["containers"]
    assert first["args"] == ["fetch", "hf://house/small", "--revision", "r", "--into", folder]
    assert "envFrom" not in first, "the bucket's Secret is not for the Hub"
    assert {**first, "name": "weights"}.keys() == copying.keys() - {"ports", "envFrom"}
    assert (copied.draft_source, copied.draft_revision) == (folder, None)
    assert own.draft_source == "/models/small"
    assert own.weights is not None
    assert own.weights.draft is None
    assert job_name("d", own.weights) != job_name("d", copied.weights), "another draft is another copy"
    alone = to_workload_options(
        deployment(
            model={"name": LLAMA_8B, "source": BUCKET},
            engine={"speculation": {"method": "Draft", "tokens": 3, "draftModel": {"name": "house/small"}}},
        )
    )
    assert alone.draft_source == "house/small", "without a claim the engine loads it"


@every_case(
    ("model", "field"),
    [
        ({"source": BUCKET, "sourceSecretRef": {"name": "others"}}, "spec.model.sourceSecretRef.name"),
        ({"cache": {"claimName": "w"}}, "spec.model.cache.claimName"),
        ({"source": IMAGE}, "spec.model.source"),
    ],
)
def test_the_pod_policy_holds_for_sources_and_claims(model: dict[str, Any], field: str) -> None:
    spec = deployment(model={"name": LLAMA_8B, **model}).spec
    with pytest.raises(NotPermitted, match=re.escape(field)):
        check_pod_policy(spec, PodPolicy(volume_types=("emptyDir",), secrets=("keys",)), "n")
    usual = {**model, **({"sourceSecretRef": {"name": "keys"}} if "sourceSecretRef" in model else {})}
    check_pod_policy(deployment(model={"name": LLAMA_8B, **usual}).spec, POLICY, "n")


def test_a_job_has_a_name_of_its_own_for_each_source_revision_and_claim_that_fits_a_label() -> None:
    kinds = [
        Weights("hf://a/b", claim="w"), Weights("hf://a/b", "r", "w"), Weights("hf://a/b", claim="v"),
        Weights("hf://a/c", claim="w"),
    ]  # fmt: skip
    names = {job_name("n" * 52, each) for each in kinds}
    assert len(names) == len(kinds)
    assert max(map(len, names)) <= 63
    assert kinds[0].folder == kinds[2].folder, "the folder is the same on every claim"
    assert kinds[0].folder != kinds[1].folder


def test_no_disk_of_a_node_is_filled_by_what_is_elsewhere() -> None:
    for model in ({"source": BUCKET}, {"source": IMAGE}, {"cache": {"claimName": "w"}}):
        assert not fills_cache(to_workload_options(deployment(model={"name": LLAMA_8B, **model})))
    assert fills_cache(to_workload_options(deployment()))

"""What kwok plays: nodes by kwok's own stages, pods as inference engines by ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from testbed.versions import KWOK_STAGES

DEPLOYMENT_LABEL = "plimsoll.dev/deployment"
VERDICT_ANNOTATION = "testbed.plimsoll.dev/verdict"
CRASH_ANNOTATION = "testbed.plimsoll.dev/crash"
LOAD_TIME_ANNOTATION = "testbed.plimsoll.dev/load-time"
FAKE_NODE_ANNOTATION = "kwok.x-k8s.io/node"
NOT_READY_LABEL = "node-not-ready.stage.kwok.x-k8s.io"

_OWN_STAGES = Path(__file__).parent / "stages"


def kwok_configuration(*, kwok_stages: Path, judged: bool, lease_seconds: int) -> str:
    """The whole configuration file, one YAML document each for options and stages.

    Args:
        kwok_stages: folder with the stage files of kwok's own module.
        judged: whether engine pods become ready only with the judge's verdict.
        lease_seconds: node lease; kwok renews about 30 leases a second, so a fleet of 1,000 nodes needs 200.
    """
    documents = [_options(lease_seconds)]
    documents += [yaml.safe_load((kwok_stages / Path(name).name).read_text()) for name in KWOK_STAGES]
    for path in sorted(_OWN_STAGES.glob("*.yaml")):
        stage = yaml.safe_load(path.read_text())
        if judged and stage["metadata"]["name"] == "engine-ready":
            stage["spec"]["selector"]["matchExpressions"].append(_verdict_given())
        documents.append(stage)
    return yaml.safe_dump_all(documents, sort_keys=False)


def _options(lease_seconds: int) -> dict[str, Any]:
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "enableCRDs": [],
            "manageAllNodes": False,
            "manageNodesWithAnnotationSelector": f"{FAKE_NODE_ANNOTATION}=fake",
            "cidr": "10.244.0.0/16",
            "nodeLeaseDurationSeconds": lease_seconds,
            # A document of our own leaves these at zero, and kwok refuses to start.
            "nodeLeaseParallelism": 4,
            "podPlayStageParallelism": 4,
            "nodePlayStageParallelism": 4,
            "podsOnNodeSyncParallelism": 4,
        },
    }


def _verdict_given() -> dict[str, str]:
    """Matches pods that are no engines, and engines that were found to fit."""
    condition = f'.labels["{DEPLOYMENT_LABEL}"] == null or .annotations["{VERDICT_ANNOTATION}"] == "fits"'
    return {"key": f".metadata | select({condition}) | .name", "operator": "Exists"}

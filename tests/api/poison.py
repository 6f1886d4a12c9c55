"""Pod templates that an API server would refuse to make a Deployment of, or that take the operator's part of one.

Each is a part of ``spec.podTemplate``, the API server's words on it, and the field that the operator's own check names.
"""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.api.conversion.convert import check_without_model
from plimsoll.domain.errors import InvalidInput
from tests.api.manifests import deployment

DIGITS = "9" * 5000
LIKE_SHM = {"name": "shm", "mountPath": "/x"}
POISON: dict[str, tuple[dict[str, Any], str, str]] = {
    "a variable without a name": ({"env": [{"foo": "bar"}]}, "spec.podTemplate.env[0].foo", "env[0].name"),
    "a number as a variable": ({"env": [{"name": "A", "value": 1}]}, "spec.podTemplate.env[0].value", "env[0].value"),
    "a variable of two values": (
        {"env": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        "env.value and env.valueFrom exclude each other",
        "env[0].value",
    ),
    "a variable from nowhere": (
        {"env": [{"name": "A", "valueFrom": {}}]},
        "env.valueFrom needs exactly one of",
        "env[0].valueFrom",
    ),
    "a variable twice": (
        {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
        "spec.podTemplate.env[1]: Duplicate value",
        "env[1].name",
    ),
    "a variable with a space": ({"env": [{"name": "A B"}]}, "spec.podTemplate.env[0].name", "env[0].name"),
    "variables from two places": (
        {"envFrom": [{"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}}]},
        "envFrom needs exactly one of configMapRef and secretRef",
        "envFrom[0]",
    ),
    "requests in words": (
        {"resources": {"requests": "lots"}},
        "spec.podTemplate.resources.requests",
        "resources.requests",
    ),
    "memory in words": (
        {"resources": {"requests": {"memory": "lots"}}},
        "spec.podTemplate.resources.requests.memory",
        "resources.requests.memory",
    ),
    "memory of 5,000 digits": (
        {"resources": {"limits": {"memory": DIGITS}}},
        "spec.podTemplate.resources.limits.memory",
        "resources.limits.memory",
    ),
    "a negative limit": (
        {"resources": {"limits": {"cpu": -1}}},
        "spec.podTemplate.resources.limits.cpu",
        "resources.limits.cpu",
    ),
    "a resource that does not exist": (
        {"resources": {"limits": {"ram": "1Gi"}}},
        "resources: write cpu, memory",
        "resources.limits",
    ),
    "a volume twice": (
        {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]},
        "spec.podTemplate.volumes[1]: Duplicate value",
        "volumes[1].name",
    ),
    "a volume of the operator's": (
        {"volumes": [{"name": "shm", "emptyDir": {}}]},
        "volumes.name: cache, shm, tmp, home are the operator's",
        "volumes[0].name",
    ),
    "a volume in capitals": ({"volumes": [{"name": "A"}]}, "spec.podTemplate.volumes[0].name", "volumes[0].name"),
    "a volume of two sources": (
        {"volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/"}}]},
        "volumes: a volume has one source",
        "volumes[0]",
    ),
    "a claim without a name": (
        {"volumes": [{"name": "a", "persistentVolumeClaim": {}}]},
        "spec.podTemplate.volumes[0].persistentVolumeClaim.claimName",
        "volumes[0].persistentVolumeClaim.claimName",
    ),
    "a mount of nothing": (
        {"volumeMounts": [{"name": "a", "mountPath": "/a"}]},
        "volumeMounts.name must be the name of a volume",
        "volumeMounts[0].name",
    ),
    "a mount over the operator's": (
        {"volumeMounts": [{"name": "cache", "mountPath": "/cache/"}]},
        "volumeMounts.mountPath: /cache, /dev/shm, /tmp are the operator's",
        "volumeMounts[0].mountPath",
    ),
    "a relative mount": (
        {"volumeMounts": [{"name": "cache", "mountPath": "a"}]},
        "spec.podTemplate.volumeMounts[0].mountPath",
        "volumeMounts[0].mountPath",
    ),
    "a mount over another": (
        {"volumeMounts": [LIKE_SHM, LIKE_SHM]},
        "spec.podTemplate.volumeMounts[1]: Duplicate value",
        "volumeMounts[1].mountPath",
    ),
    "a toleration without a key": (
        {"tolerations": [{"effect": "NoSchedule"}]},
        "tolerations: without a key the operator must be Exists",
        "tolerations[0].operator",
    ),
    "a toleration of any value": (
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        "tolerations: with operator Exists the value must be empty",
        "tolerations[0].value",
    ),
    "a toleration that ends without an eviction": (
        {"tolerations": [{"key": "a", "tolerationSeconds": 5}]},
        "tolerations: tolerationSeconds is for effect NoExecute alone",
        "tolerations[0].tolerationSeconds",
    ),
    "a label value with a space": ({"labels": {"team": "a b"}}, "spec.podTemplate.labels.team", "labels.team"),
    "a label key with a space": ({"labels": {"a b": "c"}}, "labels: a key is a name", "labels"),
    "a label of the operator's": (
        {"labels": {"plimsoll.dev/pool": "x"}},
        "labels: keys under plimsoll.dev/ are the operator's",
        "labels",
    ),
    "an annotation key of slashes": ({"annotations": {"a/b/c": ""}}, "annotations: a key is a name", "annotations"),
    "a node label key with a space": ({"nodeSelector": {"a b": ""}}, "nodeSelector: a key is a name", "nodeSelector"),
    "a pull secret without a name": (
        {"imagePullSecrets": [{}]},
        "spec.podTemplate.imagePullSecrets[0].name",
        "imagePullSecrets[0].name",
    ),
    "a service account in capitals": (
        {"serviceAccountName": "Admin"},
        "spec.podTemplate.serviceAccountName",
        "serviceAccountName",
    ),
    "a cache of 5,000 digits": (
        {"modelCache": {"sizeLimit": DIGITS}},
        "spec.podTemplate.modelCache.sizeLimit",
        "modelCache.sizeLimit",
    ),
}
BEYOND_THE_CRD: dict[str, tuple[dict[str, Any], str]] = {
    "a memory limit below the request": (
        {"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}},
        "resources.limits.memory",
    ),
    "a device without a limit": (
        {"resources": {"requests": {"example.com/nic": 1}}},
        "resources.requests.example.com/nic",
    ),
    "half a device": (
        {"resources": {"requests": {"example.com/nic": "500m"}, "limits": {"example.com/nic": "500m"}}},
        "resources.limits.example.com/nic",
    ),
    "a mount over the operator's, in disguise": (
        {"volumeMounts": [{"name": "cache", "mountPath": "/models/../cache"}]},
        "volumeMounts[0].mountPath",
    ),
    "a way out of a volume": (
        {"volumeMounts": [{"name": "cache", "mountPath": "/a", "subPath": "../b"}]},
        "volumeMounts[0].subPath",
    ),
    "a volume of two sources, one handed on": (
        {"volumes": [{"name": "a", "rbd": {}, "cephfs": {}}]},
        "volumes[0]",
    ),
    "annotations of a megabyte": ({"annotations": {f"a{index}": "x" * 60_000 for index in range(16)}}, "annotations"),
}
"""What only the operator's own check can say."""


def refusal(**spec: Any) -> InvalidInput:
    """What the operator says of an object that a file, or an older CRD, let through."""
    with pytest.raises(InvalidInput) as caught:
        check_without_model(deployment(**spec).spec)
    return caught.value

"""Admission policies that play webhooks of others, in one namespace."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from testbed.api_client import absence_is_fine
from tests.support.installed import View

GROUP = "admissionregistration.k8s.io/v1"
GATE = "example.com/late"


def policy(name: str, kind: str, resource: tuple[str, str, list[str]], spec: dict[str, Any]) -> list[dict[str, Any]]:
    """An admission policy for one resource of the namespace that it is named after, and its binding."""
    group, plural, operations = resource
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "resources": [plural], "operations": operations}
    where = {"matchLabels": {"kubernetes.io/metadata.name": name.partition(".")[2]}}
    known: dict[str, Any] = {"matchConstraints": {"namespaceSelector": where, "resourceRules": [rule]}}
    binding = {"policyName": name} | ({"validationActions": ["Deny"]} if kind.startswith("Valid") else {})
    head = {"apiVersion": GROUP, "metadata": {"name": name}}
    return [head | {"kind": kind, "spec": known | spec}, head | {"kind": f"{kind}Binding", "spec": binding}]


def mutation(condition_: str, expression: str) -> dict[str, Any]:
    """The part of a policy that changes what fulfils a condition."""
    return {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConditions": [{"name": "queued", "expression": condition_}],
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
    }


def tried_pod(view: View, annotations: Mapping[str, str]) -> str:
    """A new pod with these annotations, as the API server would store it."""
    container = {"name": "c", "image": "registry.example/x"}
    head = {"name": "tried", "annotations": dict(annotations)}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": {"containers": [container]}}
    options = ("--namespace", view.namespace, "--dry-run=server", "-o", "json", "-f", "-")
    return view.control_plane.kubectl("create", *options, stdin=json.dumps(pod))


@contextmanager
def gated(view: View) -> Iterator[None]:
    """Let every new engine pod of a namespace wait behind a gate, and take the gates away at the end."""
    expression = f'Object{{spec: Object.spec{{schedulingGates: [Object.spec.schedulingGates{{name: "{GATE}"}}]}}}}'
    made = policy(
        f"gates.{view.namespace}", "MutatingAdmissionPolicy", ("", "pods", ["CREATE"]), mutation("true", expression)
    )
    view.control_plane.apply(made)
    try:
        view.wait(lambda: GATE in tried_pod(view, {}), "the policy in force")
        yield
    finally:
        for each in made:
            view.control_plane.kubectl("delete", each["kind"], each["metadata"]["name"], "--wait=false")
        view.wait(lambda: GATE not in tried_pod(view, {}), "the policy is not in force")
        for pod in view.all("pods"):
            if pod["spec"].get("schedulingGates"):
                path = f"/api/v1/namespaces/{view.namespace}/pods/{pod['metadata']['name']}"
                with absence_is_fine():
                    view.control_plane.client.merge_patch(path, {"spec": {"schedulingGates": None}})

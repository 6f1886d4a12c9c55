"""The chart as Helm alone writes it: no cluster is asked."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from testbed.binaries import ensure_binaries
from testbed.commands import run_command
from testbed.operator_process import NAMESPACE
from testbed.versions import KUBERNETES

CHART = Path(__file__).resolve().parents[2] / "charts" / "plimsoll"
RELEASE = ("plimsoll", str(CHART), "--namespace", NAMESPACE, "--set", "image.registry=registry.example")
"""The release's name, the chart, and what every installation of it has to say."""

Body = dict[str, Any]

_DEFINITION = "\nkind: CustomResourceDefinition\n"


def helm(*words: str) -> str:
    """Run Helm and return its stdout. Raises CommandFailed."""
    return run_command([str(ensure_binaries()["helm"]), *words])


@cache
def rendered(*options: str) -> tuple[Body, ...]:
    """The objects of a release with these options of ``helm template``, without those of `helm test`.

    Each set of values is rendered once: change nothing.

    The definitions of kinds are left out: they are 250 kB of YAML, and installing them says more than reading them.

    Raises:
        CommandFailed: the chart refuses the values.
    """
    return _documents("--no-hooks", *options)


@cache
def of_helm_test(*options: str) -> tuple[Body, ...]:
    """The objects that exist while `helm test` runs. Change nothing."""
    return _documents("--show-only", "templates/helm-test.yaml", *options)


def _documents(*options: str) -> tuple[Body, ...]:
    # Without a cluster to ask, Helm takes the release it was built against; the chart asks for a newer one.
    text = helm("template", *RELEASE, f"--kube-version=v{KUBERNETES}", *options)
    documents = (yaml.safe_load(each) for each in text.split("\n---\n") if _DEFINITION not in each)
    return tuple(document for document in documents if document)


def all_of(kind: str, *options: str) -> list[Body]:
    """The chart's objects of a kind."""
    return [each for each in rendered(*options) if each["kind"] == kind]


def named(kind: str, name: str, *options: str) -> Body:
    """The chart's one object of a kind and name."""
    (found,) = [each for each in all_of(kind, *options) if each["metadata"]["name"] == name]
    return found


def pod_of(name: str, *options: str) -> Body:
    """The pod of one of the chart's Deployments."""
    spec: Body = named("Deployment", name, *options)["spec"]["template"]["spec"]
    return spec

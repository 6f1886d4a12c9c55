"""Part of `helm test`: does every InferenceDeployment that serves answer for its own model?

It lists InferenceDeployments with the service account of its pod, asks each one that has serving replicas for its
models, and ends with 1 if one does not answer. Suspended ones and those that start are named: no failure.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
KIND = "/apis/plimsoll.dev/v1alpha1"
TIMEOUT_SECONDS = 10

Get = Callable[[str], Any]
"""Returns the JSON of an address, or of a path of the API server. Raises OSError or ValueError."""


def get(address: str) -> Any:
    """Ask an engine, or with a path the API server as this pod's service account."""
    context, headers = None, {}
    if address.startswith("/"):
        address = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}{address}"
        context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
        headers = {"Authorization": f"Bearer {(ACCOUNT / 'token').read_text(encoding='utf-8')}"}
    request = urllib.request.Request(address, headers=headers)  # noqa: S310 - the API server, or a Service of the cluster
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=context) as answer:  # noqa: S310
        return json.load(answer)


def deployments(ask: Get, namespaces: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the InferenceDeployments of these namespaces; of all, if none is named."""
    for part in [f"/namespaces/{each}" for each in namespaces] or [""]:
        yield from ask(f"{KIND}{part}/inferencedeployments")["items"]


def checked(ask: Get, found: dict[str, Any]) -> tuple[bool, str]:
    """Whether one InferenceDeployment is as it says, and a line about it."""
    name, status = found["metadata"]["name"], found.get("status", {})
    where = f"{found['metadata']['namespace']}/{name}"
    if not status.get("readyReplicas") or "url" not in status:
        return True, f"{where}: no replica serves, so nothing is asked"
    try:
        models = [each["id"] for each in ask(f"{status['url']}/models")["data"]]
    except (OSError, ValueError, LookupError, TypeError) as error:
        return False, f"{where}: {status['url']} does not answer this pod ({error}); a NetworkPolicy may refuse it"
    if name not in models:
        return False, f"{where}: {status['url']} serves {', '.join(models) or 'no model'}, and not {name}"
    return True, f"{where}: {status['url']} serves {name}"


def main(ask: Get = get) -> int:
    """Check all, and print a line about each. Returns the exit status."""
    named = os.environ.get("PLIMSOLL_WATCH_NAMESPACES", "")
    results = [checked(ask, each) for each in deployments(ask, [each for each in named.split(",") if each])]
    for _, line in results:
        sys.stdout.write(f"{line}\n")
    if not results:
        sys.stdout.write("There is no InferenceDeployment yet, so nothing is asked.\n")
    return 0 if all(good for good, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())

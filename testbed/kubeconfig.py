"""Kubeconfig files: one server, one user."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from testbed.certificates import KeyPair


def write_kubeconfig(
    path: Path,
    *,
    server: str,
    authority: Path,
    client: KeyPair | None = None,
    token: str | None = None,
    namespace: str = "default",
) -> Path:
    """Write a kubeconfig with everything inlined, so that the file can be handed on alone; returns ``path``.

    Raises:
        ValueError: neither a client certificate nor a token is given.
    """
    user: dict[str, Any]
    if client is not None:
        user = {"client-certificate-data": _inline(client.certificate), "client-key-data": _inline(client.key)}
    elif token is not None:
        user = {"token": token}
    else:
        raise ValueError("client and token: both are missing; give one of them")
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "testbed", "cluster": {"server": server, "certificate-authority-data": _inline(authority)}},
        ],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "user", "namespace": namespace}}],
        "current-context": "testbed",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(content, indent=1))  # JSON is YAML
    return path


def _inline(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()

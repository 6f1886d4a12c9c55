"""Access to the API server with a person's own bearer token."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from kubernetes.aio import client as api

from plimsoll.domain.errors import SourceUnavailable


@dataclass(frozen=True, slots=True)
class BearerAccess:
    """An API server, and the token of whoever asks it.

    Attributes:
        server: URL of the API server.
        token: the person's token. It is in no text of this value.
        ca_file: certificates in PEM to verify the server with; None for the system's.
    """

    server: str
    token: str = field(repr=False)
    ca_file: str | None = None

    def write_to(self, settings: api.Configuration) -> None:
        """Make the client use this server and this token, and nothing else."""
        settings.host = self.server
        settings.ssl_ca_cert = self.ca_file
        settings.api_key = {"BearerToken": f"Bearer {self.token}"}

    def kubeconfig(self) -> str:
        """Return a kubeconfig with the token in it. Write it nowhere."""
        authority = {} if self.ca_file is None else {"certificate-authority": self.ca_file}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": {"server": self.server, **authority}}],
            "users": [{"name": "person", "user": {"token": self.token}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "person"}}],
            "current-context": "here",
        }
        return json.dumps(config)


def server_of_pod(environ: Mapping[str, str]) -> str:
    """Return the URL of the API server of the cluster that this pod runs in.

    Raises:
        SourceUnavailable: this process does not run in a pod.
    """
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise SourceUnavailable("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no pod")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

"""A registry of images for tests: a server with TLS that speaks the protocol, or harms."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.adapters.certificates import Authority
from tests.adapters.hostile_hub import HostileHub, Request, serve_hostile_hub

INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
DIGEST = f"sha256:{'c' * 64}"


def index(*platforms: str) -> dict[str, Any]:
    """An index with builds for these platforms (``linux/arm64/v8``), and the attestation of one."""
    entries = [_entry(*each.split("/")) for each in (*platforms, "unknown/unknown")]
    return {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}


def _entry(system: str, architecture: str, variant: str = "") -> dict[str, Any]:
    platform = {"os": system, "architecture": architecture} | ({"variant": variant} if variant else {})
    return {"mediaType": MANIFEST, "digest": DIGEST, "size": 1000, "platform": platform}


@dataclass
class FakeRegistry:
    """A registry. ``host`` is what references name; ``authority`` is the file of who signed its certificate."""

    server: HostileHub
    authority: Path

    @property
    def host(self) -> str:
        """Its address and port."""
        return self.server.url.removeprefix("https://")

    def publish(self, repository: str, version: str, document: Any) -> str:
        """Let everybody read a manifest. Return the reference."""
        body = json.dumps(document).encode()
        self.server.on(f"/v2/{repository}/manifests/{version}", lambda request: request.answer(body))
        return f"{self.host}/{repository}:{version}"

    def publish_single(self, repository: str, version: str, platform: str) -> str:
        """Let everybody read an image of one platform. Return the reference."""
        system, architecture = platform.split("/")
        config = json.dumps({"os": system, "architecture": architecture, "rootfs": {}}).encode()
        self.server.on(f"/v2/{repository}/blobs/{DIGEST}", lambda request: request.answer(config))
        return self.publish(repository, version, {"mediaType": MANIFEST, "config": {"digest": DIGEST}, "layers": []})

    def asks_for_token(self, repository: str, realm: str = "", token: str = "t0k") -> None:  # noqa: S107 - of a test
        """Show a repository to those alone who bring a token, which everybody gets at the realm."""
        rules = list(self.server.rules)
        challenge = f'WWW-Authenticate: Bearer realm="{realm or self.server.url + "/token"}",service="fake"'

        def guarded(request: Request) -> None:
            if request.headers.get("authorization") != f"Bearer {token}":
                request.answer(b"", challenge, status="401 Unauthorized")
                return
            next(behave for part, behave in rules if part in request.path)(request)

        self.server.rules.insert(0, (f"/v2/{repository}/", guarded))
        self.server.on("/token?", lambda request: request.answer(json.dumps({"token": token}).encode()))

    def asked(self) -> list[str]:
        """The paths that were asked for."""
        return [request.path for request in self.server.requests]


@contextmanager
def serving_registry(
    folder: Path, address: str = "127.0.0.1", authority: Authority | None = None
) -> Iterator[FakeRegistry]:
    """Run one for a test."""
    signer = Authority(folder, "registries") if authority is None else authority
    signed = signer.sign(f"registry-{address}")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(signed.certificate, signed.key)
    with serve_hostile_hub(address, tls) as server:
        yield FakeRegistry(server, signer.file)

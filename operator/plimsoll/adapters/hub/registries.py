"""The platforms of images, from the registries that have them: without a login, and with limits on everything.

Three requests at most by the protocol of registries: a token for everybody, the manifest, and for an image of one
platform its configuration.

Source: https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md, and for the token
https://distribution.github.io/distribution/spec/auth/token/.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import httpx2
from pydantic_core import from_json

from plimsoll.adapters.hub.web_session import WebResponse, WebSession, WebVisit
from plimsoll.domain.engines.images import DOCKER_HUB, REGISTRIES, ImageName, image_name
from plimsoll.domain.errors import PlimsollError, RateLimited, SourceUnavailable
from plimsoll.domain.units import KIB, MIB
from plimsoll.facts.cluster.image_manifests import (
    INDEX_TYPES,
    MANIFEST_TYPES,
    config_architectures,
    config_digest,
    index_architectures,
)

_SERVERS = {DOCKER_HUB: "registry-1.docker.io"}
"""Registries whose protocol is spoken by another host. Source:
https://docs.docker.com/reference/api/registry/latest/"""

_LARGEST_DOCUMENT_BYTES = 4 * MIB
"""Registries need not take larger manifests (the specification's "Pushing Manifests"). Configurations have 50 KB."""

_LARGEST_TOKEN_BYTES = 64 * KIB

_MOST_VALUES = 100_000
"""Most values in a document, counted by commas and brackets."""

_LOOK_UP_SECONDS = 15.0
"""Time limit for all answers of one look-up together."""

_MOST_SESSIONS = 256
"""Hosts that are remembered with their circuit breakers. A tenant may name many below ``*.pkg.dev``."""

_PARAMETER = re.compile(r'([a-z]+)="([^"]*)"')
_TOKEN = re.compile(r"[!-~]+")


class ImageUnreadable(PlimsollError):
    """The registry says nothing of the platforms of this image to everybody."""


class Registries:
    """Reads the platforms of images from registries that the admin allows. Calls block; use a thread.

    Args:
        allowed: hosts, as :meth:`~plimsoll.domain.engines.images.ImageName.is_in` takes them. An address of the admin's
        own
            network is asked if it is one of them, and never if a public one only leads to it.
        timeout_seconds: time limit for each whole answer.
    """

    def __init__(self, allowed: Sequence[str], *, timeout_seconds: float = 10.0) -> None:
        self._allowed = tuple(allowed)
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        self._sessions: dict[str, WebSession] = {}

    def refusal(self, reference: str) -> str:
        """Return why the registry of an image is not asked; empty if it may be."""
        name = image_name(reference)
        if name is None:
            return "that is no name of an image"
        return "" if name.is_in(self._allowed) else f"{name.registry} is none of engine.imageRegistries"

    def architectures(self, reference: str, *, asker: str = "") -> tuple[str, ...]:
        """Return the architectures that an image has for Linux, at least one.

        Args:
            reference: the image.
            asker: the namespace that asks. If a registry does not answer one asker, the others still ask.

        Raises:
            ImageUnreadable: the registry is not to be asked, or does not say.
            SourceUnavailable: it did not answer, or not in a usable way.
        """
        name = image_name(reference)
        refusal = self.refusal(reference)
        if name is None or refusal:
            raise ImageUnreadable(refusal)
        session = self._session(name.registry)
        with session.visit(None, asker=asker, seconds=_LOOK_UP_SECONDS) as visit:
            found = _Reading(visit, f"{session.endpoint}/v2/{name.repository}", name).architectures()
        if not found:
            raise ImageUnreadable(f"{session.name} names no platform of Linux")
        return found

    def close(self) -> None:
        """End the look-ups that are under way."""
        with self._lock:
            for session in self._sessions.values():
                session.close()

    def _session(self, host: str) -> WebSession:
        server = _SERVERS.get(host, host)
        with self._lock:
            if server not in self._sessions:
                if len(self._sessions) >= _MOST_SESSIONS:
                    self._sessions.pop(next(iter(self._sessions)))
                self._sessions[server] = WebSession(
                    f"https://{server}",
                    setting=REGISTRIES,
                    kind="registry",
                    timeout_seconds=self._timeout_seconds,
                )
            return self._sessions[server]


class _Reading:
    """The requests about one image. ``base`` is the address of its repository."""

    def __init__(self, visit: WebVisit, base: str, name: ImageName) -> None:
        self._visit = visit
        self._base = base
        self._name = name

    def architectures(self) -> tuple[str, ...]:
        manifest = self._document(f"manifests/{self._name.version}", ", ".join((*INDEX_TYPES, *MANIFEST_TYPES)))
        found = index_architectures(manifest)
        if found is not None:
            return found
        digest = config_digest(manifest)
        return config_architectures(self._document(f"blobs/{digest}", "*/*")) if digest else ()

    def _document(self, path: str, accept: str) -> Any:
        address = f"{self._base}/{path}"
        answer = self._visit.get(address, most=_LARGEST_DOCUMENT_BYTES, accept=accept)
        if answer.status == httpx2.codes.UNAUTHORIZED and self._visit.token is None and self._take_token(answer):
            answer = self._visit.get(address, most=_LARGEST_DOCUMENT_BYTES, accept=accept)
        return _json(_checked(answer).body)

    def _take_token(self, refused: WebResponse) -> bool:
        """Ask for a token where the registry says, as everybody may. Return whether there is one."""
        scheme, _, rest = refused.challenge.partition(" ")
        parameters = dict(_PARAMETER.findall(rest))
        if scheme.lower() != "bearer" or not parameters.get("realm"):
            return False
        realm, service = parameters["realm"], parameters.get("service", "")
        asked = urlencode({"service": service, "scope": f"repository:{self._name.repository}:pull"})
        answer = self._visit.get(f"{realm}{'&' if '?' in realm else '?'}{asked}", most=_LARGEST_TOKEN_BYTES)
        given = _json(_checked(answer).body)
        token = (given.get("token") or given.get("access_token")) if isinstance(given, dict) else None
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            return False
        self._visit.token = token
        return True


def _checked(answer: WebResponse) -> WebResponse:
    if answer.is_success:
        return answer
    if answer.status == httpx2.codes.TOO_MANY_REQUESTS:
        raise RateLimited("the registry limits the rate of requests (HTTP 429)", answer.pause_seconds)
    raise ImageUnreadable(f"the registry answered HTTP {answer.status}")


def _json(body: bytes) -> Any:
    """Read JSON of at most 200 levels, as the reader itself demands."""
    if sum(map(body.count, (b",", b"{", b"["))) > _MOST_VALUES:
        raise SourceUnavailable(f"the registry answered with more than {_MOST_VALUES} values")
    try:
        return from_json(body)
    except ValueError as error:
        raise SourceUnavailable("the registry did not answer with JSON") from error

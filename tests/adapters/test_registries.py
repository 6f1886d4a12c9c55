"""Platforms of images from a real registry over TLS: the protocol, and that harm costs bounded time and memory."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from plimsoll.adapters.hub import web_session
from plimsoll.adapters.hub.registries import ImageUnreadable, Registries
from plimsoll.domain.engines.images import PUBLIC_REGISTRIES, ImageName, image_name, registries_in
from plimsoll.domain.errors import InvalidInput, PlimsollError, RateLimited, SourceUnavailable
from plimsoll.domain.units import MIB
from tests.adapters.certificates import Authority
from tests.adapters.hostile_hub import Request
from tests.adapters.test_hub_hostile import (
    PUBLIC,
    bomb,
    drip_of_refusal,
    endless,
    endless_chunks,
    endless_headers,
    peak_bytes,
    silent,
    trickle,
    trickled_headers,
)
from tests.support.registry import DIGEST, DOCKER_LIST, FakeRegistry, index, serving_registry
from tests.support.tables import every_case

SECONDS, PATIENT_SECONDS = 0.5, 60.0
ARM = {"platform": {"os": "linux", "architecture": "arm64"}}
HARM, HONEST = "team/harm", "team/honest"


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    made = Authority(tmp_path, "registries")
    trusting = ssl.create_default_context(cafile=str(made.file))
    monkeypatch.setattr(web_session, "_tls", lambda: trusting)
    return made


@pytest.fixture
def registry(tmp_path: Path, authority: Authority) -> Iterator[FakeRegistry]:
    with serving_registry(tmp_path, authority=authority) as made:
        made.publish(HONEST, "1", index("linux/amd64", "linux/arm64/v8"))
        yield made


@pytest.fixture
def images(registry: FakeRegistry) -> Registries:
    return Registries((registry.host,), timeout_seconds=PATIENT_SECONDS)


@pytest.fixture
def hurried(registry: FakeRegistry) -> Registries:
    return Registries((registry.host,), timeout_seconds=SECONDS)


def honest(registry: FakeRegistry, images: Registries) -> bool:
    """Whether a neighbour's image is read."""
    return images.architectures(f"{registry.host}/{HONEST}:1", asker="other") == ("amd64", "arm64")


@every_case(
    ("reference", "parts"),
    [
        ("vllm", ("docker.io", "library/vllm", "latest")),
        ("vllm/vllm-openai:v0.32.0", ("docker.io", "vllm/vllm-openai", "v0.32.0")),
        ("index.docker.io/vllm:1", ("docker.io", "library/vllm", "1")),
        ("GHCR.io/a/b/c:1_x", ("ghcr.io", "a/b/c", "1_x")),
        ("registry.example:5000/a", ("registry.example:5000", "a", "latest")),
        ("localhost/a", ("localhost", "a", "latest")),
        (f"quay.io/a/b:1@{DIGEST}", ("quay.io", "a/b", DIGEST)),
        *(
            (wrong, None)
            for wrong in (
                "ghcr.io/../a", "ghcr.io/a/../b", "ghcr.io/a?b", "ghcr.io/a#b", "ghcr.io/a:b c", "ghcr.io/A",
                "ghcr.io/",
                "user@host.example/a", "a.example:x/b", "ghcr.io/a@sha256:short", f"ghcr.io/a@{DIGEST}/../b", "", "/a",
                "ghcr.io/a:" + "x" * 129, "evil.example#.ghcr.io/a", "a.b\\@c.d/e", "ghcr.io/a:../../x",
            )
        ),
    ],
)  # fmt: skip
def test_a_reference_means_what_it_means_to_a_kubelet(reference: str, parts: tuple[str, str, str] | None) -> None:
    assert image_name(reference) == (None if parts is None else ImageName(*parts))


def test_only_the_registries_of_the_setting_are_asked() -> None:
    allowed = Registries(("ghcr.io", "*.pkg.dev", "house.example:5000"))
    asked = ("ghcr.io/a", "us-docker.pkg.dev/p/r/a", "house.example:5000/a")
    assert [allowed.refusal(each) for each in asked] == [""] * 3
    others = "evil.example/a pkg.dev/a evilpkg.dev/a house.example/a x.ghcr.io/a vllm 169.254.169.254/a"
    for other in others.split():
        assert allowed.refusal(other).endswith("is none of engine.imageRegistries"), other
        with pytest.raises(ImageUnreadable, match="is none of engine"):
            allowed.architectures(other)
    assert allowed.refusal("ghcr.io/A") == "that is no name of an image"


def test_the_setting_names_hosts_or_none() -> None:
    assert registries_in("") == PUBLIC_REGISTRIES
    assert registries_in("none") == ()
    assert registries_in(" ghcr.io, *.pkg.dev,ghcr.io,r:5000 ") == ("ghcr.io", "*.pkg.dev", "r:5000")
    for wrong in ("https://ghcr.io", "ghcr.io/team", "GHCR.io", "*", "a b", "ghcr.io,none,/"):
        with pytest.raises(InvalidInput, match="PLIMSOLL_IMAGE_REGISTRIES"):
            registries_in(wrong)


def test_an_index_is_read_with_one_request(registry: FakeRegistry, images: Registries) -> None:
    assert honest(registry, images)
    assert registry.asked() == [f"/v2/{HONEST}/manifests/1"]
    accept = registry.server.requests[0].headers["accept"]
    assert all(kind in accept for kind in ("oci.image.index", DOCKER_LIST, "oci.image.manifest", "manifest.v2+json"))


def test_an_image_of_one_platform_is_read_with_its_configuration(registry: FakeRegistry, images: Registries) -> None:
    assert images.architectures(registry.publish_single("team/one", "1", "linux/arm64")) == ("arm64",)
    assert registry.asked() == ["/v2/team/one/manifests/1", f"/v2/team/one/blobs/{DIGEST}"]


def test_a_digest_is_asked_for_as_it_is(registry: FakeRegistry, images: Registries) -> None:
    registry.publish("team/pinned", DIGEST, index("linux/arm64"))
    assert images.architectures(f"{registry.host}/team/pinned:v1@{DIGEST}") == ("arm64",)


def test_a_token_for_everybody_is_taken_where_the_registry_says(
    registry: FakeRegistry, images: Registries, authority: Authority, tmp_path: Path
) -> None:
    """Docker Hub's is on another host. The token goes to the registry alone."""
    with serving_registry(tmp_path, "127.0.0.2", authority) as other:
        reference = registry.publish_single("team/one", "1", "linux/arm64")
        registry.asks_for_token("team/one", f"{other.server.url}/auth/token?account=x")
        other.server.on("/auth/token", lambda request: request.answer(b'{"access_token": "t0k", "expires_in": 60}'))
        blob = f"/v2/team/one/blobs/{DIGEST}"
        moved = f"Location: {other.server.url}/storage"
        registry.server.rules.insert(0, (blob, lambda request: request.answer(b"", moved, status="307 Moved")))
        config = b'{"os": "linux", "architecture": "arm64"}'
        other.server.on("/storage", lambda request: request.answer(config))
        assert images.architectures(reference) == ("arm64",)
        token, storage = other.server.requests
        assert token.path == "/auth/token?account=x&service=fake&scope=repository%3Ateam%2Fone%3Apull"
        assert [each.headers.get("authorization") for each in (token, storage)] == [None, None]


@pytest.mark.parametrize(
    ("challenge", "token"),
    [
        ("Basic realm=x", "{}"),
        ("Bearer", "{}"),
        ('Bearer realm=""', "{}"),
        ("bearer realm={url}/token", "{}"),
        ('Bearer realm="{url}/token"', "{}"),
        ('Bearer realm="{url}/token"', "[]"),
        ('Bearer realm="{url}/token"', '{"token": 7}'),
        ('Bearer realm="{url}/token"', '{"token": "a\\r\\nX-Evil: 1"}'),
        ('Bearer realm="{url}/token"', '{"token": "wrong"}'),
    ],
)
def test_without_a_usable_token_the_status_is_the_reason(
    registry: FakeRegistry, images: Registries, challenge: str, token: str
) -> None:
    header = f"WWW-Authenticate: {challenge.replace('{url}', registry.server.url)}"
    registry.server.on(HARM + "/", lambda request: request.answer(b"", header, status="401 Unauthorized"))
    registry.server.on("/token", lambda request: request.answer(token.encode()))
    with pytest.raises(ImageUnreadable, match=r"^the registry answered HTTP 401$"):
        images.architectures(f"{registry.host}/{HARM}:1")
    assert len(registry.asked()) <= 3
    assert honest(registry, images)


@pytest.mark.parametrize(
    ("status", "headers", "kind", "says"),
    [
        ("404 Not Found", (), ImageUnreadable, "answered HTTP 404"),
        ("403 Forbidden", (), ImageUnreadable, "answered HTTP 403"),
        ("429 Slow", ("Retry-After: 77",), RateLimited, "limits the rate"),
        ("503 Away", (), SourceUnavailable, "answered HTTP 503"),
        ("500 Oh", (), ImageUnreadable, "answered HTTP 500"),
    ],
)
def test_a_refusal_is_named_with_its_status(
    registry: FakeRegistry, images: Registries, status: str, headers: tuple[str, ...], kind: type[Exception], says: str
) -> None:
    registry.server.on(HARM, lambda request: request.answer(b"", *headers, status=status))
    with pytest.raises(kind, match=says) as refused:
        images.architectures(f"{registry.host}/{HARM}:1")
    assert getattr(refused.value, "pause_seconds", 77) == 77
    assert honest(registry, images)


def test_an_index_without_linux_names_no_platform(registry: FakeRegistry, images: Registries) -> None:
    with pytest.raises(ImageUnreadable, match="names no platform of Linux"):
        images.architectures(registry.publish("team/windows", "1", index("windows/amd64")))


def of(body: bytes) -> Callable[[Request], None]:
    return lambda request: request.answer(body)


@pytest.mark.parametrize(
    "behave",
    [
        endless,
        endless_chunks,
        bomb,
        of(json.dumps({"manifests": [ARM, *["x" * 1000] * 10_000]}).encode()),
        of(b"[" * 90_000),
        of(b'{"manifests":' * 50_000),
        of(json.dumps({"manifests": [ARM, *[{}] * 200_000]}).encode()),
        of(b"<html>"),
        of(b""),
        of(b"\xff\xfe"),
        of(b'"text"'),
        of(b"null"),
        of(b'{"config": {"digest": "sha256:../../secret"}}'),
        of(b"1" * 5000),
    ],
    ids="endless chunks bomb 10MB deep deeper many html none binary text null path digits".split(),  # noqa: SIM905
)
def test_no_document_costs_more_than_its_limit(
    registry: FakeRegistry, images: Registries, behave: Callable[[Request], None]
) -> None:
    registry.server.on(HARM, behave)
    honest(registry, images)  # what is imported and made once is not this document's

    def ask() -> None:
        with pytest.raises(PlimsollError):
            images.architectures(f"{registry.host}/{HARM}:1")

    assert peak_bytes(ask) < 16 * MIB
    assert not [path for path in registry.asked() if "secret" in path]
    assert honest(registry, images)


@pytest.mark.parametrize(
    "behave", [silent, trickle, trickled_headers, endless_headers, drip_of_refusal], ids=lambda each: str(each.__name__)
)
@pytest.mark.parametrize("part", ["manifests", "token"])
def test_no_answer_takes_longer_than_its_deadline(
    registry: FakeRegistry, hurried: Registries, images: Registries, part: str, behave: Callable[[Request], None]
) -> None:
    """None of these answers ends before the test does."""
    if part == "token":
        registry.server.on("/token?", behave)
        registry.asks_for_token(HARM)
    registry.server.on(HARM, behave)
    with pytest.raises(PlimsollError):
        hurried.architectures(f"{registry.host}/{HARM}:1")
    assert honest(registry, images)


def test_redirects_end(registry: FakeRegistry, images: Registries) -> None:
    registry.server.on(HARM, lambda request: request.answer(b"", f"Location: {request.path}x", status="302 Found"))
    with pytest.raises(SourceUnavailable, match="redirects more than 5 times"):
        images.architectures(f"{registry.host}/{HARM}:1")
    assert honest(registry, images)


@pytest.fixture
def known_as(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Let the two addresses of the machine stand for others where these are judged, and nowhere else."""

    def know(home: str, target: str) -> None:
        judged = web_session._reach_of  # noqa: SLF001 - a test has no address of the public internet
        names = {"127.0.0.1": home, "127.0.0.2": target}

        def reach_of(address: str) -> web_session.Reach:
            return judged(names.get(address, address))

        monkeypatch.setattr(web_session, "_reach_of", reach_of)

    return know


@pytest.mark.parametrize("target", ["10.0.0.1", "127.0.0.1", "169.254.169.254", "fd00:ec2::254", "::ffff:10.0.0.1"])
@pytest.mark.parametrize("way", ["redirect", "realm"])
def test_a_registry_leads_to_no_network_that_it_is_not_in(
    registry: FakeRegistry,
    images: Registries,
    authority: Authority,
    tmp_path: Path,
    known_as: Callable[[str, str], None],
    way: str,
    target: str,
) -> None:
    """The address is not asked, and a neighbour's image is read."""
    known_as(PUBLIC, target)
    with serving_registry(tmp_path, "127.0.0.2", authority) as inside:
        inside.server.on("secret", lambda request: request.answer(json.dumps(index("linux/arm64")).encode()))
        secret = f"{inside.server.url}/secret"
        if way == "realm":
            registry.asks_for_token(HARM, secret)
        moved = f"Location: {secret}"
        registry.server.on(HARM, lambda request: request.answer(b"", moved, status="302 Found"))
        with pytest.raises(SourceUnavailable, match="a network that it is not in itself"):
            images.architectures(f"{registry.host}/{HARM}:1")
        assert not inside.server.requests
        assert honest(registry, images)


@pytest.mark.parametrize(
    "location", ["http://127.0.0.1:1/x", "file:///etc/passwd", "ftp://x/y", "https://[::bad", "gopher:"]
)
@pytest.mark.parametrize("way", ["redirect", "realm"])
def test_a_registry_leads_to_https_alone(registry: FakeRegistry, images: Registries, way: str, location: str) -> None:
    if way == "realm":
        registry.asks_for_token(HARM, location)
    registry.server.on(HARM, lambda request: request.answer(b"", f"Location: {location}", status="302 Found"))
    with pytest.raises(PlimsollError):
        images.architectures(f"{registry.host}/{HARM}:1")
    assert len(registry.asked()) == 1
    assert honest(registry, images)


def test_a_certificate_of_somebody_else_is_not_trusted(
    registry: FakeRegistry, images: Registries, tmp_path: Path
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    with serving_registry(folder, authority=Authority(folder, "strangers")) as stranger:
        reference = stranger.publish(HONEST, "1", index("linux/arm64"))
        with pytest.raises(SourceUnavailable, match="cannot be reached"):
            Registries((stranger.host,), timeout_seconds=PATIENT_SECONDS).architectures(reference)
        assert stranger.asked() == []
    assert honest(registry, images)


def test_who_hangs_on_his_own_images_does_not_close_the_registry_for_others(
    registry: FakeRegistry, hurried: Registries, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(request: Request) -> None:
        request.answer(b"", status="504 Late")

    registry.server.on(HARM, away)
    patient: Any = hurried
    monkeypatch.setattr(patient, "_timeout_seconds", PATIENT_SECONDS)
    for _ in range(6):
        with pytest.raises(SourceUnavailable):
            hurried.architectures(f"{registry.host}/{HARM}:1", asker="flood")
    with pytest.raises(SourceUnavailable, match="has not answered since"):
        hurried.architectures(f"{registry.host}/{HARM}:1", asker="flood")
    assert honest(registry, hurried)

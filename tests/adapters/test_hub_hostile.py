"""A hub that means harm costs a bounded time, a bounded memory, and the answer for one model."""

from __future__ import annotations

import gzip
import json
import re
import socket
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from plimsoll.adapters.hub import web_session
from plimsoll.adapters.hub.hub import _LOOK_UP_SECONDS, HubModels
from plimsoll.adapters.hub.web_session import MOST_HOPS
from plimsoll.domain.errors import InvalidInput, SourceUnavailable
from plimsoll.domain.models.model import Evidence
from plimsoll.domain.units import MIB
from tests.adapters.hostile_hub import CHUNK, HostileHub, Request, serve_hostile_hub
from tests.adapters.test_hub import CONFIG
from tests.adapters.test_hub_tensors import CONFIG as UNKNOWN

HONEST = "org/honest"
HARM = "org/harm"
SECONDS = 0.5
"""The deadline of an answer in these tests."""

PATIENT_SECONDS = 60.0
"""The deadline where the time is not what is tested: a busy machine may need a second to connect."""

TOO_LATE = r"gave no whole answer within 0\.5 s|Timeout"
"""The deadline of the whole answer, or that of the connection, which is half of it."""
UNREACHED = rf"cannot be reached|{TOO_LATE}"
"""On a busy machine the whole time may be up before it is noticed that the half of it is."""

ANY = "."

HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileHub]:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "/nonexistent/token")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with serve_hostile_hub() as hostile:
        hostile.on(f"{HONEST}/resolve/main/config.json", lambda request: request.answer(json.dumps(CONFIG).encode()))
        monkeypatch.setenv("HF_ENDPOINT", hostile.url)
        yield hostile


@pytest.fixture
def models(hub: HostileHub, tmp_path: Path) -> HubModels:
    assert hub.url
    return HubModels(tmp_path / "cache", timeout_seconds=PATIENT_SECONDS)


@contextmanager
def hurried(models: HubModels) -> Iterator[None]:
    """What is asked meanwhile has a short deadline."""
    session = models._session  # noqa: SLF001 - the same models answer before and after
    session.timeout_seconds = SECONDS
    yield
    session.timeout_seconds = PATIENT_SECONDS


@pytest.fixture
def patient(hub: HostileHub, tmp_path: Path) -> HubModels:
    assert hub.url
    return HubModels(tmp_path / "patient", timeout_seconds=PATIENT_SECONDS)


def peak_bytes(work: Callable[[], Any]) -> int:
    """Of the memory that Python takes while something is done; the hub's part of it is one chunk."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def endless(request: Request) -> None:
    """500 MB without a length."""
    request.send(HEAD + b"\r\n")
    for _ in range(500_000_000 // len(CHUNK)):
        request.send(CHUNK)


def endless_chunks(request: Request) -> None:
    request.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    for _ in range(500_000_000 // len(CHUNK)):
        request.send(b"%x\r\n%s\r\n" % (len(CHUNK), CHUNK))


PACKED = gzip.compress(CHUNK * 1500)
"""A hundred MB in a hundred KB."""


def bomb(request: Request) -> None:
    request.answer(PACKED, "Content-Encoding: gzip")


@pytest.mark.parametrize("behave", [endless, endless_chunks, bomb])
def test_a_configuration_without_end_costs_four_mebibytes(
    hub: HostileHub, patient: HubModels, behave: Callable[[Request], None]
) -> None:
    hub.on(HARM, behave)
    patient.facts(HONEST, None, None)  # what is imported and made once is not the answer's

    def ask() -> None:
        with pytest.raises(InvalidInput, match="more than 4194304 bytes"):
            patient.facts(HARM, None, None)

    assert peak_bytes(ask) < 6 * MIB
    assert hub.sent_bytes < 64 * MIB
    assert patient.facts(HONEST, None, None).layers == 2


def test_an_index_without_end_costs_less(hub: HostileHub, patient: HubModels) -> None:
    """A time-out that a busy machine reaches would be asked about once more: the patient one has none."""
    hub.on(f"{HARM}/resolve/main/config.json", lambda request: request.answer(json.dumps(UNKNOWN).encode()))
    hub.on("index.json", endless)
    patient.facts(HONEST, None, None)
    found = []
    assert peak_bytes(lambda: found.append(patient.facts(HARM, None, None))) < 4 * MIB
    assert found[0].evidence is Evidence.GENERIC
    assert hub.sent_bytes < 80 * MIB


def test_encodings_upon_encodings_are_not_unpacked(hub: HostileHub, models: HubModels) -> None:
    twice = gzip.compress(PACKED)
    hub.on(HARM, lambda request: request.answer(twice, "Content-Encoding: gzip, gzip"))
    with pytest.raises(SourceUnavailable, match="in an encoding that was not asked for"):
        models.facts(HARM, None, None)


def test_an_honest_gzip_is_read(hub: HostileHub, models: HubModels) -> None:
    content = gzip.compress(json.dumps(CONFIG).encode())
    hub.on("org/packed/resolve/main/config.json", lambda request: request.answer(content, "Content-Encoding: gzip"))
    assert models.facts("org/packed", None, None).layers == 2


def silent(request: Request) -> None:
    request.hub.over.wait()


def trickle(request: Request) -> None:
    request.send(HEAD + b"\r\n{")
    while request.pause():
        request.send(b" ")


def trickled_headers(request: Request) -> None:
    request.send(HEAD)
    while request.pause():
        request.send(b"X-More: x\r\n")


def endless_headers(request: Request) -> None:
    request.send(HEAD)
    while True:
        request.send(b"X-More: " + b"x" * 1000 + b"\r\n")


def endless_continues(request: Request) -> None:
    while True:
        request.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


def trickled_gzip(request: Request) -> None:
    """Blocks that decode to nothing, for ever."""
    request.send(HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"")[:10])
    while True:
        request.send(b"\x00\x00\x00\xff\xff" * 1000)


def slow_redirects(request: Request) -> None:
    """All that are followed take longer than the deadline."""
    if request.pause() and request.pause():
        request.answer(b"", f"Location: /{HARM}/again", status="302 Found")


def drip_of_refusal(request: Request) -> None:
    request.send(b"HTTP/1.1 500 Sorry\r\nConnection: close\r\n\r\n")
    while request.pause():
        request.send(b"so sorry ")


@pytest.mark.parametrize(
    ("behave", "says"),
    [
        (silent, TOO_LATE),
        (trickle, TOO_LATE),
        (trickled_headers, TOO_LATE),
        (endless_headers, ANY),
        (endless_continues, ANY),
        (trickled_gzip, ANY),
        (slow_redirects, TOO_LATE),
        (drip_of_refusal, ANY),
    ],
)
def test_no_answer_takes_longer_than_its_deadline(
    hub: HostileHub, models: HubModels, behave: Callable[[Request], None], says: str
) -> None:
    """None of these answers ends before the test does."""
    hub.on(HARM, behave)
    with hurried(models), pytest.raises((SourceUnavailable, InvalidInput), match=says):
        models.facts(HARM, None, None)
    assert models.facts(HONEST, None, None).layers == 2


def test_a_door_that_opens_to_nobody_takes_no_longer(
    hub: HostileHub, patient: HubModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is accepted, and no word of TLS is said."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        monkeypatch.setenv("HF_ENDPOINT", f"https://127.0.0.1:{door.getsockname()[1]}")
        models = HubModels(tmp_path, timeout_seconds=SECONDS)
        with pytest.raises(SourceUnavailable, match=UNREACHED):
            models.facts(HARM, None, None)
    assert hub.url
    assert patient.facts(HONEST, None, None).layers == 2


def test_a_name_that_is_not_resolved_takes_no_longer(
    hub: HostileHub, patient: HubModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.example:80")
    models = HubModels(tmp_path, timeout_seconds=SECONDS)
    with monkeypatch.context() as patch:
        patch.setattr("socket.getaddrinfo", lambda *_, **__: hub.over.wait())
        with pytest.raises(SourceUnavailable, match=UNREACHED):
            models.facts(HARM, None, None)
    assert patient.facts(HONEST, None, None).layers == 2


def test_trickling_files_together_take_no_longer_than_the_look_up(
    hub: HostileHub, models: HubModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second passes with every file, on a clock of the test's own."""
    clock = [time.monotonic()]
    monkeypatch.setattr(web_session, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    weights = {f"w{number}": f"model-{number}.safetensors" for number in range(400)}
    index = json.dumps({"weight_map": weights}).encode()

    def file(request: Request) -> None:
        clock[0] += 1
        request.answer(b"")

    hub.on(f"{HARM}/resolve/main/config.json", lambda request: request.answer(json.dumps(UNKNOWN).encode()))
    hub.on("index.json", lambda request: request.answer(index))
    hub.on(".safetensors", file)
    assert models.facts(HARM, None, None).evidence is Evidence.GENERIC
    asked = [request for request in hub.requests if request.path.endswith(".safetensors")]
    assert 0 < len(asked) <= _LOOK_UP_SECONDS + web_session.AT_ONCE


def test_a_list_of_files_that_trickles_is_done_without(hub: HostileHub, models: HubModels) -> None:
    def config(request: Request) -> None:
        request.answer(json.dumps(UNKNOWN).encode())
        running.enter_context(hurried(models))

    hub.on(f"{HARM}/resolve/main/config.json", config)
    hub.rules.insert(0, ("/api/models", trickle))
    with ExitStack() as running:
        assert models.facts(HARM, None, None).evidence is Evidence.GENERIC
    assert [request for request in hub.requests if "/api/models" in request.path]


def test_redirects_end(hub: HostileHub, models: HubModels) -> None:
    hub.on(HARM, lambda request: request.answer(b"", f"Location: {request.path}x", status="302 Found"))
    with pytest.raises(SourceUnavailable, match=f"redirects more than {MOST_HOPS} times"):
        models.facts(HARM, None, None)
    assert len([request for request in hub.requests if HONEST not in request.path]) == MOST_HOPS + 1


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://x/y", "http://", "//", "http://[::bad", "data:,{}"])
def test_a_redirect_to_what_is_no_web_address_is_not_followed(
    hub: HostileHub, models: HubModels, location: str
) -> None:
    hub.on(HARM, lambda request: request.answer(b"", f"Location: {location}", status="302 Found"))
    with pytest.raises(SourceUnavailable):
        models.facts(HARM, None, None)


PUBLIC = "93.184.215.14"


@pytest.fixture
def known_as(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let names of the machine itself stand for other addresses where these are judged, and nowhere else."""

    def know(**addresses: str) -> None:
        judged = web_session._reach_of  # noqa: SLF001 - a test has no address of the public internet
        names = {"127.0.0.1": addresses["hub"], "127.0.0.2": addresses["target"]}

        def reach_of(address: str) -> web_session.Reach:
            return judged(names.get(address, address))

        monkeypatch.setattr(web_session, "_reach_of", reach_of)

    return know


@pytest.mark.parametrize(
    ("home", "target", "follows"),
    [
        (PUBLIC, PUBLIC, True),
        ("10.0.0.1", "10.9.0.1", True),
        ("10.0.0.1", PUBLIC, True),
        ("127.0.0.1", "10.0.0.1", True),
        (PUBLIC, "10.0.0.1", False),
        (PUBLIC, "100.100.100.200", False),
        (PUBLIC, "fd00:ec2::254", False),
        (PUBLIC, "::ffff:10.0.0.1", False),
        ("10.0.0.1", "169.254.169.254", False),
        ("10.0.0.1", "fe80::1", False),
        ("10.0.0.1", "127.0.0.1", False),
        (PUBLIC, "224.0.0.1", False),
    ],
)
def test_a_redirect_leads_to_no_network_that_the_hub_is_not_in(
    hub: HostileHub, models: HubModels, known_as: Callable[..., None], home: str, target: str, *, follows: bool
) -> None:
    """The address is not asked, and a neighbour's model is read."""
    known_as(hub=home, target=target)
    with serve_hostile_hub("127.0.0.2") as inside:
        inside.on("secret", lambda request: request.answer(json.dumps(CONFIG).encode()))
        moved = f"Location: {inside.url}/secret"
        hub.on(f"{HARM}/resolve/main/config.json", lambda request: request.answer(b"", moved, status="302 Found"))
        if follows:
            assert models.facts(HARM, None, None).layers == 2
        else:
            with pytest.raises(SourceUnavailable, match="a network that it is not in itself"):
                models.facts(HARM, None, None)
            assert not inside.requests
        assert models.facts(HONEST, None, None, asker="other").layers == 2


def test_the_token_goes_to_the_endpoint_and_to_nobody_else(hub: HostileHub, models: HubModels) -> None:
    with serve_hostile_hub() as storage:
        storage.on("blob", lambda request: request.answer(json.dumps(CONFIG).encode()))
        hub.on("resolve/main/config.json", lambda request: request.answer(b"", "Location: /here", status="307 Moved"))
        hub.on("here", lambda request: request.answer(b"", f"Location: {storage.url}/blob", status="302 Found"))
        assert models.facts("org/stored", None, "hf_mine").layers == 2
        ours = [request for request in hub.requests if "org/stored/resolve" in request.path or "here" in request.path]
        assert [request.headers.get("authorization") for request in ours] == ["Bearer hf_mine"] * 3
        (theirs,) = storage.requests
        assert "authorization" not in theirs.headers
        assert not [value for value in theirs.headers.values() if "hf_mine" in value]


def test_no_cookie_of_one_look_up_is_shown_in_the_next(hub: HostileHub, models: HubModels) -> None:
    hub.on(HARM, lambda request: request.answer(b"", "Set-Cookie: who=you; Path=/", status="404 Not Found"))
    with pytest.raises(Exception, match="was not found"):
        models.facts(HARM, None, None)
    models.facts(HONEST, None, None)
    assert not [request for request in hub.requests if "cookie" in request.headers]


CLIMBING = "../../../../outside"


def test_nothing_that_a_hub_says_becomes_a_path(hub: HostileHub, tmp_path: Path) -> None:
    folder = tmp_path / "parent" / "cache"
    folder.mkdir(parents=True)
    said = (
        f'ETag: "{CLIMBING}"',
        f"X-Linked-ETag: {CLIMBING}",
        f"X-Repo-Commit: {CLIMBING}",
        f'Content-Disposition: attachment; filename="{CLIMBING}"',
    )
    config = json.dumps(UNKNOWN).encode()
    weights = {"weight_map": {"a": f"{CLIMBING}.safetensors", "b": "../../x.safetensors", "c": "/x.safetensors"}}
    to = f"Location: /{CLIMBING}/config.json"
    hub.on(f"{HARM}/resolve/main/config.json", lambda request: request.answer(b"", to, *said, status="302 Found"))
    hub.on("outside/config.json", lambda request: request.answer(config, *said))
    hub.on("index.json", lambda request: request.answer(json.dumps(weights).encode(), *said))
    hub.on("api/models", lambda request: request.answer(b"{}", *said))
    assert HubModels(folder, timeout_seconds=SECONDS).facts(HARM, None, None).evidence is Evidence.GENERIC
    written = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert written
    assert all(re.fullmatch(r"parent/cache/[0-9a-f]{64}", str(path)) for path in written)
    assert not [request for request in hub.requests if "x.safetensors" in request.path]

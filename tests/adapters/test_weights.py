"""Copies of weights: whole or not there, continued where another try has ended, and never made by two at a time."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from obstore.store import LocalStore

from plimsoll.adapters.weights import copying, sources
from plimsoll.adapters.weights.copying import MANIFEST, SILENT_SECONDS, FolderCopy
from plimsoll.adapters.weights.sources import BucketSource, NotWorthATry, Published, PublishedFile
from plimsoll.domain.errors import InvalidInput, PlimsollError, SourceUnavailable
from tests.adapters.fake_hub import FakeHub, FakeModel
from tests.support.tables import every_case

NAME = "org/model"
LARGE = hashlib.shake_256(b"weights").digest(300_000)


def no_wait(_: float) -> None:
    """Wait for nothing."""


def copy_to(folder: Path, **more: Callable[[float], None]) -> FolderCopy:
    return FolderCopy(folder, **({"wait": no_wait} | more))  # type: ignore[arg-type]


@pytest.fixture
def model(hub: FakeHub) -> FakeModel:
    made = hub.publish(NAME, {"model_type": "llama"})
    made.files |= {"model-1.safetensors": LARGE, "model-2.safetensors": LARGE[::-1], "pytorch_model.bin": b"x" * 99}
    made.files |= {"original/consolidated.00.pth": b"y" * 99, ".gitattributes": b"*", "sub/vocab.txt": b"a"}
    return made


def test_a_model_is_copied_without_formats_that_nobody_reads_and_once(
    hub: FakeHub, model: FakeModel, tmp_path: Path
) -> None:
    folder = tmp_path / "weights" / "model"
    made = copy_to(folder)
    assert made.make(f"hf://{NAME}")
    found = {each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file()}
    assert found == {"config.json", "model-1.safetensors", "model-2.safetensors", "sub/vocab.txt", MANIFEST}
    assert (folder / "model-1.safetensors").read_bytes() == LARGE
    assert [each.name for each in folder.parent.iterdir()] == ["model"], "nothing else stays"
    assert (
        made.progress().copied_bytes == made.progress().total_bytes == 600_000 + 2 + len(model.files["config.json"]) - 1
    )
    sent = hub.sent_bytes
    assert not copy_to(folder).make(f"hf://{NAME}")
    assert hub.sent_bytes == sent, "another deployment of the same revision reads nothing"


class Played:
    """A source of a test has no connections."""

    def close(self) -> None:
        """End nothing."""


class Cut(Exception):
    """The process ends here."""


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(1, 12), min_size=1, max_size=4), seed=st.integers(0, 9))
def test_a_copy_goes_on_after_any_end_and_the_folder_is_whole_or_not_there(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], seed: int
) -> None:
    """A source that ends the process at any piece: no byte that is there is read again, and no folder is there."""
    names = [f"model-{number}.safetensors" for number in range(3)]
    contents = {name: hashlib.shake_256(f"{seed}{name}".encode()).digest(1000) for name in names}
    contents["config.json"] = b"{}"
    files = tuple(PublishedFile(name, len(content)) for name, content in sorted(contents.items()))
    folder, left, again = tmp_path_factory.mktemp("claim") / "model", iter(cuts), list[str]()

    class Source(Played):
        pieces = next(left)

        def published(self) -> Published:
            return Published(files)

        def read(self, file: PublishedFile, start: int) -> Iterator[bytes]:
            there = (copy_to(folder).partial / file.path).stat().st_size
            again.extend([file.path] if start != there else [])
            for at in range(start, file.size, 250):
                Source.pieces -= 1
                if Source.pieces == 0:
                    raise Cut
                yield contents[file.path][at : at + 250]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying, "source_of", lambda *_: Source())
        patch.setattr(copying, "AT_ONCE", 1)
        for _ in cuts:
            try:
                copy_to(folder).make("hf://x")
                break
            except Cut:
                assert not folder.exists()
                Source.pieces = next(left, 0)
        else:
            copy_to(folder).make("hf://x")
    assert {each.name: each.read_bytes() for each in folder.iterdir() if each.name != MANIFEST} == contents
    assert again == [], "bytes that were there were read again"


def test_a_file_with_another_checksum_is_never_served_and_read_anew(
    hub: FakeHub, model: FakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, honest = tmp_path / "model", tmp_path / "honest"
    real = hub._file  # noqa: SLF001 - the stand-in's own
    model.files["model-1.safetensors"] = LARGE

    def lying(request: object, path: str) -> None:
        model.files["model-1.safetensors"] = b"?" * len(LARGE)
        real(request, path)  # type: ignore[arg-type]
        model.files["model-1.safetensors"] = LARGE

    monkeypatch.setattr(hub, "_file", lying)
    with pytest.raises(PlimsollError, match=r"model-1\.safetensors: its SHA-256 is not the published one"):
        copy_to(folder).make(f"hf://{NAME}")
    assert not folder.exists()
    monkeypatch.setattr(hub, "_file", real)
    hub.publish("org/other", {"model_type": "llama"}).files["model.safetensors"] = LARGE
    assert copy_to(honest).make("hf://org/other")
    assert copy_to(folder).make(f"hf://{NAME}")
    assert (folder / "model-1.safetensors").read_bytes() == LARGE


def test_files_of_another_commit_are_not_continued(hub: FakeHub, model: FakeModel, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    partial = copy_to(folder).partial
    partial.mkdir()
    (partial / "config.json").write_bytes(b"from before")
    (partial / "model-9.safetensors").write_bytes(b"gone now")
    assert copy_to(folder).make(f"hf://{NAME}", "main")
    assert (folder / "config.json").read_bytes() == model.files["config.json"]
    assert not (folder / "model-9.safetensors").exists()
    manifest = json.loads((folder / MANIFEST).read_text())
    assert manifest["version"] == model.revisions["main"]
    assert hub.requests[-1].startswith(f"GET /{NAME}/resolve/{model.revisions['main']}/"), "the commit, not the branch"


@every_case(
    ("change", "sentence"),
    [
        (lambda hub: hub.models.clear(), "org/model at revision main was not found"),
        (lambda hub: setattr(hub.models[NAME], "tokens", ("t",)), "was not found"),
        (lambda hub: hub.models[NAME].files.pop("config.json"), "has no config.json"),
        (lambda hub: hub.models[NAME].files.update({"../../up": b"1"}), "path leads out of its folder"),
    ],
)
def test_what_a_person_has_to_change_is_not_worth_another_try(
    hub: FakeHub, change: Callable[[FakeHub], object], sentence: str, tmp_path: Path
) -> None:
    made = hub.publish(NAME, {"model_type": "llama"})
    made.files["model.safetensors"] = LARGE
    change(hub)
    with pytest.raises(NotWorthATry, match=sentence):
        copy_to(tmp_path / "model").make(f"hf://{NAME}")


def test_an_unknown_revision_and_a_hub_that_is_away_are_told_apart(
    hub: FakeHub, model: FakeModel, tmp_path: Path
) -> None:
    assert model.files
    with pytest.raises(NotWorthATry, match="no revision nope"):
        copy_to(tmp_path / "model").make(f"hf://{NAME}", "nope")
    hub.down = True
    with pytest.raises(SourceUnavailable, match="did not list"):
        copy_to(tmp_path / "model").make(f"hf://{NAME}")


def test_a_volume_without_room_is_named_with_both_figures(
    hub: FakeHub, model: FakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hub.models
    assert model.files
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(NotWorthATry, match=r"need 0\.0 GiB more, and the volume has 0\.0 GiB of room: enlarge"):
        copy_to(tmp_path / "model").make(f"hf://{NAME}")


def test_a_connection_that_breaks_is_continued_while_each_try_brings_it_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[int] = []

    class Breaking(Played):
        def published(self) -> Published:
            return Published((PublishedFile("config.json", 1000),))

        def read(self, file: PublishedFile, start: int) -> Iterator[bytes]:
            starts.append(start)
            yield b"x" * min(100, file.size - start)
            raise SourceUnavailable("reset")

    monkeypatch.setattr(copying, "source_of", lambda *_: Breaking())
    assert copy_to(tmp_path / "model").make("hf://x")
    assert starts == list(range(0, 1000, 100))


def test_another_process_waits_and_then_finds_it_there(
    hub: FakeHub, model: FakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two deployments of one revision on one claim: the files are read once."""
    assert model.files
    monkeypatch.setattr(copying, "BEAT_SECONDS", 0.01)
    folder = tmp_path / "model"
    results: list[bool] = []
    pause = threading.Event()
    both = [
        threading.Thread(target=lambda: results.append(FolderCopy(folder, wait=pause.wait).make(f"hf://{NAME}")))  # type: ignore[arg-type]
        for _ in range(2)
    ]
    for each in both:
        each.start()
    for each in both:
        each.join(30)
    assert sorted(results) == [False, True]
    assert hub.sent_bytes == sum(map(len, (LARGE, LARGE, model.files["config.json"], b"a")))


def test_the_turn_of_a_process_that_has_ended_is_taken_after_its_silence(
    hub: FakeHub, model: FakeModel, tmp_path: Path
) -> None:
    assert hub.models
    assert model.files
    now = 0.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    folder, said = tmp_path / "model", list[str]()
    (tmp_path / ".model.beat").write_text("another 7")
    assert FolderCopy(folder, said.append, lambda: now, wait).make(f"hf://{NAME}")
    assert SILENT_SECONDS <= now < SILENT_SECONDS + 10
    assert said[0] == "another process copies these weights: waiting for it"


def test_who_lost_the_turn_writes_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that stood still for too long finds another one in its place."""
    monkeypatch.setattr(copying, "BEAT_SECONDS", 0.01)
    ended = threading.Event()

    class Slow(Played):
        def published(self) -> Published:
            return Published((PublishedFile("config.json", 10**9),))

        def read(self, file: PublishedFile, start: int) -> Iterator[bytes]:
            assert start <= file.size
            (tmp_path / ".model.beat").write_text("another 1")
            while not ended.wait(0.005):
                yield b"x"

    monkeypatch.setattr(copying, "source_of", lambda *_: Slow())
    with pytest.raises(PlimsollError, match="another process copies these weights"):
        FolderCopy(tmp_path / "model").make("hf://x")
    ended.set()
    assert (tmp_path / ".model.beat").read_text() == "another 1"


def test_objects_of_a_bucket_are_copied_by_the_library_of_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    (bucket / "config.json").write_text("{}")
    (bucket / "model.safetensors").write_bytes(LARGE)
    source = BucketSource("s3://bucket/prefix", {})
    source._store = LocalStore(str(bucket))  # type: ignore[assignment]  # noqa: SLF001 - a store without a network
    monkeypatch.setattr(copying, "source_of", lambda *_: source)
    folder = tmp_path / "claim" / "model"
    begun = copy_to(folder)
    begun._begin(source.published())  # noqa: SLF001 - an earlier try
    (begun.partial / "model.safetensors").write_bytes(LARGE[:1234])
    read: list[int] = []
    real = BucketSource.read

    def noted(self: BucketSource, file: PublishedFile, start: int) -> Iterator[bytes]:
        read.append(start)
        return real(self, file, start)

    monkeypatch.setattr(BucketSource, "read", noted)
    assert copy_to(folder).make("s3://bucket/prefix")
    assert (folder / "model.safetensors").read_bytes() == LARGE
    assert 1234 in read


@every_case("address", ["ftp://x/y", "s3://", "oci://a/b", "/path"])
def test_an_address_of_no_source_is_refused(address: str) -> None:
    with pytest.raises(InvalidInput, match="hf://OWNER/NAME"):
        sources.source_of(address, None)


def test_a_bucket_is_read_with_the_credentials_that_are_there() -> None:
    public = BucketSource("s3://bucket/a", {})._store  # noqa: SLF001 - what is sent is the library's affair
    keyed = BucketSource("s3://bucket/a", {"AWS_ACCESS_KEY_ID": "a"})._store  # noqa: SLF001 - the same
    found = [str((each.config or {}).get("skip_signature")).lower() for each in (public, keyed)]
    assert found == ["true", "none"]

"""The script that compares what the law was read from with another release: on small wheels that a local server has."""

from __future__ import annotations

import ast
import io
import json
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.engines.vllm.memory.laws.laws import CHANGES, NEWEST_VERSION
from scripts import law_sources
from scripts.law_sources import SOURCES, Record, definitions, differences, digest_of

WORKER = '''\
class Worker:
    limit: int = 4
    """The limit."""

    def profile(self, rows):
        """Profile."""
        return rows * self.limit

    def warm(self):
        return 1
'''
PLANNING = "BLOCK = 16\n\n\ndef plan(size):\n    return size // BLOCK\n\n\ndef spread(size):\n    return size\n"
FIRST = {"worker.py": WORKER, "core/utils.py": PLANNING}
WATCHED = {
    "METADATA": ["torch"],
    "worker.py": ["Worker.*", "Worker.profile", "Worker.warm"],
    "core/utils.py": ["BLOCK", "plan", "spread"],
}


class Shelf:
    """A package index with wheels of made-up releases, and the bytes of wheels that it was asked for."""

    def __init__(self) -> None:
        self.wheels: dict[str, bytes] = {}
        self.sent = 0
        self.url = ""

    def put(self, release: str, files: Mapping[str, str], ballast: int = 0, torch: str = "2.13.0") -> None:
        """Put a wheel on the shelf, with as many bytes that nobody needs."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as wheel:
            wheel.writestr("vllm/ballast.so", b"\0" * ballast)
            needs = [f"torch=={torch}", 'torch==9.9; extra == "new"', f"numpy>={release}"]
            text = "\n".join(f"Requires-Dist: {each}" for each in needs)
            wheel.writestr(f"vllm-{release}.dist-info/METADATA", f"Name: vllm\n{text}\n")
            for name, text in files.items():
                wheel.writestr(f"vllm/{name}", text)
        self.wheels[f"vllm-{release}-cp38-abi3-manylinux_2_28_x86_64.whl"] = packed.getvalue()


@contextmanager
def serving(shelf: Shelf) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            if name in shelf.wheels:
                self._part(shelf.wheels[name])
            else:
                files = [{"filename": each, "url": f"../files/{each}"} for each in (*shelf.wheels, "vllm-9.9.9.tar.gz")]
                self._send(200, json.dumps({"files": files}).encode(), {})

        def _part(self, content: bytes) -> None:
            begin, _, end = self.headers["Range"].removeprefix("bytes=").partition("-")
            first = int(begin) if begin else max(0, len(content) - int(end))
            last = int(end) if begin and end else len(content) - 1
            part = content[first : last + 1]
            shelf.sent += len(part)
            self._send(206, part, {"Content-Range": f"bytes {first}-{first + len(part) - 1}/{len(content)}"})

        def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    made = Shelf()
    with serving(made) as url:
        made.url = url
        yield made


@pytest.fixture
def sources(tmp_path: Path, shelf: Shelf) -> Path:
    """A list of sources on which the first release, 1.0.0, is recorded."""
    path = tmp_path / "sources.json"
    Record((), {file: tuple(names) for file, names in WATCHED.items()}, {}).write(path)
    shelf.put("1.0.0", FIRST)
    assert ask(shelf, path, "1.0.0", "--record") == 0
    return path


def ask(shelf: Shelf, sources: Path, *words: str) -> int:
    return law_sources.main([*words, "--index", shelf.url, "--sources", str(sources)])


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of the last answer, without the first."""
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line.startswith(" ")]


def test_a_release_without_a_change_is_passed(shelf: Shelf, sources: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shelf.put("1.1.0", {**FIRST, "worker.py": f"# moved lines\n\n{WORKER}".replace("Profile.", "Other words.")})
    capsys.readouterr()
    assert ask(shelf, sources, "1.1.0") == 0
    assert said(capsys) == []


def test_what_changed_is_named_and_fails_until_it_is_recorded(
    shelf: Shelf, sources: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = WORKER.replace("rows * self", "2 * rows * self").replace("= 4", "= 8").replace("def warm", "def heat")
    shelf.put("1.1.0", {"worker.py": changed, "core/utils.py": "", "core/planning.py": PLANNING.replace("16", "32")})
    capsys.readouterr()
    assert ask(shelf, sources) == 1
    named = [
        "moved core/utils.py BLOCK -> core/planning.py, changed",
        "moved core/utils.py plan -> core/planning.py, unchanged",
        "moved core/utils.py spread -> core/planning.py, unchanged",
        "changed worker.py Worker.limit",
        "changed worker.py Worker.profile",
        "gone worker.py Worker.warm",
    ]
    assert said(capsys) == named
    assert ask(shelf, sources, "1.1.0", "--record") == 0
    capsys.readouterr()
    assert ask(shelf, sources, "1.1.0") == 0
    assert said(capsys) == named
    shelf.put("1.2.0", {"worker.py": changed, "core/planning.py": PLANNING.replace("//", "%").replace("16", "32")})
    assert ask(shelf, sources) == 1
    assert said(capsys) == ["changed core/planning.py plan"]


def test_a_field_more_is_new_and_other_files_do_not_count(
    shelf: Shelf, sources: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = WORKER.replace("    limit: int = 4\n", "    limit: int = 4\n    floor: int = 1\n")
    shelf.put("1.1.0", {**FIRST, "worker.py": more, "other.py": "def plan(): ..."})
    capsys.readouterr()
    assert ask(shelf, sources, "1.1.0") == 1
    assert said(capsys) == ["new worker.py Worker.floor"]


def test_what_moved_to_a_file_of_the_same_name_is_found_there(
    shelf: Shelf, sources: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shelf.put("1.1.0", {"worker.py": WORKER, "plans/utils.py": PLANNING, "plans/other.py": PLANNING})
    capsys.readouterr()
    assert ask(shelf, sources) == 1
    names = ("BLOCK", "plan", "spread")
    assert said(capsys) == [f"moved core/utils.py {name} -> plans/utils.py, unchanged" for name in names]


def test_definitions_are_found_where_they_are_nested_or_conditional() -> None:
    source = """
if fast:
    LIMIT = 1
    def run(): ...
else:
    LIMIT = 2
try:
    import far
    async def fetch(): ...
except ImportError:
    pass
class Outer:
    size: int = 1
    class Inner:
        depth = 3
        def __init__(self): self.late = 4
"""
    found = definitions(source)
    assert set(found) == {
        *("LIMIT", "run", "fetch", "Outer", "Outer.size", "Outer.Inner", "Outer.Inner.depth", "Outer.Inner.__init__"),
    }
    assert digest_of(found["LIMIT"]) == digest_of(definitions("LIMIT = 1")["LIMIT"])
    assert set(law_sources.chosen(found, ["Outer.*", "LIMIT", "nothing"])) == {"Outer.size", "LIMIT"}


def test_another_release_of_what_it_needs_counts(
    shelf: Shelf, sources: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shelf.put("1.1.0", FIRST, torch="2.14.0")
    capsys.readouterr()
    assert ask(shelf, sources, "1.1.0") == 1
    assert said(capsys) == ["changed METADATA torch"]


def test_an_older_release_can_be_recorded_later(shelf: Shelf, sources: Path) -> None:
    shelf.put("1.2.0", {**FIRST, "worker.py": WORKER.replace("= 4", "= 8")})
    shelf.put("1.1.0", {**FIRST, "worker.py": WORKER.replace("= 4", "= 6")})
    for release in ("1.2.0", "1.1.0"):
        assert ask(shelf, sources, release, "--record") == 0
    record = Record.read(sources)
    limits = [record.at(release)["worker.py"]["Worker.limit"] for release in record.releases]
    assert record.releases == ("1.0.0", "1.1.0", "1.2.0")
    assert len(set(limits)) == 3
    assert len({record.at(release)["core/utils.py"]["plan"] for release in record.releases}) == 1


def test_of_a_large_wheel_only_parts_are_fetched(shelf: Shelf, sources: Path) -> None:
    shelf.put("1.1.0", FIRST, ballast=20_000_000)
    shelf.sent = 0
    assert ask(shelf, sources, "1.1.0") == 0
    assert 0 < shelf.sent < 1_000_000


def test_an_unknown_release_is_refused_with_the_newest(
    shelf: Shelf, sources: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(shelf, sources, "7.0.0") == 2
    assert "has no wheel of vllm 7.0.0: the newest is 1.0.0" in capsys.readouterr().err


_NAMES = st.sampled_from(["rows", "size", "limit"])
_EXPRESSIONS = st.recursive(
    st.integers(0, 999).map(str) | _NAMES,
    lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda parts: f"({' '.join(parts)})"),
    max_leaves=6,
)


@given(
    bodies=st.lists(st.tuples(_NAMES, _EXPRESSIONS), min_size=1, max_size=4),
    remark=st.text("abc #'", max_size=20),
    number=st.integers(1000, 9999),
)
def test_the_digest_sees_what_a_function_does_and_not_how_it_is_written(
    bodies: list[tuple[str, str]], remark: str, number: int
) -> None:
    def source(begin: str = "", end: str = "", line: str = "", more: str = "") -> str:
        steps = [f"    {name} = {value}{end}\n{line}" for name, value in bodies]
        return f"def f(rows, size, limit):\n{begin}{''.join(steps)}    return rows{more}\n"

    def digest(text: str) -> str:
        return digest_of(definitions(text)["f"])

    plain = digest(source())
    assert digest(source(begin=f"    {remark!r}\n", end=f"  # {remark}", line="\n")) == plain
    assert digest(ast.unparse(ast.parse(source()))) == plain
    assert digest(source(more=f" + {number}")) != plain


def test_every_listed_definition_was_in_a_release_that_was_read() -> None:
    record = Record.read(SOURCES)
    for file, names in record.watched.items():
        known = record.digests.get(file, {})
        lost = [name for name in names if name not in known and not name.endswith(".*")]
        assert not lost, f"{file}: a release was never read after these were listed, or they are spelled otherwise"
        owners = [name.removesuffix("*") for name in names if name.endswith(".*")]
        assert all(any(each.startswith(owner) for each in known) for owner in owners)
    assert list(record.releases) == sorted(record.releases, key=EngineVersion.of)
    assert EngineVersion.of(record.releases[-1]) >= NEWEST_VERSION == CHANGES[-1].since


def test_what_0_33_changed_is_in_the_record() -> None:
    """As the wheels of both releases show it; in the words of our own notes of them."""
    record = Record.read(SOURCES)
    found = {(each.what, each.name) for each in differences(record.at("0.32.0"), record.at("0.33.0"))}
    assert found >= {
        ("changed", "flashinfer-python"),
        ("changed", "GPUModelRunner._dummy_sampler_run"),
        ("changed", "Worker.init_device"),
        ("changed", "Worker.determine_available_memory"),
        ("changed", "VllmConfig.__post_init__"),
        ("changed", "EngineArgs.get_batch_defaults"),
        ("changed", "EngineArgs.mamba_cache_mode"),
        ("changed", "SpeculativeMethod"),
        ("changed", "CacheDType"),
        ("changed", "RocmPlatform.supports_fp8"),
        ("changed", "Platform._align_hybrid_block_size"),
        ("new", "EngineArgs.monokernel"),
        ("new", "EngineArgs.sleep_mode_backend"),
        ("new", "EngineArgs.watchdog_config"),
        ("new", "QwenGatedDeltaNetAttention.get_kv_cache_spec"),
        ("new", "VllmConfig._limit_max_model_len_to_draft"),
        ("new", "VllmConfig._reject_mismatched_float_kv_cache"),
        ("new", "EnableDisableAction.__init__"),
        ("gone", "get_kv_cache_configs"),
    }
    untouched = {"request_memory", "memory_profiling", "compute_mm_encoder_budget", "SamplingParams.for_sampler_warmup"}
    assert not untouched & {name for _, name in found}

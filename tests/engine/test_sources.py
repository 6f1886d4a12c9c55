"""Is every change told of what the real engine has to be asked about anew?"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from testbed.engine.sources import LIST, ROOT, SOURCES, check, digests, write


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the listed folders, of which the list is written."""
    for folder in SOURCES:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "operator/plimsoll/domain.py").write_text("")
    (tmp_path / LIST).unlink(missing_ok=True)
    write(tmp_path)
    return tmp_path


def test_nothing_has_changed(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "operator/plimsoll/domain.py").write_text("changed")
    (checkout / "testbed/engine/__pycache__").mkdir()
    (checkout / "testbed/engine/__pycache__/server.pyc").write_text("")
    assert check(checkout)
    assert "Nothing of it has changed since then" in capsys.readouterr().out
    assert not write(checkout)


@pytest.mark.parametrize(
    "path",
    [
        "operator/plimsoll/engines/vllm/launch.py",
        "operator/plimsoll/engines/vllm/memory/kv_cache/layout.py",
        "operator/plimsoll/render/pods.py",
        "testbed/engine/environment.py",
        "testbed/engine/constraints.txt",
        "testbed/engine/pod_root.sh",
        "tests/engine/kv_cases.py",
    ],
)
def test_a_changed_file_is_named(checkout: Path, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with (checkout / path).open("a") as file:
        file.write("\n# changed\n")
    assert not check(checkout)
    assert f"changed: {path}\n" in capsys.readouterr().out
    assert write(checkout)
    assert check(checkout)


def test_new_files_and_those_that_are_gone_are_named(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "operator/plimsoll/render/new.py").write_text("")
    (checkout / "operator/plimsoll/render/pods.py").unlink()
    assert not check(checkout)
    said = capsys.readouterr().out
    assert "  new: operator/plimsoll/render/new.py\n" in said
    assert "  gone: operator/plimsoll/render/pods.py\n" in said


def test_without_a_list_the_engine_is_asked(checkout: Path) -> None:
    (checkout / LIST).unlink()
    assert not check(checkout)


def test_the_recorded_answers_are_listed_and_the_list_is_not() -> None:
    found = digests(ROOT)
    assert LIST not in found
    assert str(Path(LIST).with_name("parser.json")) in found


def test_the_list_is_one_that_sha256sum_reads(checkout: Path) -> None:
    command = ["sha256sum", "--check", "--quiet", LIST]
    done = subprocess.run(command, cwd=checkout, check=False, capture_output=True)  # noqa: S603 - our own words
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

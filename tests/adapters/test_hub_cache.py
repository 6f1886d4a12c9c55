"""The folder of earlier answers: bounded, whole, and never a reason to fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from plimsoll.adapters.hub.cache import HubCache

QUESTION = ("https://hub", "org/name", "", "config.json", "default")


def test_what_is_kept_is_found_again_and_by_nobody_else(tmp_path: Path) -> None:
    HubCache(tmp_path).put(QUESTION, b"{}")
    assert HubCache(tmp_path).get(QUESTION, 2) == b"{}"
    for place in range(len(QUESTION)):
        other = (*QUESTION[:place], "other", *QUESTION[place + 1 :])
        assert HubCache(tmp_path).get(other, 2) is None


def test_the_parts_of_a_question_do_not_run_into_each_other(tmp_path: Path) -> None:
    HubCache(tmp_path).put(("a", "bc"), b"{}")
    assert HubCache(tmp_path).get(("ab", "c"), 2) is None


@pytest.mark.parametrize("part", ["../../x", "/etc/passwd", "a" * 5000, "\x00", "ü"])
def test_no_part_of_a_question_is_part_of_a_path(tmp_path: Path, part: str) -> None:
    folder = tmp_path / "cache"
    HubCache(folder).put((part, part), b"{}")
    assert HubCache(folder).get((part, part), 2) == b"{}"
    (written,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert written.parent == folder
    assert len(written.name) == 64


def test_the_oldest_go_when_there_are_too_many(tmp_path: Path) -> None:
    cache = HubCache(tmp_path, most_files=3)
    for number in range(5):
        cache.put((str(number),), b"{}")
        for path in tmp_path.iterdir():
            os.utime(path, ns=(0, path.stat().st_mtime_ns - 10**9))
    assert [cache.get((str(number),), 2) for number in range(5)] == [None, None, b"{}", b"{}", b"{}"]


def test_the_oldest_go_when_they_are_too_large_together(tmp_path: Path) -> None:
    cache = HubCache(tmp_path, most_bytes=2500)
    for number in range(4):
        cache.put((str(number),), b"x" * 1000)
        for path in tmp_path.iterdir():
            os.utime(path, ns=(0, path.stat().st_mtime_ns - 10**9))
    assert [cache.get((str(number),), 1000) is None for number in range(4)] == [True, True, False, False]


def test_leftovers_of_a_crash_count_and_folders_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "models--org--name").mkdir()
    (tmp_path / "tmp123").write_bytes(b"x" * 3000)
    os.utime(tmp_path / "tmp123", (0, 0))
    HubCache(tmp_path, most_bytes=2000).put(QUESTION, b"{}")
    assert not (tmp_path / "tmp123").exists()
    assert (tmp_path / "models--org--name").is_dir()


def test_more_than_is_asked_for_is_not_read(tmp_path: Path) -> None:
    HubCache(tmp_path).put(QUESTION, b"x" * 11)
    assert HubCache(tmp_path).get(QUESTION, 10) is None


def test_a_folder_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = HubCache(tmp_path / "file")
    cache.put(QUESTION, b"{}")
    cache.drop(QUESTION)
    assert cache.get(QUESTION, 2) is None


def test_a_full_disk_leaves_the_earlier_answer_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = HubCache(tmp_path)
    cache.put(QUESTION, b"{}")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    cache.put(QUESTION, b"[]")
    assert cache.get(QUESTION, 2) == b"{}"
    assert len(list(tmp_path.iterdir())) == 1

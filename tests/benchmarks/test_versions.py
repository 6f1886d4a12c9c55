"""Which release a version text means."""

from __future__ import annotations

import pytest

from benchmarks.accuracy.versions import is_exact, parse_version
from tests.support.tables import every_case


@every_case(
    ("text", "release"),
    [
        ("0.19.0", (0, 19, 0)),
        ("v0.8.5", (0, 8, 5)),
        ("0.10.1.1", (0, 10, 1)),
        ("0.13.0rc2.dev112+g763963aa7.d20251213", (0, 13, 0)),
        ("0.11.0 (image vllm/vllm-openai:v0.11.0 in a section)", (0, 11, 0)),
        ("0.17.1 (ROCm wheel)", (0, 17, 1)),
        ("~0.11", (0, 11, 0)),
        ("~0.11.x (Nov 2025)", (0, 11, 0)),
        (">=0.21", (0, 21, 0)),
        ("0.10.1.x", (0, 10, 1)),
        ("0.22-era (2026-06)", (0, 22, 0)),
        ("1Cat fork (0.22-era)", (0, 22, 0)),
        ("0.2x (Aug 2026; gpu_worker.py:857)", (0, 27, 0)),
        ("main 2025-04-16", (0, 8, 0)),
        ("2026-10 build (gpu_worker.py:955)", (0, 30, 0)),
    ],
)
def test_the_release_of_a_text(text: str, release: tuple[int, int, int]) -> None:
    assert parse_version(text) == release


@pytest.mark.parametrize("text", [None, "", "nightly", "2019-01"])
def test_no_release_of_a_text_without_one(text: str | None) -> None:
    assert parse_version(text) is None


def test_only_a_full_release_is_no_guess() -> None:
    assert is_exact("0.13.0rc2.dev112+g763963aa7")
    assert not any(is_exact(text) for text in (None, "~0.11", "0.23-era", "2026-05"))

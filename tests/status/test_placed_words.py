"""How a place was found is a sentence, whichever solver found it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from plimsoll.api.v1alpha1.status import HostCacheStatus, HostLayersStatus, PerformanceStatus
from plimsoll.domain.units import GIB
from plimsoll.status.words.placed import found_words, host_cache_words, host_layers_words, speed_words


@pytest.mark.parametrize(
    ("solver", "gap", "words"),
    [
        (None, None, ""),
        ("", 3, ""),
        ("in turn", 0, "each deployment in turn got the cheapest place that was free; no plan costs less"),
        ("search", None, "found by comparing plans of all deployments together"),
        (
            "programme",
            12,
            "found by an integer programme over all deployments together; a better plan could save 1.2 % at most",
        ),
        ("another", 0, "found by another; no plan costs less"),
    ],
)
def test_it_is_said_in_words(solver: str | None, gap: int | None, words: str) -> None:
    assert found_words(solver, gap) == words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {},
            (
                "1,012 ms a token (900 to 1,200), first token after 2,500 ms (2,000 to 3,100); not "
                "validated by measurements on GPUs of this class"
            ),
        ),
        (
            {"validated": True, "counted_percent": 125, "ttft_low_milliseconds": None},
            (
                "1,012 ms a token (900 to 1,200), first token after 2,500 ms, counted at 125 % of the "
                "estimate, as engines measured about that; validated by measurements on GPUs of this class"
            ),
        ),
        (
            {"ttft_high_milliseconds": None},
            (
                "1,012 ms a token (900 to 1,200), first token after 2,500 ms; not validated by "
                "measurements on GPUs of this class"
            ),
        ),
    ],
    ids=["estimated", "measured", "half a band"],
)
def test_times_are_said_with_their_bands_and_their_trust(changes: dict[str, object], words: str) -> None:
    figures: dict[str, object] = {
        "tpot_milliseconds": 1012,
        "tpot_low_milliseconds": 900,
        "tpot_high_milliseconds": 1200,
        "ttft_milliseconds": 2500,
        "ttft_low_milliseconds": 2000,
        "ttft_high_milliseconds": 3100,
        "counted_percent": None,
        "validated": False,
    }
    assert speed_words(cast("PerformanceStatus", SimpleNamespace(**figures | changes))) == words


@pytest.mark.parametrize(
    ("loaded", "computed", "times"),
    [
        (
            4000,
            60_000,
            (
                ": a token that comes again is loaded in 4.0 us, and computed in 60.0 us: 15 are loaded in "
                "the time of computing one."
            ),
        ),
        (None, 60_000, "."),
        (4000, None, "."),
        (None, None, "."),
    ],
)
def test_a_cache_in_host_memory_is_said_with_its_times_if_both_are_known(
    loaded: int | None, computed: int | None, times: str
) -> None:
    found = SimpleNamespace(
        size_bytes=32 * GIB, tokens=262_144, is_least=None, loaded_nanoseconds=loaded, computed_nanoseconds=computed
    )
    words = "32.00 GiB of host memory keep 262,144 tokens of finished requests, 2.0 times what the GPUs hold"
    assert host_cache_words(cast("HostCacheStatus", found), 131_072) == words + times


def test_copies_of_layers_are_said_with_the_figures_of_the_status() -> None:
    found = SimpleNamespace(
        copy_nanoseconds=25_000_000, decode_nanoseconds=500_000, prompt_nanoseconds=10_000_000, size_bytes=GIB,
        hidden_from_tokens=5120, streamed=4, group=16, link_gigabytes_per_second=64, requests=8, prompt_tokens=2048,
    )  # fmt: skip
    words = host_layers_words(cast("HostLayersStatus", found))
    assert "a decoder layer of 1 GiB takes 25 ms. Its work takes 0.5 ms" in words
    assert "and 10 ms in one of 2,048 prompt tokens. 4 of 16 layers are copied" in words
    assert "steps of 5,120 prompt tokens or more hide every copy" in words
    in_place = SimpleNamespace(**vars(found) | {"streamed": None, "group": None})
    assert "Kernels read the weights" in host_layers_words(cast("HostLayersStatus", in_place))

"""The blocks for recurrent states at the edges of the error band."""

from __future__ import annotations

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.placement.options.feasibility import sized
from tests.support.planning import gpu, request


def test_the_edges_are_the_blocks_of_the_cache_at_the_edges_of_the_band() -> None:
    wanted = request("Qwen/Qwen3.5-27B", context=8192, concurrency=16)
    _, figures = sized(wanted, gpu("h100-sxm-80gb"), Split(1))
    assert figures.max_sequences is not None
    assert figures.max_sequences_high is not None
    low, high = (figures.available_kv_bytes + each for each in (-figures.margin_bytes, figures.slack_bytes))
    assert figures.max_sequences_high / figures.max_sequences == pytest.approx(high / low, rel=0.005)
    _, small = sized(wanted, gpu("l4-24gb"), Split(1))
    assert small.available_kv_bytes + small.slack_bytes < 0
    assert (small.max_sequences, small.max_sequences_high) == (0, 0)

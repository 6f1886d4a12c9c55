"""The benchmark of readings: its engines, and what it says of a goal that is missed."""

from __future__ import annotations

import pytest

from benchmarks.signals.__main__ import ROWS, Result
from benchmarks.signals.exporter import PODS_OF_PAGE, engines_of, names_of, pages_of
from plimsoll.adapters.prometheus.engine_series import read_names
from plimsoll.adapters.prometheus.pod_scrape import read_page
from plimsoll.engines.registry import engine_of
from testbed.engine_page import exposition

pytestmark = pytest.mark.bench

METRICS = engine_of().metrics


def test_each_pod_is_on_one_page_with_every_series_that_is_read() -> None:
    pages = pages_of(60, 4)
    assert [len(page) for page in pages] == [80] * 3
    assert max(map(len, pages)) <= PODS_OF_PAGE
    assert [model for _, model, _ in pages[0]][:3] == ["model-0000", "model-0000", "model-0001"]
    assert sorted(pod for page in pages for _, _, pod in page) == sorted(
        pod for some in names_of(60, 4).values() for pod in some
    )
    found = read_page(exposition(engines_of(pages[0][:1], 10.0)), 1.0, METRICS)
    other_names = METRICS.former_names.keys() | METRICS.added_names.keys()
    assert {each.name for each in found} == set(read_names(METRICS)) - other_names


def test_goals_that_are_missed_are_named_with_their_figures() -> None:
    good = Result(seconds=100, cpu_seconds=14, requests=999, turns=300, age=29)
    assert good.missed(ROWS[0]) == []
    assert good.words(ROWS[0])[:5] == [ROWS[0].name, "14.0%", "10.0", "3", "29 s"]
    bad = Result(seconds=100, cpu_seconds=16, requests=1100, turns=300, age=31)
    assert [words.partition(": ")[2] for words in bad.missed(ROWS[0])] == [
        "share of a core 0.16, at most 0.15",
        "requests a second 11.00, at most 10",
        "age in seconds 31.00, at most 30",
    ]

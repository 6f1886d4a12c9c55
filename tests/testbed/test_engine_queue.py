"""How a stream of requests passes through a played engine, and whether the live loop finds it again in its metrics."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from plimsoll.adapters.prometheus.engine_series import Series, pod_signals
from plimsoll.engines.vllm.metrics import METRICS
from plimsoll.rebalance.signals.load import summarize
from plimsoll.rebalance.signals.traffic import Traffic
from testbed.engine_counters import Counters
from testbed.engine_metrics import Demand, Engine, spread
from testbed.engine_page import exposition
from testbed.engine_queue import Queue, Stream

STREAM = Stream(rate=2.0, prompt=1500, output=101, first_token_seconds=0.5, token_seconds=0.02)
"""A request takes 2.5 s, so five are running."""


def after(seconds: float, *, slots: int = 16, stream: Stream = STREAM, step: float = 0.5) -> Queue:
    queue = Queue()
    for _ in range(round(seconds / step)):
        queue = queue.after(step, stream, slots)
    return queue


def test_requests_come_run_and_end() -> None:
    queue = after(10.2, step=0.1)

    assert (len(queue.waiting), len(queue.running)) == (0, 5)
    assert (queue.counted.first_tokens, queue.counted.finished) == (19, 15)
    assert queue.counted.prompt_tokens == 19 * STREAM.prompt
    assert queue.counted.latency_seconds == pytest.approx(15 * STREAM.seconds)


def test_what_finds_no_slot_waits_in_order_and_the_wait_is_counted() -> None:
    queue = after(10.0, slots=1)

    assert (len(queue.running), queue.counted.finished) == (1, 3)
    assert [round(came, 1) for came, _ in queue.waiting][:2] == [2.5, 3.0]
    assert len(queue.waiting) == 16
    # They came at 0.5, 1.0 and 1.5 s, and began at 0.5, 3.0 and 5.5 s.
    assert queue.counted.latency_seconds == pytest.approx(0 + 2.0 + 4.0 + 3 * STREAM.seconds)
    # The fourth one came at 2.0 s and got its first token at 8.5 s.
    assert queue.counted.first_token_seconds == pytest.approx(6.0 + 4 * 0.5 + 6.0)


@pytest.mark.parametrize("step", [0.1, 0.5, 2.0, 10.0])
def test_the_steps_of_the_clock_change_nothing(step: float) -> None:
    coarse, fine = after(20.0, slots=3, step=step), after(20.0, slots=3, step=0.05)

    assert coarse.counted.first_tokens == fine.counted.first_tokens
    assert coarse.counted.latency_seconds == pytest.approx(fine.counted.latency_seconds)
    assert len(coarse.waiting) == len(fine.waiting)


def test_a_higher_rate_is_there_at_once() -> None:
    slow = Stream(0.01, STREAM.prompt, STREAM.output, STREAM.first_token_seconds, STREAM.token_seconds)
    queue = after(5.0, stream=slow)

    assert len(queue.running) == 0
    assert len(queue.after(2.2, STREAM, 16).running) == 4


def test_clients_that_go_leave_their_counts() -> None:
    queue = after(10.0, slots=1)
    left = queue.given_up()

    assert (left.counted, left.waiting, left.running) == (queue.counted, (), ())
    assert queue.counted != Counters()


def traffic_of(demand: Demand, seconds: int, *, slots: int = 16) -> Traffic:
    """Scrape two engines every second, and read the pages as the operator does."""
    engines = [Engine("team", pod, "org/model", 100_000, slots=slots) for pod in ("a", "b")]
    points: dict[str, dict[tuple[str, ...], dict[float, float]]] = {"a": {}, "b": {}}
    for second in range(seconds):
        for family in text_string_to_metric_families(exposition(engines)):
            for sample in family.samples:
                labels = {**sample.labels, "__name__": sample.name}
                key = tuple(word for pair in sorted(labels.items()) for word in pair)
                points[sample.labels["pod"]].setdefault(key, {})[1000.0 + second] = sample.value
        engines = [engine.after(1.0) for engine in spread(engines, demand)]
    signals = [
        pod_signals(pod, [Series.of(_labels(key), values, METRICS) for key, values in series.items()], METRICS)
        for pod, series in points.items()
    ]
    ready = {"a": 1000.0, "b": 1000.0}
    now = 1000.0 + seconds - 1
    found = summarize(signals, list(ready), now, window_seconds=60, capacity_tokens=1, ready_since=ready).traffic
    assert found is not None
    return found


def _labels(key: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(key[::2], key[1::2], strict=True))


def test_the_live_loop_measures_the_stream_that_is_played() -> None:
    found = traffic_of(Demand(stream=STREAM), 90)

    assert found.arrivals.per_second == pytest.approx(STREAM.rate, rel=0.03)
    assert found.lengths is not None
    assert (found.lengths.prompt, found.lengths.output) == (STREAM.prompt, STREAM.output)
    assert found.ttft_seconds == pytest.approx(0.5)
    assert found.token_seconds == pytest.approx(0.02)
    assert (found.waiting, found.pods) == (0, 2)


def test_the_live_loop_measures_more_than_is_served() -> None:
    found = traffic_of(Demand(stream=STREAM), 90, slots=1)

    assert found.arrivals.per_second == pytest.approx(STREAM.rate, rel=0.05)
    assert found.served == pytest.approx(2 / STREAM.seconds, rel=0.1)
    assert found.waiting == pytest.approx((STREAM.rate - 2 / STREAM.seconds) * 89, rel=0.05)


def test_the_live_loop_knows_only_cache_and_queue_of_a_standing_crowd() -> None:
    found = traffic_of(Demand(kv_tokens=120_000, running=20, waiting=4), 90)

    assert found.lengths is None
    assert (found.served, found.preempted_share) == (0, None)
    assert found.used_tokens == pytest.approx(120_000)
    assert (found.running, found.waiting) == (20, 4)

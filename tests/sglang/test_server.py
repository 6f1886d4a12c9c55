"""Does a real SGLang server answer, report and end as the adapter says? Its model is tiny, and its memory a CPU's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from plimsoll.adapters.prometheus.pod_scrape import scraped
from plimsoll.api.conversion.convert import to_workload_options
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.engines.failures import StartFailure
from plimsoll.engines.base import Launch
from plimsoll.engines.sglang.engine import SGLANG
from plimsoll.engines.sglang.metrics import METRICS
from plimsoll.engines.sglang.starts.start_log import last_start, read_lines
from plimsoll.rebalance.signals.metrics import EngineSample
from testbed.engine.environment import ensure_engine
from testbed.engine.tiny_model import write_tiny_model
from testbed.ports import PortReservation
from testbed.sglang.environment import VERSION
from testbed.sglang.server import START_SECONDS, SglangServer
from testbed.waiting import wait_until
from tests.support.rendered import choice_of, tiny_twin

pytestmark = pytest.mark.engine

TOKENS: Final = 4096
PROMPT, ANSWER = 40, 24
PORTS: Final = PortReservation()
ATTEMPTS: Final = 3


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model"), engine_python=ensure_engine())


@pytest.fixture(scope="module")
def launch(model: Path) -> Launch:
    changes = {
        "contextLength": 1024,
        "concurrency": 4,
        "engine": {"name": SGLANG.name, "version": VERSION, "maxSequences": 4},
    }
    planned = tiny_twin("01-minimal", model, changes)
    return SGLANG.launch(to_workload_options(planned.resource), choice_of(planned))


def server(
    launch: Launch, model: Path, log: Path, tokens: int | None = TOKENS, more: Sequence[str] = ()
) -> SglangServer:
    port = PORTS.take()
    return SglangServer([*launch.arguments, *more], model=model, port=port, log=log, tokens=tokens)


@pytest.fixture(scope="module")
def running(launch: Launch, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SglangServer]:
    with server(launch, model, tmp_path_factory.mktemp("sglang") / "log") as found:
        found.wait_until_ready()
        yield found


def sample(running: SglangServer) -> EngineSample:
    (found,) = scraped("pod", f"{running.url}{METRICS.path}", METRICS, 30.0, buckets=True).samples
    return found


def test_the_rendered_probes_are_answered(running: SglangServer, launch: Launch) -> None:
    for probe in (launch.startup, launch.readiness, launch.liveness):
        assert running.status(probe.path) == 200


def test_its_log_is_read_and_its_form_is_that_of_its_release(running: SglangServer, model: Path) -> None:
    """The figures are those of a machine without a GPU, from which nothing is learned."""
    # It is ready a moment before it says so.
    wait_until(lambda: "ready to roll" in running.words(), START_SECONDS, "the last line of a start")
    lines = running.log.read_text(encoding="utf-8", errors="replace").splitlines()
    found = read_lines(last_start().of(lines))
    assert found is not None
    assert (found.model, found.served, found.failure) == (str(model), True, None)
    assert (found.options.max_model_len, found.options.max_num_seqs, found.figures.kv_tokens) == (1024, 4, TOKENS)
    assert found.since is not None
    assert found.since <= EngineVersion.of(VERSION)
    assert found.figures.weights_bytes is not None
    assert found.options.unfollowed == ()
    assert "on a processor without a GPU" in found.complaint


def test_every_series_that_is_read_is_there_with_no_labels_but_the_engine_s(running: SglangServer) -> None:
    running.generate(range(2, 2 + PROMPT), ANSWER)
    running.generate(range(2, 2 + PROMPT), ANSWER, stream=True)  # the prefix is in the cache
    pages = text_string_to_metric_families(running.page(METRICS.path))
    found: dict[str, set[str]] = {}
    for each in (each for family in pages for each in family.samples):
        found.setdefault(each.name, set()).update(each.labels)
    assert {*METRICS.names} - {*found} == {METRICS.preemptions}, "it appears with the first request that is thrown out"
    read = {label for name in METRICS.names for label in found.get(name, ())}
    assert read <= METRICS.labels
    assert METRICS.model_label in read


def test_what_is_read_is_what_was_asked_for_whether_it_streams_or_not(running: SglangServer) -> None:
    before = sample(running)
    for stream in (False, True, True):
        running.generate(range(100, 100 + PROMPT), ANSWER, stream=stream)
    after = sample(running)

    def more(name: str) -> Any:
        return getattr(after, name) - getattr(before, name)

    assert after.kv_capacity_tokens == TOKENS
    assert (after.running, after.waiting, after.kv_usage) == (0, 0, 0)
    assert (more("finished_total"), more("first_tokens_total")) == (3, 3)
    assert (more("finished_prompt_tokens_total"), more("finished_output_tokens_total")) == (3 * PROMPT, 3 * ANSWER)
    assert (more("prompt_tokens_total"), more("generation_tokens_total")) == (3 * PROMPT, 3 * ANSWER)
    assert more("prefix_queried_tokens_total") == 3 * PROMPT
    assert 2 * (PROMPT - 2) <= more("prefix_hit_tokens_total") <= 2 * PROMPT, "the second and the third are known"
    assert 0 < more("ttft_seconds_total") < 3 * 60
    assert after.first_token_buckets is not None
    assert after.token_gap_buckets is not None


def test_requests_in_the_batch_and_in_the_queue_are_counted_and_so_is_what_they_hold(running: SglangServer) -> None:
    """Six requests at a server that runs four at a time."""
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(running.generate, range(start, start + 100), 60) for start in range(0, 150, 25)]
        seen = []
        while not all(each.done() for each in asked):
            seen.append(sample(running))
    assert max(each.running or 0 for each in seen) == 4
    assert max(each.waiting or 0 for each in seen) == 2
    assert 4 * 100 / TOKENS < max(each.kv_usage or 0 for each in seen) <= 1


@pytest.mark.parametrize(
    ("more", "tokens", "reason"),
    [
        (("--nonsense", "1"), TOKENS, StartFailure.OPTIONS_REFUSED),
        (("--mem-fraction-static", "0.001"), None, StartFailure.NO_KV_CACHE),
    ],
)
def test_the_last_words_of_a_server_that_ends_name_the_cause(
    launch: Launch, model: Path, tmp_path: Path, more: tuple[str, ...], tokens: int | None, reason: StartFailure
) -> None:
    """The share is of the machine's memory: what other programs give back while weights are loaded is the server's."""
    for attempt in range(ATTEMPTS):
        with server(launch, model, tmp_path / f"log{attempt}", tokens, more) as found:
            if found.ends_instead_of_serving():
                break
    else:
        pytest.fail(f"with {' '.join(more)} it served {ATTEMPTS} times, so the memory grew meanwhile:\n{found.words()}")
    assert found.wait_for_end() != 0
    failure = SGLANG.find_failure(found.words())
    assert failure is not None, found.words()
    assert failure.reason is reason


def test_a_server_that_is_terminated_first_finishes_what_runs(launch: Launch, model: Path, tmp_path: Path) -> None:
    with server(launch, model, tmp_path / "log") as found, ThreadPoolExecutor(1) as pool:
        found.wait_until_ready()
        asked = pool.submit(found.generate, range(2, 2 + PROMPT), 400)
        while sample(found).running != 1:
            assert not asked.done(), "it ran before it was terminated"
        found.terminate()
        answer = asked.result()
        assert found.wait_for_end() == 0
    assert answer["meta_info"]["completion_tokens"] == 400

"""Does SIGTERM, with the rendered ``--shutdown-timeout``, let running requests finish?"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from plimsoll.engines.vllm.arguments import DRAIN_SECONDS
from plimsoll.engines.vllm.metrics import REQUESTS_RUNNING
from testbed.waiting import wait_until
from tests.engine.conftest import KV_BLOCKS, MakeServer
from tests.engine.exposition import value

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

OUTPUT_TOKENS = 400
STARTS_WITHIN_S = 60.0


def test_a_running_request_is_answered_in_full_before_the_engine_ends(
    make_server: MakeServer, rendered_arguments: list[str]
) -> None:
    with make_server(rendered_arguments, kv_blocks=KV_BLOCKS) as server, ThreadPoolExecutor(1) as client:
        answer = client.submit(server.complete, "The load line", OUTPUT_TOKENS)
        wait_until(lambda: value(server, REQUESTS_RUNNING) == 1, STARTS_WITHIN_S, "the request runs")
        server.terminate()
        assert not answer.done()
        assert answer.result()["usage"]["completion_tokens"] == OUTPUT_TOKENS
        server.wait_until_ended(DRAIN_SECONDS)
        assert "draining in-flight requests count=1" in server.log.read_text()

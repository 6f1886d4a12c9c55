"""Does SIGTERM, with the rendered ``--shutdown-timeout``, let running requests finish?"""

from __future__ import annotations

from plimsoll.engines.vllm.launch import DRAIN_SECONDS
from tests.engine.serving import LONG_ANSWER_TOKENS, Served


def test_a_running_request_is_answered_in_full_before_the_engine_ends(served: Served) -> None:
    assert served.drained.was_running
    assert served.drained.tokens == LONG_ANSWER_TOKENS
    assert served.drained.seconds <= DRAIN_SECONDS
    assert any("draining in-flight requests count=1" in line for line in served.log)

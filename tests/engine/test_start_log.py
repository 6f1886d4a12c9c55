"""The log of a real engine is read: its release, its options and its cache. It runs on a processor, and says so."""

from __future__ import annotations

import pytest

from plimsoll.engines.vllm.start_log import read_start_log
from testbed.engine.cpu_command import CPU_BLOCK_TOKENS
from testbed.engine.server import EngineServer
from tests.engine.conftest import KV_BLOCKS

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]


def test_the_log_of_a_real_start_is_read(engine_server: EngineServer, rendered_arguments: list[str]) -> None:
    lines = engine_server.log.read_text(encoding="utf-8").splitlines()
    found = read_start_log(lines)
    assert found is not None
    server = read_start_log([line for line in lines if "LLM engine (v" not in line])
    assert server is not None
    assert server.version == found.version, "the server's own first lines name it, too"
    assert found.build.startswith(str(found.version))
    assert str(found.version)[:4] in ("0.32", "0.33")
    assert found.served
    assert found.failure is None
    assert "without a GPU" in found.complaint
    context, sequences = (
        int(rendered_arguments[rendered_arguments.index(flag) + 1]) for flag in ("--max-model-len", "--max-num-seqs")
    )
    assert (found.options.max_model_len, found.options.max_num_seqs) == (context, sequences)
    assert found.options.enforce_eager, "the CPU build runs without graphs"
    assert found.figures.kv_tokens is not None
    assert found.figures.kv_tokens <= KV_BLOCKS * CPU_BLOCK_TOKENS
    assert found.figures.concurrency == pytest.approx(found.figures.kv_tokens / context, abs=0.01)

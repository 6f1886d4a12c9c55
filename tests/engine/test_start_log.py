"""The log of a real engine is read: its release, its options and its cache. It runs on a processor, and says so."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.engines.vllm.starts.start_log import read_start_log
from testbed.engine.cpu_command import CPU_BLOCK_TOKENS
from tests.engine.serving import KV_BLOCKS, Served


def test_the_log_of_a_real_start_is_read(served: Served, container: dict[str, Any]) -> None:
    found = read_start_log(served.log)
    assert found is not None
    server = read_start_log([line for line in served.log if "LLM engine (v" not in line])
    assert server is not None
    assert server.version == found.version, "the server's own first lines name it, too"
    assert found.build.startswith(str(found.version))
    assert str(found.version)[:4] in ("0.32", "0.33")
    assert found.served
    assert found.failure is None
    assert "without a GPU" in found.complaint
    rendered = container["args"]
    context, sequences = (int(rendered[rendered.index(flag) + 1]) for flag in ("--max-model-len", "--max-num-seqs"))
    assert (found.options.max_model_len, found.options.max_num_seqs) == (context, sequences)
    assert found.options.enforce_eager, "the CPU build runs without graphs"
    assert found.figures.kv_tokens is not None
    assert found.figures.kv_tokens <= KV_BLOCKS * CPU_BLOCK_TOKENS
    assert found.figures.concurrency == pytest.approx(found.figures.kv_tokens / context, abs=0.01)

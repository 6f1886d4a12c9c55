"""Would a server start with these arguments, as far as it can say so without a GPU? Its own checks, in their order."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import Any

from testbed.engine.oracle.questions import Question


@cache
def server_parser() -> Any:
    """Return the parser of ``vllm serve``. To import all that it needs takes longer than a start's checks."""
    parser: Any = import_module("vllm.utils.argparse_utils").FlexibleArgumentParser(prog="vllm")
    import_module("vllm.entrypoints.cli.serve").ServeSubcommand().subparser_init(parser.add_subparsers())
    return parser


def start_row(question: Question) -> dict[str, Any]:
    """What the engine made of the arguments. It raises what the server would end with.

    ``largest_item`` are the tokens of the largest image, video or sound; None where the class has none, or says so only
    with the files of its processor at hand.
    """
    os.environ.pop("VLLM_ALLOW_LONG_MAX_MODEL_LEN", None)
    arguments: Any = import_module("vllm.engine.arg_utils").AsyncEngineArgs
    parsed = server_parser().parse_args(
        ["serve", question.folder, *(question.arguments or ()), "--skip-tokenizer-init"]
    )
    parsed.model = question.folder
    parsed.load_format = "dummy"
    usage: Any = import_module("vllm.usage.usage_lib").UsageContext.OPENAI_API_SERVER
    config = arguments.from_cli_args(parsed).create_engine_config(usage)
    scheduler = config.scheduler_config
    return {
        "architecture": config.model_config.architecture,
        "max_model_len": config.model_config.max_model_len,
        "max_num_seqs": scheduler.max_num_seqs,
        "max_num_batched_tokens": scheduler.max_num_batched_tokens,
        "dtype": str(config.model_config.dtype).removeprefix("torch."),
        "whole_items": scheduler.disable_chunked_mm_input,
        "largest_item": _largest_item(config),
    }


def _largest_item(config: Any) -> int | None:
    """Have the scheduler's budget for items computed, as it computes it before the weights are loaded."""
    if not config.model_config.is_multimodal_model:
        return None
    registry: Any = import_module("vllm.multimodal").MULTIMODAL_REGISTRY
    try:
        info = registry.get_processing_info(config.model_config)
        counts = {kind: 1 for kind, limit in info.allowed_mm_limits.items() if limit > 0}
        tokens = info.get_mm_max_tokens_per_item(seq_len=config.model_config.max_model_len, mm_counts=counts)
    except Exception:  # noqa: BLE001 -- the files of a processor are not there, and each class misses them its own way
        return None
    if tokens is None:
        return None
    budget: Any = import_module("vllm.v1.core.encoder_cache_manager").compute_mm_encoder_budget
    budget(config.scheduler_config, {kind: tokens[kind] for kind in counts if kind in tokens})
    return max(tokens.values(), default=0)

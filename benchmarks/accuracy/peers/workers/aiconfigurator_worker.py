"""Runs AIConfigurator's own KV cache estimate, in its own environment. One JSON object a line, in and out."""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

memory: Any = importlib.import_module("aiconfigurator_core.sdk.memory")
perf_database: Any = importlib.import_module("aiconfigurator_core.sdk.perf_database")

BACKEND = "vllm"

Way = tuple[dict[str, Any], dict[str, str], bool]
"""A configuration, the number formats told with it, and whether the package's fallback may answer."""


def answer(question: dict[str, Any], root: Path) -> dict[str, Any]:
    """The estimate by its full model, told the number formats where it cannot read them; else by its fallback."""
    published = question["config"]
    plain = {key: value for key, value in published.items() if key != "quantization_config"}
    as_read: Way = (published, {}, False)
    as_told: Way = (plain, question["formats"], False)
    ways = [as_told, as_read] if question["is_online"] else [as_read, as_told]
    found: dict[str, Any] = {}
    for config, formats, may_fall_back in (*ways, (published, {}, True)):
        if (config, formats) == (plain, {}) and plain != published:
            continue  # nobody told it the formats, so a plain configuration would be another model
        found = attempt(question, saved(config, root), formats, may_fall_back=may_fall_back)
        if "error" not in found or found["error"].startswith("no KV budget"):
            break
    return found


def saved(config: dict[str, Any], root: Path) -> Path:
    """A folder of its own, for the package remembers models by their path."""
    folder = Path(tempfile.mkdtemp(dir=root))
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def attempt(question: dict[str, Any], folder: Path, formats: dict[str, str], *, may_fall_back: bool) -> dict[str, Any]:
    """One estimate, or its error."""
    system = question["system"]
    try:
        estimate = memory.estimate_kv_cache(
            str(folder),
            system,
            BACKEND,
            perf_database.get_latest_database_version(system, BACKEND),
            max_num_tokens=question["max_num_batched_tokens"],
            max_batch_size=question["max_num_seqs"],
            memory_fraction_kind="of_total",
            memory_fraction_value=question["utilization"],
            tp_size=question["tensor_parallel"],
            pp_size=question["pipeline_parallel"],
            attention_dp_size=question["data_parallel"],
            moe_tp_size=question["moe_tp"],
            moe_ep_size=question["moe_ep"],
            kvcache_quant_mode=question["kv_quant"],
            gpu_memory_capacity_bytes_override=question["total_bytes"],
            allow_naive_fallback=may_fall_back,
            **formats,
        )
    except Exception as error:  # noqa: BLE001 - whatever it cannot do is its answer
        return {"error": str(error)[:200]}
    return {
        "kv_bytes": estimate["total_kv_size_bytes"],
        "tokens": estimate["total_kv_size_tokens"],
        "source": estimate["source"],
        "weights_bytes": (estimate["memory_breakdown"] or {}).get("weights_bytes"),
    }


def main() -> None:
    """Answer every line; what the package prints goes to stderr."""
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as root:
        for line in sys.stdin:
            with contextlib.redirect_stdout(sys.stderr):
                found = answer(json.loads(line), Path(root))
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

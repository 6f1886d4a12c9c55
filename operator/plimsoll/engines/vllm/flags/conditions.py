"""Options that vLLM takes only under conditions of which nothing here checks all: another option, a split, a range.

An option is here if a server of 0.32 ends, before it takes any memory, with one of the values that its parser takes and
nothing else on its command line. Every option was asked about, and so were values of each form that starts
(``tests/engine/test_single_options.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from plimsoll.engines.vllm.flags.extra_arguments import lacking
from plimsoll.engines.vllm.flags.parser import Reading
from plimsoll.engines.vllm.flags.table import FlagTable


class Condition(NamedTuple):
    """When an option starts for sure: with a value that has this form, or together with another option."""

    values: re.Pattern[str] | None = None
    with_option: str | None = None

    def is_met(self, value: str, reading: Reading) -> bool:
        """Whether nothing else decides."""
        if self.with_option is not None and reading.on(self.with_option) is not None:
            return True
        return self.values is not None and self.values.fullmatch(value.strip()) is not None


def _with(values: str) -> Condition:
    return Condition(re.compile(values, re.DOTALL))


_WHOLE, _COUNT, _EMPTY, _OBJECT = _with(r"\d+"), _with(r"0*[1-9]\d*"), _with(r"\{\s*\}"), _with(r"\{.*\}|[\w=,]+")
"""Numbers from 0 and from 1, no keys of a configuration, and any keys."""

CONDITIONS: Final[Mapping[str, Condition]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *("--data-parallel-external-lb", "--data-parallel-hybrid-lb", "--data-parallel-rank", "--device-ids"),
                *("--enable-batch-sharded-sampling", "--enable-fault-tolerance", "--max-num-active-seqs"),
                *("--enable-mamba-cache-stochastic-rounding", "--mamba-ssu-algorithm", "--mm-encoder-attn-backend"),
                *("--mm-encoder-fp8-scale-path", "--mm-encoder-fp8-scale-save-path", "--numa-bind-cpus"),
                "--mm-shm-cache-max-object-size-mb",
                *("--ray-workers-use-nsight", "--quantization-config", "--return-sampling-mask", "--watermark-config"),
            ),
            Condition(),
        ),
        **dict.fromkeys(
            (
                *("--dbo-decode-token-threshold", "--dbo-prefill-token-threshold", "--max-num-queued-reqs"),
                *("--long-prefill-token-threshold", "--offload-group-size", "--offload-prefetch-step"),
                *("--prefix-cache-retention-interval", "--shutdown-timeout"),
            ),
            _WHOLE,
        ),
        **dict.fromkeys(
            (
                *("--dp-sync-interval", "--elastic-ep-max-dp-size", "--max-num-scheduled-tokens"),
                *("--max-parallel-loading-workers", "--offload-num-in-group", "--prefill-schedule-interval"),
                *("--prefix-match-unit", "--safetensors-prefetch-num-threads", "--stream-interval"),
            ),
            _COUNT,
        ),
        **dict.fromkeys(
            (
                *("--aux-output-config", "--custom-histogram-buckets", "--default-mm-loras", "--diffusion-config"),
                *("--ec-manager-config", "--fault-tolerance-config", "--ir-op-priority", "--kv-events-config"),
                *("--logging-config", "--media-io-kwargs", "--profiler-config", "--reasoning-config"),
                "--weight-transfer-config",
            ),
            _EMPTY,
        ),
        **dict.fromkeys(("--limit-mm-per-prompt", "--override-generation-config"), _OBJECT),
        "--all2all-backend": _with("allgather_reducescatter|naive"),
        "--collect-detailed-traces": Condition(with_option="--otlp-traces-endpoint"),
        "--config-format": _with("auto|hf|mistral"),
        "--data-parallel-backend": _with("mp"),
        "--data-parallel-rpc-port": _with(r"[1-9]\d{0,3}|[1-5]\d{4}"),
        "--data-parallel-size-local": _with("[01]"),
        "--distributed-executor-backend": _with("mp|uni"),
        "--kda-prefill-backend": _with("auto|triton|flashkda|flashinfer"),
        "--kv-cache-metrics-sample": _with(r"0?\.\d*[1-9]\d*|1(\.0*)?"),
        "--mamba-backend": _with("(?i:triton|flashinfer)"),
        "--mm-encoder-fp8-scale-save-margin": _with(r"0*[1-9].*|0?\.\d*[1-9].*"),
        "--mm-processor-cache-gb": _with(r"\d+(\.\d*)?|\.\d+"),
        "--mm-tensor-ipc": _with("direct_rpc"),
        "--numa-bind-nodes": Condition(with_option="--numa-bind"),
        "--offload-backend": Condition(re.compile("auto|uva"), "--offload-group-size"),
        "--per-request-spec-decode-metrics": Condition(re.compile("none"), "--speculative-config"),
        "--safetensors-prefetch-block-size": _with(r"0*[1-9].*"),
        "--show-hidden-metrics-for-version": _with(r"\d+\.\d+(\.\d+)?"),
        "--speculative-config": _with(r"\{.*\w.*\}"),
        "--structured-outputs-config": _with(r"\{(\s*.backend.\s*:\s*.(auto|xgrammar|guidance|outlines).\s*)?\}"),
        "--watermark": _with(r"0?\.\d+|0"),
    }
)
"""The options, each with what it starts with for sure."""

OF_WHOLE_NUMBERS: Final = frozenset(name for name, each in CONDITIONS.items() if each in (_WHOLE, _COUNT)) - {
    "--long-prefill-token-threshold"  # the context bounds it
}
"""The options whose value may be any whole number from 0 or 1 on."""


def unchecked_options(reading: Reading, table: FlagTable) -> Iterator[str]:
    """Yield the options that may end a start, each with its value. A switch that is off cannot."""
    for name, setting in reading.settings.items():
        condition = CONDITIONS.get(name)
        if condition is not None and setting.is_on and not condition.is_met(setting.value, reading):
            yield f"{name} {setting.value}".strip()
    for problem in lacking(reading, table):
        if problem.option is not None and problem.option.registered:
            name = problem.option.names[0]
            yield f"{name} {reading.settings[name].value}"

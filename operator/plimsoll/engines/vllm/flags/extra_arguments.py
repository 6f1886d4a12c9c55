"""Flags that users add: those that the operator sets itself, those that no memory law includes, and wrong ones.

Engine flags that can change the engine's memory, but that no memory law includes. The operator passes those of a user
to the engine and says that they make its answer doubtful. It keeps what it learns from engines with these flags
separate from what it learns from others. Names from vLLM's ``engine/arg_utils.py``, 0.32.

Engine flags that the operator sets. They are refused in ``spec.engine.extraArgs``, in every spelling.
vLLM's argument parser accepts ``_`` for ``-``, ``--flag=value``, and any unambiguous abbreviation of a long flag. A
value may also follow a one-letter flag directly (``-n2``). So each row has a pattern for the flag's name without its
leading dashes: the shortest abbreviation that can only mean this flag, and any text after it. The check in Python and
the CRD's CEL rule (RE2) use the same table, so both refuse the same flags. The rule writes every dash as ``[-_]``, so a
pattern must not contain a range like ``[a-z]``. A test asks vLLM's parser for every spelling and abbreviation that it
accepts.

The user's flags against vLLM's own parser: a start that must fail is refused before there is a pod.
What is refused here, that parser refuses (:mod:`~plimsoll.engines.vllm.flags.parser`), or the server when it starts.
Only the flags of recorded releases are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.engines.flags import Misuse, OwnedFlag
from plimsoll.engines.vllm.flags.parser import Fault, Problem, Reading, read_words, registered_lack
from plimsoll.engines.vllm.flags.table import FlagTable, table_for

_FLAGS = (
    "--additional-config",
    "--attention-backend",
    "--attention-config",
    "--compilation-config",
    "--convert",
    "--cudagraph-capture-sizes",
    "--disable-chunked-mm-input",
    "--disable-hybrid-kv-cache-manager",
    "--disable-sliding-window",
    "--ec-transfer-config",
    "--enable-cumem-allocator",
    "--enable-dbo",
    "--enable-eplb",
    "--enable-hc-sp",
    "--enable-mamba-shared-prefix-checkpoint",
    "--enable-mixed-moe-lora-format",
    "--enable-moe-shared-loras",
    "--enable-prompt-embeds",
    "--enable-return-routed-experts",
    "--enable-sleep-mode",
    "--enable-tower-connector-lora",
    "--engram-config",
    "--eplb-config",
    "--fully-sharded-loras",
    "--hf-config-path",
    "--hf-overrides",
    "--kernel-config",
    "--kv-cache-dtype-skip-layers",
    "--kv-offloading-backend",
    "--kv-offloading-size",
    "--kv-sharing-fast-prefill",
    "--kv-transfer-config",
    "--linear-backend",
    "--load-format",
    "--logits-processors",
    "--lora-dtype",
    "--lora-target-modules",
    "--mamba-block-size",
    "--mamba-cache-dtype",
    "--mamba-cache-mode",
    "--mamba-ssm-cache-dtype",
    "--max-cudagraph-capture-size",
    "--mm-encoder-attn-dtype",
    "--mm-encoder-only",
    "--mm-ipc-gpu-memory-gb",
    "--mm-processor-device",
    "--mm-processor-kwargs",
    "--model-class-overrides",
    "--model-impl",
    "--moe-backend",
    "--optimization-level",
    "--performance-mode",
    "--pooler-config",
    "--replayssm-buffer-len",
    "--scheduler-cls",
    "--ubatch-size",
    "--use-replayssm",
    "--video-pruning-rate",
    "--worker-cls",
    "--worker-extension-cls",
)

_OWNED = (
    "--config",
    "--enable-elastic-ep",
    "--prefill-context-parallel-size",
    "--skip-mm-profiling",
)
"""Flags of the same kind that the operator refuses to users of its own (``extra_arguments.py``): others may pass
them."""

_OLDER = (
    "--cuda-graph-sizes",
    "--device",
    "--enable-lora-bias",
    "--enable-multimodal-encoder-data-parallel",
    "--enable-prompt-adapter",
    "--lora-extra-vocab-size",
    "--max-prompt-adapters",
    "--num-redundant-experts",
    "--override-attention-dtype",
    "--override-pooler-config",
    "--qlora-adapter-name-or-path",
    "--rope-scaling",
    "--speculative-draft-tensor-parallel-size",
    "--speculative-model-quantization",
)
"""Flags of the same kind that releases before 0.32 have (``releases/older_options.py``)."""

_HARMLESS_VALUES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "--attention-backend": ("auto", "AUTO"),
        "--device": ("auto", "cuda"),
        "--convert": ("auto", "none"),
        "--linear-backend": ("auto",),
        "--load-format": ("auto", "hf", "safetensors", "mistral", "pt"),
        "--lora-dtype": ("auto",),
        "--mamba-cache-dtype": ("auto",),
        "--mamba-ssm-cache-dtype": ("auto",),
        "--model-impl": ("auto",),
        "--moe-backend": ("auto",),
        "--performance-mode": ("balanced",),
        "--prefill-context-parallel-size": ("1",),
    }
)
"""Values that leave the engine's own choice, or that only say in which files the same weights are."""

_HARMLESS_WHERE_OFF = "False"


def is_unfollowed_flag(flag: str, value: str) -> bool:
    """Whether a flag with its full name can change the memory with this value, and no memory law includes it."""
    if flag not in (*_FLAGS, *_OWNED, *_OLDER):
        return False
    return value != _HARMLESS_WHERE_OFF and value not in _HARMLESS_VALUES.get(flag, ())


OWNED_FLAGS: tuple[OwnedFlag, ...] = (
    OwnedFlag("--model", "model", "spec.model.name"),
    OwnedFlag("--served-model-name", "ser.*", "metadata.name: clients use the InferenceDeployment's name"),
    OwnedFlag("--revision", "rev.*", "spec.model.revision"),
    OwnedFlag("--hf-token", "hf-t.*", "spec.model.tokenSecretRef"),
    OwnedFlag("--max-model-len", "max-m.*", "spec.contextLength"),
    OwnedFlag("--max-num-seqs", "max-num-s(e.*)?", "spec.engine.maxSequences"),
    OwnedFlag("--max-num-batched-tokens", "max-num-b.*", "spec.engine.maxBatchedTokens"),
    OwnedFlag("--gpu-memory-utilization", "gp.*", "spec.engine.gpuMemoryUtilizationPercent"),
    OwnedFlag("--device-memory-utilization", "device-m.*", "spec.engine.gpuMemoryUtilizationPercent"),
    OwnedFlag("--kv-cache-memory-bytes", "kv-cache-mem.*", "spec.engine.gpuMemoryUtilizationPercent"),
    OwnedFlag("--kv-cache-dtype", "kv-cache-dt?y?p?e?", "spec.kvCache.precision"),
    OwnedFlag("--num-gpu-blocks-override", "num-(g.*)?", "spec.concurrency and spec.contextLength"),
    OwnedFlag("--tensor-parallel-size", "te.*|tp?", "spec.overrides.tensorParallel"),
    OwnedFlag("--pipeline-parallel-size", "pi.*|pp", "spec.overrides.tensorParallel"),
    OwnedFlag("--data-parallel-size", r"data-p.*|dp\w?", "spec.replicas (the planner sets it where it helps)"),
    OwnedFlag("--decode-context-parallel-size", "dec.*|dcp", "spec.overrides.tensorParallel"),
    OwnedFlag("--prefill-context-parallel-size", "prefill-c.*|pcp?", "spec.overrides.tensorParallel"),
    OwnedFlag("--enable-expert-parallel", "(no-)?enable-ex.*|disable-ex.*|ep?", "spec.overrides.tensorParallel"),
    OwnedFlag("--nnodes", r"nn.*|n([\W\d].*)?", "spec.overrides.tensorParallel: a replica lives on one node"),
    OwnedFlag("--runner", "ru.*", "spec.engine.runner"),
    OwnedFlag("--dtype", "dt.*", "spec.precision"),
    OwnedFlag("--quantization", "q(u[antizo]*(-(c.*)?)?|[^u].*)?", "spec.precision"),
    OwnedFlag("--enforce-eager", "(no-)?enf.*", "spec.engine.enforceEager"),
    OwnedFlag("--cpu-offload-gb", "cpu-o.*", "spec.engine.cpuOffload"),
    OwnedFlag("--offload-group-size", "of.*", "spec.engine.weightStreaming"),
    OwnedFlag("--enable-lora", "(no-)?enable-lor.*|disable-lor.*", "spec.engine.lora"),
    OwnedFlag("--max-loras", "max-loras", "spec.engine.lora.maxAdapters"),
    OwnedFlag("--max-lora-rank", "max-lora-r.*", "spec.engine.lora.maxRank"),
    OwnedFlag("--language-model-only", "(no-)?la.*", "spec.engine.textOnly"),
    OwnedFlag("--limit-mm-per-prompt", "lim.*", "spec.engine.multimodal.imagesPerPrompt and videosPerPrompt"),
    OwnedFlag("--mm-encoder-tp-mode", "mm-encoder-t.*", "spec.engine.multimodal.encoderParallelism"),
    OwnedFlag("--skip-mm-profiling", "(no-)?skip-m.*", "nothing: what an image takes must be set aside"),
    OwnedFlag("--speculative-config", r"specu.*|s(c(\..*)?)?", "spec.engine.speculation"),
    OwnedFlag("--spec-method", "spec-me.*", "spec.engine.speculation.method"),
    OwnedFlag("--spec-model", "spec-mo.*", "spec.engine.speculation.draftModel"),
    OwnedFlag("--spec-tokens", "spec-t.*", "spec.engine.speculation.tokens"),
    OwnedFlag("--host", "hos?t?", "the Service: probes and metrics need the address"),
    OwnedFlag("--port", "por?t?", "the Service: probes and metrics need the port"),
    OwnedFlag("--uds", "uds?", "the Service: probes and metrics need TCP"),
    OwnedFlag("--ssl-keyfile", "ssl.*", "a gateway or mesh: the probes speak plain HTTP"),
    OwnedFlag("--headless", "hea.*", "nothing: a replica lives on one node and answers its probes"),
    OwnedFlag("--grpc", "grpc.*", "the Service: probes and metrics need HTTP"),
    OwnedFlag("--node-rank", r"nod.*|r([\W\d].*)?", "nothing: a replica lives on one node"),
    OwnedFlag("--api-key", "api-k.*", "an authenticating gateway"),
    OwnedFlag("--shutdown-timeout", "shu.*", "nothing: it belongs to the pod's grace period"),
    OwnedFlag("--config", "config", "the fields of this spec: a file would hide flags from the memory law"),
    OwnedFlag("--disable-log-stats", "disable-l(o(g(-(s.*)?)?)?)?", "nothing: rebalancing reads the engine's metrics"),
)
"""Every flag that the memory law or the pod depends on. Spellings from vLLM's ``engine/arg_utils.py``, 0.32."""


_TOOLS, _TOOL_PARSER, _TOOL_PLUGIN = "--enable-auto-tool-choice", "--tool-call-parser", "--tool-parser-plugin"
_REASONING, _REASONING_PLUGIN = "--reasoning-parser", "--reasoning-parser-plugin"

_NEEDS = {_TOOLS: _TOOL_PARSER, "--enable-log-outputs": "--enable-log-requests"}
"""Switches, and the option without which the server does not start. Source: ``validate_parsed_serve_args`` in
``entrypoints/launchers/cli_args.py``, 0.32."""


def misused_argument(arguments: Sequence[str], release: EngineVersion) -> Misuse | None:
    """Return the first argument that ends the start of a server; None without any.

    Args:
        arguments: what the user adds to the command line.
        release: the engine's release. Where its flags are not recorded, those of the nearest recorded one count (an
            earlier one where there is any), and the answer names that release.
    """
    table = table_for(release)
    problem = None if "--" in arguments else next(_problems(read_words(arguments, table), table), None)
    if problem is None:
        return None
    return Misuse(problem.position, arguments[problem.position], problem.fix, table.release)


def _problems(reading: Reading, table: FlagTable) -> Iterator[Problem]:
    """Yield what is wrong: first single words in their order, then what they lack together."""
    yield from reading.problems
    yield from lacking(reading, table)


def lacking(reading: Reading, table: FlagTable) -> Iterator[Problem]:
    """Yield the options that a server does not start without, and the parsers that it does not know."""
    for switch, needed in _NEEDS.items():
        found = reading.on(switch)
        if found is not None and reading.on(needed) is None:
            fix = f"{switch} needs {needed}: add it, or remove {switch}."
            yield Problem(found.position, fix, Fault.VALUE, found.option)
    if reading.on(_TOOLS) is not None:
        yield from _unregistered(reading, table, _TOOL_PARSER, _TOOL_PLUGIN)
    yield from _unregistered(reading, table, _REASONING, _REASONING_PLUGIN)


def _unregistered(reading: Reading, table: FlagTable, name: str, plugin: str) -> Iterator[Problem]:
    """Check a parser's name with those that come with the release, unless a plugin brings others."""
    found = reading.on(name)
    if found is None or reading.on(plugin) is not None:
        return
    lack = registered_lack(table.options[name], name, found.value)
    if lack is not None:
        yield Problem(found.position, lack, Fault.VALUE, found.option)

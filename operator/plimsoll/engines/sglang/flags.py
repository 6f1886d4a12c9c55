"""Engine flags that the operator sets. They are refused in ``spec.engine.extraArgs``, in every spelling.

SGLang's parser is Python's ``argparse``: it takes ``--flag=value``, ``--flag value`` and every abbreviation that only
one option begins with, and no ``_`` for ``-``. Each pattern is the shortest such abbreviation of every name of an
option, and any text after it. Tests compare them with the options that the parser of 0.5.23 itself lists.
``--cuda-graph-max-bs`` is the name up to 0.5.19.
"""

from __future__ import annotations

from plimsoll.engines.flags import OwnedFlag

OWNED_FLAGS: tuple[OwnedFlag, ...] = (
    OwnedFlag("--model-path", "model|model-p.*", "spec.model.name"),
    OwnedFlag("--served-model-name", "se.*", "metadata.name: clients use the InferenceDeployment's name"),
    OwnedFlag("--revision", "rev.*", "spec.model.revision"),
    OwnedFlag("--context-length", "context-l.*", "spec.contextLength"),
    OwnedFlag("--max-running-requests", "max-r.*", "spec.engine.maxSequences"),
    OwnedFlag("--chunked-prefill-size", "chu.*", "spec.engine.maxBatchedTokens"),
    OwnedFlag("--max-prefill-tokens", "max-p.*", "spec.engine.maxBatchedTokens"),
    OwnedFlag("--mem-fraction-static", "mem.*", "spec.engine.gpuMemoryUtilizationPercent"),
    OwnedFlag("--max-total-tokens", "max-t.*", "spec.concurrency and spec.contextLength"),
    OwnedFlag("--page-size", "page-.*", "nothing: the memory law counts single tokens"),
    OwnedFlag("--swa-full-tokens-ratio", "swa-f.*", "spec.concurrency and spec.contextLength"),
    OwnedFlag("--disable-hybrid-swa-memory", "disable-h.*", "nothing: the memory law counts the pool for windows"),
    OwnedFlag("--max-mamba-cache-size", "max-m.*", "spec.engine.maxSequences"),
    OwnedFlag("--mamba-full-memory-ratio", "mamba-f.*", "spec.engine.maxSequences"),
    OwnedFlag("--mamba-ssm-dtype", "mamba-s.*", "nothing: the memory law counts states of 32 bits"),
    OwnedFlag("--kv-cache-dtype", "kv-cac.*", "spec.kvCache.precision"),
    OwnedFlag("--dtype", "dt.*", "spec.precision"),
    OwnedFlag("--quantization", "quantization", "spec.precision"),
    OwnedFlag("--tp-size", "tp.*|te.*", "spec.overrides.tensorParallel"),
    OwnedFlag("--pp-size", "pi.*|pp-s.*", "spec.overrides.tensorParallel"),
    OwnedFlag("--dp-size", "dp.*|da.*", "spec.replicas"),
    OwnedFlag("--attn-dp-size", "attn-d.*|attention-d.*|enable-dp-attention", "spec.replicas"),
    OwnedFlag("--attn-cp-size", "attn-c.*|attention-c.*", "spec.overrides.tensorParallel"),
    OwnedFlag("--dcp-size", "dcp-s.*|decode-c.*", "spec.overrides.tensorParallel"),
    OwnedFlag("--ep-size", "ep|ep-s.*|expert-p.*", "spec.overrides.tensorParallel"),
    OwnedFlag("--moe-dp-size", "moe-d.*", "spec.overrides.tensorParallel"),
    OwnedFlag("--nnodes", "nn.*", "spec.overrides.tensorParallel: a replica lives on one node"),
    OwnedFlag("--node-rank", "nod.*", "nothing: a replica lives on one node"),
    OwnedFlag("--dist-init-addr", "dist-i.*|nccl-i.*", "nothing: a replica lives on one node"),
    OwnedFlag(
        "--cuda-graph-backend-decode",
        "disable-d.*|disable-pre.*|cuda-graph-c.*|cuda-graph-ba.*|disable-cuda-graph",
        "spec.engine.enforceEager",
    ),
    OwnedFlag("--cuda-graph-max-bs-decode", "cuda-graph-bs-d.*|cuda-graph-max-bs(-d.*)?", "spec.engine.maxSequences"),
    OwnedFlag("--cpu-offload-gb", "cpu.*", "nothing: no memory law covers it"),
    OwnedFlag("--offload-group-size", "of.*", "nothing: no memory law covers it"),
    OwnedFlag(
        "--enable-lora",
        "lora-p.*|max-loa.*|max-loras.*|enable-lora|max-lora-r.*",
        "nothing: no memory law covers its pool",
    ),
    OwnedFlag(
        "--speculative-algorithm",
        "speculative-al.*|speculative-draft-model|speculative-draft-model-p.*|speculative-draft-model-r.*",
        "spec.engine.speculation",
    ),
    OwnedFlag(
        "--speculative-num-draft-tokens",
        "speculative-nu.*|speculative-ea.*",
        "spec.engine.speculation.tokens",
    ),
    OwnedFlag("--language-model-only", "language-m.*", "nothing: no memory law covers it"),
    OwnedFlag("--limit-mm-data-per-request", "lim.*", "nothing: no memory law covers it"),
    OwnedFlag("--enable-unified-memory", "enable-unified-m.*", "nothing: no memory law covers it"),
    OwnedFlag("--host", "ho.*", "the Service: probes and metrics need the address"),
    OwnedFlag("--port", "po.*", "the Service: probes and metrics need the port"),
    OwnedFlag("--ssl-keyfile", "ss.*", "a gateway or mesh: the probes speak plain HTTP"),
    OwnedFlag("--api-key", "ap.*", "an authenticating gateway"),
    OwnedFlag("--device", "dev.*", "spec.gpus"),
    OwnedFlag("--enable-metrics", "enable-metrics", "nothing: rebalancing reads the engine's metrics"),
    OwnedFlag("--config", "conf.*", "the fields of this spec: a file would hide flags from the memory law"),
)
"""Every flag that the memory law or the pod depends on."""

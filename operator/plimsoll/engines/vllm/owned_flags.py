"""Engine flags that the operator sets. They are refused in ``spec.engine.extraArgs``, in every spelling.

vLLM's argument parser accepts ``_`` for ``-``, ``--flag=value``, and any unambiguous abbreviation of a long flag. A
value may also follow a one-letter flag directly (``-n2``). So each row has a pattern for the flag's name without its
leading dashes: the shortest abbreviation that can only mean this flag, and any text after it. The check in Python and
the CRD's CEL rule (RE2) use the same table, so both refuse the same flags. The rule writes every dash as ``[-_]``, so a
pattern must not contain a range like ``[a-z]``. A test asks vLLM's parser for every spelling and abbreviation that it
accepts.
"""

from __future__ import annotations

from plimsoll.engines.flags import OwnedFlag

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

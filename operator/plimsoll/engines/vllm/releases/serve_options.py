"""The options of ``vllm serve`` of each recorded release. Made by scripts/serve_options.py.

Source: the release's own argument parser, as ``testbed/engine/parse_arguments.py`` describes it, and the names of its
parsers of tool calls and reasoning. A row has the names of an option, the kind of its values, and after ``=`` its
choices, or after ``~`` the names that the server knows when it starts. Only the first release has all its options: the
others have what differs from the release before, and ``!`` in front of an option that they do not have any more.
"""

from __future__ import annotations

SERVE_OPTIONS = {
    "0.32.0": """\
--additional-config text-or-json
--aggregate-engine-logging switch
--all2all-backend text = allgather_reducescatter deepep_high_throughput deepep_low_latency deepep_v2
    flashinfer_all2allv flashinfer_nvlink_one_sided flashinfer_nvlink_two_sided moonep mori_high_throughput
    mori_low_latency naive nixl_ep pplx
--allow-credentials --no-allow-credentials switch
--allow-deprecated-quantization --no-allow-deprecated-quantization switch
--allowed-headers json
--allowed-local-media-path text
--allowed-media-domains maybe-text+
--allowed-methods json
--allowed-origins json
--anthropic-disabled-thinking-effort text = auto high low max medium none xhigh
--api-key maybe-text+
--api-server-count -asc whole
--async-scheduling --no-async-scheduling switch
--attention-backend maybe-text
--attention-config -ac object
--aux-output-config object
--block-size whole
--chat-template maybe-text
--chat-template-content-format text = auto openai string
--code-revision maybe-text
--cohere-format text
--cohere-is-reasoning-model --no-cohere-is-reasoning-model switch
--collect-detailed-traces maybe-text+ = all model worker
--compilation-config -cc object
--config text
--config-format text
--convert text = auto classify embed none
--cp-kv-cache-interleave-size whole
--cpu-distributed-timeout-seconds maybe-whole
--cpu-offload-gb number
--cpu-offload-params text+
--cudagraph-capture-sizes whole+
--cudagraph-metrics --no-cudagraph-metrics switch
--custom-histogram-buckets maybe-json
--data-parallel-address -dpa text
--data-parallel-backend -dpb text
--data-parallel-external-lb --no-data-parallel-external-lb -dpe switch
--data-parallel-hybrid-lb --no-data-parallel-hybrid-lb -dph switch
--data-parallel-multi-port-external-lb -dpm switch
--data-parallel-rank -dpn whole
--data-parallel-rpc-port -dpp whole
--data-parallel-size -dp whole
--data-parallel-size-local -dpl whole
--data-parallel-start-rank -dpr whole
--data-parallel-supervisor-port whole
--dbo-decode-token-threshold whole
--dbo-prefill-token-threshold whole
--dcp-comm-backend maybe-text = a2a ag_rs
--dcp-kv-cache-interleave-size whole
--dcp-q-replicate --no-dcp-q-replicate switch
--decode-context-parallel-size -dcp whole
--default-chat-template-kwargs json
--default-mm-loras maybe-json
--device-ids text
--diffusion-config -dc maybe-json
--disable-access-log-for-endpoints maybe-text
--disable-cascade-attn --no-disable-cascade-attn switch
--disable-chunked-mm-input --no-disable-chunked-mm-input switch
--disable-custom-all-reduce --no-disable-custom-all-reduce switch
--disable-fastapi-docs --no-disable-fastapi-docs switch
--disable-hybrid-kv-cache-manager --no-disable-hybrid-kv-cache-manager switch
--disable-log-stats switch
--disable-nccl-for-dp-synchronization --no-disable-nccl-for-dp-synchronization switch
--disable-sliding-window --no-disable-sliding-window switch
--disable-uvicorn-access-log --no-disable-uvicorn-access-log switch
--distributed-executor-backend maybe-text
--distributed-timeout-seconds maybe-whole
--download-dir maybe-text
--dp-supervisor-probe-failure-threshold whole
--dp-supervisor-probe-interval-s number
--dp-supervisor-probe-timeout-s number
--dp-sync-interval whole
--dtype text = auto bfloat16 float float16 float32 half
--ec-manager-config object
--ec-transfer-config maybe-object
--elastic-ep-max-dp-size whole
--enable-auto-tool-choice --no-enable-auto-tool-choice switch
--enable-batch-sharded-sampling --no-enable-batch-sharded-sampling switch
--enable-chunked-prefill --no-enable-chunked-prefill switch
--enable-cumem-allocator --no-enable-cumem-allocator switch
--enable-dbo --no-enable-dbo switch
--enable-elastic-ep --no-enable-elastic-ep switch
--enable-ep-weight-filter --no-enable-ep-weight-filter switch
--enable-eplb --no-enable-eplb switch
--enable-expert-parallel --no-enable-expert-parallel -ep switch
--enable-fault-tolerance --no-enable-fault-tolerance switch
--enable-flash-late-interaction --no-enable-flash-late-interaction switch
--enable-flashinfer-autotune --no-enable-flashinfer-autotune switch
--enable-force-include-usage --no-enable-force-include-usage switch
--enable-hc-sp --no-enable-hc-sp switch
--enable-layerwise-nvtx-tracing --no-enable-layerwise-nvtx-tracing switch
--enable-log-deltas --no-enable-log-deltas switch
--enable-log-outputs --no-enable-log-outputs switch
--enable-log-requests --no-enable-log-requests switch
--enable-logging-iteration-details --no-enable-logging-iteration-details switch
--enable-lora --no-enable-lora switch
--enable-mamba-cache-stochastic-rounding --no-enable-mamba-cache-stochastic-rounding switch
--enable-mamba-shared-prefix-checkpoint --no-enable-mamba-shared-prefix-checkpoint switch
--enable-mfu-metrics --no-enable-mfu-metrics switch
--enable-mixed-moe-lora-format --no-enable-mixed-moe-lora-format switch
--enable-mm-embeds --no-enable-mm-embeds switch
--enable-moe-shared-loras --no-enable-moe-shared-loras switch
--enable-nccl-comm-suspend --no-enable-nccl-comm-suspend switch
--enable-offline-docs --no-enable-offline-docs switch
--enable-per-request-metrics --no-enable-per-request-metrics switch
--enable-prefix-caching --no-enable-prefix-caching switch
--enable-prompt-embeds --no-enable-prompt-embeds switch
--enable-prompt-tokens-details --no-enable-prompt-tokens-details switch
--enable-request-id-headers --no-enable-request-id-headers switch
--enable-return-routed-experts --no-enable-return-routed-experts switch
--enable-scale-out --no-enable-scale-out switch
--enable-server-load-tracking --no-enable-server-load-tracking switch
--enable-shm-tensor-arena --no-enable-shm-tensor-arena switch
--enable-sleep-mode --no-enable-sleep-mode switch
--enable-ssl-refresh --no-enable-ssl-refresh switch
--enable-tokenizer-info-endpoint --no-enable-tokenizer-info-endpoint switch
--enable-tower-connector-lora --no-enable-tower-connector-lora switch
--enable-trace-replay --no-enable-trace-replay switch
--enforce-eager --no-enforce-eager switch
--engram-config maybe-object
--eplb-config object
--exclude-tools-when-tool-choice-none --no-exclude-tools-when-tool-choice-none switch
--expert-placement-strategy text = linear round_robin
--fail-on-environ-validation --no-fail-on-environ-validation switch
--fault-tolerance-config object
--fingerprint-mode text = custom full hash none
--fingerprint-value maybe-text
--fully-sharded-loras --no-fully-sharded-loras switch
--gdn-prefill-backend text = flashinfer triton cutedsl aiter_flydsl
--generation-config text
--gpu-memory-utilization --device-memory-utilization number
--grpc switch
--grpc-port maybe-whole
--h11-max-header-count whole
--h11-max-incomplete-event-size whole
--headless switch
--hf-config-path maybe-text
--hf-overrides text-or-json
--hf-token text?
--host maybe-text
--ignore-patterns text+
--interleave-mm-strings --no-interleave-mm-strings switch
--io-processor-plugin maybe-text
--ir-op-priority object
--jit-monitor-mode text = error warn
--jit-monitor-verbose --no-jit-monitor-verbose switch
--kda-decode-backend text = auto native flashinfer triton
--kda-prefill-backend text = auto triton flashkda flashinfer fused
--kernel-config object
--kv-cache-dtype text = auto bfloat16 float16 fp8 fp8_ds_mla fp8_e4m3 fp8_e5m2 fp8_inc fp8_per_token_head
    int4_per_token_head int8_per_token_head nvfp4 nvfp4_4over6 nvfp4_ds_mla turboquant_3bit_nc
    turboquant_4bit_nc turboquant_k3v4_nc turboquant_k8v4 ultraquant_4bit
--kv-cache-dtype-skip-layers text+
--kv-cache-memory-bytes maybe-size
--kv-cache-metrics --no-kv-cache-metrics switch
--kv-cache-metrics-sample number
--kv-events-config maybe-object
--kv-offloading-backend text = lmcache native
--kv-offloading-size maybe-number
--kv-sharing-fast-prefill --no-kv-sharing-fast-prefill switch
--kv-transfer-config maybe-object
--language-model-only --no-language-model-only switch
--limit-mm-per-prompt json
--linear-backend word = aiter auto b12x conch cutlass deep_gemm emulation exllama fbgemm flashinfer_b12x
    flashinfer_cudnn flashinfer_cutedsl flashinfer_cutlass flashinfer_trtllm humming machete marlin torch triton
    xpu xpu_woq
--load-format text
--log-config-file text
--log-error-stack --no-log-error-stack switch
--log-level text = CRITICAL ERROR WARNING INFO DEBUG NOTSET
--logging-config object
--logits-processors maybe-text+
--logprobs-mode text = processed_logits processed_logprobs raw_logits raw_logprobs
--long-prefill-token-threshold whole
--long-prefill-token-threshold-adaptive --no-long-prefill-token-threshold-adaptive switch
--lora-dtype text = auto bfloat16 float16
--lora-modules adapter+
--lora-target-modules maybe-text+
--mamba-backend text
--mamba-block-size maybe-whole
--mamba-cache-dtype text = auto bfloat16 float16 float32
--mamba-cache-mode text = align none
--mamba-cache-philox-rounds whole
--mamba-ssm-cache-dtype text = auto bfloat16 float16 float32
--mamba-ssu-algorithm maybe-text = auto horizontal simple vertical
--master-addr text
--master-port whole
--max-cpu-loras maybe-whole
--max-cudagraph-capture-size whole
--max-log-len maybe-whole
--max-logprobs whole
--max-lora-cls-labels maybe-whole
--max-lora-rank whole = 1 8 16 32 64 128 256 320 512
--max-loras whole
--max-model-len size-or-auto
--max-num-active-seqs maybe-whole
--max-num-batched-tokens size
--max-num-queued-reqs maybe-whole
--max-num-queued-tokens maybe-size
--max-num-scheduled-tokens maybe-size
--max-num-seqs whole
--max-parallel-loading-workers maybe-whole
--media-io-kwargs json
--middleware text
--mm-device-do-normalize --no-mm-device-do-normalize switch
--mm-encoder-attn-backend maybe-text
--mm-encoder-attn-dtype maybe-text = fp8
--mm-encoder-fp8-scale-path maybe-text
--mm-encoder-fp8-scale-save-margin number
--mm-encoder-fp8-scale-save-path maybe-text
--mm-encoder-only --no-mm-encoder-only switch
--mm-encoder-tp-mode text = data weights
--mm-hasher-algorithm text = blake3 sha256 sha512
--mm-ipc-gpu-memory-gb number
--mm-processor-cache-gb number
--mm-processor-cache-type text = lru shm
--mm-processor-device text = auto cpu
--mm-processor-kwargs maybe-json
--mm-shm-cache-max-object-size-mb whole
--mm-tensor-ipc text = direct_rpc torch_shm
--model text
--model-class-overrides json
--model-impl text
--model-loader-extra-config text-or-json
--moe-backend word = aiter aiter_mega_moe aiter_triton_mxfp4_bf16 auto b12x batched_triton cutlass deep_gemm
    deep_gemm_mega_moe emulation flashinfer_b12x flashinfer_cutedsl flashinfer_cutlass flashinfer_moe_ep_cutedsl
    flashinfer_moe_ep_mega_deep_gemm flashinfer_trtllm flydsl hpc humming marlin rdna3 triton triton_unfused
--nnodes -n whole
--node-rank -r whole
--num-gpu-blocks-override maybe-whole
--numa-bind --no-numa-bind switch
--numa-bind-cpus maybe-text+
--numa-bind-nodes maybe-whole+
--offload-backend text = auto prefetch uva
--offload-group-size whole
--offload-num-in-group whole
--offload-params text+
--offload-prefetch-step whole
--optimization-level text
--otlp-traces-endpoint maybe-text
--override-generation-config json
--per-request-spec-decode-metrics text = detailed none summary
--performance-mode text = balanced interactivity throughput
--pipeline-parallel-size -pp whole
--pooler-config maybe-object
--port whole
--prefill-context-parallel-size -pcp whole
--prefill-schedule-interval whole
--prefix-cache-retention-interval maybe-whole
--prefix-caching-hash-algo text = sha256 sha256_cbor xxhash xxhash_cbor
--prefix-match-unit maybe-whole
--profiler-config object
--pt-load-map-location text-or-json
--quantization -q maybe-text
--quantization-config maybe-object
--ray-workers-use-nsight --no-ray-workers-use-nsight switch
--reasoning-config maybe-object
--reasoning-parser text ~ cohere_command3 cohere_command4 deepseek_r1 deepseek_v3 deepseek_v4 deepseek_v41
    ernie45 gemma4 glm45 glm47 granite granite_thinking_parser hf holo2 hunyuan_a13b hy_v3 hy_v4 inkling
    k2_horizon kimi_k2 kimi_k3 ling3 mimo minicpmv minimax_m2 minimax_m2_append_think minimax_m3 mistral
    muse_glimmer nemotron_v3 olmo3 openai_gptoss plamo3 poolside_v1 qwen3 seed_oss step3 step3p5
--reasoning-parser-plugin text
--renderer-num-workers whole
--replayssm-buffer-len whole
--response-role text
--return-sampling-mask --no-return-sampling-mask switch
--return-tokens-as-token-ids --no-return-tokens-as-token-ids switch
--revision maybe-text
--root-path maybe-text
--runner text = auto draft generate pooling
--safetensors-load-strategy maybe-text = eager lazy prefetch torchao
--safetensors-prefetch-block-size size
--safetensors-prefetch-num-threads whole
--scheduler-cls maybe-text
--scheduler-reserve-full-isl --no-scheduler-reserve-full-isl switch
--scheduling-policy text = fcfs priority
--seed whole
--served-model-name maybe-text+
--show-hidden-metrics-for-version maybe-text
--shutdown-timeout whole
--skip-mm-profiling --no-skip-mm-profiling switch
--skip-tokenizer-init --no-skip-tokenizer-init switch
--sleep-mode-offload-cudagraph --no-sleep-mode-offload-cudagraph switch
--sleep-preserve-parameter-names text+
--sparse-indexer-topk-backend word = aiter auto cooperative deep_select flashinfer per_row persistent torch
--spec-method maybe-text = bailing_hybrid_mtp bailing_hybrid_v3_mtp custom_class deepseek_mtp dflash
    dots3_note_mtp draft_model dspark eagle eagle3 ernie_mtp exaone4_5_mtp exaone_moe_mtp extract_hidden_states
    gemma4_mtp glm4_moe_lite_mtp glm4_moe_mtp glm5_next_mtp glm_ocr_mtp hy_v3_mtp hy_v4_mtp inkling_mtp
    kimi_k3_mtp longcat_flash_mtp medusa mimo_mtp mimo_v2_mtp minimax_m3_mtp mlp_speculator mtp nemotron_h_mtp
    ngram ngram_gpu pangu_ultra_moe_mtp qwen3_5_mtp qwen3_next_mtp qwen4_exp_mtp step3p5_mtp suffix
--spec-model maybe-text
--spec-tokens whole
--specialize-active-lora --no-specialize-active-lora switch
--speculative-config -sc maybe-json
--sse-keep-alive-interval whole
--ssl-ca-certs maybe-text
--ssl-cert-reqs whole
--ssl-certfile maybe-text
--ssl-ciphers maybe-text
--ssl-keyfile maybe-text
--stream-interval whole
--structured-outputs-config object
--swa-bounded-replay --no-swa-bounded-replay switch
--tensor-parallel-size -tp whole
--tokenizer text
--tokenizer-mode text
--tokenizer-revision maybe-text
--tokens-only --no-tokens-only switch
--tool-call-parser maybe-text ~ apertus cohere_command3 cohere_command4 deepseek_v3 deepseek_v31 deepseek_v32
    deepseek_v4 deepseek_v41 dots ernie45 functiongemma gemma4 gigachat3 glm45 glm47 granite granite-20b-fc
    granite4 hermes hf hunyuan_a13b hy_v3 hy_v4 inkling internlm jamba k2_horizon kimi_k2 kimi_k3 lfm2 ling3
    llama3_json llama4_json llama4_pythonic longcat mimo minicpm5 minimax_m2 minimax_m3 mistral muse_glimmer
    olmo3 openai phi4_mini_json plamo3 poolside_v1 pythonic qwen3_coder qwen3_json qwen3_xml seed_oss step3
    step3p5 xlam
--tool-parser-plugin text
--tool-server maybe-text
--tool-strict-level text = auto function parameter
--trust-remote-code --no-trust-remote-code switch
--trust-request-chat-template --no-trust-request-chat-template switch
--trust-request-mm-kwargs --no-trust-request-mm-kwargs switch
--ubatch-size whole
--uds maybe-text
--use-fp64-gumbel --no-use-fp64-gumbel switch
--use-replayssm --no-use-replayssm switch
--use-tqdm-on-load --no-use-tqdm-on-load switch
--uvicorn-log-level text = critical debug error info trace warning
--video-pruning-method text = evs vidcom2
--video-pruning-rate maybe-number
--watermark number
--watermark-config maybe-json
--weight-transfer-config maybe-object
--worker-cls text
--worker-extension-cls text
-h --help help
""",
    "0.33.0": """\
--disable-cascade-attn --enable-cascade-attn --no-disable-cascade-attn switch
--disable-chunked-mm-input --enable-chunked-mm-input --no-disable-chunked-mm-input switch
--disable-custom-all-reduce --enable-custom-all-reduce --no-disable-custom-all-reduce switch
--disable-fastapi-docs --enable-fastapi-docs --no-disable-fastapi-docs switch
--disable-hybrid-kv-cache-manager --enable-hybrid-kv-cache-manager --no-disable-hybrid-kv-cache-manager switch
--disable-nccl-for-dp-synchronization --enable-nccl-for-dp-synchronization
    --no-disable-nccl-for-dp-synchronization switch
--disable-sliding-window --enable-sliding-window --no-disable-sliding-window switch
--disable-uvicorn-access-log --enable-uvicorn-access-log --no-disable-uvicorn-access-log switch
--enable-auto-tool-choice --disable-auto-tool-choice --no-enable-auto-tool-choice switch
--enable-batch-sharded-sampling --disable-batch-sharded-sampling --no-enable-batch-sharded-sampling switch
--enable-chunked-prefill --disable-chunked-prefill --no-enable-chunked-prefill switch
--enable-cumem-allocator --disable-cumem-allocator --no-enable-cumem-allocator switch
--enable-dbo --disable-dbo --no-enable-dbo switch
--enable-elastic-ep --disable-elastic-ep --no-enable-elastic-ep switch
--enable-ep-weight-filter --disable-ep-weight-filter --no-enable-ep-weight-filter switch
--enable-eplb --disable-eplb --no-enable-eplb switch
--enable-expert-parallel -ep --disable-expert-parallel --no-enable-expert-parallel switch
--enable-fault-tolerance --disable-fault-tolerance --no-enable-fault-tolerance switch
--enable-flash-late-interaction --disable-flash-late-interaction --no-enable-flash-late-interaction switch
--enable-flashinfer-autotune --disable-flashinfer-autotune --no-enable-flashinfer-autotune switch
--enable-force-include-usage --disable-force-include-usage --no-enable-force-include-usage switch
--enable-hc-sp --disable-hc-sp --no-enable-hc-sp switch
--enable-layerwise-nvtx-tracing --disable-layerwise-nvtx-tracing --no-enable-layerwise-nvtx-tracing switch
--enable-log-deltas --disable-log-deltas --no-enable-log-deltas switch
--enable-log-outputs --disable-log-outputs --no-enable-log-outputs switch
--enable-log-requests --disable-log-requests --no-enable-log-requests switch
--enable-logging-iteration-details --disable-logging-iteration-details --no-enable-logging-iteration-details
    switch
--enable-lora --disable-lora --no-enable-lora switch
--enable-mamba-cache-stochastic-rounding --disable-mamba-cache-stochastic-rounding
    --no-enable-mamba-cache-stochastic-rounding switch
--enable-mamba-shared-prefix-checkpoint --disable-mamba-shared-prefix-checkpoint
    --no-enable-mamba-shared-prefix-checkpoint switch
--enable-mfu-metrics --disable-mfu-metrics --no-enable-mfu-metrics switch
--enable-mixed-moe-lora-format --disable-mixed-moe-lora-format --no-enable-mixed-moe-lora-format switch
--enable-mm-embeds --disable-mm-embeds --no-enable-mm-embeds switch
--enable-moe-shared-loras --disable-moe-shared-loras --no-enable-moe-shared-loras switch
--enable-nccl-comm-suspend --disable-nccl-comm-suspend --no-enable-nccl-comm-suspend switch
--enable-offline-docs --disable-offline-docs --no-enable-offline-docs switch
--enable-per-request-metrics --disable-per-request-metrics --no-enable-per-request-metrics switch
--enable-prefix-caching --disable-prefix-caching --no-enable-prefix-caching switch
--enable-prompt-embeds --disable-prompt-embeds --no-enable-prompt-embeds switch
--enable-prompt-tokens-details --disable-prompt-tokens-details --no-enable-prompt-tokens-details switch
--enable-request-id-headers --disable-request-id-headers --no-enable-request-id-headers switch
--enable-return-routed-experts --disable-return-routed-experts --no-enable-return-routed-experts switch
--enable-scale-out --disable-scale-out --no-enable-scale-out switch
--enable-server-load-tracking --disable-server-load-tracking --no-enable-server-load-tracking switch
--enable-shm-tensor-arena --disable-shm-tensor-arena --no-enable-shm-tensor-arena switch
--enable-sleep-mode --disable-sleep-mode --no-enable-sleep-mode switch
--enable-ssl-refresh --disable-ssl-refresh --no-enable-ssl-refresh switch
--enable-tokenizer-info-endpoint --disable-tokenizer-info-endpoint --no-enable-tokenizer-info-endpoint switch
--enable-tower-connector-lora --disable-tower-connector-lora --no-enable-tower-connector-lora switch
--enable-trace-replay --disable-trace-replay --no-enable-trace-replay switch
--gdn-prefill-backend text = flashinfer triton cutedsl aiter_flydsl sycl
--kv-cache-dtype text
--moe-backend word = aiter aiter_mega_moe aiter_triton_mxfp4_bf16 aiter_triton_mxfp4_mxfp4 auto b12x
    batched_triton cutlass deep_gemm deep_gemm_mega_moe emulation flashinfer_b12x flashinfer_cutedsl
    flashinfer_cutlass flashinfer_moe_ep_cutedsl flashinfer_moe_ep_mega_deep_gemm flashinfer_trtllm flydsl hpc
    humming marlin rdna3 triton triton_unfused
--monokernel --no-monokernel switch
--reasoning-effort-map json
--reasoning-parser text ~ beam cohere_command3 cohere_command4 deepseek_r1 deepseek_v3 deepseek_v4 deepseek_v41
    ernie45 gemma4 glm45 glm47 granite granite_thinking_parser hf holo2 hunyuan_a13b hy_v3 hy_v4 inkling
    k2_horizon kimi_k2 kimi_k3 ling3 mimo minicpmv minimax_m2 minimax_m2_append_think minimax_m3 mistral muse
    muse_glimmer musespark1x nemotron_v3 olmo3 openai_gptoss plamo3 poolside_v1 qwen3 seed_oss step3 step3p5
    step5 none
--sleep-mode-backend text
--spec-method maybe-text = bailing_hybrid_mtp bailing_hybrid_v3_mtp custom_class deepseek_mtp dflash
    dots3_note_mtp draft_model dspark eagle eagle3 ernie_mtp exaone4_5_mtp exaone_moe_mtp extract_hidden_states
    gemma4_mtp glm4_moe_lite_mtp glm4_moe_mtp glm5_next_mtp glm_ocr_mtp hy_v3_mtp hy_v4_mtp inkling_mtp
    kimi_k3_mtp longcat_flash_mtp mimo_mtp mimo_v2_mtp minimax_m3_mtp mtp nemotron_h_mtp ngram ngram_gpu
    pangu_ultra_moe_mtp qwen3_5_mtp qwen3_next_mtp qwen4_exp_mtp step3p5_mtp step5_mtp suffix
--tool-call-parser maybe-text ~ apertus beam cohere_command3 cohere_command4 deepseek_v3 deepseek_v31
    deepseek_v32 deepseek_v4 deepseek_v41 dots ernie45 functiongemma gemma4 gigachat3 glm45 glm47 granite
    granite-20b-fc granite4 hermes hf hunyuan_a13b hy_v3 hy_v4 inkling internlm jamba k2_horizon kimi_k2 kimi_k3
    lfm2 ling3 llama3_json llama4_json llama4_pythonic longcat mimo minicpm5 minimax_m2 minimax_m3 mistral muse
    muse_glimmer musespark1x olmo3 openai phi4_mini_json plamo3 poolside_v1 pythonic qwen3_coder qwen3_json
    qwen3_xml seed_oss step3 step3p5 step5 xlam
--tool-strict-level maybe-text = auto function parameter
--watchdog-config object
""",
}

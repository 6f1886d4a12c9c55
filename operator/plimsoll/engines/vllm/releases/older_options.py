"""Options of ``vllm serve`` that releases before the first recorded one have, and that it lacks.

Made by scripts/older_options.py from ``engine/arg_utils.py`` and ``entrypoints/openai/cli_args.py`` in the wheels of
0.8.0 to 0.31.0. The form is that of :mod:`~plimsoll.engines.vllm.releases.serve_options`, without choices: these
differ between the releases.
"""

from __future__ import annotations

OLDER_OPTIONS = """\
--calculate-kv-scales --no-calculate-kv-scales switch
--cuda-graph-sizes whole+
--device text
--disable-async-output-proc switch
--disable-frontend-multiprocessing --no-disable-frontend-multiprocessing switch
--disable-log-requests --no-disable-log-requests switch
--disable-logprobs-during-spec-decoding text?
--disable-mm-preprocessor-cache switch
--enable-bf16x3-router-gemm --no-enable-bf16x3-router-gemm switch
--enable-lora-bias --no-enable-lora-bias switch
--enable-mamba-fine-grained-prefix-cache --no-enable-mamba-fine-grained-prefix-cache switch
--enable-multimodal-encoder-data-parallel switch
--enable-prompt-adapter switch
--enable-reasoning --no-enable-reasoning switch
--eplb-log-balancedness --no-eplb-log-balancedness switch
--eplb-step-interval whole
--eplb-window-size whole
--expand-tools-even-if-tool-choice-none switch
--guided-decoding-backend text
--guided-decoding-disable-additional-properties --no-guided-decoding-disable-additional-properties switch
--guided-decoding-disable-any-whitespace --no-guided-decoding-disable-any-whitespace switch
--guided-decoding-disable-fallback --no-guided-decoding-disable-fallback switch
--logits-processor-pattern text
--long-lora-scaling-factors number+
--lora-extra-vocab-size whole
--max-long-partial-prefills whole
--max-num-partial-prefills whole
--max-prompt-adapter-token whole
--max-prompt-adapters whole
--max-seq-len-to-capture whole
--multi-step-stream-outputs --no-multi-step-stream-outputs switch
--ngram-prompt-lookup-max whole
--ngram-prompt-lookup-min whole
--num-lookahead-slots whole
--num-redundant-experts whole
--num-scheduler-steps whole
--num-speculative-tokens whole
--override-attention-dtype text
--override-neuron-config text
--override-pooler-config text
--preemption-mode text
--prompt-adapters text+
--qlora-adapter-name-or-path text
--rope-scaling text
--rope-theta number
--scheduler-delay-factor number
--spec-decoding-acceptance-method text
--speculative-disable-by-batch-size whole
--speculative-disable-mqa-scorer switch
--speculative-draft-tensor-parallel-size -spec-draft-tp whole
--speculative-max-model-len whole
--speculative-model text
--speculative-model-quantization text
--swap-space number
--task text
--tokenizer-pool-extra-config text
--tokenizer-pool-size whole
--tokenizer-pool-type text
--typical-acceptance-sampler-posterior-alpha number
--typical-acceptance-sampler-posterior-threshold number
--use-gpu-for-pooling-score --no-use-gpu-for-pooling-score switch
--use-v2-block-manager switch
"""

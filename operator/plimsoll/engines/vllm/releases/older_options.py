"""Options of ``vllm serve`` that releases before the recorded one have, and that it does not have any more.

Names from vLLM's ``engine/arg_utils.py`` and ``entrypoints/openai/cli_args.py``, 0.8 to 0.20. The form is that of
:mod:`~plimsoll.engines.vllm.releases.serve_options`, without choices: these differ between the releases.
"""

from __future__ import annotations

OLDER_OPTIONS = """\
--calculate-kv-scales --no-calculate-kv-scales switch
--cuda-graph-sizes whole+
--device text
--disable-async-output-proc switch
--disable-frontend-multiprocessing switch
--disable-log-requests switch
--disable-mm-preprocessor-cache switch
--enable-prompt-adapter switch
--enable-reasoning switch
--full-cuda-graph switch
--guided-decoding-backend text
--guided-decoding-disable-additional-properties switch
--guided-decoding-disable-any-whitespace switch
--guided-decoding-disable-fallback switch
--long-lora-scaling-factors text+
--long-prefill-token-threshold whole
--lora-extra-vocab-size whole
--max-long-partial-prefills whole
--max-num-partial-prefills whole
--max-seq-len-to-capture whole
--multi-step-stream-outputs text
--num-lookahead-slots whole
--num-scheduler-steps whole
--num-speculative-tokens whole
--override-neuron-config text
--override-pooler-config text
--preemption-mode text
--rope-scaling text
--rope-theta number
--scheduler-delay-factor number
--speculative-draft-tensor-parallel-size -spec-draft-tp whole
--speculative-model text
--swap-space number
--task text
--tokenizer-pool-extra-config text
--tokenizer-pool-size whole
--tokenizer-pool-type text
--use-v2-block-manager switch
--worker-use-ray switch
"""

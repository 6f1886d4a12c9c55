"""vLLM's memory law: one module per term, summed per rank in :mod:`plimsoll.engines.vllm.memory.estimate`."""

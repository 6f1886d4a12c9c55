"""What does vLLM itself say a model weighs and caches? Its own classes answer, on no GPU and without weights.

A ``config.json`` and a way to split it go in; parameters and bytes of one rank, and the KV cache that vLLM's own code
plans, come out. The model class of the pinned release is built on PyTorch's *meta* device, which has shapes and types
and no memory, while the platform claims to be one GPU (:data:`testbed.engine.oracle.questions.Card`).

What it does not see: anything that only happens on the device (repacking of quantized weights after loading, profiling,
CUDA graphs), and packages that the environment lacks (FlashInfer, so backends that need it are never chosen).
"""

"""The KV cache of one rank: vLLM's layout of a model's caches in pages, blocks and groups.

vLLM keeps one pool of blocks for all layers. A layer keeps a page in a block (:mod:`.pages`). The attention backend or
a recurrent state decides the number of tokens of a block (:mod:`.blocks`). Layers share block ids in groups
(:mod:`.groups`, :mod:`.packed`). A request holds blocks in every group (:mod:`.layout`).
"""

from plimsoll.engines.vllm.memory.kv_cache.layout import Group, KvLayout, kv_layout
from plimsoll.engines.vllm.memory.kv_cache.packed import Packing

__all__ = ["Group", "KvLayout", "Packing", "kv_layout"]

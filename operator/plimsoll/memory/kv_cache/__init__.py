"""The KV cache of one rank: what vLLM makes of a model's caches, in pages, blocks and groups.

vLLM keeps one pool of blocks for all layers. A layer keeps a page in a block (:mod:`.pages`); a block has as many
tokens as the attention backend likes, or as a recurrent state needs (:mod:`.blocks`); layers share block ids in groups
(:mod:`.groups`, :mod:`.packed`); a request holds blocks in every group (:mod:`.layout`).
"""

from plimsoll.memory.kv_cache.layout import Group, KvLayout, kv_layout
from plimsoll.memory.kv_cache.packed import Packing

__all__ = ["Group", "KvLayout", "Packing", "kv_layout"]

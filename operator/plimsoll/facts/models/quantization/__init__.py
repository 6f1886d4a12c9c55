"""How a checkpoint's weights are stored, module by module, the way the engine decides it."""

from plimsoll.facts.models.quantization.online import ONLINE, TYPICAL
from plimsoll.facts.models.quantization.rule import StorageRule, overlooked_remarks, storage_rule

__all__ = ["ONLINE", "TYPICAL", "StorageRule", "overlooked_remarks", "storage_rule"]

"""Find how each module of a checkpoint is stored, by the engine's own rules."""

from plimsoll.facts.models.quantization.formats import ONLINE, TYPICAL
from plimsoll.facts.models.quantization.rule import StorageRule, quantization_remarks, storage_rule

__all__ = ["ONLINE", "TYPICAL", "StorageRule", "quantization_remarks", "storage_rule"]

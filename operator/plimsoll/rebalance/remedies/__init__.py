"""The remedies of the live loop. Each one is a module in this folder and an entry here."""

from plimsoll.rebalance.remedies.move import move, move_for_price, move_for_promise
from plimsoll.rebalance.remedies.protocol import Ask, Offer, Remedy
from plimsoll.rebalance.remedies.replace import replace_replica
from plimsoll.rebalance.remedies.retune import retune, retune_step
from plimsoll.rebalance.remedies.scale import add_replicas, remove_replicas

REMEDIES: tuple[Remedy, ...] = (
    replace_replica,
    retune,
    retune_step,
    add_replicas,
    remove_replicas,
    move,
    move_for_promise,
    move_for_price,
)
"""The remedies in the order of preference. They stand here as rows: to find modules would be I/O."""

__all__ = ["REMEDIES", "Ask", "Offer", "Remedy"]
